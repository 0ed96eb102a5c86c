"""NodeResourcesFit and NodeResourcesBalancedAllocation
(kubernetes/kubernetes pkg/scheduler/framework/plugins/noderesources, v1.36).
"""

from __future__ import annotations

import numpy as np

from controlplane.controllers.scheduling.framework import plugin as framework
from controlplane.controllers.scheduling.framework.args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    Ratio,
)
from controlplane.controllers.scheduling.framework.status import SKIP, SUCCESS, Code, NodeStatuses, Status
from controlplane.controllers.scheduling.plugins import resources as scoring
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import NATIVE, Pod, is_extended, is_scalar
from controlplane.controllers.scheduling.snapshot.snapshot import Ints, Mask, Snapshot
from controlplane.kube.well_known import TOO_MANY_PODS


class NodeResourcesFit(
    framework.PreFilterPlugin, framework.FilterPlugin, framework.PreScorePlugin, framework.ScorePlugin
):
    """Refuses nodes without room for the pod's requests, with all shortages named; scores by one of three
    strategies.
    """

    name = "NodeResourcesFit"
    args_type = NodeResourcesFitArgs

    def __init__(self, args: NodeResourcesFitArgs | None = None) -> None:
        super().__init__(args or NodeResourcesFitArgs())
        strategy = self.args.scoring_strategy
        self.resources = strategy.resources
        self.strategy: scoring.LeastAllocated | scoring.MostAllocated | scoring.RequestedToCapacityRatio
        if strategy.type == "RequestedToCapacityRatio":
            self.strategy = scoring.RequestedToCapacityRatio((strategy.requested_to_capacity_ratio or Ratio()).shape)
        else:
            self.strategy = scoring.MostAllocated() if strategy.type == "MostAllocated" else scoring.LeastAllocated()

    def pre_filter(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot) -> framework.Prefiltered:
        """Keep what the pod asks for, in the order in which shortages are told; never skips."""
        state.data[self.name] = self._asked(pod)
        return framework.Prefiltered()

    def filter(self, state: framework.CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node: all shortages, unresolvable if an empty node would have one."""
        reasons, hopeless = [], False
        if len(info.pods) + 1 > info.node.allocatable.get("pods", 0):
            reasons.append(TOO_MANY_PODS)
        for resource, amount in self._asked(pod):
            allocatable = info.node.allocatable.get(resource, 0)
            if amount > allocatable - info.requested[resource]:
                reasons.append(f"Insufficient {resource}")
                hopeless |= amount > allocatable
        return _shortage(tuple(reasons), hopeless)

    def filter_all(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, still: Mask) -> NodeStatuses:
        """Return the statuses of all nodes; each set of shortages is one status."""
        there, may = snapshot.pod_room.T
        short = [(there + 1 > may, TOO_MANY_PODS)]
        hopeless = np.zeros(len(snapshot), dtype=np.bool_)
        for resource, amount in state.data[self.name]:
            allocatable = snapshot.allocatable(resource)
            lacking = amount > allocatable - snapshot.requested(resource)
            short.append((lacking, f"Insufficient {resource}"))
            hopeless |= amount > allocatable  # what is more than all is more than the rest
        refused = np.flatnonzero(np.any([mask for mask, _ in short], axis=0))
        which = np.zeros(len(snapshot), dtype=np.int32)
        if not len(refused):
            return NodeStatuses(which, (SUCCESS,))
        kinds = np.stack([*(mask[refused] for mask, _ in short), hopeless[refused]], axis=1)
        weights = 1 << np.arange(kinds.shape[1], dtype=np.int64)
        distinct, first, numbers = np.unique(kinds @ weights, return_index=True, return_inverse=True)
        which[refused] = numbers + 1
        statuses = []
        for row in first[: len(distinct)]:
            reasons = tuple(reason for (_, reason), one in zip(short, kinds[row], strict=False) if one)
            statuses.append(_shortage(reasons, bool(kinds[row][-1])))
        return NodeStatuses(which, (SUCCESS, *statuses))

    def pre_score(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Status:
        """Keep what the pod counts as where nodes are scored; never skips."""
        state.data["PreScore" + self.name] = scoring.requests_for_fit(pod)
        return SUCCESS

    def score(self, state: framework.CycleState, pod: Pod, info: NodeInfo) -> int:
        """Return one node's score, 0…100."""
        asked = state.data["PreScore" + self.name]
        return self.strategy.of_one(scoring.uses_of_one(info, self.resources, asked, nonzero=True))

    def score_all(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Ints:
        """Return the scores of the nodes in `rows`."""
        asked = state.data["PreScore" + self.name]
        return self.strategy.of_all(scoring.uses(snapshot, rows, self.resources, asked, nonzero=True), len(rows))

    def _asked(self, pod: Pod) -> list[tuple[str, int]]:
        scalars = [name for name in pod.asked if name not in NATIVE and is_scalar(name) and not self._ignored(name)]
        return [(name, pod.asked[name]) for name in (*NATIVE, *scalars) if pod.asked.get(name, 0) > 0]

    def _ignored(self, resource: str) -> bool:
        if not is_extended(resource):
            return False
        return (
            resource in self.args.ignored_resources or resource.partition("/")[0] in self.args.ignored_resource_groups
        )


class NodeResourcesBalancedAllocation(framework.PreScorePlugin, framework.ScorePlugin):
    """Prefers nodes whose resources the pod makes more evenly used."""

    name = "NodeResourcesBalancedAllocation"
    args_type = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        super().__init__(args or NodeResourcesBalancedAllocationArgs())
        self.resources = self.args.resources

    def pre_score(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Status:
        """Skip a pod that asks for none of the resources."""
        return SUCCESS if any(pod.requests.get(resource.name) for resource in self.resources) else SKIP

    def score(self, state: framework.CycleState, pod: Pod, info: NodeInfo) -> int:
        """Return one node's score: 75 if the pod changes nothing, more if it makes use more even."""
        found = [
            (resource.name, capacity, pod.requests.get(resource.name, 0))
            for resource in self.resources
            if scoring.counts(resource.name, pod.requests.get(resource.name, 0))
            and (capacity := info.node.allocatable.get(resource.name, 0))
        ]
        after = scoring.balance(
            [min(1.0, (info.requested[name] + asked) / capacity) for name, capacity, asked in found]
        )
        before = scoring.balance([min(1.0, info.requested[name] / capacity) for name, capacity, _ in found])
        return 50 + (50 + after - before) // 2

    def score_all(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Ints:
        """Return the scores of the nodes in `rows`."""
        capacities, befores, afters = [], [], []
        for resource in self.resources:
            asked = pod.requests.get(resource.name, 0)
            if scoring.counts(resource.name, asked):
                capacities.append(snapshot.allocatable(resource.name)[rows])
                befores.append(snapshot.requested(resource.name)[rows])
                afters.append(befores[-1] + asked)
        after = scoring.balance_all(capacities, afters, len(rows))
        before = scoring.balance_all(capacities, befores, len(rows))
        return 50 + (50 + after - before) // 2


def _shortage(reasons: tuple[str, ...], hopeless: bool) -> Status:
    if not reasons:
        return SUCCESS
    return Status(Code.UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE, reasons)
