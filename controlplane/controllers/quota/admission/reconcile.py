"""Decides what follows for one Workload beside the scheduling cycle, step by step as Kueue's workload controller.

In: the Workload as it was seen, its queues, the moment. Out: at most one step, as Kueue makes one write at a time, and
when to look again (kubernetes-sigs/kueue pkg/controller/core/workload_controller.go, main after v0.19.2)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.controllers.quota.admission import events, pods_ready
from controlplane.controllers.quota.admission import workload_status as ws
from controlplane.controllers.quota.admission.pods_ready import WaitForPodsReady
from controlplane.controllers.quota.admission.reasons import AdmissionReason as R
from controlplane.controllers.quota.admission.reconcile_step import ReconcileResult, ReconcileWrite, WorkloadQueues
from controlplane.controllers.quota.admission.workload_status import WorkloadStatus
from controlplane.controllers.quota.engine import model, reasons
from controlplane.kube.kinds import Json
from controlplane.kube.kueue_names import PENDING_EVALUATION, RESOURCE_IN_USE
from controlplane.kube.requests import later, timestamp
from controlplane.kube.workload_status import EXECUTION_TIME_EXCEEDED

_BY_SCHEDULER = frozenset(
    {
        reasons.WAITING_FOR_QUOTA,
        reasons.NO_MATCHING_FLAVOR,
        reasons.EXCEEDS_MAX_QUOTA,
        "TopologyPlacementFailed",
        reasons.WAITING_FOR_PREEMPTED,
        reasons.WAITING_FOR_PODS_READY,
        PENDING_EVALUATION,
    }
)
_UNTRIED = "Workload is pending evaluation in the scheduling queue"
# What a Workload says that is in its queue again and was not tried since.
_BYPASSED = frozenset({"", ws.DEACTIVATED, ws.PENDING_EVALUATION, ws.SUSPENDED, "Pending"})


@dataclass(slots=True)
class _Case:
    """A Workload that is looked at: `work` is its status, which steps change."""

    seen: events.AdmissionWorkloadObserved
    queues: WorkloadQueues
    now: datetime
    pods_ready: WaitForPodsReady | None
    work: WorkloadStatus = field(init=False)

    def __post_init__(self) -> None:
        self.work = WorkloadStatus(copy.deepcopy(self.seen.status), self.seen.generation, self.now)

    def done(self, reason: R, *, evicted: str = "", message: str = "") -> ReconcileResult:
        """Return that the status, as it was changed, is to be written."""
        return ReconcileResult(ReconcileWrite(reason, self.work.status, evicted, message))


def look(
    seen: events.AdmissionWorkloadObserved,
    queues: WorkloadQueues,
    now: datetime,
    waiting: WaitForPodsReady | None = None,
) -> ReconcileResult:
    """Return the first step that a Workload needs, or when to look again; `waiting` is None if nothing waits for
    pods."""
    case = _Case(seen, queues, now, waiting)
    wakes: list[datetime] = []
    for rule in _RULES:
        for found in rule(case):
            if found.wake is None:
                return ReconcileResult(found.step, min(wakes, default=None))
            wakes.append(found.wake)
    return ReconcileResult(wake=min(wakes, default=None))


Found = Iterator[ReconcileResult]
_STOP = ReconcileResult()


def _orphan(case: _Case) -> Found:
    """An orphan's quota is released, and nothing keeps it from being deleted."""
    seen = case.seen
    if seen.owned or not (seen.deleting or seen.job_uid):
        return
    if not seen.deleting and not case.work.is_true(ws.FINISHED):
        case.work.set(ws.FINISHED, "True", "OwnerNotFound", "The workload's owner no longer exists")
        yield case.done(R.OWNER_NOT_FOUND)
    elif RESOURCE_IN_USE in seen.finalizers:
        kept = [one for one in seen.finalizers if one != RESOURCE_IN_USE]
        reason = R.ORPHAN_DELETED if seen.deleting else R.OWNER_NOT_FOUND
        yield ReconcileResult(ReconcileWrite(reason, finalizers=kept))
    elif seen.deleting:
        yield _STOP


def _finished(case: _Case) -> Found:
    if case.work.is_true(ws.FINISHED):
        yield _STOP


def _preemption_gates(case: _Case) -> Found:
    if case.queues.gates and case.work.sync_preemption_gates(case.seen.preemption_gates):
        yield case.done(R.PREEMPTION_GATES_SYNCED)


def _retry_time(case: _Case) -> Found:
    at = case.work.retry_time()
    if at is not None:
        before = case.work.status.get("requeueState") or {}
        case.work.status["requeueState"] = {**before, "requeueAt": timestamp(at)}
        yield case.done(R.RETRY_TIME_SET)


