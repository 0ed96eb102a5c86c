"""Stops a job, step by step: one that can be suspended is, pods are deleted.

In: a pass of deciding about a job. Out: the next step, added to it. Pure."""

from __future__ import annotations

from controlplane.controllers.jobframework import events, pod_writes
from controlplane.controllers.jobframework.pod_sets import is_restored
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.writes import JobPass, adapter_of
from controlplane.job_kinds.base import JobKind

_WAIT = "wait"


def _next_step(
    adapter: JobKind, job: events.QueuedJobObserved, workload: events.JobWorkloadObserved | None, *, child: bool
) -> str:
    """Return what is to be done next to stop a job; nothing if it is as it was before it started."""
    if not job.suspended:
        return "suspend"
    if child:
        return ""
    if adapter.changes_at_rest and job.injected:
        return _WAIT if job.active else "restore"
    if not adapter.stops_by_steps:
        return ""
    if job.started:
        return "reset"
    return "restore" if job.stopping or not is_restored(job, workload) else ""


def stop(
    step: JobPass,
    job: events.QueuedJobObserved,
    workload: events.JobWorkloadObserved | None,
    reason: JobReason,
    message: str,
    *,
    child: bool = False,
) -> bool:
    """Take the next step that stops a job; return whether none is left. A child job is only suspended."""
    adapter = adapter_of(step, job)
    if adapter.ends_by_deletion:
        return pod_writes.stop(step, workload, reason, message)
    todo = _next_step(adapter, job, workload, child=child)
    if not todo:
        return True
    if todo == _WAIT:
        return False
    decision = events.JobStopDecided(
        name=job.name,
        uid=job.uid,
        resource_version=job.resource_version,
        kind=job.kind,
        step=todo,
        body=job.body,
        spec=workload.spec if workload is not None and not child and not adapter.changes_at_rest else "",
        message=message,
        quiet=child,
        reason=reason,
    )
    step.write(decision)
    return False
