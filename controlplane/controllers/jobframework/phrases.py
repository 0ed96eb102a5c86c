"""What each event about jobs and their Workloads says, in a few words."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.jobframework import (
    events,
    namespace_events,
    pod_events,
    runtime_events,
    set_events,
    topology_events,
)
from controlplane.kube.topologies import TOPOLOGY_GATE
from controlplane.log.event import Event
from controlplane.runtime.phrases import Phrase, refused_write, told

WRITES: Mapping[str, str] = {
    "JobWorkloadCreationDecided": "the Workload",
    "JobWorkloadUpdateDecided": "the Workload's spec",
    "JobWorkloadRemovalDecided": "the deletion of the Workload",
    "JobWorkloadReleaseDecided": "the removal of the finalizer",
    "JobWorkloadFinishDecided": "the condition Finished",
    "JobQuotaReleaseDecided": "the end of the reservation",
    "ReclaimablePodsDecided": "the reclaimable pods",
    "PodsReadyDecided": "the condition PodsReady",
    "PodReplacementDecided": "the condition WaitingForReplacementPods",
    "JobStartDecided": "the start of the job",
    "JobStopDecided": "the stop of the job",
    "JobDeletionDecided": "the deletion of the job",
    "JobNoticeDecided": "an Event",
    "SetWorkloadCreationDecided": "the Workload",
    "SetHoldDecided": "whether the Workload is on hold",
    "PodJoinDecided": "the pod's group",
    "PodStartDecided": "the start of the pod",
    "PodTerminationDecided": "the condition TerminationTarget",
    "PodDeletionDecided": "the deletion of the pod",
    "PodReleaseDecided": "the removal of the pod's finalizer",
    "PodUngateDecided": "the domain of the pod",
}
_STEPS = {
    "suspend": "job is to be suspended",
    "reset": "start time of the job is to be cleared",
    "restore": "pod templates of the job are to be what they were",
}
_WHAT = {
    "spec": "Workload {e.name} is to ask for what the job does",
    "queue": "Workload {e.name} is to go to queue {e.queue}",
    "priority": "Workload {e.name} is to have priority {e.priority}",
    "gate": "Workload {e.name} is to be gated by {e.gated_by}",
    "owner": "Workload {e.name} is to belong to the job",
    "members": "Workload {e.name} is to belong to all pods of the group",
    "references": "Workload {e.name} is to belong to its set",
}


def _job(event: events.QueuedJobObserved) -> str:
    if event.end is not None:
        state = "has succeeded" if event.end.success else "has failed"
    elif event.deleting:
        state = "is being deleted"
    else:
        state = "is suspended" if event.suspended else "runs" if event.active else "is not suspended"
    return f"job {state}" + (f", in queue {event.queue}" if event.queue else "")


def _pod(event: pod_events.QueuedPodObserved) -> str:
    if not event.managed:
        return f"pod {event.name} is in queue {event.queue}, and not looked after"
    state = "is being deleted" if event.deleting else "is gated" if event.gated else f"is {event.phase or 'Pending'}"
    return f"pod {event.name} {state}, in queue {event.queue}" + (f", of group {event.group}" if event.group else "")


def _workload(event: events.JobWorkloadObserved) -> str:
    states = {"Finished": "is finished", "Evicted": "is evicted", "Admitted": "is admitted"}
    said = next((text for type_, text in states.items() if event.is_true(type_)), "")
    return f"Workload {event.name} {said or ('has quota' if event.is_true('QuotaReserved') else 'waits')}"


def _pods(pods: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of {name}" for name, count in pods.items()) or "none"


def _start(event: events.JobStartDecided) -> str:
    start = (
        "job is to have, before it starts, what it is to start with," if event.step == "prepare" else "job is to start,"
    )
    return f"{start} admitted by {event.cluster_queue}: {_pods({one.name: one.count for one in event.pod_sets})}"


def _placed_pod(event: topology_events.TopologyPodObserved) -> str:
    where = ", ".join(event.node_selector.values())
    state = "waits for its domain" if TOPOLOGY_GATE in event.gates else f"may run in {where}" if where else "may run"
    return f"pod {event.name} of {event.workload} {state}"


def _ungate(event: topology_events.PodUngateDecided) -> str:
    rank = "" if event.rank is None else f", at rank {event.rank} of {event.pod_set}"
    return f"pod {event.name} is to run in {', '.join(event.node_selector.values())}{rank}"


PHRASES: Mapping[type[Event], Phrase] = told(
    {
        events.QueuedJobObserved: _job,
        events.QueuedJobGone: "job is gone",
        events.JobWorkloadObserved: _workload,
        events.JobWorkloadGone: "Workload {e.name} is gone",
        events.JobFlavorObserved: "ResourceFlavor {e.name} is there",
        events.JobFlavorGone: "ResourceFlavor {e.name} is gone",
        events.JobPriorityClassObserved: "priority class {e.name} has value {e.value}",
        events.JobPriorityClassGone: "priority class {e.name} is gone",
        namespace_events.JobNamespaceObserved: "namespace {e.name} is there",
        namespace_events.JobNamespaceGone: "namespace {e.name} is gone",
        runtime_events.JobRuntimeObserved: "{e.kind} {e.name} says what pods of jobs are",
        runtime_events.JobRuntimeGone: "{e.kind} {e.name} is gone",
        events.JobInputRefused: "{e.kind} {e.name} cannot be read: {e.error}",
        events.JobWorkloadCreationDecided: lambda e: f"Workload {e.name} is to be created for {_pods(e.pods)}",
        events.JobWorkloadUpdateDecided: lambda e: _WHAT.get(e.what, "Workload {e.name} is to change").format(e=e),
        events.JobWorkloadRemovalDecided: "Workload {e.name} is to be deleted",
        events.JobWorkloadReleaseDecided: "Workload {e.name} is to be let go",
        events.JobWorkloadFinishDecided: "Workload {e.name} is to be finished: {e.finish_reason}",
        events.JobQuotaReleaseDecided: "quota of Workload {e.name} is to be free",
        events.ReclaimablePodsDecided: lambda e: f"pods that will not run again: {_pods(e.pods)}",
        events.PodsReadyDecided: "PodsReady of Workload {e.name} is to be {e.status}",
        events.PodReplacementDecided: "WaitingForReplacementPods of Workload {e.name} is to be {e.status}",
        events.JobStartDecided: _start,
        events.JobStopDecided: lambda e: _STEPS.get(e.step, "job is to be stopped"),
        events.JobDeletionDecided: "job is to be deleted, since Workload {e.workload} is {e.cause}",
        pod_events.QueuedPodObserved: _pod,
        pod_events.QueuedPodGone: "pod {e.name} is gone",
        pod_events.PodStartDecided: "pod {e.name} is to start, admitted by {e.cluster_queue}",
        pod_events.PodTerminationDecided: "pod {e.name} is to say why it is deleted: {e.condition_reason}",
        pod_events.PodDeletionDecided: "pod {e.name} is to be deleted",
        pod_events.PodReleaseDecided: "pod {e.name} is to be let go",
        topology_events.TopologyPodObserved: _placed_pod,
        topology_events.TopologyPodGone: "pod {e.name} is gone, or has ended",
        topology_events.PodUngateDecided: _ungate,
        set_events.QueuedSetObserved: lambda e: (
            f"{e.kind} {e.name} has {e.groups} of {_pods(e.pods)}, in queue {e.queue}"
        ),
        set_events.QueuedSetGone: "{e.kind} {e.name} is gone",
        set_events.SetWorkloadCreationDecided: lambda e: f"Workload {e.name} is to be created for {_pods(e.pods)}",
        set_events.SetHoldDecided: lambda e: (
            f"Workload {e.name} is to be {'put on hold' if e.hold else 'queued again'}"
        ),
        set_events.PodJoinDecided: "pod {e.name} is to be of group {e.group}",
        events.JobNoticeDecided: "the user is told: {e.note}",
        events.JobWriteFailed: lambda e: refused_write(e, WRITES),
        events.JobWriteUnneeded: lambda e: f"{WRITES.get(e.action, e.action)} is settled",
    }
)
