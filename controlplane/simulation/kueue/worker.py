"""Kueue's core on a worker cluster: clones of Workloads first, their jobs later.

In: Workloads without an owner, which are queued and admitted like any other, and jobs that name such a Workload as
theirs. Out: the Workload owned by the job and the job started once both agree; a Workload that asks for something else
than its job is finished as `OutOfSync`. A job whose Workload is not there, or belongs to another job, stays suspended
and is looked at again when the Workload changes.
"""

from __future__ import annotations

from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.kueue_names import JOB_UID_LABEL, RESOURCE_IN_USE
from controlplane.kube.slices import is_elastic
from controlplane.simulation.kueue import slices
from controlplane.simulation.kueue.cluster import Kueue
from controlplane.simulation.kueue.common import controller_of, owner_reference
from controlplane.simulation.kueue.core import Core
from controlplane.simulation.kueue.jobs import JobReconciler


class KueueWorker(Kueue):
    """A worker cluster's Kueue."""

    def bind(self, kind: Kind, job: Json, name: str) -> Json | None:
        """Take a prebuilt Workload over for a job; None while there is none, or none that is free and equivalent."""
        return bind_prebuilt(self.core, self.jobs, kind, job, name)


def bind_prebuilt(core: Core, jobs: JobReconciler, kind: Kind, job: Json, name: str) -> Json | None:
    """Take a prebuilt Workload over for a job; None while there is none, or none that is free and equivalent."""
    namespace = meta(job)["namespace"]
    workload = core.workload(namespace, name)
    if workload is None:
        return None
    owner = controller_of(workload)
    if owner is not None and owner["uid"] != meta(job)["uid"]:
        return None
    if owner is None and not meta(workload).get("deletionTimestamp"):
        _own(core, kind, job, workload)
        workload = core.workload(namespace, name)
    if workload is None or is_true(workload, "Finished"):
        return workload
    if is_elastic(job) and slices.replaces(workload) is not None:
        return workload  # the job is given its size with the write that binds it
    if controller_of(workload) is not None and not jobs.matches(kind, job, workload):
        core.finish(workload, "OutOfSync", "The prebuilt workload is out of sync with its user job")
        return None
    return workload


def _own(core: Core, kind: Kind, job: Json, workload: Json) -> None:
    metadata = meta(workload)
    owners = [*(metadata.get("ownerReferences") or ()), owner_reference(kind, job)]
    head: Json = {"ownerReferences": owners, "labels": {JOB_UID_LABEL: meta(job)["uid"]}}
    finalizers = metadata.get("finalizers") or []
    if core.gates.bind_finalizer and RESOURCE_IN_USE not in finalizers:
        head["finalizers"] = [*finalizers, RESOURCE_IN_USE]
    core.patch(workload, {"metadata": head})
