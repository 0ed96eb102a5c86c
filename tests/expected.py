"""Remembers in a story which event is expected to be the cause of what is decided next."""

from __future__ import annotations

from typing import TypeVar

from controlplane.log.event import Event, Recorded

S = TypeVar("S", bound="ExpectsCause")


class ExpectsCause:
    """A story with a log, in which a cause is expected."""

    log: list[Recorded]
    expected = 0
    _awaited: tuple[type[Event], int] | None = None

    def cause(self: S, of: type[Event] = Event) -> S:
        """Expect the newest event, or the newest of a kind, to be the cause."""
        self.expected = next(one.position for one in reversed(self.log) if isinstance(one.event, of))
        return self

    def awaits(self: S, of: type[Event]) -> S:
        """Expect the next event of a kind to be the cause."""
        self._awaited = of, len(self.log)
        return self

    @property
    def cause_at(self) -> int:
        """The position of the event that is expected to be the cause."""
        if self._awaited is None:
            return self.expected
        of, after = self._awaited
        return next(one.position for one in self.log[after:] if isinstance(one.event, of))
