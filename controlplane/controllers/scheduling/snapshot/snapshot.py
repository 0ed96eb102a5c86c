"""Keeps nodes and pods as columns, as they come, change and go.

In: `Node` and `Pod` objects, one change at a time. Out: arrays with one entry a node (what is allocatable, requested,
tainted, labelled), counts of pods by selector, and for the node-by-node forms one `NodeInfo` a node. Rows are dense: a
node that goes gives its row to the last one. What was derived from nodes alone is kept until a node changes; what
counts pods is moved along with each pod (`groups`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.columns import LabelColumn, Numbering, all_of, grown
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import (
    NATIVE,
    REGION,
    ZONE,
    HostPort,
    Node,
    NodeRules,
    Pod,
    is_scalar,
)
from controlplane.controllers.scheduling.snapshot.pod_counts import PodCounts, Query
from controlplane.kube.selectors import NodeTerm
from controlplane.kube.tolerations import BLOCKING, Taint, Toleration, untolerated

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
_KEPT = 256


class Snapshot:
    """The cluster at one moment. Arrays that it returns are its own: they are read, never written."""

    def __init__(
        self, nodes: Iterable[Node] = (), pods: Iterable[Pod] = (), cluster: ClusterTables | None = None
    ) -> None:
        self.cluster = cluster or ClusterTables()
        self.nodes: list[Node] = []
        self.row: dict[str, int] = {}
        self.groups = PodCounts()
        self.users: dict[tuple[str, str], set[str]] = {}  # by claim: who on a node mounts it by its name
        self.placed: dict[str, tuple[Pod, int]] = {}
        self.ports: dict[HostPort, dict[int, int]] = {}
        self.images: dict[str, dict[str, int]] = {}
        self.resources: dict[str, int] = {name: column for column, name in enumerate(NATIVE)}
        self._taint_sets: Numbering[tuple[Taint, ...]] = Numbering()
        self._ids: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._free: list[int] = []
        self._rows = np.full(16, -1, dtype=np.int32)
        self._on: dict[int, dict[str, Pod]] = {}
        self._capacity = 16
        self._allocatable = np.zeros((16, len(self.resources)), dtype=np.int64)
        self._requested = np.zeros((16, len(self.resources)), dtype=np.int64)
        self._nonzero = np.zeros((16, 2), dtype=np.int64)
        self._pods = np.zeros((16, 2), dtype=np.int64)  # how many there are, how many there may be
        self._unschedulable = np.zeros(16, dtype=np.bool_)
        self._taints = np.zeros(16, dtype=np.int32)
        self._labels: dict[str, LabelColumn] = {}
        self._infos: dict[int, NodeInfo] = {}
        self._derived: dict[Any, Any] = {}
        for node in nodes:
            self.put_node(node)
        for pod in pods:
            if pod.node_name and not pod.finished:
                self.add_pod(pod)

    def __len__(self) -> int:
        return len(self.nodes)

    # ---------------------------------------------------------------- what changes it

    def put_node(self, node: Node) -> None:
        """Add a node, or replace the one of that name."""
        row, self.cluster.nodes[node.name] = self.row.get(node.name), node
        if row is None:
            row = self._new_row(node)
        else:
            self._forget_images(self.nodes[row])
            self.nodes[row] = node
        self._derived.clear()
        self._forget_labels()
        self._infos.pop(row, None)
        self._allocatable[row] = 0
        for name, amount in node.allocatable.items():
            if (column := self._resource(name)) is not None:
                self._allocatable[row, column] = amount
        self._pods[row, 1] = node.allocatable.get("pods", 0)
        self._unschedulable[row] = node.unschedulable
        self._taints[row] = self._taint_sets.add(node.taints)
        self._taint_sets.tidy(self._taints, len(self.nodes))
        for name, size in node.images.items():
            self.images.setdefault(name, {})[node.name] = size
        for column_ in self._labels.values():
            column_.size = len(self.nodes)
            column_.put(row, node, self._capacity)

    def remove_node(self, name: str) -> None:
        """Forget a node; pods on it wait for its return. KeyError if it is not there."""
        row, last, ident = self.row.pop(name), len(self.nodes) - 1, self._ids[name]
        self.cluster.nodes.pop(name, None)
        for pod in self._on.get(ident, {}).values():
            self._count(pod, ident, row, -1)
        self._derived.clear()
        self._infos.clear()
        self._forget_images(self.nodes[row])
        self._rows[ident] = -1
        self._give_back(ident)
        if row != last:
            moved = self.nodes[row] = self.nodes[last]
            self.row[moved.name] = row
            self._rows[self._ids[moved.name]] = row
        self.nodes.pop()
        for array in (self._allocatable, self._requested, self._nonzero, self._pods, self._unschedulable, self._taints):
            array[row] = array[last]
            array[last] = 0
        self.groups.move(last, row)
        for column in self._labels.values():
            column.move(last, row)
            column.size = len(self.nodes)

    def add_pod(self, pod: Pod, node: str = "") -> None:
        """Count a pod on its node, or on the one that it was assumed on; again: it has changed."""
        if pod.identity in self.placed:
            self.remove_pod(pod.identity)
        ident = self._id(node or pod.node_name)
        self.placed[pod.identity] = (pod, ident)
        self._on.setdefault(ident, {})[pod.identity] = pod
        row = int(self._rows[ident])
        self.groups.add(pod, ident, row)
        self._count(pod, ident, row, 1)

    def remove_pod(self, identity: str) -> None:
        """Count a pod no more; KeyError if it was not counted."""
        pod, ident = self.placed.pop(identity)
        del self._on[ident][identity]
        row = int(self._rows[ident])
        self.groups.remove(pod, ident, row)
        self._count(pod, ident, row, -1)
        self._give_back(ident)
        self._forget_labels()

    # ---------------------------------------------------------------- what is read: one entry a node

    def allocatable(self, resource: str) -> Ints:
        """Return what each node has of a resource."""
        column = self.resources.get(resource)
        return np.zeros(len(self), dtype=np.int64) if column is None else self._allocatable[: len(self), column]

    def requested(self, resource: str) -> Ints:
        """Return what the pods of each node have asked for."""
        column = self.resources.get(resource)
        return np.zeros(len(self), dtype=np.int64) if column is None else self._requested[: len(self), column]

    @property
    def nonzero(self) -> Ints:
        """Cpu and memory that the pods of each node count as where nodes are scored, as two columns."""
        return self._nonzero[: len(self)]

    @property
    def pod_room(self) -> Ints:
        """How many pods each node has, and how many it may have, as two columns."""
        return self._pods[: len(self)]

    @property
    def unschedulable(self) -> Mask:
        """Which nodes are cordoned."""
        return self._unschedulable[: len(self)]

    def label(self, key: str) -> LabelColumn:
        """Return the values of a label."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = LabelColumn(key, self.nodes, self._capacity)
        return column

    def matching(self, query: Query) -> Ints:
        """Return how many pods of a query each node has."""
        return self.groups.counts(query, self._rows, len(self), self._capacity)

    @property
    def rows_by_id(self) -> NDArray[np.int32]:
        """The row of each node number that `groups` uses."""
        return self._rows

    def repelled(self, tolerations: Sequence[Toleration]) -> Mask:
        """Return which nodes have a taint that keeps pods away and is not tolerated."""
        mask: Mask = self.kept(
            ("repelled", tuple(tolerations)),
            lambda: self.per_taint_set(lambda found: untolerated(found, tolerations, BLOCKING) is not None).astype(
                bool
            ),
        )
        return mask

    def per_taint_set(self, count: Callable[[tuple[Taint, ...]], int | bool]) -> Ints:
        """Return a number for each node that depends on its taints alone."""
        numbers = np.array([count(found) for found in self._taint_sets.values] or [0], dtype=np.int64)
        return numbers[self._taints[: len(self)]]

    def selected(self, rules: NodeRules) -> Mask:
        """Return which nodes a pod's nodeSelector and required node affinity admit."""
        mask: Mask = self.kept(("selected", rules.selector, rules.required), lambda: self._selected(rules))
        return mask

    def of_term(self, term: NodeTerm) -> Mask:
        """Return which nodes a node selector term selects; none if it does not parse."""
        if term.error:
            return np.zeros(len(self), dtype=np.bool_)
        found = all_of((self.label(requirement.key).meets(requirement) for requirement in term.labels), len(self))
        for key, equal, value in term.names:
            named = np.zeros(len(self), dtype=np.bool_)
            if key == "metadata.name" and value in self.row:
                named[self.row[value]] = True
            elif key != "metadata.name":
                named[:] = value == ""
            found &= named if equal else ~named
        return found

    def order(self) -> NDArray[np.int64]:
        """Return the rows in the order in which nodes are tried: zone by zone in turn, so that a sample sees them
        all.
        """
        rows: Ints = self.kept("order", self._order)
        return rows

    def info(self, row: int) -> NodeInfo:
        """Return a node with its pods; to be cloned before it is changed."""
        info = self._infos.get(row)
        if info is None:
            node = self.nodes[row]
            pods = self._on.get(self._ids[node.name], {}).values()
            info = self._infos[row] = NodeInfo(node, row, pods, self)
        return info

    def kept(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what depends on nodes alone, made once until a node changes."""
        found = self._derived.get(key)
        if found is None:
            if len(self._derived) >= _KEPT:
                self._derived.clear()
            found = self._derived[key] = make()
        return found

    # ---------------------------------------------------------------- its own

    def _selected(self, rules: NodeRules) -> Mask:
        found = np.ones(len(self), dtype=np.bool_)
        for key, value in rules.selector or ():
            column = self.label(key)
            number = column.number(value)
            found &= (column.codes == number) if number >= 0 else False
        if rules.required is not None:
            any_term = np.zeros(len(self), dtype=np.bool_)
            for term in rules.required:
                any_term |= self.of_term(term)
            found &= any_term
        return found

    def _order(self) -> NDArray[np.int64]:
        zones: dict[tuple[str, str], list[int]] = {}
        for row, node in enumerate(self.nodes):
            zones.setdefault((node.labels.get(REGION, ""), node.labels.get(ZONE, "")), []).append(row)
        longest = max(map(len, zones.values()), default=0)
        ordered = [rows[at] for at in range(longest) for rows in zones.values() if at < len(rows)]
        return np.array(ordered, dtype=np.int64)

    def _new_row(self, node: Node) -> int:
        row = self.row[node.name] = len(self.nodes)
        self.nodes.append(node)
        if row >= self._capacity:
            self._capacity *= 2
            for name in ("_allocatable", "_requested", "_nonzero", "_pods", "_unschedulable", "_taints"):
                setattr(self, name, grown(getattr(self, name), self._capacity))
        ident = self._id(node.name)
        self._rows[ident] = row
        if waiting := self._on.get(ident):
            self.groups.forget()
            for pod in waiting.values():
                self._count(pod, ident, row, 1)
        return row

    def _count(self, pod: Pod, ident: int, row: int, step: int) -> None:
        if row < 0:
            return
        self._infos.pop(row, None)
        self._pods[row, 0] += step
        self._nonzero[row] += (step * pod.nonzero[0], step * pod.nonzero[1])
        for name, amount in pod.requests.items():
            if (column := self._resource(name)) is not None:
                self._requested[row, column] += step * amount
        for port in pod.ports:
            used = self.ports.setdefault(port, {})
            used[ident] = used.get(ident, 0) + step
            if not used[ident]:
                del used[ident]
        for name, ephemeral in pod.claims:
            if not ephemeral:
                self._use((pod.namespace, name), pod.identity, step)

    def _use(self, claim: tuple[str, str], identity: str, step: int) -> None:
        users = self.users.setdefault(claim, set())
        (users.add if step > 0 else users.discard)(identity)
        if not users:
            del self.users[claim]

    def _resource(self, name: str) -> int | None:
        """Return a resource's column, None if the scheduler does not count it."""
        column = self.resources.get(name)
        if column is None and is_scalar(name):
            column = self.resources[name] = len(self.resources)
            wider = np.zeros((self._capacity, 1), dtype=np.int64)
            self._allocatable = np.hstack([self._allocatable, wider])
            self._requested = np.hstack([self._requested, wider])
        return column

    def _id(self, name: str) -> int:
        ident = self._ids.get(name)
        if ident is None:
            ident = self._ids[name] = self._free.pop() if self._free else len(self._ids)
            if ident >= len(self._rows):
                self._rows = grown(self._rows, 2 * len(self._rows), -1)
            self._rows[ident], self._names[ident] = -1, name
        return ident

    def _forget_labels(self) -> None:
        """Keep the newest labels that were asked for: pods may ask for any. Not within a cycle, which goes by numbers
        that a column made anew may not have.
        """
        while len(self._labels) > _KEPT:
            del self._labels[next(iter(self._labels))]

    def _give_back(self, ident: int) -> None:
        """Have the number of a node that is not there, and that no pod waits for, be another's."""
        if self._rows[ident] < 0 and not self._on.get(ident):
            self._on.pop(ident, None)
            del self._ids[self._names.pop(ident)]
            self._free.append(ident)

    def _forget_images(self, node: Node) -> None:
        for name in node.images:
            del self.images[name][node.name]
            if not self.images[name]:
                del self.images[name]
