"""Quota is neither overdrawn nor charged twice, on any cluster.

In: a simulated Kueue's books and its store. Out: what is wrong with them, if anything: a usage below zero or above the quota, or
another sum than that of the Workloads that hold quota, each counted once.
"""

from __future__ import annotations

from controlplane.kube import WORKLOADS
from controlplane.simulation.deterministic.stage import Place
from controlplane.simulation.kueue_common import holds_quota
from controlplane.simulation.kueue_quota import Usage, usage_of


def overdrawn(place: Place) -> str:
    """Return which queue of a cluster is below zero or above its quota; "" if none is."""
    for name, state in place.life.kueue.queues.cluster_queues.items():
        nominal = {
            (flavor, resource): amount
            for _, flavors in state.groups
            for flavor, quota in flavors
            for resource, amount in quota.items()
        }
        for where, used in state.usage.items():
            if not 0 <= used <= nominal.get(where, 0):
                return f"{name} on {place.name}: {used} of {nominal.get(where, 0)} {where[1]} (thousandths)"
    return ""


def unbalanced(place: Place) -> str:
    """Return which queue's books differ from what its Workloads hold; "" if none does."""
    held: dict[str, Usage] = {}
    for record in place.store.records(WORKLOADS):
        admission = (record.obj.get("status") or {}).get("admission")
        if admission is None or not holds_quota(record.obj):
            continue
        sums = held.setdefault(admission["clusterQueue"], {})
        for where, amount in usage_of(admission).items():
            sums[where] = sums.get(where, 0) + amount
    for name, state in place.life.kueue.queues.cluster_queues.items():
        booked = {where: amount for where, amount in state.usage.items() if amount}
        if booked != held.get(name, {}):
            return f"{name} on {place.name}: booked {booked}, held {held.get(name, {})}"
    return ""
