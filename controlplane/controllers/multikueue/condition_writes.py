"""Keeps the open write and the last write failure of objects that have just one thing to be written: the `Active`
condition.

In: the decisions and outcomes on their streams. Out: what is open, and whether a new decision may be taken now. Where
somebody else writes another condition over ours again and again, such as a second controller that sees the cluster
otherwise, ours is written again after longer and longer pauses: two that never rest would fill both logs.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.multikueue.events import ConditionDecided, EffectFailed, EffectUnneeded, WorkloadWrite
from controlplane.controllers.multikueue.failures import RepeatedWriteFailure, failure_after
from controlplane.controllers.multikueue.observations import Conditioned
from controlplane.log.event import Recorded
from controlplane.runtime.writes import Effect, OpenWrites, opened, refused

_replace = msgspec.structs.replace
# The first time it is written again at once, since a person may have done it; then after a second, two, four and so on.
# What did not happen for so long begins anew.
_FIRST, _LONGEST, _FORGOTTEN = timedelta(seconds=1), timedelta(minutes=5), timedelta(minutes=15)
_DOUBLINGS = 10


class ConditionWrite(OpenWrites[WorkloadWrite, RepeatedWriteFailure]):
    """One object's version in the log, its open write and its trouble. `said` is the condition that was decided last,
    its status and reason (its message counts attempts); `shown` whether the object has had it since; `overwritten` how
    often, lately, somebody wrote another one in its place, and `at` when.
    """

    version: int = 0
    said: tuple[str, str] | None = None
    shown: bool = False
    overwritten: int = 0
    at: datetime | None = None

    @property
    def effect(self) -> Effect[WorkloadWrite] | None:
        """The open write; None if there is none."""
        return next(iter(self.effects.values()), None)


_EMPTY = ConditionWrite()


class Slots:
    """Slots by stream."""

    def __init__(self) -> None:
        self._slots: dict[str, ConditionWrite] = {}

    def get(self, stream: str) -> ConditionWrite:
        """Return a stream's slot."""
        return self._slots.get(stream, _EMPTY)

    def seen(self, recorded: Recorded, closes: bool) -> None:
        """Note an event of the stream; `closes`: the object changed, so whatever was open is decided anew."""
        event, slot = recorded.event, _replace(self.get(recorded.stream), version=recorded.version)
        if isinstance(event, ConditionDecided):
            slot = opened(_decided(slot, event), event, recorded)
        elif isinstance(event, EffectFailed):
            slot = refused(slot, event, failure_after(slot.trouble.get(event.target), event, recorded))
        elif closes:
            slot = _replace(_compared(slot, event, recorded.recorded_at), effects={}, trouble={})
        self._slots[recorded.stream] = slot

    def free(self, stream: str, now: datetime, wanted: ConditionDecided | None = None) -> tuple[bool, datetime | None]:
        """Whether a write may be decided now, and if a trouble, or who writes over it, forbids it, until when."""
        slot = self.get(stream)
        until = max((trouble.until for trouble in slot.trouble.values()), default=now)
        if slot.at is not None and slot.overwritten > 1 and wanted is not None and _value(wanted) == slot.said:
            pause = min(_FIRST * 2 ** min(slot.overwritten - 2, _DOUBLINGS), _LONGEST)
            until = max(until, slot.at + pause)
        return (False, until) if until > now else (not slot.effects, None)


def _decided(slot: ConditionWrite, event: ConditionDecided) -> ConditionWrite:
    """Return a slot after a decision: of another condition than before nobody has written anything yet."""
    said = _value(event)
    return slot if said == slot.said else _replace(slot, said=said, shown=False, overwritten=0, at=None)


def _value(event: ConditionDecided) -> tuple[str, str]:
    return event.status, event.condition_reason


def _compared(slot: ConditionWrite, event: object, at: datetime) -> ConditionWrite:
    """Return a slot after the object was seen, or is gone: is the condition on it ours?"""
    if slot.said is None or not isinstance(event, Conditioned):
        return slot if isinstance(event, EffectUnneeded) else ConditionWrite(version=slot.version)
    found = event.condition("Active")
    if found is not None and (found.status, found.reason) == slot.said:
        return _replace(slot, shown=True)
    if not slot.shown:
        return slot
    again = slot.at is not None and at - slot.at < _FORGOTTEN
    return _replace(slot, shown=False, overwritten=slot.overwritten + 1 if again else 1, at=at)
