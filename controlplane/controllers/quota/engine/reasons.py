"""Why a workload has no quota, in the words of Kueue's conditions; and which reason of several is told."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from controlplane.controllers.quota.engine.amounts import UNLIMITED, add, quantity, quota, spelled, sub

# Reasons of a QuotaReserved condition that is False.
NO_MATCHING_FLAVOR = "NoMatchingFlavor"
EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
WAITING_FOR_QUOTA = "WaitingForQuota"
WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
MISCONFIGURED = "Misconfigured"
SUSPENDED = "Suspended"
WAITING_FOR_PODS_READY = "WaitingForPodsReady"

# Why a workload goes back into its queue.
GENERIC = ""
FAILED_AFTER_NOMINATION = "FailedAfterNomination"
NAMESPACE_MISMATCH = "NamespaceMismatch"
PENDING_PREEMPTION = "PendingPreemption"
NO_FIT = "NoFit"
NO_CANDIDATES = "PreemptionNoCandidates"
PREEMPTION_GATED = "PreemptionGated"
OF_ITS_SHAPE = frozenset({NO_FIT, NO_CANDIDATES})
"""What holds of all that are alike to the scheduler."""

# Reasons of a Preempted condition.
IN_CLUSTER_QUEUE = "InClusterQueue"
IN_COHORT_RECLAMATION = "InCohortReclamation"
IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"

NODE_FAILURES = "NodeFailures"
"""Why a workload is evicted of which nodes failed that nothing takes the place of."""

_RISING = ("", TOPOLOGY_PLACEMENT_FAILED, WAITING_FOR_QUOTA, EXCEEDS_MAX_QUOTA, NO_MATCHING_FLAVOR)
_SEVERITY = {reason: at for at, reason in enumerate(_RISING)}

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


class MissingQuota(NamedTuple):
    """How much of a flavor's resource a message says is missing. `never`: it exceeds all that there is."""

    flavor: str
    resource: str
    amount: str
    never: bool = False


def unused_missing(resource: str, flavor: str, missing: int, in_bytes: frozenset[str]) -> str:
    """Return the message of quota that others use; `missing` in the engine's units, `in_bytes` as in `spelled`."""
    amount = spelled(resource, missing, in_bytes)
    return f"insufficient unused quota for {resource} in flavor {flavor}, {amount} more needed"


def beyond_all(resource: str, flavor: str, used: int, amount: int, most: int, in_bytes: frozenset[str]) -> str:
    """Return the message of quota that there is not: `amount` after `used` by pod sets before, of `most`."""
    before, all_ = (spelled(resource, one, in_bytes) for one in (used, most))
    asked = quantity(resource, amount, in_bytes)
    return (
        f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests ({before}) "
        f"+ current podset request ({asked}) > maximum capacity ({all_})"
    )


_MISSING = re.compile(
    r"insufficient (?:unused )?quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), (?:(?P<missing>\S+) more needed|"
    r"previously considered podsets requests \((?P<used>\S+)\) \+ current podset request \((?P<amount>\S+)\)"
    r" > maximum capacity \((?P<most>\S+)\))"
)


def missing_in(message: str) -> tuple[MissingQuota, ...]:
    """Return what a message says is missing, in its order; empty if it names no quota."""
    found = []
    for match in _MISSING.finditer(message):
        resource, flavor = match["resource"], match["flavor"]
        if match["missing"] is not None:
            found.append(MissingQuota(flavor, resource, match["missing"]))
            continue
        used, amount, most = (_amount(resource, match[name]) for name in ("used", "amount", "most"))
        wanted = add(used, amount)
        found.append(MissingQuota(flavor, resource, spelled(resource, sub(wanted, most)), never=True))
    return tuple(found)


def _amount(resource: str, text: str) -> int:
    return UNLIMITED if text == spelled(resource, UNLIMITED) else quota(resource, text)


def no_replacement(nodes: Iterable[str]) -> str:
    """Return the message of a workload that is evicted since nothing takes the place of its nodes that failed."""
    return f"Workload was evicted as there was no replacement for unhealthy node(s): {','.join(nodes)}"
