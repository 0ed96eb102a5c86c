"""Names the decisions of either log, and what the trace shows of an event beside its stream."""

from __future__ import annotations

from controlplane.controllers.coscheduling.events import CoschedulingDecision as RunDecision
from controlplane.controllers.podgroups.events import GroupDecision
from controlplane.controllers.scheduling.events import SchedulingDecision
from controlplane.log.event import Event, Unknown

DECISIONS = (GroupDecision, RunDecision, SchedulingDecision)


def about(event: Event | Unknown) -> str:
    """Return the objects that an event names, as the trace shows them."""
    named = [str(value) for field in ("node", "group", "name", "kind") if (value := getattr(event, field, ""))]
    return f" ({' '.join(named)})" if named else ""
