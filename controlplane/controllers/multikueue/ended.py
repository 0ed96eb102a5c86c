"""Reports the end of a job whose copy, or whose copy's Workload, went away before its Kueue said that it had finished.

In: a pass over a Workload, with the copies of its job that were seen at their end. Out: the last status for the user's
job, by which Kueue finishes the Workload; the end of a slice that Kueue does not finish. A copy may be deleted the
moment it has ended (`ttlSecondsAfterFinished`, or somebody who tidies up): it has run, and is not run again for
that."""

from __future__ import annotations

from datetime import timedelta

from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.controllers.multikueue.events import FinishDecided, StatusRelayDecided
from controlplane.controllers.multikueue.failures import RepeatedWriteFailure
from controlplane.controllers.multikueue.observations import JobObserved, WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.slices import held_elsewhere, outgrown
from controlplane.controllers.multikueue.told import is_not_kept
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.runtime.writes import says_no

_TRIES, _OUR_JOB = 3, "@management/Job"
_FORBIDDEN, _LATER = 403, timedelta(minutes=10)


def report_end(pass_: WorkloadPass, local: WorkloadObserved) -> bool:
    """Write the status of a copy that ended and is gone to the user's job; return whether the Workload only waits for
    Kueue to finish it.

    Of a kind whose attempts begin anew, of a pod, and of a job that another cluster or slice has by now, such an end
    means nothing."""
    job, cluster = pass_.context.job, _ended_on(pass_, local)
    if job is None or job.deleting or not cluster:
        return False
    if job.finished:
        return not (local.sliced and outgrown(local, job))
    if refused(pass_) or is_not_kept(pass_.state.told, pass_.state.ended[cluster]):
        return _finish_untold(pass_, local, pass_.state, cluster)
    late = met_conflicts(pass_) and not local.is_true("Finished")
    return (late and _finish_untold(pass_, local, pass_.state, cluster)) or relay_end(pass_, job, cluster)


def _ends_once(pass_: WorkloadPass) -> bool:
    """Whether the end of a copy is that of its job: it is of no kind whose attempts begin anew, and no pod."""
    adapter = pass_.context.adapter
    return adapter is not None and adapter.delegates and not pass_.context.fences


def met_conflicts(pass_: WorkloadPass) -> bool:
    """Whether no try to write the last status has come through for long: its content may be nowhere any more, since the
    log does not keep all of a large one."""
    trouble = pass_.state.trouble.get(_OUR_JOB)
    if trouble is None or trouble.action != StatusRelayDecided.__name__:
        return False
    pass_.wake_at(trouble.since + _LATER)
    return pass_.now >= trouble.since + _LATER


def _finish_untold(pass_: WorkloadPass, local: WorkloadObserved, state: WorkloadState, cluster: str) -> bool:
    """Finish a Workload as a copy of its job ended on a cluster, which the user's job will not show; return whether
    that is known, by the `state` of the Workload under whose name it ran: what has ended is not run again for a
    status."""
    end = state.ends.get(cluster)
    if end is not None and not local.is_true("Finished"):
        pass_.write(
            FinishDecided(
                resource_version=local.resource_version,
                source=cluster,
                finish_reason="Succeeded" if end.success else "Failed",
                message=end.message,
                reason=WorkloadReason.FINISHED,
            )
        )
    return end is not None


def _ended_on(pass_: WorkloadPass, local: WorkloadObserved) -> str:
    """Return the cluster on which the job has run to an end that nobody else will tell, "" if there is none."""
    if not _ends_once(pass_) or (local.sliced and held_elsewhere(pass_)):
        return ""
    current, ended = _holder(pass_, local), sorted(pass_.state.ended)
    return next((name for name in ended if current in ("", name) and _goes(pass_, local, name)), "")


def end_is_told(pass_: WorkloadPass, job: JobObserved) -> bool:
    """Whether another slice of the job saw it end, and is about to write that to the user's job: none begins it
    anew."""
    return not job.finished and any(not _is_given_up(other) for other in pass_.context.slices if _tells(other))


