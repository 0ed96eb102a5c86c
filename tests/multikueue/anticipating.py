"""Compares what is anticipated of events with what they come to be when they are folded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from controlplane.controllers.multikueue.anticipation import anticipated, leads_nowhere
from controlplane.controllers.multikueue.decide import decide
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.log.event import Recorded

Told = Literal["what follows", "that nothing follows", "nothing"]


def fold_as_anticipated(index: WorkloadIndex, events: Sequence[Recorded], fold: Callable[[Recorded], None]) -> Told:
    """Fold events that follow each other on one stream, and compare; return what could be told of them before."""
    stream = events[0].stream
    ahead = anticipated(index, events) if stream.startswith("workload/") else None
    now = events[-1].recorded_at
    nowhere = ahead is None and stream.startswith(("workload/", "job/")) and leads_nowhere(index, events, now)
    for event in events:
        fold(event)
    if nowhere:
        for one in [stream, *index.dependents(stream)]:
            known = index.workloads.get(one)
            assert known is None or not decide(known, index.context(known), now).decisions, events
    if ahead is None:
        return "that nothing follows" if nowhere else "nothing"
    state, context = ahead
    folded = index.workloads.get(stream)
    assert (folded or state) == state, events
    assert folded is not None or state.settled, events
    assert context == index.context(state), events
    assert decide(state, context, now) == decide(state, index.context(state), now), events
    return "what follows"
