"""What MultiKueue's observations say of objects' versions, for `controlplane.connectivity.newest`."""

from __future__ import annotations

from controlplane.connectivity import newest
from controlplane.connectivity.newest import Shown
from controlplane.kube import ADMISSION_CHECKS, CLUSTER_QUEUES, MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, WORKLOADS
from controlplane.log.event import Event
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


class Newest(newest.Newest):
    """The versions of MultiKueue's kinds."""

    def __init__(self) -> None:
        super().__init__(_shown)


def _shown(event: Event) -> Shown | None:
    if not isinstance(event, (Seen, Gone)):
        return None
    kind = _KINDS.get(type(event)) or str(getattr(event, "kind", ""))
    return Shown(kind, event.resource_version, event.uid if isinstance(event, Gone) else "")
