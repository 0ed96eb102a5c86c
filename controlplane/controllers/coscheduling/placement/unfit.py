"""Says of a task's pod whether it can ever be on a node beside its placeholder, by what does not change by itself.

In: what a pod asks for, and nodes. Out: why it never can, in words. What other pods take now, a cordon, and taints that
a cluster sets by itself pass; what nobody has seen of a node says nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controlplane.controllers.coscheduling.objects import TASK_RUN_LABEL, labels_of
from controlplane.controllers.coscheduling.placement.gates import Gate, NodeCapacity
from controlplane.controllers.coscheduling.placement.placeholders import RESOURCES
from controlplane.kube.kinds import Json
from controlplane.kube.pod_requests import Requests, effective
from controlplane.kube.quantities import nanos, spell, to_milli
from controlplane.values import Value

_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


class PodNeeds(Value):
    """What a task's pod asks for: `choice` is its node selector, node affinity and tolerations."""

    requests: Requests = {}
    choice: dict[str, Any] = {}


def asked_of(pod: Json) -> dict[str, Any]:
    """Return what a pod that waits asks of a node."""
    spec = pod.get("spec") or {}
    return {
        "task_run": labels_of(pod).get(TASK_RUN_LABEL, ""),
        "requests": {name: spell(name, to_milli(one)) for name, one in sorted(effective(spec).items())},
        "choice": choice_of(spec) | ({"tolerations": spec["tolerations"]} if spec.get("tolerations") else {}),
    }


def choice_of(spec: Json) -> dict[str, Any]:
    """Return by what a pod chooses nodes."""
    near = (spec.get("affinity") or {}).get("nodeAffinity")
    found: dict[str, Any] = {"nodeSelector": spec["nodeSelector"]} if spec.get("nodeSelector") else {}
    return found | ({"affinity": {"nodeAffinity": near}} if near else {})


def why_never(node: NodeCapacity, needs: PodNeeds) -> str:
    """Return why a pod can never be on a node that has its placeholder; "" if it can, or if that is not known."""
    gate = Gate(needs.choice)
    if not gate.selects(node):
        return f"its node selector or affinity does not take node {node.name}"
    taint = gate.repelled_by([one for one in node.taints if not one.key.startswith(_PASSING)])
    if taint is not None:
        return f"it does not tolerate the taint {taint.key}:{taint.effect} of node {node.name}"
    own = {name: nanos(amount) for name, amount in RESOURCES.items()}
    for name, amount in sorted(needs.requests.items()):
        if amount and amount + own.get(name, 0) > node.free.get(name, 0):
            asked, has = (spell(name, to_milli(one)) for one in (amount, node.free.get(name, 0)))
            beside = f", {RESOURCES[name]} of it for the placeholder" if name in RESOURCES else ""
            return f"it asks for {name} {asked}, and node {node.name} has {has} in all{beside}"
    return ""


def could_be_on(nodes: Iterable[NodeCapacity | None], needs: PodNeeds, others: Iterable[dict[str, Any]]) -> bool:
    """Whether there is a node on which a pod could be beside its placeholder. `others`: what the placeholder and its
    volumes ask of a node; None is a node of which too little is known.
    """
    gates = [Gate(one) for one in others]
    return any(
        node is None or (all(gate.selects(node) for gate in gates) and not why_never(node, needs)) for node in nodes
    )
