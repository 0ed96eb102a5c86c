"""Asks for each recorded decision what is decided now, at the point at which the recorded leader decided, and says
where the answers differ.

In: the events of a log in order, from its first one. Out: how many decisions agree, and each difference. The leader's
state at a decision is known: the version of the stream is in the log. Where it stood in other streams, and its clock,
are not, as it may have been a batch behind; so every stream is asked whenever the fold says that it has to be looked at
and whenever it asked to be woken, by the log's time, and a decision agrees with any answer that its stream had at that
version. Where a decision tells its time, it is asked at that. What is answered and not recorded counts as a difference
once the leader had `PATIENCE`, twice, to record it: it may be a batch behind, lose a race to an observation, or stand
still. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from controlplane.controllers.connectivity.events import ServiceStarted
from controlplane.controllers.connectivity.watched import BESIDE
from controlplane.log.event import Event, Recorded
from controlplane.log.port import FOLLOWED
from controlplane.runtime.controller import Decided
from controlplane.values import Value
from controlplane.whatif.deciders import Deciders, is_decision, is_of_another

PATIENCE = timedelta(seconds=10)
"""How long an answer may stand in no record before it is looked at again, and then counts. A leader that could not
append tries again after five seconds."""
AFTER = 3 * PATIENCE
"""For how long after the last position that is compared the log should be taken, so that what was decided before it and
recorded after it is known."""

_FOLLOWED = 2 * FOLLOWED  # the events, and what follows from them

Verdict = Literal["changed", "not decided now", "decided now only", "decided earlier now"]


class Difference(Value):
    """A recorded decision and what is decided in its place, one of them None where there is none. `position`: that of
    the decision; of one that is decided now only, that of the event after which it is. `at` is when it was recorded, or
    when it would be decided if that is another time."""

    verdict: Verdict
    position: int
    at: datetime
    stream: str
    recorded: Event | None = None
    now: Event | None = None


class Comparison(Value):
    """What a comparison found: how many recorded decisions were asked for again, how many agree, and the differences by
    position. `not_asked`: decisions of controllers that do not dispatch Workloads. `left_alone`: streams that cannot be
    folded, which nothing was asked of, with why."""

    decisions: int
    agree: int
    differences: list[Difference]
    not_asked: int = 0
    left_alone: dict[str, str] = {}


def together(parts: Sequence[Comparison]) -> Comparison:
    """Return what was found in several parts of one log."""
    return Comparison(
        decisions=sum(one.decisions for one in parts),
        agree=sum(one.agree for one in parts),
        differences=[difference for one in parts for difference in one.differences],
        not_asked=sum(one.not_asked for one in parts),
        left_alone={stream: why for one in parts for stream, why in one.left_alone.items()},
    )


_Key = tuple[str, str]


class _Owed(Value):
    """An answer that is not recorded: since when, after which event, and whether it was looked at a second time."""

    since: datetime
    position: int
    event: Event
    again: bool = False
    told: bool = False


class DecisionComparison:
    """Takes a log event by event; compares the decisions of the positions after `begin` and up to `end`."""

    def __init__(self, deciders: Deciders, begin: int = 0, end: int | None = None) -> None:
        self._deciders, self._begin, self._end = deciders, begin, end
        self._batch: list[Recorded] = []
        self._run: list[Recorded] = []
        self._anticipated: dict[str, Decided] = {}
        self._answers: dict[str, list[tuple[Event, ...]]] = {}
        self._owed: dict[str, dict[_Key, _Owed]] = {}
        self._due: list[tuple[datetime, str, _Key]] = []
        self._timers: list[tuple[datetime, str]] = []
        self._wakes: dict[str, datetime] = {}
        self._position = 0
        self._count = self._agree = self._others = 0
        self._ends: datetime | None = None
        self._differences: list[Difference] = []

    def take(self, recorded: Recorded) -> None:
        """Take the next event."""
        if self._batch and self._batch[-1].recorded_at != recorded.recorded_at:
            self._take_batch()
        self._batch.append(recorded)

    def _take_batch(self) -> None:
        """Take the events that were committed together: what followed from them may be among them."""
        batch, self._batch = self._batch, []
        if self._run and not (batch and _continues(self._run[-1], batch[0])):
            self._judge()  # what was decided before is folded by then
        self._anticipated = self._anticipate(batch)
        for recorded in batch:
            self._take(recorded)

    def _anticipate(self, batch: Sequence[Recorded]) -> dict[str, Decided]:
        """Return what is decided on the observations of a batch before the rest of it is folded, for the streams that
        have decisions in it."""
        seen: dict[str, list[Recorded]] = {}
        found: dict[str, Decided] = {}
        for recorded in batch:
            if not is_decision(recorded):
                seen.setdefault(recorded.stream, []).append(recorded)
            elif recorded.stream in seen and recorded.stream not in found and len(batch) <= _FOLLOWED:
                found[recorded.stream] = self._deciders.anticipate(seen[recorded.stream], recorded.recorded_at)
        return found

    def ended_before(self, at: datetime) -> bool:
        """Whether the last event that is compared was recorded before a time."""
        return self._ends is None or self._ends < at

    def _take(self, recorded: Recorded) -> None:
        if self._compares(recorded.position):
            self._ends = recorded.recorded_at
            self._others += is_of_another(recorded)
        if self._run and not _continues(self._run[-1], recorded):
            self._judge()
        # What was decided together is compared together, where only a part of it counts too.
        if is_decision(recorded) and (self._run or self._compares(recorded.position)):
            self._run.append(recorded)
            return
        self._advance(recorded)
        self._fold(recorded)

    def finish(self) -> Comparison:
        """Return what was found. What the log's last moments answered is left out: the leader may still record it."""
        self._take_batch()
        if self._run:
            self._judge()
        found = sorted(self._differences, key=lambda one: one.position)
        return Comparison(
            decisions=self._count,
            agree=self._agree,
            differences=found,
            not_asked=self._others,
            left_alone=dict(self._deciders.left_alone),
        )

    def _compares(self, position: int) -> bool:
        return position > self._begin and (self._end is None or position <= self._end)

    # --- time --------------------------------------------------------------------------------------------------------

    def _advance(self, recorded: Recorded) -> None:
        """Ask what was to be asked up to the time of an event, and see to what is owed since long.

        A process that begins says until when the one before ran: from then on nobody could record a decision. What an
        operator says is recorded whether anybody leads or not."""
        event, until = recorded.event, recorded.recorded_at
        if isinstance(event, ServiceStarted):
            if event.unwatched_since is not None:
                self._ask_due(min(event.unwatched_since, until))
            self._owed.clear()
        elif not isinstance(event, BESIDE):
            self._ask_due(until)
            self._overdue(recorded)

    def _ask_due(self, until: datetime) -> None:
        while self._timers and self._timers[0][0] <= until:
            when, stream = heapq.heappop(self._timers)
            if self._wakes.get(stream) == when:
                del self._wakes[stream]
                self._ask(stream, when)

    def _overdue(self, recorded: Recorded) -> None:
        now = recorded.recorded_at
        while self._due and self._due[0][0] <= now:
            _, stream, key = heapq.heappop(self._due)
            owed = self._owed.get(stream, {}).get(key)
            if owed is None or owed.told or owed.since + PATIENCE > now:
                continue
            # Any other event tells that the leader is awake; from there it has its time once more.
            if not owed.again:
                self._owed[stream][key] = msgspec.structs.replace(owed, again=True)
                heapq.heappush(self._due, (now + PATIENCE, stream, key))
                continue
            self._owed[stream][key] = msgspec.structs.replace(owed, told=True)
            self._tell("decided now only", owed.position, owed.since, stream, None, owed.event)

    # --- asking ------------------------------------------------------------------------------------------------------

    def _fold(self, recorded: Recorded) -> None:
        self._deciders.fold(recorded)
        self._position = recorded.position
        self._answers.pop(recorded.stream, None)
        for stream in self._deciders.take_dirty():
            self._ask(stream, recorded.recorded_at)

    def _ask(self, stream: str, now: datetime) -> None:
        """Ask what follows for a stream, and remember the answer until it is recorded or another one follows."""
        decided = self._deciders.decide(stream, now)
        # What is due already waits for its answer to be recorded: asking again at the same time says the same.
        if decided.wake is not None and decided.wake > now and self._wakes.get(stream) != decided.wake:
            self._wakes[stream] = decided.wake
            heapq.heappush(self._timers, (decided.wake, stream))
        answer = tuple(new.event for new in decided.events)
        before = self._owed.pop(stream, {})
        if not answer:
            return
        known = self._answers.setdefault(stream, [])
        if answer not in known:
            known.append(answer)
        owed = {_key(event): before.get(_key(event)) for event in answer}
        self._owed[stream] = {key: one or self._owe(stream, key, now, answer) for key, one in owed.items()}

    def _owe(self, stream: str, key: _Key, now: datetime, answer: Sequence[Event]) -> _Owed:
        heapq.heappush(self._due, (now + PATIENCE, stream, key))
        return _Owed(since=now, position=self._position, event=next(one for one in answer if _key(one) == key))

    # --- comparing ---------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        """Hold the decisions that stand one after the other in the log against the answers."""
        run, self._run = self._run, []
        while run:
            self._advance(run[0])
            found = self._best(run)
            taken = found if found is not None else len(run)
            for recorded in run[:taken]:
                self._late(recorded)
                self._fold(recorded)
            run = run[taken:]

    def _late(self, recorded: Recorded) -> None:
        """See to an answer that is recorded long after it was given: it is no agreement."""
        owed = self._owed.pop(recorded.stream, {}).get(_key(recorded.event))  # type: ignore[arg-type]
        if owed is None or owed.event != recorded.event or owed.since + AFTER > recorded.recorded_at:
            return
        told = (recorded.stream, owed.event)
        self._differences = [
            one for one in self._differences if one.recorded is not None or (one.stream, one.now) != told
        ]
        self._agree -= self._compares(recorded.position)
        self._tell("decided earlier now", recorded.position, owed.since, recorded.stream, owed.event, owed.event)

    def _best(self, run: Sequence[Recorded]) -> int | None:
        """Return with how many of some decisions an answer agrees wholly; None if none does, once the differences to
        the nearest one are told."""
        answers = self._asked_now(run[0])
        said = [one.event for one in run]
        agree = max((len(one) for one in answers if list(one) == said[: len(one)]), default=0)
        if agree:
            self._count += self._counted(run[:agree])
            self._agree += self._counted(run[:agree])
            return agree
        self._count += self._counted(run)
        self._differ(run, max(answers, key=lambda answer: sum(one in answer for one in said), default=()))
        return None

    def _asked_now(self, first: Recorded) -> list[tuple[Event, ...]]:
        """Return the answers of a stream at this version, that at the time of the decision first."""
        assert isinstance(first.event, Event), "an event that cannot be read is no decision"
        at = self._deciders.said_at(first.event) or first.recorded_at
        asked = [self._deciders.decide(first.stream, at), self._deciders.decide_as_leader(first.stream, at)]
        before = self._anticipated.get(first.stream)
        if before is not None and before.version == first.version - 1:
            asked.append(before)
        return [*(tuple(new.event for new in one.events) for one in asked), *self._answers.get(first.stream, ())]

    def _differ(self, run: Sequence[Recorded], answer: Sequence[Event]) -> None:
        left = list(answer)
        others: list[Recorded] = []
        for recorded in run:
            if recorded.event in left:
                left.remove(recorded.event)
                self._agree += self._compares(recorded.position)
            else:
                others.append(recorded)
        for recorded in others:
            assert isinstance(recorded.event, Event), "an event that cannot be read is no decision"
            instead = next((one for one in left if _key(one) == _key(recorded.event)), None)
            if instead is not None:
                left.remove(instead)
            verdict: Verdict = "changed" if instead is not None else "not decided now"
            self._tell(verdict, recorded.position, recorded.recorded_at, recorded.stream, recorded.event, instead)
        last = [one for one in run if self._compares(one.position)][-1:]
        for event in left if last else ():
            self._tell("decided now only", last[0].position, last[0].recorded_at, last[0].stream, None, event)

    def _counted(self, run: Sequence[Recorded]) -> int:
        return sum(self._compares(one.position) for one in run)

    def _tell(
        self, verdict: Verdict, position: int, at: datetime, stream: str, recorded: Event | None, now: Event | None
    ) -> None:
        if self._compares(position):
            self._differences.append(
                Difference(verdict=verdict, position=position, at=at, stream=stream, recorded=recorded, now=now)
            )


def _continues(last: Recorded, recorded: Recorded) -> bool:
    """Whether a decision may have been taken together with the one before it."""
    return is_decision(recorded) and recorded.stream == last.stream and recorded.version == last.version + 1


def _key(event: Event) -> _Key:
    """What a decision is about: its type and its target, or the cluster that it names."""
    return type(event).__name__, str(getattr(event, "target", "") or getattr(event, "cluster", ""))
