"""Says which streams of a process's log are over, and keeps in mind which are not.

In: what the controllers have folded, and the events as they are. Out: which streams' events no fold needs, as the
controllers that own them say (`EndingController`); and the others, each with the time of its last event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from controlplane.log.ended import Ended
from controlplane.log.event import Recorded
from controlplane.runtime.controller import EndingController
from controlplane.runtime.router import ControllerRouter

RULES = 1
"""Which streams the controllers of this version let go. It is raised with a version whose fold needs events of streams
that the one before let go: such a version does not believe what that one said of them."""


class LeftStreams(msgspec.Struct, frozen=True):
    """What a process said of the streams that were not over, for one of another version or with other settings: by
    which rules, with which controllers, of which kinds, and for how many seconds after its last event a stream
    counts."""

    rules: int
    controllers: Sequence[str]
    kinds: Sequence[str]
    age: float


def ended_of(router: ControllerRouter, position: int) -> Ended:
    """Return which streams are over by what a router has folded up to a position."""
    kinds: dict[str, Callable[[str], bool]] = {}
    needed = set(router.left_alone)
    age = timedelta(0)
    for one in router.registrations:
        if isinstance(one.controller, EndingController):
            kinds.update(dict.fromkeys(one.controller.ENDING & one.owns, one.controller.leaves_nothing))
            needed |= one.controller.needed_streams()
            age = max(age, one.controller.forgets_after)

    def is_over(stream: str) -> bool:
        over = kinds.get(stream.partition("/")[0])
        return over is not None and stream not in needed and over(stream)

    return Ended(position, frozenset(kinds), is_over, age)


class LiveStreams:
    """The streams of the kinds that end, which were not over when that was last asked."""

    def __init__(self, router: ControllerRouter) -> None:
        self._router = router
        self._last: dict[str, datetime] = {}
        self._kinds = ended_of(router, 0).kinds

    def folded(self, events: Iterable[Recorded]) -> None:
        """Note some more events."""
        kinds = self._kinds
        self._last.update((one.stream, one.recorded_at) for one in events if one.stream.partition("/")[0] in kinds)

    def restored(self, streams: Iterable[tuple[str, datetime]]) -> None:
        """Begin with what another process had noted."""
        self._last = dict(streams)

    def left(self, position: int, now: datetime) -> list[tuple[str, datetime]]:
        """Return the streams that are not over, each with the time of its last event, and forget the others."""
        ended = ended_of(self._router, position)
        before = now - ended.age
        self._last = {stream: at for stream, at in self._last.items() if at >= before or not ended.is_over(stream)}
        return list(self._last.items())

    def said(self) -> LeftStreams:
        """Return by what it is said which streams are left."""
        names = sorted(one.name for one in self._router.registrations)
        return LeftStreams(RULES, names, sorted(self._kinds), ended_of(self._router, 0).age.total_seconds())

    def believes(self, said: LeftStreams | None) -> bool:
        """Whether what another process said of them holds for this one as well: it let go no more than this one
        would."""
        own = self.said()
        if said is None or (said.rules, list(said.controllers), list(said.kinds)) != (
            own.rules,
            own.controllers,
            own.kinds,
        ):
            return False
        return said.age >= own.age
