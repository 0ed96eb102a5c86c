"""Renders what the engine knows as Kueue writes it into the status of Workloads and ClusterQueues.

In: an admission, or a ClusterQueue in its tree with amounts. Out: JSON (kubernetes-sigs/kueue
pkg/cache/scheduler/clusterqueue.go, main after v0.19.2)."""

from __future__ import annotations

from controlplane.controllers.quota.engine.amounts import NO_BYTES, Usage, quantity
from controlplane.controllers.quota.engine.model import PodSetAssignment, QuotaAdmission
from controlplane.controllers.quota.engine.snapshot import QueueNode, QuotaSnapshot
from controlplane.controllers.quota.topology.parse import rendered
from controlplane.kube.kinds import Json

_REASONS = (
    ("is stopped", "Stopped"),
    ("references missing ResourceFlavor", "FlavorNotFound"),
    ("references missing AdmissionCheck", "AdmissionCheckNotFound"),
    ("references inactive AdmissionCheck", "AdmissionCheckInactive"),
    ("Cannot use multiple MultiKueue", "MultipleMultiKueueAdmissionChecks"),
    ("Cannot specify MultiKueue", "MultiKueueAdmissionCheckAppliedPerFlavor"),
    ("Cannot use both MultiKueue", "MultiKueueWithProvisioningRequest"),
    ("there is no Topology", "TopologyNotFound"),
)


def admission_of(given: QuotaAdmission, in_bytes: frozenset[str] = NO_BYTES) -> Json:
    """Return an admission as it is written; `in_bytes`: resources that are spelled as bytes."""
    return {
        "clusterQueue": given.cluster_queue,
        "podSetAssignments": [_assignment(one, in_bytes) for one in given.pod_sets],
    }


def _assignment(given: PodSetAssignment, in_bytes: frozenset[str]) -> Json:
    made: Json = {
        "name": given.name,
        "flavors": dict(given.flavors),
        "resourceUsage": {resource: quantity(resource, amount, in_bytes) for resource, amount in given.usage.items()},
        "count": given.count,
    }
    if given.topology is not None:
        made["topologyAssignment"] = rendered(given.topology)
    if given.delayed:
        made["delayedTopologyRequest"] = given.delayed
    return made


def readiness(snapshot: QuotaSnapshot, queue: QueueNode) -> tuple[bool, str, str]:
    """Return whether a ClusterQueue admits, with reason and message of its condition Active."""
    found = snapshot.inactive_reasons(queue)
    if not found:
        return True, "Ready", "Can admit new workloads"
    reason = next((reason for prefix, reason in _REASONS if found[0].startswith(prefix)), "Unknown")
    return False, reason, f"Can't admit new workloads: {', '.join(found)}."


def cluster_queue_usage(queue: QueueNode, usage: Usage, in_bytes: frozenset[str] = NO_BYTES) -> list[Json]:
    """Return amounts as `flavorsReservation` and `flavorsUsage` of a ClusterQueue have them: with what of each is
    borrowed."""
    found = []
    for group in queue.spec.groups:
        for flavor in group.flavors:
            resources = []
            for resource in sorted(group.covered):
                used = usage.get((flavor, resource), 0)
                over = used - queue.quota((flavor, resource)).nominal if queue.parent is not None else 0
                resources.append(
                    {
                        "name": resource,
                        "total": quantity(resource, used, in_bytes),
                        "borrowed": quantity(resource, over, in_bytes) if over > 0 else "0",
                    }
                )
            found.append({"name": flavor, "resources": resources})
    return found


def local_queue_usage(queue: QueueNode, usage: Usage, in_bytes: frozenset[str] = NO_BYTES) -> list[Json]:
    """Return amounts as `flavorsReservation` and `flavorsUsage` of a LocalQueue have them."""
    return [
        {
            "name": flavor,
            "resources": [
                {"name": resource, "total": quantity(resource, usage.get((flavor, resource), 0), in_bytes)}
                for resource in sorted(group.covered)
            ],
        }
        for group in queue.spec.groups
        for flavor in group.flavors
    ]
