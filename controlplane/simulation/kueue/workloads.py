"""Kueue's workload controller: checks, admission, eviction, deactivation and requeueing of one Workload at a time.

In: the key of a Workload. Out: at most one write of it, after which its own event brings it back for the next step. The
order of the steps, the reasons and the messages are those of `pkg/controller/core/workload_controller.go`. What
concerns the job (suspending it, releasing quota once it is idle) is `kueue_jobs`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from controlplane.kube.conditions import condition, is_true, set_condition
from controlplane.kube.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS, Json, meta
from controlplane.kube.kueue_names import JOB_UID_LABEL
from controlplane.simulation.kueue.common import is_active, parse_timestamp, timestamp
from controlplane.simulation.kueue.core import Core
from controlplane.simulation.kueue.queues import Queues
from controlplane.simulation.kueue.status import (
    checks_message,
    deactivate,
    draft,
    evict,
    preempt,
    sync_admitted,
    sync_gates,
)

# Reason of a Requeued=False condition -> reason and message with which it turns True when the time is up.
_BACKOFF_FINISHED = ("BackoffFinished", "The workload backoff was finished")
_REQUEUED = {
    "Deactivated": ("Reactivated", "The workload was reactivated"),
    "AdmissionCheck": _BACKOFF_FINISHED,
    "PodsReadyTimeout": _BACKOFF_FINISHED,
}


class WorkloadReconciler:
    """The workload controller of one cluster."""

    def __init__(self, core: Core, queues: Queues) -> None:
        self._core, self._queues = core, queues

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Take a Workload one step on; return after how many seconds to look again, or None."""
        workload = self._core.workload(namespace, name)
        if workload is None:
            return None
        return self._step(workload)

    def _step(self, workload: Json) -> float | None:
        if _orphan(workload, self._core.gates.finish_orphans):
            self._core.orphaned(workload, may_finish=True)
            return None
        if is_true(workload, "Finished"):
            return None
        if self._core.gates.orchestrated_preemption:
            status = draft(workload)
            sync_gates(workload, status, self._core.stamp())
            if self._core.writer.write(workload, status):
                return None
        if not is_active(workload):
            status = draft(workload)
            if deactivate(workload, status, self._core.stamp()):
                self._core.writer.write(workload, status)
                return None
        else:
            done, delay = self._active(workload)
            if done:
                return delay
        if self._sync_checks(workload) or self._sync_conditions(workload):
            return None
        if not is_true(workload, "QuotaReserved"):
            return None
        if self._evict_by_checks(workload) or self._evict_by_stopped_queue(workload):
            return None
        return self._limit_execution(workload)

    def _active(self, workload: Json) -> tuple[bool, float | None]:
        """Deactivation target, back-off, requeueing. Return whether this was all for now, and the delay."""
        if is_true(workload, "DeactivationTarget"):
            self._core.patch(workload, {"spec": {"active": False}})
            return True, None
        now = self._core.now()
        status = draft(workload)
        state = status.get("requeueState") or {}
        at = parse_timestamp(state["requeueAt"]) if state.get("requeueAt") else None
        wanted = _retry_time(workload)
        if wanted is not None and wanted > max(now, at or now):
            status["requeueState"] = {**state, "requeueAt": timestamp(wanted)}
            self._core.writer.write(workload, status)
            return True, None
        if at is not None and at > now:
            return True, (at - now).total_seconds()
        if at is not None and not is_true(workload, "QuotaReserved"):
            status["requeueState"] = {name: value for name, value in state.items() if name != "requeueAt"}
        self._requeue(workload, status)
        return self._core.writer.write(workload, status), None

    def _requeue(self, workload: Json, status: Json) -> None:
        """End what kept a Workload from being requeued, by the reason of its Requeued condition."""
        requeued = condition(workload, "Requeued")
        if requeued is None or requeued["status"] != "False":
            return
        if requeued["reason"] not in _REQUEUED:
            self._restarted(workload, status, requeued["reason"])
            return
        reason, text = _REQUEUED[requeued["reason"]]
        at, generation = timestamp(self._core.now()), meta(workload).get("generation", 0)
        set_condition(status, "Requeued", True, reason, text, at=at, generation=generation)

    def _restarted(self, workload: Json, status: Json, reason: str) -> None:
        """Requeue what a stopped queue had put aside, once that queue runs again."""
        local = self._core.view.get(LOCAL_QUEUES, meta(workload)["namespace"], workload["spec"].get("queueName") or "")
        if reason == "LocalQueueStopped":
            runs, word = local is not None and _runs(local), "LocalQueue"
        elif reason == "ClusterQueueStopped":
            target = self._core.view.get(CLUSTER_QUEUES, "", (local or {}).get("spec", {}).get("clusterQueue") or "")
            runs, word = target is not None and _runs(target), "ClusterQueue"
        else:
            return
        if runs:
            text = f"The {word} was restarted after being stopped"
            generation = meta(workload).get("generation", 0)
            set_condition(
                status, "Requeued", True, f"{word}Restarted", text, at=self._core.stamp(), generation=generation
            )

    def _sync_checks(self, workload: Json) -> bool:
        """Give the Workload an entry for each check of its ClusterQueue: new ones Pending, others dropped."""
        wanted = self._queues.checks_for(workload)
        if wanted is None:
            return False
        status = draft(workload)
        present = {check["name"]: check for check in status.get("admissionChecks") or ()}
        if set(wanted) == set(present):
            return False
        fresh = {"state": "Pending", "lastTransitionTime": self._core.stamp(), "message": ""}
        checks = [present.get(name) or {"name": name, **fresh} for name in wanted]
        status["admissionChecks"] = checks
        if not checks:
            del status["admissionChecks"]
        self._core.store.update(WORKLOADS, {**workload, "status": status}, subresource="status", field_manager="kueue")
        return True

    def _sync_conditions(self, workload: Json) -> bool:
        """Say why no queue takes the Workload; let Admitted follow. An admitted one is left alone until it is
        evicted.
        """
        if is_true(workload, "Admitted"):
            return False
        status, gates = draft(workload), self._core.gates
        if not is_true(workload, "QuotaReserved"):
            why = self._queues.blocker(workload) if is_active(workload) else None
            if why is not None:
                reason = gates.reason(why[0], "Inadmissible")
                generation = meta(workload).get("generation", 0)
                set_condition(
                    status, "QuotaReserved", False, reason, why[1], at=self._core.stamp(), generation=generation
                )
        sync_admitted(workload, status, self._core.now(), gates)
        return self._core.writer.write(workload, status)

    def _evict_by_checks(self, workload: Json) -> bool:
        """Rejected checks deactivate the Workload, checks in Retry evict it."""
        if is_true(workload, "Evicted"):
            return False
        checks: list[Json] = list(workload["status"].get("admissionChecks") or ())
        status = draft(workload)
        if rejected := [check for check in checks if check["state"] == "Rejected"]:
            text = checks_message(rejected, "Rejected")
            generation = meta(workload).get("generation", 0)
            set_condition(
                status, "DeactivationTarget", True, "AdmissionCheck", text, at=self._core.stamp(), generation=generation
            )
        elif retried := [check for check in checks if check["state"] == "Retry"]:
            evict(
                workload,
                status,
                "AdmissionCheck",
                f"Evicted due to {checks_message(retried, 'Retry')}",
                self._core.stamp(),
            )
        return self._core.writer.write(workload, status)

    def _evict_by_stopped_queue(self, workload: Json) -> bool:
        """A queue that drains evicts what it has admitted."""
        if is_true(workload, "Evicted") or not is_true(workload, "Admitted"):
            return False
        local = self._core.view.get(LOCAL_QUEUES, meta(workload)["namespace"], workload["spec"].get("queueName") or "")
        cluster = self._core.view.get(CLUSTER_QUEUES, "", workload["status"]["admission"]["clusterQueue"])
        for queue, word in ((local, "LocalQueue"), (cluster, "ClusterQueue")):
            if queue is not None and queue["spec"].get("stopPolicy") == "HoldAndDrain":
                return self.evict(workload, f"{word}Stopped", f"The {word} is stopped")
        return False

    def evict(self, workload: Json, reason: str, message: str) -> bool:
        """Evict a Workload; False if it is evicted already."""
        if is_true(workload, "Evicted"):
            return False
        status = draft(workload)
        evict(workload, status, reason, message, self._core.stamp())
        return self._core.writer.write(workload, status)

    def preempt(self, workload: Json, reason: str, message: str) -> bool:
        """Evict a Workload in favour of another one: Preempted with `reason`, Evicted with reason Preempted."""
        if is_true(workload, "Evicted"):
            return False
        status = draft(workload)
        preempt(workload, status, reason, message, self._core.stamp())
        return self._core.writer.write(workload, status)

    def _limit_execution(self, workload: Json) -> float | None:
        """Deactivate what has run for longer than it may."""
        limit, admitted = workload["spec"].get("maximumExecutionTimeSeconds"), condition(workload, "Admitted")
        if limit is None or admitted is None or admitted["status"] != "True":
            return None
        past = workload["status"].get("accumulatedPastExecutionTimeSeconds") or 0
        ran = (self._core.now() - parse_timestamp(admitted["lastTransitionTime"])).total_seconds()
        left = limit - past - ran
        if left > 0:
            return float(left)
        status, generation = draft(workload), meta(workload).get("generation", 0)
        text = "exceeding the maximum execution time"
        set_condition(
            status,
            "DeactivationTarget",
            True,
            "MaximumExecutionTimeExceeded",
            text,
            at=self._core.stamp(),
            generation=generation,
        )
        status.pop("accumulatedPastExecutionTimeSeconds", None)
        self._core.writer.write(workload, status)
        return None


def _orphan(workload: Json, finish_orphans: bool) -> bool:
    """Without an owner, and either on its way out or once owned by a job."""
    metadata = meta(workload)
    if metadata.get("ownerReferences"):
        return False
    once_owned = finish_orphans and bool((metadata.get("labels") or {}).get(JOB_UID_LABEL))
    if once_owned and is_true(workload, "Finished") and not metadata.get("finalizers"):
        return False
    return bool(metadata.get("deletionTimestamp")) or once_owned


def _retry_time(workload: Json) -> datetime | None:
    """Return the latest time at which a check wants to be asked again, or None."""
    times = [
        parse_timestamp(check["lastTransitionTime"]) + timedelta(seconds=check["requeueAfterSeconds"])
        for check in (workload.get("status") or {}).get("admissionChecks") or ()
        if check["state"] == "Retry" and check.get("requeueAfterSeconds") is not None
    ]
    return max(times, default=None)


def _runs(queue: dict[str, Any]) -> bool:
    return (queue["spec"].get("stopPolicy") or "None") == "None"
