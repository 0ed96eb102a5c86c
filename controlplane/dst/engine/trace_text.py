"""Spells an event that reached a log for the trace: a topic, and a line.

In: an event as it was recorded, and which events are decisions of the scene. Out: the topic by which the story picks
its lines, and the line."""

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
from controlplane.dst.engine.trace import Topic
from controlplane.log.event import Event, Recorded, Unknown

_WITH_MESSAGE = (ClusterConnectFailed, ClusterLost, ClusterRestored, ClusterSuspected, KindOff)


def topic(event: Event | Unknown, decisions: tuple[type, ...]) -> Topic:
    """Return what an event is about."""
    if isinstance(event, decisions):
        return "decision"
    return "connection" if isinstance(event, connectivity.EVENTS) and not isinstance(event, KindSynced) else "log"


def line_of(recorded: Recorded, decisions: tuple[type, ...], about: str) -> str:
    """Return an event in a line; `about` is what the scene shows behind its stream."""
    event = recorded.event
    reason = f" because {getattr(event, 'reason', '')}" if isinstance(event, decisions) else ""
    message = f": {event.message}" if isinstance(event, _WITH_MESSAGE) else ""
    return f"{recorded.position} {type(event).__name__} on {recorded.stream}{about}{reason}{message}"
