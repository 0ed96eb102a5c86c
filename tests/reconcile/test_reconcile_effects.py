"""The executors: what becomes of a write that meets a conflict, a fault of ours, a closed gate, or a cluster that is away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from controlplane.capability import Decided, Failure, OpenWrite, Sighting
from controlplane.clock import SystemClock
from controlplane.clusters.port import ApiError, Unreachable
from controlplane.kube import JOBS, Json, ObjectRef, Request
from controlplane.log.codec import Codec
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.log.memory import MemoryLog, MemoryStore
from controlplane.reconcile.bodies import Bodies
from controlplane.reconcile.effects import Effects
from controlplane.reconcile.gate import Gate


class Refused(Event):
    code: int


class Unneeded(Event):
    version: str


def write(name: str, cluster: str = "east") -> OpenWrite:
    return OpenWrite(f"s/{name}", name, cluster, 1, "Patch")


class Patches:
    """A capability whose open writes a test owns; each is a patch of a Job at resourceVersion 5."""

    types: Sequence[type[Event]] = (Refused, Unneeded)

    def __init__(self) -> None:
        self.open: list[OpenWrite] = []
        self.broken: set[str] = set()
        self.obsolete: set[str] = set()

    def observe(self, sighting: Sighting, now: datetime) -> NewEvent | None:
        return None

    def fold(self, recorded: Recorded) -> None: ...

    def take_dirty(self) -> list[str]:
        return []

    def decide(self, stream: str, now: datetime) -> Decided:
        return Decided()

    def open_writes(self, stream: str) -> Sequence[OpenWrite]:
        return [found for found in self.open if found.stream == stream]

    def is_open(self, found: OpenWrite) -> bool:
        return found in self.open

    def bodies_needed(self, found: OpenWrite) -> Sequence[str]:
        return ()

    def request(self, found: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        if found.target in self.broken:
            raise RuntimeError("a fault of ours")
        if found.target in self.obsolete:
            return None
        return Request("patch", ObjectRef(JOBS, "default", found.target), resource_version="5")

    def announcement(self, found: OpenWrite, now: datetime) -> Request | None:
        return None

    def failed(self, found: OpenWrite, failure: Failure, now: datetime) -> NewEvent:
        return NewEvent(stream=found.stream, event=Refused(code=failure.code))

    def unneeded(self, found: OpenWrite, resource_version: str) -> NewEvent:
        return NewEvent(stream=found.stream, event=Unneeded(version=resource_version))


class Cluster:
    """Answers each request with the next of its answers; the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), list[str]()

    async def execute(self, request: Request) -> Json | None:
        self.asked.append(request.ref.name)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await asyncio.sleep(0)
        if isinstance(answer, Exception):
            raise answer
        return {"metadata": {"resourceVersion": answer}}


class Stage:
    def __init__(self, cluster: Cluster | None, **more: Any) -> None:
        self.capability, self.gate, self.clusters = Patches(), Gate(), {"east": cluster}
        self.log = MemoryLog(MemoryStore(), Codec(Patches.types), lambda: datetime.now(UTC))
        clock, dice = SystemClock(), random.Random(1)
        options = {"settle": 30.0, "news": 0.02, "concurrency": 1, **more}
        self.effects = Effects(
            self.log, self.capability, Bodies(self.log), clock, self.gate, self.clusters.get, rng=dice, **options
        )

    async def start(self, *names: str) -> None:
        await self.log.take_epoch("test")
        for name in names:
            self.capability.open.append(write(name))
            self.effects.sync(f"s/{name}")

    async def events(self) -> list[Any]:
        return [found.event for found in await self.log.read(0)]


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_conflict_that_nothing_explains_is_recorded() -> None:
    """The change came before the decision was in the log, so no news of it will ever close the write."""
    cluster = Cluster(ApiError(409, "Conflict", "the object has been modified"))
    stage = Stage(cluster)
    await stage.start("a")
    await until(lambda: stage.log._store.rows)
    assert (await stage.events(), cluster.asked) == ([Refused(code=409)], ["a", "a"])
    await stage.effects.close()


async def test_a_conflict_that_the_watch_explains_says_nothing() -> None:
    cluster = Cluster(ApiError(409, "Conflict", "the object has been modified"))
    stage = Stage(cluster)
    await stage.start("a")
    await until(lambda: cluster.asked)
    stage.capability.open.clear()
    await asyncio.sleep(0.06)
    assert (await stage.events(), cluster.asked) == ([], ["a"])
    await stage.effects.close()


async def test_what_has_no_basis_any_more_is_recorded() -> None:
    stage = Stage(Cluster("6"))
    stage.capability.obsolete.add("a")
    await stage.start("a")
    await until(lambda: stage.log._store.rows)
    assert await stage.events() == [Refused(code=404)]
    await stage.effects.close()


async def test_a_fault_of_ours_stops_only_its_own_write() -> None:
    cluster = Cluster("6")
    stage = Stage(cluster)
    stage.capability.broken.add("a")
    await stage.start("a", "b")
    await until(lambda: cluster.asked == ["b"])
    await stage.effects.close()


async def test_no_answer_is_tried_again_and_says_nothing() -> None:
    cluster = Cluster(Unreachable("connection reset"), "6")
    stage = Stage(cluster)
    await stage.start("a")
    await until(lambda: len(cluster.asked) == 2)
    assert await stage.events() == []
    await stage.effects.close()


async def test_a_patch_that_changes_nothing_is_unneeded() -> None:
    stage = Stage(Cluster("5"))
    await stage.start("a")
    await until(lambda: stage.log._store.rows)
    assert await stage.events() == [Unneeded(version="5")]
    await stage.effects.close()


async def test_who_waits_before_a_closed_gate_does_not_delay_the_end() -> None:
    cluster = Cluster("6")
    stage = Stage(cluster)
    stage.gate.set("log", ok=False, detail="away")
    await stage.start("a")
    await asyncio.sleep(0.02)
    async with asyncio.timeout(2):
        await stage.effects.close(drain=60)
    assert cluster.asked == []


async def test_a_parked_write_goes_on_when_the_cluster_is_back() -> None:
    cluster = Cluster("6")
    stage = Stage(None)
    await stage.start("a")
    await asyncio.sleep(0.02)
    stage.clusters["east"] = cluster
    stage.effects.cluster_back("east")
    await until(lambda: cluster.asked == ["a"])
    await stage.effects.close()


async def test_nobody_is_forgotten_who_comes_as_a_worker_ends() -> None:
    cluster = Cluster("6")
    stage = Stage(cluster)
    await stage.start("a")
    lane = stage.effects._lanes["east"]
    (worker,) = lane.workers
    late = write("b")
    stage.capability.open.append(late)
    while not worker.done():
        await asyncio.sleep(0)
        if worker.done():  # it has ended, and its end has not been noted yet
            lane.waiting.append(late)
    await until(lambda: cluster.asked == ["a", "b"])
    await stage.effects.close()
