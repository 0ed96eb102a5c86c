"""Says to those who wait that room is theirs again which no object of the cluster shows as free: what a pod in flight
had taken, and what was kept for a nominated one.

In: the queue, such a pod, the time in seconds. Out: pods moved in the queue. For others it is as if a pod had left."""

from __future__ import annotations

from controlplane.controllers.scheduling.framework.hints import ClusterEvent
from controlplane.controllers.scheduling.gangs.state import ClusterGangs
from controlplane.controllers.scheduling.queue.queue import Queue
from controlplane.controllers.scheduling.snapshot.objects import Pod


def given_back(queue: Queue, gangs: ClusterGangs, pod: Pod, seconds: float) -> None:
    """A pod in flight has no node any more, nor the volumes and devices that were reserved with it. Its own gang is not
    helped by that.
    """
    gang = gangs.of(pod)

    def others(one: Pod) -> bool:
        return gang is None or gangs.of(one) != gang

    queue.move(ClusterEvent("Pod", "AssignedDelete", pod, None), seconds, others)
    if pod.claims:
        queue.move(ClusterEvent("PersistentVolume", "Update"), seconds, others)
    if pod.resource_claims:
        queue.move(ClusterEvent("ResourceClaim", "Update"), seconds, others)


def not_kept(queue: Queue, pod: Pod, seconds: float) -> None:
    """No room is kept for a pod any more, which those of a higher priority could have had all the time."""
    gone = ClusterEvent("Pod", "AssignedDelete", pod, None)
    queue.move(gone, seconds, lambda one: one.identity != pod.identity and one.priority <= pod.priority)
