"""What becomes of a copy that is found on a cluster which came back: one table, recorded once for each return.

In: the Workload, what the cluster shows now, the time. Out: a verdict and its reason. The procedures keep to it: what
is to wait is not removed, what finished counts, and of two that run the one that is not the winner goes (KEP-693; specs
section 9, 1–3).

    the Workload is gone or finished              remove
    the copy finished, and it is the winner's,
      or nobody's turn, or it succeeded           finish: its result counts, once
      (of a kind whose attempts are fenced, one
      that was overtaken does not count)
    it runs elsewhere                             remove
    it is the winner's                            keep
    it cannot be used (other spec, deactivated)   remove
    quota is reserved again                       adopt: it goes on running
    quota is not reserved yet                     wait for the re-admission grace, then remove
"""

from __future__ import annotations

from controlplane.controllers.multikueue.decision_pass import WorkloadPass, usable
from controlplane.controllers.multikueue.events import CopyJudged, Verdict, WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason


def judge_returned(turn: WorkloadPass, local: WorkloadObserved) -> None:
    """Judge every copy on a cluster that came back, and record a verdict that is new."""
    for cluster in sorted(turn.state.returned):
        if not turn.context.in_view(cluster):
            continue
        verdict, reason = judge(turn, local, cluster)
        turn.verdicts[cluster] = verdict
        if turn.state.judged.get(cluster) != verdict:
            turn.say(CopyJudged(cluster=cluster, verdict=verdict, reason=reason))
        if verdict == "Wait":
            turn.wake_at(turn.state.returned[cluster] + turn.context.policy.readmission_grace)


def judge(turn: WorkloadPass, local: WorkloadObserved, cluster: str) -> tuple[Verdict, WorkloadReason]:
    """Return the verdict on the copy on one cluster."""
    remote = turn.state.remote(cluster)
    current = local.cluster_name or turn.state.winner
    finished = remote.clone.condition("Finished") if remote.clone else None
    fences = turn.context.fences
    overtaken = WorkloadReason.FENCED if fences else WorkloadReason.ANOTHER_CLUSTER_WON
    if local.is_true("Finished"):
        return "Remove", WorkloadReason.FINISHED
    if finished is not None and finished.status == "True":
        if finished.reason in ("OutOfSync", "OwnerNotFound"):
            return "Remove", WorkloadReason.STALE_COPY
        if current in ("", cluster) or (finished.reason == "Succeeded" and not fences):
            return "Finish", WorkloadReason.FINISHED_MEANWHILE
        return "Remove", overtaken
    if current == cluster:
        return "Keep", WorkloadReason.STILL_THE_WINNER
    if current:
        return "Remove", overtaken
    if not usable(remote, local) or not local.active:
        return "Remove", WorkloadReason.STALE_COPY
    if local.is_true("QuotaReserved") and not local.is_true("Evicted"):
        return "Adopt", WorkloadReason.READMITTED
    if remote.job is not None and turn.now < turn.state.returned[cluster] + turn.context.policy.readmission_grace:
        return "Wait", WorkloadReason.AWAITS_QUOTA
    return "Remove", WorkloadReason.QUOTA_NOT_RESERVED
