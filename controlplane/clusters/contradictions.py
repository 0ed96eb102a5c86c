"""Notices what does not fit the objects of a kind that a list and its watch have shown: a change of one that was never
shown, and one that is not there for whoever asks. Then the watch has missed something, as one does that goes on in a
store that was put back, once that has grown past the watch's place. Pure.

In: changes of a watch, objects that a request did not find, the time. Out: whether the kind has to be listed."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.clusters.deltas import KnownObject, identity
from controlplane.clusters.protocol import Change

LATE = 10.0
"""Seconds for which an object may be shown that is not there any more: the watch is on its way."""


class Contradictions:
    """What a watch has added since the last list and not removed, by UID, and which objects were not found, since when
    in seconds."""

    def __init__(self) -> None:
        self._added: set[str] = set()
        self._absent: dict[str, float] = {}

    def listed(self) -> None:
        """Begin anew: a list has shown everything."""
        self._added.clear()
        self._absent.clear()

    def missed(self, change: Change, known: Mapping[str, KnownObject]) -> bool:
        """Take note of a change that a watch shows; return whether it is of an object that was never shown. `known` may
        lack what this watch has added."""
        uid = identity(change.object)[0]
        if change.op == "added":
            self._added.add(uid)
        elif change.op == "gone":  # a watch may go on for months without a list
            self._added.discard(uid)
            self._absent.pop(uid, None)
        if change.op != "modified":
            return False
        return uid not in known and uid not in self._added

    def absent(self, namespace: str, name: str, known: Mapping[str, KnownObject], now: float) -> bool:
        """Take note that an object is not there; return whether it has been shown for too long all the same."""
        for uid, place in known.items():
            if (place.namespace, place.name) == (namespace, name):
                return now - self._absent.setdefault(uid, now) >= LATE
        return False
