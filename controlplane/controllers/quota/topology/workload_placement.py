"""Places all pod sets of a workload: flavor by flavor, group by group, each beside those before it.

In: requests by flavor. Out: for each pod set a topology assignment, or why there is none. Pod sets of one group are
placed together, the smaller one as the leader. Where a workload has nodes that failed, only their pods are placed anew,
and not even these if it is that of a single pod (kubernetes-sigs/kueue pkg/cache/scheduler/clusterqueue_snapshot.go,
FindTopologyAssignmentsForWorkload)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane.controllers.quota.engine.amounts import add
from controlplane.controllers.quota.engine.model import Workload
from controlplane.controllers.quota.topology.counts import Assumed, Situation
from controlplane.controllers.quota.topology.fleet import TopologyFlavor
from controlplane.controllers.quota.topology.model import TopologyAssignment
from controlplane.controllers.quota.topology.placement import place
from controlplane.controllers.quota.topology.replacement import replacement
from controlplane.controllers.quota.topology.requests import PlacementRequest, Refusal
from controlplane.kube.well_known import PODS_RESOURCE

RequestsByFlavor = Mapping[str, list[PlacementRequest]]


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """What became of a pod set: where it is placed, or why it is not."""

    pod_set: str
    flavor: str
    assignment: TopologyAssignment | None
    refusal: str = ""


def placements(
    flavors: Mapping[str, TopologyFlavor], requests: RequestsByFlavor, workload: Workload, *, empty: bool = False
) -> list[PlacementResult]:
    """Return what becomes of the pod sets of a workload; `empty`: as if no workload were placed anywhere."""
    found: list[PlacementResult] = []
    on_nodes: Assumed = {}
    for name in sorted(requests):
        flavor = flavors[name]
        assumed = on_nodes if flavor.topology.of_nodes else {}
        found += _of_flavor(flavor, requests[name], workload, Situation(assumed, empty))
    return found


def failure(results: Iterable[PlacementResult]) -> PlacementResult | None:
    """Return the first pod set that could not be placed."""
    return next((one for one in results if one.refusal), None)


def _of_flavor(
    flavor: TopologyFlavor, requests: list[PlacementRequest], workload: Workload, situation: Situation
) -> list[PlacementResult]:
    found: list[PlacementResult] = []
    for group in _groups(requests):
        try:
            if workload.unhealthy_nodes:
                found += _replaced(flavor, group, workload, situation)
            else:
                found += _placed(flavor, group, situation)
        except Refusal as refusal:
            told = str(refusal)
            return found + [PlacementResult(one.pod_set.name, flavor.name, None, told) for one in group]
        if failure(found) is not None:
            break
    return found


def _groups(requests: list[PlacementRequest]) -> Iterable[list[PlacementRequest]]:
    found: dict[str | int, list[PlacementRequest]] = {}
    for at, request in enumerate(requests):
        found.setdefault(request.topology.group or at, []).append(request)
    return found.values()


def _placed(flavor: TopologyFlavor, group: list[PlacementRequest], situation: Situation) -> list[PlacementResult]:
    workers, leader = group[0], group[1] if len(group) > 1 else None
    if leader is not None and leader.count > workers.count:
        workers, leader = leader, workers
    assigned = place(flavor, workers, leader, situation)
    found = []
    for one in group:
        given = assigned.get(one.pod_set.name)
        if given is not None:
            _assume(situation.assumed, given, one)
        found.append(PlacementResult(one.pod_set.name, flavor.name, given))
    return found


def _replaced(
    flavor: TopologyFlavor, group: list[PlacementRequest], workload: Workload, situation: Situation
) -> list[PlacementResult]:
    found = []
    for one in group:
        given = workload.admission.of(one.pod_set.name) if workload.admission is not None else None
        if given is None or given.topology is None:
            continue
        if workload.of_pod:
            # The pod stays where it is, and no other one comes in its place: another assignment would only say what is
            # not so.
            found.append(PlacementResult(one.pod_set.name, flavor.name, given.topology))
            continue
        try:
            whole, new = replacement(flavor, one, given.topology, workload.unhealthy_nodes[0], situation)
        except Refusal as refusal:
            found.append(PlacementResult(one.pod_set.name, flavor.name, None, str(refusal)))
            return found
        _assume(situation.assumed, new, one)
        found.append(PlacementResult(one.pod_set.name, flavor.name, whole))
    return found


def _assume(assumed: Assumed, given: TopologyAssignment, request: PlacementRequest) -> None:
    pod = request.pod_set.pod_on_node
    for key, pods in given:
        used = assumed.setdefault(key, {})
        for name, amount in (*pod.items(), (PODS_RESOURCE, 1)):
            used[name] = add(used.get(name, 0), amount * pods)
