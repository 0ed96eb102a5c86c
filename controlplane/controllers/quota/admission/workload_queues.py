"""Finds the queues of a Workload, and what they say of it.

In: what is known, and the Workload as it was seen. Out: `WorkloadQueues`, on which its next step rests."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from controlplane.controllers.quota.admission import events, facts
from controlplane.controllers.quota.admission.reconcile_step import WorkloadQueues
from controlplane.controllers.quota.engine.admissibility import misconfigured
from controlplane.controllers.quota.engine.cycle import checks_for, checks_for_all
from controlplane.controllers.quota.engine.model import NO_STOP
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.kube import kinds

if TYPE_CHECKING:
    from controlplane.controllers.quota.admission.index import AdmissionIndex

UNTRIED = timedelta(seconds=1)
"""After which time a Workload is told that it was not tried."""


def queues_of(index: AdmissionIndex, seen: events.AdmissionWorkloadObserved) -> WorkloadQueues:
    """Return the queues of a Workload. One that is stopped leads nowhere, as with Kueue."""
    refusal = index.devices.refused.get(f"{seen.namespace}/{seen.name}", "")
    gates = index.engine.settings.preemption_gates
    return replace(_queues_of(index, seen), refusal=refusal, told_at=_told_at(index, seen), gates=gates)


def _told_at(index: AdmissionIndex, seen: events.AdmissionWorkloadObserved) -> datetime | None:
    """Return from when on a Workload is told that it waits though it was not tried: most are tried at once, and need no
    other write."""
    since = index.workload(f"{seen.namespace}/{seen.name}").since
    return since + UNTRIED if index.engine.settings.explicit_status and since is not None else None


def _queues_of(index: AdmissionIndex, seen: events.AdmissionWorkloadObserved) -> WorkloadQueues:
    local: events.AdmissionLocalQueueObserved | None = index.seen(kinds.LOCAL_QUEUES, seen.namespace, seen.queue)
    if local is None or (local.spec.get("stopPolicy") or NO_STOP) != NO_STOP:
        return WorkloadQueues(local=local)
    name = str(local.spec.get("clusterQueue") or "")
    cluster: events.AdmissionClusterQueueObserved | None = index.seen(kinds.CLUSTER_QUEUES, "", name)
    node = index.engine.snapshot.queues.get(name)
    if cluster is None or node is None:
        return WorkloadQueues(local=local, name=name)
    pending = index.engine.queues.pending.get(name)
    workload, key = facts.workload(seen, index.pod_defaults(seen.namespace)), f"{seen.namespace}/{seen.name}"
    problem = misconfigured(index.engine.snapshot, node, workload)
    return WorkloadQueues(
        local=local,
        cluster=cluster,
        name=name,
        active=node.active and not index.engine.snapshot.has_cycle(node),
        checks=_checks(node, seen),
        problem=problem[0] if problem is not None else "",
        no_fit=pending.known_not_to_fit(key) if pending is not None else "",
        tried=index.workload(key).unsaid is not None,
    )


def is_ours(index: AdmissionIndex, seen: events.AdmissionWorkloadObserved) -> bool:
    """Whether a Workload is in a LocalQueue that is there, or has an admission of a ClusterQueue that is."""
    admitted = str((seen.status.get("admission") or {}).get("clusterQueue") or "")
    queue = index.seen(kinds.LOCAL_QUEUES, seen.namespace, seen.queue) if seen.queue else None
    return queue is not None or admitted in index.engine.snapshot.queues


def _checks(node: QueueNode, seen: events.AdmissionWorkloadObserved) -> tuple[str, ...]:
    """Return the admission checks that count: those of the flavors that it has, or those that are for all flavors.

    Without a flavor those that asked for another try stay too: with the state goes how often they did, and one that
    gives up after some tries never would. With Kueue that hangs on whether its scheduler or its controller comes first.
    """
    admission = seen.status.get("admission")
    if admission:
        return checks_for(node.spec, facts.admission(admission).pod_sets)
    counted = {one.get("name") for one in seen.status.get("admissionChecks") or () if one.get("retryCount")}
    for_all = checks_for_all(node.spec)
    return tuple(name for name, _ in node.spec.admission_checks if name in for_all or name in counted)
