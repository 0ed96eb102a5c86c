"""How many pods fit in each domain of a topology: counted at the leaves, and summed up level by level.

In: a flavor's topology, and what one pod asks for. Out: for each domain pods and slices, both also with a leader among
them. It is the first phase of the placement algorithm (kubernetes-sigs/kueue
pkg/cache/scheduler/tas_flavor_snapshot.go, fillInCounts)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.controllers.quota.engine.amounts import Requests, sub
from controlplane.controllers.quota.engine.model import NodeConstraints
from controlplane.controllers.quota.topology.fleet import MOST, TopologyFlavor, fit_in, with_itself
from controlplane.controllers.quota.topology.matching import Exclusions
from controlplane.controllers.quota.topology.model import Values
from controlplane.controllers.quota.topology.requests import Levels, PlacementRequest, Refusal
from controlplane.controllers.quota.topology.tree import Domain, TopologyTree

Assumed = dict[Values, Requests]
"""What pods use that are placed in the same pass, by the key of a leaf."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What else counts for a placement: what was placed before in the same pass; whether all workloads count as gone;
    within which domain it has to be, if not anywhere."""

    assumed: Assumed
    empty: bool = False
    within: Values = ()


class DomainCounts:
    """Numbers by the domains' `index`. `with_leader`: how many others fit where a leader is placed too; `leaders`:
    whether one fits; `preference`: the weight of the preferred affinity of all their nodes, zero where it does not
    count."""

    def __init__(self, tree: TopologyTree) -> None:
        size = len(tree.domains)
        self.pods = [0] * size
        self.slices = [0] * size
        self.pods_with_leader = [0] * size
        self.slices_with_leader = [0] * size
        self.leaders = [0] * size
        self.preference = [0] * size

    def copied(self) -> DomainCounts:
        """Return the same, to be changed without this one."""
        found = copy.copy(self)
        vars(found).update({name: list(numbers) for name, numbers in vars(self).items()})
        return found

    @property
    def of_pods(self) -> tuple[list[int], ...]:
        """What fits without a leader."""
        return self.pods, self.slices

    @property
    def of_leaders(self) -> tuple[list[int], ...]:
        """What fits with a leader, and whether one does."""
        return self.pods_with_leader, self.slices_with_leader, self.leaders


def counted(
    flavor: TopologyFlavor,
    workers: PlacementRequest,
    leader: PlacementRequest | None,
    levels: Levels,
    situation: Situation,
) -> tuple[DomainCounts, Exclusions]:
    """Return what fits in each domain, and why nodes are left out."""
    tree = flavor.tree
    matched, left_out, weights = flavor.matching.of(tree, workers.pod_set.nodes, workers.updates)
    excluded = Exclusions(left_out.nodes, left_out.reasons.copy())
    found, within = DomainCounts(tree), situation.within
    pod = with_itself(workers.pod_set.pod_on_node)
    leader_pod = with_itself(leader.pod_set.pod_on_node) if leader is not None else None
    remaining = flavor.free if situation.empty else flavor.left
    if flavor.fleet.rules.preferred_affinity:
        _prefer(tree, found, workers.pod_set.nodes, weights)
    for leaf in matched:
        if within and leaf.values[: len(within)] != within:
            excluded.reasons["topologyDomain"] += 1
            continue
        left = remaining(leaf)
        assumed = situation.assumed.get(leaf.key)
        if assumed:
            left = _without(left, assumed)
        at = leaf.index
        fits = found.pods[at] = fit_in(pod, left)
        if not fits:
            excluded.reasons[f'resource "{_limiting(pod, left)}"'] += 1
        if leader_pod is not None and fit_in(leader_pod, left) > 0:
            found.leaders[at] = 1
            fits = fit_in(pod, _without(left, leader_pod))
        found.pods_with_leader[at] = fits
    _sum_up(tree, found, levels, with_leader=leader is not None)
    return found, excluded


def _prefer(tree: TopologyTree, found: DomainCounts, wanted: NodeConstraints, weights: Mapping[int, int]) -> None:
    wrong = [term.error for _, term in wanted.preferred if term.error]
    if wrong:
        raise Refusal(f"invalid preferred node affinity terms, reason: {wrong[0]}")
    for leaf in tree.leaves if weights else ():
        domain: Domain | None = leaf
        while domain is not None:
            found.preference[domain.index] += weights.get(leaf.index, 0)
            domain = domain.parent


def _without(left: Requests, used: Mapping[str, int]) -> Requests:
    found = dict(left)
    for name, amount in used.items():
        found[name] = sub(found.get(name, 0), amount)
    return found


def _limiting(pod: Mapping[str, int], left: Mapping[str, int]) -> str:
    """Return of which resource there is too little for one pod: the first one by name."""
    return min(name for name, amount in pod.items() if amount and left.get(name, 0) // amount <= 0)


def _sum_up(tree: TopologyTree, found: DomainCounts, levels: Levels, *, with_leader: bool) -> None:
    lowest = len(tree.levels) - 1
    if levels.of_slices == lowest:
        size = levels.slice_size
        found.slices = [pods // size for pods in found.pods]
        found.slices_with_leader = [pods // size for pods in found.pods_with_leader]
    for level in range(lowest - 1, -1, -1):
        for domain in tree.at_level[level].values():
            sum_children(domain, found, levels, with_leader=with_leader)


def sum_children(domain: Domain, found: DomainCounts, levels: Levels, *, with_leader: bool) -> None:
    """Sum up what fits in the children of a domain. A leader takes its place where that costs the fewest others."""
    pods = slices = leaders = 0
    pods_less = slices_less = MOST
    any_led = False
    inner = levels.inner.get(domain.level + 1, 1)
    for child in domain.children:
        at = child.index
        fits = found.pods[at] // inner * inner
        pods += fits
        slices += found.slices[at]
        leads = found.leaders[at]
        if not with_leader or leads:
            any_led = True
            pods_less = min(pods_less, fits - found.pods_with_leader[at] // inner * inner)
            slices_less = min(slices_less, found.slices[at] - found.slices_with_leader[at])
        leaders = max(leaders, leads)
    at = domain.index
    led = pods - pods_less if any_led else 0
    slices_led = slices - slices_less if any_led else 0
    if domain.level == levels.of_slices:
        slices, slices_led = pods // levels.slice_size, led // levels.slice_size
    found.pods[at], found.pods_with_leader[at], found.leaders[at] = pods, led, leaders
    found.slices[at], found.slices_with_leader[at] = slices, slices_led
