"""The fleet as topology sees it: Topologies, Nodes, the pods on them, and the workloads that are placed there.

In: objects as they come, change and go, and workloads that take or give back places. Out: for each flavor with a
topology its tree, and what is left of each leaf. A change touches what it changes: a node the trees of the flavors that
select it, a workload the leaves that its pods are on. Flavors whose narrowest level is the hostname share what is used,
since a node is the same node in each (kubernetes-sigs/kueue pkg/cache/scheduler/tas_flavor.go, tas_nodes_cache.go,
tas_non_tas_pod_cache.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controlplane.controllers.quota.engine.amounts import Requests, add, clamped, sub
from controlplane.controllers.quota.engine.model import ResourceFlavor
from controlplane.controllers.quota.engine.tree import Journal
from controlplane.controllers.quota.topology.matching import Matching
from controlplane.controllers.quota.topology.model import (
    DEFAULT_RULES,
    Node,
    Placed,
    PlacementRules,
    Topology,
    Values,
)
from controlplane.controllers.quota.topology.tree import Domain, TopologyTree
from controlplane.kube.well_known import PODS_RESOURCE

_Place = tuple[str, Values]
"""Whose usage it is, a flavor's or of all that have nodes as leaves (""), and the key of a leaf."""


class TopologyFlavor:
    """A flavor with a topology that is known. `shares`: whose usage counts, "" if it shares that of all nodes."""

    def __init__(self, fleet: TopologyFleet, flavor: ResourceFlavor, topology: Topology) -> None:
        self.fleet, self.flavor, self.topology = fleet, flavor, topology
        self.name = flavor.name
        self.shares = "" if topology.of_nodes else flavor.name
        self.matching = self._unasked()
        self._tree: TopologyTree | None = None
        self._free: list[Requests | None] = []
        self._left: list[Requests | None] = []

    def selects(self, node: Node) -> bool:
        """Return whether a node is one of the flavor's: it has its labels, and one for each level."""
        labels, wanted = node.labels, self.flavor.labels
        has_all = all(labels.get(key, "") == value for key, value in wanted.items())
        return has_all and all(level in labels for level in self.topology.levels)

    @property
    def tree(self) -> TopologyTree:
        """The tree of its nodes that pods may be placed on."""
        if self._tree is None:
            usable = (node for _, node in sorted(self.fleet.nodes.items()) if node.usable and self.selects(node))
            self._tree = TopologyTree(self.topology.levels, usable)
            self._free = [None] * len(self._tree.leaves)
            self._left = [None] * len(self._tree.leaves)
            self.matching = self._unasked()
        return self._tree

    def _unasked(self) -> Matching:
        return Matching(self.flavor.tolerations, weighs=self.fleet.rules.preferred_affinity)

    def copied(self, fleet: TopologyFleet) -> TopologyFlavor:
        """Return the same flavor of another fleet, which has the same nodes."""
        found = TopologyFlavor(fleet, self.flavor, self.topology)
        found._tree, found.matching = self.tree, self.matching
        found._free, found._left = list(self._free), list(self._left)
        return found

    def forget(self) -> None:
        """Forget the tree: the set of nodes is another one, or what they have is."""
        self._tree = None

    def touched(self, key: Values) -> None:
        """Note that what workloads use of a leaf is another amount."""
        leaf = self._tree.by_key.get(key) if self._tree is not None else None
        if leaf is not None:
            self._left[leaf.leaf] = None

    def occupied(self, node: str) -> None:
        """Note that what other pods use of a node is another amount."""
        leaf = self._tree.of_node.get(node) if self._tree is not None else None
        if leaf is not None:
            self._free[leaf.leaf] = self._left[leaf.leaf] = None

    def free(self, leaf: Domain) -> Requests:
        """Return what the nodes of a leaf have, without what other pods use of it; not to be changed."""
        found = self._free[leaf.leaf]
        if found is None:
            found = dict(self.tree.capacity[leaf.leaf])
            for node in leaf.nodes:
                for name, amount in self.fleet.used_by_pods.get(node.name, {}).items():
                    found[name] = sub(found.get(name, 0), amount)
            self._free[leaf.leaf] = found
        return found

    def left(self, leaf: Domain) -> Requests:
        """Return what is free of a leaf without what workloads use of it; not to be changed."""
        found = self._left[leaf.leaf]
        if found is None:
            found = self.free(leaf)
            used = self.fleet.usage.get((self.shares, leaf.key))
            if used:
                found = dict(found)
                for name, amount in used.items():
                    found[name] = sub(found.get(name, 0), amount)
            self._left[leaf.leaf] = found
        return found


