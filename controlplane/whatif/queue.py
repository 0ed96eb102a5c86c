"""The queue of a place: who waits for room there, in Kueue's order, and who gets it.

In: what asks for room, by priority and age. Out: those that are let in. One that does not fit lets later ones pass, as
Kueue's `BestEffortFIFO` does, of which a bounded number is looked at. Pure."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from controlplane.whatif.capacity import Capacity, Room

_PASSED = 64
"""So many that do not fit are passed over in one look."""


class Waiting(NamedTuple):
    """One that waits; the order of these is that of the queue."""

    priority: int
    since: datetime
    number: int
    request: Capacity
    admit: Callable[[], None]
    gone: Callable[[], bool]


class Queue:
    """A place with its room, and who waits for it."""

    def __init__(self, capacity: Capacity) -> None:
        self.room = Room(capacity)
        self._waiting: list[Waiting] = []
        self._looking = False

    def enter(self, one: Waiting) -> None:
        """Wait for room; get it at once if there is some."""
        if not self._waiting and self.room.fits(one.request):
            self.room.take(one.request)
            one.admit()
            return
        insort(self._waiting, one, key=lambda waiting: waiting[:3])
        self.look()

    def leave(self, request: Capacity) -> None:
        """Give room back."""
        self.room.take(request, -1)
        self.look()

    def look(self) -> None:
        """Let in whoever fits, in order."""
        if self._looking or not self._waiting:
            return
        self._looking = True
        try:
            kept, passed = 0, 0
            while kept < len(self._waiting) and passed < _PASSED:
                one = self._waiting[kept]
                if one.gone():
                    del self._waiting[kept]
                elif self.room.fits(one.request):
                    del self._waiting[kept]
                    self.room.take(one.request)
                    one.admit()
                else:
                    kept, passed = kept + 1, passed + 1
        finally:
            self._looking = False
