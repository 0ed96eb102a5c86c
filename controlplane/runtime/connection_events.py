"""From what connections report to the events of connectivity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controlplane.clusters import connection_reports
from controlplane.clusters.protocol import Off, Synced
from controlplane.controllers.connectivity import events, identity
from controlplane.controllers.connectivity.local_connection import connectivity_event
from controlplane.controllers.connectivity.state import Connection
from controlplane.kube.kinds import Kind
from controlplane.log.event import Event, NewEvent


def event_of(
    cluster: str,
    fact: connection_reports.Fact,
    kinds: Sequence[Kind],
    seen_by: str,
    connections: Mapping[str, Connection],
) -> Event | None:
    """Return the event of a fact; None for `Reached` of the cluster that is known, which `Connected` repeats."""
    match fact:
        case connection_reports.Reached():
            known = connections.get(cluster)
            before = known.incarnation if known is not None else ""
            return (
                events.ClusterIdentified(incarnation=fact.incarnation) if before not in ("", fact.incarnation) else None
            )
        case connection_reports.Connected():
            followed = [kind.name for kind in kinds if kind.name not in fact.kinds_off]
            return events.ClusterConnected(
                incarnation=fact.incarnation, server_version=fact.server_version, kinds=followed
            )
        case connection_reports.Standby():
            return events.ClusterStandby(
                behind=fact.behind,
                incarnation=fact.incarnation,
                message=identity.standby(cluster, fact.behind, fact.incarnation),
            )
        case connection_reports.ConnectFailed():
            return events.ClusterConnectFailed(
                reason=fact.reason,
                message=fact.message,
                attempt=fact.attempt,
                next_attempt_at=fact.next_attempt_at,
            )
        case connection_reports.Lost():
            others = [known for name, known in connections.items() if name not in (cluster, events.MANAGEMENT)]
            return events.ClusterLost(
                reason=fact.reason,
                message=fact.message,
                seen_by=seen_by,
                others=len(others),
                others_connected=sum(known.phase == "Connected" for known in others),
            )
        case connection_reports.Suspected():
            return events.ClusterSuspected(message=fact.message, seen_by=seen_by)
        case connection_reports.Recovered():
            return events.ClusterRecovered()
        case connection_reports.StoreRestored():
            known = connections.get(cluster)
            return events.ClusterRestored(message=fact.message, restores=known.restores + 1 if known else 1)
        case connection_reports.Disconnected():
            return events.ClusterDisconnected(reason="Reconfigured")
        case connection_reports.Removed():
            return events.ClusterDisconnected(reason="Removed")
        case _:
            return None


def lift(cluster: str, delta: Synced | Off) -> NewEvent:
    """Return the event of a list that is complete, or of a kind that is off."""
    if isinstance(delta, Synced):
        event: Event = events.KindSynced(
            kind=delta.kind.name, count=delta.count, resource_version=delta.resource_version, gap=delta.gap
        )
    else:
        event = events.KindOff(kind=delta.kind.name, reason=delta.reason, message=delta.message)
    return connectivity_event(cluster, event)
