"""Reads in the loop: once for each object whoever waits, again where nobody answered, and recorded before anybody goes
on.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from controlplane.clusters.protocol import ApiError, Looks, NotServed, Unreachable
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, cluster_stream
from controlplane.controllers.podgroups.controller import PodGroupController
from controlplane.controllers.podgroups.events import OwnerRead, OwnerReadFailed, OwnerResolved
from controlplane.controllers.podgroups.index import PodGroupPolicy
from controlplane.controllers.podgroups.objects import POD_GROUPS, PODS
from controlplane.kube.kinds import Json
from controlplane.log.codec import Codec
from controlplane.log.event import Append, NewEvent
from controlplane.log.memory import MemoryStore
from controlplane.runtime.bodies import Bodies
from controlplane.runtime.controller import ObjectChange, ReadAnswer
from controlplane.runtime.effects import Effects
from controlplane.runtime.gate import Gate
from controlplane.runtime.reads import Reads
from controlplane.runtime.runner import Runner
from tests.podgroups.scenes import manifest, pod_manifest, ref
from tests.runtime.bench import BenchLog, ManualClock, settle

WIDGET = ref("Widget", "w")


class Server:
    """The reading face of a cluster: raises what is laid out first, then shows the Widget."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.trouble: deque[Exception] = deque()
        self.held: asyncio.Event | None = None

    async def look(self, api_version: str, kind: str, namespace: str, name: str) -> Json:
        self.asked.append(f"{api_version} {kind} {namespace}/{name}")
        if self.held is not None:
            await self.held.wait()
        if self.trouble:
            raise self.trouble.popleft()
        return manifest(WIDGET)


class Log(BenchLog):
    """The bench's log, for the events of this capability."""

    def __init__(self, clock: ManualClock, codec: Codec) -> None:
        super().__init__(MemoryStore(), clock)
        self._codec = codec


class Loop:
    def __init__(self) -> None:
        self.clock, self.server = ManualClock(), Server()
        self.fleet = PodGroupController(PodGroupPolicy(), "test")
        self.log = Log(self.clock, Codec(self.fleet.types))
        self.connected = True
        gate = Gate()
        effects = Effects(
            self.log, self.fleet, Bodies(self.log), self.clock, gate, lambda cluster: None, rng=random.Random(1)
        )
        self.reads = Reads(self.log, self.fleet, self.clock, self._looks, rng=random.Random(1))
        self.runner = Runner(self.log, self.fleet, effects, gate, self.clock, reads=self.reads)

    def _looks(self, cluster: str) -> Looks | None:
        assert cluster == MANAGEMENT
        return self.server if self.connected else None

    async def pods(self, *names: str) -> None:
        for name in names:
            obj = pod_manifest(WIDGET, name)
            new = self.fleet.observe(ObjectChange(MANAGEMENT, "life", PODS, obj, "1", False), self.clock.now())
            assert new is not None
            await self.log.append(Append([new]))
        await self.clock.pass_(0)

    async def recorded(self, of: type) -> list[object]:
        return [one.event for one in await self.log.read(0, 10_000) if isinstance(one.event, of)]


@asynccontextmanager
async def loop() -> AsyncIterator[Loop]:
    made = Loop()
    await made.log.take_epoch("test")
    seen = ClusterConnected(kinds=[PODS.name, POD_GROUPS.name])
    await made.log.append(Append([NewEvent(stream=cluster_stream(MANAGEMENT), event=seen)]))
    running = asyncio.create_task(made.runner.run())
    await settle()
    try:
        yield made
    finally:
        running.cancel()
        await made.reads.close()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_owner_is_read_once_for_all_its_pods() -> None:
    async with loop() as made:
        made.server.held = asyncio.Event()
        await made.pods(*(f"p{n}" for n in range(20)))
        assert made.reads.under_way == 1
        made.server.held.set()
        await made.clock.pass_(1)
        await made.pods("late")
        await made.clock.pass_(1)
        assert made.server.asked == ["example.com/v1 Widget team-a/w"]
        assert len(await made.recorded(OwnerRead)) == 1
        assert len(await made.recorded(OwnerResolved)) == 21
        assert made.reads.under_way == 0


