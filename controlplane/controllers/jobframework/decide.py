"""Decides what to do about one job now: level-triggered, from what is seen, one write at a time.

In: the state of a job with its Workloads, what is around it, the time. Out: decisions, and when to look again. Pure.
The steps are those of Kueue's reconciler, in its order (`ReconcileGenericJob` in kubernetes-sigs/kueue
pkg/controller/jobframework/reconciler.go, ff69552e); which Workload counts is told in `matching`."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.controllers.jobframework import events, groups, matching, pod_writes, pods, sets, slices, writes
from controlplane.controllers.jobframework.context import NESTED_AT_MOST, Ancestor, JobContext
from controlplane.controllers.jobframework.pod_sets import FlavorMissing, Unstartable, info_of, infos, startable
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.set_events import SetHoldDecided
from controlplane.controllers.jobframework.state import QueuedJobState
from controlplane.controllers.jobframework.stopping import stop
from controlplane.controllers.jobframework.writes import JobPass, finish, release
from controlplane.job_kinds.generic_job import infos_digest
from controlplane.kube.conditions import Condition
from controlplane.kube.kueue_names import MULTIKUEUE
from controlplane.log.event import Event
from controlplane.runtime.decision_pass import PassResult

_NOT_READY = "Not all pods are ready or succeeded"
_RECOVERING = "At least one pod has failed, waiting for recovery"
_READY = "All pods reached readiness and the workload is running"
_AT_ONCE = ("Preempted", "NodeFailures")
_DEACTIVATED_BY_US = "DeactivatedDueTo"
_ON_HOLD = "Job is on hold"
_OWNER_PATIENCE = timedelta(seconds=2)
_TOO_DEEP = f"Terminated search for Kueue-managed Job because ancestor depth exceeded limit of {NESTED_AT_MOST}"


def decide(
    context: JobContext, state: QueuedJobState, now: datetime, place: sets.SetPlace | None = None
) -> PassResult[Event]:
    """Return what follows for a job; nothing while a write of it is open. `place`: it is a group of that set."""
    step = JobPass(context, state, now)
    job = state.job if state.job is not None and not state.job.deleting else None
    if state.effects or not _is_selected(context, job, place) or (place is not None and sets.kept_up(step, place)):
        return step.plan
    pod_writes.strangers_told(step)
    if job is not None:
        _present(step, context.sized(job))
    elif place is None or place.owner.deleting or not place.wanted:
        _orphaned(step)
    else:
        _between_pods(step)
    return step.plan


def _is_selected(context: JobContext, job: events.QueuedJobObserved | None, place: sets.SetPlace | None) -> bool:
    """Whether the namespace of a job, or of the set that it is a group of, is looked after; what is gone is let go
    anyhow."""
    if job is not None:
        return context.selected(job.namespace)
    return place is None or context.selected(place.owner.namespace)


def _present(step: JobPass, job: events.QueuedJobObserved) -> None:
    """A job that is there is looked after for itself, or with the one that it belongs to."""
    ancestor = step.context.ancestor(job)
    if ancestor.too_deep:
        step.notice(job, "Warning", JobReason.NESTED_TOO_DEEP, "JobNestingTooDeep", _TOO_DEEP)
    elif ancestor.found:
        _child(step, job, ancestor)
    elif job.queue:
        if ancestor.known or not _owner_awaited(step):
            _queued(step, job)
    elif ancestor.known and step.context.manages(job.namespace):
        _queued(step, job)


def _between_pods(step: JobPass) -> None:
    """A set has no pods just now, so nothing of an evicted Workload runs."""
    for workload in step.workloads():
        evicted = workload.condition("Evicted")
        if evicted is not None and _reserved(workload):
            _give_back(step, workload, evicted, requeued=evicted.reason in _AT_ONCE)


def _owner_awaited(step: JobPass) -> bool:
    """Whether the owner of a job may still be seen: each kind is watched by itself."""
    since = step.state.job_since
    if since is None or step.now >= since + _OWNER_PATIENCE:
        return False
    step.wake_at(since + _OWNER_PATIENCE)
    return True


def _orphaned(step: JobPass) -> None:
    """The job is gone, or going: its Workloads are finished, so that their quota is free, and let go. A pod is let go
    as well. One that is there and cannot be read is not gone."""
    pod_writes.release(step, pods.members(step.state.pods), JobReason.POD_DELETED)
    for workload in step.workloads():
        if step.context.unread.has_owner_of(workload):
            continue
        evicted = workload.condition("Evicted")
        if step.state.pods and evicted is not None and _reserved(workload):
            _give_back(step, workload, evicted, requeued=False)
        elif not workload.deleting and workload.owner is not None and not workload.is_true("Finished"):
            finish(step, workload, "OwnerNotFound", "The workload's owner no longer exists", JobReason.OWNER_NOT_FOUND)
        else:
            release(step, workload, JobReason.OWNER_NOT_FOUND)


def _child(step: JobPass, job: events.QueuedJobObserved, ancestor: Ancestor) -> None:
    """A job that belongs to another with a queue runs only while that one is admitted."""
    if job.end is None and not job.suspended and not ancestor.admitted:
        stop(step, job, None, JobReason.ANCESTOR_NOT_ADMITTED, "Kueue managed child job suspended", child=True)


def _queued(step: JobPass, job: events.QueuedJobObserved) -> None:
    workload, settled = _ensured(step, job)
    if not settled:
        return
    if workload is None:
        _unmatched(step, job)
    else:
        _matched(step, groups.as_counted(step, job, workload), workload)


def _matched(step: JobPass, job: events.QueuedJobObserved, workload: events.JobWorkloadObserved) -> None:
    """A job goes on with its Workload."""
    if workload.is_true("Finished"):
        pod_writes.release(step, pods.members(step.state.pods), JobReason.WORKLOAD_FINISHED)
        release(step, workload, JobReason.WORKLOAD_FINISHED)
    elif workload.deleting:
        stopped = stop(step, job, workload, JobReason.WORKLOAD_DELETED, "Workload is deleted")
        if stopped:
            pod_writes.release(step, pods.members(step.state.pods), JobReason.WORKLOAD_DELETED)
        # Its quota counts, and no other is made, as long as pods of it run.
        if stopped and not _is_active(step, job):
            release(step, workload, JobReason.WORKLOAD_DELETED)
    elif job.refused:
        _hold(step, workload)
    elif job.end is not None:
        finish(step, workload, "Succeeded" if job.end.success else "Failed", job.end.message, JobReason.JOB_FINISHED)
    elif not _told(step, job, workload):
        _with_workload(step, job, workload)


def _unmatched(step: JobPass, job: events.QueuedJobObserved) -> None:
    """A job that has no Workload gets one, unless it is over or never runs."""
    if job.end is not None:
        pod_writes.release(step, pods.members(step.state.pods), JobReason.JOB_FINISHED)
    elif not job.refused:
        _without_workload(step, job)


def _hold(step: JobPass, workload: events.JobWorkloadObserved) -> None:
    """Take the quota of a job that its own controller has refused: nothing of it will run."""
    if workload.is_true("QuotaReserved"):
        step.write(SetHoldDecided(**writes.head(workload), hold=True, message=_ON_HOLD, reason=JobReason.JOB_REFUSED))


def _ensured(step: JobPass, job: events.QueuedJobObserved) -> matching.Found:
    if pods.is_group(step.state.pods.values()):
        return groups.ensure_one(step, job)
    found = slices.ensure(step, job) if job.elastic and not job.prebuilt else None
    return matching.ensure_one(step, job) if found is None else found


def _without_workload(step: JobPass, job: events.QueuedJobObserved) -> None:
    """Make the Workload, once nothing of the job runs. Of one that runs on workers nobody tells that any more, since
    whoever copies its status does so for its Workload: the next one is dispatched once no copy of it may run, as after
    an eviction."""
    if job.prebuilt:
        stop(step, job, None, JobReason.NO_MATCHING_WORKLOAD, "missing workload")
        return
    elsewhere = job.managed_by == MULTIKUEUE and job.suspended
    if not elsewhere and _is_active(step, job) and slices.with_quota(step, job) is None:
        return
    if step.makes_later():
        return
    if pods.is_group(step.state.pods.values()):
        groups.create(step, job)
        return
    if job.problem:
        step.notice(job, "Warning", JobReason.NOT_COMPOSED, "ErrWorkloadCompose", job.problem)
        return
    if (priority := step.priority(job)) is not None:
        created = slices.creation(step, job, priority) if job.elastic else writes.creation(step, job, priority)
        if created is not None:
            step.write(created)


def _told(step: JobPass, job: events.QueuedJobObserved, workload: events.JobWorkloadObserved) -> bool:
    """Write to the Workload what the job's pods show: which give their quota back, and whether they are ready."""
    if job.reclaimable is not None:
        sizes = {one.name: one.count for one in workload.pod_sets}
        pods = {name: min(count, sizes.get(name, count)) for name, count in job.reclaimable.items()}
        if pods != workload.reclaimable:
            head = writes.head(workload)
            step.write(events.ReclaimablePodsDecided(**head, pods=pods, reason=JobReason.PODS_ENDED))
            return True
    if not step.context.policy.pods_ready:
        return False
    status, reason, message = _readiness(job, workload)
    shown = workload.condition("PodsReady")
    if shown is not None and (shown.status, shown.reason) == (status, reason):
        return False
    step.write(
        events.PodsReadyDecided(
            **writes.head(workload),
            status=status,
            condition_reason=reason,
            message=message,
            reason=JobReason.PODS_READY,
        )
    )
    return True


