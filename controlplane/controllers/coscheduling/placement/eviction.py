"""Says when a placeholder is moved to another node (docs/explanation/coscheduling.md, Where this differs from Tekton).

In: the placeholder's pod, its node, the run's own pods. Out: a reason, or None. The pod is deleted, and its StatefulSet
makes a new one elsewhere; running tasks finish where they are, later ones follow. It is asked for as long as the run
lasts, not only before its first task."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from controlplane.controllers.coscheduling.reasons import CoschedulingReason
from controlplane.kube.tolerations import Taint, Toleration, untolerated
from controlplane.kube.well_known import TOO_MANY_PODS
from controlplane.values import Value


class NodeView(Value):
    """A node as far as placeholders care."""

    name: str
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()


class TaskPod(Value):
    """A pod of one of the run's tasks: where it is ("" if nowhere yet), and what the scheduler says if it finds no
    place.
    """

    name: str
    node: str = ""
    over: bool = False
    complaint: str = ""


class Eviction(msgspec.Struct, frozen=True):
    """Why a placeholder's pod goes, and in words."""

    reason: CoschedulingReason
    detail: str


def node_evicts(node: NodeView | None, tolerations: Iterable[Toleration]) -> Eviction | None:
    """Return why a node is no place for new pods of the run: it is cordoned, or has a taint that the placeholder does
    not tolerate.
    """
    if node is None:
        return None
    if node.cordoned:
        return Eviction(CoschedulingReason.NODE_CORDONED, f"node {node.name} is cordoned")
    taint = untolerated(node.taints, list(tolerations))
    if taint is None:
        return None
    text = f"{taint.key}={taint.value}" if taint.value else taint.key
    return Eviction(CoschedulingReason.TAINT_NOT_TOLERATED, f"node {node.name} has the taint {text}:{taint.effect}")


def exclusion_evicts(node: str, pods: Iterable[TaskPod], excluded: str) -> Eviction | None:
    """Return whether a placeholder looks for another node, since pod `excluded` can never be on this one and can be on
    another.

    Only while no pod of the run is on the node: they would be parted."""
    if any(pod.node == node and not pod.over for pod in pods):
        return None
    return Eviction(
        CoschedulingReason.TASK_EXCLUDED, f"node {node} can never take pod {excluded}, and another node can"
    )


def limit_evicts(node: str, pods: Iterable[TaskPod]) -> Eviction | None:
    """Return whether the placeholder itself keeps the run's pods off its node: the node is at its limit of pods.

    Only while no pod of the run is on the node: one that runs there will end by itself.
    """
    listed = [pod for pod in pods if not pod.over]
    if not node or any(pod.node == node for pod in listed):
        return None
    kept = next((pod for pod in listed if not pod.node and TOO_MANY_PODS in pod.complaint), None)
    if kept is None:
        return None
    return Eviction(
        CoschedulingReason.POD_LIMIT, f"node {node} has no pod slot left, and pod {kept.name} waits for one"
    )
