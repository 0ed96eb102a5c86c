"""Says whether the pods of an admitted Workload take too long until they are ready, and when it is queued again.

In: a Workload's status, and how long pods are waited for. Out: until when they have time, and the state of its
requeuing (kubernetes-sigs/kueue pkg/controller/core/workload_controller.go, `reconcileNotReadyTimeout`, main after
v0.19.2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from controlplane.controllers.quota.admission import workload_status as ws
from controlplane.controllers.quota.admission.workload_status import WorkloadStatus
from controlplane.kube.requests import later, timestamp


@dataclass(frozen=True, slots=True)
class WaitForPodsReady:
    """What Kueue's configuration calls so: how long pods may take until they are ready, and until they are again (None:
    as long as they like); how often a Workload is queued again (None: without end), and after how many seconds, the
    first time and at most."""

    timeout: timedelta
    recovery_timeout: timedelta | None = None
    limit: int | None = None
    base: int = 60
    most: int = 3600


class Lateness(NamedTuple):
    """Until when pods have time, and what is waited for: that they start, or that they recover."""

    ends: datetime
    cause: str


def lateness(work: WorkloadStatus, waiting: WaitForPodsReady) -> Lateness | None:
    """Return until when the pods of an admitted Workload have time; None if nothing is waited for."""
    admitted, ready = work.condition(ws.ADMITTED), work.condition(ws.PODS_READY)
    if admitted is None or not work.is_true(ws.ADMITTED) or work.is_true(ws.EVICTED) or work.is_true(ws.PODS_READY):
        return None
    said = str(ready.get("reason") or "") if ready is not None else ""
    if said in ("", ws.WAIT_FOR_START, ws.PODS_READY):
        since, most, cause = ws.moment(admitted.get("lastTransitionTime")), waiting.timeout, ws.WAIT_FOR_START
    elif said == ws.WAIT_FOR_RECOVERY and ready is not None and waiting.recovery_timeout is not None:
        since, most, cause = ws.moment(ready.get("lastTransitionTime")), waiting.recovery_timeout, said
    else:
        return None
    return None if since is None else Lateness(later(since, most.total_seconds()), cause)


def too_often(work: WorkloadStatus, waiting: WaitForPodsReady) -> bool:
    """Whether a Workload was queued again as often as it may."""
    return waiting.limit is not None and _count(work) >= waiting.limit


def wait_again(work: WorkloadStatus, waiting: WaitForPodsReady, now: datetime) -> None:
    """Note that a Workload is queued once more, and not before when: twice as long after each time."""
    count = _count(work) + 1
    wait = timedelta(seconds=min(waiting.base * 2 ** min(count - 1, 32), waiting.most))
    before = work.requeue_at()
    at = now + wait if before is None or before < now + wait else before
    work.status["requeueState"] = {"count": count, "requeueAt": timestamp(at)}


def _count(work: WorkloadStatus) -> int:
    return int((work.status.get("requeueState") or {}).get("count") or 0)
