"""Why a workload has no quota, in the words of Kueue's conditions; and which reason of several is told."""

from __future__ import annotations

from collections.abc import Iterable

# Reasons of a QuotaReserved condition that is False.
NO_MATCHING_FLAVOR = "NoMatchingFlavor"
EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
WAITING_FOR_QUOTA = "WaitingForQuota"
WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
MISCONFIGURED = "Misconfigured"
SUSPENDED = "Suspended"
WAITING_FOR_PODS_READY = "WaitingForPodsReady"
PENDING_EVALUATION = "PendingEvaluation"

# Why a workload goes back into its queue.
GENERIC = ""
FAILED_AFTER_NOMINATION = "FailedAfterNomination"
NAMESPACE_MISMATCH = "NamespaceMismatch"
PENDING_PREEMPTION = "PendingPreemption"
NO_FIT = "NoFit"
NO_CANDIDATES = "PreemptionNoCandidates"

# Reasons of a Preempted condition.
IN_CLUSTER_QUEUE = "InClusterQueue"
IN_COHORT_RECLAMATION = "InCohortReclamation"
IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"

_SEVERITY = {reason: at for at, reason in enumerate(("", WAITING_FOR_QUOTA, EXCEEDS_MAX_QUOTA, NO_MATCHING_FLAVOR))}

_IN_WORDS = {
    IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    IN_COHORT_RECLAMATION: "reclamation within the cohort",
    IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}


def severity(reason: str) -> int:
    """Return how much stands in the way."""
    return _SEVERITY.get(reason, 0)


def most_severe(reasons: Iterable[str]) -> str:
    """Return the first of the most severe reasons, "" if there are none."""
    return max(reasons, key=severity, default="")


def preempted(uid: str, job_uid: str, reason: str, preemptor: str, preemptee: str) -> str:
    """Return the message of a preemption; the paths lead from the root Cohort to the ClusterQueue."""
    return (
        f"Preempted to accommodate a workload (UID: {uid or 'UNKNOWN'}, JobUID: {job_uid or 'UNKNOWN'}) due to "
        f"{_IN_WORDS[reason]}; preemptor path: {preemptor}; preemptee path: {preemptee}"
    )
