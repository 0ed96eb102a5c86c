"""What Kueue's core writes into a Workload's status, and how.

In: a Workload and the status it shall have. Out: one write of `workloads/status`, as the core of Kueue makes it: a
server-side apply of the whole set of fields that it manages, under the name `kueue-admission`, forced and with
resourceVersion. A field disappears by being left out, so whatever another manager owns as well survives; that is
Kueue's way, and people who write nominations have to know it. With the gate WorkloadRequestUseMergePatch (`ssa=False`)
the write is a merge patch of the difference, whose nulls remove whoever owns the field.

The functions change a shallow copy of a status (see `kueue_common`) and return whether they did.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controlplane.kube.conditions import condition, drop_condition, is_true, set_condition
from controlplane.kube.kinds import APPLY_PATCH, MERGE_PATCH, WORKLOADS, Json, meta
from controlplane.kube.kueue_names import ADMISSION_MANAGER
from controlplane.kube.requests import merge_diff
from controlplane.kube.workload_status import ADMISSION_CONDITIONS
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kueue.common import Gates, parse_timestamp, timestamp

_MANAGED_FIELDS = (
    "admission",
    "requeueState",
    "accumulatedPastExecutionTimeSeconds",
    "clusterName",
    "nominatedClusterNames",
    "unhealthyNodes",
    "preemptionGates",
    "admissionChecks",
)


def draft(workload: Mapping[str, Any]) -> Json:
    """Return a copy of a Workload's status that the functions below may change."""
    return dict(workload.get("status") or {})


class StatusWriter:
    """Writes the statuses of Workloads into one store."""

    def __init__(self, store: Store, gates: Gates) -> None:
        self._store, self._gates = store, gates

    def write(self, workload: Mapping[str, Any], status: Json) -> bool:
        """Write a status that differs from the Workload's; return whether it did. ApiError 409 if the Workload has
        moved on.
        """
        old = workload.get("status") or {}
        if status == old:
            return False
        metadata = meta(workload)
        namespace, name, version = metadata["namespace"], metadata["name"], metadata["resourceVersion"]
        body: Json
        if self._gates.ssa:
            head = {"namespace": namespace, "name": name, "uid": metadata["uid"], "resourceVersion": version}
            body = {
                "apiVersion": WORKLOADS.api_version,
                "kind": WORKLOADS.kind,
                "metadata": head,
                "status": managed(status),
            }
        else:
            body = {"metadata": {"resourceVersion": version}, "status": merge_diff(old, status)}
        self._store.patch(
            WORKLOADS,
            namespace,
            name,
            body,
            content_type=APPLY_PATCH if self._gates.ssa else MERGE_PATCH,
            subresource="status",
            field_manager=ADMISSION_MANAGER,
            force=self._gates.ssa,
        )
        return True


def managed(status: Mapping[str, Any]) -> Json:
    """Return the part of a status that core applies: every field it manages, present or left out."""
    kept = {field: status[field] for field in _MANAGED_FIELDS if status.get(field) is not None}
    if not (kept.get("requeueState") or {}):
        kept.pop("requeueState", None)
    by_type = {c["type"]: c for c in status.get("conditions") or ()}
    kept["conditions"] = [by_type[type_] for type_ in ADMISSION_CONDITIONS if type_ in by_type]
    if evictions := (status.get("schedulingStats") or {}).get("evictions"):
        kept["schedulingStats"] = {"evictions": evictions}
    return kept


def reserve(workload: Mapping[str, Any], status: Json, admission: Json, at: str) -> None:
    """Set the admission and QuotaReserved, and turn Evicted and Preempted off."""
    generation = meta(workload).get("generation", 0)
    status["admission"] = admission
    message = f"Quota reserved in ClusterQueue {admission['clusterQueue']}"
    set_condition(status, "QuotaReserved", True, "QuotaReserved", message, at=at, generation=generation)
    for type_ in ("Evicted", "Preempted", "BlockedOnPreemptionGates"):
        previous = condition({"status": status}, type_)
        if previous is not None and previous["status"] == "True":
            text = f"Previously: {previous['message']}"
            set_condition(status, type_, False, "QuotaReserved", text, at=at, generation=generation)


def unreserve(
    workload: Mapping[str, Any], status: Json, reason: str, message: str, now: datetime, gates: Gates
) -> bool:
    """Set QuotaReserved=False, drop the admission, and let Admitted follow."""
    generation = meta(workload).get("generation", 0)
    changed = set_condition(status, "QuotaReserved", False, reason, message, at=timestamp(now), generation=generation)
    changed = status.pop("admission", None) is not None or changed
    return sync_admitted(workload, status, now, gates) or changed


def sync_admitted(workload: Mapping[str, Any], status: Json, now: datetime, gates: Gates) -> bool:
    """Make Admitted follow from the reservation, the checks and the delayed topologies; past running time is added
    up.
    """
    seen = {"status": status}
    reserved, was = is_true(seen, "QuotaReserved"), is_true(seen, "Admitted")
    ready = all(check["state"] == "Ready" for check in status.get("admissionChecks") or ())
    placed = not topology_pending(status)
    should = reserved and ready and placed
    if gates.granular_reasons:
        if condition(seen, "QuotaReserved") is None and condition(seen, "Admitted") is None:
            return False
    elif was == should:
        return False
    reason, message = _admitted_reason(reserved, ready, placed, gates)
    if was and not should and (since := condition(seen, "Admitted")) is not None:
        ran = int((now - parse_timestamp(since["lastTransitionTime"])).total_seconds())
        status["accumulatedPastExecutionTimeSeconds"] = status.get("accumulatedPastExecutionTimeSeconds", 0) + max(
            0, ran
        )
    generation = meta(workload).get("generation", 0)
    return set_condition(status, "Admitted", should, reason, message, at=timestamp(now), generation=generation)


