"""Keeps what the rules look at beside nodes and pods: namespaces, Services and controllers, disruption budgets,
volumes.

In: Kubernetes objects as dicts. Out: `ClusterTables`, plain tables by name. What is wrong with a budget's or a
controller's selector makes it match nothing, as kube-scheduler does; a wrong type is a `Misfit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.controllers.scheduling.binding.volume_reservations import VolumeReservations
from controlplane.controllers.scheduling.devices.tables import DeviceTables
from controlplane.controllers.scheduling.gangs.state import ClusterGangs
from controlplane.controllers.scheduling.snapshot.attachments import (
    CSINode,
    VolumeAttachment,
    read_attachment,
    read_csi_node,
)
from controlplane.controllers.scheduling.snapshot.objects import Node, Pod
from controlplane.controllers.scheduling.snapshot.storage import (
    PersistentVolume,
    StorageClass,
    VolumeClaim,
    read_claim,
    read_class,
    read_volume,
)
from controlplane.kube.pod_fields import Obj, number, section, string_map, text
from controlplane.kube.selectors import NOTHING, InvalidSelector, LabelSelector, label_selector, of_set

Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget: how many of its pods may go, and which already go."""

    namespace: str
    name: str
    selector: LabelSelector
    allowed: int
    disrupted: frozenset[str]

    def covers(self, pod: Pod) -> bool:
        """Return whether taking this pod away counts against the budget."""
        return (
            bool(pod.labels)
            and pod.namespace == self.namespace
            and not self.selector.everything
            and self.selector.matches(pod.labels)
            and pod.name not in self.disrupted
        )


@dataclass(slots=True)
class ClusterTables:
    """The tables. `services` holds the non-nil selectors of each namespace; `controllers` those of RC, ReplicaSet and
    StatefulSet.

    `attachments` holds those of each node by name; `nodes` are those of the snapshot, which keeps them;
    `volume_reservations` what is reserved for claims and does not show yet. `off`: why kinds cannot be read, by name.
    """

    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    services: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    controllers: dict[tuple[str, str, str], LabelSelector | dict[str, str]] = field(default_factory=dict)
    budgets: dict[Place, DisruptionBudget] = field(default_factory=dict)
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    claims: dict[Place, VolumeClaim] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    csi_nodes: dict[str, CSINode] = field(default_factory=dict)
    attachments: dict[str, dict[str, VolumeAttachment]] = field(default_factory=dict)
    devices: DeviceTables = field(default_factory=DeviceTables)
    gangs: ClusterGangs = field(default_factory=ClusterGangs)
    nodes: dict[str, Node] = field(default_factory=dict)
    volume_reservations: VolumeReservations = field(default_factory=VolumeReservations)
    off: Mapping[str, str] = field(default_factory=dict)
    _attached_to: dict[str, str] = field(default_factory=dict)

    def put_namespace(self, obj: Obj, where: str = "namespace") -> None:
        """Read a Namespace."""
        self.namespaces[_place(obj, where)[1]] = string_map(section(obj, "metadata", where), "labels", where)

    def put_service(self, obj: Obj, where: str = "service") -> None:
        """Read a Service."""
        namespace, name = _place(obj, where)
        spec = section(obj, "spec", where)
        of_namespace = self.services.setdefault(namespace, {})
        of_namespace.pop(name, None)
        if spec.get("selector") is not None:
            of_namespace[name] = string_map(spec, "selector", f"{where}.spec")

    def put_controller(self, kind: str, obj: Obj, where: str) -> None:
        """Read a ReplicationController, ReplicaSet or StatefulSet."""
        namespace, name = _place(obj, where)
        spec = section(obj, "spec", where)
        if kind == "ReplicationController":
            self.controllers[kind, namespace, name] = string_map(spec, "selector", f"{where}.spec")
        else:
            self.controllers[kind, namespace, name] = _selector(spec, "selector", f"{where}.spec")

    def put_budget(self, obj: Obj, where: str = "podDisruptionBudget") -> None:
        """Read a PodDisruptionBudget."""
        place = _place(obj, where)
        status = section(obj, "status", where)
        allowed = number(status, "disruptionsAllowed", f"{where}.status")
        disrupted = frozenset(section(status, "disruptedPods", f"{where}.status"))
        selector = _selector(section(obj, "spec", where), "selector", f"{where}.spec")
        self.budgets[place] = DisruptionBudget(*place, selector, allowed, disrupted)

    def put_volume(self, obj: Obj, where: str = "persistentVolume") -> None:
        """Read a PersistentVolume."""
        found = read_volume(obj, where)
        self.volumes[found.name] = found

    def put_claim(self, obj: Obj, where: str = "persistentVolumeClaim") -> None:
        """Read a PersistentVolumeClaim."""
        found = read_claim(obj, where)
        self.claims[found.namespace, found.name] = found

    def put_class(self, obj: Obj, where: str = "storageClass") -> None:
        """Read a StorageClass."""
        found = read_class(obj, where)
        self.classes[found.name] = found

    def put_csi_node(self, obj: Obj, where: str = "csiNode") -> None:
        """Read a CSINode."""
        found = read_csi_node(obj, where)
        self.csi_nodes[found.name] = found

    def put_attachment(self, obj: Obj, where: str = "volumeAttachment") -> None:
        """Read a VolumeAttachment."""
        found = read_attachment(obj, where)
        self.drop_attachment(found.name)
        self._attached_to[found.name] = found.node
        self.attachments.setdefault(found.node, {})[found.name] = found

    def drop_attachment(self, name: str) -> None:
        """Forget a VolumeAttachment, if it is there."""
        node = self._attached_to.pop(name, None)
        if node is not None:
            del self.attachments[node][name]
            if not self.attachments[node]:
                del self.attachments[node]


def selector_of_owners(cluster: ClusterTables, pod: Pod) -> LabelSelector:
    """Return the selector of the Services and of the controller that a pod belongs to; empty if it belongs to none.

    As in kubernetes/kubernetes pkg/scheduler/framework/plugins/helper/spread.go, v1.36.
    """
    labels: dict[str, str] = {}
    for selector in cluster.services.get(pod.namespace, {}).values():
        if selector.items() <= pod.labels.items():
            labels.update(selector)
    owner = pod.controller
    known = {"v1": ("ReplicationController",), "apps/v1": ("ReplicaSet", "StatefulSet")}
    if owner is None or owner.kind not in known.get(owner.api_version, ()):
        return of_set(labels)
    found = cluster.controllers.get((owner.kind, pod.namespace, owner.name))
    if isinstance(found, dict):
        return of_set(labels | found)
    selector_ = of_set(labels)
    return selector_ if found is None or found.nothing else selector_.plus(found.requirements)


def _place(obj: Obj, where: str) -> Place:
    meta = section(obj, "metadata", where)
    return text(meta, "namespace", f"{where}.metadata"), text(meta, "name", f"{where}.metadata")


def _selector(spec: Obj, field_: str, where: str) -> LabelSelector:
    if spec.get(field_) is None:
        return NOTHING
    try:
        return label_selector(section(spec, field_, where), f"{where}.{field_}")
    except InvalidSelector:
        return NOTHING
