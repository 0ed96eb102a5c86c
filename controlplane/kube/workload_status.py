"""Makes what is applied to a Workload's status as Kueue applies it.

In: the status as it was seen, and a change of it. Out: the body of a server-side apply. Pure. Kueue's core applies the
admission with all that belongs to it as field manager `kueue-admission`, and takes a field away by leaving it out
(`PatchAdmissionStatus` in kubernetes-sigs/kueue pkg/workload/patching/patching.go, ff69552e); what else is in a status
has managers of its own."""

from __future__ import annotations

from controlplane.kube.kinds import Json

RECLAIMABLE_MANAGER = "kueue-reclaimable-pods"
JOB_MANAGER = "kueue-job-controller"
ADMISSION_CONDITIONS = (
    "QuotaReserved",
    "BlockedOnPreemptionGates",
    "Evicted",
    "Admitted",
    "Preempted",
    "Requeued",
    "DeactivationTarget",
    "Finished",
    "PodsReady",
)
EXECUTION_TIME_EXCEEDED = "MaximumExecutionTimeExceeded"
RAN_TOO_LONG = f"DeactivatedDueTo{EXECUTION_TIME_EXCEEDED}"
"""Why a Workload is evicted that was deactivated for its maximum execution time. The time that it had counts for
nothing then, also what is added when its quota is taken: Kueue adds that, so that who is activated again is deactivated
at once (KEP-3125 has it begin at 0)."""
_OF_OTHERS = frozenset({"reclaimablePods"})


def applied_status(status: Json, change: Json) -> Json:
    """Return all that is applied with the admission, with a change in it; what is None there goes."""
    made: Json = {name: value for name, value in status.items() if name not in _OF_OTHERS} | change
    made["conditions"] = [one for one in made.get("conditions") or () if one.get("type") in ADMISSION_CONDITIONS]
    if made.get("admission"):
        made.pop("resourceRequests", None)  # what the assignments say counts from then on
    requeue = made.get("requeueState") or {}
    if requeue.get("count") is None and requeue.get("requeueAt") is None:
        made.pop("requeueState", None)
    return {name: value for name, value in made.items() if value not in (None, [])}
