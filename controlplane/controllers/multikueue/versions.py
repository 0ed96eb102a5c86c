"""Reads objects' versions from MultiKueue's observations, for `controlplane.controllers.connectivity.versions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.controllers.connectivity import versions
from controlplane.controllers.connectivity.versions import ShownVersion
from controlplane.controllers.multikueue import observations, worker_queues
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
)
from controlplane.log.event import Event
from controlplane.values import ByClass

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
    worker_queues.WorkerClusterQueueObserved: CLUSTER_QUEUES.name,
    worker_queues.WorkerClusterQueueGone: CLUSTER_QUEUES.name,
    worker_queues.WorkerLocalQueueObserved: LOCAL_QUEUES.name,
    worker_queues.WorkerLocalQueueGone: LOCAL_QUEUES.name,
}


class WorkloadVersionTracker(versions.ResourceVersionTracker):
    """The versions of MultiKueue's kinds."""

    def __init__(self) -> None:
        super().__init__(_shown)


def _shown(event: Event) -> ShownVersion | None:
    reads = _READS[type(event)]
    return reads(event) if reads is not None else None


def _seen(event: observations.Observation) -> ShownVersion:
    return ShownVersion(_KINDS.get(type(event)) or str(getattr(event, "kind", "")), event.resource_version)


def _went(event: observations.ObjectGone) -> ShownVersion:
    return ShownVersion(_KINDS.get(type(event)) or str(getattr(event, "kind", "")), event.resource_version, event.uid)


_READS: ByClass[Callable[[Any], ShownVersion] | None] = ByClass(
    {observations.Observation: _seen, observations.ObjectGone: _went}, other=None
)