def finish_as_another(pass_: WorkloadPass, local: WorkloadObserved, job: JobObserved) -> bool:
    """Finish a slice of a job that ran to its end as another slice's, which the user's job will not show; return
    whether it is such a one."""
    others = () if job.finished else filter(_tells, pass_.context.slices)
    return any(_is_given_up(other) and _finish_untold(pass_, local, other, min(other.ended)) for other in others)


def _tells(state: WorkloadState) -> bool:
    """Whether a slice saw the job end, and nobody has it by now."""
    there = state.slice_of is not None or (state.local is not None and not state.local.deleting)
    return there and bool(state.ended) and not any(remote.job for remote in state.remotes.values())


def _is_given_up(state: WorkloadState) -> bool:
    """Whether the user's job has refused the end that a slice saw, or lost it, often enough."""
    return _no(state) is not None or any(is_not_kept(state.told, status) for status in state.ended.values())


def relay_end(pass_: WorkloadPass, job: JobObserved, cluster: str) -> bool:
    """Write the status with which a copy on a cluster was seen to end, if it was; return whether that is still to be
    done."""
    status = pass_.state.ended.get(cluster, "")
    if not status or job.finished or job.deleting or refused(pass_) or is_not_kept(pass_.state.told, status):
        return False
    pass_.relay(job, cluster, status, WorkloadReason.FINAL_STATUS)
    return True


def refused(pass_: WorkloadPass, member: str = "") -> bool:
    """Whether the user's job, or a pod of a group, has refused its last status often enough. One that was forbidden is
    tried again later, and again: a right that was taken away comes back."""
    trouble = _no(pass_.state, member)
    if trouble is None or trouble.code != _FORBIDDEN:
        return trouble is not None
    later = trouble.until + _LATER
    pass_.wake_at(later)
    return pass_.now < later


def forbidden(pass_: WorkloadPass, member: str = "") -> bool:
    """Whether a last status that was refused often enough was forbidden: it is written later, so the copy that has it
    stays. The log has it too, but may be put back to before it."""
    trouble = _no(pass_.state, member)
    return trouble is not None and trouble.code == _FORBIDDEN


def _no(state: WorkloadState, member: str = "") -> RepeatedWriteFailure | None:
    """Return the refusal of a last status that came often enough, None if there is none."""
    trouble = state.trouble.get("/".join((_OUR_JOB, *([member] if member else []))))
    return trouble if trouble is not None and says_no(trouble) and trouble.failures >= _TRIES else None


def finish_outgrown(pass_: WorkloadPass, local: WorkloadObserved, job: JobObserved) -> bool:
    """Finish a slice whose job ended and was made larger after it; return whether it is such a one.

    Kueue finishes no slice that is too small for its job, and makes no other one for a job that has ended: the Workload
    would keep its quota for ever (`EnsureWorkloadSlices` in kubernetes-sigs/kueue
    pkg/workloadslicing/workloadslicing.go, `ReconcileGenericJob` in pkg/controller/jobframework/reconciler.go,
    ff69552e)."""
    if job.end is None or not local.sliced or not outgrown(local, job):
        return False
    pass_.write(
        FinishDecided(
            resource_version=local.resource_version,
            source="",
            finish_reason="Succeeded" if job.end.success else "Failed",
            message=job.end.message,
            reason=WorkloadReason.FINISHED,
        )
    )
    return True


def _holder(pass_: WorkloadPass, local: WorkloadObserved) -> str:
    """Return the cluster that has the job, or may have it; "" if it is with none yet."""
    state, cluster = pass_.state, local.cluster_name or pass_.state.winner
    has = cluster in state.unsure or f"{cluster}/Job" in state.effects or state.remote(cluster).job is not None
    return cluster if has or not pass_.context.in_view(cluster) else ""


def _goes(pass_: WorkloadPass, local: WorkloadObserved, cluster: str) -> bool:
    """Whether a copy, or its Workload, is not there any more, or is being deleted, or is out of view: nobody will say
    that it finished, or not soon. What has finished out of view finishes the Workload (`running.finish`), but not where
    another cluster was chosen meanwhile."""
    remote = pass_.state.remote(cluster)
    if not pass_.context.in_view(cluster):
        return remote.finished is None or (local.cluster_name or pass_.state.winner) not in ("", cluster)
    return remote.job is None or remote.job.deleting or remote.clone is None or remote.clone.deleting
