"""Makes the Kubernetes Events that tell users of decisions, with Kueue's reasons and texts.

In: a decision, the Workload that it is about, and where in the log it stands. Out: requests; sent twice, the second is
refused (kubernetes-sigs/kueue pkg/scheduler/scheduler.go, pkg/controller/core/workload_controller.go)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.facts import priority_of
from controlplane.controllers.quota.admission.reasons import AdmissionReason as R
from controlplane.controllers.quota.admission.topology_events import SecondPassNoticeDecided, TopologyAssignmentDecided
from controlplane.controllers.quota.admission.workload_status import as_read, moment
from controlplane.controllers.quota.engine import reasons
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.kube.kinds import WORKLOADS, ObjectRef, Request
from controlplane.kube.requests import event_about, truncated
from controlplane.kube.slices import SLICE_REPLACED

_LIMIT = 1024
_NORMAL, _WARNING = "Normal", "Warning"
_OF_CYCLES = frozenset(
    {
        reasons.WAITING_FOR_QUOTA,
        reasons.NO_MATCHING_FLAVOR,
        reasons.EXCEEDS_MAX_QUOTA,
        reasons.TOPOLOGY_PLACEMENT_FAILED,
        reasons.WAITING_FOR_PREEMPTED,
    }
)
_Told = tuple[str, str, str]


def announcements(
    seen: events.AdmissionWorkloadObserved,
    decision: events.AdmissionWrite,
    preemptor: events.AdmissionWorkloadObserved | None,
    position: int,
    identity: str,
    now: datetime,
    by: EngineSettings,
) -> tuple[Request, ...]:
    """Return the Events of a decision about a Workload; `preemptor`: the one for which it is preempted."""
    said = _priorities(preemptor, seen, by) if preemptor is not None else ""
    about = ObjectRef(WORKLOADS, seen.namespace, seen.name)
    found = [_event(about, seen.uid, told, position, identity, now) for told in _of(seen, decision, said, now)]
    if isinstance(decision, events.WorkloadPreemptionDecided) and preemptor is not None:
        note = (
            f"Preempted workload {seen.namespace}/{seen.name} (UID: {seen.uid}) in ClusterQueue "
            f"{decision.cluster_queue}; {said}"
        )
        whom = ObjectRef(WORKLOADS, preemptor.namespace, preemptor.name)
        # As with Kueue, whatever one cycle preempts for it is one Event.
        found.append(_event(whom, preemptor.uid, (_NORMAL, "PreemptedWorkload", note), decision.cycle, identity, now))
    return tuple(found)


def notice(
    seen: events.AdmissionWorkloadObserved, decision: SecondPassNoticeDecided, identity: str, now: datetime
) -> Request:
    """Return the Event that tells that a Workload cannot be placed yet. What it says makes its name: said again, it is
    there already."""
    about, said = ObjectRef(WORKLOADS, seen.namespace, seen.name), truncated(decision.message, _LIMIT)
    return event_about(about, seen.uid, _WARNING, "SecondPassFailed", said, decision.message, identity, now)


def _event(about: ObjectRef, uid: str, told: _Told, position: int, identity: str, now: datetime) -> Request:
    kind, reason, note = told
    return event_about(about, uid, kind, reason, note, f"{position:x}", identity, now)


def _priorities(
    preemptor: events.AdmissionWorkloadObserved, preemptee: events.AdmissionWorkloadObserved, by: EngineSettings
) -> str:
    return f"preemptor {_priority(preemptor, by)}; preemptee {_priority(preemptee, by)}"


def _priority(seen: events.AdmissionWorkloadObserved, by: EngineSettings) -> str:
    counts = priority_of(seen, by)
    return f"effective priority: {counts} (base: {seen.priority}, boost: {counts - seen.priority})"


def _of(
    seen: events.AdmissionWorkloadObserved,
    decision: events.AdmissionWrite,
    priorities: str,
    now: datetime,
) -> Iterator[_Told]:
    match decision:
        case events.QuotaReservationDecided():
            where = f"in ClusterQueue {decision.cluster_queue}"
            waited = _seconds(_since(seen, "Requeued") or seen.created, now)
            others = f"; Flavors considered: {decision.considered}" if decision.considered else ""
            yield _NORMAL, "QuotaReserved", f"Quota reserved {where}, wait time since queued was {waited}s{others}"
            if decision.admitted:
                said = f"Admitted by ClusterQueue {decision.cluster_queue}, wait time since reservation was 0s"
                yield _NORMAL, "Admitted", said
        case TopologyAssignmentDecided():
            if decision.admitted:
                yield _NORMAL, "Admitted", _admitted(seen, decision.cluster_queue, now)
        case events.WorkloadDeletionDecided():
            yield _NORMAL, "Deleted", "Deleted finished workload due to elapsed retention"
        case events.WorkloadInadmissible() if (
            decision.why != reasons.WAITING_FOR_PODS_READY
        ):  # a condition alone, as with Kueue
            yield _WARNING, decision.why or "Pending", decision.message
        case events.WorkloadPreemptionDecided():
            yield _NORMAL, "EvictedDueToPreempted", decision.message
            if priorities:
                yield _NORMAL, "Preempted", f"{decision.message}; {priorities}"
        case events.WorkloadStatusDecided():
            yield from _of_status(seen, decision, now)


def _of_status(
    seen: events.AdmissionWorkloadObserved, decision: events.WorkloadStatusDecided, now: datetime
) -> Iterator[_Told]:
    if decision.evicted:
        if (seen.status.get("admission") or {}).get("clusterQueue"):
            yield _NORMAL, f"EvictedDueTo{decision.evicted}", decision.message
    elif decision.reason is R.CHECKS_READY:
        queue = (seen.status.get("admission") or {}).get("clusterQueue", "")
        yield _NORMAL, "Admitted", _admitted(seen, queue, now)
    elif decision.reason is R.CHECK_REJECTED:
        yield _WARNING, "AdmissionCheckRejected", f"Deactivated due to {decision.message}"
    elif decision.reason is R.CONDITIONS_SYNCED:
        yield from _waits(seen, decision)
    elif decision.reason is R.SLICE_REPLACED:
        yield _NORMAL, SLICE_REPLACED, decision.message
    elif decision.reason is R.EXECUTION_TIME_EXCEEDED:
        yield _WARNING, "MaximumExecutionTimeExceeded", decision.message
    elif decision.reason is R.GATE_CHANGED:
        yield _gate(seen.gated_by)


def _waits(seen: events.AdmissionWorkloadObserved, decision: events.WorkloadStatusDecided) -> Iterator[_Told]:
    """Say why a Workload waits, where the cycle's own write could not since it met a newer version: that would have
    said what is asked for, too."""
    found = next((one for one in decision.conditions if one.type == "QuotaReserved"), None)
    if found is not None:
        if found.reason in _OF_CYCLES:
            yield _WARNING, found.reason, found.message
    elif "resourceRequests" in decision.changes and (said := as_read(seen.status).condition("QuotaReserved")):
        yield _WARNING, str(said.get("reason")), str(said.get("message"))


def _gate(by: str) -> _Told:
    if by:
        return _NORMAL, "AdmissionGated", f"Workload admission is gated by: {by}"
    return _NORMAL, "AdmissionGateCleared", "Admission gate cleared, workload is now admissible"


def _admitted(seen: events.AdmissionWorkloadObserved, queue: str, now: datetime) -> str:
    waited = _seconds(_since(seen, "QuotaReserved"), now)
    return f"Admitted by ClusterQueue {queue}, wait time since reservation was {waited}s"


def _since(seen: events.AdmissionWorkloadObserved, type_: str) -> str:
    found = (one for one in seen.status.get("conditions") or () if one.get("type") == type_)
    return next((str(one.get("lastTransitionTime", "")) for one in found), "")


def _seconds(since: str, now: datetime) -> int:
    at = moment(since)
    return max(0, round((now - at).total_seconds())) if at is not None else 0
