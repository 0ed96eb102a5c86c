"""Tells which Workload a job has, and sees to it that it has one alone that asks for what the job does.

In: a pass of deciding about a job. Out: the Workload, and whether the job can go on with it. Pure. Source:
`ensureOneWorkload` and what it calls (kubernetes-sigs/kueue pkg/controller/jobframework/reconciler.go, ff69552e)."""

from __future__ import annotations

from controlplane.controllers.jobframework import events, writes
from controlplane.controllers.jobframework.context import WorkloadPriority
from controlplane.controllers.jobframework.pod_sets import equivalent
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.stopping import stop
from controlplane.controllers.jobframework.writes import JobPass, finish, release
from controlplane.kube.kinds import WORKLOAD_PRIORITY_CLASSES

MISSING = "Missing Workload; unable to restore pod templates"
RESTORING = "No matching Workload; restoring pod templates according to existent Workload"
OUT_OF_SYNC = "The prebuilt workload is out of sync with its user job"

Found = tuple[events.JobWorkloadObserved | None, bool]


def ensure_one(step: JobPass, job: events.QueuedJobObserved) -> Found:
    """Return the one Workload of a job, None if there is none, and whether that is how it stays: else writes are on the
    way, and the job waits.
    """
    if job.prebuilt:
        return _prebuilt(step, job)
    if job.problem and step.state.workloads:
        step.notice(job, "Warning", JobReason.NOT_COMPOSED, "ErrWorkloadCompose", job.problem)
        return _as_far_as_known(step, job)
    match, others = _chosen(step, job)
    if match is None:
        return None, _none_fits(step, job, others)
    if removed(step, others, JobReason.EXTRA_WORKLOAD):
        return None, False
    return match, kept_up(step, job, match)


def _as_far_as_known(step: JobPass, job: events.QueuedJobObserved) -> Found:
    """Return the Workload with whose quota a job runs that asks for nobody knows what, and whether it can go on with
    that: it can end and be stopped, and not start. Kueue does neither, and keeps the quota."""
    held = next((one for one in step.workloads() if one.is_true("QuotaReserved")), None)
    goes_on = held is not None and (job.end is not None or not job.suspended or held.is_true("Evicted"))
    return (held, True) if goes_on else (None, False)


def _none_fits(step: JobPass, job: events.QueuedJobObserved, others: list[events.JobWorkloadObserved]) -> bool:
    """See to a job that has no Workload, or only `others` that do not fit: one that can follow the job is written anew,
    the rest go. Return whether it has none now, with nothing on the way.
    """
    stale = None
    if writes.is_suspended(job):
        stale = others.pop(0) if others and _can_follow(job, others[0]) else None
    elif job.end is None:
        only = others[0] if len(others) == 1 else None
        if not _stopped(step, job, only):
            return False
    if removed(step, others, JobReason.NO_MATCHING_WORKLOAD):
        return False
    if stale is not None:
        rewrite(step, job, stale)
    return stale is None


def _stopped(step: JobPass, job: events.QueuedJobObserved, only: events.JobWorkloadObserved | None) -> bool:
    """Stop a job that runs with a Workload that does not fit, or with none; return whether it is stopped."""
    if only is not None and job.stopping and not only.deleting and not job.elastic:
        # Restored, the job may ask for what this Workload asks for; it stays until nothing runs, for its quota counts.
        step.write(events.JobWorkloadRemovalDecided(**writes.head(only), reason=JobReason.NO_MATCHING_WORKLOAD))
        return False
    return stop(step, job, only, JobReason.NO_MATCHING_WORKLOAD, RESTORING if only is not None else MISSING)


def _can_follow(job: events.QueuedJobObserved, other: events.JobWorkloadObserved) -> bool:
    """Whether a Workload that does not fit may be changed until it does: it is this very job's, stays, and has no
    quota."""
    mine = other.owner is not None and other.owner.uid == job.uid
    return mine and not other.deleting and not other.is_true("QuotaReserved")


def _chosen(
    step: JobPass, job: events.QueuedJobObserved
) -> tuple[events.JobWorkloadObserved | None, list[events.JobWorkloadObserved]]:
    """Return the first Workload that fits a job, and the others that it has."""
    match, others = None, []
    for one in step.workloads():
        if match is None and equivalent(job, one, step.context.catalog.flavors):
            match = one
        else:
            others.append(one)
    return match, others


def removed(step: JobPass, others: list[events.JobWorkloadObserved], reason: JobReason) -> bool:
    """Let Workloads go and delete them; return whether any deletion is still to be asked for."""
    waits = False
    for one in others:
        if not release(step, one, reason):
            waits = True
        elif not one.deleting:
            step.write(events.JobWorkloadRemovalDecided(**writes.head(one), reason=reason))
            waits = True
    return waits


def rewrite(step: JobPass, job: events.QueuedJobObserved, stale: events.JobWorkloadObserved) -> None:
    """Have the Workload of a job that waits ask for what the job asks for now."""
    priority = step.priority(job)
    if priority is None:
        return
    step.write(
        events.JobWorkloadUpdateDecided(
            **writes.head(stale),
            what="spec",
            body=job.body,
            runtime=job.runtime,
            queue=job.queue,
            priority=priority.value,
            priority_class=priority.class_name,
            active=stale.active,
            reason=JobReason.JOB_CHANGED,
        )
    )


def kept_up(step: JobPass, job: events.QueuedJobObserved, match: events.JobWorkloadObserved) -> bool:
    """Have a Workload follow the job's gates and priority class; return whether it does."""
    if match.gated_by != job.gated_by:
        update = events.JobWorkloadUpdateDecided(
            **writes.head(match), what="gate", gated_by=job.gated_by, reason=JobReason.GATE_CHANGED
        )
        return not step.write(update)
    if not _class_moves(job, match):
        return True
    priority = step.priority(job)
    if priority is None:
        return False
    if (
        WorkloadPriority(value=match.priority or 0, class_name=match.priority_class) == priority
        and match.priority is not None
    ):
        return True
    step.write(
        events.JobWorkloadUpdateDecided(
            **writes.head(match),
            what="priority",
            priority=priority.value,
            priority_class=priority.class_name,
            reason=JobReason.PRIORITY_CHANGED,
        )
    )
    return False


def _class_moves(job: events.QueuedJobObserved, match: events.JobWorkloadObserved) -> bool:
    """Whether a Workload's class follows the job's label and is not the one that it names."""
    has = match.priority_class
    if has.name and has.kind != WORKLOAD_PRIORITY_CLASSES.kind:
        return False
    if not has.name and match.is_true("QuotaReserved"):
        return False  # none can be added any more
    return has.name != job.priority_class


def _prebuilt(step: JobPass, job: events.QueuedJobObserved) -> Found:
    """Return the Workload that a job names, once it is the job's."""
    owned = next((one for one in step.workloads() if one.name == job.prebuilt), None)
    found = owned or step.context.free_workload(job.namespace, job.prebuilt)
    if found is None or (found.owner is not None and found.owner.uid != job.uid):
        return None, True
    if found.owner is None:
        step.write(
            events.JobWorkloadUpdateDecided(
                **writes.head(found), what="owner", job_uid=job.uid, references=found.references, reason=JobReason.BOUND
            )
        )
        return None, False
    if not equivalent(job, found, step.context.catalog.flavors):
        if not found.is_true("Finished"):
            finish(step, found, "OutOfSync", OUT_OF_SYNC, JobReason.OUT_OF_SYNC)
            return None, False
        return None, True
    return found, True
