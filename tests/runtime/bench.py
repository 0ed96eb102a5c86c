"""The bench: the loop between a log in memory and clusters that answer as they are told, on a clock that moves only
when told.

In: answers, holds and faults, laid out by a test. Out: the requests that clusters saw, and the events that are in the
log."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.clusters.protocol import ApiError, Executes
from controlplane.controllers.connectivity.events import EventRefused
from controlplane.kube.kinds import Json, Request
from controlplane.log.codec import Codec
from controlplane.log.event import Append, Event, Heartbeat, LogHead, LogUnavailable, NewEvent, Recorded, Unknown
from controlplane.log.memory import MemoryLog, MemoryStore
from controlplane.runtime.bodies import Bodies
from controlplane.runtime.effects import Effects
from controlplane.runtime.gate import Gate
from controlplane.runtime.runner import Runner
from tests.runtime.errands import Errands

LONG = 120.0


def no(status: int, reason: str = "") -> ApiError:
    """An API server's no."""
    return ApiError(status, reason, f"no: {status}")


async def settle() -> None:
    """Let every task run until all of them wait for something; fails if they never do."""
    loop: Any = asyncio.get_running_loop()
    for _ in range(10_000):
        await asyncio.sleep(0)
        if not loop._ready:  # what the event loop would run next
            return
    raise AssertionError("somebody never rests")


class ManualClock:
    """Time that moves only in `pass_`, from one sleeper to the next, as it would on an idle machine."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.seconds + seconds, next(self._numbers), future))
        await future

    async def pass_(self, seconds: float) -> None:
        """Let time pass, waking each sleeper at its moment."""
        await settle()
        until = self.seconds + seconds
        while self._sleepers and self._sleepers[0][0] <= until:
            at, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                self.seconds = at
                future.set_result(None)
                await settle()
        self.seconds = until
        await settle()


class BenchLog(MemoryLog):
    """A log in memory that naps on the manual clock, and can be away, slow or in the middle of something else.

    `away`: every question is refused; `held` and `held_bodies`: appends, or reads of bodies, wait for it;
    `before_append(request)` is awaited first, and may raise."""

    def __init__(self, store: MemoryStore, clock: ManualClock) -> None:
        super().__init__(store, Codec([*Errands.types, EventRefused]), clock.now)
        self._clock = clock
        self.away = False
        self.held: asyncio.Event | None = None
        self.held_bodies: asyncio.Event | None = None
        self.before_append: Callable[[Append], Awaitable[None]] | None = None
        self.appended: list[Append] = []
        self.bodies_asked: list[list[str]] = []

    def _answer(self) -> None:
        if self.away:
            raise LogUnavailable("connection refused")

    async def heartbeat(self) -> Heartbeat:
        self._answer()
        return await super().heartbeat()

    async def lead(self, holder: str, heartbeat: Heartbeat) -> LogHead | None:
        self._answer()
        return await super().lead(holder, heartbeat)

    async def renew(self, *, resign: bool = False) -> None:
        self._answer()
        await super().renew(resign=resign)

    async def append(self, request: Append) -> int:
        if self.held is not None:
            await self.held.wait()
        if self.before_append is not None:
            await self.before_append(request)
        self._answer()
        added = await super().append(request)
        self.appended.append(request)
        return added

    async def read(self, after: int, limit: int = 2000) -> Sequence[Recorded]:
        self._answer()
        return await super().read(after, limit)

    async def wait(self, after: int, timeout: float) -> None:
        self._answer()
        if len(self._store.rows) > after:
            return
        sleepers = [asyncio.create_task(self._store.grown.wait()), asyncio.create_task(self._clock.sleep(timeout))]
        try:
            await asyncio.wait(sleepers, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for sleeper in sleepers:
                sleeper.cancel()
        self._answer()

    async def bodies(self, refs: Iterable[str]) -> dict[str, bytes]:
        asked = list(refs)
        self.bodies_asked.append(asked)
        if self.held_bodies is not None:
            await self.held_bodies.wait()
        self._answer()
        return await super().bodies(asked)


class Cluster:
    """A cluster's client: gives the answers laid out in their order, else success; `held` keeps requests on their
    way.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: deque[Json | Exception | None] = deque()
        self.held: asyncio.Event | None = None
        self.ended: list[str] = []
        self.under_way = self.most = 0

    async def execute(self, request: Request) -> Json | None:
        self.requests.append(request)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(0)
            if self.held is not None:
                await self.held.wait()
        finally:
            self.under_way -= 1
        answer = self.answers.popleft() if self.answers else {"metadata": {"resourceVersion": "8"}}
        if isinstance(answer, Exception):
            raise answer
        self.ended.append(request.ref.name)
        return answer

    @property
    def names(self) -> list[str]:
        """The names of the objects that requests were about, in their order."""
        return [request.ref.name for request in self.requests]


class Bench:
    """One process: its log, capability, effects and runner. `clusters` are those that are connected."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        clock: ManualClock | None = None,
        *,
        slice_: int = 250,
        batch: int = 2000,
        anticipates: bool = False,
        **more: Any,
    ) -> None:
        self.clock = clock or ManualClock()
        self.store = store or MemoryStore()
        self.log = BenchLog(self.store, self.clock)
        self.capability = Errands()
        self.bodies = Bodies(self.log)
        self.gate = Gate()
        self.east, self.west = Cluster(), Cluster()
        self.clusters: dict[str, Executes] = {"east": self.east, "west": self.west}
        self.outcomes: list[tuple[str, str, str]] = []
        self.folded: list[int] = []
        self.failed: list[str] = []
        self.sure = True
        self.effects = Effects(
            self.log,
            self.capability,
            self.bodies,
            self.clock,
            self.gate,
            self.clusters.get,
            rng=random.Random(1),
            on_outcome=lambda *outcome: self.outcomes.append(outcome),
            sure=lambda: self.sure,
            **more,
        )
        self.runner = Runner(
            self.log,
            self.capability,
            self.effects,
            self.gate,
            self.clock,
            on_folded=lambda events: self.folded.append(len(events)),
            on_failed=lambda stream: self.failed.append(stream),
            slice_=slice_,
            batch=batch,
            anticipating=self.capability if anticipates else None,
        )
        self.running: asyncio.Task[None] | None = None

    def run(self) -> asyncio.Task[None]:
        """Start the loop, as a leader does."""
        self.effects.failure = asyncio.get_running_loop().create_future()
        self.running = asyncio.create_task(self.runner.run())
        return self.running

    async def tell(self, *events: NewEvent) -> None:
        """Append events past the held and hooked paths, and let everybody hear of them."""
        await MemoryLog.append(self.log, Append(events))
        await settle()

    async def pass_(self, seconds: float) -> None:
        await self.clock.pass_(seconds)

    def events(self, *types: type[Event]) -> list[Event | Unknown]:
        """What is in the log, or what of it is of these types."""
        return [row[0].event for row in self.store.rows if not types or isinstance(row[0].event, types)]

    async def close(self) -> None:
        if self.running is not None:
            self.running.cancel()
            await asyncio.gather(self.running, return_exceptions=True)
        await self.effects.close(drain=0.01)
        if self.effects.failure is not None:
            self.effects.failure.cancel()
        assert not self.capability.misused


@asynccontextmanager
async def bench(
    store: MemoryStore | None = None, clock: ManualClock | None = None, **more: Any
) -> AsyncIterator[Bench]:
    """A process that leads the log and runs."""
    made = Bench(store, clock, **more)
    await made.log.take_epoch("bench")
    made.run()
    try:
        yield made
    finally:
        await made.close()
