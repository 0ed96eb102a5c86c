"""The open write and the last trouble of objects that have just one thing to be written: the `Active` condition.

In: the decisions and outcomes on their streams. Out: what is open, and whether a new decision may be taken now.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from controlplane.log.event import Recorded
from controlplane.multikueue.events import ConditionDecided, EffectFailed
from controlplane.multikueue.state import Effect, Trouble, trouble_after


class Slot(msgspec.Struct, frozen=True):
    """One object's version in the log, its open write and its trouble."""

    version: int = 0
    effect: Effect | None = None
    trouble: Trouble | None = None


_EMPTY = Slot()


class Slots:
    """Slots by stream."""

    def __init__(self) -> None:
        self._slots: dict[str, Slot] = {}

    def get(self, stream: str) -> Slot:
        """Return a stream's slot."""
        return self._slots.get(stream, _EMPTY)

    def seen(self, recorded: Recorded, closes: bool) -> None:
        """Note an event of the stream; `closes`: the object changed, so whatever was open is decided anew."""
        slot = self.get(recorded.stream)
        event = recorded.event
        if isinstance(event, ConditionDecided):
            slot = Slot(recorded.version, Effect(recorded.position, event, recorded.recorded_at), slot.trouble)
        elif isinstance(event, EffectFailed):
            slot = Slot(recorded.version, None, trouble_after(slot.trouble, event, recorded))
        elif closes:
            slot = Slot(recorded.version)
        else:
            slot = Slot(recorded.version, slot.effect, slot.trouble)
        self._slots[recorded.stream] = slot

    def free(self, stream: str, now: datetime) -> tuple[bool, datetime | None]:
        """Whether a write may be decided now, and if a trouble forbids it, until when."""
        slot = self.get(stream)
        if slot.trouble is not None and slot.trouble.until > now:
            return False, slot.trouble.until
        return slot.effect is None, None
