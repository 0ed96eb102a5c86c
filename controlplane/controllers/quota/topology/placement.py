"""Places the pods of a pod set, with their leader if they have one, in the topology of a flavor.

In: the flavor's topology as it is used, and what is asked for. Out: topology assignments, or a `Refusal` in Kueue's
words. What fits in each domain is counted first; then a level is found on which it fits, and from there the pods are
distributed level by level down to the leaves (kubernetes-sigs/kueue pkg/cache/scheduler/tas_flavor_snapshot.go, with
the profile that is the default: `TASProfileMixed`)."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.controllers.quota.topology.balanced import PlacementSize, balanced
from controlplane.controllers.quota.topology.counts import Situation, counted
from controlplane.controllers.quota.topology.distribution import Distribution
from controlplane.controllers.quota.topology.fleet import TopologyFlavor
from controlplane.controllers.quota.topology.matching import Conflict
from controlplane.controllers.quota.topology.model import DomainPods, PodSetSlice, TopologyAssignment
from controlplane.controllers.quota.topology.requests import PlacementRequest, Refusal, levels_of
from controlplane.controllers.quota.topology.tree import Domain, TopologyTree

Placements = dict[str, TopologyAssignment]
"""Where pods are placed, by pod set."""


def place(
    flavor: TopologyFlavor, workers: PlacementRequest, leader: PlacementRequest | None, situation: Situation
) -> Placements:
    """Return where the pods of a pod set are placed, and its leader's pod; `Refusal` if they do not fit."""
    return _Placement(flavor, workers, leader, situation).run()


