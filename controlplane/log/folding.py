"""Folding that one event cannot stop: a stream whose event cannot be folded is left alone from there on, the others go
on.

In: a fold of single events, and events. Out: which streams were left alone, and why. An event of a type that nobody
knows on a stream whose name nobody can read is enough to raise; the log keeps it for ever, so a reader that stopped at
it would stop for ever."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.log.event import Recorded


class Folding:
    """Gives events to `fold`. `left_alone` says of each stream that is passed over what could not be folded.

    `on_left(event, error)` hears of it once a stream.
    """

    GIVEN = ("_fold", "_on_left")

    def __init__(
        self,
        fold: Callable[[Recorded], None],
        on_left: Callable[[Recorded, Exception], None] = lambda recorded, error: None,
    ) -> None:
        self._fold, self._on_left = fold, on_left
        self.left_alone: dict[str, str] = {}

    def __call__(self, recorded: Recorded) -> None:
        """Fold one more event, in the log's order."""
        if self.left_alone and recorded.stream in self.left_alone:
            return
        try:
            self._fold(recorded)
        except Exception as error:
            self.left_alone[recorded.stream] = f"position {recorded.position} ({_type_of(recorded)}): {error!r}"
            self._on_left(recorded, error)


def _type_of(recorded: Recorded) -> str:
    return str(getattr(recorded.event, "type", type(recorded.event).__name__))
