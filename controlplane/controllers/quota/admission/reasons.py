"""Why a Workload, a queue or a flavor is written, or quota is posted: a closed set, with a sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from controlplane.runtime.phrases import Sentence


class AdmissionReason(StrEnum):
    """The reasons of decisions; parameters are fields of the decision's event."""

    # what a cycle decides
    QUOTA_FITS = "QuotaFits"
    QUOTA_DOES_NOT_FIT = "QuotaDoesNotFit"
    PREEMPTED = "PreemptedForAnother"
    # what follows for a Workload
    OWNER_NOT_FOUND = "WorkloadOwnerNotFound"
    ORPHAN_DELETED = "OrphanDeleted"
    RETRY_TIME_SET = "RetryTimeSet"
    DEACTIVATION_TARGET = "DeactivationTargetSet"
    BACKOFF_FINISHED = "BackoffFinished"
    REACTIVATED = "WorkloadReactivated"
    DEACTIVATED = "WorkloadDeactivated"
    REQUEUE_STATE_CLEARED = "RequeueStateCleared"
    QUEUE_RESTARTED = "QueueRestarted"
    GATE_CHANGED = "AdmissionGateChanged"
    PREEMPTION_GATES_SYNCED = "PreemptionGatesSynced"
    CHECKS_SYNCED = "AdmissionChecksSynced"
    CHECKS_READY = "AdmissionChecksReady"
    CONDITIONS_SYNCED = "AdmissionConditionsSynced"
    CHECK_REJECTED = "AdmissionCheckRejected"
    CHECK_RETRY = "AdmissionCheckRetry"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
    QUEUE_MISSING = "AdmissionQueueMissing"
    EXECUTION_TIME_EXCEEDED = "ExecutionTimeExceeded"
    PODS_NOT_READY = "PodsNotReady"
    REQUEUED_TOO_OFTEN = "RequeuedTooOften"
    RETENTION_ELAPSED = "RetentionElapsed"
    SLICE_REPLACED = "WorkloadSliceReplaced"
    PRIORITY_CHANGED = "PriorityClassChanged"
    WRITE_REFUSED = "ReservationRefused"
    PREEMPTION_PAUSE_OVER = "PreemptionPauseOver"
    # what devices count
    DEVICES_NOT_COUNTED = "DevicesNotCounted"
    DEVICES_COUNTED = "DevicesCounted"
    SLICES_CHANGED = "ResourceSlicesChanged"
    # what topologies say
    DOMAINS_FIT = "TopologyDomainsFit"
    DOMAINS_DO_NOT_FIT = "TopologyDomainsDoNotFit"
    NODES_FAILED = "NodesFailed"
    NODE_FAILED = "NodeFailed"
    NODE_RECOVERED = "NodeRecovered"
    MORE_NODES_FAILED = "MoreNodesFailed"
    POD_UNSCHEDULABLE = "PodUnschedulableOnNode"
    PODS_ENDED = "PodsEndedOnNodes"
    # what follows for queues, flavors and checks
    STATUS_CHANGED = "QueueStatusChanged"
    USAGE_TAKEN_OVER = "UsageTakenOver"
    USAGE_SAMPLED = "UsageSampled"
    PENALTY_SETTLED = "EntryPenaltySettled"
    IN_USE = "ResourceInUse"
    NOT_IN_USE = "ResourceNotInUse"
    # what the ledger posts
    OBSERVED_RESERVATION = "ReservationObserved"
    PODS_RECLAIMED = "PodsReclaimed"
    RESERVATION_CHANGED = "ReservationChanged"
    WORKLOAD_FINISHED = "WorkloadFinished"
    WORKLOAD_DELETED = "WorkloadDeleted"
    RESERVATION_RELEASED = "ReservationReleased"
    RESERVATION_OVERTAKEN = "ReservationOvertaken"


R = AdmissionReason


def _same(text: str) -> Sentence:
    return Sentence(f"{text[0].upper()}{text[1:]}.", text)


