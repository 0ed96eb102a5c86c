"""Folds observations of a Workload that are about to be committed, so that what follows from them is committed with
them.

In: the states as they are folded, and events of one stream with the places that they are about to get. Out: the state
that the stream will have, or nothing where more depends on the events than this state: other Workloads of the same job,
the order in which clusters are scored, a write of the core that is waited for. Nothing is kept: when the events are in
the log, they are folded like all others. A decision on it holds only if the stream then has the version that it was
taken on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from controlplane.controllers.multikueue.context import WorkloadContext
from controlplane.controllers.multikueue.decide import decide
from controlplane.controllers.multikueue.existing import is_slice
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.job_changes import fold_job
from controlplane.controllers.multikueue.observations import (
    CloneGone,
    CloneObserved,
    JobObserved,
    RemoteJobGone,
    RemoteJobObserved,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.log.event import Recorded


def anticipated(index: WorkloadIndex, events: Sequence[Recorded]) -> tuple[WorkloadState, WorkloadContext] | None:
    """Return the state of a Workload once some events are folded, which are the next ones of its stream, and what a
    decision on it may look at; None where they have to be folded first."""
    stream = events[0].stream
    state = index.workloads.get(stream)
    if state is None or not index.ready or index.policy.scoring is not None:
        return None
    for recorded in events:
        if recorded.version != state.version + 1 or not _concerns_one(index, state, recorded):
            return None
        state = index.after(state, recorded)
    context = index.context(state)
    if any(isinstance(recorded.event, WorkloadObserved) for recorded in events):
        context = msgspec.structs.replace(context, core_writes_until=None)  # as `_concerns_one` says
    return state, context


def _concerns_one(index: WorkloadIndex, state: WorkloadState, recorded: Recorded) -> bool:
    """Whether an event changes nothing but the state of its own stream, as far as decisions on it go."""
    event, local = recorded.event, state.local
    if local is None or is_slice(state) or index.composed(state) or index.unread.ended(recorded) is not None:
        return False
    match event:
        case WorkloadObserved():
            same = event.uid == local.uid and event.owner == local.owner and not event.sliced
            return same and not index.core.waits_after(event)
        case RemoteJobObserved():
            known = index.stream_of_remote_job(recorded.cluster, event.uid)
            return not event.shared and known in ("", recorded.stream)
        case CloneObserved() | CloneGone() | RemoteJobGone():
            return True
        case _:
            return False


def leads_nowhere(index: WorkloadIndex, events: Sequence[Recorded], now: datetime) -> bool:
    """Whether nothing will be decided on events of a stream once they are folded, as far as that can be told before: on
    those of the user's job, and on the first ones of a Workload. Nobody decides by this: events that lead nowhere are
    not urgent. Where they may lead somewhere together with another stream's, they are.
    """
    if not index.ready or index.policy.scoring is not None:
        return False
    if all(isinstance(recorded.event, JobObserved) for recorded in events):
        return _job_leads_nowhere(index, events, now)
    if not events[0].stream.startswith("workload/") or events[0].stream in index.workloads:
        return False
    state = WorkloadState.initial(events[0].stream)
    for recorded in events:
        if not isinstance(recorded.event, WorkloadObserved) or recorded.event.sliced:
            return False
        if recorded.event.is_true("QuotaReserved"):
            return False  # its job may be in the same commit, or come with the next
        state = index.after(state, recorded)
    return not index.composed(state) and not decide(state, index.context(state), now).decisions


def _job_leads_nowhere(index: WorkloadIndex, events: Sequence[Recorded], now: datetime) -> bool:
    stream = events[0].stream
    workloads = [index.workloads[one] for one in index.dependents(stream)]
    before, grouped = index.jobs.get(stream), False
    if before is None and workloads:
        return False  # they waited for it, and one may have got its quota in the same commit
    for recorded in events:
        assert isinstance(recorded.event, JobObserved), "events of a job"
        workloads = [fold_job(state, before, recorded.event) for state in workloads]
        before = recorded.event
        grouped = grouped or bool(before.group)
    if grouped or len(workloads) > 1 or before is None:
        return False
    return not any(
        is_slice(state) or index.composed(state) or decide(state, index.context(state, before), now).decisions
        for state in workloads
    )
