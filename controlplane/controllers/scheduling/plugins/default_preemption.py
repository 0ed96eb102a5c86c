"""DefaultPreemption: whom to evict so that a pod of higher priority fits
(kubernetes/kubernetes pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, v1.36).

Pure: it says who would have to go and where, and the caller evicts. Each candidate node is tried out on copies of the
node and of the cycle's state. Where kube-scheduler begins at a random node, this begins at the first of the snapshot's
order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from controlplane.controllers.scheduling.framework.args import DefaultPreemptionArgs
from controlplane.controllers.scheduling.framework.plugin import (
    CycleState,
    DryRun,
    NodeRefusals,
    PostFiltered,
    PostFilterPlugin,
    Victims,
)
from controlplane.controllers.scheduling.framework.status import (
    SUCCESS,
    Code,
    Status,
    failed,
    unresolvable,
    unschedulable,
)
from controlplane.controllers.scheduling.snapshot.cluster import DisruptionBudget
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")
NOT_HELPFUL = "Preemption is not helpful for scheduling"
_OFFSET = 2**31


class DefaultPreemption(PostFilterPlugin):
    """Finds the node where evicting pods of lower priority costs least."""

    name = "DefaultPreemption"
    args_type = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs | None = None) -> None:
        super().__init__(args or DefaultPreemptionArgs())

    def post_filter(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, refused: NodeRefusals, dry_run: DryRun
    ) -> PostFiltered:
        """Return the candidates and the best of them, or why preemption does not help."""
        if why := _not_eligible(pod, snapshot, refused):
            return PostFiltered(unschedulable(f"preemption: {why}"))
        budgets = list(snapshot.cluster.budgets.values())
        rows = [row for row in snapshot.order().tolist() if refused.of(row).code is Code.UNSCHEDULABLE]
        share = len(rows) * self.args.min_candidate_nodes_percentage // 100
        enough = min(max(share, self.args.min_candidate_nodes_absolute), len(rows))
        candidates: dict[str, Victims] = {}
        reasons: Counter[str] = Counter()
        for row in rows:
            found = _on_node(state, pod, snapshot, row, budgets, dry_run)
            if isinstance(found, Status):
                reasons.update(found.reasons)
                continue
            candidates[snapshot.nodes[row].name] = found
            if len(candidates) >= enough and any(not victims.violations for victims in candidates.values()):
                break
        if not candidates:
            return PostFiltered(unschedulable(_no_candidates(len(snapshot), len(rows), reasons)), nominate="")
        best = cheapest(candidates)
        return PostFiltered(SUCCESS, best[0], candidates, best)


def _on_node(
    state: CycleState, pod: Pod, snapshot: Snapshot, row: int, budgets: Sequence[DisruptionBudget], dry_run: DryRun
) -> Victims | Status:
    """Return who would have to go so that the pod fits on one node, or why nobody's going helps."""
    info = snapshot.info(row)
    if not any(other.priority < pod.priority for other in info.pods.values()):
        return NO_VICTIMS  # nothing has to be copied to see that
    found = select_victims(state.clone(), pod, info.clone(), budgets, dry_run)
    return whole_gangs(found, pod, snapshot, budgets)


def _no_candidates(nodes: int, tried: int, reasons: Counter[str]) -> str:
    if tried < nodes:
        reasons[NOT_HELPFUL] = nodes - tried
    told = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"preemption: 0/{nodes} nodes are available:" + (f" {told}." if told else "")


def select_victims(
    state: CycleState, pod: Pod, info: NodeInfo, budgets: Sequence[DisruptionBudget], dry_run: DryRun
) -> Victims | Status:
    """Return the fewest pods that have to leave a node, or why none help. State and node are changed."""
    lower = [other for other in info.pods.values() if other.priority < pod.priority]
    if not lower:
        return NO_VICTIMS
    try:
        for other in lower:
            _take_off(state, pod, other, info, dry_run)
        _insist(dry_run.fits(state, pod, info))
        violating, others = split_by_budget(by_importance(lower), budgets)
        staying = [_stays(state, pod, other, info, dry_run) for other in (*violating, *others)]
    except _StatusError as refused:
        return refused.status
    victims = [other for other, stays in zip((*violating, *others), staying, strict=True) if not stays]
    violations = staying[: len(violating)].count(False)
    if not victims:
        return failed(f"expected at least one victim pod on node {info.node.name}")
    return Victims(tuple(by_importance(victims) if violating and others else victims), violations)


