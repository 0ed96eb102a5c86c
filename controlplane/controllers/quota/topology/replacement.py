"""Places the pods of a node that failed anew, and leaves all others where they are.

In: what a pod set was given, the name of the node, and the topology as it is used. Out: the whole assignment with other
places for those pods, and these places alone, or a `Refusal` in Kueue's words. What was asked for holds still: they
stay in the domain that is required, and fill up the slice that they were taken from (kubernetes-sigs/kueue
pkg/cache/scheduler/tas_flavor_snapshot.go, findReplacementAssignment)."""

from __future__ import annotations

from controlplane.controllers.quota.topology.counts import Situation
from controlplane.controllers.quota.topology.fleet import TopologyFlavor
from controlplane.controllers.quota.topology.model import (
    DomainPods,
    PodSetSlice,
    TopologyAssignment,
    Values,
)
from controlplane.controllers.quota.topology.placement import place
from controlplane.controllers.quota.topology.requests import PlacementRequest, Refusal, level_key, slice_size
from controlplane.controllers.quota.topology.tree import TopologyTree


def replacement(
    flavor: TopologyFlavor,
    request: PlacementRequest,
    given: TopologyAssignment,
    node: str,
    situation: Situation,
) -> tuple[TopologyAssignment, TopologyAssignment]:
    """Return the whole assignment with other places for the pods of a node, and these places alone."""
    tree = flavor.tree
    lost = [one for one in given if one.values[-1] == node]
    stay = tuple(one for one in given if one.values[-1] != node)
    for one in stay:
        if one.values not in tree.by_key:
            told = "Cannot replace the node, because the existing topologyAssignment is invalid, "
            raise Refusal(f"{told}as it contains the stale domain {one.values[0]}")
    count = lost[-1].pods if lost else 0
    within = _within(tree, request, stay, count)
    wanted = request.sized(count)
    size = slice_size(request.topology)
    if request.topology.slices and within and count % size:
        wanted = request.sized(count, (_whole_slice(request, tree, count),))
    found = place(flavor, wanted, None, Situation(situation.assumed, situation.empty, within))
    new = found[request.pod_set.name]
    if not new.domains:
        raise Refusal(f"cannot find replacement assignment for unhealthy node: {node}")
    return _merged(tree, new, stay), new


def _whole_slice(request: PlacementRequest, tree: TopologyTree, count: int) -> PodSetSlice:
    """Return the innermost slice of which the pods are a multiple; single pods if there is none."""
    whole = (one for one in reversed(request.topology.slices) if count % one.size == 0)
    return next(whole, PodSetSlice(tree.levels[-1], 1))


def _within(tree: TopologyTree, request: PlacementRequest, stay: tuple[DomainPods, ...], count: int) -> Values:
    """Return the domain that the pods have to be in, () if they may be anywhere."""
    asked = request.topology
    key = level_key(asked, tree.levels, implied=request.implied)
    level = tree.level_of(key) if key else None
    if level is None or not stay:
        return ()
    if asked.slices and count % slice_size(asked):
        broken = asked.slices[0]
        if len(asked.slices) > 1:
            broken = next(one for one in reversed(asked.slices) if count % one.size)
        return _incomplete(tree, broken, stay, count)
    if not asked.required:
        return ()
    leaf = tree.by_key.get(stay[0].values)
    return () if leaf is None else leaf.above(level).key


def _incomplete(tree: TopologyTree, broken: PodSetSlice, stay: tuple[DomainPods, ...], count: int) -> Values:
    """Return the domain whose slices are whole again with the pods that are to be placed: the first one by its
    values."""
    level = tree.level_of(broken.topology)
    if level is None:
        return ()
    pods: dict[Values, int] = {}
    for one in stay:
        leaf = tree.by_key.get(one.values)
        if leaf is not None:
            key = leaf.above(level).key
            pods[key] = pods.get(key, 0) + one.pods
    return next((key for key in sorted(pods) if (pods[key] + count) % broken.size == 0), ())


def _merged(tree: TopologyTree, new: TopologyAssignment, stay: tuple[DomainPods, ...]) -> TopologyAssignment:
    pods: dict[Values, int] = {}
    for one in (*new, *stay):
        pods[one.values] = pods.get(one.values, 0) + one.pods
    order = sorted(pods, key=lambda key: tree.by_key[key].rank)
    return TopologyAssignment(new.levels, tuple(DomainPods(key, pods[key]) for key in order))