REASONS: Mapping[AdmissionReason, Sentence] = {
    R.QUOTA_FITS: _same("the ClusterQueue has the quota, its own or borrowed"),
    R.QUOTA_DOES_NOT_FIT: _same("quota cannot be reserved now"),
    R.PREEMPTED: _same("another Workload needs the quota and may take it"),
    R.OWNER_NOT_FOUND: _same("the job of the Workload is gone"),
    R.ORPHAN_DELETED: _same("the Workload is being deleted and has no owner that keeps it"),
    R.RETRY_TIME_SET: _same("an admission check asks to try again later"),
    R.DEACTIVATION_TARGET: _same("the Workload is to be deactivated"),
    R.BACKOFF_FINISHED: _same("the time after which it may be tried again has come"),
    R.REACTIVATED: _same("the Workload was made active again"),
    R.DEACTIVATED: _same("the Workload is not active"),
    R.REQUEUE_STATE_CLEARED: _same("a Workload that is not active waits for no retry"),
    R.QUEUE_RESTARTED: _same("the queue that had been stopped goes on"),
    R.GATE_CHANGED: _same("the annotation that gates the admission came or went"),
    R.PREEMPTION_GATES_SYNCED: _same(
        "the positions of the gates that keep it from preempting are not those of the gates that it has"
    ),
    R.CHECKS_SYNCED: _same("the states of the admission checks are not those of the ClusterQueue's strategy"),
    R.CHECKS_READY: _same("quota is reserved and all admission checks are ready"),
    R.CONDITIONS_SYNCED: _same("the conditions do not say how the Workload stands"),
    R.CHECK_REJECTED: _same("an admission check rejected the Workload"),
    R.CHECK_RETRY: _same("an admission check asks for another try"),
    R.LOCAL_QUEUE_STOPPED: _same("the LocalQueue is stopped"),
    R.CLUSTER_QUEUE_STOPPED: _same("the ClusterQueue is stopped"),
    R.QUEUE_MISSING: _same("a queue of the Workload is terminating or missing"),
    R.EXECUTION_TIME_EXCEEDED: _same("the Workload ran for longer than it may"),
    R.PODS_NOT_READY: _same("the pods of the Workload were not ready in time"),
    R.REQUEUED_TOO_OFTEN: _same(
        "the Workload was queued again as often as it may since its pods were not ready in time"
    ),
    R.RETENTION_ELAPSED: _same("the Workload finished for longer ago than finished ones are kept"),
    R.SLICE_REPLACED: _same("another slice of the same job took the place of the Workload"),
    R.PRIORITY_CHANGED: _same("the value of its WorkloadPriorityClass changed"),
    R.WRITE_REFUSED: _same("the API server refused a reservation, and it is time to try again"),
    R.PREEMPTION_PAUSE_OVER: _same("it was preempted many times within ten minutes, and the pause after that is over"),
    R.DEVICES_NOT_COUNTED: _same("the devices that the Workload asks for cannot be counted as quota"),
    R.DEVICES_COUNTED: _same("the devices that the Workload asks for can be counted now"),
    R.SLICES_CHANGED: _same("ResourceSlices have changed, and Workloads wait that ask for devices"),
    R.DOMAINS_FIT: _same("the pods of the Workload have places in domains of the topology"),
    R.DOMAINS_DO_NOT_FIT: _same("no domains of the topology have places for the pods of the Workload"),
    R.NODES_FAILED: _same("nodes that the pods of the Workload were placed on have failed, and none takes their place"),
    R.NODE_FAILED: _same(
        "a node that pods of the Workload were placed on is gone, or takes none and runs none of them"
    ),
    R.NODE_RECOVERED: _same("a node that had failed takes pods of the Workload again, or runs some"),
    R.MORE_NODES_FAILED: _same("a node of the Workload has failed before another one was replaced"),
    R.POD_UNSCHEDULABLE: _same(
        "the pod waits for a node that does not take it, or on which its Workload is not placed"
    ),
    R.PODS_ENDED: _same("pods that no topology has placed have ended on nodes that are given out by topology"),
    R.STATUS_CHANGED: _same("the status does not say how the queue stands"),
    R.USAGE_TAKEN_OVER: _same("what the LocalQueue's status says that it used counts from now on"),
    R.USAGE_SAMPLED: _same("the interval is over after which past usage is sampled"),
    R.PENALTY_SETTLED: _same("a Workload was admitted, and its use is sampled from now on"),
    R.IN_USE: _same("the object may be in use, and must not go while it is"),
    R.NOT_IN_USE: _same("the object is being deleted and nothing uses it"),
    R.OBSERVED_RESERVATION: _same("the Workload has quota that this log did not reserve"),
    R.PODS_RECLAIMED: _same("pods of the Workload need their quota no more"),
    R.RESERVATION_CHANGED: _same("the Workload shows another reservation than was posted"),
    R.WORKLOAD_FINISHED: _same("the Workload finished"),
    R.WORKLOAD_DELETED: _same("the Workload is gone"),
    R.RESERVATION_RELEASED: _same("the Workload has no reservation any more"),
    R.RESERVATION_OVERTAKEN: _same("the Workload changed before the reservation was written"),
}
