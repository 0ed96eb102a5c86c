"""How an event of either log is told in the trace.

In: events as they were recorded. Out: the topic by which the story picks its lines, and a line.
"""

from __future__ import annotations

from controlplane.connectivity import events as connectivity
from controlplane.connectivity.events import (
    ClusterConnectFailed,
    ClusterLost,
    ClusterRestored,
    ClusterSuspected,
    KindOff,
    KindSynced,
)
from controlplane.coscheduling.events import Decision as RunDecision
from controlplane.log.event import Event, Recorded, Unknown
from controlplane.podgroups.events import Decision as GroupDecision
from controlplane.scheduler.events import SchedulingDecision
from controlplane.simulation.deterministic.trace import Topic

DECISIONS = (GroupDecision, RunDecision, SchedulingDecision)
_TELLING = (ClusterConnectFailed, ClusterLost, ClusterRestored, ClusterSuspected, KindOff)


def topic(event: Event | Unknown) -> Topic:
    """Return what an event is about."""
    if isinstance(event, DECISIONS):
        return "decision"
    return "connection" if isinstance(event, connectivity.EVENTS) and not isinstance(event, KindSynced) else "log"


def words(recorded: Recorded) -> str:
    """Return an event in a line."""
    event = recorded.event
    reason = f" because {event.reason}" if isinstance(event, DECISIONS) else ""
    message = f": {event.message}" if isinstance(event, _TELLING) else ""
    named = [str(value) for field in ("node", "group", "name", "kind") if (value := getattr(event, field, ""))]
    about = f" ({' '.join(named)})" if named else ""
    return f"{recorded.position} {type(event).__name__} on {recorded.stream}{about}{reason}{message}"
