"""The database as the replicas meet it: one log in memory, and the ways in which a database is away.

In: what the loop and the leader ask of a log. Out: the same answers as PostgreSQL's: an append waits until it is in (in
order, nothing twice), everything else raises when there is no answer. The events themselves are in a `MemoryStore`,
which outlives every process; so does what a process had sent when it died, perhaps."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from controlplane.dst.engine.loop import SimulatedProcess, VirtualClock, VirtualLoop
from controlplane.dst.engine.network import replica_of
from controlplane.log.codec import Codec
from controlplane.log.event import Append, Heartbeat, LogError, LogHead, LogUnavailable, NewEvent, Recorded
from controlplane.log.memory import MemoryLog, MemoryStore
from controlplane.log.port import FollowUp, FollowUps

_T = TypeVar("_T")


class SimulatedDatabase:
    """What all replicas share.

    `away`: nobody gets an answer; `barred`: nor do these replicas. `ailing`: that share of what is asked is answered
    with an error, half of it once it was done. `refuses`: whatever is appended is refused. `keeps_snapshots`: processes
    start from what others have folded (`snapshots`, by position). `absences`: from a leader's last heartbeat or event
    to the first of the next one. `on_append(position before, writer, new events)` hears of each commit."""

    def __init__(self, loop: VirtualLoop, seed: str, codec: Codec) -> None:
        self.loop, self.codec = loop, codec
        self.random = random.Random(f"database {seed}")  # noqa: S311 - reproducible on purpose
        self.clock = VirtualClock(loop)
        self.store = MemoryStore()
        self.away = self.refuses = self.keeps_snapshots = False
        self.barred: set[str] = set()
        self.ailing = 0.0
        self.snapshots: dict[int, Any] = {}
        self.absences: list[tuple[datetime, datetime]] = []
        self._heartbeat: datetime | None = None
        self.on_append: Callable[[int, str, Sequence[NewEvent]], None] = lambda position, writer, events: None

    def latency(self) -> float:
        """Return how long one round trip takes."""
        return 0.0003 + 0.003 * self.random.random()

    def heal(self) -> None:
        """End whatever is wrong with it."""
        self.away = self.refuses = False
        self.barred.clear()
        self.ailing = 0.0

    def silent_to(self, process: SimulatedProcess) -> bool:
        """Whether a process gets no answer."""
        return self.away or (bool(self.barred) and replica_of(process.name) in self.barred)

    def errs(self) -> bool:
        """Whether what is asked now is answered with an error."""
        return bool(self.ailing) and self.random.random() < self.ailing / 2

    def signed(self, *, began: bool = False) -> None:
        """Take note of a leader's heartbeat, the first one of its lead or another, or of what it recorded."""
        before, self._heartbeat = self._heartbeat, self.clock.now()
        if began and before is not None:
            self.absences.append((before, self._heartbeat))

    def read(self, after: int, limit: int) -> Sequence[Recorded]:
        """Return events at once, for whoever looks from outside."""
        return at_once(MemoryLog(self.store, self.codec, self.clock.now).read(after, limit))


