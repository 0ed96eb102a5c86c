"""Notes what a decision looks at, of a Workload, its copies, its job and the clusters, with the position in the log
at which it came to be so.

In: states before and after an event. Out: `controlplane.runtime.facets.FacetPositions`. The names are `w` for the Workload,
`CLUSTER/w` and `CLUSTER/j` for its copy and the job's there, and outside a Workload's stream those of streams."""

from __future__ import annotations

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.facets import LOST
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.events import ClusterRefused as Refused
from controlplane.controllers.multikueue.events import CopyJudged, EffectFailed, WinnerChosen, WinnerReleased
from controlplane.controllers.multikueue.observations import (
    CloneObserved,
    Conditioned,
    JobObserved,
    RemoteJobObserved,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.state import WorkloadState
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import Recorded
from controlplane.runtime.facets import FacetPositions, Facets, moved

LOCAL: Facets[WorkloadObserved] = {
    "present": lambda seen: seen.uid,
    "quota": lambda seen: seen.is_true("QuotaReserved"),
    "evicted": lambda seen: seen.is_true("Evicted"),
    "finished": lambda seen: seen.is_true("Finished"),
    "deleting": lambda seen: seen.deleting,
    "active": lambda seen: seen.active,
    "nominated": lambda seen: seen.nominated,
    "cluster": lambda seen: seen.cluster_name,
    "checks": lambda seen: [(entry.name, entry.state) for entry in seen.checks],
    "spec": lambda seen: seen.spec_key,
    "priority": lambda seen: seen.priority,
    "topology": lambda seen: seen.delayed_topology,
    "size": lambda seen: seen.size,
}
CLONE: Facets[CloneObserved] = {
    "present": lambda seen: seen.uid,
    "admitted": lambda seen: seen.is_true("Admitted"),
    "evicted": lambda seen: seen.is_true("Evicted"),
    "finished": lambda seen: seen.is_true("Finished"),
    "deleting": lambda seen: seen.deleting,
    "active": lambda seen: seen.active,
    "spec": lambda seen: seen.spec_key,
    "priority": lambda seen: seen.priority,
    "topology": lambda seen: seen.topology,
    "size": lambda seen: seen.size,
    "blocked": lambda seen: (seen.is_true("BlockedOnPreemptionGates"), seen.gates),
}
REMOTE_JOB: Facets[RemoteJobObserved] = {
    "present": lambda seen: seen.uid,
    "finished": lambda seen: seen.finished,
    "suspended": lambda seen: seen.suspended,
    "inactive": lambda seen: seen.inactive,
    "synced": lambda seen: seen.synced,
    "size": lambda seen: seen.size,
    "status": lambda seen: seen.status,
}
JOB: Facets[JobObserved] = {
    "present": lambda seen: seen.uid,
    "managed": lambda seen: seen.managed_by,
    "policy": lambda seen: seen.execution_policy,
    "selector": lambda seen: (seen.cluster_selector, seen.labels),
    "suspended": lambda seen: seen.suspended,
    "inactive": lambda seen: seen.inactive,
    "synced": lambda seen: seen.synced,
    "size": lambda seen: seen.size,
    "status": lambda seen: seen.status,
    "ended": lambda seen: seen.end,
}
CONNECTION: Facets[Connection] = {
    **LOST,
    "view": lambda state: state.in_view(WORKLOADS.name),
    "kinds": lambda state: (state.connected, state.synced, state.off),
}


def of_workload(before: WorkloadState, after: WorkloadState, recorded: Recorded) -> FacetPositions:
    """Return the positions of a Workload after one more event of its stream."""
    event, at, cluster = recorded.event, recorded.position, recorded.cluster
    if (
        isinstance(event, Conditioned | RemoteJobObserved)
        or before.remotes is not after.remotes
        or before.local is not after.local
    ):
        positions = moved(before.positions, "w", LOCAL, before.local, after.local, at)
        if cluster != MANAGEMENT:
            one, other = before.remote(cluster), after.remote(cluster)
            positions = moved(positions, f"{cluster}/w", CLONE, one.clone, other.clone, at)
            positions = moved(positions, f"{cluster}/j", REMOTE_JOB, one.job, other.job, at)
        return positions
    named = facet_of(event)
    return {**before.positions, named: at} if named else before.positions


def facet_of(event: object) -> str:
    """Return the name of the facet that an event sets by itself, "" if it sets none."""
    match event:
        case WinnerChosen():
            return "winner"
        case WinnerReleased():
            return "released"
        case Refused():
            return f"refused/{event.cluster}"
        case CopyJudged():
            return f"judged/{event.cluster}"
        case EffectFailed():
            return f"failed/{event.target}"
        case _:
            return ""