class _StatusError(Exception):
    """A plugin's status that ends the look at a node."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


def _insist(status: Status) -> None:
    if not status.ok:
        raise _StatusError(status)


def _take_off(state: CycleState, pod: Pod, other: Pod, info: NodeInfo, dry_run: DryRun) -> None:
    info.remove(other)
    _insist(dry_run.remove(state, pod, other, info))


def _stays(state: CycleState, pod: Pod, other: Pod, info: NodeInfo, dry_run: DryRun) -> bool:
    """Put a pod back on its node, and take it off again if there is no place for both; return whether it stays."""
    info.add(other)
    _insist(dry_run.add(state, pod, other, info))
    if dry_run.fits(state, pod, info).ok:
        return True
    _take_off(state, pod, other, info, dry_run)
    return False


def whole_gangs(
    found: Victims | Status, pod: Pod, snapshot: Snapshot, budgets: Sequence[DisruptionBudget]
) -> Victims | Status:
    """Return victims with everybody who has to go with them: a gang keeps its quorum, or goes whole, from other nodes
    too (volcano-sh/volcano pkg/scheduler/plugins/gang/gang.go). A gang of which a member may not be evicted for this
    pod is left alone."""
    gangs = snapshot.cluster.gangs
    if not isinstance(found, Victims) or not gangs.groups:
        return found
    chosen = {victim.identity: victim for victim in found.pods}
    for place in sorted({place for victim in found.pods if (place := gangs.of(victim)) is not None}):
        for identity in sorted(gangs.victims(place, set(chosen)) - chosen.keys()):
            if (other := gangs.pod(identity)) is None:
                continue
            if other.priority >= pod.priority or place == gangs.of(pod):
                return unschedulable(f"PodGroup {place[1]} would fall below its minMember and cannot go whole")
            chosen[identity] = other
    if len(chosen) == len(found.pods):
        return found
    violating, _ = split_by_budget(by_importance(list(chosen.values())), budgets)
    return Victims(tuple(by_importance(list(chosen.values()))), len(violating))


def by_importance(pods: Sequence[Pod]) -> list[Pod]:
    """Return pods with the most important first: higher priority, then older; one that has not started is young.

    Of those that have not started, the one that stood last comes first: kube-scheduler takes "now" for each start, and
    its comparison is then true whichever way it is asked."""
    numbered = list(enumerate(pods))
    numbered.sort(key=lambda one: (-one[1].priority, _started(one[1]), -one[0] if one[1].started is None else one[0]))
    return [pod for _, pod in numbered]


def split_by_budget(pods: Iterable[Pod], budgets: Sequence[DisruptionBudget]) -> tuple[list[Pod], list[Pod]]:
    """Return the pods whose eviction would violate a budget, and the others; each pod uses up the budgets that cover
    it.
    """
    left = [budget.allowed for budget in budgets]
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        violates = False
        for number, budget in enumerate(budgets):
            if budget.covers(pod):
                left[number] -= 1
                violates |= left[number] < 0
        (violating if violates else others).append(pod)
    return violating, others


def cheapest(candidates: dict[str, Victims]) -> tuple[str, ...]:
    """Return the nodes that none is better than: fewest violations, lowest highest priority, lowest sum of priorities,
    fewest victims, latest start."""
    left = list(candidates)
    rules: tuple[Callable[[Victims], float], ...] = (
        lambda victims: victims.violations,
        lambda victims: victims.pods[0].priority,
        lambda victims: sum(pod.priority + _OFFSET for pod in victims.pods),
        lambda victims: len(victims.pods),
        lambda victims: -min(_started(pod) for pod in victims.pods if pod.priority == victims.pods[0].priority),
    )
    for rule in rules:
        costs = {node: rule(candidates[node]) for node in left}
        least = min(costs.values())
        left = [node for node in left if costs[node] == least]
    return tuple(left)


def _not_eligible(pod: Pod, snapshot: Snapshot, refused: NodeRefusals) -> str:
    if pod.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    row = snapshot.row.get(pod.nominated_node)
    if row is None or refused.of(row).code is Code.UNRESOLVABLE:
        return ""
    for other in snapshot.info(row).pods.values():
        if other.priority < pod.priority and other.terminating and other.preempted:
            return "not eligible due to a terminating pod on the nominated node."
    return ""


def _started(pod: Pod) -> float:
    return math.inf if pod.started is None else pod.started
