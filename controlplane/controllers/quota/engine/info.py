"""A Workload as the scheduler holds it: what its pod sets ask for in total, or what they were given.

In: a `Workload`. Out: totals by pod set, the quota that is used if some is reserved, and what makes two workloads equal
to the scheduler. Computed once; a changed Workload gets a new `Info`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from controlplane.controllers.quota.engine.amounts import FlavorResource, Requests, Usage, add, clamped, scaled, sub
from controlplane.controllers.quota.engine.model import PodSet, QuotaAdmission, Workload
from controlplane.controllers.quota.topology.model import Placed


@dataclass(frozen=True, slots=True)
class PodSetRequests:
    """What all pods of a pod set ask for; `flavors` of what they were given, empty while nothing is reserved."""

    name: str
    count: int
    requests: Requests
    flavors: Mapping[str, str]

    def scaled_to(self, count: int) -> PodSetRequests:
        """Return the same for another number of pods."""
        if self.count in (0, count):
            return self
        return PodSetRequests(self.name, count, scaled(self.requests, self.count, count), self.flavors)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the search for flavors got: for each pod set and resource the index of the last flavor that was tried, -1
    if it was the last one; the ClusterQueue's generation, the cycle and the workload's shape at that time.
    """

    tried: tuple[Mapping[str, int], ...]
    generation: int
    cycle: int
    shape: object

    @property
    def pending_flavors(self) -> bool:
        """Whether there are flavors that were not tried."""
        return any(index != -1 for tried in self.tried for index in tried.values())

    def next_flavor(self, pod_set: int, resource: str) -> int:
        """Return the index of the flavor to begin with."""
        return self.tried[pod_set].get(resource, -1) + 1 if pod_set < len(self.tried) else 0

    def outdated(self, generation: int, cycle: int, shape: object) -> bool:
        """Return whether the search has to begin anew."""
        if shape != self.shape:
            return True
        return cycle - self.cycle > 1 and generation > self.generation


@dataclass(frozen=True)
class Info:
    """A workload with its totals; `cluster_queue` is where it has quota, or where it is queued. `covered`: what slices
    have quota of that take its place: while it is still there, it counts for no more than goes beyond that."""

    workload: Workload
    cluster_queue: str = ""
    progress: Progress | None = None
    evaluated_generation: int = 0
    covered: Usage = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """The workload's namespace and name."""
        return self.workload.key

    @cached_property
    def pod_sets(self) -> tuple[PodSetRequests, ...]:
        """The totals of each pod set."""
        return _pending(self.workload) if self.given is None else _admitted(self.workload, self.given)

    @property
    def given(self) -> QuotaAdmission | None:
        """What it was given; None if it has no quota, whatever a status says of an admission that is left over."""
        return self.workload.admission if self.workload.reserved_at is not None else None

    @cached_property
    def usage(self) -> Usage:
        """The quota that counts for it: what is reserved, without what is covered."""
        if not self.covered:
            return self.reserved
        return {place: max(0, sub(amount, self.covered.get(place, 0))) for place, amount in self.reserved.items()}

    @cached_property
    def reserved(self) -> Usage:
        """The quota that is reserved."""
        used: Usage = {}
        for pod_set in self.pod_sets:
            for resource, amount in pod_set.requests.items():
                if flavor := pod_set.flavors.get(resource):
                    place = (flavor, resource)
                    used[place] = add(used.get(place, 0), amount)
        return used

    @cached_property
    def placed(self) -> tuple[Placed, ...]:
        """Where its pods are placed, in the topology of which flavor."""
        admission = self.given
        if admission is None or all(given.topology is None for given in admission.pod_sets):
            return ()
        wanted = {pod_set.name: pod_set for pod_set in self.workload.pod_sets}
        found = []
        for given, total in zip(admission.pod_sets, self.pod_sets, strict=True):
            spec = wanted.get(given.name)
            pod = spec.pod_on_node if spec is not None else scaled(total.requests, total.count, 1)
            for flavor in dict.fromkeys(given.flavors.values()):
                found += [Placed(flavor, values, pod, pods) for values, pods in given.topology or ()]
        return tuple(found)

    @cached_property
    def flavor_resources(self) -> frozenset[FlavorResource]:
        """The resources of flavors that it was given."""
        return frozenset((flavor, name) for pod_set in self.pod_sets for name, flavor in pod_set.flavors.items())

    @cached_property
    def shape(self) -> object:
        """What it is equal in to workloads that are scheduled alike."""
        return (
            self.workload.priority,
            tuple(
                (
                    wanted.name,
                    wanted.shape,
                    total.count,
                    tuple(total.requests.items()),
                )
                for wanted, total in zip(self.workload.pod_sets, self.pod_sets, strict=False)
            ),
        )

    def having(self, **changes: Any) -> Info:
        """Return the same workload with another progress or place; what was computed of it stays."""
        found = replace(self, **changes)
        found.__dict__.update({name: self.__dict__[name] for name in _DERIVED if name in self.__dict__})
        return found


def total_usage(several: Iterable[Info]) -> Usage:
    """Return the quota that is reserved for several workloads together."""
    total: Usage = {}
    for info in several:
        for place, amount in info.usage.items():
            total[place] = add(total.get(place, 0), amount)
    return total


_DERIVED = ("pod_sets", "usage", "reserved", "placed", "flavor_resources", "shape")


def _pending(workload: Workload) -> tuple[PodSetRequests, ...]:
    return tuple(
        PodSetRequests(
            wanted.name,
            count := _after_reclaim(workload, wanted),
            {name: clamped(amount * count) for name, amount in wanted.requests.items()},
            {},
        )
        for wanted in workload.pod_sets
    )


def _admitted(workload: Workload, admission: QuotaAdmission) -> tuple[PodSetRequests, ...]:
    wanted = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    found = []
    for given in admission.pod_sets:
        spec = wanted.get(given.name)
        count = given.count if given.count >= 0 else spec.count if spec else 0
        totals = PodSetRequests(given.name, count, given.usage, given.flavors)
        left = _after_reclaim(workload, spec) if spec else 0
        # Fewer pods than were admitted need quota still; more than were admitted never do.
        found.append(totals.scaled_to(left) if left < count else totals)
    return tuple(found)


def _after_reclaim(workload: Workload, pod_set: PodSet) -> int:
    return pod_set.count - min(workload.reclaimable.get(pod_set.name, 0), pod_set.count)
