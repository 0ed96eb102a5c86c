"""What may be written on the management cluster where this service decides on quota: objects of Kueue's API, and the
jobs that have a queue, in the version that was decided on; Workloads of such jobs are made and deleted, and pods that
have a queue deleted. Nothing else.

In: every write as the API server carried it out. Out: a violation."""

from __future__ import annotations

from controlplane.dst.engine.server import Written
from controlplane.dst.invariants.workloads.ownership import OwnershipRules
from controlplane.dst.scenes.workloads.kinds import ADAPTERS
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    EVENTS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from controlplane.kube.kueue_names import QUEUE_LABEL

_OF_KUEUE = (WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES, COHORTS, RESOURCE_FLAVORS, ADMISSION_CHECKS, MULTIKUEUE_CLUSTERS)


class AdmissionOwnership(OwnershipRules):
    """The rules of workers as everywhere, and those of this management cluster."""

    def _at_home(self, write: Written) -> str:
        if write.verb == "create":
            return "" if write.kind in (EVENTS, WORKLOADS) else "only Events and Workloads are created here"
        if write.verb == "delete":
            return _deleted(write)
        if write.kind not in (*ADAPTERS, *_OF_KUEUE):
            return "not a kind that is ours to write"
        if write.kind in ADAPTERS and not _has_queue(write):
            return "a job without a queue"
        return "" if write.resource_version or write.uid else "without a precondition"


def _has_queue(write: Written) -> bool:
    return write.before is not None and QUEUE_LABEL in write.before.labels


def _deleted(write: Written) -> str:
    ours = write.kind == WORKLOADS or (write.kind == PODS and _has_queue(write))
    return "" if ours and write.uid else "only Workloads and pods with a queue are deleted here, by UID"