class TopologyFleet:
    """See the module. `usage`: what workloads use, as decisions see it while they try; `used_by_pods`: what pods use of
    nodes that no workload's topology assignment has placed there; `rules`: how places are chosen. What is used is
    exact, be it more than 64 bits: a sum that had ended there would not be less once part of it is given back."""

    def __init__(self, rules: PlacementRules = DEFAULT_RULES) -> None:
        self.rules = rules
        self.topologies: dict[str, Topology] = {}
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, tuple[str, Requests]] = {}
        self.used_by_pods: dict[str, Requests] = {}
        self.flavors: dict[str, TopologyFlavor] = {}
        self.usage: dict[_Place, Requests] = {}
        self._specs: dict[str, ResourceFlavor] = {}
        self._placed: dict[str, tuple[Placed, ...]] = {}

    def copied(self) -> TopologyFleet:
        """Return another fleet that is the same, to be changed without this one."""
        found = TopologyFleet(self.rules)
        found.topologies, found.nodes, found.pods = dict(self.topologies), dict(self.nodes), dict(self.pods)
        found.used_by_pods = {node: dict(used) for node, used in self.used_by_pods.items()}
        found.usage, found._placed, found._specs = dict(self.usage), dict(self._placed), dict(self._specs)
        found.flavors = {name: flavor.copied(found) for name, flavor in self.flavors.items()}
        return found

    # What changes it.

    def put_topology(self, topology: Topology) -> None:
        """Note a Topology, new or changed."""
        self.topologies[topology.name] = topology
        self._relink()

    def drop_topology(self, name: str) -> None:
        """Note that a Topology is gone."""
        self.topologies.pop(name, None)
        self._relink()

    def put_flavor(self, flavor: ResourceFlavor) -> None:
        """Note a ResourceFlavor, new or changed."""
        if not flavor.topology:
            self.drop_flavor(flavor.name)
        elif self._specs.get(flavor.name) != flavor:
            self._specs[flavor.name] = flavor
            self._relink()

    def drop_flavor(self, name: str) -> None:
        """Note that a ResourceFlavor is gone."""
        if self._specs.pop(name, None) is not None:
            self._relink()

    def _relink(self) -> None:
        """Find out anew which flavors have a topology, and what is used of it. One without levels places nothing."""
        of = {name: one for name, one in self.topologies.items() if one.levels}
        self.flavors = {
            name: TopologyFlavor(self, flavor, of[flavor.topology])
            for name, flavor in self._specs.items()
            if flavor.topology in of
        }
        self.usage = {}
        for several in self._placed.values():
            self.take(several)

    def put_node(self, node: Node) -> list[str]:
        """Note a Node, new or changed; return the flavors that it was or is one of."""
        before = self.nodes.get(node.name)
        self.nodes[node.name] = node
        return self._forget(node) if before is None else self._forget(before, node)

    def drop_node(self, name: str) -> list[str]:
        """Note that a Node is gone; return the flavors that it was one of."""
        before = self.nodes.pop(name, None)
        return [] if before is None else self._forget(before)

    def _forget(self, *nodes: Node) -> list[str]:
        found = []
        for name, flavor in self.flavors.items():
            if any(flavor.selects(node) for node in nodes):
                flavor.forget()
                found.append(name)
        return found

    def put_pod(self, key: str, node: str, requests: Requests) -> list[str]:
        """Note what a pod uses of a node, new or changed; return the flavors that may have room now."""
        before = self.pods.get(key)
        self._occupy(key, (node, dict(requests)))
        if before is None:
            return []
        less = any(amount > requests.get(name, 0) for name, amount in before[1].items())
        return self._of_node(before[0]) if before[0] != node or less else []

    def drop_pod(self, key: str) -> list[str]:
        """Note that a pod is gone; return the flavors that may have room now."""
        before = self.pods.get(key)
        self._occupy(key, None)
        return [] if before is None else self._of_node(before[0])

    def _of_node(self, name: str) -> list[str]:
        node = self.nodes.get(name)
        return [] if node is None else [flavor.name for flavor in self.flavors.values() if flavor.selects(node)]

    def _occupy(self, key: str, now: tuple[str, Requests] | None) -> None:
        before = self.pods.pop(key, None)
        if now is not None:
            self.pods[key] = now
        for sign, one in ((-1, before), (1, now)):
            if one is None:
                continue
            used = self.used_by_pods.setdefault(one[0], {})
            for name, amount in (*one[1].items(), (PODS_RESOURCE, 1)):
                used[name] = used.get(name, 0) + sign * amount
            if not used[PODS_RESOURCE]:
                del self.used_by_pods[one[0]]
            for flavor in self.flavors.values():
                flavor.occupied(one[0])

    # Who is placed where.

    def put_workload(self, key: str, placed: tuple[Placed, ...]) -> None:
        """Note where a workload that has quota is placed."""
        self.drop_workload(key)
        if placed:
            self._placed[key] = placed
            self.take(placed)

    def drop_workload(self, key: str) -> None:
        """Note that a workload is placed nowhere any more."""
        placed = self._placed.pop(key, None)
        if placed:
            self.give_back(placed)

    def take(self, several: Iterable[Placed], journal: Journal | None = None) -> None:
        """Add what pods use."""
        for placed in several:
            self._shift(placed, 1, journal)

    def give_back(self, several: Iterable[Placed], journal: Journal | None = None) -> None:
        """Take away what pods use."""
        for placed in several:
            self._shift(placed, -1, journal)

    def _shift(self, placed: Placed, sign: int, journal: Journal | None) -> None:
        flavor = self.flavors.get(placed.flavor)
        if flavor is None:
            return
        place = (flavor.shares, placed.key)
        before = self.usage.get(place)
        after = dict(before or {})
        for name, amount in (*placed.pod.items(), (PODS_RESOURCE, 1)):
            after[name] = after.get(name, 0) + sign * amount * placed.pods
        if journal is not None:
            journal.append((self, place, before))
        self._write(place, {name: amount for name, amount in after.items() if amount})

    def _write(self, place: _Place, after: Requests | None) -> None:
        """Set what is used of a leaf, and let all flavors know that share it."""
        if after is None or not after.get(PODS_RESOURCE):
            self.usage.pop(place, None)
        else:
            self.usage[place] = after
        for flavor in self.flavors.values():
            if flavor.shares == place[0]:
                flavor.touched(place[1])

    def has_room(self, several: Iterable[Placed]) -> bool:
        """Return whether pods still fit where they are placed, all of them together.

        Kueue asks for each pod set by itself, so that two of a workload may have one place, and not how many pods a
        node takes (`Fits` in kubernetes-sigs/kueue pkg/cache/scheduler/tas_flavor_snapshot.go)."""
        taken: dict[_Place, Requests] = {}
        for placed in several:
            flavor = self.flavors.get(placed.flavor)
            leaf = flavor.tree.by_key.get(placed.key) if flavor is not None else None
            if flavor is None or leaf is None:
                return False
            before = taken.setdefault((flavor.shares, leaf.key), {})
            left = {name: sub(amount, before.get(name, 0)) for name, amount in flavor.left(leaf).items()}
            pod = with_itself(placed.pod)
            if fit_in(pod, left) < placed.pods:
                return False
            for name, amount in pod.items():
                before[name] = add(before.get(name, 0), clamped(amount * placed.pods))
        return True


MOST = 2**31 - 1


def fit_in(requests: Mapping[str, int], left: Mapping[str, int]) -> int:
    """Return how many times requests fit into what is left; 0 if they ask for nothing."""
    return min(
        (MOST if amount == 0 else max(0, left.get(name, 0) // amount) for name, amount in requests.items()), default=0
    )


def with_itself(pod: Mapping[str, int]) -> Requests:
    """Return what a pod needs of a node: its requests, and one of the pods that the node takes."""
    return {**pod, PODS_RESOURCE: pod.get(PODS_RESOURCE, 0) + 1}
