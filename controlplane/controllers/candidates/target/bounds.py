"""Counts the candidates of each source that come before another one, where an invitation allows so many at a time.

In: candidates as they are folded. Out: counts. Those that are taken keep their place, in the order in which they were
taken, and what is bound or about to be comes first: so whoever is decided about at the same moment comes to the same
answer, and nobody is refused and taken again in turns. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort

from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target.state import TargetState

_Place = tuple[bool, int, str]


class TakenCandidates:
    """The places of all candidates that are taken, by namespace and source, and who was one too many, by namespace."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], list[_Place]] = {}
        self._own: dict[str, tuple[tuple[str, str], _Place]] = {}
        self._surplus: dict[str, dict[str, None]] = {}

    def note(self, stream: str, state: TargetState) -> None:
        """Take a candidate as it now is."""
        where, place = self._own.pop(stream, (("", ""), None))
        if place is not None:
            listed = self._places[where]
            del listed[bisect_left(listed, place)]
            if not listed:
                del self._places[where]
        if state.admitted and state.seen is not None:
            where = state.namespace, state.seen.origin.cluster
            place = state.bound is None and state.binding is None, state.admitted_at, stream
            insort(self._places.setdefault(where, []), place)
            self._own[stream] = where, place
        surplus = self._surplus.setdefault(state.namespace, {})
        if state.refused is not None and state.refused.reason == TargetReason.TOO_MANY_CANDIDATES and not state.settled:
            surplus[stream] = None
        else:
            surplus.pop(stream, None)
        if not surplus:
            del self._surplus[state.namespace]

    def before(self, stream: str, state: TargetState) -> int:
        """Return how many of its source are taken in a candidate's namespace that come before it; all, if it is not
        taken itself."""
        if state.seen is None:
            return 0
        listed = self._places.get((state.namespace, state.seen.origin.cluster), [])
        return bisect_left(listed, self._own[stream][1]) if stream in self._own else len(listed)

    def surplus(self, namespace: str) -> list[str]:
        """Return the streams of those of a namespace that were too many."""
        return list(self._surplus.get(namespace, ()))
