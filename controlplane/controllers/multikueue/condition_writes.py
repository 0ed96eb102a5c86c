"""Keeps the open write and the last write failure of objects that have just one thing to be written: the `Active`
condition.

In: the decisions and outcomes on their streams. Out: what is open, and whether a new decision may be taken now.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from controlplane.controllers.multikueue.events import ConditionDecided, EffectFailed, WorkloadWrite
from controlplane.controllers.multikueue.failures import RepeatedWriteFailure, failure_after
from controlplane.log.event import Recorded
from controlplane.runtime.writes import Effect, OpenWrites, opened, refused

_replace = msgspec.structs.replace


class ConditionWrite(OpenWrites[WorkloadWrite, RepeatedWriteFailure]):
    """One object's version in the log, its open write and its trouble."""

    version: int = 0

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
            slot = opened(slot, event, recorded)
        elif isinstance(event, EffectFailed):
            slot = refused(slot, event, failure_after(slot.trouble.get(event.target), event, recorded))
        elif closes:
            slot = ConditionWrite(version=recorded.version)
        self._slots[recorded.stream] = slot

    def free(self, stream: str, now: datetime) -> tuple[bool, datetime | None]:
        """Whether a write may be decided now, and if a trouble forbids it, until when."""
        slot = self.get(stream)
        until = max((trouble.until for trouble in slot.trouble.values()), default=now)
        return (False, until) if until > now else (not slot.effects, None)
