"""Reads objects' versions from MultiKueue's observations, for `controlplane.controllers.connectivity.versions`."""

from __future__ import annotations

from controlplane.controllers.connectivity import versions
from controlplane.controllers.connectivity.versions import ShownVersion
from controlplane.controllers.multikueue import observations
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
)
from controlplane.log.event import Event

# Events of jobs, which are of several kinds, name theirs.
_KINDS: dict[type[Event], str] = {
    observations.WorkloadObserved: WORKLOADS.name,
    observations.WorkloadGone: WORKLOADS.name,
    observations.CloneObserved: WORKLOADS.name,
    observations.CloneGone: WORKLOADS.name,
    observations.AdmissionCheckObserved: ADMISSION_CHECKS.name,
    observations.AdmissionCheckGone: ADMISSION_CHECKS.name,
    observations.MultiKueueConfigObserved: MULTIKUEUE_CONFIGS.name,
    observations.MultiKueueConfigGone: MULTIKUEUE_CONFIGS.name,
    observations.MultiKueueClusterObserved: MULTIKUEUE_CLUSTERS.name,
    observations.MultiKueueClusterGone: MULTIKUEUE_CLUSTERS.name,
    observations.ClusterQueueObserved: CLUSTER_QUEUES.name,
    observations.ClusterQueueGone: CLUSTER_QUEUES.name,
    observations.WorkerClusterQueueObserved: CLUSTER_QUEUES.name,
    observations.WorkerClusterQueueGone: CLUSTER_QUEUES.name,
    observations.WorkerLocalQueueObserved: LOCAL_QUEUES.name,
    observations.WorkerLocalQueueGone: LOCAL_QUEUES.name,
}


class WorkloadVersionTracker(versions.ResourceVersionTracker):
    """The versions of MultiKueue's kinds."""

    def __init__(self) -> None:
        super().__init__(_shown)


def _shown(event: Event) -> ShownVersion | None:
    if not isinstance(event, (observations.Observation, observations.ObjectGone)):
        return None
    kind = _KINDS.get(type(event)) or str(getattr(event, "kind", ""))
    return ShownVersion(kind, event.resource_version, event.uid if isinstance(event, observations.ObjectGone) else "")
