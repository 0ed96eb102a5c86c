"""The decisions that several steps take alike: to finish a Workload, to let it go, to tell a user.

In: a pass of deciding about a job. Out: decisions added to it. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.context import ClassMissing, JobContext, WorkloadPriority
from controlplane.controllers.jobframework.names import name_of_workload
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.state import QueuedJobState
from controlplane.job_kinds.base import JobKind
from controlplane.kube.kueue_names import RESOURCE_IN_USE
from controlplane.log.event import Event
from controlplane.runtime.decision_pass import DecisionPass


class JobPass(DecisionPass[QueuedJobState, Event, events.JobWrite]):
    """One pass about a job; `context` is what is around it."""

    def __init__(self, context: JobContext, state: QueuedJobState, now: datetime) -> None:
        super().__init__(state, now)
        self.context = context

    def workloads(self) -> list[events.JobWorkloadObserved]:
        """Return the job's Workloads, by name."""
        return sorted(self.state.workloads.values(), key=lambda one: (one.name, one.uid))

    def write(self, decision: events.JobWrite) -> bool:
        """Add a write, unless it was in vain at this very version."""
        if decision.resource_version and self.state.vain.get(decision.target) == decision.resource_version:
            return False
        return super().write(decision)

    def makes_later(self) -> bool:
        """Return whether the next Workload has to wait, since those before went one soon after the other."""
        until = self.state.next_workload
        if until is None or until <= self.now:
            return False
        self.wake_at(until)
        return True

    def notice(
        self,
        job: events.QueuedJobObserved,
        type_: str,
        reason: JobReason,
        event_reason: str,
        note: str,
        *,
        object_: str = "",
    ) -> None:
        """Tell the user something, once. `object_`: of which object, if that is not the job of the stream."""
        if self.state.said.get(event_reason) != note:
            self.write(
                events.JobNoticeDecided(
                    name=event_reason,
                    uid=job.uid,
                    kind=job.kind,
                    type=type_,
                    event_reason=event_reason,
                    note=note,
                    object=object_,
                    reason=reason,
                )
            )

    def priority(self, job: events.QueuedJobObserved, *, told_of: str = "") -> WorkloadPriority | None:
        """Return the priority that a job asks for; None if its class is missing. Kueue tells that of a
        WorkloadPriorityClass, and says nothing of a PriorityClass; it is waited for.
        """
        try:
            return self.context.catalog.priority(job)
        except ClassMissing as missing:
            if missing.of_workloads:
                note = f'WorkloadPriorityClass "{missing.name}" not found'
                why = JobReason.PRIORITY_CLASS_NOT_FOUND
                self.notice(job, "Warning", why, "WorkloadPriorityClassNotFound", note, object_=told_of)
            return None


def head(workload: events.JobWorkloadObserved) -> dict[str, Any]:
    """Return which Workload a decision is about, and its version."""
    return {"name": workload.name, "uid": workload.uid, "resource_version": workload.resource_version}


def creation(
    step: JobPass, job: events.QueuedJobObserved, priority: WorkloadPriority
) -> events.JobWorkloadCreationDecided:
    """Return the decision to create a job's Workload."""
    extra = str(job.generation) if job.elastic else ""
    if job.sized_at:
        extra += f"_{job.sized_at}"
    return events.JobWorkloadCreationDecided(
        name=name_of_workload(adapter_of(step, job).kind, job.name, job.uid, extra),
        job_uid=job.uid,
        body=job.body,
        runtime=job.runtime,
        queue=job.queue,
        priority=priority.value,
        priority_class=priority.class_name,
        pods={one.name: one.count for one in job.pod_sets},
        label_keys=list(step.context.policy.label_keys),
        annotation_keys=list(step.context.policy.annotation_keys),
        reason=JobReason.NO_WORKLOAD,
    )


def finish(step: JobPass, workload: events.JobWorkloadObserved, why: str, message: str, reason: JobReason) -> None:
    """Finish a Workload."""
    decision = events.JobWorkloadFinishDecided(**head(workload), finish_reason=why, message=message, reason=reason)
    step.write(decision)


def release(step: JobPass, workload: events.JobWorkloadObserved, reason: JobReason) -> bool:
    """Take Kueue's finalizer from a Workload; return whether it has none."""
    if RESOURCE_IN_USE not in workload.finalizers:
        return True
    kept = [one for one in workload.finalizers if one != RESOURCE_IN_USE]
    step.write(events.JobWorkloadReleaseDecided(**head(workload), finalizers=kept, reason=reason))
    return False


def is_suspended(job: events.QueuedJobObserved) -> bool:
    """Whether a job is suspended, and not on the way there."""
    return job.suspended and not job.stopping


def adapter_of(step: JobPass, job: events.QueuedJobObserved) -> JobKind:
    """Return the adapter of a job's kind."""
    return next(one for kind, one in step.context.policy.adapters.items() if kind.name == job.kind)
