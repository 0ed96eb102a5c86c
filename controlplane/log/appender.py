"""Group commit: one task appends whatever has arrived while the last commit was under way.

In: requests from the recorder and from the deciders, each with a future. Out: one call of `controlplane.append_batch` a
batch, and each future's own answer. One task and not many, because the head row's lock lets only one append in at a
time anyway, and because its order is the order in which the callers asked. Events are encoded when they are submitted,
while the database is at work on those before.

Whatever the database says that is not about the content of a batch, the batch waits here and is tried again under the
same id until it is known to be in; callers wait with it, which is the back-pressure that stops the watches."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import LiteralString, TypeVar

import msgspec
import psycopg
import structlog
from psycopg.rows import TupleRow as Row

from controlplane.log import arrays
from controlplane.log.batch import Batch, EncodedRequest, UnknownSources, ahead, encoded
from controlplane.log.codec import Codec
from controlplane.log.committed import CommittedEvent
from controlplane.log.connect import Database, bounded, first_line, unacceptable
from controlplane.log.event import Append, Fenced, LogError, LogReplaced, VersionConflict
from controlplane.log.port import FOLLOWED, FollowUp
from controlplane.log.writer_cache import WriterCache
from controlplane.tasks import end

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")

# %b: binary arrays; psycopg's text arrays escape every quote of the JSON and cost four times as much.
_APPEND = """
SELECT outcome, committed_at FROM controlplane.append_batch(
    %b::text, %b::bigint, %b::uuid, %b::uuid, %b::uuid, %b::bigint, %b::text[], %b::bigint[], %b::text[], %b::int[], %b::text[], %b::text[],
    %b::text[], %b::bigint[], %b::text[], %b::timestamptz[], %b::text[], %b::bigint[], %b::text[], %b::text[],
    %b::bytea[], %b::text[])"""
_ASK = """
SELECT log_position, versions, marks FROM controlplane.known_to_log(%b::text, %b::boolean, %b::text[], %b::text[])"""


LINGER = 0.002
"""Seconds for which a few observations wait for others: what one write brings about is seen by several watches."""
PATIENCE = 0.25
"""Seconds for which observations from which nothing follows wait for others, all in all. Whoever recorded them waits too,
and reads on afterwards."""
_FEW = 8


class _Waiting(msgspec.Struct):
    request: EncodedRequest
    future: asyncio.Future[int]


class AppendStats(msgspec.Struct):
    """What was appended since the start, for metrics and benchmarks."""

    batches: int = 0
    events: int = 0
    known: int = 0
    conflicts: int = 0


class Appender:
    """The one writer of a log. `max_batch` bounds the events of a commit, `linger` and `patience` are in seconds; `on_batch(types of
    the new events, seconds)` is called after each commit, `on_committed(events, heard)` with what was new in it
    and what `heard()` had said before it was sent, `on_moved()` when somebody else has appended, `on_state(ok,
    detail)` when the database goes away and comes back. `follow_ups(events)`, with the places that events would get, says
    what is appended with them. `known` is the last batch that is known to be in the
    log: each append says it, and a log that lacks it refuses (`LogReplaced`)."""

    def __init__(
        self,
        database: Database,
        log: str,
        codec: Codec,
        *,
        max_batch: int = 1000,
        linger: float = LINGER,
        patience: float = PATIENCE,
        on_batch: Callable[[Sequence[str], float], None] | None = None,
        on_state: Callable[[bool, str], None] | None = None,
        on_committed: Callable[[Sequence[CommittedEvent], int], None] = lambda events, heard: None,
        heard: Callable[[], int] = lambda: 0,
        on_moved: Callable[[], None] = lambda: None,
        follow_ups: Callable[[Sequence[CommittedEvent]], FollowUp] = lambda events: FollowUp(),
    ) -> None:
        self.stats = AppendStats()
        self.epoch = 0
        self.nonce: uuid.UUID | None = None
        self.known: uuid.UUID | None = None
        self.patient = asyncio.Event()  # while a batch from which nothing follows waits for what comes next
        self._database, self._log, self._codec, self._max = database, log, codec, max_batch
        self.patience, self._linger = patience, linger
        self._on_batch, self._on_state = on_batch, on_state
        self._on_committed, self._heard, self._on_moved = on_committed, heard, on_moved
        self._follow_ups = follow_ups
        self._cache = WriterCache()
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._connection: psycopg.AsyncConnection[Row] | None = None
        self._fenced: Fenced | None = None
        self._task: asyncio.Task[None] | None = None

    def rejoin(self, epoch: int, nonce: uuid.UUID | None, known: uuid.UUID | None) -> None:
        """Append as the holder of this epoch from now on, whatever became of the one before."""
        self.epoch, self.nonce, self.known, self._fenced = epoch, nonce, known, None
        self._cache.clear()

    def submit(self, request: Append) -> asyncio.Future[int]:
        """Queue a request; the future gives the number of its events that were new, or raises `VersionConflict` or
        `Fenced`.
        """
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._fenced:
            future.set_exception(self._fenced)
        elif not request.events:
            future.set_result(0)
        else:
            try:
                self._queue.put_nowait(_Waiting(encoded(request, self._codec), future))
            except (TypeError, ValueError) as error:
                future.set_exception(_refused([new.stream for new in request.events], error))
            if self._task is None:
                self._task = asyncio.create_task(self._run(), name="log-appender")
        return future

    async def close(self) -> None:
        """Stop; what is queued and not yet committed is cancelled."""
        try:
            if self._task:
                await end(self._task)
        finally:
            while not self._queue.empty():
                self._queue.get_nowait().future.cancel()
            await self._drop()

    async def _run(self) -> None:
        while True:
            group = [await self._queue.get()]
            try:
                await self._gather(group)
                group[:] = [waiting for waiting in group if not waiting.future.done()]
                await self._commit(group)
            except asyncio.CancelledError:
                for waiting in group:
                    waiting.future.cancel()
                raise

    async def _gather(self, group: list[_Waiting]) -> None:
        """Add to a group what else is there. A few observations wait a moment for those that come with them; a decision
        waits for nothing."""
        self._take_all(group)
        if self._linger <= 0:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._linger):
                while _may_wait(group):
                    group.append(await self._queue.get())

    def _take_all(self, group: list[_Waiting]) -> None:
        size = sum(len(waiting.request.events) for waiting in group)
        while size < self._max and not self._queue.empty():
            group.append(self._queue.get_nowait())
            size += len(group[-1].request.events)

    async def _joined(self, group: list[_Waiting], until: float) -> bool:
        """Add to a group what comes next, if anything does until a time of the event loop, and leave out what was taken
        back meanwhile; return whether it is another group then."""
        if not _may_wait(group):
            return False
        before = list(group)
        self.patient.set()
        try:
            async with asyncio.timeout_at(until):
                group.append(await self._queue.get())
                self._take_all(group)
        except TimeoutError:
            pass
        finally:
            self.patient.clear()
        group[:] = [waiting for waiting in group if not waiting.future.done()]
        return group != before

    def _conflict(self, waiting: _Waiting) -> None:
        self.stats.conflicts += 1
        streams = ", ".join(waiting.request.expected)
        waiting.future.set_exception(VersionConflict(f"{streams}: moved on since the decision was taken"))

    async def _commit(self, group: list[_Waiting], *, alone: bool = False) -> None:
        if not group:
            return
        if self._fenced:
            _fail(group, self._fenced)
            return
        try:
            batch, at, heard = await self._written(group, follow=not alone)
        except Fenced as error:
            self._fenced = error
            _fail(group, error)
        except (psycopg.Error, TypeError, ValueError) as error:
            if not alone:
                # One request among them is bad, or what follows from one: append each on its own, so that only that one
                # fails. What follows is decided again once they are read.
                for waiting in group:
                    await self._commit([waiting], alone=True)
                return
            _fail(group, _refused([event.stream for event in group[0].request.events], error))
        else:
            if at is not None:
                self.known = batch.id
                batch.teach(self._cache)
                self._on_committed(batch.committed(at), heard)
                self.stats.batches += 1
                self.stats.events += batch.followed
            self._settle(group, batch.new)

    async def _written(self, group: list[_Waiting], *, follow: bool) -> tuple[Batch, datetime | None, int]:
        """Return the batch of a group, when it was committed, and what had been heard before it was sent. It is judged
        anew for as long as somebody else appends; while nothing follows from it, others may join it. None: nothing of it
        is new."""
        requests = [waiting.request for waiting in group]
        if ahead(requests, self._cache):
            self._cache.clear()
        until = asyncio.get_running_loop().time() + self.patience
        said = ""
        while True:
            unknown = UnknownSources(requests, self._cache)
            if self._cache.wants_merging or (said == "asked" and unknown) or not unknown.likely_new:
                await self._insist(partial(self._ask, unknown))
                said = ""
                continue
            batch, heard = Batch(requests, self._cache, unknown), self._heard()
            if batch.empty and unknown.of(request.expected for request in requests):
                await self._insist(partial(self._ask, unknown))  # nothing is sent that the database would judge
                continue
            if batch.empty:
                return batch, None, heard
            if follow and self._follow(batch) and await self._joined(group, until):
                requests = [waiting.request for waiting in group]
                if ahead(requests, self._cache):
                    self._cache.clear()
                continue
            started = time.perf_counter()
            said, at = await self._insist(partial(self._append, batch))
            if self._on_batch:
                self._on_batch(batch.types, time.perf_counter() - started)
            if said in ("new", "known"):
                return batch, at, heard
            if said == "moved":
                self._cache.clear()
                self._on_moved()

    def _follow(self, batch: Batch) -> bool:
        """Add to a small batch what follows from it; return whether it is known that nothing does. In a large one a commit
        costs each event little as it is."""
        if len(batch) > FOLLOWED:
            return False
        found, requests = self._follow_ups(batch.committed(datetime.now(UTC))), list[EncodedRequest]()
        for request in found.requests:
            try:
                requests.append(encoded(request, self._codec))
            except (TypeError, ValueError) as error:  # whoever decides it once more is told
                _log.debug("not appended at once", error=str(error))
        batch.follow(requests, self._cache)
        return found.whole and not found.requests

    def _settle(self, group: Sequence[_Waiting], new: Sequence[int | None]) -> None:
        for waiting, count in zip(group, new, strict=True):
            self.stats.events += count or 0
            if count is not None:
                self.stats.known += len(waiting.request.events) - count
            if waiting.future.done():
                continue
            if count is None:
                self._conflict(waiting)
            else:
                waiting.future.set_result(count)

    async def _insist(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Return the database's answer, however often it has to be asked; raises what is about the question itself."""
        delay = 0.05
        while True:
            try:
                answer = await ask()
            except psycopg.Error as error:
                if (fence := fenced(error, held=self.epoch > 0)) is not None:
                    raise fence from None
                if unacceptable(error):
                    raise
                detail = first_line(error)
                _log.warning("database away, append waits", error=detail, retry_in=round(delay, 2))
                if self._on_state:
                    self._on_state(False, detail)
                await self._drop()
                await asyncio.sleep(delay)
                delay = min(delay * 2, 2.0)
            else:
                if self._on_state:
                    self._on_state(True, "")
                return answer

    async def _append(self, batch: Batch) -> tuple[str, datetime]:
        parameters = (self._log, self.epoch, self.nonce, self.known, batch.id, *batch.parameters)
        said, at = await self._row(_APPEND, parameters)
        return said, at

    async def _ask(self, unknown: UnknownSources) -> None:
        """Let the writer know what it does not know."""
        streams, sources = unknown.streams, unknown.sources
        merged = self._cache.wants_merging
        position, versions, marks = await self._row(
            _ASK, (self._log, merged, arrays.texts(streams), arrays.texts(sources))
        )
        self._cache.answered(
            position or 0,
            dict(zip(streams, versions, strict=True)),
            dict(zip(sources, marks, strict=True)),
            merged=merged,
        )

    async def _row(self, query: LiteralString, parameters: Sequence[object]) -> Row:
        if self._connection is None or self._connection.closed:
            self._connection = await self._database.connect("appender")
            arrays.register(self._connection.adapters)
        with bounded(self._connection, self._database.statement_timeout):
            row = await (await self._connection.execute(query, parameters, binary=True)).fetchone()
        assert row is not None, "the function returns one row"
        return row

    async def _drop(self) -> None:
        if self._connection:
            await self._connection.close()
            self._connection = None


def _may_wait(group: Sequence[_Waiting]) -> bool:
    """Whether a group is of few events, and has no decision in it."""
    few = sum(len(waiting.request.events) for waiting in group) <= _FEW
    return few and not any(waiting.request.expected for waiting in group)


def fenced(error: psycopg.Error, *, held: bool = True) -> Fenced | None:
    """Return what a refusal by the fence of `controlplane.append_batch` or `renew_epoch` means; None for any other error.

    `held`: the caller had taken the log, so that it cannot be missing.
    """
    said = error.diag.message_primary or str(error)
    if error.sqlstate == "CP001" or (error.sqlstate == "CP002" and not held):
        return Fenced(said)
    if error.sqlstate in ("CP002", "CP003"):
        return LogReplaced(said, 0, int(error.diag.message_detail or 0))
    return None


def _refused(streams: Sequence[str], error: Exception) -> LogError:
    _log.error("append refused", error=str(error), streams=streams)
    return LogError(f"the database refused an append: {error}")


def _fail(group: Sequence[_Waiting], error: Exception) -> None:
    for waiting in group:
        if not waiting.future.done():
            waiting.future.set_exception(error)
