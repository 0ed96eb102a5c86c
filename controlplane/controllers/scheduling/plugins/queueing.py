"""The ends of the cycle: who is next, who may not enter the queue, and how a pod is bound."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.scheduling.framework.plugin import (
    BindPlugin,
    CycleState,
    PluginWrites,
    PreEnqueuePlugin,
    QueuedPod,
    QueueSortPlugin,
)
from controlplane.controllers.scheduling.framework.status import SUCCESS, Status, unresolvable
from controlplane.controllers.scheduling.render import binding
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.kube.kinds import PODS, ObjectRef
from controlplane.kube.pod_fields import items, text


class PrioritySort(QueueSortPlugin):
    """Higher priority first, then who has waited longer."""

    name = "PrioritySort"

    def sort_key(self, queued: QueuedPod) -> Any:
        """Return what pods are sorted by; the smallest is next."""
        return -queued.pod.priority, queued.enqueued


class SchedulingGates(PreEnqueuePlugin):
    """A pod with scheduling gates stays outside the queue."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Status:
        """Return Success, or the gates."""
        gates = [text(gate, "name", "spec.schedulingGates") for gate in items(pod.spec, "schedulingGates", "spec")]
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gates)}]") if gates else SUCCESS


class DefaultBinder(BindPlugin):
    """Binds through the pod's binding subresource; the UID keeps it from binding a pod that took the name."""

    name = "DefaultBinder"

    def bind(self, state: CycleState, pod: Pod, node: str) -> PluginWrites:
        """Return the binding that is to be written."""
        return PluginWrites(SUCCESS, (binding(ObjectRef(PODS, pod.namespace, pod.name), pod.uid, node),))