class DatabaseLog:
    """One process' way to the log: `controlplane.log.port.Log` with `PostgresLog`'s manners.

    `on_state(ok, detail)` hears when the database goes away and comes back.
    """

    def __init__(
        self, database: SimulatedDatabase, process: SimulatedProcess, on_state: Callable[[bool, str], None]
    ) -> None:
        self._database, self._process, self._on_state = database, process, on_state
        self._log = MemoryLog(database.store, database.codec, database.clock.now)
        self.traces = self._log.traces
        self._queue: deque[tuple[Append, asyncio.Future[int]]] = deque()
        self._pumping = self._closed = False
        self._answers, self._leads = True, False

    async def head(self) -> LogHead:
        """Return the last position and the current epoch."""
        await self.round_trip()
        return await self._log.head()

    async def identity(self) -> str:
        """Return "": a simulated database has no other beside it."""
        return ""

    async def take_epoch(self, holder: str) -> LogHead:
        """Bump the epoch: from now on only the caller may append."""
        await self.round_trip()
        return self._answered(await self._log.take_epoch(holder))

    async def assist(self) -> LogHead:
        """Append with the current epoch, without taking it."""
        await self.round_trip()
        self._leads = False
        return await self._log.assist()

    async def heartbeat(self) -> Heartbeat:
        """Return the last heartbeat of the log's holder."""
        await self.round_trip()
        return await self._log.heartbeat()

    async def lead(self, holder: str, heartbeat: Heartbeat) -> LogHead | None:
        """Take the epoch unless its holder has sent another heartbeat; None then."""
        await self.round_trip()
        head = await self._log.lead(holder, heartbeat)
        if head is not None:
            self._leads = True
            self._database.signed(began=True)
        return self._answered(head)

    async def renew(self, *, resign: bool = False) -> None:
        """Send a heartbeat, or the last one; raises `Fenced` if the epoch is over."""
        await self.round_trip()
        await self._log.renew(resign=resign)
        self._database.signed()
        self._answered(None)

    async def append(self, request: Append) -> int:
        """Commit a request, after those that were asked before; waits for as long as the database is away."""
        if not request.events:
            return 0
        future: asyncio.Future[int] = self._database.loop.create_future()
        self._queue.append((request, future))
        if not self._pumping:
            self._pumping = True
            self._database.loop.world_later(self._database.latency(), self._pump)
        return await future

    def follow_with(self, follow_ups: FollowUps) -> None:
        """Commit with a few events what follows from them, as long as the process is there to say so."""
        self._log.follow_with(lambda events: FollowUp() if self._process.dead else follow_ups(events))

    async def read(self, after: int, limit: int = 2000) -> Sequence[Recorded]:
        """Return the events after a position."""
        await self.round_trip()
        return await self._log.read(after, limit)

    async def wait(self, after: int, timeout: float) -> None:
        """Return when the log may have grown past `after`, or after `timeout` seconds."""
        await self._log.wait(after, timeout)

    async def patient(self) -> None:
        """Whatever was asked for may be taken back at any time before it is committed, and after it."""
        await asyncio.sleep(self._database.latency())

    async def bodies(self, refs: Iterable[str]) -> dict[str, bytes]:
        """Return the JSON of bodies by the hex of their hash."""
        await self.round_trip()
        return await self._log.bodies(refs)

    # --- for snapshots: how far the log was read, and what it has where ---

    def last_read(self) -> tuple[int, object]:
        """Return how far the log was read, and the row there."""
        return self._log.last_read

    def resume(self, position: int) -> None:
        """Go on as if the log had been read up to a position."""
        self._log.last_read = position, self.row(position)

    def row(self, position: int) -> object:
        """Return the row at a position."""
        return self._database.store.rows[position - 1]

    def has(self, position: int, row: object) -> bool:
        """Whether the log has this very row there."""
        return len(self._database.store.rows) >= position and self.row(position) is row

    async def close(self) -> None:
        """Commit nothing more."""
        self._closed = True
        while self._queue:
            self._queue.popleft()[1].cancel()

    async def round_trip(self) -> None:
        """Go there and back: what was asked for is done in between, so a process can die knowing of it or not."""
        await asyncio.sleep(self._database.latency())
        if self._database.silent_to(self._process):
            raise LogUnavailable("the database does not answer: connection refused")
        if self._database.errs():
            raise LogUnavailable("the database refuses: cannot execute this in a read-only transaction")

    def _answered(self, result: _T) -> _T:
        """Return what was done, unless the answer is lost."""
        if self._database.errs():
            raise LogUnavailable("the database does not answer: server closed the connection unexpectedly")
        return result

    def _pump(self) -> None:
        """Commit what is queued, in order. Of what a dying process had sent, nobody but the log knows whether it
        arrived.
        """
        database = self._database
        if self._process.dead and (database.silent_to(self._process) or database.random.random() < 0.5):
            self._queue.clear()
        elif (pause := self._pause()) is not None:
            database.loop.world_later(pause, self._pump)
            return
        while self._queue:
            request, future = self._queue.popleft()
            if not (future.cancelled() or self._closed):
                self._commit(request, future)
        self._pumping = False
        self._say(True)

    def _pause(self) -> float | None:
        """Return after how long it is tried again, while the process stands still, or the database does not answer, or
        errs."""
        database = self._database
        away = database.silent_to(self._process)
        if away and not self._process.dead:
            self._say(False)
        if self._process.frozen or away:
            return 0.05 + 0.5 * database.random.random()
        return 0.02 * database.random.random() if database.errs() else None

    def _say(self, ok: bool) -> None:
        if ok != self._answers:
            self._answers = ok
            context = self._process.context()
            self._database.loop.call_soon(self._on_state, ok, "" if ok else "connection refused", context=context)

    def _commit(self, request: Append, future: asyncio.Future[int]) -> None:
        before = len(self._database.store.rows)
        if self._database.refuses:
            error = LogError("the database refused an append: simulated")
            self._database.loop.world_later(self._database.latency(), _fail, future, error)
            return
        try:
            added = at_once(self._log.append(request))
        except LogError as error:
            self._database.loop.world_later(self._database.latency(), _fail, future, error)
            return
        if added:
            new = [row[0] for row in self._database.store.rows[before:]]
            if self._leads:
                self._database.signed()
            self._database.on_append(before, self._process.name, new)
        self._database.loop.world_later(self._database.latency(), _settle, future, added)


def _settle(future: asyncio.Future[int], added: int) -> None:
    if not future.done():
        future.set_result(added)


def _fail(future: asyncio.Future[int], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def at_once(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    raise RuntimeError("this coroutine waits")