def _readiness(job: events.QueuedJobObserved, workload: events.JobWorkloadObserved) -> tuple[str, str, str]:
    """Return status, reason and message of PodsReady (`generatePodsReadyCondition`)."""
    shown = workload.condition("PodsReady")
    if not workload.is_true("Admitted"):
        return "False", "WaitForStart", _NOT_READY
    if job.ready:
        again = shown is not None and shown.reason in ("WaitForRecovery", "Recovered")
        return "True", "Recovered" if again else "Started", _READY
    if shown is not None and (shown.status == "True" or shown.reason == "WaitForRecovery"):
        return "False", "WaitForRecovery", _RECOVERING
    return "False", "WaitForStart", _NOT_READY


def _with_workload(step: JobPass, job: events.QueuedJobObserved, workload: events.JobWorkloadObserved) -> None:
    evicted = workload.condition("Evicted")
    if evicted is not None and evicted.status == "True":
        stopped = stop(step, job, workload, JobReason.WORKLOAD_EVICTED, evicted.message)
        if stopped and workload.is_true("QuotaReserved") and not _is_active(step, job):
            _give_back(step, workload, evicted, requeued=evicted.reason in _AT_ONCE)
        elif stopped:
            _deactivated(step, job, workload, evicted)
    elif writes.is_suspended(job):
        _suspended(step, job, workload)
    elif not workload.is_true("Admitted") and not slices.keeps_running(step, job):
        stop(step, job, workload, JobReason.NOT_ADMITTED, "Not admitted by cluster queue")


