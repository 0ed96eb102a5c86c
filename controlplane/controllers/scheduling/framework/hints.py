"""Says which event in the cluster may make which refused pod schedulable: the queueing hints of the plugins.

In: the plugins that refused a pod, and what happened (`ClusterEvent`). Out: whether the pod is worth another cycle. A
hint may be wrong in one direction only: to try in vain costs a cycle, to stay silent costs the pod five minutes. A
plugin says for itself what helps it with a method `queueing_hints() -> {(resource, action): hint}`; one that says
nothing is helped by everything. The hints of the plugins that are here stand below, as their `EventsToRegister` in
kubernetes/kubernetes pkg/scheduler/framework/plugins, v1.36."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from controlplane.controllers.scheduling.framework.args import PodTopologySpreadArgs
from controlplane.controllers.scheduling.framework.plugin import Plugin
from controlplane.controllers.scheduling.plugins.node_affinity import admits
from controlplane.controllers.scheduling.plugins.node_volume_limits import attaches
from controlplane.controllers.scheduling.plugins.spread_constraints import Constraint, constraints_of
from controlplane.controllers.scheduling.plugins.volume_restrictions import disks_conflict
from controlplane.controllers.scheduling.snapshot.affinity import AffinityTerm
from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.node_info import conflict
from controlplane.controllers.scheduling.snapshot.objects import NATIVE, Node, Pod, is_scalar
from controlplane.controllers.scheduling.snapshot.storage import VolumeClaim
from controlplane.controllers.scheduling.unsupported import DYNAMIC_RESOURCES
from controlplane.kube.devices.objects import ResourceClaim
from controlplane.kube.tolerations import UNSCHEDULABLE, untolerated

ASKED_ANYWAY = frozenset({"", "SchedulingGates", "Gang"})
"""Who is asked again about a pod that it keeps outside when the pod changes, or when the gangs' coordinator says so: no
event has to let the pod in."""


class ClusterEvent(NamedTuple):
    """Something happened: `resource` and `action` name it, `old` and `new` are the objects where there are any.

    Nodes: Add, Update, Delete. Pods that have a node: AssignedAdd, AssignedUpdate, AssignedDelete. Everything else by
    its kind, with Add, Update, Delete."""

    resource: str
    action: str
    old: Any = None
    new: Any = None


Hint = Callable[[Pod, ClusterEvent], bool]
Table = Mapping[tuple[str, str], Hint]


def always(pod: Pod, event: ClusterEvent) -> bool:
    """Say that it may help."""
    return True


class Hints:
    """The hints of all plugins of all profiles, by plugin name."""

    def __init__(self, plugins: Iterable[Plugin] = (), cluster: ClusterTables | None = None) -> None:
        """Take the tables of plugins that have one of their own; those below count for the others."""
        self._tables: dict[str, Table] = dict(_tables(cluster or ClusterTables()))
        for plugin in plugins:
            own = getattr(plugin, "queueing_hints", None)
            if own is not None:
                self._tables[plugin.name] = own()

    def concern(self, plugins: frozenset[str], event: ClusterEvent) -> bool:
        """Whether any of the plugins cares for such events at all; the quick look before `may_help`."""
        what = event[:2]
        return not plugins or any(
            (table := self._tables.get(plugin)) is None or what in table for plugin in sorted(plugins)
        )

    def may_help(self, plugins: frozenset[str], event: ClusterEvent, pod: Pod) -> bool:
        """Whether an event may make a pod schedulable that these plugins refused. A hint that fails counts as yes."""
        if not plugins:
            return True
        for plugin in plugins:
            table = self._tables.get(plugin)
            if table is None:
                return True
            hint = table.get(event[:2])
            try:
                if hint is not None and hint(pod, event):
                    return True
            except Exception:  # whatever a plugin's own hint fails by
                return True
        return False

    def own_change_helps(self, plugins: frozenset[str], old: Pod, new: Pod) -> bool:
        """Whether a change of the refused pod itself is worth another cycle."""
        if not self.changed(old, new):
            return False
        if not plugins or any(plugin not in OWN_CHANGES for plugin in plugins):
            return True
        return any(OWN_CHANGES[plugin](old, new) for plugin in plugins)

    def changed(self, old: Pod, new: Pod) -> bool:
        """Whether anything that a scheduling cycle looks at has changed."""
        return (
            old.labels != new.labels
            or old.requests != new.requests
            or old.tolerations != new.tolerations
            or old.priority != new.priority
            or old.nodes != new.nodes
            or old.resource_claims != new.resource_claims
            or old.spec.get("schedulingGates") != new.spec.get("schedulingGates")
        )


# ---------------------------------------------------------------- a change of the pod itself


def _labels(old: Pod, new: Pod) -> bool:
    return old.labels != new.labels


def _tolerations(old: Pod, new: Pod) -> bool:
    return old.tolerations != new.tolerations


def _smaller(old: Pod, new: Pod) -> bool:
    return any(new.requests.get(name, 0) < amount for name, amount in old.requests.items())


def _nothing(old: Pod, new: Pod) -> bool:
    return False


OWN_CHANGES: Mapping[str, Callable[[Pod, Pod], bool]] = {
    "NodeResourcesFit": _smaller,
    "TaintToleration": _tolerations,
    "NodeUnschedulable": _tolerations,
    "PodTopologySpread": lambda old, new: _labels(old, new) or _tolerations(old, new),
    "InterPodAffinity": _labels,
    "NodeAffinity": lambda old, new: old.nodes != new.nodes,
    "NodePorts": _nothing,
    "NodeName": _nothing,
    "VolumeBinding": _nothing,
    "VolumeZone": _nothing,
    DYNAMIC_RESOURCES: lambda old, new: old.resource_claims != new.resource_claims,
    "VolumeRestrictions": _nothing,
    "NodeVolumeLimits": _nothing,
}
"""Which change of the pod itself helps against which plugin; plugins that are not here are helped by any."""


# ---------------------------------------------------------------- nodes


def _fits(pod: Pod, event: ClusterEvent) -> bool:
    """The node could hold the pod if it were empty, and on an update, more of something the pod asks for is there than
    before.
    """
    node: Node = event.new
    allocatable = node.allocatable
    wanted = {name: amount for name, amount in pod.requests.items() if amount and (is_scalar(name) or name in NATIVE)}
    if allocatable.get("pods", 0) < 1 or any(amount > allocatable.get(name, 0) for name, amount in wanted.items()):
        return False
    old: Node | None = event.old
    return old is None or any(allocatable.get(name, 0) > old.allocatable.get(name, 0) for name in ("pods", *wanted))


def _selected(pod: Pod, event: ClusterEvent) -> bool:
    # Whether the node was admitted before is not asked: a profile's addedAffinity may have stood against it.
    return admits(pod.nodes, event.new) and _labels_changed(pod, event)


def _named(pod: Pod, event: ClusterEvent) -> bool:
    node: Node = event.new
    return pod.node_name == node.name


def _tolerated(pod: Pod, event: ClusterEvent) -> bool:
    if untolerated(event.new.taints, pod.tolerations) is not None:
        return False
    return event.old is None or untolerated(event.old.taints, pod.tolerations) is not None


def _uncordoned(pod: Pod, event: ClusterEvent) -> bool:
    if event.new.unschedulable and not any(toleration.tolerates(UNSCHEDULABLE) for toleration in pod.tolerations):
        return False
    return event.old is None or bool(event.old.unschedulable)


def _labels_or_room(pod: Pod, event: ClusterEvent) -> bool:
    return _labels_changed(pod, event) or event.old.allocatable != event.new.allocatable


def _labels_changed(pod: Pod, event: ClusterEvent) -> bool:
    return event.old is None or event.old.labels != event.new.labels


# ---------------------------------------------------------------- pods on nodes


def _left_or_shrank(pod: Pod, event: ClusterEvent) -> bool:
    """A pod left a node; or it asks for less of something than it did."""
    return event.new is None or _smaller(event.old, event.new)


def _port_freed(pod: Pod, event: ClusterEvent) -> bool:
    return any(conflict(wanted, used) for wanted in pod.ports for used in event.old.ports)


def _volume_freed(pod: Pod, event: ClusterEvent) -> bool:
    old: Pod = event.old
    shared = {name for name, ephemeral in pod.claims if not ephemeral}
    claim = old.namespace == pod.namespace and any(name in shared for name, ephemeral in old.claims if not ephemeral)
    return claim or disks_conflict(pod, (old,))


def _detached(pod: Pod, event: ClusterEvent) -> bool:
    """A pod that had volumes left a node."""
    return attaches(event.old)


def _affine(pod: Pod, event: ClusterEvent) -> bool:
    """A pod came, went or changed its labels that the incoming pod's terms speak of, or whose own terms speak of it."""
    changed = [other for other in (event.old, event.new) if other is not None]
    if len(changed) == 2 and changed[0].labels == changed[1].labels:
        return False
    mine = (*pod.affinity.required, *pod.affinity.anti)
    return any(
        any(_term(term, other) for term in mine) or any(_term(term, pod) for term in other.affinity.anti)
        for other in changed
    )


