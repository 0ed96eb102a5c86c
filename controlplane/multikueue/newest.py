"""The highest resourceVersion that was seen of each kind on each cluster: what tells a restored backup from a cluster that was away.

In: every event, in the log's order. Out: a number by cluster and kind, of the cluster's present life alone, and whether the kind was listed
as a whole in it. A list that is older than the number comes from a store that went back, even if all that was seen since is gone again; the
log has no other mark of that. Before the first whole list of a life, what the log knows of an object may be of the life before. And what
was seen to go does not come back: for a while it is remembered by its UID.
"""

from __future__ import annotations

from controlplane.connectivity.events import ClusterConnected, ClusterDisconnected, ClusterRestored, KindSynced
from controlplane.kube import ADMISSION_CHECKS, CLUSTER_QUEUES, MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, WORKLOADS
from controlplane.log.event import Event, Recorded
from controlplane.multikueue.events import (
    AdmissionCheckGone,
    AdmissionCheckObserved,
    CloneGone,
    CloneObserved,
    ClusterQueueGone,
    ClusterQueueObserved,
    Gone,
    MultiKueueClusterGone,
    MultiKueueClusterObserved,
    MultiKueueConfigGone,
    MultiKueueConfigObserved,
    Seen,
    WorkloadGone,
    WorkloadObserved,
)

# Events of jobs, which are of several kinds, name theirs.
_KINDS: dict[type[Event], str] = {
    WorkloadObserved: WORKLOADS.name,
    WorkloadGone: WORKLOADS.name,
    CloneObserved: WORKLOADS.name,
    CloneGone: WORKLOADS.name,
    AdmissionCheckObserved: ADMISSION_CHECKS.name,
    AdmissionCheckGone: ADMISSION_CHECKS.name,
    MultiKueueConfigObserved: MULTIKUEUE_CONFIGS.name,
    MultiKueueConfigGone: MULTIKUEUE_CONFIGS.name,
    MultiKueueClusterObserved: MULTIKUEUE_CLUSTERS.name,
    MultiKueueClusterGone: MULTIKUEUE_CLUSTERS.name,
    ClusterQueueObserved: CLUSTER_QUEUES.name,
    ClusterQueueGone: CLUSTER_QUEUES.name,
}


# Enough for the time between a backup and its restore, and a few megabytes for each cluster.
_REMEMBERED = 20_000


class Newest:
    """See the module."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[str, int]] = {}
        self._listed: dict[str, set[str]] = {}
        self._gone: dict[str, dict[str, None]] = {}
        self._incarnations: dict[str, str] = {}

    def of(self, cluster: str, kind: str) -> int:
        """Return the highest resourceVersion of a kind (`Kind.name`) on a cluster, 0 if none was seen in its present life."""
        return self._versions.get(cluster, {}).get(kind, 0)

    def listed(self, cluster: str, kind: str) -> bool:
        """Whether the kind was listed as a whole in the cluster's present life."""
        return kind in self._listed.get(cluster, ())

    def is_gone(self, cluster: str, uid: str) -> bool:
        """Whether an object was seen to go in the cluster's present life, not too long ago."""
        return uid in self._gone.get(cluster, ())

    def fold(self, recorded: Recorded) -> None:
        """Take one more event."""
        event, cluster = recorded.event, recorded.cluster
        if isinstance(event, (Seen, Gone)):
            self._note(cluster, _KINDS.get(type(event)) or str(getattr(event, "kind", "")), event.resource_version)
            if isinstance(event, Gone):
                self._buried(cluster, event.uid)
        elif isinstance(event, KindSynced):
            self._note(cluster, event.kind, event.resource_version)
            self._listed.setdefault(cluster, set()).add(event.kind)
        elif isinstance(event, ClusterRestored) or (
            isinstance(event, ClusterDisconnected) and event.reason == "Removed"
        ):
            self._begin(cluster)
        elif isinstance(event, ClusterConnected):
            if self._incarnations.get(cluster, event.incarnation) != event.incarnation:
                self._begin(cluster)
            self._incarnations[cluster] = event.incarnation

    def _buried(self, cluster: str, uid: str) -> None:
        gone = self._gone.setdefault(cluster, {})
        gone[uid] = None
        if len(gone) > _REMEMBERED:
            del gone[next(iter(gone))]

    def _begin(self, cluster: str) -> None:
        self._versions.pop(cluster, None)
        self._listed.pop(cluster, None)
        self._gone.pop(cluster, None)

    def _note(self, cluster: str, kind: str, version: str) -> None:
        if version.isdecimal():
            versions = self._versions.setdefault(cluster, {})
            versions[kind] = max(versions.get(kind, 0), int(version))