def _active(case: _Case) -> Found:
    """What is waited for before an active Workload is queued again."""
    work = case.work
    if not case.seen.active:
        return
    if work.is_true(ws.DEACTIVATION_TARGET):
        yield ReconcileResult(ReconcileWrite(R.DEACTIVATION_TARGET, spec={"active": False}))
    at = work.requeue_at()
    if at is not None and at > case.now:
        yield ReconcileResult(wake=at)
        yield _STOP
    elif at is not None and work.pending:
        _clear_requeue_at(work)
        yield case.done(R.BACKOFF_FINISHED)
    requeued = work.condition(ws.REQUEUED)
    if requeued is None or requeued.get("status") != "False":
        return
    if str(requeued.get("reason")).startswith(ws.DEACTIVATED):  # due to whatever: Kueue never queues it again
        work.set(ws.REQUEUED, "True", "Reactivated", "The workload was reactivated")
        yield case.done(R.REACTIVATED)
    elif requeued.get("reason") in ("PodsReadyTimeout", "AdmissionCheck"):
        _clear_requeue_at(work)
        work.set(ws.REQUEUED, "True", "BackoffFinished", "The workload backoff was finished")
        yield case.done(R.BACKOFF_FINISHED)


def _clear_requeue_at(work: WorkloadStatus) -> None:
    state = {key: value for key, value in (work.status.get("requeueState") or {}).items() if key != "requeueAt"}
    work.status["requeueState"] = state or None


def _inactive(case: _Case) -> Found:
    """A Workload that is not active is evicted, and waits for nothing."""
    work = case.work
    if case.seen.active:
        return
    target = work.condition(ws.DEACTIVATION_TARGET)
    if not work.is_true(ws.EVICTED):
        cause, message = "", "The workload is deactivated"
        if target is not None:
            cause, message = str(target.get("reason", "")), f"{message} due to {target.get('message', '')}"
            work.drop(ws.DEACTIVATION_TARGET)
        work.status["requeueState"] = None
        work.evict(ws.DEACTIVATED, message, cause)
        said = f"{ws.DEACTIVATED}DueTo{cause}" if cause else ws.DEACTIVATED
        yield case.done(R.DEACTIVATED, evicted=said, message=message)
    elif work.status.get("requeueState") is not None or target is not None:
        work.drop(ws.DEACTIVATION_TARGET)
        work.status["requeueState"] = None
        yield case.done(R.REQUEUE_STATE_CLEARED)


def _on_hold(work: WorkloadStatus) -> bool:
    """Whether whoever keeps the job lets it wait."""
    reserved = work.condition(ws.QUOTA_RESERVED)
    return reserved is not None and reserved.get("status") == "False" and reserved.get("reason") == ws.ON_HOLD


def _devices(case: _Case) -> Found:
    """A Workload whose devices cannot be counted is told so, and is not queued before they can."""
    work, refusal = case.work, case.queues.refusal
    if not work.pending or not case.seen.active or _on_hold(work):
        return
    if refusal:
        if work.unreserve(ws.MISCONFIGURED, refusal):
            work.set(ws.REQUEUED, "False", ws.INADMISSIBLE, refusal)
            yield case.done(R.DEVICES_NOT_COUNTED, message=refusal)
        yield _STOP
    elif _restarted(work, ws.INADMISSIBLE):
        work.drop(ws.REQUEUED)
        work.unreserve(ws.PENDING_EVALUATION, _UNTRIED)
        yield case.done(R.DEVICES_COUNTED)


def _stopped(spec: Json) -> bool:
    return (spec.get("stopPolicy") or model.NO_STOP) != model.NO_STOP


def _restarted(work: WorkloadStatus, stopped: str) -> bool:
    requeued = work.condition(ws.REQUEUED)
    return requeued is not None and requeued.get("status") == "False" and requeued.get("reason") == stopped


def _local_queue_restarted(case: _Case) -> Found:
    local = case.queues.local
    if local is not None and not _stopped(local.spec) and _restarted(case.work, "LocalQueueStopped"):
        said = "The LocalQueue was restarted after being stopped"
        case.work.set(ws.REQUEUED, "True", "LocalQueueRestarted", said)
        yield case.done(R.QUEUE_RESTARTED)


