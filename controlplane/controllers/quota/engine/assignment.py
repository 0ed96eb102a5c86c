"""What a workload would be given: a flavor for each resource of each pod set, how well that fits, and why it does not.

Made by `flavor_assigner`; read by preemption and by the cycle."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controlplane.controllers.quota.engine import slices
from controlplane.controllers.quota.engine.amounts import FlavorResource, Requests, Usage, add
from controlplane.controllers.quota.engine.info import Info, Progress
from controlplane.controllers.quota.engine.model import ClusterQueue, PodSetAssignment
from controlplane.controllers.quota.engine.modes import AssignmentMode, Possibility
from controlplane.controllers.quota.engine.reasons import (
    NO_MATCHING_FLAVOR,
    TOPOLOGY_PLACEMENT_FAILED,
    most_severe,
    severity,
)
from controlplane.controllers.quota.topology.model import Placed, TopologyAssignment
from controlplane.controllers.quota.topology.requests import PlacementRequest


@dataclass(slots=True)
class FlavorAssignment:
    """A flavor for one resource. `tried`: the index of the last flavor that was tried, -1 if there are no more."""

    flavor: str
    mode: AssignmentMode
    borrowing: int
    tried: int = 0


class FlavorAttempt(NamedTuple):
    """A flavor that was looked at, and how it would do: the worst possibility of its resources, the farthest borrowing,
    what is in the way in words, and the reason if it does not fit."""

    flavor: str
    possibility: Possibility = Possibility.NO_FIT
    borrowing: int = 0
    told: tuple[str, ...] = ()
    reason: str = ""

    def unplaced(self) -> FlavorAttempt:
        """Return it as it is if its nodes have no place for the pods."""
        return self._replace(possibility=Possibility.NO_FIT, reason=TOPOLOGY_PLACEMENT_FAILED)

    def text(self) -> str:
        """Return it as Kueue tells it (`FormatFlavorAssignmentAttemptsForEvents` in kubernetes-sigs/kueue
        pkg/scheduler/flavorassigner/flavor_assigner_attempts.go, ff69552e)."""
        mode = self.possibility.text
        if self.possibility not in (Possibility.NO_FIT, Possibility.FIT):
            mode = f"preemptionMode={mode}"
        borrowing = [f"borrow={self.borrowing}"] if self.borrowing else []
        return f"{self.flavor}({';'.join([mode, *borrowing, *sorted(set(self.told))])})"


@dataclass(slots=True)
class PodSetResult:
    """What was found for a pod set. Without reasons or error it fits. `attempts`: the flavors that were looked at.
    `topology`: where its pods are placed; `delayed`: as in `PodSetAssignment`.
    """

    name: str
    count: int
    requests: Requests
    flavors: dict[str, FlavorAssignment] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    error: str = ""
    attempts: list[FlavorAttempt] = field(default_factory=list)
    topology: TopologyAssignment | None = None
    delayed: str = ""

    @property
    def failed(self) -> bool:
        """Whether no flavors were found that it needs: one without reasons asks for nothing that is counted here.
        (Kueue looks at no pod set after such a one, so that the others would be admitted without flavors.)"""
        return bool(self.error) or (bool(self.reasons) and not self.flavors)

    @property
    def mode(self) -> AssignmentMode:
        """The worst mode of its resources."""
        if not self.reasons and not self.error:
            return AssignmentMode.FIT
        if self.error or not self.flavors:
            return AssignmentMode.NO_FIT
        return min(found.mode for found in self.flavors.values())


@dataclass(slots=True)
class Assignment:
    """What was found for a workload. `borrowing`: the height of the smallest Cohort that its usage fits in, 0 if its
    ClusterQueue has the quota. `asked`: what of it is to be placed in topologies, by flavor; `placed`: the places that
    it takes beside those that the workload has. `replaces`: the slice whose place it is to take: `usage` and what is to
    be made room for are what it needs beyond what that one has. `short_of`: as of `Inadmissible`.
    """

    pod_sets: list[PodSetResult] = field(default_factory=list)
    borrowing: int = 0
    usage: Usage = field(default_factory=dict)
    progress: Progress | None = None
    no_fit_reason: str = ""
    asked: dict[str, list[PlacementRequest]] = field(default_factory=dict)
    placed: tuple[Placed, ...] = ()
    replaces: Info | None = None
    short_of: frozenset[FlavorResource] | None = None
    _mode: AssignmentMode | None = None

    @property
    def mode(self) -> AssignmentMode:
        """The worst mode of its pod sets."""
        if self._mode is None:
            self._mode = min((found.mode for found in self.pod_sets), default=AssignmentMode.NO_FIT)
        return self._mode

    def of(self, pod_set: str) -> PodSetResult | None:
        """Return what was found for a pod set, by its name."""
        return next((found for found in self.pod_sets if found.name == pod_set), None)

    def refresh(self) -> None:
        """Note that a pod set cannot be assigned after all."""
        self._mode = None

    def set_mode(self, pod_sets: Collection[str], mode: AssignmentMode) -> None:
        """Note that some pod sets need something else than their quota does, and with them all."""
        for pod_set in self.pod_sets:
            if pod_set.name in pod_sets:
                self._mode = mode
                for found in pod_set.flavors.values():
                    found.mode = mode

    def defer(self) -> None:
        """Note that it fits only after preemptions that others asked for."""
        self._mode = AssignmentMode.DEFERRED_FIT
        for pod_set in self.pod_sets:
            for found in pod_set.flavors.values():
                found.mode = AssignmentMode.DEFERRED_FIT

    def include(self, pod_set: PodSetResult) -> None:
        """Take a pod set's flavors into account."""
        self.pod_sets.append(pod_set)
        for resource, found in pod_set.flavors.items():
            self.borrowing = max(self.borrowing, found.borrowing)
            place = (found.flavor, resource)
            amount = slices.beyond(self.replaces, pod_set.name, resource, pod_set.requests.get(resource, 0))
            self.usage[place] = add(self.usage.get(place, 0), amount)

    def message(self) -> str:
        """Return why it does not fit at once, "" if it does."""
        found = []
        for pod_set in self.pod_sets:
            if pod_set.error:
                return f"failed to assign flavors to pod set {pod_set.name}: {pod_set.error}"
            if pod_set.reasons:
                reasons = ", ".join(sorted(pod_set.reasons))
                found.append(f"couldn't assign flavors to pod set {pod_set.name}: {reasons}")
        return "; ".join(found)

    def considered(self) -> str:
        """Return which flavors were considered beside those that have the quota, "" if none was."""
        found = []
        for pod_set in self.pod_sets:
            fit = Possibility.FIT
            others = [one for one in pod_set.attempts if one.possibility is not fit or one.borrowing]
            if others:
                found.append(f"{pod_set.name}: {', '.join(one.text() for one in sorted(others))}")
        return " | ".join(found)

    def total_requests(self, info: Info) -> Usage:
        """Return what preemption has to make room for: the requests of the assigned numbers of pods, by flavor.

        The pods themselves are not in it, even where quota is counted in pods: Kueue does not make room for them.
        """
        usage: Usage = {}
        for total in info.pod_sets:
            found = self.of(total.name)
            if found is None:
                continue
            for resource, amount in slices.more_pods(self.replaces, total, found.count).items():
                given = found.flavors.get(resource)
                if amount and given is not None:
                    place = (given.flavor, resource)
                    usage[place] = add(usage.get(place, 0), amount)
        return usage

    def needing_preemption(self) -> frozenset[FlavorResource]:
        """Return the resources of flavors that are free only after preemption."""
        return frozenset(
            (found.flavor, resource)
            for pod_set in self.pod_sets
            for resource, found in pod_set.flavors.items()
            if found.mode is AssignmentMode.PREEMPT
        )

    def nominated(self) -> Mapping[str, Mapping[str, str]]:
        """Return the flavor of each resource, by pod set."""
        return {
            pod_set.name: {resource: found.flavor for resource, found in pod_set.flavors.items()}
            for pod_set in self.pod_sets
        }

    def given(self) -> tuple[PodSetAssignment, ...]:
        """Return the assignment as it is written to an admission."""
        return tuple(
            PodSetAssignment(
                pod_set.name,
                {resource: found.flavor for resource, found in pod_set.flavors.items()},
                {resource: pod_set.requests.get(resource, 0) for resource in pod_set.flavors},
                pod_set.count,
                pod_set.topology,
                pod_set.delayed,
            )
            for pod_set in self.pod_sets
        )

    def explain_no_fit(self, queue: ClusterQueue) -> None:
        """Note the reason that is told: of alternative flavors the least severe, of what is needed together the
        most."""
        if self.mode is not AssignmentMode.NO_FIT:
            return
        told = ""
        for pod_set in self.pod_sets:
            if pod_set.mode is not AssignmentMode.NO_FIT:
                continue
            if not pod_set.attempts:
                told = most_severe((told, NO_MATCHING_FLAVOR))
                continue
            by_group: dict[int, str] = {}
            refused = [one for one in pod_set.attempts if one.possibility is Possibility.NO_FIT]
            for attempt in refused:
                for at, group in enumerate(queue.groups):
                    if attempt.flavor in group.flavors:
                        by_group[at] = min(by_group.get(at, attempt.reason), attempt.reason, key=severity)
            told = most_severe((told, most_severe(by_group.values())))
        self.no_fit_reason = told
