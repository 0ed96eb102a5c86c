"""Keeps the Workloads of one job together that has several, such as a LeaderWorkerSet with one for each replica: on one
cluster, with one copy of the job.

In: a Workload, and the others of the same job. Out: where it has to go, whether it has to wait, and whether the copy of
the job stays for another. Pure. All of them nominate nothing but the first, until it has a cluster; the others follow
it there, and wait while that is away. The copy is created by the first that is admitted, and goes with the last that
wants it. Kueue's own: kubernetes-sigs/kueue pkg/controller/admissionchecks/multikueue/workload.go, ff69552e."""

from __future__ import annotations

from controlplane.controllers.multikueue.context import WorkloadContext
from controlplane.controllers.multikueue.workload_state import WorkloadState


def keeps(state: WorkloadState, cluster: str) -> bool:
    """Whether a Workload has a cluster, or has chosen it, and goes on with it."""
    local = state.local
    return (
        local is not None
        and not local.deleting
        and cluster in (local.cluster_name, state.winner)
        and local.is_true("QuotaReserved")
        and not local.is_true("Evicted")
        and not local.is_true("Finished")
    )


def kept_by_another(context: WorkloadContext, cluster: str) -> bool:
    """Whether the copy of the job on a cluster stays for another Workload of it."""
    return any(keeps(other, cluster) for other in context.components)


def written_by_another(context: WorkloadContext, cluster: str) -> bool:
    """Whether another Workload creates or removes the copy of the job on a cluster at the moment."""
    return any(f"{cluster}/Job" in other.effects for other in context.components)


def seat(context: WorkloadContext) -> str:
    """Return the cluster that the others have, "" if none has one."""
    held = {
        cluster
        for other in context.components
        if other.local is not None
        for cluster in (other.local.cluster_name, other.winner)
        if cluster and keeps(other, cluster)
    }
    return min(held, default="")


def awaits(state: WorkloadState, context: WorkloadContext) -> bool:
    """Whether a Workload has to wait before clusters are nominated for it: until all of the job's are there, and the
    first of them has a cluster.
    """
    adapter, job, local = context.adapter, context.job, state.local
    if adapter is None or not adapter.composed or job is None or local is None or seat(context):
        return False
    others = [one.local for one in context.components if one.local is not None and not one.local.deleting]
    if len(others) + 1 < job.components or local.component < 0:
        return True
    return any(0 <= one.component < local.component and not one.is_true("Finished") for one in others)


def standing(state: WorkloadState | None) -> tuple[object, ...]:
    """Return what the other Workloads of the same job look at: they are looked at again when it changes."""
    if state is None or state.local is None:
        return ()
    local = state.local
    where = local.cluster_name or state.winner
    writes = tuple(sorted(target for target in state.effects if target.endswith("/Job")))
    return local.uid, local.deleting, where, keeps(state, where), local.is_true("Finished"), writes
