"""The loop itself: read the log, fold, decide, append what was decided; and wake up for what is due though nothing
happened.

In: the log from a position. Out: decisions in the log, open writes handed to the executors. Whatever this process
appended comes back here like everybody else's: only what is committed is folded, and only what is folded is carried
out. What follows from an event can be decided before its commit, on a copy of one state, and is committed with it
(docs/decisions/0028).
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import structlog

from controlplane.clock import Clock
from controlplane.log.event import Append, Fenced, LogError, LogUnavailable, Recorded, VersionConflict
from controlplane.log.port import FollowUp, Log, nobody_anticipates
from controlplane.runtime.controller import AnticipatingController, Controller, Decided
from controlplane.runtime.effects import Effects
from controlplane.runtime.gate import Gate
from controlplane.runtime.reads import Reads

_log = structlog.get_logger(__name__)

# How long a decision rests that another stream overtook: until that is folded.
_AGAIN = timedelta(milliseconds=100)


class Runner:
    """One controller over one log.

    `reads` carries out the reads of a controller that is `Reading`; `anticipating` decides on events before they are
    committed; `on_folded(events)` hears each batch after it was folded, `on_failed(stream)` of each stream about which
    nothing could be decided, for a fault of ours; `poll` is the longest nap in seconds; `slice_` bounds how many
    streams are decided about before the event loop gets a turn."""

    def __init__(
        self,
        log: Log,
        controller: Controller,
        effects: Effects,
        gate: Gate,
        clock: Clock,
        *,
        reads: Reads | None = None,
        anticipating: AnticipatingController | None = None,
        on_folded: Callable[[Sequence[Recorded]], None] = lambda events: None,
        on_failed: Callable[[str], None] = lambda stream: None,
        poll: float = 1.0,
        batch: int = 2000,
        slice_: int = 250,
    ) -> None:
        self._log_, self._controller, self._effects, self._gate, self._clock = log, controller, effects, gate, clock
        self._reads, self._anticipating = reads, anticipating
        self._on_failed = on_failed
        self._on_folded, self._poll, self._batch, self._slice = on_folded, poll, batch, slice_
        self._timers: list[tuple[datetime, str]] = []
        self._wakes: dict[str, datetime] = {}
        self.position = 0

    async def catch_up(self, position: int, progress: Callable[[int], None] = lambda position: None) -> None:
        """Fold up to a position without deciding anything: what a new leader does before it acts."""
        while self.position < position:
            try:
                if not await self._fold_next():
                    raise LogError(f"the log ends at {self.position}, before {position}")
            except LogUnavailable:
                await self._clock.sleep(0.5)
            progress(self.position)

    async def follow(self) -> None:
        """Fold what there is, decide nothing."""
        while await self._fold_next():
            pass

    def begin_with(self, events: Sequence[Recorded], position: int) -> None:
        """Fold events with which a process begins, and go on after a position: what it is told of the others is
        nothing."""
        for recorded in events:
            self._controller.fold(recorded)
        self.position = position

    async def run(self) -> None:
        """Run until cancelled, or until a newer leader fences us off (`Fenced`)."""
        if self._anticipating is not None:
            self._log_.follow_with(self._follow_ups)
        try:
            await self._run()
        finally:
            if self._anticipating is not None:
                self._log_.follow_with(nobody_anticipates)

    async def _run(self) -> None:
        while True:
            try:
                more = await self._fold_next()
                self._gate.set("log", ok=True)
            except LogUnavailable as error:
                self._gate.set("log", ok=False, detail=str(error))
                await self._clock.sleep(0.5)
                continue
            await self._react()
            if not more:
                # If nobody answers here, the next read says so.
                with contextlib.suppress(LogUnavailable):
                    await self._log_.wait(self.position, self._nap())

    async def _fold_next(self) -> bool:
        events = await self._log_.read(self.position, self._batch)
        for recorded in events:
            self._controller.fold(recorded)
        if events:
            self.position = events[-1].position
            if self._reads is not None:
                self._reads.folded(events)
            self._on_folded(events)
        return bool(events)

    async def _react(self) -> None:
        streams = list(dict.fromkeys([*self._controller.take_dirty(), *self._due()]))
        for start in range(0, len(streams), self._slice):
            await self._decide(streams[start : start + self._slice])

    async def _decide(self, streams: Sequence[str]) -> None:
        now = self._clock.now()
        requests = [request for stream in streams if (request := self._decided(stream, now)) is not None]
        answers = await asyncio.gather(*(self._log_.append(request) for request in requests), return_exceptions=True)
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, BaseException):
                self._not_recorded(request, answer, now)

    def _decided(self, stream: str, now: datetime) -> Append | None:
        """Return what is decided about a stream, as it is to be appended; None if nothing is."""
        self._effects.sync(stream)
        try:
            decided = self._controller.decide(stream, now)
        except Exception:
            # A fault of ours on one stream must not stop the others; it is tried again when the stream changes, or
            # later.
            _log.exception("deciding failed", stream=stream)
            self._on_failed(stream)
            self._wake(stream, now + timedelta(seconds=30))
            return None
        if self._reads is not None:
            self._reads.sync(stream)
        if decided.wake is not None:
            self._wake(stream, decided.wake)
        return _request(stream, decided)

    def _follow_ups(self, events: Sequence[Recorded]) -> FollowUp:
        """Return what is decided on events that are about to be committed. What is not decided here is decided when
        they are folded.
        """
        now, streams = self._clock.now(), dict[str, list[Recorded]]()
        for recorded in events:
            streams.setdefault(recorded.stream, []).append(recorded)
        requests, whole = list[Append](), True
        for stream, of_stream in streams.items():
            decided = self._anticipated(of_stream, now)
            whole = whole and decided is not None
            if decided is not None and (request := _request(stream, decided)) is not None:
                requests.append(request)
        return FollowUp(requests, whole)

    def _anticipated(self, events: Sequence[Recorded], now: datetime) -> Decided | None:
        assert self._anticipating is not None, "nobody anticipates"
        try:
            return self._anticipating.anticipate(events, now)
        except Exception:
            _log.exception("deciding failed, and is tried again once the events are folded", stream=events[0].stream)
            self._on_failed(events[0].stream)
            return None

    def _not_recorded(self, request: Append, error: BaseException, now: datetime) -> None:
        """See to a decision that the log did not take; raises what ends the loop."""
        if isinstance(error, Fenced) or not isinstance(error, LogError):
            raise error
        expected = request.expected or {}
        stream = next(iter(expected))
        if not isinstance(error, VersionConflict):
            _log.warning("decision not recorded, will try again", stream=stream, error=str(error))
            self._wake(stream, now + timedelta(seconds=5))
        elif len(expected) > 1:
            # What came on the stream itself makes it decided about again. What came on another one may be no news to
            # it.
            self._wake(stream, now + _AGAIN)

    def _wake(self, stream: str, when: datetime) -> None:
        if self._wakes.get(stream) != when:
            self._wakes[stream] = when
            heapq.heappush(self._timers, (when, stream))

    def _due(self) -> list[str]:
        now, due = self._clock.now(), []
        while self._timers and self._timers[0][0] <= now:
            when, stream = heapq.heappop(self._timers)
            if self._wakes.get(stream) == when:
                del self._wakes[stream]
                due.append(stream)
        return due

    def _nap(self) -> float:
        if not self._timers:
            return self._poll
        return max(0.0, min(self._poll, (self._timers[0][0] - self._clock.now()).total_seconds()))


def _request(stream: str, decided: Decided) -> Append | None:
    return Append(decided.events, {stream: decided.version, **decided.others}) if decided.events else None
