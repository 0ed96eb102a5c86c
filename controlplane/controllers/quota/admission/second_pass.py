"""Decides about Workloads that have quota and are considered once more: for a topology assignment that was delayed, or
in the place of nodes that failed.

In: the engine's decisions. Out: events, and when the next try is due. Nothing is decided about a Workload while a write
of it is open. Source: kubernetes-sigs/kueue pkg/scheduler/scheduler.go, pkg/cache/queue/second_pass_queue.go,
ff69552e."""

from __future__ import annotations

from datetime import UTC, datetime

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission import topology_events as of_topology
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.admission.reasons import AdmissionReason as R
from controlplane.controllers.quota.admission.state import WorkloadState, rests
from controlplane.controllers.quota.admission.workload_writes import status_of, target_of, write_fields
from controlplane.controllers.quota.engine import decisions
from controlplane.controllers.quota.engine.rendering import admission_of

OF_ITS_OWN = (
    of_topology.TopologyAssignmentDecided,
    of_topology.TopologyAssignmentFailed,
    events.WorkloadStatusDecided,
)
"""What is decided about a Workload that has quota."""


def is_busy(state: WorkloadState, now: datetime) -> bool:
    """Whether nothing is to be decided about a Workload now: a write of it is open, or was refused."""
    return bool(state.effects) or rests(state, now)


def next_try(index: AdmissionIndex, now: datetime) -> datetime | None:
    """Return when a Workload is to be considered again, if nothing happens before."""
    found = []
    for key, one in index.engine.second_pass.tries.items():
        state = index.workload(key)
        at = max([datetime.fromtimestamp(one.due, UTC), *(trouble.until for trouble in state.trouble.values())])
        if at > now and not state.effects:
            found.append(at)
    return min(found, default=None)


def assignment(
    index: AdmissionIndex,
    decision: decisions.Admit,
    seen: events.AdmissionWorkloadObserved,
    number: int,
    now: datetime,
) -> of_topology.TopologyAssignmentDecided:
    """Return that a Workload is placed; with that it is admitted, if all its checks are ready."""
    admission = admission_of(decision.admission, index.engine.settings.devices.in_bytes)
    status = status_of(seen, now)
    status.status["unhealthyNodes"] = None
    status.reserve(admission, decision.checks)
    found = write_fields(seen.status, status.status)
    found["changes"].pop("admission", None)
    return of_topology.TopologyAssignmentDecided(
        **target_of(seen),
        **found,
        reason=R.DOMAINS_FIT,
        cycle=number,
        cluster_queue=decision.cluster_queue,
        admission=admission,
        admitted=status.is_true("Admitted") and not status_of(seen, now).is_true("Admitted"),
    )


def failure(decision: decisions.Inadmissible, number: int) -> of_topology.TopologyAssignmentFailed:
    """Return that a Workload cannot be placed yet."""
    return of_topology.TopologyAssignmentFailed(
        reason=R.DOMAINS_DO_NOT_FIT,
        cycle=number,
        cluster_queue=decision.cluster_queue,
        message=decision.message,
        tries=decision.second_pass,
    )


def eviction(
    decision: decisions.Evict, seen: events.AdmissionWorkloadObserved, now: datetime
) -> events.WorkloadStatusDecided:
    """Return that a Workload is evicted, since nothing takes the place of nodes that failed."""
    status = status_of(seen, now)
    status.evict(decision.reason, decision.message)
    return events.WorkloadStatusDecided(
        **target_of(seen),
        **write_fields(seen.status, status.status),
        reason=R.NODES_FAILED,
        evicted=decision.reason,
        message=decision.message,
    )


def notice(state: WorkloadState) -> of_topology.SecondPassNoticeDecided | None:
    """Return that users are told why a Workload cannot be placed yet; None if they were told."""
    seen, failed = state.observed, state.unplaced
    if seen is None or failed is None or failed.message == state.told:
        return None
    return of_topology.SecondPassNoticeDecided(**target_of(seen), message=failed.message, reason=R.DOMAINS_DO_NOT_FIT)
