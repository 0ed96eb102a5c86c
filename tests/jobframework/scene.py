"""A management cluster without Kueue: a simulated API server, the job framework on a log, and the test in the place of
whoever admits Workloads.

In: jobs, flavors, conditions of Workloads. Out: what is on the cluster then, the log, the Kubernetes Events. Each write
is carried out as the loop would, by the request alone; `crash` loses what memory holds."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT, cluster_stream
from controlplane.controllers.jobframework.context import JobFrameworkPolicy
from controlplane.controllers.jobframework.controller import JobFrameworkController
from controlplane.controllers.jobframework.observe import CLASSES
from controlplane.job_kinds import JOB_KINDS, SIMULATED
from controlplane.kube.conditions import set_condition
from controlplane.kube.kinds import (
    EVENTS,
    JOBS,
    NAMESPACES,
    PODS_OF_SLICES,
    PODS_OF_TOPOLOGIES,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Json,
    Kind,
    Request,
    meta,
)
from controlplane.log.codec import Codec
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import ObjectChange, OpenWrite, WriteRefusal
from controlplane.simulation.apiserver.errors import ApiRefusal
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.controllers.behaviour import View
from controlplane.simulation.controllers.jobs import JobController, JobPace
from controlplane.simulation.kinds.base import served
from controlplane.simulation.kinds.nodes import NODE_KINDS
from controlplane.simulation.kueue.cluster import KUEUE_KINDS
from tests.simulation.kueue_cluster import ManualClock

NS, QUEUE = "default", "user-queue"
ADAPTERS = {one.kind: one for one in JOB_KINDS.values() if one.reconciled}
PARENTS = {one.kind: one for one in JOB_KINDS.values() if one.suspends_pods}
SETS = tuple(kind for kind, one in PARENTS.items() if one.grouped)
RUNTIMES = tuple(kind for one in ADAPTERS.values() for kind in one.runtimes)
TOPOLOGIES = (PODS_OF_TOPOLOGIES, PODS_OF_SLICES)
WATCHED = (NAMESPACES, WORKLOADS, RESOURCE_FLAVORS, *CLASSES, *ADAPTERS, *RUNTIMES, *SETS, *TOPOLOGIES)
SELECTOR = {"pool": "general"}


def pod_template(cpu: str = "1", **spec: Any) -> Json:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}


def job(name: str = "a", *, queue: str = QUEUE, suspend: bool = True, labels: Json | None = None, **spec: Any) -> Json:
    metadata = {"namespace": NS, "name": name, "labels": {"kueue.x-k8s.io/queue-name": queue, **(labels or {})}}
    body = {"parallelism": 2, "completions": 2, "suspend": suspend, "template": pod_template(), **spec}
    return {"metadata": metadata, "spec": body}


class Scene:
    """One cluster, one log, one controller. `held`: writes that are decided and not carried out."""

    def __init__(
        self,
        *,
        pods_ready: bool = False,
        view: bool = True,
        after_deactivated: timedelta | None = None,
        label_keys: tuple[str, ...] = (),
        annotation_keys: tuple[str, ...] = (),
        manages_all: bool = False,
        namespaces: str = "",
    ) -> None:
        self.clock = ManualClock()
        uids = itertools.count(1)
        groups = served(JOB_KINDS["leaderworkerset.x-k8s.io/leaderworkerset"])
        self.store = Store("here", kinds=(*NODE_KINDS, groups), now=self.clock.now, new_uid=lambda: f"uid-{next(uids)}")
        self.store.graceful = True
        self.view = View(self.store, tuple(dict.fromkeys((*KUEUE_KINDS, *SIMULATED))))
        self.jobs = JobController("jobs", self.view, self.clock, JobPace(duration=timedelta(hours=10)))
        self.view.start()
        self.policy = JobFrameworkPolicy(
            adapters=ADAPTERS,
            parents=PARENTS,
            pods_ready=pods_ready,
            after_deactivated=after_deactivated,
            label_keys=label_keys,
            annotation_keys=annotation_keys,
            manages_all=manages_all,
            namespaces=namespaces,
        )
        self.controller = JobFrameworkController(self.policy, "test")
        self.codec = Codec(self.controller.types)
        self.log: list[Recorded] = []
        self.requests: list[Request] = []
        self.wake = None
        self.before_write: Callable[[OpenWrite, Request], None] = lambda write, request: None
        self._versions: dict[str, int] = {}
        self._shown: dict[tuple[str, str], Json] = {}
        self._bodies: dict[str, bytes] = {}
        self.hidden: set[Kind] = set()
        if view:
            self.connect()

    # --- the log ---

    def record(self, new: NewEvent) -> None:
        self._versions[new.stream] = self._versions.get(new.stream, 0) + 1
        name, schema, data = self.codec.encode(new.event)
        recorded = Recorded(
            position=len(self.log) + 1,
            stream=new.stream,
            version=self._versions[new.stream],
            event=self.codec.decode(name, schema, data),
            cluster=new.cluster,
            caused_by=new.caused_by,
            recorded_at=self.clock.now(),
        )
        assert recorded.event == new.event
        assert 0 <= new.caused_by < recorded.position
        self.log.append(recorded)
        for body in new.bodies:
            self._bodies[body.ref] = body.text.encode()
        self.controller.fold(recorded)

    def connect(self) -> None:
        event = connectivity.ClusterConnected(kinds=[kind.name for kind in WATCHED], incarnation="i")
        self.record(NewEvent(stream=cluster_stream(MANAGEMENT), event=event, cluster=MANAGEMENT))

    def begin_anew(self, *hidden: Kind) -> None:
        """Begin another log, in which some kinds may not be seen."""
        self.log, self._versions, self._shown, self.hidden = [], {}, {}, set(hidden)
        self.controller = JobFrameworkController(self.policy, "test")
        seen = [kind.name for kind in WATCHED if kind not in hidden]
        connected = connectivity.ClusterConnected(kinds=seen, incarnation="i")
        off = [connectivity.KindOff(kind=kind.name, reason="Forbidden", message="no right") for kind in hidden]
        for event in (*off, connected):
            self.record(NewEvent(stream=cluster_stream(MANAGEMENT), event=event, cluster=MANAGEMENT))

    def replayed(self) -> JobFrameworkController:
        """A controller that knows what the log says, and nothing else."""
        found = JobFrameworkController(self.policy, "test")
        for recorded in self.log:
            found.fold(recorded)
        return found

    def settle_through_crashes(self, *, lost: bool, rounds: int = 40) -> None:
        """Decide and carry out until nothing follows, while the process ends after each decision; with `lost` after
        each write too, whose answer nobody hears."""
        for _ in range(rounds):
            if not self.decide() and not self.open_writes():
                return
            for write in self.open_writes() if lost else ():
                self.carry_out(write)
            self.crash()
            for write in self.open_writes():
                self.carry_out(write)
        raise AssertionError("it does not come to rest")

    def crash(self) -> None:
        """Another process takes over, with what the log says: of what went meanwhile it knows no more than that."""
        self.controller = self.replayed()
        self._shown = {
            (kind.name, uid): {"metadata": {"namespace": place[0], "name": place[1], "uid": uid, "resourceVersion": ""}}
            for kind in WATCHED
            for uid, place in self.controller.index.places.known(MANAGEMENT, kind.name).items()
        }

    def decided(self, kind: type[Event]) -> list[Any]:
        return [one.event for one in self.log if isinstance(one.event, kind)]

    # --- what is seen, and what follows ---

    def look(self) -> None:
        """Show the controller what has changed."""
        now = {}
        for kind in (one for one in WATCHED if one not in self.hidden):
            for obj in self.store.list(dataclasses.replace(kind, view=""))[0]:
                if not kind.view or (obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                    now[kind.name, meta(obj)["uid"]] = obj
        for key, obj in [*now.items(), *((key, self._shown[key]) for key in self._shown if key not in now)]:
            gone, known = key not in now, self._shown.get(key)
            if not gone and known is not None and meta(known)["resourceVersion"] == meta(obj)["resourceVersion"]:
                continue
            kind = next(one for one in WATCHED if one.name == key[0])
            change = ObjectChange(MANAGEMENT, "i", kind, obj, meta(obj)["resourceVersion"], gone)
            if (new := self.controller.observe(change, self.clock.now())) is not None:
                self.record(new)
        self._shown = now

    def decide(self) -> list[Event]:
        """Look, decide about all that is to be decided about, and record it."""
        self.look()
        found, self.wake = [], None
        for stream in self.controller.take_dirty():
            decided = self.controller.decide(stream, self.clock.now())
            self.wake = min(filter(None, (self.wake, decided.wake)), default=None)
            for new in decided.events:
                self.record(new)
                found.append(new.event)
        return found

    def open_writes(self) -> list[OpenWrite]:
        index = self.controller.index
        streams = [*index.states, *index.topologies.states]
        return [one for stream in streams for one in self.controller.open_writes(stream)]

    def carry_out(self, write: OpenWrite) -> None:
        """Send what an open write is, as the executor would."""
        if not self.controller.is_open(write):
            return
        bodies = {ref: self._bodies[ref] for ref in self.controller.bodies_needed(write)}
        request = self.controller.request(write, bodies, self.clock.now())
        if request is None:
            return
        self.before_write(write, request)
        self.requests.append(request)
        announcement = self.controller.announcement(write, self.clock.now())
        try:
            answer = self.send(request)
        except ApiRefusal as refusal:
            if refusal.status == 409 and request.ref.kind == EVENTS:
                self.record(self.controller.unneeded(write, ""))  # it was told before
                return
            if refusal.status == 409:
                return  # the watch brings the news
            failure = WriteRefusal(refusal.status, refusal.reason, str(refusal))
            self.record(self.controller.failed(write, failure, self.clock.now()))
            return
        version = str(meta(answer or {}).get("resourceVersion", ""))
        same = request.verb == "patch" and version and version == request.resource_version
        if request.ref.kind == EVENTS or same:
            self.record(self.controller.unneeded(write, version))
        if announcement is not None and not same:
            with contextlib.suppress(ApiRefusal):  # sent twice, the second is refused
                self.send(announcement)

    def send(self, request: Request) -> Json | None:
        ref = request.ref
        if request.verb == "delete":
            try:
                self.store.delete(ref.kind, ref.namespace, ref.name, uid=request.uid)
            except ApiRefusal as refusal:
                if refusal.status != 404:
                    raise
            return None
        place = {"name": ref.name, **({"namespace": ref.namespace} if ref.namespace else {})}
        conditions = {"uid": request.uid, "resourceVersion": request.resource_version}
        metadata = {**meta(request.body), **{key: value for key, value in conditions.items() if value}}
        if request.verb == "create" or request.content_type.startswith("application/apply"):
            head = {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, "metadata": {**metadata, **place}}
            body = {**request.body, **head}
        else:
            body = {**request.body, **({"metadata": metadata} if metadata else {})}
        if request.verb == "create":
            return self.store.create(ref.kind, body, field_manager="controlplane")
        manager = request.field_manager or "controlplane"
        return self.store.patch(
            ref.kind,
            ref.namespace,
            ref.name,
            body,
            content_type=request.content_type,
            subresource=request.subresource,
            field_manager=manager,
            force=request.content_type.startswith("application/apply"),
        )

    def settle(self, *, most: int = 40) -> list[Event]:
        """Let everything follow until nothing does."""
        said: list[Event] = []
        for _ in range(most):
            while self.jobs.drain():
                pass
            found = self.decide()
            said += found
            writes = self.open_writes()
            for write in writes:
                self.carry_out(write)
            if not found and not writes and not self.jobs.drain():
                return said
        raise AssertionError(f"it does not come to rest: {[type(one).__name__ for one in said]}")

    # --- the cluster ---

    def create(self, obj: Json, kind: Kind = JOBS) -> Json:
        return self.store.create(kind, obj, field_manager="user")

    def flavor(self, name: str = "default-flavor", labels: Json | None = None, **spec: Any) -> None:
        labels = SELECTOR if labels is None else labels
        self.store.create(RESOURCE_FLAVORS, {"metadata": {"name": name}, "spec": {"nodeLabels": labels, **spec}})

    def job(self, name: str = "a", kind: Kind = JOBS) -> Json:
        return self.store.get(kind, NS, name)

    def workloads(self) -> list[Json]:
        return list(self.store.list(WORKLOADS)[0])

    def workload(self) -> Json:
        (found,) = self.workloads()
        return found

    def status(self, workload: Json, **status: Any) -> None:
        """Write a Workload's status as whoever admits would: by server-side apply as `kueue-admission`."""
        self.store.patch(
            WORKLOADS,
            NS,
            meta(workload)["name"],
            {
                "apiVersion": WORKLOADS.api_version,
                "kind": "Workload",
                "metadata": {"namespace": NS, "name": meta(workload)["name"]},
                "status": {**workload.get("status", {}), **status},
            },
            content_type="application/apply-patch+yaml",
            subresource="status",
            field_manager="kueue-admission",
            force=True,
        )

    def say(self, workload: Json, **conditions: tuple[bool, str, str]) -> None:
        """Set conditions of a Workload, each with its value, reason and message."""
        status = json.loads(json.dumps(workload.get("status", {})))
        for type_, (value, reason, message) in conditions.items():
            at = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            set_condition(status, type_, value, reason, message, at=at, generation=meta(workload)["generation"])
        self.status({**workload, "status": status})

    def admit(
        self,
        workload: Json | None = None,
        flavor: str = "default-flavor",
        domains: dict[str, Json] | None = None,
        **counts: int,
    ) -> None:
        """Reserve quota and admit; `domains`: the topologyAssignment of each pod set that has one."""
        workload = workload or self.workload()
        assignments = [
            {
                "name": one["name"],
                "flavors": {"cpu": flavor},
                "resourceUsage": {"cpu": "1"},
                "count": counts.get(one["name"], one["count"]),
                **({"topologyAssignment": domains[one["name"]]} if one["name"] in (domains or {}) else {}),
            }
            for one in workload["spec"]["podSets"]
        ]
        self.status(workload, admission={"clusterQueue": "cq", "podSetAssignments": assignments})
        self.say(
            self.store.get(WORKLOADS, NS, meta(workload)["name"]),
            QuotaReserved=(True, "QuotaReserved", "Quota reserved in ClusterQueue cq"),
            Admitted=(True, "Admitted", "The workload is admitted"),
        )

    def evict(self, reason: str = "Preempted", message: str = "Preempted to accommodate a workload") -> None:
        self.say(self.workload(), Evicted=(True, reason, message))

    def events(self) -> list[tuple[str, str]]:
        """Reason and note of the Kubernetes Events, in the order in which they were told."""
        found = sorted(self.store.list(EVENTS)[0], key=lambda one: int(meta(one)["resourceVersion"]))
        return [(one["reason"], one["note"]) for one in found]