def _own_claim(pod: Pod, event: ClusterEvent) -> bool:
    """A PersistentVolumeClaim of the pod came or changed; one of which nothing is known may be its own."""
    claim: VolumeClaim | None = event.new if event.new is not None else event.old
    return claim is None or (claim.namespace == pod.namespace and any(name == claim.name for name, _ in pod.claims))


def _devices(pod: Pod, event: ClusterEvent) -> bool:
    """A ResourceClaim gave its devices back, or it is the pod's own and came or stands otherwise than before."""
    old: ResourceClaim | None
    new: ResourceClaim | None
    old, new = event.old, event.new
    if old is None and new is None:
        return True
    if old is not None and old.allocation is not None and (new is None or new.allocation is None):
        return True
    if new is None or new.namespace != pod.namespace or all(new.name != one.claim for one in pod.resource_claims):
        return False
    return old is None or _standing(old) != _standing(new)


def _standing(claim: ResourceClaim) -> tuple[str, Any, frozenset[str], bool]:
    return claim.uid, claim.allocation, claim.reserved, claim.terminating


def _term(term: AffinityTerm, other: Pod) -> bool:
    """Whether a term may mean a pod. What its namespace's labels are is not known here, so a namespace selector may
    match.
    """
    named = other.namespace in term.namespaces or not term.namespace_selector.nothing
    return named and term.selector.matches(other.labels)