def _gate(case: _Case) -> Found:
    """The annotation that gates the admission is told in the condition QuotaReserved."""
    reserved, gate = case.work.condition(ws.QUOTA_RESERVED), case.seen.gated_by
    told = reserved is not None and reserved.get("reason") == ws.GATED
    if gate and not case.work.reserved and (blocker := _blocker(case)) is not None and blocker[0] != ws.GATED:
        return  # Kueue tells of both in turns, again and again
    if not gate and told:
        case.work.unreserve(ws.PENDING_EVALUATION, "AdmissionGatedBy cleared, waiting for quota reservation")
        yield case.done(R.GATE_CHANGED)
    elif gate and not told:
        case.work.unreserve(ws.GATED, f"Admission is gated by: {gate}")
        yield case.done(R.GATE_CHANGED)


def _cluster_queue(case: _Case) -> Found:
    """The admission checks of its ClusterQueue get states."""
    cluster = case.queues.cluster
    if cluster is None:
        return
    if not _stopped(cluster.spec) and _restarted(case.work, "ClusterQueueStopped"):
        said = "The ClusterQueue was restarted after being stopped"
        case.work.set(ws.REQUEUED, "True", "ClusterQueueRestarted", said)
        yield case.done(R.QUEUE_RESTARTED)
    if case.work.sync_checks(case.queues.checks):
        yield case.done(R.CHECKS_SYNCED)


def _conditions(case: _Case) -> Found:
    """QuotaReserved says what is in the way, and Admitted follows."""
    work = case.work
    if work.is_true(ws.ADMITTED):
        return
    if (at := case.queues.told_at) is not None and at > case.now and work.condition(ws.QUOTA_RESERVED) is None:
        yield ReconcileResult(wake=at)
    why = _blocker(case) if not work.reserved else None
    changed = why is not None and work.set(ws.QUOTA_RESERVED, "False", *why)
    if work.sync_admitted() or changed:
        yield case.done(R.CHECKS_READY if work.is_true(ws.ADMITTED) else R.CONDITIONS_SYNCED)


def _blocker(case: _Case) -> tuple[str, str] | None:
    """Return reason and message of the condition QuotaReserved; None if there is nothing to say."""
    reserved = case.work.condition(ws.QUOTA_RESERVED)
    told = (str(reserved.get("reason", "")), str(reserved.get("message", ""))) if reserved is not None else None
    if not case.seen.active:
        return ws.DEACTIVATED, "The workload is deactivated"
    found = told if told is not None and told[0] == ws.ON_HOLD else _queue_blocker(case)
    if found is not None:
        return found
    if case.queues.problem:
        return ws.MISCONFIGURED, case.queues.problem
    if case.seen.gated_by:
        return ws.GATED, f"Admission is gated by: {case.seen.gated_by}"
    if case.work.in_state(ws.REJECTED):
        return ws.PENDING_EVALUATION, "The workload has failed admission checks"
    return told if case.queues.tried else _untried(case, told)


def _untried(case: _Case, told: tuple[str, str] | None) -> tuple[str, str] | None:
    """Return what is said of one that was not tried since it was put into its queue: of a new one something only if
    that is asked for."""
    if told is None:
        if (at := case.queues.told_at) is None or at > case.now:
            return None
        told = "", ""
    if told[0] in _BYPASSED and case.queues.no_fit:
        return case.queues.no_fit, "Bypassed scheduling evaluation because an equivalent workload recently failed"
    untried = (ws.PENDING_EVALUATION, _UNTRIED)
    return told if told[0] in _BY_SCHEDULER else untried


def _queue_blocker(case: _Case) -> tuple[str, str] | None:
    queues, name = case.queues, case.seen.queue
    if queues.local is None:
        return ws.MISCONFIGURED, f"LocalQueue {name} doesn't exist"
    if _stopped(queues.local.spec):
        return ws.SUSPENDED, f"LocalQueue {name} is inactive"
    if queues.cluster is None:
        return ws.MISCONFIGURED, f"ClusterQueue {queues.name} doesn't exist"
    if not queues.active:
        return ws.SUSPENDED, f"ClusterQueue {queues.cluster.name} is inactive"
    return None


def _checks(case: _Case) -> Found:
    """A check that rejected it deactivates it; one that asks for another try evicts it. What a check said of quota that
    was being taken away then is not in the way of the next: Kueue leaves it, and such a Workload is queued no more."""
    work = case.work
    if work.is_true(ws.EVICTED) and work.pending and work.in_state(ws.RETRY):
        work.reset_checks()
        # Who is set aside is tried again for a change of this condition, and for none of a check.
        work.set(ws.REQUEUED, "True", "AdmissionCheckReset", "The admission checks were reset to Pending")
        yield case.done(R.CHECK_RETRY)
    if not work.reserved or work.is_true(ws.EVICTED):
        return
    if rejected := work.in_state(ws.REJECTED):
        message = ws.checks_message(rejected, ws.REJECTED)
        if work.set(ws.DEACTIVATION_TARGET, "True", "AdmissionCheck", message):
            yield case.done(R.CHECK_REJECTED, message=message)
        yield _STOP
    elif retry := work.in_state(ws.RETRY):
        message = f"Evicted due to {ws.checks_message(retry, ws.RETRY)}"
        work.evict("AdmissionCheck", message)
        yield case.done(R.CHECK_RETRY, evicted="AdmissionCheck", message=message)


