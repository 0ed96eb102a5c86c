"""Compares what is anticipated of events with what they come to be when they are folded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controlplane.controllers.multikueue.anticipation import anticipated
from controlplane.controllers.multikueue.decide import decide
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.log.event import Recorded


def fold_as_anticipated(index: WorkloadIndex, events: Sequence[Recorded], fold: Callable[[Recorded], None]) -> bool:
    """Fold events that follow each other on one stream; return whether they were anticipated, and as they came to be."""
    stream = events[0].stream
    ahead = anticipated(index, events) if stream.startswith("workload/") else None
    for event in events:
        fold(event)
    if ahead is None:
        return False
    state, context = ahead
    folded, now = index.workloads.get(stream), events[-1].recorded_at
    assert (folded or state) == state, events
    assert folded is not None or state.settled, events
    assert context == index.context(state), events
    assert decide(state, context, now) == decide(state, index.context(state), now), events
    return True
