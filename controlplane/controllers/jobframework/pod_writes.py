"""The decisions about pods that are jobs: to let them run, to delete those that have to stop, to take Kueue's finalizer
away.

In: a pass of deciding about a single pod or a group. Out: decisions added to it. Pure. Source: kubernetes-sigs/kueue
pkg/controller/jobs/pod/pod_controller.go (`Run`, `Stop`, `Finalize`), pkg/controller/jobframework/stop_reason.go,
ff69552e."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from controlplane.controllers.jobframework import events, pods
from controlplane.controllers.jobframework.pod_events import (
    PodDeletionDecided,
    PodReleaseDecided,
    PodStartDecided,
    PodTerminationDecided,
    QueuedPodObserved,
)
from controlplane.controllers.jobframework.pod_sets import Unstartable, check_conflicts
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.writes import JobPass

_NOT_MANAGED = (
    'It names a queue and is not looked after: it was created without the label "kueue.x-k8s.io/managed" and the '
    'scheduling gate "kueue.x-k8s.io/admission", which the webhook adds'
)
_replace = msgspec.structs.replace


def head(pod: QueuedPodObserved) -> dict[str, Any]:
    """Return which pod a decision is about, and its version."""
    return {"name": pod.name, "uid": pod.uid, "resource_version": pod.resource_version}


def strangers_told(step: JobPass) -> None:
    """Tell of pods with a queue that are not looked after, once of each, unless they belong to another job."""
    for pod in pods.strangers(step.state.pods):
        said = events.JobNoticeDecided(
            name=f"PodNotManaged/{pod.name}",
            uid=pod.uid,
            kind=pod.kind,
            type="Warning",
            event_reason="PodNotManaged",
            note=_NOT_MANAGED,
            object=pod.name,
            reason=JobReason.POD_NOT_MANAGED,
        )
        if not pod.owned and not pod.deleting and step.state.said.get(said.name) != said.note:
            step.write(said)


def start(step: JobPass, workload: events.JobWorkloadObserved, found: Sequence[events.PodSetInfo]) -> None:
    """Let the pods run that are gated, each with what its pod set was admitted with; `Unstartable` if one can never
    be."""
    decided = []
    for pod in (one for one in pods.members(step.state.pods) if one.gated and not one.is_over and not one.deleting):
        name = pod.role if pod.group else "main"
        info = next((one for one in found if one.name == name), None)
        if info is None:
            raise Unstartable(f"invalid podset infos: podSetInfo with the name '{name}' is not found")
        for facts in pod.pod_set:
            check_conflicts(facts, info)
        decided.append(
            PodStartDecided(
                **head(pod),
                body=pod.body,
                workload=workload.name,
                cluster_queue=workload.cluster_queue,
                pod_set=info,
                role=pod.role if pod.group else "",
                reason=JobReason.WORKLOAD_ADMITTED,
            )
        )
    for one in decided:
        step.write(one)


def stop(step: JobPass, workload: events.JobWorkloadObserved | None, reason: JobReason, message: str) -> bool:
    """Take the next step that stops pods: each that was let run is told why, and deleted; where the Workload is
    deleted, so are those that wait or have ended. Return whether none is left that has to be.
    """
    left = False
    why = _KUEUES[reason]
    evicted = workload.condition("Evicted") if workload is not None else None
    if reason == JobReason.WORKLOAD_EVICTED and evicted is not None:
        why = f"{why}DueTo{evicted.reason}"
    for pod in pods.members(step.state.pods):
        if pod.deleting or (pod.is_suspended and reason != JobReason.WORKLOAD_DELETED):
            continue
        left = True
        if pod.terminating:
            step.write(PodDeletionDecided(**head(pod), message=message, reason=reason))
        else:
            step.write(PodTerminationDecided(**head(pod), condition_reason=why, message=message, reason=reason))
    return not left


_KUEUES = {
    JobReason.WORKLOAD_DELETED: "WorkloadDeleted",
    JobReason.WORKLOAD_EVICTED: "WorkloadEvicted",
    JobReason.NO_MATCHING_WORKLOAD: "NoMatchingWorkload",
    JobReason.NOT_ADMITTED: "NotAdmitted",
}
"""Kueue's words for why pods are stopped."""


def release(step: JobPass, found: Iterable[QueuedPodObserved], reason: JobReason) -> bool:
    """Take Kueue's finalizer from pods; return whether any of them had it."""
    had = False
    for pod in found:
        if pods.FINALIZER in pod.finalizers:
            had = True
            kept = [one for one in pod.finalizers if one != pods.FINALIZER]
            step.write(PodReleaseDecided(**head(pod), finalizers=kept, reason=reason))
    return had
