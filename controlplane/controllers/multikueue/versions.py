"""Reads objects' versions from MultiKueue's observations, for `controlplane.controllers.connectivity.versions`."""

from __future__ import annotations

from controlplane.controllers.connectivity import versions
from controlplane.controllers.connectivity.versions import ShownVersion
from controlplane.controllers.multikueue.events import (
    AdmissionCheckGone,
    AdmissionCheckObserved,
    CloneGone,
    CloneObserved,
    ClusterQueueGone,
    ClusterQueueObserved,
    MultiKueueClusterGone,
    MultiKueueClusterObserved,
    MultiKueueConfigGone,
    MultiKueueConfigObserved,
    ObjectGone,
    Observation,
    WorkloadGone,
    WorkloadObserved,
)
from controlplane.kube.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, WORKLOADS
from controlplane.log.event import Event

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


class WorkloadVersionTracker(versions.ResourceVersionTracker):
    """The versions of MultiKueue's kinds."""

    def __init__(self) -> None:
        super().__init__(_shown)


def _shown(event: Event) -> ShownVersion | None:
    if not isinstance(event, (Observation, ObjectGone)):
        return None
    kind = _KINDS.get(type(event)) or str(getattr(event, "kind", ""))
    return ShownVersion(kind, event.resource_version, event.uid if isinstance(event, ObjectGone) else "")
