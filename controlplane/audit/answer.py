"""The answers about one Workload of a log: reads its events and those around it, folds both, and explains or tells.

In: a reader, the settings that matter, the streams that were found. Out: an `Explanation`, or the entries of its
timeline.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from controlplane.audit.explain import explain
from controlplane.audit.find import Found, events_of, strays_of
from controlplane.audit.fleet import fold, judgements, surroundings
from controlplane.audit.lanes import Lane, workload_lanes
from controlplane.audit.no_workload import without_workload
from controlplane.audit.outages import outages
from controlplane.audit.quota_story import explain_admission
from controlplane.audit.reads import Filter, LogReader
from controlplane.audit.timeline import TimelineEntry, moments
from controlplane.controllers.connectivity.events import PolicyInForce
from controlplane.controllers.multikueue import state as workload
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.observations import RemoteJobObserved
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.log.event import Recorded
from controlplane.runtime.explanation import Explanation
from controlplane.runtime.streams import replayed


def answer(reader: LogReader, policy: MultiKueuePolicy, found: Found, now: datetime) -> Explanation:
    """Return why a Workload is where it is, by the log; of a job without a Workload, why it has none."""
    events = events_of(reader, found)
    if not found.workload:
        return _undispatched(events)
    everything = _with_surroundings(reader, events, judgements(found.jobs))
    return _explained(policy, found, events, everything, _copies(reader, events), now)


class Told(NamedTuple):
    """All that is told of a Workload: why it is where it is, its moments, its way over the clusters, its events."""

    explanation: Explanation
    moments: list[TimelineEntry]
    lanes: list[Lane]
    events: list[Recorded]


def told(
    reader: LogReader,
    policy: MultiKueuePolicy,
    found: Found,
    now: datetime,
    policy_of: Callable[[PolicyInForce], MultiKueuePolicy] | None = None,
    as_shown: Callable[[Recorded], Recorded] | None = None,
) -> Told:
    """Return what `answer`, `timeline_of` and `lanes_of_workload` return, from one reading of the log. `as_shown`
    returns an event as whoever asks may see it.
    """
    events = events_of(reader, found)
    if as_shown is not None:
        events = [as_shown(recorded) for recorded in events]
    if not found.workload:
        return Told(_undispatched(events), list(moments(events)), [], events)
    everything = _with_surroundings(reader, events, judgements(found.jobs))
    around = outages(policy, everything, found.workload, policy_of)
    return Told(
        _explained(policy, found, events, everything, _copies(reader, events), now),
        sorted([*moments(events), *around], key=lambda moment: moment.position),
        workload_lanes(everything, found.workload),
        events,
    )


def _undispatched(events: list[Recorded]) -> Explanation:
    """Return how far a Workload is that MultiKueue does not know, or why a job has none."""
    return explain_admission(events) or without_workload(events)


def _copies(reader: LogReader, events: list[Recorded]) -> list[Recorded]:
    """Return the events of copies that nobody knows and that an elastic job may wait for."""
    streams = strays_of(reader, events)
    return list(reader.events(Filter(streams=streams))) if streams else []


def _explained(
    policy: MultiKueuePolicy,
    found: Found,
    events: list[Recorded],
    everything: list[Recorded],
    copies: list[Recorded],
    now: datetime,
) -> Explanation:
    index = fold(policy, _merged(everything, copies))
    state = index.workloads.get(found.workload)
    if state is None:
        # Settled: the index has let go of it, its events are still there.
        state = replayed(WorkloadState, workload.fold, found.workload, events)
    seen = [recorded for recorded in copies if isinstance(recorded.event, RemoteJobObserved)]
    return explain(state, index.context(state), _merged(everything, seen), now)


def timeline_of(
    reader: LogReader,
    policy: MultiKueuePolicy,
    found: Found,
    policy_of: Callable[[PolicyInForce], MultiKueuePolicy] | None = None,
) -> list[TimelineEntry]:
    """Return the timeline of a Workload and its job, with the outages of its clusters where they happened; `policy_of`
    as for these.
    """
    events = events_of(reader, found)
    everything = _with_surroundings(reader, events) if found.workload else []
    around = outages(policy, everything, found.workload, policy_of) if found.workload else []
    return sorted([*moments(events), *around], key=lambda moment: moment.position)


def lanes_of_workload(reader: LogReader, found: Found) -> list[Lane]:
    """Return the way of a Workload over the clusters, as lanes; none of a job without one."""
    if not found.workload:
        return []
    return workload_lanes(_with_surroundings(reader, events_of(reader, found)), found.workload)


def _with_surroundings(reader: LogReader, events: list[Recorded], more: list[str] | None = None) -> list[Recorded]:
    around = reader.events(Filter(streams=[*surroundings(reader), *(more or [])]))
    return _merged(around, events)


def _merged(some: Iterable[Recorded], others: Iterable[Recorded]) -> list[Recorded]:
    return list(heapq.merge(some, others, key=lambda recorded: recorded.position))
