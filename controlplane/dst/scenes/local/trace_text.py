"""Names the decisions of either log, and what the trace shows of an event beside its stream."""

from __future__ import annotations

from controlplane.controllers.manifests import OWN_CLUSTER
from controlplane.log.event import Event, Unknown

DECISIONS = tuple(one.decision for one in OWN_CLUSTER if one.decision is not None)


def about(event: Event | Unknown) -> str:
    """Return the objects that an event names, as the trace shows them."""
    named = [str(value) for field in ("node", "group", "name", "kind") if (value := getattr(event, field, ""))]
    return f" ({' '.join(named)})" if named else ""
