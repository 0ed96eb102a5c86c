"""Counts the candidates of each source that come before another one, where an invitation allows so many at a time.

In: a candidate, and all of its target. Out: counts by source. Those that are taken keep their place, in the order in
which they were taken, and what is bound or about to be comes first: so whoever is decided about at the same moment
comes to the same answer, and nobody is refused and taken again in turns. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from controlplane.controllers.candidates.target.state import TargetState


def before_it(mine: TargetState, candidates: Iterable[TargetState]) -> Mapping[str, int]:
    """Return how many taken candidates each source has in a candidate's namespace that come before it; all, if it is
    not taken itself."""
    found: Counter[str] = Counter()
    for other in candidates:
        if other.seen is None or not other.admitted or other.namespace != mine.namespace or other.name == mine.name:
            continue
        if not mine.admitted or _place(other) < _place(mine):
            found[other.seen.origin.cluster] += 1
    return found


def _place(state: TargetState) -> tuple[bool, int]:
    return state.bound is None and state.binding is None, state.admitted_at
