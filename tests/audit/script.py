"""A log as the service would have written it: what is seen is scripted, what is decided comes from the real fleet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

from controlplane.controllers.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    ClusterConnectFailed,
    ClusterLost,
    cluster_stream,
)
from controlplane.controllers.connectivity.local_connection import service_started
from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.events import EffectFailed
from controlplane.job_kinds import JOB_KINDS, adapters_for
from controlplane.kube.conditions import Condition
from controlplane.kube.kinds import (
    JOBS,
    JOBSETS,
    WORKLOADS,
)
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append, Event, NewEvent, Recorded
from controlplane.log.postgres import PostgresLog
from tests.multikueue.scene import HOME_KINDS as HOME

START = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = MultiKueuePolicy(adapters=adapters_for(JOB_KINDS))


class Script:
    """Takes down events; `recorded` is the log, `appended` what has to be appended to make it."""

    def __init__(self, *workers: str) -> None:
        self.now = START
        self.fleet = MultiKueueController(POLICY, "test")
        self.appended: list[NewEvent] = []
        self.recorded: list[Recorded] = []
        self._versions: dict[str, int] = {}
        self._rv = 0
        self.put(service_started(1, "test", "1.0"))
        kinds = [kind.name for kind in HOME]
        self.put(at(MANAGEMENT, ClusterConnected(kinds=kinds, incarnation="i-home", server_version="v1.35.0")))
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "config"}
        controller = POLICY.controller_name
        self.put(
            NewEvent(
                stream="admissioncheck/mk",
                event=observations.AdmissionCheckObserved(
                    name="mk", uid="ac", resource_version="1", controller_name=controller, parameters=parameters
                ),
            )
        )
        config = observations.MultiKueueConfigObserved(
            name="config", uid="cf", resource_version="1", clusters=list(workers)
        )
        self.put(NewEvent(stream="multikueueconfig/config", event=config))
        for name in workers:
            self.put(
                NewEvent(
                    stream=cluster_stream(name),
                    event=observations.MultiKueueClusterObserved(
                        name=name, uid=f"c-{name}", resource_version="1", location=name
                    ),
                    cluster=MANAGEMENT,
                )
            )
            self.connect(name)

    def put(self, new: NewEvent) -> Script:
        self.now += timedelta(seconds=1)
        version = self._versions[new.stream] = self._versions.get(new.stream, 0) + 1
        recorded = Recorded(
            position=len(self.recorded) + 1,
            stream=new.stream,
            version=version,
            event=new.event,
            cluster=new.cluster,
            caused_by=new.caused_by,
            recorded_at=self.now,
        )
        self.appended.append(new)
        self.recorded.append(recorded)
        self.fleet.fold(recorded)
        return self

    def rv(self) -> str:
        self._rv += 1
        return str(self._rv)

    def connect(self, name: str) -> Script:
        kinds = [WORKLOADS.name, JOBS.name, JOBSETS.name]
        return self.put(at(name, ClusterConnected(kinds=kinds, incarnation=f"i-{name}", server_version="v1.35.0")))

    def lose(self, name: str) -> Script:
        self.put(at(name, ClusterLost(reason="ProbeFailed", message="no route to host")))
        return self.put(at(name, ClusterConnectFailed(reason="Unreachable", message="connection refused", attempt=1)))

    def workload(self, name: str, *, job: str = "", namespace: str = "default") -> Life:
        return Life(self, namespace, name, job or name.removesuffix("-0a1b2"))


class Life:
    """One Workload of one Job: what is seen of it; `decide` is one pass of the service over it."""

    def __init__(self, script: Script, namespace: str, name: str, job: str) -> None:
        self.script, self.namespace, self.name, self.job_name = script, namespace, name, job
        self.stream, self.job_stream = f"workload/{namespace}/{name}", f"job/{JOBS.name}/{namespace}/{job}"
        self.local: dict[str, Any] = {}
        self.conditions: dict[tuple[str, str], Condition] = {}
        self.uid, self.job_uid = f"uid-{name}", f"uid-{job}"

    def put(self, event: Event, cluster: str = MANAGEMENT, stream: str = "") -> Life:
        self.script.put(NewEvent(stream=stream or self.stream, event=event, cluster=cluster))
        return self

    def decide(self) -> Life:
        for new in self.script.fleet.decide(self.stream, self.script.now).events:
            self.script.put(new)
        return self

    def identity(self, uid: str) -> dict[str, Any]:
        return {"namespace": self.namespace, "name": self.name, "uid": uid, "resource_version": self.script.rv()}

    def _stamped(self, cluster: str, given: dict[str, Any]) -> list[Condition]:
        for kind, value in given.items():
            reason, message = value if isinstance(value, tuple) else ("Test", "")
            status = "False" if value is False or (kind == "QuotaReserved" and reason == "Pending") else "True"
            at_ = self.script.now.strftime("%Y-%m-%dT%H:%M:%SZ")
            self.conditions[cluster, kind] = Condition(
                type=kind, status=status, reason=reason, message=message, last_transition_time=at_
            )
        return [condition for (where, _), condition in self.conditions.items() if where == cluster]

    def job(self, **fields: Any) -> Life:
        self.local_job = {**getattr(self, "local_job", {"suspended": True, "status": "00"}), **fields}
        event = observations.JobObserved(
            **{**self.identity(self.job_uid), "name": self.job_name},
            kind=JOBS.name,
            managed_by=self.local_job.get("managed_by", POLICY.controller_name),
            template="aa",
            **{key: value for key, value in self.local_job.items() if key != "managed_by"},
        )
        return self.put(event, stream=self.job_stream)

    def job_gone(self) -> Life:
        event = observations.JobGone(namespace=self.namespace, name=self.job_name, uid=self.job_uid, kind=JOBS.name)
        return self.put(event, stream=self.job_stream)

    def seen(self, conditions: dict[str, Any] | None = None, **fields: Any) -> Life:
        check = fields.pop("check", self.local.get("check", "Pending"))
        self.local = {**self.local, **fields, "check": check}
        rest = {key: value for key, value in self.local.items() if key != "check"}
        checks = rest.pop(
            "checks",
            [observations.CheckState(name="mk", state=check, last_transition_time=self.script.now.isoformat())],
        )
        event = observations.WorkloadObserved(
            **self.identity(self.uid),
            owner=observations.Owner(api_version="batch/v1", kind="Job", name=self.job_name, uid=self.job_uid),
            template="bb",
            spec_key="spec",
            queue_name="lq",
            cluster_queue="cq",
            conditions=self._stamped(MANAGEMENT, conditions or {}),
            checks=checks,
            **rest,
        )
        return self.put(event)

    def gone(self) -> Life:
        return self.put(observations.WorkloadGone(namespace=self.namespace, name=self.name, uid=self.uid))

    def clone(self, cluster: str, conditions: dict[str, Any] | None = None, **fields: Any) -> Life:
        event = observations.CloneObserved(
            **self.identity(f"uid-{self.name}-{cluster}"),
            spec_key="spec",
            conditions=self._stamped(cluster, conditions or {}),
            **fields,
        )
        return self.put(event, cluster)

    def clone_gone(self, cluster: str) -> Life:
        self.conditions = {key: value for key, value in self.conditions.items() if key[0] != cluster}
        return self.put(
            observations.CloneGone(namespace=self.namespace, name=self.name, uid=f"uid-{self.name}-{cluster}"), cluster
        )

    def remote_job(self, cluster: str, **fields: Any) -> Life:
        identity = {**self.identity(f"{self.job_uid}-{cluster}"), "name": self.job_name}
        return self.put(
            observations.RemoteJobObserved(
                **{**identity, "kind": JOBS.name, "prebuilt": self.name, "status": "00", **fields}
            ),
            cluster,
        )

    def remote_job_gone(self, cluster: str) -> Life:
        uid = f"{self.job_uid}-{cluster}"
        return self.put(
            observations.RemoteJobGone(namespace=self.namespace, name=self.job_name, uid=uid, kind=JOBS.name), cluster
        )

    def refused(self, target: str, action: str, code: int, message: str = "no", failures: int = 1) -> Life:
        """An API server says no to a write."""
        event = EffectFailed(
            target=target,
            action=action,
            code=code,
            error=HTTPStatus(code).phrase.replace(" ", ""),
            message=message,
            failures=failures,
            retry_at=self.script.now,
        )
        return self.put(event, target.partition("/")[0])

    # --- longer ways ---

    def offered(self, *clusters: str) -> Life:
        self.job().seen({"QuotaReserved": ("Pending", "the queue is full")}).seen({"QuotaReserved": True}).decide()
        self.seen(nominated=list(clusters)).decide()
        for cluster in clusters:
            self.clone(cluster)
        return self

    def runs(self, winner: str, *clusters: str) -> Life:
        self.offered(*(clusters or (winner,)))
        return self.installed(winner, *clusters)

    def installed(self, winner: str, *clusters: str) -> Life:
        self.clone(winner, {"QuotaReserved": True}).clone(winner, {"Admitted": True}).decide()
        for cluster in clusters:
            if cluster != winner:
                self.clone_gone(cluster)
        self.decide().remote_job(winner, suspended=True).decide()
        self.seen({"Admitted": True}, check="Ready", cluster_name=winner, nominated=[]).decide()
        self.job(suspended=False).remote_job(winner, status="11", inactive=False).decide()
        return self.job(status="11", inactive=False)

    def finishes(self, winner: str) -> Life:
        self.remote_job(winner, status="22", finished=True).decide().job(status="22", finished=True, inactive=True)
        self.clone(winner, {"Finished": ("Succeeded", "Job finished successfully")})
        self.script.now += timedelta(seconds=1)  # Kueue's core might have finished it first
        self.decide()
        self.seen({"Finished": ("Succeeded", "Job finished successfully")}).decide()
        return self.remote_job_gone(winner).decide().clone_gone(winner).decide()

    def drained(self) -> Life:
        """Kueue evicted it for our Retry and gave its quota back."""
        self.seen({"Evicted": ("AdmissionCheck", "At least one check is in Retry")}, check="Pending", cluster_name="")
        return self.seen({"QuotaReserved": ("Pending", "requeued"), "Admitted": False}).decide()

    def again(self) -> Life:
        """Kueue reserves quota anew."""
        return self.seen({"QuotaReserved": True, "Evicted": False}).decide()


def at(cluster: str, event: Event) -> NewEvent:
    return NewEvent(stream=cluster_stream(cluster), event=event, cluster=cluster)


async def write(url: str, events: list[NewEvent], log: str = "main", types: Any = MultiKueueController.types) -> None:
    """Append events to a log of a database, one commit for all."""
    async with PostgresLog(Database(url), Codec(types), log=log) as keeper:
        await keeper.take_epoch("test")
        await keeper.append(Append(events))
