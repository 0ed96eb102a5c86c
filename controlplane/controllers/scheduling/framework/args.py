"""Defines the typed args of plugins, by the names of KubeSchedulerConfiguration.

A struct is what one `pluginConfig[].args` is read into; `check` returns what is wrong with it, field by field, for the
configuration to name.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from controlplane.kube.kinds import Json

_LABEL = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)


class Args(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Args of any plugin; `kind` and `apiVersion` may stand in them."""

    kind: str = ""
    api_version: str = ""

    def check(self) -> list[str]:
        """Return what is wrong, each as `field: problem`."""
        return []


class ResourceSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A resource that counts in scoring; weight 0 is the default 1."""

    name: str
    weight: int = 1

    def problems(self, field: str) -> list[str]:
        """Return what is wrong with it."""
        found = [] if self.name else [f"{field}.name: a resource needs a name"]
        return found if 0 <= self.weight <= 100 else [*found, f"{field}.weight: {self.weight} is not within 1…100"]


class UtilizationPoint(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One point of the shape: at this utilisation in percent, this score from 0 to 10."""

    utilization: int
    score: int


class Ratio(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The shape of RequestedToCapacityRatio: points of growing utilisation."""

    shape: tuple[UtilizationPoint, ...] = ()


Strategy = Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
CPU_AND_MEMORY = (ResourceSpec("cpu", 1), ResourceSpec("memory", 1))


class ScoringStrategy(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How NodeResourcesFit scores."""

    type: Strategy = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY
    requested_to_capacity_ratio: Ratio | None = None

    def __post_init__(self) -> None:
        """Take the usual resources where none are named."""
        if not self.resources:
            msgspec.structs.force_setattr(self, "resources", CPU_AND_MEMORY)


class NodeResourcesFitArgs(Args, frozen=True):
    """Args of NodeResourcesFit."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()

    def check(self) -> list[str]:
        """Return what is wrong, each as `field: problem`."""
        strategy = self.scoring_strategy
        found = _resources(strategy.resources, "scoringStrategy.resources")
        for at, resource in enumerate(self.ignored_resources):
            if not _LABEL.fullmatch(resource):
                found.append(f"ignoredResources[{at}]: {resource!r} is no name of a resource, such as example.com/gpu")
        for at, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                found.append(f"ignoredResourceGroups[{at}]: {group!r} must not contain a slash")
        if strategy.type == "RequestedToCapacityRatio":
            found += _shape(strategy.requested_to_capacity_ratio)
        return found


class NodeResourcesBalancedAllocationArgs(Args, frozen=True):
    """Args of NodeResourcesBalancedAllocation."""

    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY

    def __post_init__(self) -> None:
        """Take the usual resources where none are named."""
        if not self.resources:
            msgspec.structs.force_setattr(self, "resources", CPU_AND_MEMORY)

    def check(self) -> list[str]:
        """Return what is wrong, each as `field: problem`."""
        found = _resources(self.resources, "resources")
        for at, one in enumerate(self.resources):
            if one.weight not in (0, 1):
                found.append(f"resources[{at}].weight: {one.weight} is not 1: balance knows no weights")
        return found


class PodTopologySpreadArgs(Args, frozen=True):
    """Args of PodTopologySpread; `defaultConstraints` only with `defaultingType: List`."""

    defaulting_type: Literal["System", "List"] = "System"
    default_constraints: tuple[Json, ...] = ()

    def check(self) -> list[str]:
        """Return what is wrong, each as `field: problem`."""
        if self.defaulting_type == "System":
            given = "defaultConstraints: may only be given with defaultingType List"
            return [given] if self.default_constraints else []
        found: list[str] = []
        seen: set[tuple[str, str]] = set()
        for at, constraint in enumerate(self.default_constraints):
            found += [f"defaultConstraints[{at}].{problem}" for problem in _constraint(constraint)]
            pair = (str(constraint.get("topologyKey")), str(constraint.get("whenUnsatisfiable")))
            if pair in seen:
                found.append(f"defaultConstraints[{at}]: {pair[0]} with {pair[1]} stands there twice")
            seen.add(pair)
        return found


class InterPodAffinityArgs(Args, frozen=True):
    """Args of InterPodAffinity."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def check(self) -> list[str]:
        """Return what is wrong, each as `field: problem`."""
        weight = self.hard_pod_affinity_weight
        return [] if 0 <= weight <= 100 else [f"hardPodAffinityWeight: {weight} is not within 0…100"]


class NodeAffinityArgs(Args, frozen=True):
    """Args of NodeAffinity: a node affinity that every pod of the profile has as well."""

    added_affinity: Json | None = None


class VolumeBindingArgs(Args, frozen=True):
    """Args of VolumeBinding: how long the binding of claims may take."""

    bind_timeout_seconds: int = 600

    def check(self) -> list[str]:
        """Return what is wrong, each as `field: problem`."""
        seconds = self.bind_timeout_seconds
        return [] if seconds >= 0 else [f"bindTimeoutSeconds: {seconds} is negative"]


class DefaultPreemptionArgs(Args, frozen=True):
    """Args of DefaultPreemption: on how many nodes at least it is tried out."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def check(self) -> list[str]:
        """Return what is wrong, each as `field: problem`."""
        found = []
        if not 0 <= self.min_candidate_nodes_percentage <= 100:
            found.append(f"minCandidateNodesPercentage: {self.min_candidate_nodes_percentage} is not within 0…100")
        if self.min_candidate_nodes_absolute < 0:
            found.append(f"minCandidateNodesAbsolute: {self.min_candidate_nodes_absolute} is negative")
        if not self.min_candidate_nodes_percentage and not self.min_candidate_nodes_absolute:
            found.append("minCandidateNodesAbsolute: one of it and minCandidateNodesPercentage must be above 0")
        return found


def _resources(listed: tuple[ResourceSpec, ...], field: str) -> list[str]:
    found = [problem for at, one in enumerate(listed) for problem in one.problems(f"{field}[{at}]")]
    names = [one.name for one in listed]
    found += [f"{field}: {name} stands there twice" for name in sorted({n for n in names if names.count(n) > 1})]
    return found


def _shape(ratio: Ratio | None) -> list[str]:
    field = "scoringStrategy.requestedToCapacityRatio.shape"
    points = ratio.shape if ratio else ()
    found = [] if points else [f"{field}: RequestedToCapacityRatio needs at least one point"]
    for at, point in enumerate(points):
        if not 0 <= point.utilization <= 100:
            found.append(f"{field}[{at}].utilization: {point.utilization} is not within 0…100")
        if not 0 <= point.score <= 10:
            found.append(f"{field}[{at}].score: {point.score} is not within 0…10")
        if at and point.utilization <= points[at - 1].utilization:
            found.append(f"{field}[{at}].utilization: must be above the point before")
    return found


class _DefaultConstraint(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The types of a constraint's fields."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: Json | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


def _constraint(constraint: Json) -> list[str]:
    found = []
    try:
        msgspec.convert(constraint, _DefaultConstraint)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        return [f"{path.rstrip('`') or 'constraint'}: {problem}"]
    skew, key = constraint.get("maxSkew"), constraint.get("topologyKey")
    if not isinstance(skew, int) or skew <= 0:
        found.append(f"maxSkew: {skew!r} is not above 0")
    if not key:
        found.append("topologyKey: a constraint needs one")
    elif not _LABEL.fullmatch(key):
        found.append(f"topologyKey: {key!r} is no key of a label, such as topology.kubernetes.io/zone")
    if constraint.get("whenUnsatisfiable") not in ("DoNotSchedule", "ScheduleAnyway"):
        found.append(
            f"whenUnsatisfiable: {constraint.get('whenUnsatisfiable')!r} is neither DoNotSchedule nor ScheduleAnyway"
        )
    if constraint.get("labelSelector") is not None:
        found.append("labelSelector: default constraints take none; the pod's Services and controller are used")
    return found
