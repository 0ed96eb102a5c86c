"""Reads recorded cycles: events become the engine's decisions again, and what was said is known.

In: events of scheduling cycles. Out: the engine's decisions, and whether the same was said since something changed.
Pure."""

from __future__ import annotations

from controlplane.controllers.quota.admission import events, facts, topology_events
from controlplane.controllers.quota.engine import decisions
from controlplane.controllers.quota.engine.info import Info, Progress
from controlplane.controllers.quota.engine.usage_history import from_quantities


class Cycles:
    """What cycles said since something changed that they did not decide themselves."""

    def __init__(self) -> None:
        self.said: set[str] = set()

    def clear(self) -> None:
        """Forget it: something changed."""
        self.said.clear()

    def note(self, key: str, event: events.WorkloadInadmissible) -> None:
        """Note that it was said of a Workload that it has to wait."""
        self.said.add(_said(key, event))

    def knows(self, key: str, event: events.WorkloadInadmissible) -> bool:
        """Whether just this was said already."""
        return _said(key, event) in self.said


def _said(key: str, event: events.WorkloadInadmissible) -> str:
    """Return what was said, and since when it holds: what wakes the queue between a decision and its record comes first
    in the log, and the same that a later cycle says sets the head of the queue aside, which this one did not."""
    tried = [sorted(one.items()) for one in event.tried or ()]
    said = key, event.uid, event.cluster_queue, event.why, event.message, event.requeue, tried, sorted(event.victims)
    return repr((*said, event.wakes))


Decided = (
    events.QuotaReservationDecided
    | events.WorkloadInadmissible
    | topology_events.TopologyAssignmentDecided
    | topology_events.TopologyAssignmentFailed
)


def decision_of(event: Decided, info: Info) -> decisions.Decision:
    """Return the engine's decision that an event records."""
    if isinstance(event, topology_events.TopologyAssignmentDecided):
        return decisions.Admit(info.key, facts.admission(event.admission), second_pass=True)
    if isinstance(event, topology_events.TopologyAssignmentFailed):
        return decisions.Inadmissible(info.key, event.cluster_queue, "", event.message, "", second_pass=event.tries)
    if isinstance(event, events.QuotaReservationDecided):
        return decisions.Admit(info.key, facts.admission(event.admission), penalty=from_quantities(event.penalty))
    progress = None
    if event.tried is not None:
        generation, cycle = event.tried_at
        progress = Progress(tuple(event.tried), generation, cycle, info.shape)
    short_of = None
    if event.short_of is not None:
        short_of = frozenset((flavor, one) for flavor, several in event.short_of.items() for one in several)
    told = info.key, event.cluster_queue, event.why, event.message, event.requeue
    return decisions.Inadmissible(*told, progress, event.wakes, short_of=short_of)
