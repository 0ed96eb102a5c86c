"""Tells the engine of queues, flavors and checks that came, changed or went, and of what LocalQueues used.

In: events of objects, and the moment in seconds. Out: the engine's state is changed. Pure otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.controllers.quota.admission import events, facts, topology_events
from controlplane.controllers.quota.admission.reasons import AdmissionReason as R
from controlplane.controllers.quota.engine.state import State
from controlplane.controllers.quota.engine.usage_history import from_quantities


def put_object(engine: State, event: Any, now: float) -> None:
    """Note an object, new or changed."""
    match event:
        case events.AdmissionClusterQueueObserved():
            engine.put_cluster_queue(facts.cluster_queue(event), now)
        case events.AdmissionCohortObserved():
            engine.put_cohort(facts.cohort(event), now)
        case events.AdmissionLocalQueueObserved():
            engine.put_local_queue(facts.local_queue(event))
        case events.AdmissionFlavorObserved():
            engine.put_flavor(facts.flavor(event), now)
        case events.AdmissionCheckSeen():
            engine.put_check(facts.check(event), now)
        case topology_events.AdmissionTopologyObserved():
            engine.put_topology(facts.topology(event), now)


DROPS: dict[type, Callable[[State, Any, float], None]] = {
    events.AdmissionClusterQueueGone: lambda engine, event, now: engine.drop_cluster_queue(event.name, now),
    events.AdmissionCohortGone: lambda engine, event, now: engine.drop_cohort(event.name, now),
    events.AdmissionLocalQueueGone: lambda engine, event, now: engine.drop_local_queue(
        f"{event.namespace}/{event.name}"
    ),
    events.AdmissionFlavorGone: lambda engine, event, now: engine.drop_flavor(event.name, now),
    events.AdmissionCheckUnseen: lambda engine, event, now: engine.drop_check(event.name, now),
    topology_events.AdmissionTopologyGone: lambda engine, event, now: engine.drop_topology(event.name, now),
}
"""What is to be told of an object that is gone, by its event."""


def record_sample(engine: State, local_queue: str, event: events.LocalQueueUsageSampled) -> None:
    """Note what a LocalQueue used, by its namespace and name. All of it was recorded: other settings do not change what
    was."""
    consumed, at = from_quantities(event.consumed), event.sampled_at.timestamp()
    # What a status told when the log began does not say what was used then.
    idle = not event.used and event.reason != R.USAGE_TAKEN_OVER
    engine.history.record(local_queue, consumed, at, event.settled, idle=idle)
