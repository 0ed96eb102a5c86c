"""Keeps which nodes preemption has nominated which pods for, until they have a place.

In: nominations, and the pods as the watch shows them. Out: the nominated pods of each node, for a cycle. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.scheduling.framework.plugin import Nominated
from controlplane.controllers.scheduling.snapshot.objects import Pod


class Nominations:
    """The nominations of one scheduler. `pods` is its view of all pods, by identity."""

    def __init__(self, pods: Mapping[str, Pod]) -> None:
        self._pods = pods
        self._node: dict[str, str] = {}

    def of(self, identity: str) -> str:
        """Return the node that a pod is nominated for, "" if none is."""
        return self._node.get(identity, "")

    def put(self, identity: str, node: str) -> None:
        """Nominate a pod for a node; "" takes the nomination back."""
        if node:
            self._node[identity] = node
        else:
            self._node.pop(identity, None)

    def remove(self, identity: str) -> None:
        """Forget a pod's nomination."""
        self._node.pop(identity, None)

    def nominate(self, pod: Pod, node: str) -> list[str]:
        """Nominate a pod for a node, and take it from pods of lower priority, whose identities are returned: they have
        to look again.
        """
        self.put(pod.identity, node)
        if not node:
            return []
        lower = [
            other
            for other, nominated in self._node.items()
            if nominated == node and other in self._pods and self._pods[other].priority < pod.priority
        ]
        for other in lower:
            del self._node[other]
        return lower

    def by_node(self, but: str) -> Nominated:
        """Return the nominated pods of each node, without one: the pod whose cycle it is."""
        found: dict[str, list[Pod]] = {}
        for identity, node in self._node.items():
            pod = self._pods.get(identity)
            if pod is not None and identity != but:
                found.setdefault(node, []).append(pod)
        return found