@pytest.mark.parametrize("trouble", [Unreachable("cut"), ApiError(401, "Unauthorized", "")])
async def test_no_answer_is_tried_again_and_not_recorded(trouble: Exception) -> None:
    async with loop() as made:
        made.server.trouble.append(trouble)
        await made.pods("p")
        await made.clock.pass_(10)
        assert len(made.server.asked) == 2
        assert await made.recorded(OwnerReadFailed) == []
        assert len(await made.recorded(OwnerResolved)) == 1


async def test_a_cluster_that_is_away_is_asked_when_it_is_back() -> None:
    async with loop() as made:
        made.connected = False
        await made.pods("p")
        await made.clock.pass_(30)
        assert made.server.asked == []
        made.connected = True
        await made.clock.pass_(5)
        assert len(await made.recorded(OwnerResolved)) == 1


@pytest.mark.parametrize("status", [429, 500, 504])
async def test_transient_answers_are_recorded_and_read_again_in_their_time(status: int) -> None:
    async with loop() as made:
        made.server.trouble.extend([ApiError(status, "Later", ""), ApiError(status, "Later", "")])
        await made.pods("p")
        await made.clock.pass_(10)
        assert [one.failures for one in await made.recorded(OwnerReadFailed)] == [1, 2]  # type: ignore[attr-defined]
        assert len(await made.recorded(OwnerResolved)) == 1


@pytest.mark.parametrize(
    ("trouble", "outcome"),
    [
        (NotServed("gone"), "NotServed"),
        (ApiError(403, "Forbidden", ""), "Forbidden"),
        (ApiError(404, "NotFound", ""), "NotFound"),
    ],
)
async def test_a_final_no_is_an_answer(trouble: Exception, outcome: str) -> None:
    async with loop() as made:
        made.server.trouble.append(trouble)
        await made.pods("p")
        await made.clock.pass_(1)
        assert [one.answer.outcome for one in await made.recorded(OwnerRead)] == [outcome]  # type: ignore[attr-defined]
        assert len(await made.recorded(OwnerResolved)) == 1


async def test_an_answer_that_cannot_be_recorded_is_read_again() -> None:
    async with loop() as made:
        made.server.held = asyncio.Event()
        await made.pods("p")
        made.log.away = True
        made.server.held.set()
        await made.clock.pass_(3)
        made.log.away = False
        await made.clock.pass_(5)
        assert len(await made.recorded(OwnerResolved)) == 1
        assert len(made.server.asked) >= 2


async def test_a_fault_of_ours_stops_nobody_else() -> None:
    async with loop() as made:
        made.server.trouble.append(RuntimeError("ours"))
        await made.pods("p")
        await made.clock.pass_(40)
        assert len(await made.recorded(OwnerResolved)) == 1


async def test_nothing_is_read_for_nobody() -> None:
    async with loop() as made:
        made.connected = False
        await made.pods("p")
        gone = ObjectChange(MANAGEMENT, "life", PODS, pod_manifest(WIDGET, "p"), "2", True)
        new = made.fleet.observe(gone, made.clock.now())
        assert new is not None
        await made.log.append(Append([new]))
        made.connected = True
        await made.clock.pass_(10)
        assert made.server.asked == []
        assert made.reads.under_way == 0


@pytest.mark.parametrize(("name", "absent"), [("w", True), ("another", False), ("", False)])
async def test_only_a_404_that_names_the_object_says_that_it_is_not_there(
    name: str, absent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One without a name is about the kind, or a gateway's."""
    async with loop() as made:
        answers, answered = list[ReadAnswer](), made.fleet.answered
        monkeypatch.setattr(made.fleet, "answered", lambda *asked: answers.append(asked[1]) or answered(*asked))
        made.server.trouble.append(ApiError(404, "NotFound", "not found", name=name))
        await made.pods("p")
        await made.clock.pass_(1)
        assert [one.absent for one in answers] == [absent]
