"""Says which nodes a pod may be placed on at all, by what the pod asks for and what a node is.

In: a pod template (selector, node affinity, tolerations) and nodes. Out: whether a node is open to it. What is free on
it is asked elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.kube.pod_requests import Requests
from controlplane.kube.selectors import node_terms, of_set
from controlplane.kube.tolerations import UNSCHEDULABLE, Taint, tolerations, untolerated
from controlplane.kube.well_known import REQUIRED_AFFINITY
from controlplane.values import Value


class NodeCapacity(Value):
    """A node and what is free on it: amounts in billionths, and pods. `placeholder`: whether one of any run is
    there.
    """

    name: str
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    free: Requests = {}
    free_pods: int = 0
    placeholder: bool = False


class Gate:
    """Which nodes a pod with a template may be placed on at all; read once for all nodes."""

    def __init__(self, template: Mapping[str, Any]) -> None:
        self._tolerated = tolerations(template.get("tolerations"))
        self._selector = of_set(template.get("nodeSelector") or {})
        required = ((template.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED_AFFINITY)
        self._terms = node_terms(required.get("nodeSelectorTerms") or ()) if required else None

    def admits(self, node: NodeCapacity) -> bool:
        """Whether a node is open to the pod: its taints, the pod's selector and affinity."""
        repelling = (*node.taints, UNSCHEDULABLE) if node.cordoned else node.taints
        return self.repelled_by(repelling) is None and self.selects(node)

    def repelled_by(self, taints: Sequence[Taint]) -> Taint | None:
        """Return a taint that the pod does not tolerate."""
        return untolerated(taints, self._tolerated) if taints else None

    def selects(self, node: NodeCapacity) -> bool:
        """Whether the pod's selector and affinity take a node, whatever its taints."""
        if not self._selector.matches(node.labels):
            return False
        return self._terms is None or any(term.matches(node.labels, node.name) for term in self._terms)
