"""Looks for flavors: for each resource group the first flavor, in the ClusterQueue's order, that does well enough.

In: a workload's totals, its ClusterQueue's node, the ResourceFlavors, and what preemption could do. Out: an
`Assignment` (kubernetes-sigs/kueue pkg/scheduler/flavorassigner/flavorassigner.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from controlplane.controllers.quota.engine import reasons
from controlplane.controllers.quota.engine.amounts import FlavorResource, Requests, Usage, add, in_order, sub
from controlplane.controllers.quota.engine.assignment import Assignment, FlavorAssignment, FlavorAttempt, PodSetResult
from controlplane.controllers.quota.engine.borrowing import lowest_subtree_that_fits
from controlplane.controllers.quota.engine.flavor_match import Unmatchable, mismatch
from controlplane.controllers.quota.engine.info import Info, PodSetRequests, Progress
from controlplane.controllers.quota.engine.model import NEVER, PODS, ResourceFlavor, ResourceGroup
from controlplane.controllers.quota.engine.modes import BEST, WORST, Granular, Possibility, is_preferred, tries_next
from controlplane.controllers.quota.engine.snapshot import QueueNode

Simulate = Callable[[FlavorResource, int], tuple[Possibility, int]]
"""What preemption could do for an amount of a resource: the possibility, and how far away the quota would be."""

Flavors = dict[str, FlavorAssignment]


class FlavorAssigner:
    """Assigns flavors to one workload. `nominated`: only these flavors are tried, by pod set and resource."""

    def __init__(
        self,
        info: Info,
        queue: QueueNode,
        flavors: Mapping[str, ResourceFlavor],
        simulate: Simulate,
        cycle: int,
        *,
        fair_sharing: bool = False,
        ignore_undeclared: bool = False,
        nominated: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.info = info
        self.queue = queue
        self.flavors = flavors
        self.simulate = simulate
        self.cycle = cycle
        self.ignore_undeclared = ignore_undeclared
        self.nominated = nominated or {}
        preemption = queue.spec.preemption
        self._preempts_while_borrowing = preemption.borrow_within_cohort != NEVER or (
            fair_sharing and preemption.reclaim_within_cohort != NEVER
        )

    def assign(self, counts: Sequence[int] | None = None) -> Assignment:
        """Return flavors for all pod sets, or what stands in the way; `counts`: for fewer pods than asked for."""
        found = Assignment()
        for at, total in enumerate(self.info.pod_sets):
            wanted = total if counts is None else total.scaled_to(counts[at])
            result = self._of_pod_set(at, wanted, found.usage)
            found.include(result)
            if result.failed:
                break
        found.progress = Progress(
            tuple({name: given.tried for name, given in one.flavors.items()} for one in found.pod_sets),
            self.queue.generation,
            self.cycle,
            self.info.shape,
        )
        found.explain_no_fit(self.queue.spec)
        return found

    def _of_pod_set(self, at: int, wanted: PodSetRequests, used: Usage) -> PodSetResult:
        spec, requests = self.queue.spec, wanted.requests
        if spec.group_of(PODS) is not None:
            requests = in_order({**requests, PODS: wanted.count})
        result = PodSetResult(wanted.name, wanted.count, requests)
        for resource, amount in requests.items():
            group = spec.group_of(resource)
            if group is None:
                if amount == 0 or self.ignore_undeclared:
                    continue
                result.flavors, result.reasons = {}, [f"resource {resource} unavailable in ClusterQueue"]
                return result
            if resource in result.flavors:
                continue  # It has the flavor of its group.
            search = _Search(self, at, group, requests, resource, used)
            flavors = search.run()
            result.attempts += search.attempts
            result.refused += search.refused
            if search.error or not flavors:
                result.flavors, result.reasons, result.error = {}, search.reasons, search.error
                return result
            result.flavors.update(flavors)
            result.reasons += search.reasons
        return result

    def fits(self, place: FlavorResource, used: int, amount: int) -> tuple[Granular, str, str]:
        """Return how a flavor would do for a resource, what is missing in words, and the reason if it does not fit."""
        queue, (flavor, resource) = self.queue, place
        wanted, most = add(used, amount), queue.potential_available(place)
        if wanted > most:
            told = reasons.beyond_all(resource, flavor, used, amount, most)
            return Granular(Possibility.NO_FIT, 0), told, reasons.EXCEEDS_MAX_QUOTA
        borrowing, may_reclaim = lowest_subtree_that_fits(queue, place, wanted)
        available = max(0, queue.available(place))
        if wanted <= available:
            return Granular(Possibility.FIT, borrowing), "", ""
        told = reasons.unused_missing(resource, flavor, sub(wanted, available))
        if queue.quota(place).nominal >= wanted or may_reclaim or self._preempts_while_borrowing:
            possibility, after = self.simulate(place, wanted)
            return Granular(possibility, after), told, ""
        return Granular(Possibility.NO_FIT, borrowing), told, reasons.WAITING_FOR_QUOTA


class _Search:
    """The search for a flavor for the resources of one group."""

    def __init__(
        self, assigner: FlavorAssigner, at: int, group: ResourceGroup, requests: Requests, resource: str, used: Usage
    ) -> None:
        self.assigner = assigner
        self.at = at
        self.group = group
        self.resource = resource
        self.requests = {name: amount for name, amount in requests.items() if name in group.covered}
        self.used = used
        self.reasons: list[str] = []
        self.error = ""
        self.attempts = 0
        self.refused: list[FlavorAttempt] = []

    def run(self) -> Flavors:
        """Return the flavor for each resource, empty if there is none."""
        fungibility = self.assigner.queue.spec.fungibility
        best: Flavors = {}
        best_mode, last = WORST, -1
        progress = self.assigner.info.progress
        for last in range(progress.next_flavor(self.at, self.resource) if progress else 0, len(self.group.flavors)):
            flavor = self.group.flavors[last]
            if not self._usable(flavor):
                if self.error:
                    return {}
                continue
            flavors, mode = self._try(flavor)
            enough = not tries_next(mode, fungibility)
            if enough or is_preferred(mode, best_mode, fungibility):
                best, best_mode = flavors, mode
            if enough:
                break
        for found in best.values():
            found.tried = -1 if last == len(self.group.flavors) - 1 else last
        if best_mode.possibility is Possibility.FIT:
            self.reasons = []
        return best

    def _usable(self, name: str) -> bool:
        """Return whether pods may run on a flavor's nodes, and note why not."""
        wanted = self.assigner.info.workload.pod_sets[self.at]
        nominated = self.assigner.nominated
        if nominated and nominated.get(wanted.name, {}).get(self.resource, "") != name:
            self.reasons.append(
                f"skipping flavor {name} as it is not found in the nomination mapping for resource {self.resource}"
            )
            return False
        flavor = self.assigner.flavors.get(name)
        try:
            told = f"flavor {name} not found" if flavor is None else mismatch(wanted, flavor)
        except Unmatchable as problem:
            told = self.error = str(problem)
        if told:
            self.attempts += 1
            self.refused.append(FlavorAttempt(name, reasons.NO_MATCHING_FLAVOR))
            if not self.error:
                self.reasons.append(told)
        return not told

    def _try(self, flavor: str) -> tuple[Flavors, Granular]:
        """Return what a flavor gives, and the worst mode of its resources; all of them are asked, to tell all."""
        fungibility = self.assigner.queue.spec.fungibility
        found: Flavors = {}
        worst, refusals = BEST, []
        for resource, amount in self.requests.items():
            place = (flavor, resource)
            mode, told, reason = self.assigner.fits(place, self.used.get(place, 0), amount)
            if told:
                self.reasons.append(told)
                refusals.append(reason)
            if is_preferred(worst, mode, fungibility):
                worst = mode
            if worst.possibility is not Possibility.NO_FIT:
                found[resource] = FlavorAssignment(flavor, mode.possibility.mode, mode.borrowing)
        self.attempts += 1
        if worst.possibility is Possibility.NO_FIT:
            self.refused.append(FlavorAttempt(flavor, reasons.most_severe(refusals)))
        return found, worst
