"""What keeps a workload from being considered at all, before any quota is looked at.

In: the head of a ClusterQueue. Out: the reason and message of its condition, and why it goes back, or None
(kubernetes-sigs/kueue pkg/scheduler/scheduler.go, pkg/workload/resources.go)."""

from __future__ import annotations

from controlplane.controllers.quota.engine import reasons
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import Workload
from controlplane.controllers.quota.engine.snapshot import QueueNode, QuotaSnapshot
from controlplane.kube.kueue_names import PENDING_EVALUATION

Problem = tuple[str, str, str]


def problem(snapshot: QuotaSnapshot, queue: QueueNode, info: Info) -> Problem | None:
    """Return the reason, the message, and why it goes back into its queue; None if it can be considered."""
    workload = info.workload
    if workload.failed_checks:
        return PENDING_EVALUATION, "The workload has failed admission checks", reasons.GENERIC
    if snapshot.has_cycle(queue) or snapshot.lacks_topology(queue.spec):
        return reasons.SUSPENDED, f"ClusterQueue {queue.name} is inactive", reasons.GENERIC
    found = misconfigured(snapshot, queue, workload)
    return None if found is None else (reasons.MISCONFIGURED, *found)


def misconfigured(snapshot: QuotaSnapshot, queue: QueueNode, workload: Workload) -> tuple[str, str] | None:
    """Return what is wrong with a workload's namespace or requests, and why it goes back; None if nothing is."""
    labels = snapshot.namespaces.get(workload.namespace)
    if labels is None:
        missing = f'workload namespace "{workload.namespace}" does not exist: '
        return f'{missing}namespaces "{workload.namespace}" not found', reasons.GENERIC
    if not queue.spec.namespace_selector.matches(labels):
        return "workload namespace doesn't match ClusterQueue selector", reasons.NAMESPACE_MISMATCH
    excess = [told for pod_set in workload.pod_sets for told in pod_set.excess]
    if excess:
        return f"resources validation failed: {_together(excess)}", reasons.GENERIC
    outside = [told for pod_set in workload.pod_sets for told in pod_set.outside]
    if outside:
        return f"resources didn't satisfy LimitRange constraints: {_together(outside)}", reasons.GENERIC
    return None


def _together(told: list[str]) -> str:
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]"
