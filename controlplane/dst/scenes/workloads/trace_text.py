"""What a trace says of an event that reached the log: a topic, and a line."""

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
from controlplane.controllers.multikueue.events import WorkloadDecision
from controlplane.dst.engine.trace import Topic
from controlplane.log.event import Event, Recorded, Unknown

_TELLING = (ClusterConnectFailed, ClusterLost, ClusterRestored, ClusterSuspected, KindOff)


def topic(event: Event | Unknown) -> Topic:
    """Return what kind of news an event is."""
    if isinstance(event, WorkloadDecision):
        return "decision"
    return "connection" if isinstance(event, connectivity.EVENTS) and not isinstance(event, KindSynced) else "log"


def words(recorded: Recorded) -> str:
    """Return the line of an event."""
    event = recorded.event
    reason = f" because {event.reason}" if isinstance(event, WorkloadDecision) else ""
    message = f": {event.message}" if isinstance(event, _TELLING) else ""
    return f"{recorded.position} {type(event).__name__} on {recorded.stream} ({recorded.cluster}){reason}{message}"
