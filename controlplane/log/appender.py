"""Group commit: one task appends whatever has arrived while the last commit was under way.

In: requests from the recorder and from the deciders, each with a future. Out: one call of `controlplane.append_events` a
batch, and each future's own answer. One task and not many, because the head row's lock lets only one append in at a
time anyway, and because its order is the order in which the callers asked.

Whatever the database says that is not about the content of a batch, the batch waits here and is tried again under the
same id until it is known to be in; callers wait with it, which is the back-pressure that stops the watches."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence

import msgspec
import psycopg
import structlog
from psycopg.rows import TupleRow as Row

from controlplane.log import arrays
from controlplane.log.batch import Batch, Outcome
from controlplane.log.codec import Codec
from controlplane.log.committed import CommittedEvent
from controlplane.log.connect import Database, bounded, first_line, unacceptable
from controlplane.log.event import Append, Fenced, LogError, LogReplaced, VersionConflict
from controlplane.tasks import end

_log = structlog.get_logger(__name__)

# %b: binary arrays; psycopg's text arrays escape every quote of the JSON and cost four times as much.
_APPEND = """
SELECT request, outcome, log_position, stream_version, committed_at FROM controlplane.append_events(
    %b::text, %b::bigint, %b::uuid, %b::uuid, %b::uuid, %b::int[], %b::text[], %b::text[], %b::bigint[], %b::text[], %b::int[], %b::text[],
    %b::text[], %b::text[], %b::bigint[], %b::text[], %b::timestamptz[], %b::int[], %b::text[], %b::bigint[], %b::bytea[], %b::text[])"""


# Of so many streams the last version that was committed here is remembered.
_REMEMBERED = 4096


class _Waiting(msgspec.Struct):
    request: Append
    future: asyncio.Future[int]


class _Seen:
    """What is in a batch so far: the database judges all of it by what was there before."""

    def __init__(self) -> None:
        self._streams: set[str] = set()
        self._sources: set[str] = set()
        self._conditional_sources: set[str] = set()

    def add(self, request: Append) -> None:
        """Note a request of the batch."""
        self._streams.update(new.stream for new in request.events)
        sources = [new.source for new in request.events if new.source]
        self._sources.update(sources)
        if request.expected:
            self._conditional_sources.update(sources)

    def decides(self, request: Append) -> bool:
        """Whether what becomes of a request depends on what is in the batch: then it goes into the next one."""
        if request.expected and not self._streams.isdisjoint(request.expected):
            return True
        doubtful = self._sources if request.expected else self._conditional_sources
        return bool(doubtful) and any(new.source in doubtful for new in request.events)


class AppendStats(msgspec.Struct):
    """What was appended since the start, for metrics and benchmarks."""

    batches: int = 0
    events: int = 0
    known: int = 0
    conflicts: int = 0


class Appender:
    """The one writer of a log. `max_batch` bounds the events of a commit; `on_batch(types of the new events, seconds)`
    is called after each commit, `on_committed(events, heard)` with what was new in it and what `heard()` had said before
    it was sent, `on_state(ok, detail)` when the database goes away and comes back. `known` is the last batch that is
    known to be in the log: each append says it, and a log that lacks it refuses (`LogReplaced`)."""

    def __init__(
        self,
        database: Database,
        log: str,
        codec: Codec,
        *,
        max_batch: int = 1000,
        on_batch: Callable[[Sequence[str], float], None] | None = None,
        on_state: Callable[[bool, str], None] | None = None,
        on_committed: Callable[[Sequence[CommittedEvent], int], None] = lambda events, heard: None,
        heard: Callable[[], int] = lambda: 0,
    ) -> None:
        self.stats = AppendStats()
        self.epoch = 0
        self.nonce: uuid.UUID | None = None
        self.known: uuid.UUID | None = None
        self._database, self._log, self._codec, self._max = database, log, codec, max_batch
        self._on_batch, self._on_state = on_batch, on_state
        self._on_committed, self._heard = on_committed, heard
        self._versions: dict[str, int] = {}
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._connection: psycopg.AsyncConnection[Row] | None = None
        self._fenced: Fenced | None = None
        self._task: asyncio.Task[None] | None = None

    def rejoin(self, epoch: int, nonce: uuid.UUID | None, known: uuid.UUID | None) -> None:
        """Append as the holder of this epoch from now on, whatever became of the one before."""
        self.epoch, self.nonce, self.known, self._fenced = epoch, nonce, known, None
        self._versions.clear()

    @property
    def backend(self) -> int:
        """The server's process for the appending connection, 0 while there is none: whose notifications are our own."""
        connection = self._connection
        return 0 if connection is None or connection.closed else connection.info.backend_pid

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
            self._queue.put_nowait(_Waiting(request, future))
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
        held: _Waiting | None = None
        while True:
            group = [held or await self._queue.get()]
            held = None
            size, seen = len(group[0].request.events), _Seen()
            seen.add(group[0].request)
            while size < self._max and not self._queue.empty():
                waiting = self._queue.get_nowait()
                if seen.decides(waiting.request):
                    held = waiting
                    break
                group.append(waiting)
                size += len(waiting.request.events)
                seen.add(waiting.request)
            try:
                await self._commit(
                    [waiting for waiting in group if not (waiting.future.done() or self._overtaken(waiting))]
                )
            except asyncio.CancelledError:
                for waiting in [*group, held] if held else group:
                    waiting.future.cancel()
                raise

    def _overtaken(self, waiting: _Waiting) -> bool:
        """Refuse a request for a version that a commit of ours is past: the database need not be asked."""
        expected = waiting.request.expected or {}
        if not any(self._versions.get(stream, 0) > version for stream, version in expected.items()):
            return False
        self._conflict(waiting)
        return True

    def _conflict(self, waiting: _Waiting) -> None:
        self.stats.conflicts += 1
        streams = ", ".join(waiting.request.expected or {})
        waiting.future.set_exception(VersionConflict(f"{streams}: moved on since the decision was taken"))

    def _remember(self, committed: Sequence[CommittedEvent]) -> None:
        for one in committed:
            self._versions.pop(one.stream, None)
            self._versions[one.stream] = one.version
        while len(self._versions) > _REMEMBERED:
            del self._versions[next(iter(self._versions))]

    async def _commit(self, group: list[_Waiting]) -> None:
        if not group:
            return
        if self._fenced:
            _fail(group, self._fenced)
            return
        try:
            batch, heard = Batch([waiting.request for waiting in group], self._codec), self._heard()
            outcomes = await self._send(batch)
        except Fenced as error:
            self._fenced = error
            _fail(group, error)
        except (psycopg.Error, TypeError, ValueError) as error:
            if len(group) > 1:
                # One request among them is bad: append each on its own, so that only that one fails.
                for waiting in group:
                    await self._commit([waiting])
                return
            _log.error("append refused", error=str(error), streams=[event.stream for event in group[0].request.events])
            _fail(group, LogError(f"the database refused an append: {error}"))
        else:
            if any(outcome.said == "new" for outcome in outcomes):
                self.known = batch.id
            self.stats.known += batch.known
            committed = batch.committed(outcomes)
            self._remember(committed)
            self._on_committed(committed, heard)
            self._settle(group, outcomes)

    def _settle(self, group: list[_Waiting], outcomes: Sequence[Outcome]) -> None:
        new = [0] * len(group)
        refused: set[int] = set()
        for outcome in outcomes:
            if outcome.said == "new":
                new[outcome.request] += 1
            elif outcome.said == "conflict":
                refused.add(outcome.request)
            else:
                self.stats.known += 1
        self.stats.batches += 1
        self.stats.events += sum(new)
        for number, waiting in enumerate(group):
            if waiting.future.done():
                continue
            if number in refused:
                self._conflict(waiting)
            else:
                waiting.future.set_result(new[number])

    async def _send(self, batch: Batch) -> list[Outcome]:
        delay = 0.05
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                outcomes = await self._call(batch)
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
                if self._on_batch:
                    self._on_batch(batch.types(outcomes), loop.time() - started)
                return outcomes

    async def _call(self, batch: Batch) -> list[Outcome]:
        if self._connection is None or self._connection.closed:
            self._connection = await self._database.connect("appender")
            arrays.register(self._connection.adapters)
        parameters = (self._log, self.epoch, self.nonce, self.known, batch.id, *batch.parameters)
        with bounded(self._connection, self._database.statement_timeout):
            cursor = await self._connection.execute(_APPEND, parameters, binary=True)
            return [Outcome(*row) for row in await cursor.fetchall()]

    async def _drop(self) -> None:
        if self._connection:
            await self._connection.close()
            self._connection = None


def fenced(error: psycopg.Error, *, held: bool = True) -> Fenced | None:
    """Return what a refusal by the fence of `controlplane.append_events` or `renew_epoch` means; None for any other error.

    `held`: the caller had taken the log, so that it cannot be missing.
    """
    said = error.diag.message_primary or str(error)
    if error.sqlstate == "CP001" or (error.sqlstate == "CP002" and not held):
        return Fenced(said)
    if error.sqlstate in ("CP002", "CP003"):
        return LogReplaced(said, 0, int(error.diag.message_detail or 0))
    return None


def _fail(group: Sequence[_Waiting], error: Exception) -> None:
    for waiting in group:
        if not waiting.future.done():
            waiting.future.set_exception(error)
