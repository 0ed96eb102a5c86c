"""The loop of KEP-693's list before mocked worker clients.

In: what clusters there are. Out: `Mocked`, whose clusters answer what a test told them to and show what a test lets
them show."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.clusters.protocol import Change
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, ClusterConnectFailed, ClusterLost
from controlplane.controllers.connectivity.local_connection import connectivity_event, event_refused
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.job_kinds import adapters_for
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    JOBS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
    Json,
    Kind,
    Request,
    meta,
)
from controlplane.log.codec import Codec
from controlplane.log.event import Event
from controlplane.log.memory import MemoryLog, MemoryStore
from controlplane.runtime.bodies import Bodies
from controlplane.runtime.connection_events import lift
from controlplane.runtime.effects import Effects
from controlplane.runtime.gate import Gate
from controlplane.runtime.recorder import Recorder
from controlplane.runtime.runner import Runner
from tests.multikueue.kep693.rig import CHECK, HOME_KINDS, JOB, NS, WL, WORKER_KINDS, until, user_job


class SteppedClock:
    """Time that moves only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.seconds + seconds, future))
        await future

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
        due = [future for at, future in self._sleepers if at <= self.seconds]
        self._sleepers = [(at, future) for at, future in self._sleepers if at > self.seconds]
        for future in due:
            if not future.done():
                future.set_result(None)


Answer = Json | BaseException | Callable[[Request], Any] | None