def _local_queue(case: _Case) -> Found:
    yield from _queue_state(case, case.queues.local, "LocalQueue", case.seen.queue, R.LOCAL_QUEUE_STOPPED)


def _own_cluster_queue(case: _Case) -> Found:
    yield from _queue_state(case, case.queues.cluster, "ClusterQueue", case.queues.name, R.CLUSTER_QUEUE_STOPPED)


def _queue_state(case: _Case, queue: events.AdmissionQueueObserved | None, kind: str, name: str, stopped: R) -> Found:
    """A queue that is stopped or gone takes the reservation back; one that is drained the admission too."""
    work = case.work
    if not work.reserved:
        return
    policy = (queue.spec.get("stopPolicy") or model.NO_STOP) if queue is not None else model.NO_STOP
    if work.is_true(ws.ADMITTED):
        if policy == "HoldAndDrain" and not work.is_true(ws.EVICTED):
            message = f"The {kind} is stopped"
            work.evict(f"{kind}Stopped", message)
            yield case.done(stopped, evicted=f"{kind}Stopped", message=message)
    elif queue is None or queue.deleting:
        work.unreserve(ws.MISCONFIGURED, f"{kind} {name} is terminating or missing")
        yield case.done(R.QUEUE_MISSING)
    elif policy != model.NO_STOP:
        work.unreserve(ws.SUSPENDED, f"{kind} {name} is stopped")
        yield case.done(stopped)


def _execution_time(case: _Case) -> Found:
    """A Workload that ran for too long is deactivated, and one that is being stopped not told so again."""
    work, most = case.work, case.seen.maximum_execution_seconds
    admitted = work.condition(ws.ADMITTED)
    if not case.seen.active or work.is_true(ws.EVICTED):
        return
    if most is None or admitted is None or admitted.get("status") != "True" or not work.reserved:
        return
    past = int(work.status.get("accumulatedPastExecutionTimeSeconds") or 0)
    since = ws.moment(admitted.get("lastTransitionTime"))
    if since is None:
        return
    if (ends := later(since, most - past)) > case.now:
        yield ReconcileResult(wake=ends)
    elif not work.is_true(ws.DEACTIVATION_TARGET):
        reason, message = EXECUTION_TIME_EXCEEDED, "exceeding the maximum execution time"
        work.set(ws.DEACTIVATION_TARGET, "True", reason, message)
        work.status.pop("accumulatedPastExecutionTimeSeconds", None)
        said = f"The maximum execution time ({most}s) exceeded"
        yield case.done(R.EXECUTION_TIME_EXCEEDED, message=said)


def _not_ready(case: _Case) -> Found:
    """A Workload whose pods are not ready in time is evicted, and waits until it is queued again."""
    if case.pods_ready is None or not case.seen.active:
        return
    late = pods_ready.lateness(case.work, case.pods_ready)
    if late is None:
        return
    if late.ends > case.now:
        yield ReconcileResult(wake=late.ends)
    elif pods_ready.too_often(case.work, case.pods_ready):
        message = "exceeding the maximum number of re-queuing retries"
        case.work.set(ws.DEACTIVATION_TARGET, "True", "RequeuingLimitExceeded", message)
        yield case.done(R.REQUEUED_TOO_OFTEN)
    else:
        message = f"Exceeded the PodsReady timeout {case.seen.namespace}/{case.seen.name}"
        pods_ready.wait_again(case.work, case.pods_ready, case.now)
        case.work.evict(ws.PODS_READY_TIMEOUT, message, late.cause)
        yield case.done(R.PODS_NOT_READY, evicted=ws.PODS_READY_TIMEOUT, message=message)


_RULES: tuple[Callable[[_Case], Found], ...] = (
    _orphan,
    _finished,
    _preemption_gates,
    _retry_time,
    _active,
    _inactive,
    _devices,
    _local_queue_restarted,
    _gate,
    _cluster_queue,
    _conditions,
    _checks,
    _local_queue,
    _own_cluster_queue,
    _execution_time,
    _not_ready,
)
