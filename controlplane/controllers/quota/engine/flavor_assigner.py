"""Looks for flavors: for each resource group the first flavor, in the ClusterQueue's order, that does well enough.

In: a workload's totals, its ClusterQueue's node, the ResourceFlavors, and what preemption could do. Out: an
`Assignment` (kubernetes-sigs/kueue pkg/scheduler/flavorassigner/flavorassigner.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from controlplane.controllers.quota.engine import reasons, slices
from controlplane.controllers.quota.engine.amounts import (
    NO_BYTES,
    FlavorResource,
    Requests,
    Usage,
    add,
    in_order,
    sub,
    summed,
)
from controlplane.controllers.quota.engine.assignment import Assignment, FlavorAssignment, FlavorAttempt, PodSetResult
from controlplane.controllers.quota.engine.borrowing import lowest_subtree_that_fits, may_preempt_for
from controlplane.controllers.quota.engine.flavor_match import Unmatchable, mismatch
from controlplane.controllers.quota.engine.info import Info, PodSetRequests, Progress
from controlplane.controllers.quota.engine.model import PodSet, ResourceFlavor, ResourceGroup
from controlplane.controllers.quota.engine.modes import (
    BEST,
    WORST,
    AssignmentMode,
    Granular,
    Possibility,
    is_preferred,
    tries_next,
)
from controlplane.controllers.quota.engine.partial_admission import can_shrink
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.controllers.quota.topology.queue_topology import QueueTopology
from controlplane.controllers.quota.topology.workload_placement import failure
from controlplane.kube.well_known import PODS_RESOURCE

Simulate = Callable[[FlavorResource, int], tuple[Possibility, int]]
"""What preemption could do for an amount of a resource: the possibility, and how far away the quota would be."""

Flavors = dict[str, FlavorAssignment]


class FlavorAssigner:
    """Assigns flavors to one workload, and places its pods. `nominated`: only these flavors are tried, by pod set and
    resource. `replaces`: the slice whose place the workload is to take; it keeps its flavors, and needs what it has
    not. `in_bytes`: resources that are spelled as bytes."""

    def __init__(
        self,
        info: Info,
        queue: QueueNode,
        flavors: Mapping[str, ResourceFlavor],
        simulate: Simulate,
        cycle: int,
        topology: QueueTopology,
        *,
        fair_sharing: bool = False,
        ignore_undeclared: bool = False,
        nominated: Mapping[str, Mapping[str, str]] | None = None,
        replaces: Info | None = None,
        in_bytes: frozenset[str] = NO_BYTES,
    ) -> None:
        self.in_bytes = in_bytes
        self.info = info
        self.queue = queue
        self.flavors = flavors
        self.simulate = simulate
        self.cycle = cycle
        self.topology = topology
        self.ignore_undeclared = ignore_undeclared
        self.nominated = nominated or {}
        self.replaces = replaces
        self._short_of: set[FlavorResource] = set()
        self._rests_on_more = bool(nominated)
        self._fair_sharing = fair_sharing

    def assign(self, counts: Sequence[int] | None = None) -> Assignment:
        """Return flavors and places for all pod sets, or what stands in the way; `counts`: for fewer pods than asked
        for."""
        found = Assignment(replaces=self.replaces)
        totals = self.info.pod_sets
        if counts is not None:
            totals = tuple(total.scaled_to(count) for total, count in zip(totals, counts, strict=True))
        for group in self._groups():
            results = self._of_group(group, [totals[at] for at in group], found.usage)
            for result in results:
                found.include(result)
            if any(result.failed for result in results):
                break
        else:
            if self.topology.concerns(self.info) and found.mode is not AssignmentMode.NO_FIT:
                self._place(found)
        found.progress = Progress(
            tuple({name: given.tried for name, given in one.flavors.items()} for one in found.pod_sets),
            self.queue.generation,
            self.cycle,
            self.info.shape,
        )
        found.explain_no_fit(self.queue.spec)
        found.short_of = self._needs_others_quota(counts)
        return found

    def _needs_others_quota(self, counts: Sequence[int] | None) -> frozenset[FlavorResource] | None:
        """Return of what others have to give quota back before anything else is found; None where that is not all: with
        several pod sets one may leave a flavor to another, fewer pods may do, or others may be preempted, places in a
        topology or a slice may be in the way, or not all flavors were looked at."""
        pod_sets = self.info.workload.pod_sets
        whole = counts is None and len(pod_sets) == 1 and not can_shrink(pod_sets)
        if not whole or self._rests_on_more or self.replaces is not None or self.topology.concerns(self.info):
            return None
        return frozenset(self._short_of)

    def _groups(self) -> Iterable[list[int]]:
        """Return the places of the pod sets that get one flavor together."""
        found: dict[str | int, list[int]] = {}
        for at, pod_set in enumerate(self.info.workload.pod_sets[: len(self.info.pod_sets)]):
            found.setdefault(pod_set.group or at, []).append(at)
        return found.values()

    def _of_group(self, group: list[int], totals: list[PodSetRequests], used: Usage) -> list[PodSetResult]:
        spec = self.queue.spec
        results = [self._begun(total, with_pods=spec.group_of(PODS_RESOURCE) is not None) for total in totals]
        requests = results[0].requests if len(results) == 1 else summed(result.requests for result in results)
        found = _GroupFlavors({name: given for result in results for name, given in result.flavors.items()})
        for resource, amount in requests.items():
            resources = spec.group_of(resource)
            if resources is None:
                if amount == 0 or self.ignore_undeclared:
                    continue
                found.refuse([f"resource {resource} unavailable in ClusterQueue"])
                break
            if resource in found.flavors:
                continue  # It has the flavor of its group.
            if not found.take(_Search(self, group, resources, requests, resource, used)):
                break
        for at, result in zip(group, results, strict=True):
            result.flavors = self._of_its_own(at, result, found.flavors)
            result.reasons, result.error = list(found.told), found.error
            result.attempts = found.attempts  # a group is refused as one
        return results

    def _begun(self, total: PodSetRequests, *, with_pods: bool) -> PodSetResult:
        """Return the result of a pod set before flavors are looked for: one that has quota keeps its flavors and
        places."""
        requests = in_order({**total.requests, PODS_RESOURCE: total.count}) if with_pods else total.requests
        result = PodSetResult(total.name, total.count, requests)
        if total.flavors and self.info.workload.reserves:
            result.flavors = {
                name: FlavorAssignment(flavor, AssignmentMode.FIT, 0) for name, flavor in total.flavors.items()
            }
            admission = self.info.workload.admission
            given = admission.of(total.name) if admission is not None else None
            if given is not None:
                result.topology, result.delayed = given.topology, given.delayed
        return result

    def _of_its_own(self, at: int, result: PodSetResult, flavors: Flavors) -> Flavors:
        """Return which flavors of its group a pod set gets: those of what it asks for. One that asks for nothing is
        placed where its group is."""
        if result.requests:
            return {name: flavors[name] for name in flavors if name in result.requests}
        if not self.info.workload.pod_sets[at].group:
            return {}
        return {name: given for name, given in flavors.items() if given.flavor in self.topology.flavors}

    def _place(self, found: Assignment) -> None:
        """Place the pods of all pod sets that have to be, and note what stands in the way. Where quota is there and
        places are not, others have to be preempted."""
        topology, info = self.topology, self.info
        asked = found.asked = topology.requests(found, info)
        if found.mode is AssignmentMode.FIT:
            results = topology.find(asked, info)
            failed = failure(results)
            if failed is None:
                topology.note(found, results)
            else:
                result = found.of(failed.pod_set)
                assert result is not None
                result.reasons.append(failed.refusal)
                found.set_mode((failed.pod_set,), AssignmentMode.PREEMPT)
        if found.mode is AssignmentMode.PREEMPT and not info.workload.unhealthy_nodes:
            failed = failure(topology.find(asked, info, empty=True))
            if failed is None:
                named = {request.pod_set.name for requests in asked.values() for request in requests}
                found.set_mode(named, AssignmentMode.PREEMPT)
                return
            result = found.of(failed.pod_set)
            assert result is not None
            result.attempts[:] = [  # those of its whole group
                one.unplaced() if one.flavor == failed.flavor else one for one in result.attempts
            ]
            found.set_mode((failed.pod_set,), AssignmentMode.NO_FIT)

    def begins_late(self) -> None:
        """Note that the first flavors of a group are not looked at."""
        self._rests_on_more = True

    def fits(self, place: FlavorResource, used: int, amount: int) -> tuple[Granular, str, str]:
        """Return how a flavor would do for a resource, what is missing in words, and the reason if it does not fit."""
        queue, (flavor, resource) = self.queue, place
        wanted, most = add(used, amount), queue.potential_available(place)
        if wanted > most:
            told = reasons.beyond_all(resource, flavor, used, amount, most, self.in_bytes)
            return Granular(Possibility.NO_FIT, 0), told, reasons.EXCEEDS_MAX_QUOTA
        borrowing, _ = lowest_subtree_that_fits(queue, place, wanted)
        available = max(0, queue.available(place))
        if borrowing or wanted > available:
            self._short_of.add(place)
        if wanted <= available:
            return Granular(Possibility.FIT, borrowing), "", ""
        told = reasons.unused_missing(resource, flavor, sub(wanted, available), self.in_bytes)
        if may_preempt_for(queue, place, wanted, fair_sharing=self._fair_sharing):
            self._rests_on_more = self._rests_on_more or not queue.spec.preemption.none
            possibility, after = self.simulate(place, wanted)
            return Granular(possibility, after), told, ""
        return Granular(Possibility.NO_FIT, borrowing), told, reasons.WAITING_FOR_QUOTA


class _GroupFlavors:
    """The flavors that pod sets get together, with what was tried; none of them once a resource is refused."""

    def __init__(self, flavors: Flavors) -> None:
        self.flavors = flavors
        self.told: list[str] = []
        self.error = ""
        self.attempts: list[FlavorAttempt] = []

    def refuse(self, told: list[str], error: str = "") -> None:
        """Note that a resource gets none."""
        self.flavors, self.told, self.error = {}, told, error

    def take(self, search: _Search) -> bool:
        """Search for the flavor of a resource, and of those that have the same; return whether there is one."""
        chosen = search.run()
        self.attempts += search.attempts
        if search.error or not chosen:
            self.refuse(search.reasons, search.error)
            return False
        self.flavors.update(chosen)
        self.told += search.reasons
        return True


class _Search:
    """The search for a flavor for the resources of one group."""

    def __init__(
        self,
        assigner: FlavorAssigner,
        pod_sets: list[int],
        group: ResourceGroup,
        requests: Requests,
        resource: str,
        used: Usage,
    ) -> None:
        self.assigner = assigner
        self.pod_sets = pod_sets
        self.group = group
        self.resource = resource
        self.requests = {name: amount for name, amount in requests.items() if name in group.covered}
        self.names = [assigner.info.pod_sets[at].name for at in pod_sets]
        self.used = used
        self.reasons: list[str] = []
        self.error = ""
        self.attempts: list[FlavorAttempt] = []

    def run(self) -> Flavors:
        """Return the flavor for each resource, empty if there is none."""
        fungibility = self.assigner.queue.spec.fungibility
        best: Flavors = {}
        best_mode, last = WORST, -1
        progress = self.assigner.info.progress
        first = progress.next_flavor(self.pod_sets[0], self.resource) if progress else 0
        if first:
            self.assigner.begins_late()
        for last in range(first, len(self.group.flavors)):
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
        listed = self.assigner.info.workload.pod_sets
        wanted = [listed[at] for at in self.pod_sets]
        nominated = self.assigner.nominated
        if nominated and all(nominated.get(one.name, {}).get(self.resource, "") != name for one in wanted):
            self.reasons.append(
                f"skipping flavor {name} as it is not found in the nomination mapping for resource {self.resource}"
            )
            return False
        flavor = self.assigner.flavors.get(name)
        try:
            told = f"flavor {name} not found" if flavor is None else self._mismatch(wanted, flavor)
        except Unmatchable as problem:
            told = self.error = str(problem)
        if told:
            self.attempts.append(FlavorAttempt(name, told=(told,), reason=reasons.NO_MATCHING_FLAVOR))
            if not self.error:
                self.reasons.append(told)
        return not told

    def _mismatch(self, wanted: list[PodSet], flavor: ResourceFlavor) -> str:
        topology, covered = self.assigner.topology, self.group.covered
        found = (topology.mismatch(one, flavor, covered) or mismatch(one, flavor) for one in wanted)
        return next((told for told in found if told), "")

    def _beyond(self, resource: str, flavor: str, amount: int) -> tuple[str, int]:
        """Return how much is needed beyond what the slice has whose place is taken; and, if that has another flavor,
        what is told of it."""
        old = self.assigner.replaces
        for name in self.names:
            kept = slices.other_flavor(old, name, resource, flavor)
            if kept is not None:
                return f"could not assign {flavor} flavor since the original workload is assigned: {kept}", amount
            amount = slices.beyond(old, name, resource, amount)
        return "", amount

    def _try(self, flavor: str) -> tuple[Flavors, Granular]:
        """Return what a flavor gives, and the worst mode of its resources; all of them are asked, to tell all."""
        fungibility = self.assigner.queue.spec.fungibility
        found: Flavors = {}
        worst, farthest, said, refusals = BEST, 0, list[str](), list[str]()
        for resource, amount in self.requests.items():
            place = (flavor, resource)
            missed, needed = self._beyond(resource, flavor, amount)
            mode, told, reason = self.assigner.fits(place, self.used.get(place, 0), needed)
            if missed:
                said.append(missed)
                refusals.append(reasons.NO_MATCHING_FLAVOR)
                worst = WORST
            if told:
                said.append(told)
                refusals.append(reason)
            farthest = max(farthest, mode.borrowing)
            if is_preferred(worst, mode, fungibility):
                worst = mode
            if worst.possibility is not Possibility.NO_FIT:
                found[resource] = FlavorAssignment(flavor, mode.possibility.mode, mode.borrowing)
        self.reasons += said
        why = reasons.most_severe(refusals) if worst.possibility is Possibility.NO_FIT else ""
        self.attempts.append(FlavorAttempt(flavor, worst.possibility, farthest, tuple(said), why))
        return found, worst
