"""What each event of connectivity says, in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from controlplane.controllers.connectivity import events as connectivity
from controlplane.kube.durations import show
from controlplane.log.event import Event
from controlplane.runtime.phrases import Phrase, told


def _also(said: connectivity.PolicyInForce) -> str:
    """Return what else is on."""
    by = f" (logged in by {', '.join(said.access_providers)})" if said.access_providers else ""
    quota = "; quota is automated" if said.quota_automation else ""
    decides = "; this service decides about quota" if said.quota else ""
    return f"{quota}{decides}; ClusterProfiles are followed{by}" if said.cluster_profiles else f"{quota}{decides}"


def _failed(event: connectivity.ClusterConnectFailed) -> str:
    return f"cannot be connected to, attempt {event.attempt}: {event.message}"


def _lost(event: connectivity.ClusterLost) -> str:
    seen = (
        f"; {event.seen_by} saw it, and reached {event.others_connected} of {event.others} others"
        if event.seen_by
        else ""
    )
    return f"is lost: {event.message}{seen}"


def _synced(event: connectivity.KindSynced) -> str:
    gap = "; changes before were missed" if event.gap else ""
    return f"{event.kind} listed: {event.count}{gap}"


PHRASES: Mapping[type[Event], Phrase] = told(
    {
        connectivity.LogWentBack: lambda e: (
            f"the log ended at {e.ends_at} and had been read up to {e.read_to}: what clusters show is recorded anew"
        ),
        connectivity.LogRebound: "{e.by} lets the log follow another management cluster",
        connectivity.EventRefused: "the database refused {e.type} on {e.stream}",
        connectivity.ServiceStarted: "{e.holder} took the log over (epoch {e.epoch}, version {e.version})",
        connectivity.ServiceStopped: "{e.holder} let the log go (epoch {e.epoch})",
        connectivity.LeadRequested: (
            "{e.holder} asks for the lead (epoch {e.epoch}): it reaches the management cluster, and the leader does not"
        ),
        connectivity.PolicyInForce: lambda e: (
            f"decisions rest on {e.execution_policy}, a grace of "
            f"{show(timedelta(seconds=e.worker_lost_timeout_seconds))}, and "
            f"{', '.join(e.kinds) or 'no kinds'}{_also(e)}"
        ),
        connectivity.ClusterConnected: lambda e: f"is connected{f' ({e.server_version})' if e.server_version else ''}",
        connectivity.ClusterConnectFailed: _failed,
        connectivity.ClusterStandby: "stands by: {e.message}",
        connectivity.ClusterIdentified: "is another cluster from here on (UID of its kube-system: {e.incarnation})",
        connectivity.ClusterSuspected: "has not answered in time: {e.message}",
        connectivity.ClusterRecovered: "answers again",
        connectivity.ClusterRestored: "was restored from a backup: {e.message}",
        connectivity.ClusterForgotten: "was given up by {e.by}",
        connectivity.MassOutageBegan: lambda e: f"mass outage: {len(e.away)} of {e.of} clusters are away",
        connectivity.MassOutageEnded: lambda e: f"mass outage is over: {len(e.away)} of {e.of} clusters are away",
        connectivity.MassOutageAccepted: "mass outage was accepted by {e.by}",
        connectivity.ClusterLost: _lost,
        connectivity.ClusterDisconnected: "was let go",
        connectivity.KindSynced: _synced,
        connectivity.KindOff: "{e.kind} cannot be watched: {e.message}",
    }
)
