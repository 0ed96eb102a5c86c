"""Decides when a finished Workload is deleted.

In: the Workload as it was seen, for how long it is kept, whether its queues are ours, and the moment. Out: the next
step, or when to look again. The finalizer is taken away first, as nothing else would be done with it
(kubernetes-sigs/kueue pkg/controller/core/workload_controller.go, `Reconcile`, main after v0.19.2)."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.reasons import AdmissionReason as R
from controlplane.controllers.quota.admission.reconcile_step import ReconcileResult, ReconcileWrite
from controlplane.controllers.quota.admission.workload_status import FINISHED, WorkloadStatus, moment
from controlplane.kube.kueue_names import RESOURCE_IN_USE
from controlplane.kube.requests import later


def expired(
    seen: events.AdmissionWorkloadObserved, after_finished: timedelta | None, now: datetime, *, ours: bool
) -> ReconcileResult:
    """Return what follows for a Workload that may have finished; nothing if it is kept for good (None). `ours`: it is
    in a LocalQueue that is there, or has an admission of a ClusterQueue that is. No other one is deleted."""
    condition = WorkloadStatus(seen.status, seen.generation, now).condition(FINISHED)
    if after_finished is None or not ours or condition is None or condition.get("status") != "True":
        return ReconcileResult()
    since = moment(condition.get("lastTransitionTime"))
    if since is None:
        return ReconcileResult()
    if (until := later(since, after_finished.total_seconds())) > now:
        return ReconcileResult(wake=until)
    if RESOURCE_IN_USE in seen.finalizers:
        kept = [one for one in seen.finalizers if one != RESOURCE_IN_USE]
        return ReconcileResult(ReconcileWrite(R.RETENTION_ELAPSED, finalizers=kept))
    if seen.deleting:
        return ReconcileResult()  # somebody else's finalizer keeps it
    return ReconcileResult(ReconcileWrite(R.RETENTION_ELAPSED, deletes=True))
