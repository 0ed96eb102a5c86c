"""Lets a workload slice end whose place another one has taken, and gives the new one what it keeps of the old.

In: what is known. Out: the write that ends a slice, as Kueue's scheduler ends it once the new one's reservation is
written; it follows from what the two Workloads show, so that whoever begins anew between the two writes comes to it
too. And what goes over with a reservation (kubernetes-sigs/kueue pkg/scheduler/scheduler.go, replaceWorkloadSlice)."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission import workload_status as ws
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.admission.reasons import AdmissionReason
from controlplane.controllers.quota.admission.reconcile_step import ReconcileWrite
from controlplane.controllers.quota.admission.workload_status import WorkloadStatus
from controlplane.controllers.quota.admission.workload_writes import status_of
from controlplane.controllers.quota.engine.amounts import Usage, sub
from controlplane.controllers.quota.engine.decisions import Admit
from controlplane.kube.slices import SLICE_REPLACED


def replaced(index: AdmissionIndex, seen: events.AdmissionWorkloadObserved, now: datetime) -> ReconcileWrite | None:
    """Return the write that ends a slice, None if none has taken its place: one whose reservation is seen, and that
    stays."""
    key, work = f"{seen.namespace}/{seen.name}", status_of(seen, now)
    if seen.deleting or work.is_true(ws.FINISHED):
        return None
    for other in index.engine.snapshot.slices.of(key):
        new = index.workload(other).observed
        if new is None or new.replaces != key or not _stays(new):
            continue
        message = (
            f"Replaced to accommodate a workload (UID: {new.uid}, JobUID: {new.job_uid}) due to workload slice "
            "aggregation"
        )
        work.set(ws.FINISHED, "True", SLICE_REPLACED, message)
        return ReconcileWrite(AdmissionReason.SLICE_REPLACED, work.status, message=message)
    return None


def _stays(seen: events.AdmissionWorkloadObserved) -> bool:
    status = ws.as_read(seen.status)
    ends = seen.deleting or not seen.active or status.is_true(ws.EVICTED) or status.is_true(ws.FINISHED)
    return status.reserved and not ends


def keep_cluster(index: AdmissionIndex, decision: Admit, status: WorkloadStatus) -> None:
    """Let a new slice run where the old one does: with MultiKueue it is dispatched to the same cluster."""
    old = index.workload(decision.replaces).observed
    if old is not None and old.status.get("clusterName"):
        status.status["clusterName"] = old.status["clusterName"]


def added(index: AdmissionIndex, decision: Admit, amounts: Usage) -> Usage:
    """Return by how much more is used once a reservation counts: for a new slice what it has beyond the old one."""
    old = index.engine.snapshot.workloads.get(decision.replaces)
    if old is None:
        return amounts
    return {place: max(0, sub(amount, old.reserved.get(place, 0))) for place, amount in amounts.items()}
