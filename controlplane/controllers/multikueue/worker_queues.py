"""Defines what is observed of workers' queues, where clusters are scored by their flavors."""

from __future__ import annotations

from controlplane.controllers.multikueue.observations import ObjectGone, Observation
from controlplane.log.event import Event, Part


class WorkerFlavor(Part):
    """A flavor of a worker's ClusterQueue: what of it is not reserved, by resource."""

    name: str
    free: dict[str, str]


class WorkerResourceGroup(Part):
    """A resource group of a worker's ClusterQueue."""

    covered: list[str]
    flavors: list[WorkerFlavor]


class WorkerClusterQueueObserved(Observation):
    """A ClusterQueue of a worker, recorded where clusters are scored by its flavors, when one of these fields changed.
    `groups` is None while its status says nothing of what is reserved; `borrows`: it is in a cohort; `inactive`: why it
    admits nothing, "" if it does."""

    groups: list[WorkerResourceGroup] | None = None
    borrows: bool = False
    inactive: str = ""


class WorkerClusterQueueGone(ObjectGone):
    """A ClusterQueue of a worker is no longer there."""


class WorkerLocalQueueObserved(Observation):
    """A LocalQueue of a worker, recorded with its ClusterQueues; `inactive` as in `WorkerClusterQueueObserved`."""

    cluster_queue: str = ""
    inactive: str = ""


class WorkerLocalQueueGone(ObjectGone):
    """A LocalQueue of a worker is no longer there."""


WORKER_QUEUES: tuple[type[Event], ...] = (
    WorkerClusterQueueObserved,
    WorkerClusterQueueGone,
    WorkerLocalQueueObserved,
    WorkerLocalQueueGone,
)
