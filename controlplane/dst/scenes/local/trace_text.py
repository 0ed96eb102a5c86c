"""How an event of either log is told in the trace.

In: events as they were recorded. Out: the topic by which the story picks its lines, and a line.
"""

from __future__ import annotations

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import (
    ClusterConnectFailed,
    ClusterLost,
    ClusterRestored,
    ClusterSuspected,
    KindOff,
    KindSynced,
)
from controlplane.controllers.coscheduling.events import CoschedulingDecision as RunDecision
from controlplane.controllers.podgroups.events import GroupDecision
from controlplane.controllers.scheduling.events import SchedulingDecision
from controlplane.dst.engine.trace import Topic
from controlplane.log.event import Event, Recorded, Unknown

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
