"""Why a job or its Workload is written: a closed set, with a sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from controlplane.runtime.phrases import Sentence


class JobReason(StrEnum):
    """The reasons of decisions; parameters are fields of the decision's event."""

    NO_WORKLOAD = "NoWorkload"
    WORKLOAD_ADMITTED = "WorkloadAdmitted"
    NOT_ADMITTED = "NotAdmitted"
    WORKLOAD_EVICTED = "WorkloadEvicted"
    WORKLOAD_DELETED = "WorkloadDeleted"
    NO_MATCHING_WORKLOAD = "NoMatchingWorkload"
    EXTRA_WORKLOAD = "ExtraWorkload"
    ANCESTOR_NOT_ADMITTED = "AncestorNotAdmitted"
    JOB_CHANGED = "JobChanged"
    QUEUE_CHANGED = "QueueChanged"
    PRIORITY_CHANGED = "PriorityChanged"
    GATE_CHANGED = "AdmissionGateChanged"
    JOB_FINISHED = "JobFinished"
    WORKLOAD_FINISHED = "WorkloadFinished"
    OWNER_NOT_FOUND = "OwnerNotFound"
    FAILED_TO_START = "FailedToStart"
    NOTHING_RUNS = "NothingRuns"
    PODS_ENDED = "PodsEnded"
    PODS_READY = "PodsReadyChanged"
    OUT_OF_SYNC = "PrebuiltOutOfSync"
    BOUND = "BoundToPrebuilt"
    CHECKS_PENDING = "ChecksPending"
    PRIORITY_CLASS_NOT_FOUND = "PriorityClassNotFound"
    NOT_COMPOSED = "PodSetsNotComposed"
    NESTED_TOO_DEEP = "NestedTooDeep"
    POD_NOT_MANAGED = "PodNotManaged"
    POD_DELETED = "PodDeleted"
    POD_JOINED = "PodJoined"
    POD_EXCESS = "ExcessPod"
    POD_REPLACED = "PodReplaced"
    PODS_ABSENT = "ReplacementPodsChanged"
    WORKLOAD_NAME_TAKEN = "WorkloadNameTaken"
    RETENTION_ELAPSED = "DeactivationRetentionElapsed"
    DOMAIN_ASSIGNED = "TopologyDomainAssigned"
    JOB_RESIZED = "JobResized"
    JOB_GROWN = "JobGrown"
    SLICE_OVERTAKEN = "WorkloadSliceOvertaken"
    SLICE_ADMITTED = "WorkloadSliceAdmitted"
    POD_OF_SET = "PodOfSet"
    SET_SCALED_DOWN = "SetScaledDown"
    SET_SCALED_UP = "SetScaledUp"
    JOB_REFUSED = "JobRefused"


