"""Notes what a decision looks at, of a Workload, its copies, its job and the clusters, with the position in the log
at which it came to be so.

In: states before and after an event. Out: `controlplane.runtime.facets.FacetPositions`. The names are `w` for the
Workload, `CLUSTER/w` and `CLUSTER/j` for its copy and the job's there, and outside a Workload's stream those of
streams."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.facets import LOST
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.events import ClusterRefused as Refused
from controlplane.controllers.multikueue.events import CopyJudged, EffectFailed, WinnerChosen, WinnerReleased
from controlplane.controllers.multikueue.observations import (
    CloneObserved,
    JobObserved,
    RemoteJobObserved,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import Recorded
from controlplane.runtime.facets import FacetPositions, Facets, moved
from controlplane.values import ByClass

LOCAL: Facets[WorkloadObserved] = {
    "present": attrgetter("uid"),
    "quota": lambda seen: seen.is_true("QuotaReserved"),
    "evicted": lambda seen: seen.is_true("Evicted"),
    "finished": lambda seen: seen.is_true("Finished"),
    "deleting": attrgetter("deleting"),
    "active": attrgetter("active"),
    "nominated": attrgetter("nominated"),
    "cluster": attrgetter("cluster_name"),
    "checks": lambda seen: [(entry.name, entry.state) for entry in seen.checks],
    "spec": attrgetter("spec_key"),
    "priority": attrgetter("priority"),
    "topology": attrgetter("delayed_topology"),
    "size": attrgetter("size"),
}
CLONE: Facets[CloneObserved] = {
    "present": attrgetter("uid"),
    "admitted": lambda seen: seen.is_true("Admitted"),
    "evicted": lambda seen: seen.is_true("Evicted"),
    "finished": lambda seen: seen.is_true("Finished"),
    "deleting": attrgetter("deleting"),
    "active": attrgetter("active"),
    "spec": attrgetter("spec_key"),
    "priority": attrgetter("priority"),
    "topology": attrgetter("topology"),
    "size": attrgetter("size"),
    "blocked": lambda seen: (seen.is_true("BlockedOnPreemptionGates"), seen.gates),
}
REMOTE_JOB: Facets[RemoteJobObserved] = {
    "present": attrgetter("uid"),
    "finished": attrgetter("finished"),
    "finalizing": attrgetter("finalizing"),
    "suspended": attrgetter("suspended"),
    "inactive": attrgetter("inactive"),
    "synced": attrgetter("synced"),
    "size": attrgetter("size"),
    "status": attrgetter("status"),
}
JOB: Facets[JobObserved] = {
    "present": attrgetter("uid"),
    "managed": attrgetter("managed_by"),
    "policy": attrgetter("execution_policy"),
    "selector": lambda seen: (seen.cluster_selector, seen.labels),
    "suspended": attrgetter("suspended"),
    "inactive": attrgetter("inactive"),
    "synced": attrgetter("synced"),
    "size": attrgetter("size"),
    "status": attrgetter("status"),
    "ended": attrgetter("end"),
}
CONNECTION: Facets[Connection] = {
    **LOST,
    "view": lambda state: state.in_view(WORKLOADS.name),
    "kinds": lambda state: (state.connected, state.synced, state.off),
}


def of_workload(before: WorkloadState, after: WorkloadState, recorded: Recorded) -> FacetPositions:
    """Return the positions of a Workload after one more event of its stream."""
    event, at, cluster = recorded.event, recorded.position, recorded.cluster
    if before.remotes is not after.remotes or before.local is not after.local:
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
    return _SET[type(event)](event)


_SET: ByClass[Callable[[Any], str]] = ByClass(
    {
        WinnerChosen: lambda event: "winner",
        WinnerReleased: lambda event: "released",
        Refused: lambda event: f"refused/{event.cluster}",
        CopyJudged: lambda event: f"judged/{event.cluster}",
        EffectFailed: lambda event: f"failed/{event.target}",
    },
    other=lambda event: "",
)
