"""From what connections report to the events of connectivity."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.clusters import facts
from controlplane.clusters.port import Off, Synced
from controlplane.connectivity.events import (
    ClusterConnected,
    ClusterConnectFailed,
    ClusterDisconnected,
    ClusterLost,
    KindOff,
    KindSynced,
)
from controlplane.kube import Kind
from controlplane.log.event import Event, NewEvent
from controlplane.multikueue.fleet import connectivity_event


def event_of(fact: facts.Fact, kinds: Sequence[Kind]) -> Event | None:
    """Return the event of a fact; None for `Reached`, which `Connected` repeats."""
    match fact:
        case facts.Connected():
            followed = [kind.name for kind in kinds if kind.name not in fact.kinds_off]
            return ClusterConnected(incarnation=fact.incarnation, server_version=fact.server_version, kinds=followed)
        case facts.ConnectFailed():
            return ClusterConnectFailed(
                reason=fact.reason,
                message=fact.message,
                attempt=fact.attempt,
                next_attempt_at=fact.next_attempt_at,
            )
        case facts.Lost():
            return ClusterLost(reason=fact.reason, message=fact.message)
        case facts.Disconnected():
            return ClusterDisconnected(reason="Reconfigured")
        case facts.Removed():
            return ClusterDisconnected(reason="Removed")
        case _:
            return None


def lift(cluster: str, delta: Synced | Off) -> NewEvent:
    """Return the event of a list that is complete, or of a kind that is off."""
    if isinstance(delta, Synced):
        event: Event = KindSynced(
            kind=delta.kind.name, count=delta.count, resource_version=delta.resource_version, gap=delta.gap
        )
    else:
        event = KindOff(kind=delta.kind.name, reason=delta.reason, message=delta.message)
    return connectivity_event(cluster, event)
