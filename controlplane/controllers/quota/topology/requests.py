"""What has to be placed: pod sets with their flavor, as the placement algorithm takes them.

In: a pod set, how many pods of it, and how its placement was asked for. Out: levels, slices and sizes, in the terms of
one topology; what does not go with the topology is a `Refusal`, in Kueue's words (kubernetes-sigs/kueue
pkg/cache/scheduler/tas_flavor_snapshot.go)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controlplane.controllers.quota.engine.model import PodSet
from controlplane.controllers.quota.topology.model import PodSetSlice, PodSetUpdate, TopologyRequest
from controlplane.controllers.quota.topology.tree import TopologyTree

NOTHING = TopologyRequest(explicit=False)


class Refusal(Exception):  # noqa: N818 - it is an answer
    """Why pods cannot be placed."""


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """Pods of a pod set that are to be placed in the topology of a flavor. `implied`: they are since all flavors of the
    ClusterQueue have one, and not because they ask for it. `updates`: what admission checks change."""

    pod_set: PodSet
    count: int
    flavor: str
    implied: bool = False
    updates: tuple[PodSetUpdate, ...] = ()

    @property
    def topology(self) -> TopologyRequest:
        """What is asked for."""
        return self.pod_set.topology or NOTHING

    @property
    def unconstrained(self) -> bool:
        """Whether the pods may be spread over all domains."""
        asked = self.topology
        return asked.unconstrained or self.implied or _by_slices_only(asked)

    def sized(self, count: int, slices: tuple[PodSetSlice, ...] | None = None) -> PlacementRequest:
        """Return the same for another number of pods, with other slices if there are some."""
        if slices is None:
            return replace(self, count=count)
        asked = replace(self.topology, slices=slices)
        return replace(self, count=count, pod_set=replace(self.pod_set, topology=asked))


@dataclass(frozen=True, slots=True)
class Levels:
    """The terms of a request in one topology: the level that is asked for, that of slices and how many pods one has,
    and the sizes of those within them by level."""

    requested: int
    of_slices: int
    slice_size: int
    inner: Mapping[int, int]


def level_key(asked: TopologyRequest, tree_levels: tuple[str, ...], *, implied: bool = False) -> str:
    """Return the key of the level that is asked for, "" if none is."""
    if asked.required or asked.preferred:
        return asked.required or asked.preferred
    if _by_slices_only(asked):
        return tree_levels[0]
    return tree_levels[-1] if asked.unconstrained or implied else ""


def _by_slices_only(asked: TopologyRequest) -> bool:
    return not asked.required and not asked.preferred and bool(asked.slices)


def has_levels(asked: TopologyRequest, levels: tuple[str, ...]) -> bool:
    """Return whether a topology has all levels that a request names."""
    key = level_key(asked, levels)
    return key in levels and all(one.topology in levels for one in asked.slices)


def slice_size(asked: TopologyRequest) -> int:
    """Return how many pods the outermost slice has; one where none is asked for. `Refusal` if it does not say."""
    if not asked.slices:
        return 1
    if asked.slices[0].size <= 0:
        raise Refusal("slice topology requested, but slice size not provided")
    return asked.slices[0].size


def levels_of(request: PlacementRequest, tree: TopologyTree) -> Levels:
    """Return a request in the terms of a topology; `Refusal` if they do not go together. Of fewer pods than one slice
    has, no slice would be placed, and they would have quota and wait for a place for good."""
    asked, levels = request.topology, tree.levels
    size = slice_size(asked)
    if asked.slices and request.count < size:
        raise Refusal(f"the slice size {size} is greater than the number of pods, {request.count}")
    key = level_key(asked, levels, implied=request.implied)
    if not key:
        raise Refusal("topology level not specified")
    requested = tree.level_of(key)
    if requested is None:
        raise Refusal(f"no requested topology level: {key}")
    slice_key = asked.slices[0].topology if asked.slices else levels[-1]
    of_slices = tree.level_of(slice_key)
    if of_slices is None:
        raise Refusal(f"no requested topology level for slices: {slice_key}")
    if requested > of_slices:
        raise Refusal(f"podset slice topology {slice_key} is above the podset topology {key}")
    return Levels(requested, of_slices, size, _inner_sizes(asked, tree, size, of_slices))


def _inner_sizes(asked: TopologyRequest, tree: TopologyTree, size: int, level: int) -> dict[int, int]:
    """Return by how many pods are divided at the levels below that of the outermost slices: between two layers by the
    size of the inner one."""
    found: dict[int, int] = {}
    for layer in asked.slices[1:]:
        inner = tree.level_of(layer.topology)
        if inner is None:
            raise Refusal(f"no requested topology level for additional slice layer: {layer.topology}")
        if inner <= level:
            above = tree.levels[level]
            raise Refusal(f"additional slice layer topology {layer.topology} must be at a lower level than {above}")
        if layer.size <= 0 or size % layer.size:
            told = f"additional slice layer size {layer.size} must evenly divide parent layer size {size}"
            raise Refusal(told)
        found.update(dict.fromkeys(range(level + 1, inner + 1), layer.size))
        size, level = layer.size, inner
    return found
