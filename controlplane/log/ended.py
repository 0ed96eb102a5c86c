"""Which streams of a log are over, so that no fold needs their events; and which events are left without them.

In: what was folded up to a position. Out: the answer for a stream, and what a reader asks the log for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import NamedTuple

from controlplane.log.event import Recorded


class Ended(NamedTuple):
    """Which streams are over, by what was folded up to a position: of those whose first word is one of `kinds`,
    `is_over` says whether any fold needs its events, once the last of them is older than `age`."""

    position: int
    kinds: frozenset[str]
    is_over: Callable[[str], bool]
    age: timedelta = timedelta(0)


class NeededStreams(NamedTuple):
    """What a log has up to a position without the streams that are over: of those whose first word is one of `kinds`
    only `streams` are left, and all others."""

    kinds: Collection[str]
    streams: Collection[str]
    upto: int

    def has(self, stream: str) -> bool:
        """Whether a stream is left."""
        return stream.partition("/")[0] not in self.kinds or stream in self.streams


class NeededPage(NamedTuple):
    """Some events of such a log, in order, and the position up to which it was looked through."""

    events: Sequence[Recorded]
    looked_to: int
