"""Whole processes between clusters and a log that are in memory, and take turns of the event loop and no time.

In: what a process is to meet. Out: a stage with the service or the scheduler on it. What is opened is counted, and has
to be closed when the process has ended."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import heapq
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import orjson

from controlplane.app.hosted import TYPES
from controlplane.app.scheduler import SchedulerService
from controlplane.app.scheduler_profiles import load
from controlplane.app.service import Service
from controlplane.clusters.streams import ApiServer, ListPage, ListQuery, WatchQuery
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    JOBS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    NODES,
    PODS,
    SECRETS,
    WORKLOADS,
    Json,
    Kind,
    Request,
)
from controlplane.log.codec import Codec
from controlplane.log.event import Append, Fenced, LogHead, Recorded
from controlplane.log.memory import MemoryLog, MemoryStore
from controlplane.runtime.lifecycle import Ports
from controlplane.settings import Settings
from controlplane.settings.model import LeaderSettings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health
from tests.cancelling.brisk import KUBECONFIG, Server

NS, START = "ns", datetime(2026, 1, 1, tzinfo=UTC)
METRICS = Metrics()  # one registry holds each metric once


def _object(name: str, namespace: str = "", **rest: Any) -> Json:
    head = {"name": name, "uid": f"uid-{name}", "resourceVersion": "5"} | (
        {"namespace": namespace} if namespace else {}
    )
    return {"metadata": head | rest.pop("metadata", {}), **rest}


def _management() -> dict[Kind, list[Json]]:
    """Two workers, and a Workload with quota that is to be dispatched to them."""
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "config"}
    check = {"name": "multikueue", "state": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    reserved = {
        "type": "QuotaReserved",
        "status": "True",
        "reason": "Test",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train", "controller": True}
    kubeconfig = {"kubeconfig": base64.b64encode(KUBECONFIG).decode()}
    source = {"kubeConfig": {"location": "secret", "locationType": "Secret"}}
    return {
        ADMISSION_CHECKS: [
            _object("multikueue", spec={"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters})
        ],
        MULTIKUEUE_CONFIGS: [_object("config", spec={"clusters": ["a", "b"]})],
        MULTIKUEUE_CLUSTERS: [_object(name, spec={"clusterSource": source}) for name in ("a", "b")],
        SECRETS: [_object("secret", "kueue-system", data=kubeconfig)],
        JOBS: [_object("train", NS, spec={"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "template": {}})],
        WORKLOADS: [
            _object(
                "job-train",
                NS,
                metadata={"ownerReferences": [owner]},
                spec={"queueName": "q", "active": True, "podSets": [{"name": "main", "count": 1}]},
                status={"admissionChecks": [check], "conditions": [reserved]},
            )
        ],
    }


def _target() -> dict[Kind, list[Json]]:
    """A node, and pods that are to go there."""
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "controlplane", "containers": [container]}
    return {
        NODES: [_object("n", spec={}, status={"allocatable": room, "capacity": room})],
        PODS: [_object(name, NS, spec=spec, status={"phase": "Pending"}) for name in ("p", "q")],
    }


class Cluster(Server):
    """A server that holds objects, and is closed by whoever opened it."""

    def __init__(self, name: str, objects: dict[Kind, list[Json]], opened: list[Cluster]) -> None:
        super().__init__(name)
        self._works, self._objects = True, objects
        self._opened = opened
        self.asked: set[str] = set()
        opened.append(self)

    async def write(self, request: Request) -> Json:
        verb = "post" if request.verb == "create" and request.subresource else request.verb
        self.asked.add(f"{verb} {request.ref.kind.plural}")
        return await super().write(request)

    async def list(self, query: ListQuery) -> ListPage:
        await asyncio.sleep(0)
        return ListPage(list(self._objects.get(query.kind, ())), "7", "")

    async def watch(self, query: WatchQuery) -> AsyncIterator[list[bytes]]:  # type: ignore[override]
        try:
            for version in ("8", "9"):
                await asyncio.sleep(0)
                yield [orjson.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}}})]
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)

    async def close(self) -> None:
        if self in self._opened:
            self._opened.remove(self)
        await asyncio.sleep(0)


class TurningClock:
    """Virtual time: each turn of the loop takes a fiftieth of a second, while `run` does."""

    def __init__(self) -> None:
        self._now, self._order = 0.0, itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return START + timedelta(seconds=self._now)

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        awake = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), awake))
        await awake

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self._now += 0.02
            while self._sleepers and self._sleepers[0][0] <= self._now:
                _, _, awake = heapq.heappop(self._sleepers)
                if not awake.done():
                    awake.set_result(None)


class TurnedLog(MemoryLog):
    """A log whose every answer takes a turn of the loop, and that is closed in the end."""

    def __init__(self, stage: Stage, codec: Codec) -> None:
        super().__init__(stage.store, codec, stage.clock.now)
        self._opened = stage.logs
        self._opened.append(self)

    async def heartbeat(self) -> Any:
        await asyncio.sleep(0)
        return await super().heartbeat()

    async def take_epoch(self, holder: str) -> LogHead:
        await asyncio.sleep(0)
        return await super().take_epoch(holder)

    async def renew(self, *, resign: bool = False) -> None:
        await asyncio.sleep(0)
        await super().renew(resign=resign)

    async def append(self, request: Append) -> int:
        await asyncio.sleep(0)
        added = await super().append(request)
        await asyncio.sleep(0)  # it is committed, and not yet answered
        return added

    async def read(self, after: int, limit: int = 2000) -> Sequence[Recorded]:
        await asyncio.sleep(0)
        return await super().read(after, limit)

    async def close(self) -> None:
        if self in self._opened:
            self._opened.remove(self)
        await asyncio.sleep(0)


class Stage:
    """The process, and what it has opened. `stop` asks it to end; `run` is the whole of it, `turn` one turn."""

    def __init__(self) -> None:
        self.store, self.clock = MemoryStore(), TurningClock()
        self.stop = asyncio.Event()
        self.opened: list[Cluster] = []
        self.logs: list[TurnedLog] = []
        self.health = Health(("leader",))
        self.settings = msgspec.structs.replace(Settings(), leader=LeaderSettings(identity="me"))
        self.ports = Ports(
            open_log=lambda name, codec, on_state, on_batch: TurnedLog(self, codec),
            open_worker=lambda name, _: Cluster(name, {}, self.opened),  # type: ignore[arg-type,return-value]
            tunes_collector=False,
        )
        self.process: Service | SchedulerService

    async def run(self) -> None:
        await self.process.run(self.stop)

    async def turn(self) -> None:
        with contextlib.suppress(Fenced):  # another one leads, and a new turn would begin
            await self.process.run_term(self.stop)

    @property
    def leads(self) -> bool:
        return self.health.checks["leader"].detail.startswith("leads")

    @property
    def left(self) -> list[str]:
        """What was opened and not closed."""
        return [*(f"the connection to {one.name}" for one in self.opened), *("the log" for _ in self.logs)]

    async def another_leads(self) -> None:
        """Another holder takes the epoch, and sends heartbeats for ever."""
        other = MemoryLog(self.store, Codec(TYPES), self.clock.now)
        await other.take_epoch("other")
        while True:
            await asyncio.sleep(0)
            await other.renew()


Process = Callable[[Stage], Service | SchedulerService]


def the_service(stage: Stage) -> Service:
    """Return the service, which leads two workers."""

    async def management() -> ApiServer:
        await asyncio.sleep(0)
        return Cluster("management", _management(), stage.opened)  # type: ignore[return-value]

    return Service(stage.settings, stage.ports, management, metrics=METRICS, health=stage.health, clock=stage.clock)


def the_scheduler(stage: Stage) -> SchedulerService:
    """Return the scheduler of one cluster."""

    async def cluster() -> ApiServer:
        await asyncio.sleep(0)
        return Cluster("target", _target(), stage.opened)  # type: ignore[return-value]

    return SchedulerService(
        stage.settings, load(""), stage.ports, cluster, metrics=METRICS, health=stage.health, clock=stage.clock
    )


@contextmanager
def staged(process: Process) -> Iterator[Stage]:
    """Set up a process whose log and workers are in memory; all that it opened has to be closed in the end."""
    stage = Stage()
    stage.process = process(stage)
    yield stage
    assert stage.left == []
