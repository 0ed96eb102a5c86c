"""Group commit: one task appends whatever has arrived while the last commit was under way.

In: requests from the recorder and from the deciders, each with a future. Out: one call of `controlplane.append_batch` a
batch, and each future's own answer. One task and not many, because the head row's lock lets only one append in at a
time anyway, and because its order is the order in which the callers asked. Events are encoded when they are submitted.
While the database is at work on a batch, the next one is judged on top of it and made ready (`controlplane.log.draft`).
If it is full it is sent at once (`controlplane.log.early_batch`), else as soon as the one before is known to be in, and
then the callers of that one are told. If that one is not committed, what was judged on top of it is judged anew.

Whatever the database says that is not about the content of a batch, the batch waits here and is tried again under the
same id until it is known to be in; callers wait with it, which is the back-pressure that stops the watches."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

import msgspec
import psycopg
import structlog

from controlplane.log import arrays
from controlplane.log.append_answers import AppendAnswers, fail, refused
from controlplane.log.batch import Batch, EncodedRequest, encoded
from controlplane.log.codec import Codec
from controlplane.log.committed import CommittedEvent
from controlplane.log.connect import Database
from controlplane.log.draft import Draft, WaitingRequest
from controlplane.log.early_batch import EarlyBatch
from controlplane.log.event import Append, Fenced, NewEvent
from controlplane.log.insistent_line import InsistentLine
from controlplane.log.port import FOLLOWED, FollowUp
from controlplane.log.writer_cache import WriterCache
from controlplane.tasks import end

_log = structlog.get_logger(__name__)

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
"""Seconds for which observations from which nothing follows wait for others, all in all. Whoever recorded them waits
too, and reads on afterwards."""
_FEW = 8


class AppendStats(msgspec.Struct):
    """What was appended since the start, for metrics and benchmarks."""

    batches: int = 0
    events: int = 0
    known: int = 0
    conflicts: int = 0


class Appender:
    """The one writer of a log. `max_batch` bounds the events of a commit, `linger` and `patience` are in seconds;
    `on_batch(types of the new events, seconds)` is called after each commit, `on_committed(events, heard)` with what
    was new in it and what `heard()` had said before it was sent, `on_moved()` when somebody else has appended,
    `on_state(ok, detail)` when the database goes away and comes back. `follow_ups(events)`, with the places that events
    would get, says what is appended with them; `trace_of(event)` is asked once for the trace of each. `known` is the
    last batch that is known to be in the log: each append says it, and a log that lacks it refuses (`LogReplaced`)."""

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
        trace_of: Callable[[NewEvent], str] = lambda event: event.trace,
    ) -> None:
        self.stats = AppendStats()
        self.epoch = 0
        self.nonce: uuid.UUID | None = None
        self.known: uuid.UUID | None = None
        self.patient = asyncio.Event()  # while a batch from which nothing follows waits for what comes next
        self._log, self._codec, self._max = log, codec, max_batch
        self.patience, self._linger, self._on_batch = patience, linger, on_batch
        self._on_committed, self._heard, self._on_moved = on_committed, heard, on_moved
        self._follow_ups, self._trace_of = follow_ups, trace_of
        self._cache = WriterCache()
        self._queue: deque[WaitingRequest] = deque()
        self._arrived = asyncio.Event()
        self._draft: Draft | None = None  # what comes after the batch in flight
        self._answers = AppendAnswers()
        self._line, self._other = (
            InsistentLine(database, held=lambda: self.epoch > 0, on_state=on_state) for _ in range(2)
        )
        self._early = EarlyBatch(self._tried)
        self._fenced: Fenced | None = None
        self._task: asyncio.Task[None] | None = None

    def rejoin(self, epoch: int, nonce: uuid.UUID | None, known: uuid.UUID | None) -> None:
        """Append as the holder of this epoch from now on, whatever became of the one before."""
        self.epoch, self.nonce, self.known, self._fenced = epoch, nonce, known, None
        self._cache.clear()
        if not self._early.on_its_way:
            self._put_back()

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
                self._queue.append(WaitingRequest(encoded(request, self._codec, self._trace_of), future))
            except (TypeError, ValueError) as error:
                future.set_exception(refused([new.stream for new in request.events], error))
            if self._draft is not None:
                self._prepare(self._draft)
            else:
                self._arrived.set()
            if self._task is None:
                self._task = asyncio.create_task(self._run(), name="log-appender")
        return future

    async def close(self) -> None:
        """Stop; what is queued and not yet committed is cancelled."""
        try:
            if self._task:
                await end(self._task)
        finally:
            self._answers.give(len(self._answers))
            self._put_back()
            while self._queue:
                self._queue.popleft().future.cancel()
            await self._early.close()
            await self._line.close()
            await self._other.close()

    async def _run(self) -> None:
        while True:
            draft = await self._next()
            try:
                if not self._early.on_its_way:
                    await self._gather(draft)
                    draft.drop_answered()
                await self._commit(draft)
            except asyncio.CancelledError:
                for waiting in draft.group:
                    waiting.future.cancel()
                raise
            except Exception as error:  # a fault of this process, which ends with whoever asked
                self._cache.clear()
                self._put_back()
                fail(draft.group, error)

    async def _next(self) -> Draft:
        """Return what was made ready while the last batch was in flight, or what is asked for next."""
        draft, self._draft = self._draft, None
        if draft is not None and draft.group:
            draft.landed()
            return draft
        draft = Draft(self._cache)
        await self._arrive(draft)
        return draft

    async def _arrive(self, draft: Draft) -> None:
        """Add to a draft what is asked for next."""
        while not self._queue:
            self._arrived.clear()
            await self._arrived.wait()
        draft.add(self._queue.popleft())

    def _prepare(self, draft: Draft) -> None:
        """Make ready what waits, unless the draft is over by now, and send it if it is full: the database lets it in
        after the batch in flight, if that is committed."""
        if draft is not self._draft or self._early.on_its_way:
            return
        full = draft.take(self._queue, self._max)
        if full and self._early.is_free and draft.may_be_sent and not self._cache.wants_merging:
            self._early.send(draft.batch, self._heard())

    def _put_back(self) -> None:
        """Drop what was judged on a batch that is not committed: it is asked for next, as if it had come just now."""
        draft, self._draft = self._draft, None
        self._early.leave()
        if draft is not None:
            self._queue.extendleft(reversed(draft.group))
            self._arrived.set()

    async def _gather(self, draft: Draft) -> None:
        """Add to a draft what else is there. A few observations wait a moment for those that come with them; a decision
        waits for nothing."""
        draft.take(self._queue, self._max)
        if self._linger <= 0 or not self._may_wait(draft):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._linger):
                while self._may_wait(draft):
                    await self._arrive(draft)

    def _may_wait(self, draft: Draft) -> bool:
        """Whether a draft is of few events, and has no decision in it."""
        return draft.size <= _FEW and draft.size < self._max and not draft.decides

    async def _joined(self, draft: Draft, until: float) -> bool:
        """Add to a draft what comes next, if anything does until a time of the event loop, and leave out what was taken
        back meanwhile; return whether it is another one then."""
        if not self._may_wait(draft):
            return False
        before = len(draft.group)
        self.patient.set()
        try:
            async with asyncio.timeout_at(until):
                await self._arrive(draft)
                draft.take(self._queue, self._max)
        except TimeoutError:
            pass
        finally:
            self.patient.clear()
        grown = len(draft.group) != before
        return draft.drop_answered() or grown

    async def _commit(self, draft: Draft, *, alone: bool = False) -> None:
        if not draft.group:
            return
        if self._fenced:
            fail(draft.group, self._fenced)
            return
        try:
            at, heard = await self._written(draft, alone=alone)
        except Fenced as error:
            self._fenced = error
            fail(draft.group, error)
        except (psycopg.Error, TypeError, ValueError) as error:
            if not alone:
                # One request among them is bad, or what follows from one: append each on its own, so that only that one
                # fails. What follows is decided again once they are read.
                for waiting in draft.group:
                    one = Draft(self._cache)
                    one.add(waiting)
                    await self._commit(one, alone=True)
                return
            fail(draft.group, refused([event.stream for event in draft.group[0].request.events], error))
        else:
            batch = draft.batch
            if at is not None:
                self.known = batch.id
                batch.teach(self._cache)
                self._on_committed(batch.committed(at), heard)
                self.stats.batches += 1
                self.stats.events += batch.followed
            self._settle(draft.group, batch.new)

    async def _written(self, draft: Draft, *, alone: bool) -> tuple[datetime | None, int]:
        """Return when the batch of a draft was committed, and what had been heard before it was sent. It is judged anew
        for as long as somebody else appends. None: nothing of it is new."""
        until = asyncio.get_running_loop().time() + self.patience
        if not self._early.on_its_way:
            self._catch_up(draft)
        while True:
            if not self._early.on_its_way:
                await self._complete(draft, until, alone=alone)
            batch = draft.batch
            heard, started = self._heard(), time.perf_counter()
            if self._early.on_its_way:
                heard, started = self._early.heard, self._early.since
            if batch.empty:
                return None, heard
            said, at = await self._flown(batch, prepare=not alone)
            if self._on_batch:
                self._on_batch(batch.types, time.perf_counter() - started)
            if said in ("new", "known"):
                return at, heard
            if said == "moved":
                self._cache.clear()
                self._on_moved()
            else:
                await self._line.insist(partial(self._ask, batch))
            draft.judge()

    async def _complete(self, draft: Draft, until: float, *, alone: bool) -> None:
        """Ask what has to be known of a draft, and add what follows from it; while nothing does, others may join it
        until a time of the event loop."""
        while True:
            await self._learn(draft)
            batch = draft.batch
            if batch.empty or alone or not (self._follow(batch) and await self._joined(draft, until)):
                return
            self._catch_up(draft)
            draft.judge()

    def _catch_up(self, draft: Draft) -> None:
        """Forget what the writer knows if a request of a draft rests on more: another one's append was read."""
        if draft.batch.ahead:
            self._cache.clear()
            draft.judge()

    async def _learn(self, draft: Draft) -> None:
        """Ask the database until all is known without which a draft cannot be judged, and where the log ends."""
        while (asks := draft.batch.has_to_ask()) or self._cache.wants_merging:
            unknown = draft.batch if asks or self._cache.position is None else None
            await self._line.insist(partial(self._ask, unknown))
            if unknown is not None or self._cache.position != draft.batch.after:
                draft.judge()

    async def _flown(self, batch: Batch, *, prepare: bool) -> tuple[str, datetime]:
        """Send a batch, unless it is on its way, and return what the database said. What is asked for meanwhile is
        judged on top of it, once it is on its way, and put back if it is not committed."""
        early = self._early.landing()
        if prepare:
            self._draft = Draft(self._cache, batch)
            asyncio.get_running_loop().call_soon(self._prepare, self._draft)
        committed = False
        try:
            answer = await early if early is not None else None
            if answer is not None:
                self._line, self._other = self._other, self._line
            said, at = answer if answer is not None else await self._line.insist(partial(self._append, batch))
            committed = said in ("new", "known")
        finally:
            if not committed:
                self._put_back()
        return said, at

    def _follow(self, batch: Batch) -> bool:
        """Add to a small batch what follows from it; return whether it is known that nothing does. In a large one a
        commit costs each event little as it is."""
        if len(batch) > FOLLOWED:
            return False
        found, requests = self._follow_ups(batch.committed(datetime.now(UTC))), list[EncodedRequest]()
        for request in found.requests:
            try:
                requests.append(encoded(request, self._codec, self._trace_of))
            except (TypeError, ValueError) as error:  # whoever decides it once more is told
                _log.debug("not appended at once", error=str(error))
        batch.follow(requests)
        return found.whole and not found.requests

    def _settle(self, group: Sequence[WaitingRequest], new: Sequence[int | None]) -> None:
        """Tell the callers what became of their requests, once the next batch is on its way if one is ready."""
        for waiting, count in zip(group, new, strict=True):
            if count is None:
                self.stats.conflicts += 1
            else:
                self.stats.events += count
                self.stats.known += len(waiting.request.events) - count
            self._answers.add(waiting, count)
        self._answers.give_soon()

    async def _append(self, batch: Batch) -> tuple[str, datetime]:
        return await self._sent(self._line, batch)

    async def _tried(self, batch: Batch) -> tuple[str, datetime]:
        line = self._other
        try:
            return await self._sent(line, batch)
        except psycopg.Error:
            await line.close()
            raise

    async def _sent(self, line: InsistentLine, batch: Batch) -> tuple[str, datetime]:
        known = batch.rests_on or self.known
        said, at = await line.row(_APPEND, (self._log, self.epoch, self.nonce, known, batch.id, *batch.parameters))
        return said, at

    async def _ask(self, batch: Batch | None) -> None:
        """Let the writer know what it lacks of a batch; None: where the log ends, and that the marks are merged."""
        streams, sources = (list(batch.streams), list(batch.sources)) if batch is not None else ([], [])
        merged = self._cache.wants_merging
        position, versions, marks = await self._line.row(
            _ASK, (self._log, merged, arrays.texts(streams), arrays.texts(sources))
        )
        self._cache.answered(
            position or 0,
            dict(zip(streams, versions, strict=True)),
            dict(zip(sources, marks, strict=True)),
            merged=merged,
        )
