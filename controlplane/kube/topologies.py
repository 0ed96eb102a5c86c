"""Reads what topology-aware scheduling says on pods and in admissions: which pods are placed by it, and into which
domains.

In: annotations, a `topologyAssignment` as the API has it (kueue.x-k8s.io/v1beta2). Out: domains with their numbers of
pods, in order; `Misfit` names a field that does not fit. Pure. Sources: kubernetes-sigs/kueue pkg/util/tas/tas.go,
tas_assignment.go, apis/kueue/v1beta2/topology_types.go, ff69552e."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeVar

from controlplane.kube.fields import BadValue, Misfit, items, number, section, strings, text
from controlplane.kube.kinds import Json
from controlplane.kube.well_known import HOSTNAME

TOPOLOGY_GATE = "kueue.x-k8s.io/topology"
"""The scheduling gate of pods that wait for the domain that they run in."""
POD_INDEX_OFFSET = "kueue.x-k8s.io/pod-index-offset"
"""The annotation that says with which index the ranks of a pod set begin."""
WORKLOAD = "kueue.x-k8s.io/workload"
"""The annotation of a pod that names its Workload."""
_POD_SET = "kueue.x-k8s.io/podset-"
REQUIRED, PREFERRED = f"{_POD_SET}required-topology", f"{_POD_SET}preferred-topology"
UNCONSTRAINED = f"{_POD_SET}unconstrained-topology"
POD_SET_GROUP, SLICE_SIZE = f"{_POD_SET}group-name", f"{_POD_SET}slice-size"
SLICE, SLICE_LAYERS = f"{_POD_SET}slice-required-topology", f"{_POD_SET}slice-required-topology-constraints"
_PLACED = frozenset({REQUIRED, PREFERRED, UNCONSTRAINED, SLICE, SLICE_LAYERS})

MOST_DOMAINS = 100_000
"""How many domains a slice has at most: an API server takes no longer lists, and no bound of their number alone."""
T = TypeVar("T")
Domain = tuple[tuple[str, ...], int]
"""The values of a domain's labels, from the highest level to the lowest, and how many pods it is for."""


def is_placed_by_topology(annotations: Collection[str]) -> bool:
    """Whether a pod with these annotations is one that topology-aware scheduling places, and counts by its Workload."""
    return not _PLACED.isdisjoint(annotations)


def levels_of(assignment: Json) -> list[str]:
    """Return the node labels of an assignment's levels, from the highest to the lowest."""
    return strings(assignment, "levels", "topologyAssignment")


def domains_of(assignment: Json, where: str = "topologyAssignment") -> list[Domain]:
    """Return the domains of an assignment, in its order; `where` is the path of it."""
    found: list[Domain] = []
    for at, one in enumerate(items(assignment, "slices", where)):
        found += _of_slice(one, len(strings(assignment, "levels", where)), f"{where}.slices[{at}]")
    return found


def _of_slice(one: Json, levels: int, where: str) -> Iterator[Domain]:
    size = number(one, "domainCount", where)
    if size > MOST_DOMAINS:
        raise BadValue(f"{where}.domainCount", f"{size} is more than {MOST_DOMAINS}")
    listed = _of_size(items(one, "valuesPerLevel", where), levels, f"{where}.valuesPerLevel")
    columns = [_values(level, size, f"{where}.valuesPerLevel[{at}]") for at, level in enumerate(listed)]
    counts = _counts(section(one, "podCounts", where), size, f"{where}.podCounts")
    return zip(zip(*columns, strict=True), counts, strict=True)


def _values(level: Json, size: int, where: str) -> list[str]:
    if level.get("individual") is None:
        return [text(level, "universal", where)] * size
    individual = section(level, "individual", where)
    before, after = text(individual, "prefix", where), text(individual, "suffix", where)
    roots = strings(individual, "roots", where)
    return [f"{before}{root}{after}" for root in _of_size(roots, size, f"{where}.individual.roots")]


def _counts(counts: Json, size: int, where: str) -> list[int]:
    individual = counts.get("individual")
    if individual is None:
        return [number(counts, "universal", where)] * size
    if not isinstance(individual, list) or not all(type(one) is int for one in individual):
        raise Misfit(f"{where}.individual", individual, "a list of integers")
    return _of_size(individual, size, f"{where}.individual")


def _of_size(found: list[T], size: int, where: str) -> list[T]:
    if len(found) != size:
        raise Misfit(where, len(found), f"{size} values")
    return found


def nodes_of(assignment: Json) -> list[str]:
    """Return the nodes that an assignment has pods on, each once, in its order; none where its domains are no nodes."""
    levels = levels_of(assignment)
    if not levels or levels[-1] != HOSTNAME:
        return []
    return list(dict.fromkeys(values[-1] for values, count in domains_of(assignment) if count > 0))