class _Placement:
    def __init__(
        self, flavor: TopologyFlavor, workers: PlacementRequest, leader: PlacementRequest | None, situation: Situation
    ) -> None:
        self.flavor, self.tree = flavor, flavor.tree
        self.workers, self.leader = workers, leader
        self.levels = levels_of(workers, self.tree)
        self.leaders = 0 if leader is None else 1
        self.required = bool(workers.topology.required)
        self.unconstrained = workers.unconstrained
        try:
            self.counts, self.excluded = counted(flavor, workers, leader, self.levels, situation)
        except Conflict as problem:
            told = f"invalid podSetUpdate for PodSet {workers.pod_set.name}, error: {problem}"
            raise Refusal(told) from problem
        self.distribution = Distribution(self.counts, least_first=self.unconstrained)

    def run(self) -> Placements:
        size, of_slices, lowest = self.levels.slice_size, self.levels.of_slices, len(self.tree.levels) - 1
        even = self._balanced()
        level, domains = even or self._level_that_fits(self.levels.requested)
        domains = self._cut_down(domains, self.workers.count, self.leaders, size, slices=True)
        while level < min(lowest, of_slices) and even is None:
            lower = self.distribution.sorted(child for domain in domains for child in domain.children)
            domains = self._cut_down(lower, self.workers.count, self.leaders, size, slices=True)
            level += 1
        while level < lowest:
            unit = self.levels.inner.get(level + 1, 1) if level >= of_slices else size
            domains = [found for domain in domains for found in self._within(domain, unit)]
            level += 1
        return self._assignments(domains)

    def _balanced(self) -> tuple[int, list[Domain]] | None:
        """Return a level, and domains of it over which the pods are spread evenly; None if that is not asked for, or
        cannot be."""
        if self.required or self.unconstrained or not self.flavor.fleet.rules.balanced:
            return None
        wanted = PlacementSize(self.workers.count // self.levels.slice_size, self.leaders)
        found = balanced(self.tree, self.counts, self.levels, wanted)
        if found is None:
            return None
        self.counts = found.counts
        self.distribution = Distribution(self.counts, least_first=False)
        return found.level, found.domains

    def _cut_down(self, domains: list[Domain], count: int, leaders: int, size: int, *, slices: bool) -> list[Domain]:
        return self.distribution.cut_down(domains, count, leaders, size, slices=slices)

    def _within(self, domain: Domain, unit: int) -> list[Domain]:
        """Return the children of a domain that its pods are distributed over."""
        of, children = self.counts, self.distribution.sorted(domain.children)
        if unit > 1:
            for child in children:
                of.slices[child.index] = of.pods[child.index] // unit
                of.slices_with_leader[child.index] = of.pods_with_leader[child.index] // unit
        at = domain.index
        return self._cut_down(children, of.pods[at], of.leaders[at], unit, slices=unit > 1)

    def _assignments(self, domains: list[Domain]) -> Placements:
        pods, leaders, found = self.counts.pods, self.counts.leaders, {}
        if self.leader is not None:
            leading = ((domain, leaders[domain.index]) for domain in domains)
            found[self.leader.pod_set.name] = _assignment(self.tree, leading)
        found[self.workers.pod_set.name] = _assignment(self.tree, ((domain, pods[domain.index]) for domain in domains))
        return found

    # Where it fits.

    def _level_that_fits(self, level: int) -> tuple[int, list[Domain]]:
        """Return a level, and domains of it that have room together: the level that is asked for, or the nearest
        above."""
        slices = self.workers.count // self.levels.slice_size
        at_level = self.tree.at_level[level].values()
        if not at_level:
            raise Refusal(f"no topology domains at level: {self.tree.levels[level]}")
        domains = self.distribution.sorted_for_leader(at_level)
        top = domains[0]
        if self.unconstrained:
            alone = self._first_with_room(domains, slices)
            if alone is not None:
                return level, [alone]
            if self.required:
                raise self._refusal(level, self.counts.pods[domains[-1].index], slices)
        elif self._has_room(top, slices):
            top = self.distribution.best_fit(domains, slices, self.leaders)
        if self._has_room(top, slices):
            return level, [top]
        if self.required:
            for at, domain in enumerate(domains):
                if self._has_room(domain, slices):
                    return level, [self.distribution.best_fit(domains[at:], slices, self.leaders)]
            raise self._refusal(level, self.counts.slices[top.index], slices)
        if level > 0 and not self.unconstrained:
            return self._level_that_fits(level - 1)
        return level, self._together(level, domains, slices)

    def _first_with_room(self, domains: list[Domain], slices: int) -> Domain | None:
        of = self.counts
        room = of.slices_with_leader if self.leaders else of.slices
        found = (one for one in domains if of.leaders[one.index] >= self.leaders and room[one.index] >= slices)
        return next(found, None)

    def _has_room(self, domain: Domain, slices: int) -> bool:
        at = domain.index
        return self.counts.slices_with_leader[at] >= slices and self.counts.leaders[at] >= self.leaders

    def _together(self, level: int, domains: list[Domain], slices: int) -> list[Domain]:
        """Return domains of one level that have room together, that of the leader first."""
        of, left, left_leaders, found = self.counts, slices, self.leaders, []
        spread, size = self.distribution, self.levels.slice_size
        domains = spread.leader_first(domains, self.workers.count, self.leaders, size, slices=True)
        at = 0
        while left_leaders > 0 and at < len(domains) and of.leaders[domains[at].index] > 0:
            domain = domains[at]
            if not self.unconstrained and of.slices_with_leader[domain.index] >= left:
                domain = spread.best_fit(domains[at:], left, left_leaders)
            found.append(domain)
            left_leaders -= of.leaders[domain.index]
            left -= of.slices_with_leader[domain.index]
            at += 1
        if left_leaders > 0:
            raise self._refusal(level, self.leaders - left_leaders, slices)
        domains = spread.sorted(domains[at:])
        for place, domain in enumerate(domains):
            if left <= 0:
                break
            if not self.unconstrained and of.slices[domain.index] >= left:
                domain = spread.best_fit(domains[place:], left, 0)
            found.append(domain)
            left -= of.slices[domain.index]
        if left > 0:
            raise self._refusal(level, slices - left, slices)
        return found

    # What is said.

    def _refusal(self, level: int, fit: int, slices: int) -> Refusal:
        name, told = self.flavor.topology.name, self.excluded.told()
        if self.levels.inner:
            return Refusal(f'topology "{name}" doesn\'t allow to fit{self._layers(level)}{told}')
        unit = "pod" if self.levels.slice_size == 1 else "slice"
        if fit == 0:
            return Refusal(f'topology "{name}" doesn\'t allow to fit any of {slices} {unit}(s){told}')
        return Refusal(f'topology "{name}" allows to fit only {fit} out of {slices} {unit}(s){told}')

    def _layers(self, level: int) -> str:
        """Return how many slices of each layer fit in the best domain of a level."""
        best = min(
            self.tree.at_level[level].values(), key=lambda one: (-self.counts.slices[one.index], ",".join(one.key))
        )
        return "".join(f"; {self._fit(best, one)} slice(s) fit on level {one.topology}" for one in self._constraints())

    def _constraints(self) -> Iterable[PodSetSlice]:
        return (one for one in self.workers.topology.slices if one.topology in self.tree.levels)

    def _fit(self, best: Domain, layer: PodSetSlice) -> str:
        target = self.tree.levels.index(layer.topology)
        domains = [best] if best.level <= target else []
        while domains and domains[0].level < target:
            domains = [child for domain in domains for child in domain.children]
        fits = sum(self.counts.pods[domain.index] // layer.size for domain in domains)
        return f"{fits}/{self.workers.count // layer.size}"


def _assignment(tree: TopologyTree, given: Iterable[tuple[Domain, int]]) -> TopologyAssignment:
    """Return an assignment of pods to leaves, sorted by the values of all levels."""
    used = sorted(((domain, pods) for domain, pods in given if pods), key=lambda one: one[0].rank)
    levels = tree.levels[-1:] if tree.of_nodes else tree.levels
    return TopologyAssignment(levels, tuple(DomainPods(domain.key, pods) for domain, pods in used))
