"""Keeps the cluster as the watches show it, with what is taken beside: the snapshot that cycles look at, kept from
object to object.

In: objects of every kind that a cycle looks at, as they come, change and go; and claims: nodes that are taken for pods
which the API server does not show there yet. Out: a `Snapshot`, and what happened in the terms of the queue
(`ClusterEvent`). Pure. Where a pod is, the watch says; until it does, its claim. An object that cannot be read is left
out, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controlplane.controllers.scheduling.framework.hints import ClusterEvent
from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.objects import Node, Pod, read_node, read_pod
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.kube import kinds
from controlplane.kube.fields import UNFIT
from controlplane.kube.kinds import Json, Kind, meta

KINDS: tuple[Kind, ...] = (
    kinds.PODS,
    kinds.NODES,
    kinds.NAMESPACES,
    kinds.SERVICES,
    kinds.REPLICATION_CONTROLLERS,
    kinds.REPLICA_SETS,
    kinds.STATEFUL_SETS,
    kinds.POD_DISRUPTION_BUDGETS,
    kinds.PERSISTENT_VOLUMES,
    kinds.PERSISTENT_VOLUME_CLAIMS,
    kinds.STORAGE_CLASSES,
    kinds.CSI_NODES,
    kinds.VOLUME_ATTACHMENTS,
    kinds.RESOURCE_CLAIMS,
    kinds.RESOURCE_SLICES,
    kinds.DEVICE_CLASSES,
)
"""What a scheduling cycle looks at."""


class ClusterView:
    """One cluster. `pods` holds every pod that has not ended, by identity; `problems` why an object was left out, by
    kind and place.
    """

    def __init__(self) -> None:
        self.cluster = ClusterTables()
        self.snapshot = Snapshot(cluster=self.cluster)
        self.pods: dict[str, Pod] = {}
        self.claims: dict[str, str] = {}
        self.problems: dict[tuple[str, str, str], str] = {}
        self._tables = self._readers()
        # The objects of which events tell what they were and are: a pod is helped by what becomes of its own.
        self._told: Mapping[str, Mapping[tuple[str, str], object]] = {
            kinds.PERSISTENT_VOLUME_CLAIMS.name: self.cluster.claims,
            kinds.RESOURCE_CLAIMS.name: self.cluster.devices.claims,
        }

    # ---------------------------------------------------------------- what the watch shows

    def apply(self, kind: Kind, obj: Json, *, gone: bool, unreadable: str = "") -> list[ClusterEvent]:
        """Take one change; return what happened for the queue. What is `unreadable` counts as it was before."""
        place = (kind.name, str(meta(obj).get("namespace", "")), str(meta(obj).get("name", "")))
        if unreadable and not gone:
            self.problems[place] = unreadable
            return []
        try:
            if kind == kinds.PODS:
                found = self._pod_gone(obj) if gone else self._pod(obj)
            elif kind == kinds.NODES:
                found = self._node_gone(obj) if gone else self._node(obj)
            elif kind == kinds.PRIORITY_CLASSES:
                found = self._class(obj, gone)
            else:
                found = self._other(kind, obj, gone)
        except UNFIT as problem:
            self.problems[place] = str(problem)
            return []
        if self.problems:
            self.problems.pop(place, None)
        return found

    def _pod(self, obj: Json) -> list[ClusterEvent]:
        pod = read_pod(obj)
        old = self.pods.get(pod.identity)
        self.cluster.gangs.see(pod)
        if pod.finished:
            return self._forget(pod.identity)
        self.pods[pod.identity] = pod
        if not pod.node_name:
            if (node := self.claims.get(pod.identity)) is not None:
                self.snapshot.add_pod(pod, node)
            return []
        self.claims.pop(pod.identity, None)
        if old is None or old.node_name != pod.node_name or _weighs(old, pod):
            self.snapshot.add_pod(pod)
        if old is None or not old.node_name:
            return [ClusterEvent("Pod", "AssignedAdd", None, pod)]
        if old.labels != pod.labels or old.requests != pod.requests:
            return [ClusterEvent("Pod", "AssignedUpdate", old, pod)]
        return []

    def _pod_gone(self, obj: Json) -> list[ClusterEvent]:
        metadata = meta(obj)
        identity = str(metadata.get("uid") or f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")
        self.cluster.gangs.forget(identity)
        return self._forget(identity)

    def _forget(self, identity: str) -> list[ClusterEvent]:
        """A pod takes nothing any more."""
        old, claimed = self.pods.pop(identity, None), self.claims.pop(identity, None)
        if identity in self.snapshot.placed:
            self.snapshot.remove_pod(identity)
        if old is None or not (old.node_name or claimed):
            return []
        return [ClusterEvent("Pod", "AssignedDelete", old, None)]

    def _node(self, obj: Json) -> list[ClusterEvent]:
        node = read_node(obj)
        row = self.snapshot.row.get(node.name)
        old = self.snapshot.nodes[row] if row is not None else None
        if old is not None and _same(old, node):
            if old.images != node.images:
                self.snapshot.put_node(node)
            return []  # a heartbeat
        self.snapshot.put_node(node)
        return [ClusterEvent("Node", "Add" if old is None else "Update", old, node)]

    def _node_gone(self, obj: Json) -> list[ClusterEvent]:
        row = self.snapshot.row.get(str(meta(obj).get("name", "")))
        if row is None:
            return []
        old = self.snapshot.nodes[row]
        self.snapshot.remove_node(old.name)
        return [ClusterEvent("Node", "Delete", old, None)]

    def _class(self, obj: Json, gone: bool) -> list[ClusterEvent]:
        if gone:
            self.cluster.gangs.here.drop_class(str(meta(obj).get("name", "")))
        else:
            self.cluster.gangs.here.put_class(obj)
        return []

    def _other(self, kind: Kind, obj: Json, gone: bool) -> list[ClusterEvent]:
        put, drop = self._tables[kind.name]
        metadata = meta(obj)
        place = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
        told = self._told.get(kind.name, {})
        before = told.get(place)
        if gone:
            drop(place)
        else:
            put(obj)
        return [ClusterEvent(kind.kind, "Delete" if gone else "Update", before, told.get(place))]

    # ---------------------------------------------------------------- what is taken

    def claim(self, identity: str, node: str) -> None:
        """Take a node for a pod until the watch shows it somewhere; "" gives it back. Does nothing for a pod that has
        one.
        """
        pod = self.pods.get(identity)
        if pod is not None and pod.node_name:
            return
        if self.claims.get(identity, "") == node:
            return
        if node:
            self.claims[identity] = node
            if pod is not None:
                self.snapshot.add_pod(pod, node)
            return
        del self.claims[identity]
        if identity in self.snapshot.placed:
            self.snapshot.remove_pod(identity)

    def _readers(self) -> Mapping[str, tuple[Callable[[Json], None], Callable[[tuple[str, str]], object]]]:
        """Return how the other kinds get into the tables and out of them."""
        tables = self.cluster

        def controller(kind: Kind) -> tuple[Callable[[Json], None], Callable[[tuple[str, str]], object]]:
            return (
                lambda obj: tables.put_controller(kind.kind, obj, kind.kind),
                lambda place: tables.controllers.pop((kind.kind, *place), None),
            )

        return {
            kinds.NAMESPACES.name: (tables.put_namespace, lambda place: tables.namespaces.pop(place[1], None)),
            kinds.SERVICES.name: (
                tables.put_service,
                lambda place: tables.services.get(place[0], {}).pop(place[1], None),
            ),
            kinds.REPLICATION_CONTROLLERS.name: controller(kinds.REPLICATION_CONTROLLERS),
            kinds.REPLICA_SETS.name: controller(kinds.REPLICA_SETS),
            kinds.STATEFUL_SETS.name: controller(kinds.STATEFUL_SETS),
            kinds.POD_DISRUPTION_BUDGETS.name: (tables.put_budget, lambda place: tables.budgets.pop(place, None)),
            kinds.PERSISTENT_VOLUMES.name: (tables.put_volume, lambda place: tables.volumes.pop(place[1], None)),
            kinds.PERSISTENT_VOLUME_CLAIMS.name: (tables.put_claim, lambda place: tables.claims.pop(place, None)),
            kinds.POD_GROUPS.name: (tables.gangs.put, tables.gangs.drop),
            kinds.STORAGE_CLASSES.name: (tables.put_class, lambda place: tables.classes.pop(place[1], None)),
            kinds.CSI_NODES.name: (tables.put_csi_node, lambda place: tables.csi_nodes.pop(place[1], None)),
            kinds.VOLUME_ATTACHMENTS.name: (tables.put_attachment, lambda place: tables.drop_attachment(place[1])),
            kinds.RESOURCE_CLAIMS.name: (tables.devices.put_claim, tables.devices.drop_claim),
            kinds.RESOURCE_SLICES.name: (
                tables.devices.put_slice,
                lambda place: tables.devices.slices.drop(place[1]),
            ),
            kinds.DEVICE_CLASSES.name: (
                tables.devices.put_class,
                lambda place: tables.devices.classes.pop(place[1], None),
            ),
        }


def _same(old: Node, new: Node) -> bool:
    """Whether two states of a node differ in nothing that a filter looks at."""
    return (old.labels, old.taints, old.unschedulable, old.allocatable) == (
        new.labels,
        new.taints,
        new.unschedulable,
        new.allocatable,
    )


def _weighs(old: Pod, new: Pod) -> bool:
    """Whether two states of a pod on a node differ in anything that is counted or compared."""
    return (
        old.labels != new.labels
        or old.requests != new.requests
        or old.terminating != new.terminating
        or old.preempted != new.preempted
        or old.started != new.started
        or old.priority != new.priority
    )
