"""What may be written on the management cluster where this service decides on quota: objects of Kueue's API, and the jobs
that have a queue, in the version that was decided on; Workloads of such jobs are made and deleted. Nothing else.

In: every write as the API server carried it out. Out: a violation."""

from __future__ import annotations

from controlplane.dst.engine.server import Written
from controlplane.dst.invariants.workloads.ownership import OwnershipRules
from controlplane.dst.scenes.workloads.kinds import ADAPTERS
from controlplane.job_kinds.base import QUEUE_LABEL
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    EVENTS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    RESOURCE_FLAVORS,
    WORKLOADS,
)

_OF_KUEUE = (WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES, COHORTS, RESOURCE_FLAVORS, ADMISSION_CHECKS, MULTIKUEUE_CLUSTERS)


class AdmissionOwnership(OwnershipRules):
    """The rules of workers as everywhere, and those of this management cluster."""

    def _at_home(self, write: Written) -> str:
        if write.verb == "create":
            return "" if write.kind in (EVENTS, WORKLOADS) else "only Events and Workloads are created here"
        if write.verb == "delete":
            return "" if write.kind == WORKLOADS and write.uid else "only Workloads are deleted here, by UID"
        if write.kind not in (*ADAPTERS, *_OF_KUEUE):
            return "not a kind that is ours to write"
        if write.kind in ADAPTERS and QUEUE_LABEL not in (write.before.labels if write.before is not None else {}):
            return "a job without a queue"
        return "" if write.resource_version or write.uid else "without a precondition"