REASONS: Mapping[JobReason, Sentence] = {
    JobReason.NO_WORKLOAD: Sentence("The job names a queue and has no Workload.", "the job has no Workload"),
    JobReason.WORKLOAD_ADMITTED: Sentence("The job's Workload is admitted.", "its Workload is admitted"),
    JobReason.NOT_ADMITTED: Sentence(
        "The job runs, or would, and its Workload is not admitted.", "its Workload is not admitted"
    ),
    JobReason.WORKLOAD_EVICTED: Sentence("The job's Workload is evicted.", "its Workload is evicted"),
    JobReason.WORKLOAD_DELETED: Sentence("The job's Workload is being deleted.", "its Workload is being deleted"),
    JobReason.NO_MATCHING_WORKLOAD: Sentence(
        "The job has no Workload that asks for what the job does.", "no Workload of the job asks for what it does"
    ),
    JobReason.EXTRA_WORKLOAD: Sentence(
        "The job has another Workload that asks for what it does.", "the job has another Workload that fits it"
    ),
    JobReason.ANCESTOR_NOT_ADMITTED: Sentence(
        "The job belongs to another that has a queue, and that one is not admitted.",
        "the job that it belongs to is not admitted",
    ),
    JobReason.JOB_CHANGED: Sentence(
        "The job was changed while it was suspended and had no quota.", "the job asks for something else now"
    ),
    JobReason.QUEUE_CHANGED: Sentence("The job names another queue.", "the job names another queue"),
    JobReason.PRIORITY_CHANGED: Sentence(
        "The job names another WorkloadPriorityClass.", "the job names another WorkloadPriorityClass"
    ),
    JobReason.GATE_CHANGED: Sentence(
        "The job's annotation `kueue.x-k8s.io/admission-gated-by` is another.", "the job's admission gates are others"
    ),
    JobReason.JOB_FINISHED: Sentence("The job has finished.", "the job has finished"),
    JobReason.WORKLOAD_FINISHED: Sentence("The Workload is finished.", "the Workload is finished"),
    JobReason.OWNER_NOT_FOUND: Sentence("The job is gone, or is being deleted.", "its job is gone"),
    JobReason.FAILED_TO_START: Sentence(
        "The job cannot be started as its Workload was admitted, and never will be.",
        "the job cannot be started as it was admitted",
    ),
    JobReason.NOTHING_RUNS: Sentence(
        "The job of an evicted Workload is stopped, and none of its pods runs.", "none of the job's pods runs any more"
    ),
    JobReason.PODS_ENDED: Sentence(
        "Pods of the job have ended and will not run again.", "pods of the job will not run again"
    ),
    JobReason.PODS_READY: Sentence("Whether the job's pods are ready has changed.", "readiness of its pods changed"),
    JobReason.OUT_OF_SYNC: Sentence(
        "The Workload that the job names asks for something else.", "the named Workload asks for something else"
    ),
    JobReason.BOUND: Sentence("The job names a Workload that nobody owns.", "the job names it"),
    JobReason.CHECKS_PENDING: Sentence(
        "The Workload has quota, and admission checks say what they wait for.", "its admission checks wait"
    ),
    JobReason.PRIORITY_CLASS_NOT_FOUND: Sentence(
        "The WorkloadPriorityClass that the job names is not there.", "its WorkloadPriorityClass is not there"
    ),
    JobReason.NOT_COMPOSED: Sentence("No pod sets can be made of the job.", "no pod sets can be made of the job"),
    JobReason.POD_NOT_MANAGED: Sentence(
        "The pod names a queue, and was created without Kueue's label and scheduling gate.",
        "the pod was created without Kueue's label and scheduling gate",
    ),
    JobReason.POD_JOINED: Sentence(
        "A pod of the group does not own its Workload yet.", "a pod of the group does not own the Workload yet"
    ),
    JobReason.POD_EXCESS: Sentence(
        "The group has more pods than its size or its Workload asks for.", "the group has more pods than it asks for"
    ),
    JobReason.POD_REPLACED: Sentence(
        "The pod has ended, or cannot run, and its group does not need it any more.",
        "the group does not need it any more",
    ),
    JobReason.PODS_ABSENT: Sentence(
        "Whether pods of the group have to be replaced has changed.", "whether pods have to be replaced has changed"
    ),
    JobReason.WORKLOAD_NAME_TAKEN: Sentence(
        "A Workload that is not a group's has the name of the group.", "another Workload has the group's name"
    ),
    JobReason.POD_DELETED: Sentence("The pod is being deleted.", "the pod is being deleted"),
    JobReason.RETENTION_ELAPSED: Sentence(
        "The job's Workload was deactivated by this service for longer ago than such jobs are kept.",
        "its Workload was deactivated for longer ago than such jobs are kept",
    ),
    JobReason.DOMAIN_ASSIGNED: Sentence(
        "The pod's Workload is admitted to domains of a topology, and one of them has a place for the pod.",
        "its Workload is admitted to this domain",
    ),
    JobReason.JOB_RESIZED: Sentence(
        "An elastic job has another size, and its Workload can have it in place: it has no quota, or is smaller now.",
        "the job has another size",
    ),
    JobReason.JOB_GROWN: Sentence(
        "An elastic job is larger than what its Workload has quota for.", "the job is larger than what it has quota for"
    ),
    JobReason.SLICE_OVERTAKEN: Sentence(
        "The elastic job has another Workload, for the size that it has now.", "another Workload is for the job's size"
    ),
    JobReason.SLICE_ADMITTED: Sentence(
        "The pod belongs to an elastic job whose admitted Workload has room for it.", "its Workload has room for it"
    ),
    JobReason.POD_OF_SET: Sentence(
        "The pod belongs to a StatefulSet or LeaderWorkerSet that names a queue.",
        "it belongs to a set that names a queue",
    ),
    JobReason.SET_SCALED_DOWN: Sentence(
        "The set has fewer pods than before: it does not need the Workload, or its quota.", "its set was scaled down"
    ),
    JobReason.SET_SCALED_UP: Sentence("The set has pods again.", "its set was scaled up"),
    JobReason.JOB_REFUSED: Sentence(
        "The job's own controller has refused it, so that nothing of it will run.", "its controller has refused it"
    ),
    JobReason.NESTED_TOO_DEEP: Sentence(
        "The job belongs to another, and that to another, more than ten times.", "it is nested too deep"
    ),
}
