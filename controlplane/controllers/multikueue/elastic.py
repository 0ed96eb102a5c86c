"""Rejects Workloads of elastic jobs, which Kueue replaces by larger ones while they run; what runs of them already
runs on.

In: a pass over a Workload that is marked as a slice of an elastic job. Out: whether it is rejected; or, of one whose
copy runs already because Kueue's own controller dispatched it, that its check is Ready. A replaced slice is Finished
and its job is not: the job runs on a worker under that slice's name until somebody binds it to the next one, which only
Kueue's own controller does. And the `clusterName` of a slice is Kueue's, which copies it from the slice before
(pkg/workloadslicing/workloadslicing.go, pkg/scheduler/scheduler.go)."""

from __future__ import annotations

from controlplane.controllers.multikueue.decision_pass import WorkloadPass, admitted, stamp
from controlplane.controllers.multikueue.objects import ELASTIC_JOB
from controlplane.controllers.multikueue.observations import CheckState, WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.running import late_status
from controlplane.controllers.multikueue.state import Remote

NOT_SUPPORTED = f"Elastic jobs are not supported: create the job without the annotation {ELASTIC_JOB}"


def refuses(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState) -> bool:
    """Whether a slice is to be rejected: not while its own copy runs, and not before that can be told."""
    if not local.sliced or check.state == "Ready":
        return False
    cluster = local.cluster_name
    if not cluster or not local.is_true("QuotaReserved") or local.is_true("Evicted"):
        return True
    if pass_.context.in_view(cluster):
        return not _runs(pass_.state.remote(cluster), local)
    until = pass_.context.lost_until(cluster, stamp(check.last_transition_time, pass_.now))
    pass_.wake_at(until)
    return until is not None and pass_.now >= until


def confirm(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState) -> None:
    """Set the check of a slice Ready whose copy runs: Kueue's own controller had come so far, and no farther."""
    cluster = local.cluster_name
    if pass_.context.in_view(cluster) and _runs(pass_.state.remote(cluster), local):
        pass_.ready(local, check, cluster)


def outlast(pass_: WorkloadPass, reason: WorkloadReason) -> None:
    """Leave what runs of a slice that was replaced, and report its end, which is the job's. What has ended is
    removed.
    """
    local = pass_.state.local
    waits = late_status(pass_, local) if local is not None else ""
    for cluster, remote in sorted(pass_.state.remotes.items()):
        if cluster != waits and pass_.context.in_view(cluster) and remote.job is not None and remote.job.finished:
            pass_.remove(cluster, reason)


def _runs(remote: Remote, local: WorkloadObserved) -> bool:
    return remote.job is not None and not remote.job.deleting and admitted(remote, local)