def _admitted_reason(reserved: bool, ready: bool, placed: bool, gates: Gates) -> tuple[str, str]:
    """Return reason and message of the Admitted condition."""
    if not reserved and (ready or gates.granular_reasons):
        return "NoReservation", "The workload has no reservation"
    if not reserved:
        return "NoReservationUnsatisfiedChecks", "The workload has no reservation and not all checks ready"
    if not ready:
        reason = gates.reason("UnsatisfiedAdmissionChecks", "UnsatisfiedChecks")
        return reason, "The workload has not all checks ready"
    if not placed:
        return "PendingDelayedTopologyRequests", "There are pending delayed topology requests"
    return "Admitted", "The workload is admitted"


def topology_pending(status: Mapping[str, Any]) -> bool:
    """Return whether some assignment still waits for a delayed topology."""
    return any(
        assignment.get("delayedTopologyRequest") == "Pending" and not assignment.get("topologyAssignment")
        for assignment in (status.get("admission") or {}).get("podSetAssignments") or ()
    )


def evict(workload: Mapping[str, Any], status: Json, reason: str, message: str, at: str, *, cause: str = "") -> None:
    """Set Evicted, forget the cluster and the nominations, put every check back to Pending, count the eviction.

    A `cause` (of a deactivation) makes the reason `<reason>DueTo<cause>`.
    """
    generation = meta(workload).get("generation", 0)
    full = f"{reason}DueTo{cause}" if cause else reason
    set_condition(status, "Evicted", True, full, message, at=at, generation=generation)
    for field in ("clusterName", "nominatedClusterNames", "unhealthyNodes"):
        status.pop(field, None)
    if checks := status.get("admissionChecks"):
        status["admissionChecks"] = [_reset(check, at) for check in checks]
    if is_true({"status": status}, "BlockedOnPreemptionGates"):
        set_condition(status, "BlockedOnPreemptionGates", False, full, message, at=at, generation=generation)
    if gates := status.get("preemptionGates"):
        closed = {"position": "Closed", "lastTransitionTime": at}
        status["preemptionGates"] = [gate if gate.get("position") == "Closed" else {**gate, **closed} for gate in gates]
    status["schedulingStats"] = {"evictions": _counted(status, reason, cause)}


def preempt(workload: Mapping[str, Any], status: Json, reason: str, message: str, at: str) -> None:
    """Evict in favour of another Workload: Preempted with `reason`, Evicted with reason Preempted."""
    set_condition(status, "Preempted", True, reason, message, at=at)
    evict(workload, status, "Preempted", message, at)


def sync_gates(workload: Mapping[str, Any], status: Json, at: str) -> None:
    """Have the status name the preemption gates of the spec, new ones closed, and no others."""
    wanted = [gate["name"] for gate in workload["spec"].get("preemptionGates") or ()]
    known = {gate["name"]: gate for gate in status.get("preemptionGates") or ()}
    if set(wanted) != set(known):
        closed = {"position": "Closed", "lastTransitionTime": at}
        status["preemptionGates"] = [known.get(name) or {"name": name, **closed} for name in wanted]


def _reset(check: Json, at: str) -> Json:
    if check["state"] == "Pending":
        return check
    fresh: Json = {
        "name": check["name"],
        "state": "Pending",
        "message": f"Reset to Pending after eviction. Previously: {check['state']}",
        "lastTransitionTime": at,
    }
    if check.get("requeueAfterSeconds") is not None:
        fresh["requeueAfterSeconds"] = check["requeueAfterSeconds"]
    if check["state"] == "Retry":
        fresh["retryCount"] = (check.get("retryCount") or 0) + 1
    return fresh


def _counted(status: Mapping[str, Any], reason: str, cause: str) -> list[Json]:
    known: list[Json] = list((status.get("schedulingStats") or {}).get("evictions") or ())
    for index, entry in enumerate(known):
        if entry["reason"] == reason and entry.get("underlyingCause", "") == cause:
            known[index] = {**entry, "count": entry["count"] + 1}
            return known
    return [*known, {"reason": reason, "underlyingCause": cause, "count": 1}]


def deactivate(workload: Mapping[str, Any], status: Json, at: str) -> bool:
    """Do what core does to an inactive Workload: evict it, once, naming the DeactivationTarget, and clear the requeue
    state.
    """
    target = condition(workload, "DeactivationTarget")
    if not is_true(workload, "Evicted"):
        message, cause = "The workload is deactivated", ""
        if target is not None:
            message, cause = f"{message} due to {target['message']}", target["reason"]
        evict(workload, status, "Deactivated", message, at, cause=cause)
        drop_condition(status, "DeactivationTarget")
    elif not status.get("requeueState"):
        return False
    elif target is not None:
        drop_condition(status, "DeactivationTarget")
    status.pop("requeueState", None)
    return True


def checks_message(checks: list[Json], state: str) -> str:
    """Return core's list of the checks in a state: `AdmissionCheck in Retry state: "a" (why)`."""
    parts = [
        f'"{c["name"]}" ({c["message"]})' if c.get("message") else f'"{c["name"]}"'
        for c in sorted(checks, key=lambda c: str(c["name"]))
    ]
    noun = "AdmissionChecks" if len(checks) > 1 else "AdmissionCheck"
    return f"{noun} in {state} state: {'; '.join(parts)}"
