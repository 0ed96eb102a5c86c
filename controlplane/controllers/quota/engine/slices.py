"""Workload slices: a job that grows while it runs gets a larger workload, which takes the place of the one that it has.

In: workloads that have quota, and what a new slice is to get. Out: which slice it replaces, what it needs beyond that,
and for how much an old slice counts. Together both count for as much as the larger one, resource by resource, from the
decision on until the old one has ended. Kueue has the old slice among the targets of the new one, and counts it as gone
for all that it considers later in the cycle, so that what it has may be given away twice; here it is there until it has
ended (kubernetes-sigs/kueue pkg/workloadslicing/workloadslicing.go, pkg/scheduler/scheduler.go)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from controlplane.controllers.quota.engine.amounts import Requests, Usage, add, sub
from controlplane.controllers.quota.engine.info import Info, PodSetRequests
from controlplane.controllers.quota.engine.model import Workload


class Replacements:
    """Which workloads that have quota take the place of which others: their keys, by the key of the other one."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, None]] = {}

    def put(self, workload: Workload) -> str:
        """Note that a workload has quota; return whose place it takes, "" for nobody's."""
        if workload.replaces:
            self._of.setdefault(workload.replaces, {})[workload.key] = None
        return workload.replaces

    def drop(self, workload: Workload) -> str:
        """Note that it has no quota any more; return whose place it took."""
        found = self._of.get(workload.replaces, {})
        found.pop(workload.key, None)
        if not found:
            self._of.pop(workload.replaces, None)
        return workload.replaces

    def of(self, key: str) -> Collection[str]:
        """Return who has quota in the place of a workload."""
        return self._of.get(key, {}).keys()

    def counted(self, info: Info, workloads: Mapping[str, Info]) -> Info:
        """Return a workload that has quota with what covers it: slices that took its place, in the same ClusterQueue.
        One that got quota after them is no old slice about to end: it counts for all that it has."""
        covered: Usage = {}
        since = info.workload.reserved_at or 0.0
        for key in self.of(info.key):
            other = workloads[key]
            if other.cluster_queue != info.cluster_queue or (other.workload.reserved_at or 0.0) < since:
                continue
            for place, amount in other.reserved.items():
                covered[place] = add(covered.get(place, 0), amount)
        return info if covered == info.covered else replace(info, covered=covered)


def replaced_slice(info: Info, workloads: Mapping[str, Info], gone: Collection[str]) -> Info | None:
    """Return the slice whose place a workload is to take. `workloads`: those that have quota in its ClusterQueue;
    `gone`: those that count as gone. None if that has no quota there, or another slice has taken its place: all of it
    is needed then."""
    key = info.workload.replaces
    found = workloads.get(key) if key and key not in gone else None
    return found if found is not None and not found.covered else None


def before(old: Info | None, pod_set: str) -> PodSetRequests | None:
    """Return what the old slice has of a pod set, by its name."""
    return next((one for one in old.pod_sets if one.name == pod_set), None) if old is not None else None


def beyond(old: Info | None, pod_set: str, resource: str, amount: int) -> int:
    """Return how much of a resource a pod set needs beyond what the old slice has; less than 0 if it needs less."""
    found = before(old, pod_set)
    return amount if found is None else sub(amount, found.requests.get(resource, 0))


def more_pods(old: Info | None, total: PodSetRequests, count: int) -> Requests:
    """Return what preemption has to make room for: the requests of the pods that `count` pods are more than before."""
    found = before(old, total.name)
    return total.scaled_to(count if found is None else count - found.count).requests


def other_flavor(old: Info | None, pod_set: str, resource: str, flavor: str) -> str | None:
    """Return which flavor the old slice has of a resource, "" for none, if it is another one: a slice keeps its
    flavors."""
    if old is None:
        return None
    found = before(old, pod_set)
    has = found.flavors.get(resource, "") if found is not None else ""
    return has if has != flavor else None
