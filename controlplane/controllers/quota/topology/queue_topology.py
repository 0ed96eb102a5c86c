"""Topology as one ClusterQueue sees it: which of its flavors have one, who has to be placed, and who is placed later.

In: the snapshot and a ClusterQueue, and flavors that were found for a workload. Out: placement requests, and whether a
flavor goes with what a pod set asks for, in Kueue's words (kubernetes-sigs/kueue
pkg/scheduler/flavorassigner/tas_flavorassigner.go)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from controlplane.controllers.quota.engine.assignment import Assignment, PodSetResult
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import PodSet, ResourceFlavor
from controlplane.controllers.quota.engine.snapshot import QueueNode, QuotaSnapshot
from controlplane.controllers.quota.topology.fleet import TopologyFlavor
from controlplane.controllers.quota.topology.model import PENDING, READY, Placed, Values
from controlplane.controllers.quota.topology.requests import PlacementRequest, has_levels
from controlplane.controllers.quota.topology.workload_placement import (
    PlacementResult,
    failure,
    placements,
)

NO_INFORMATION = "workload requires Topology, but there is no TAS cache information"
NO_FLAVOR = "no TAS flavor assigned"


class QueueTopology:
    """See the module. `only`: all flavors have a topology, so that pods are placed even where they do not ask for
    it."""

    def __init__(self, snapshot: QuotaSnapshot, queue: QueueNode) -> None:
        self.snapshot, self.queue = snapshot, queue
        self.only = snapshot.topology_only(queue.spec)

    @cached_property
    def flavors(self) -> Mapping[str, TopologyFlavor]:
        """The ClusterQueue's flavors that have a topology."""
        known = self.snapshot.topology.flavors
        return {name: known[name] for group in self.queue.spec.groups for name in group.flavors if name in known}

    def places(self, pod_set: PodSet) -> bool:
        """Return whether a pod set has to be placed."""
        return self.only or pod_set.asks_for_topology

    def concerns(self, info: Info) -> bool:
        """Return whether a pod set of a workload has to be placed."""
        return self.only or any(pod_set.asks_for_topology for pod_set in info.workload.pod_sets)

    def mismatch(self, pod_set: PodSet, flavor: ResourceFlavor, covered: Collection[str]) -> str:
        """Return why a flavor does not go with what a pod set asks of topology, "" if it does. `covered`: the resources
        of the flavor's group. One without a topology may give what pods do not ask of nodes.
        """
        if self.only and not pod_set.asks_for_topology:
            return ""
        if not pod_set.asks_for_topology:
            return f'Flavor "{flavor.name}" supports only TopologyAwareScheduling' if flavor.topology else ""
        assert pod_set.topology is not None
        if not flavor.topology:
            overlaps = any(name in covered for name in pod_set.pod_on_node)
            return f'Flavor "{flavor.name}" does not support TopologyAwareScheduling' if overlaps else ""
        known = self.snapshot.topology.flavors.get(flavor.name)
        if known is None:
            return f'Flavor "{flavor.name}" information missing in TAS cache'
        if not has_levels(pod_set.topology, known.topology.levels):
            return f'Flavor "{flavor.name}" does not contain the requested level'
        return ""

    def requests(self, assignment: Assignment, info: Info) -> dict[str, list[PlacementRequest]]:
        """Return what is to be placed now, by flavor; note on the others that it is placed later, or why it cannot
        be."""
        found: dict[str, list[PlacementRequest]] = {}
        for pod_set in info.workload.pod_sets:
            result = assignment.of(pod_set.name)
            if result is None or result.error or not result.count or not self.places(pod_set):
                continue
            if result.topology is not None and not _has_failed(result, info):
                continue
            request = self._request(result, pod_set, info)
            if request is not None:
                found.setdefault(request.flavor, []).append(request)
            elif result.error:
                assignment.refresh()
        return found

    def requests_in(self, flavor: str, info: Info) -> dict[str, list[PlacementRequest]]:
        """Return what of a workload would be placed now if it got one of the flavors; empty where that has no topology,
        or others place the pods."""
        if flavor not in self.flavors or self._placed_later(info, flavor):
            return {}
        totals = {total.name: total.count for total in info.pod_sets}
        found = [
            self._placement(pod_set, totals[pod_set.name], flavor, info)
            for pod_set in info.workload.pod_sets
            if totals.get(pod_set.name) and self.places(pod_set)
        ]
        return {flavor: found} if found else {}

    def _placed_later(self, info: Info, flavor: str) -> bool:
        """Whether a worker places the pods, or the second pass does once there are nodes."""
        reserves, spec = info.workload.reserves, self.queue.spec
        return self.snapshot.has_multikueue(spec) or (not reserves and self.snapshot.provisions(spec, flavor))

    @staticmethod
    def _placement(pod_set: PodSet, count: int, flavor: str, info: Info) -> PlacementRequest:
        updates = tuple(one for one in info.workload.updates if one.name == pod_set.name)
        return PlacementRequest(pod_set, count, flavor, not pod_set.asks_for_topology, updates)

    def _request(self, result: PodSetResult, pod_set: PodSet, info: Info) -> PlacementRequest | None:
        if not self.flavors:
            result.error = NO_INFORMATION
            return None
        named = self._flavors_of(result)
        if len(named) != 1:
            result.error = f"more than one TAS flavor assigned: {', '.join(named)}" if named else NO_FLAVOR
            return None
        if self._placed_later(info, named[0]):
            result.delayed = PENDING
            return None
        return self._placement(pod_set, result.count, named[0], info)

    def _flavors_of(self, result: PodSetResult) -> list[str]:
        return sorted({given.flavor for given in result.flavors.values() if given.flavor in self.flavors})

    def find(
        self, requests: Mapping[str, list[PlacementRequest]], info: Info, *, empty: bool = False
    ) -> list[PlacementResult]:
        """Return what becomes of requests; `empty`: as if no workload were placed anywhere."""
        return placements(self.flavors, requests, info.workload, empty=empty) if requests else []

    def fits(self, requests: Mapping[str, list[PlacementRequest]], info: Info) -> bool:
        """Return whether requests can be placed as things are."""
        return not requests or failure(self.find(requests, info)) is None

    def note(self, assignment: Assignment, results: Collection[PlacementResult]) -> None:
        """Note in an assignment where pods are placed."""
        for found in results:
            result = assignment.of(found.pod_set)
            if result is None:
                continue
            result.topology = found.assignment
            if found.assignment is not None and result.delayed:
                result.delayed = READY

    def placed(self, assignment: Assignment, info: Info) -> tuple[Placed, ...]:
        """Return which places an assignment takes beside those that the workload has: more than it has of a domain
        counts, fewer do not (`ComputeTASNetUsage` in kubernetes-sigs/kueue
        pkg/scheduler/flavorassigner/flavorassigner.go).
        """
        found: list[Placed] = []
        wanted = {pod_set.name: pod_set for pod_set in info.workload.pod_sets}
        for result in assignment.pod_sets:
            named = self._flavors_of(result) if result.topology is not None else []
            if result.topology is None or len(named) != 1 or result.name not in wanted:
                continue
            has, pod = _places_of(info, result.name), wanted[result.name].pod_on_node
            for key, pods in result.topology:
                if pods > has.get(key, 0):
                    found.append(Placed(named[0], key, pod, pods - has.get(key, 0)))
        return tuple(found)


def _places_of(info: Info, pod_set: str) -> dict[Values, int]:
    """Return where the pods of a pod set are placed that a workload has quota for."""
    admission = info.workload.admission if info.workload.reserves else None
    given = admission.of(pod_set) if admission is not None else None
    return dict(given.topology) if given is not None and given.topology is not None else {}


def _has_failed(result: PodSetResult, info: Info) -> bool:
    """Return whether pods of a pod set are placed on a node that failed."""
    assert result.topology is not None
    return any(name in info.workload.unhealthy_nodes for name in result.topology.lowest)
