"""The tree of a flavor's topology: its domains, level by level, and what its nodes have.

In: the levels, and the nodes that the flavor selects. Out: domains that know their parent and children, and leaves with
their capacity. It does not change; another set of nodes makes another one (kubernetes-sigs/kueue
pkg/cache/scheduler/tas_topology_tree.go)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane.controllers.quota.engine.amounts import Requests, add
from controlplane.controllers.quota.topology.model import Node, Values
from controlplane.kube.well_known import HOSTNAME


class Domain:
    """A domain of one level. `index`: its place in lists that tell something of each domain; `rank`: its place among
    all, sorted by values. `key`: its values as an assignment has them: where the narrowest level is the hostname, a
    leaf's is that alone.
    """

    __slots__ = ("children", "index", "key", "leaf", "level", "nodes", "parent", "rank", "values")

    def __init__(self, values: Values, parent: Domain | None, index: int) -> None:
        self.values = values
        self.key = values
        self.level = len(values) - 1
        self.parent = parent
        self.index = index
        self.rank = 0
        self.children: list[Domain] = []
        self.leaf = -1
        self.nodes: list[Node] = []

    def above(self, level: int) -> Domain:
        """Return the domain of a level that it is in, or is itself."""
        found = self
        while found.level > level:
            assert found.parent is not None
            found = found.parent
        return found


class TopologyTree:
    """All domains of a topology that have nodes. `leaves` are in no order; `by_key` finds them by their keys."""

    def __init__(self, levels: Sequence[str], nodes: Iterable[Node]) -> None:
        self.levels = tuple(levels)
        self.of_nodes = self.levels[-1:] == (HOSTNAME,)
        self.domains: list[Domain] = []
        self.leaves: list[Domain] = []
        self.by_key: dict[Values, Domain] = {}
        self.at_level: list[dict[Values, Domain]] = [{} for _ in self.levels]
        self.of_node: dict[str, Domain] = {}
        self.capacity: list[Requests] = []
        for node in nodes:
            self._add(node)
        for rank, domain in enumerate(sorted(self.domains, key=lambda one: one.values)):
            domain.rank = rank

    def _add(self, node: Node) -> None:
        values = tuple(node.labels[level] for level in self.levels)
        key = values[-1:] if self.of_nodes else values
        leaf = self.by_key.get(key)
        if leaf is None:
            leaf = self.by_key[key] = self._domain(values)
            leaf.key, leaf.leaf = key, len(self.leaves)
            self.leaves.append(leaf)
            self.capacity.append({})
        leaf.nodes.append(node)
        self.of_node[node.name] = leaf
        has = self.capacity[leaf.leaf]
        for name, amount in node.allocatable.items():
            has[name] = add(has.get(name, 0), amount)

    def _domain(self, values: Values) -> Domain:
        level = self.at_level[len(values) - 1]
        if values not in level:
            parent = self._domain(values[:-1]) if len(values) > 1 else None
            found = level[values] = Domain(values, parent, len(self.domains))
            self.domains.append(found)
            if parent is not None:
                parent.children.append(found)
        return level[values]

    def level_of(self, key: str) -> int | None:
        """Return which level a label's key is, None if it is none."""
        return self.levels.index(key) if key in self.levels else None
