"""Makes of a write to the status of a job's Workload the request that carries it out.

In: the state of the job, the decision, the bodies that it names, the time. Out: `Request`; `Obsolete` if the Workload
is gone. Pure. A status is applied as Kueue applies it (`controlplane.kube.workload_status`); only the end of a
reservation is a merge patch, which takes the admission from all its field managers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.render_pods import POD_MANAGER
from controlplane.controllers.jobframework.render_sets import HELD, LET_GO
from controlplane.controllers.jobframework.set_events import SetHoldDecided
from controlplane.controllers.jobframework.state import QueuedJobState
from controlplane.kube.conditions import set_condition
from controlplane.kube.kinds import APPLY_PATCH, WORKLOADS, Json, ObjectRef, Request
from controlplane.kube.kueue_names import ADMISSION_MANAGER, PENDING_EVALUATION
from controlplane.kube.requests import Obsolete, body_in, merge_diff, timestamp
from controlplane.kube.workload_status import JOB_MANAGER, RAN_TOO_LONG, RECLAIMABLE_MANAGER, applied_status

_NO_RESERVATION = ("NoReservation", "The workload has no reservation")


def workload_place(place: ObjectRef, decision: events.JobWrite) -> ObjectRef:
    """Return where the Workload of a decision is; `place` is the job's."""
    return ObjectRef(WORKLOADS, place.namespace, decision.name)


def render_status(
    state: QueuedJobState, place: ObjectRef, decision: events.JobWrite, bodies: Mapping[str, bytes], now: datetime
) -> Request:
    """Return the request of a write to the status of a Workload; `Obsolete` if that is gone."""
    seen = state.workloads.get(decision.uid)
    if seen is None:
        raise Obsolete("the Workload is gone")
    match decision:
        case events.ReclaimablePodsDecided():
            pods = [{"name": name, "count": count} for name, count in decision.pods.items()]
            return _applied(place, decision, {"reclaimablePods": pods} if pods else {}, RECLAIMABLE_MANAGER)
        case events.PodsReadyDecided():
            status: Json = {"conditions": [_seen(one) for one in seen.conditions if one.type == "PodsReady"]}
            _set(status, "PodsReady", decision.status, decision.condition_reason, decision.message, seen, now)
            return _applied(place, decision, status, f"{JOB_MANAGER}-PodsReady")
        case events.PodReplacementDecided():
            waiting = "WaitingForReplacementPods"
            status = {"conditions": [_seen(one) for one in seen.conditions if one.type == waiting]}
            _set(status, waiting, decision.status, decision.condition_reason, decision.message, seen, now)
            return _applied(place, decision, status, POD_MANAGER)
        case events.JobWorkloadFinishDecided():
            status = copy.deepcopy(body_in(bodies, seen.status))
            _set(status, "Finished", "True", decision.finish_reason, decision.message, seen, now)
        case events.JobQuotaReleaseDecided():
            before = body_in(bodies, seen.status)
            status = copy.deepcopy(before)
            requeued = "True" if decision.requeued else "False"
            _set(status, "Requeued", requeued, decision.eviction, decision.message, seen, now)
            _unreserve(status, (PENDING_EVALUATION, decision.message), seen, now)
            return _released(place, decision, before, status)
        case SetHoldDecided():
            before = body_in(bodies, seen.status)
            status = copy.deepcopy(before)
            held = (HELD[0], decision.message or HELD[1])
            _unreserve(status, held if decision.hold else (PENDING_EVALUATION, LET_GO), seen, now)
            return _released(place, decision, before, status)
        case _:
            raise Obsolete(f"no request is known for {type(decision).__name__}")
    return _applied(place, decision, applied_status(status, {}), ADMISSION_MANAGER)


def _released(place: ObjectRef, decision: events.JobWrite, before: Json, status: Json) -> Request:
    """Return the patch from one status to another that gives quota back: an apply would take the admission from its own
    manager alone, so that what a merge patch has written of it would stay."""
    return Request(
        "patch",
        workload_place(place, decision),
        {"status": merge_diff(before, status)},
        subresource="status",
        uid=decision.uid,
        resource_version=decision.resource_version,
        field_manager=ADMISSION_MANAGER,
    )


def _applied(place: ObjectRef, decision: events.JobWrite, status: Json, manager: str) -> Request:
    return Request(
        "patch",
        workload_place(place, decision),
        {"status": status},
        subresource="status",
        content_type=APPLY_PATCH,
        uid=decision.uid,
        resource_version=decision.resource_version,
        field_manager=manager,
    )


def _unreserve(status: Json, why: tuple[str, str], seen: events.JobWorkloadObserved, now: datetime) -> None:
    """Say that the quota is free, and how long it was used (`UnsetQuotaReservationWithCondition`,
    `SyncAdmittedCondition` in kubernetes-sigs/kueue pkg/workload)."""
    _set(status, "QuotaReserved", "False", *why, seen, now)
    status.pop("admission", None)
    admitted, evicted = seen.condition("Admitted"), seen.condition("Evicted")
    ran_too_long = evicted is not None and evicted.status == "True" and evicted.reason == RAN_TOO_LONG
    if admitted is not None and admitted.status == "True" and not ran_too_long:
        since = datetime.fromisoformat(admitted.last_transition_time)
        spent = max(now - since, timedelta()) // timedelta(seconds=1)
        status["accumulatedPastExecutionTimeSeconds"] = seen.accumulated_seconds + spent
    _set(status, "Admitted", "False", *_NO_RESERVATION, seen, now)


def _set(
    status: Json, type_: str, value: str, reason: str, message: str, seen: events.JobWorkloadObserved, now: datetime
) -> None:
    set_condition(status, type_, value == "True", reason, message, at=timestamp(now), generation=seen.generation)


def _seen(one: Any) -> Json:
    return {
        "type": one.type,
        "status": one.status,
        "reason": one.reason,
        "message": one.message,
        "lastTransitionTime": one.last_transition_time,
        **({"observedGeneration": one.observed_generation} if one.observed_generation else {}),
    }
