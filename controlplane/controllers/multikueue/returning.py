"""Judges a copy that is found on a cluster which came back: one table, recorded once for each return.

In: the Workload, what the cluster shows now, the time. Out: a verdict and its reason. The procedures keep to it: what
is to wait is not removed, what finished counts, and of two that run the one that is not the winner goes (the section
"Verdicts" of docs/explanation/failure-model.md; Kueue's intent: kubernetes-sigs/kueue
keps/693-multikueue/README.md, ff69552e).

    the Workload is gone or finished              remove
    the copy finished, and it is the winner's,
      or no cluster's, or it succeeded           finish: its result counts, once
      (of a kind whose attempts are fenced, one
      that was overtaken does not count)
    it runs, and the winner is a name that the
      log never heard from and nobody has now    wait: it may be this cluster's other name
    it runs elsewhere                             remove
    it is the winner's                            keep
    it cannot be used (other spec, deactivated)   remove
    it is a group's, and others are in the place
      of all its pods                             remove: none of them goes on
    quota is reserved again                       adopt: it goes on running
    quota may still be reserved again             wait, for the re-admission grace at most
    quota will not be soon                        remove

Whether quota may come is told by the Workload's conditions (reasons of `QuotaReserved=False`: kubernetes-sigs/kueue
apis/kueue/v1beta2/workload_types.go, ff69552e). While Kueue's back-off lasts (`Requeued` is not True), and while the
scheduler says that others have the quota, it may. Once it says that the Workload cannot have any, it is clear. As long
as it has said nothing about a Workload that is in its queue, it has a few seconds for it: it gives a place back within
a cycle or two, and a scheduler that does not run gives none."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.controllers.multikueue.decision_pass import WorkloadPass, stamp
from controlplane.controllers.multikueue.events import CopyJudged, Verdict
from controlplane.controllers.multikueue.members import pods_replaced
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.remotes import usable
from controlplane.kube.conditions import Condition

_EVALUATION = timedelta(seconds=5)
"""How long a Workload that is in its queue may be without a word of the scheduler's."""
_REFUSED = frozenset({"NoMatchingFlavor", "ExceedsMaxQuota", "Misconfigured", "Suspended"})
_IN_LINE = frozenset({"WaitingForQuota", "WaitingForPreemptedWorkloads", "TopologyPlacementFailed"})


def judge_returned(pass_: WorkloadPass, local: WorkloadObserved) -> None:
    """Judge every copy on a cluster that came back, and record a verdict that is new."""
    for cluster in sorted(pass_.state.returned):
        if not pass_.context.in_view(cluster):
            continue
        verdict, reason = judge(pass_, local, cluster)
        pass_.verdicts[cluster] = verdict
        if pass_.state.judged.get(cluster) != verdict:
            pass_.say(CopyJudged(cluster=cluster, verdict=verdict, reason=reason))
        if verdict == "Wait" and reason is WorkloadReason.AWAITS_QUOTA:
            pass_.wake_at(_unclear_until(pass_, local, cluster))


def judge(pass_: WorkloadPass, local: WorkloadObserved, cluster: str) -> tuple[Verdict, WorkloadReason]:
    """Return the verdict on the copy on one cluster."""
    remote = pass_.state.remote(cluster)
    current = local.cluster_name or pass_.state.winner
    if local.is_true("Finished"):
        return "Remove", WorkloadReason.FINISHED
    if remote.finished is not None:
        counts = current in ("", cluster) or pass_.context.unheard_of(current)
        return _judge_finished(pass_, remote.finished, counts=counts)
    if current:
        return _judge_beside(pass_, local, cluster, current)
    if _is_stale(pass_, local, cluster):
        return "Remove", WorkloadReason.STALE_COPY
    if local.is_true("QuotaReserved") and not local.is_true("Evicted"):
        return "Adopt", WorkloadReason.READMITTED
    if remote.job is not None and pass_.now < _unclear_until(pass_, local, cluster):
        return "Wait", WorkloadReason.AWAITS_QUOTA
    return "Remove", WorkloadReason.QUOTA_NOT_RESERVED


def _judge_beside(
    pass_: WorkloadPass, local: WorkloadObserved, cluster: str, winner: str
) -> tuple[Verdict, WorkloadReason]:
    """Return the verdict on a copy that has not finished, of a Workload that is with a cluster."""
    if winner == cluster:
        return "Keep", WorkloadReason.STILL_THE_WINNER
    runs = pass_.state.remote(cluster).job is not None and not _is_stale(pass_, local, cluster)
    if runs and pass_.context.unheard_of(winner):
        return "Wait", WorkloadReason.WINNER_UNHEARD_OF
    return "Remove", _overtaken(pass_)


def _is_stale(pass_: WorkloadPass, local: WorkloadObserved, cluster: str) -> bool:
    return not usable(pass_.state.remote(cluster), local) or not local.active or pods_replaced(pass_, cluster)


def _unclear_until(pass_: WorkloadPass, local: WorkloadObserved, cluster: str) -> datetime:
    """Return until when quota may be reserved again for a Workload whose copy came back: then it is adopted."""
    returned = pass_.state.returned[cluster]
    longest = returned + pass_.context.policy.readmission_grace
    requeued, quota = local.condition("Requeued"), local.condition("QuotaReserved")
    reason = quota.reason if quota is not None else ""
    if reason in _IN_LINE or (requeued is not None and requeued.status != "True"):
        return longest
    if reason in _REFUSED:
        return returned
    queued = stamp(requeued.last_transition_time, returned) if requeued is not None else returned
    return min(longest, max(returned, queued) + _EVALUATION)


def _judge_finished(pass_: WorkloadPass, finished: Condition, *, counts: bool) -> tuple[Verdict, WorkloadReason]:
    """Return the verdict on a copy that finished; `counts`: the Workload is with its cluster, or with none."""
    if finished.reason in ("OutOfSync", "OwnerNotFound"):
        return "Remove", WorkloadReason.STALE_COPY
    if counts or (finished.reason == "Succeeded" and not pass_.context.fences):
        return "Finish", WorkloadReason.FINISHED_MEANWHILE
    return "Remove", _overtaken(pass_)


def _overtaken(pass_: WorkloadPass) -> WorkloadReason:
    return WorkloadReason.FENCED if pass_.context.fences else WorkloadReason.ANOTHER_CLUSTER_WON
