"""Drives the pure core: events in, decisions out, with the shortest way to record what was seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.controllers.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    ClusterDisconnected,
    ClusterLost,
    cluster_stream,
)
from controlplane.controllers.connectivity.local_connection import connectivity_event
from controlplane.controllers.multikueue import events, observations
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.job_kinds import JOB_KINDS, adapters_for
from controlplane.kube.conditions import Condition
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    JOBS,
    JOBSETS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
)
from controlplane.log.event import Event, Recorded
from tests.multikueue.anticipating import fold_as_anticipated

START = datetime(2026, 1, 1, tzinfo=UTC)
NS, WL, JOB = "default", "job-train-12345", "train"
STREAM, JOB_STREAM = f"workload/{NS}/{WL}", f"job/{JOBS.name}/{NS}/{JOB}"
CHECK = "multikueue"
HOME_KINDS = [ADMISSION_CHECKS, MULTIKUEUE_CONFIGS, MULTIKUEUE_CLUSTERS, WORKLOADS]
HOME_KINDS += [one.kind for one in JOB_KINDS.values()]


def stamp(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


class Scene:
    """A fleet with a management cluster in view, an AdmissionCheck over some workers, and one Workload of one Job."""

    def __init__(self, *workers: str, policy: dict[str, Any] | None = None, connected: bool = True) -> None:
        self.now = START
        dispatched = [name for name, kind in JOB_KINDS.items() if kind.dispatched]
        self.fleet = MultiKueueController(MultiKueuePolicy(adapters=adapters_for(dispatched), **(policy or {})), "test")
        self.position = 0
        self.versions: dict[str, int] = {}
        self.rv = 100
        self.decided: list[Event] = []
        self.wl, self.stream = WL, STREAM
        self._slices: dict[str, tuple[dict[str, Any], ...]] = {}
        self._local: dict[str, Any] = {}
        self._job: dict[str, Any] = {}
        self._clones: dict[str, dict[str, Any]] = {}
        self._remote_jobs: dict[str, dict[str, Any]] = {}
        self.fold(cluster_stream(MANAGEMENT), ClusterConnected(kinds=[kind.name for kind in HOME_KINDS]), MANAGEMENT)
        self.check()
        self.config(*workers)
        for name in workers:
            self.cluster(name)
            if connected:
                self.connect(name)

    def on(self, name: str = WL) -> Scene:
        """From here on another Workload of the same job is meant: of an elastic one, another slice."""
        self._slices[self.wl] = (self._local, self._clones, self._remote_jobs)
        self._local, self._clones, self._remote_jobs = self._slices.get(name, ({}, {}, {}))
        self.wl, self.stream = name, f"workload/{NS}/{name}"
        return self

    # --- the log ---

    def refuses(
        self, decision: events.WorkloadWrite, code: int, error: str, pause: timedelta, failures: int = 1
    ) -> None:
        """An API server says no to a write of the Workload, for the first time if nothing else is said."""
        refused = events.EffectFailed(
            target=decision.target,
            action=type(decision).__name__,
            code=code,
            error=error,
            message="not now",
            failures=failures,
            retry_at=self.now + pause,
        )
        self.fold(self.stream, refused)

    def fold(self, stream: str, event: Event, cluster: str = MANAGEMENT, caused_by: int = 0) -> None:
        self.position += 1
        self.versions[stream] = self.versions.get(stream, 0) + 1
        recorded = Recorded(
            position=self.position,
            stream=stream,
            version=self.versions[stream],
            event=event,
            cluster=cluster,
            caused_by=caused_by,
            recorded_at=self.now,
        )
        self.told = fold_as_anticipated(self.fleet.index, [recorded], self.fleet.fold)

    def tick(self, **delta: float) -> Scene:
        self.now += timedelta(**delta)
        return self

    @property
    def state(self) -> WorkloadState:
        return self.fleet.index.workloads[self.stream]

    def decide(self, stream: str = "") -> list[Event]:
        """One pass; its decisions are recorded and returned."""
        stream = stream or self.stream
        decided = self.fleet.decide(stream, self.now)
        for new in decided.events:
            self.fold(stream, new.event, new.cluster)
        self.decided += [new.event for new in decided.events]
        self.wake = decided.wake
        return [new.event for new in decided.events]

    def names(self, stream: str = "") -> list[str]:
        """One pass; the types of its decisions, with their cluster if it is a worker's."""
        return [describe(event) for event in self.decide(stream)]

    # --- what is seen ---

    def _rv(self) -> str:
        self.rv += 1
        return str(self.rv)

    def check(self, controller: str = "kueue.x-k8s.io/multikueue", **parameters: str) -> None:
        given = parameters or {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "config"}
        event = observations.AdmissionCheckObserved(
            name=CHECK,
            uid="ac",
            resource_version=self._rv(),
            controller_name=controller,
            parameters=given,
            generation=1,
        )
        self.fold(f"admissioncheck/{CHECK}", event)

    def config(self, *clusters: str) -> None:
        event = observations.MultiKueueConfigObserved(
            name="config", uid="cf", resource_version=self._rv(), clusters=list(clusters)
        )
        self.fold("multikueueconfig/config", event)

    def cluster(self, name: str, **more: Any) -> None:
        event = observations.MultiKueueClusterObserved(
            name=name, uid=f"mkc-{name}", resource_version=self._rv(), location=name, generation=1, **more
        )
        self.fold(cluster_stream(name), event)

    def connect(self, name: str, kinds: tuple[Any, ...] = (WORKLOADS, JOBS, JOBSETS)) -> Scene:
        new = connectivity_event(name, ClusterConnected(kinds=[kind.name for kind in kinds], incarnation=f"i-{name}"))
        self.fold(new.stream, new.event, name)
        return self

    def lose(self, name: str) -> Scene:
        self.fold(cluster_stream(name), ClusterLost(reason="Unreachable", message="connection refused"), name)
        return self

    def disconnect(self, name: str) -> Scene:
        self.fold(cluster_stream(name), ClusterDisconnected(reason="Removed"), name)
        return self

    def job(self, **changes: Any) -> Scene:
        self._job = {
            "managed_by": "kueue.x-k8s.io/multikueue",
            "suspended": True,
            "template": "aa" * 32,
            "status": "00" * 32,
            **self._job,
            **changes,
        }
        event = observations.JobObserved(
            namespace=NS, name=JOB, uid="job-uid", kind=JOBS.name, resource_version=self._rv(), **self._job
        )
        self.fold(JOB_STREAM, event)
        return self

    def workload(self, conditions: dict[str, Any] | None = None, **changes: Any) -> Scene:
        """Conditions are `True`/`False` or (status, reason, message); a check's state is `check="Ready"`."""
        known = {**self._local.get("conditions", {}), **(conditions or {})}
        check = changes.pop("check", self._local.get("check", "Pending"))
        retries = changes.pop("retry_count", self._local.get("retry_count", 0))
        self._local = {**self._local, **changes, "conditions": known, "check": check, "retry_count": retries}
        fields = {key: value for key, value in self._local.items() if key not in ("conditions", "check", "retry_count")}
        checks = fields.pop(
            "checks",
            [
                observations.CheckState(
                    name=CHECK, state=check, retry_count=retries, last_transition_time=stamp(self.now)
                )
            ],
        )
        event = observations.WorkloadObserved(
            **{
                "namespace": NS,
                "name": self.wl,
                "uid": "wl-uid" if self.wl == WL else f"uid-{self.wl}",
                "resource_version": self._rv(),
                "owner": observations.Owner(api_version="batch/v1", kind="Job", name=JOB, uid="job-uid"),
                "template": "bb" * 32,
                "spec_key": "spec-1",
                "cluster_queue": "cq",
                **fields,
                "conditions": [condition(kind, value, self.now) for kind, value in known.items()],
                "checks": checks,
            }
        )
        self.fold(self.stream, event)
        return self

    def gone(self) -> Scene:
        self.fold(self.stream, observations.WorkloadGone(namespace=NS, name=self.wl, uid=self.state.local.uid))
        return self

    def clone(self, cluster: str, conditions: dict[str, Any] | None = None, **changes: Any) -> Scene:
        before = self._clones.get(cluster, {})
        known = {**before.get("conditions", {}), **(conditions or {})}
        self._clones[cluster] = {**before, **changes, "conditions": known}
        fields = {key: value for key, value in self._clones[cluster].items() if key != "conditions"}
        event = observations.CloneObserved(
            **{
                "namespace": NS,
                "name": self.wl,
                "uid": f"clone-{cluster}",
                "resource_version": self._rv(),
                "spec_key": "spec-1",
                **fields,
                "conditions": [condition(kind, value, self.now) for kind, value in known.items()],
            }
        )
        self.fold(self.stream, event, cluster)
        return self

    def clone_gone(self, cluster: str) -> Scene:
        uid = self.state.remote(cluster).clone.uid
        self._clones.pop(cluster, None)
        self.fold(self.stream, observations.CloneGone(namespace=NS, name=self.wl, uid=uid), cluster)
        return self

    def absent(self, cluster: str) -> Scene:
        """The cluster was asked for the copy by its name, and does not have it."""
        absent = observations.CloneAbsent(namespace=NS, name=self.wl)
        self.fold(f"refused/{cluster}/{WORKLOADS.name}/{NS}/{self.wl}", absent, cluster)
        return self

    def remote_job(self, cluster: str, **changes: Any) -> Scene:
        known = self._remote_jobs.setdefault(cluster, {"suspended": True, "status": "00" * 32, "prebuilt": self.wl})
        known.update(changes)
        event = observations.RemoteJobObserved(
            **{
                "namespace": NS,
                "name": JOB,
                "uid": f"rjob-{cluster}",
                "kind": JOBS.name,
                "resource_version": self._rv(),
                **known,
            }
        )
        self.fold(self.stream, event, cluster)
        return self

    def remote_job_gone(self, cluster: str) -> Scene:
        self._remote_jobs.pop(cluster, None)
        event = observations.RemoteJobGone(namespace=NS, name=JOB, uid=f"rjob-{cluster}", kind=JOBS.name)
        self.fold(self.stream, event, cluster)
        return self

    # --- longer ways ---

    def reserved(self) -> Scene:
        return self.job().workload({"QuotaReserved": True})

    def nominated(self, *clusters: str) -> Scene:
        self.reserved()
        self.decide()
        return self.workload(nominated=list(clusters))

    def cloned(self, *clusters: str) -> Scene:
        self.nominated(*clusters)
        self.decide()
        for name in clusters:
            self.clone(name)
        return self

    def running(self, winner: str, *clusters: str) -> Scene:
        """Dispatched to the winner: Ready, admitted, unsuspended, its copy running."""
        self.cloned(*(clusters or (winner,)))
        self.clone(winner, {"Admitted": True, "QuotaReserved": True})
        self.decide()
        for name in clusters:
            if name != winner:
                self.clone_gone(name)
        self.decide()
        self.remote_job(winner)
        self.decide()
        self.workload({"Admitted": True}, check="Ready", cluster_name=winner, nominated=[])
        self.job(suspended=False)
        self.remote_job(winner, suspended=False, status="11" * 32, inactive=False)
        self.decided.clear()
        return self


def condition(kind: str, value: Any, now: datetime) -> Condition:
    """A condition of True, False, a reason, or (reason, message[, time[, status]])."""
    status, reason, message, at = "True", "Test", "", stamp(now)
    if value is False:
        status = "False"
    elif isinstance(value, str):
        reason = value
    elif isinstance(value, tuple):
        reason, message = value[0], value[1]
        at = (value[2] if len(value) > 2 else "") or at
        status = value[3] if len(value) > 3 else status
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=at)


def describe(event: Event) -> str:
    cluster = getattr(event, "cluster", "")
    where = "" if cluster in ("", MANAGEMENT) else f" {cluster}"
    of = f" {event.of}" if type(event).__name__ == "RemovalDecided" else ""
    return type(event).__name__.removesuffix("Decided") + of + where