def _suspended(step: JobPass, job: events.QueuedJobObserved, workload: events.JobWorkloadObserved) -> None:
    """A job that waits starts with the quota it has; until then its Workload follows it to another queue."""
    starts = workload if workload.is_true("Admitted") else slices.with_quota(step, job)
    if starts is not None and starts.is_true("Admitted"):
        _start(step, job, starts)
        return
    if workload.is_true("QuotaReserved"):
        _checks_noticed(step, job, workload)
    if workload.queue != job.queue and not any(one.serving for one in step.state.pods.values()):
        update = events.JobWorkloadUpdateDecided(
            **writes.head(workload), what="queue", queue=job.queue, reason=JobReason.QUEUE_CHANGED
        )
        step.write(update)


def _reserved(workload: events.JobWorkloadObserved) -> bool:
    """Whether an evicted Workload still has its quota."""
    return workload.is_true("Evicted") and workload.is_true("QuotaReserved") and not workload.is_true("Finished")


def _give_back(step: JobPass, workload: events.JobWorkloadObserved, evicted: Condition, *, requeued: bool) -> None:
    step.write(
        events.JobQuotaReleaseDecided(
            **writes.head(workload),
            requeued=requeued,
            eviction=evicted.reason,
            message=evicted.message,
            reason=JobReason.NOTHING_RUNS,
        )
    )


def _is_active(step: JobPass, job: events.QueuedJobObserved) -> bool:
    """Whether anything of a job runs."""
    found, until = pods.runs_until(step.state.pods.values(), step.now)
    step.wake_at(until)
    return job.active or found


def _deactivated(
    step: JobPass, job: events.QueuedJobObserved, workload: events.JobWorkloadObserved, evicted: Condition
) -> None:
    """Delete a job some time after its Workload was deactivated by whoever admits; one that its user deactivated stays
    (`handleWorkloadAfterDeactivatedPolicy`). Of pods those that ran are deleted already, and the others wait."""
    after = step.context.policy.after_deactivated
    if after is None or workload.active or not evicted.reason.startswith(_DEACTIVATED_BY_US):
        return
    if writes.adapter_of(step, job).ends_by_deletion:
        return
    try:
        until = datetime.fromisoformat(evicted.last_transition_time) + after
    except (ValueError, OverflowError):
        return
    if until > step.now:
        step.wake_at(until)
        return
    step.write(
        events.JobDeletionDecided(
            name=job.name,
            uid=job.uid,
            resource_version=job.resource_version,
            kind=job.kind,
            workload=workload.name,
            cause=evicted.reason,
            reason=JobReason.RETENTION_ELAPSED,
        )
    )


def _start(step: JobPass, job: events.QueuedJobObserved, workload: events.JobWorkloadObserved) -> None:
    try:
        found = slices.gated(job, infos(workload, step.context.catalog.flavors))
        if step.state.pods:
            pod_writes.start(step, workload, found)
            return
        adapter = writes.adapter_of(step, job)
        startable(job, found, apart=adapter.infos_apart)
    except FlavorMissing:
        return  # it is waited for: once it is seen, this job is looked at again
    except Unstartable as error:
        finish(step, workload, "FailedToStart", str(error), JobReason.FAILED_TO_START)
        return
    prepared = not adapter.changes_at_rest or job.injected == infos_digest([info_of(one) for one in found])
    step.write(
        events.JobStartDecided(
            step="" if prepared else "prepare",
            name=job.name,
            uid=job.uid,
            resource_version=job.resource_version,
            kind=job.kind,
            body=job.body,
            workload=workload.name,
            cluster_queue=workload.cluster_queue,
            pod_sets=found,
            reason=JobReason.WORKLOAD_ADMITTED,
        )
    )


def _checks_noticed(step: JobPass, job: events.QueuedJobObserved, workload: events.JobWorkloadObserved) -> None:
    waiting = [f"{one.name}: {one.message}" for one in workload.checks if one.state == "Pending" and one.message]
    if waiting:
        step.notice(job, "Normal", JobReason.CHECKS_PENDING, "UpdatedAdmissionCheck", "; ".join(waiting))
