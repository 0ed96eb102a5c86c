"""The answer to "why?" about one Workload of a log: reads its story and what is around it, folds both, and explains.

In: a reader, the settings that matter, the streams that were found. Out: an `Explanation`.
"""

from __future__ import annotations

import heapq
from datetime import datetime

from controlplane.audit.explain import Explanation, explain, without_workload
from controlplane.audit.find import Found, story
from controlplane.audit.fleet import fold, surroundings
from controlplane.audit.reads import Filter, Reader
from controlplane.multikueue import state as workload
from controlplane.multikueue.context import Policy


def answer(reader: Reader, policy: Policy, found: Found, now: datetime) -> Explanation:
    """Return why a Workload is where it is, by the log; of a job without a Workload, why it has none."""
    events = story(reader, found)
    if not found.workload:
        return without_workload(events)
    around = reader.events(Filter(streams=surroundings(reader)))
    everything = list(heapq.merge(around, events, key=lambda recorded: recorded.position))
    index = fold(policy, everything)
    state = index.workloads.get(found.workload)
    if state is None:
        # Settled: the index has let go of it, its events are still there.
        state = workload.initial(found.workload)
        for recorded in events:
            if recorded.stream == found.workload:
                state = workload.fold(state, recorded)
    return explain(state, index.context(state), everything, now)