class Double:
    """A cluster's client: answers by verb and kind, in the order in which they were laid out, else success; keeps what
    it was asked.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests: list[Request] = []
        self.silent = False
        self._answers: dict[tuple[str, Kind], list[Answer]] = {}
        self._always: dict[tuple[str, Kind], Answer] = {}
        self._versions = itertools.count(5000)

    def answers(self, verb: str, kind: Kind, *answers: Answer, always: bool = False) -> None:
        """Lay out answers; with `always` the one answer is given every time."""
        if always:
            (self._always[verb, kind],) = answers
        else:
            self._answers.setdefault((verb, kind), []).extend(answers)

    async def execute(self, request: Request) -> Json | None:
        self.requests.append(request)
        if self.silent:
            await asyncio.get_running_loop().create_future()
        key = request.verb, request.ref.kind
        laid_out = self._answers.get(key)
        answer: Answer = laid_out.pop(0) if laid_out else self._always.get(key)
        if isinstance(answer, BaseException):
            raise answer
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, dict):
            return answer
        if request.verb == "delete":
            return None
        return {**request.body, "metadata": {**meta(request.body), "resourceVersion": str(next(self._versions))}}

    def asked(self, verb: str, kind: Kind, subresource: str = "") -> list[Request]:
        """The requests of one sort, in order."""
        return [r for r in self.requests if (r.verb, r.ref.kind, r.subresource) == (verb, kind, subresource)]


class Mocked:
    """The real loop, recorder and executors over a log in memory; the clusters behind them are doubles and the watches
    are the test's.
    """

    def __init__(self, *workers: str, **policy: Any) -> None:
        self.workers = workers
        self.clock = SteppedClock()
        self.ports = {name: Double(name) for name in (MANAGEMENT, *workers)}
        self.fleet = MultiKueueController(
            MultiKueuePolicy(adapters=adapters_for(("batch/job", "jobset.x-k8s.io/jobset")), **policy), "test"
        )
        self.log = MemoryLog(MemoryStore(), Codec(self.fleet.types), self.clock.now)
        gate, bodies = Gate(), Bodies(self.log)
        self.recorder = Recorder(self.log, self.fleet, bodies, self.clock, lift, refused=event_refused)
        self.effects = Effects(
            self.log, self.fleet, bodies, self.clock, gate, self._port, rng=random.Random(1), settle=15.0
        )
        self.runner = Runner(self.log, self.fleet, self.effects, gate, self.clock, poll=0.01, on_folded=self._folded)
        self._versions = itertools.count(100)
        self._objects: dict[tuple[str, Kind], Json] = {}
        self._task: asyncio.Task[None] | None = None

    def _port(self, cluster: str) -> Double | None:
        connection = self.fleet.index.connections.get(cluster)
        return self.ports[cluster] if connection is not None and connection.connected else None

    def _folded(self, events: Any) -> None:
        for recorded in events:
            if isinstance(recorded.event, ClusterConnected):
                self.effects.cluster_back(recorded.cluster)

    async def start(self) -> None:
        await self.log.take_epoch("test")
        self._task = asyncio.create_task(self.runner.run())
        spec = {"parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "config"}}
        check = {"spec": {**spec, "controllerName": "kueue.x-k8s.io/multikueue"}}
        await self.show(MANAGEMENT, ADMISSION_CHECKS, CHECK, check)
        await self.show(MANAGEMENT, MULTIKUEUE_CONFIGS, "config", {"spec": {"clusters": list(self.workers)}})
        for name in self.workers:
            source = {"spec": {"clusterSource": {"kubeConfig": {"location": name}}}}
            await self.show(MANAGEMENT, MULTIKUEUE_CLUSTERS, name, source)
        await self.connect(MANAGEMENT, HOME_KINDS)
        for name in self.workers:
            await self.connect(name)

    async def stop(self) -> None:
        await self.effects.close(drain=0.0)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # what is shown

    async def connect(self, cluster: str, kinds: tuple[Kind, ...] = WORKER_KINDS) -> None:
        event = ClusterConnected(kinds=[kind.name for kind in kinds], incarnation=f"life-of-{cluster}")
        await self.recorder.record([connectivity_event(cluster, event)])
        await self.idle()

    async def lose(self, cluster: str) -> None:
        lost = ClusterLost(reason="Unreachable", message="no answer")
        failed = ClusterConnectFailed(reason="ClientConnectionFailed", message="no answer", attempt=1)
        await self.recorder.record([connectivity_event(cluster, event) for event in (lost, failed)])
        await self.idle()

    async def show(self, cluster: str, kind: Kind, name: str, changes: Json, namespace: str = "") -> Json:
        """Let a cluster show an object: as it was last, with these parts changed."""
        before = self._objects.get((cluster, kind), {"metadata": {}}) if kind in (WORKLOADS, JOBS) else {"metadata": {}}
        head = {
            "uid": f"{kind.kind}-{cluster}-{name}",
            **before["metadata"],
            **changes.get("metadata", {}),
            "namespace": namespace,
            "name": name,
            "resourceVersion": str(next(self._versions)),
        }
        obj: Json = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": {}, **before, **changes}
        obj["metadata"] = head
        self._objects[cluster, kind] = obj
        await self.recorder(cluster, [Change("modified", kind, obj, head["resourceVersion"])])
        await self.idle()
        return obj

    async def gone(self, cluster: str, kind: Kind) -> None:
        """Let a cluster show that its Workload or Job is gone."""
        obj = self._objects.pop((cluster, kind))
        await self.recorder(cluster, [Change("gone", kind, obj, str(next(self._versions)))])
        await self.idle()

    async def submit(self) -> None:
        """The user's Job and its Workload with quota, the check Pending."""
        await self.show(MANAGEMENT, JOBS, JOB, user_job(), NS)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": JOB, "uid": f"Job-{MANAGEMENT}-{JOB}"}
        spec = {"queueName": "user-queue", "podSets": [{"name": "main", "count": 1}]}
        metadata = {"ownerReferences": [{**owner, "controller": True}], "labels": {"kueue.x-k8s.io/job-uid": "u"}}
        await self.workload(metadata=metadata, spec=spec, conditions={"QuotaReserved": True}, check="Pending")

    async def workload(self, **changes: Any) -> Json:
        """The manager's Workload; see `_status`."""
        return await self.show(MANAGEMENT, WORKLOADS, WL, self._status(MANAGEMENT, changes), NS)

    async def clone(self, cluster: str, **changes: Any) -> Json:
        """A worker's clone, of the spec that it was created with."""
        created = self.ports[cluster].asked("create", WORKLOADS)[-1]
        changes.setdefault("spec", created.body["spec"])
        changes.setdefault("metadata", {"labels": created.body["metadata"]["labels"]})
        return await self.show(cluster, WORKLOADS, WL, self._status(cluster, changes), NS)

    async def remote_job(self, cluster: str, status: Json | None = None, *, suspend: bool = True) -> Json:
        """A worker's copy of the job, as it was created."""
        created = self.ports[cluster].asked("create", JOBS)[-1]
        spec = {**created.body["spec"], "suspend": suspend}
        head = {key: created.body["metadata"][key] for key in ("labels", "annotations")}
        return await self.show(cluster, JOBS, JOB, {"metadata": head, "spec": spec, "status": status or {}}, NS)

    def _status(self, cluster: str, changes: dict[str, Any]) -> Json:
        """`conditions` is type → True, False or (reason, message); `check` our check's state; the rest as in the
        object's status.
        """
        before = self._objects.get((cluster, WORKLOADS), {}).get("status", {})
        known = {c["type"]: c for c in before.get("conditions", [])}
        at = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        for kind, said in changes.pop("conditions", {}).items():
            reason, message, *when = said if isinstance(said, tuple) else ("Test", "")
            known[kind] = {
                "type": kind,
                "status": "True" if said else "False",
                "reason": reason,
                "message": message,
                "lastTransitionTime": when[0] if when else at,
            }
        status: Json = {**before, "conditions": list(known.values())}
        if (state := changes.pop("check", None)) is not None:
            status["admissionChecks"] = [{"name": CHECK, "state": state, "message": "", "lastTransitionTime": at}]
        parts: Json = {key: changes.pop(key) for key in ("metadata", "spec") if key in changes}
        status.update(changes)
        return {**parts, "status": {key: value for key, value in status.items() if value is not None}}

    # what is waited for

    async def idle(self) -> None:
        """Until everything in the log is folded, decided, and handed to the executors, and those have done what they
        can.
        """
        quiet = 0
        while quiet < 3:
            head = (await self.log.head()).position
            done = self.runner.position == head
            quiet = quiet + 1 if done else 0
            await asyncio.sleep(0.002)
            assert self._task is None or not self._task.done(), self._task

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and whatever is due be decided and done."""
        self.clock.advance(seconds)
        await asyncio.sleep(0.03)
        await self.idle()

    async def events(self, kind: type[Event]) -> list[Any]:
        """What the log holds of a type."""
        return [r.event for r in await self.log.read(0, 100_000) if isinstance(r.event, kind)]

    @property
    def manager(self) -> Double:
        return self.ports[MANAGEMENT]

    def statuses(self) -> list[Json]:
        """The bodies that were written to the status of the manager's Workload."""
        return [request.body["status"] for request in self.manager.asked("patch", WORKLOADS, "status")]

    def job_statuses(self) -> list[Json]:
        return [request.body["status"] for request in self.manager.asked("patch", JOBS, "status")]

    async def nominated(self) -> None:
        """The manager stores the nomination that was just written."""
        await until(self.statuses, "a nomination")
        await self.workload(nominatedClusterNames=self.statuses()[-1]["nominatedClusterNames"])

    async def running(self, winner: str) -> None:
        """The whole way to a running copy, every other copy removed."""
        await self.submit()
        await self.nominated()
        for name in self.workers:
            await self.clone(name)
        await self.clone(winner, conditions={"QuotaReserved": True, "Admitted": True})
        for name in self.workers:
            if name != winner:
                await self.gone(name, WORKLOADS)
        await self.remote_job(winner)
        await until(lambda: "clusterName" in self.statuses()[-1], "Ready")
        changes = {"conditions": {"Admitted": True}, "check": "Ready", "nominatedClusterNames": None}
        await self.workload(**changes, clusterName=winner)
        await self.show(MANAGEMENT, JOBS, JOB, {"spec": {**user_job()["spec"], "suspend": False}}, NS)
        await self.remote_job(winner, {"active": 1, "ready": 0, "startTime": "T"}, suspend=False)