def _has_a_key(pod: Pod, event: ClusterEvent) -> bool:
    """A node came or has another value of a key that the pod's terms name. One without the key takes whoever asks to be
    apart from others."""
    if event.old is None and pod.affinity.anti:
        return True
    keys = {term.topology_key for term in (*pod.affinity.required, *pod.affinity.anti)}
    new, old = event.new.labels, event.old.labels if event.old is not None else {}
    return not keys or any(new.get(key) != old.get(key) for key in keys)


class _Spread:
    """What helps a pod that PodTopologySpread refused (kubernetes/kubernetes
    pkg/scheduler/framework/plugins/podtopologyspread/plugin.go, v1.36)."""

    def __init__(self, cluster: ClusterTables) -> None:
        self._cluster, self._args = cluster, PodTopologySpreadArgs()

    def hard(self, pod: Pod) -> tuple[Constraint, ...]:
        return constraints_of(pod, "DoNotSchedule", self._args, self._cluster) if pod.spread else ()

    def pod(self, pod: Pod, event: ClusterEvent) -> bool:
        if not pod.spread:
            return True  # by the profile's default constraints, which are not at hand here
        changed = [other for other in (event.old, event.new) if other is not None and other.namespace == pod.namespace]
        matching = [[c.selector.matches(other.labels) for c in self.hard(pod)] for other in changed]
        if event.action == "AssignedUpdate":
            return len(matching) == 2 and matching[0] != matching[1]
        return any(any(row) for row in matching)

    def node(self, pod: Pod, event: ClusterEvent) -> bool:
        if not pod.spread:
            return True
        constraints = self.hard(pod)
        keys = [constraint.topology_key for constraint in constraints]
        has = [all(key in node.labels for key in keys) for node in (event.old, event.new) if node is not None]
        if event.action != "Update":
            return any(has)
        old, new = event.old, event.new
        if has[0] != has[1] or any(old.labels.get(key) != new.labels.get(key) for key in keys):
            return True
        return has[1] and (old.taints, old.unschedulable) != (new.taints, new.unschedulable)


def _on(resource: str, actions: str, hint: Hint) -> dict[tuple[str, str], Hint]:
    return {(resource, action): hint for action in actions.split()}


def _tables(cluster: ClusterTables) -> Iterable[tuple[str, Table]]:
    """The hints of the plugins that are here."""
    spread = _Spread(cluster)
    node, moved = "Add Update", "AssignedAdd AssignedUpdate AssignedDelete"
    claims = _on("PersistentVolumeClaim", node, _own_claim)
    volumes = claims | _on("PersistentVolume", node, always) | _on("StorageClass", node, always)
    yield (
        "NodeResourcesFit",
        _on("Node", node, _fits) | _on("Pod", "AssignedUpdate AssignedDelete", _left_or_shrank),
    )
    yield "NodeAffinity", _on("Node", node, _selected)
    yield "NodeName", _on("Node", "Add", _named)
    yield "TaintToleration", _on("Node", node, _tolerated)
    yield "NodeUnschedulable", _on("Node", node, _uncordoned)
    yield "NodePorts", _on("Node", "Add", always) | _on("Pod", "AssignedDelete", _port_freed)
    yield "PodTopologySpread", _on("Node", f"{node} Delete", spread.node) | _on("Pod", moved, spread.pod)
    yield (
        "InterPodAffinity",
        _on("Node", node, _has_a_key) | _on("Pod", moved, _affine) | _on("Namespace", node, always),
    )
    yield "VolumeBinding", volumes | _on("Node", "Add", always) | _on("Node", "Update", _labels_changed)
    yield "VolumeZone", volumes | _on("Node", "Add", always) | _on("Node", "Update", _labels_changed)
    devices = _on("ResourceClaim", f"{node} Delete", _devices) | _on("ResourceSlice", node, always)
    yield DYNAMIC_RESOURCES, devices | _on("DeviceClass", node, always) | _on("Node", node, _labels_or_room)
    freed = _on("Pod", "AssignedDelete", _volume_freed)
    yield "VolumeRestrictions", claims | _on("Node", "Add", always) | freed
    attached = _on("CSINode", node, always) | _on("VolumeAttachment", "Delete", always)
    yield "NodeVolumeLimits", claims | attached | _on("Node", "Add", always) | _on("Pod", "AssignedDelete", _detached)
    yield "SchedulingGates", {}
