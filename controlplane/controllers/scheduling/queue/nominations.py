"""Keeps which nodes pods are nominated for, by preemption or by somebody else, until they have a place.

In: nominations, and the pods as the watch shows them. Out: the nominated pods of each node, for a cycle; and those
whose room is others' again. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.scheduling.framework.plugin import Nominated
from controlplane.controllers.scheduling.snapshot.objects import Pod


class Nominations:
    """The nominations of one scheduler. `pods` is its view of all pods, by identity."""

    def __init__(self, pods: Mapping[str, Pod]) -> None:
        self._pods = pods
        self._node: dict[str, tuple[str, Pod]] = {}
        self._freed: list[Pod] = []

    def of(self, identity: str) -> str:
        """Return the node that a pod is nominated for, "" if none is."""
        return self._node[identity][0] if identity in self._node else ""

    def put(self, pod: Pod, node: str) -> None:
        """Nominate a pod for a node, and for no other; "" takes the nomination back."""
        self.remove(pod.identity, node)
        if node:
            self._node[pod.identity] = (node, pod)

    def remove(self, identity: str, node: str = "") -> None:
        """Forget a pod's nomination; the room is others' unless the pod has it (`node`)."""
        before, pod = self._node.pop(identity, ("", None))
        if pod is not None and before != node:
            self._freed.append(pod)

    def freed(self) -> list[Pod]:
        """Return the pods for which no room is kept any more, once."""
        found, self._freed = self._freed, []
        return found

    def nominate(self, pod: Pod, node: str) -> list[str]:
        """Nominate a pod for a node, and take it from pods of lower priority, whose identities are returned: they have
        to look again.
        """
        self.put(pod, node)
        if not node:
            return []
        lower = [
            other
            for other, (nominated, _) in self._node.items()
            if nominated == node and other in self._pods and self._pods[other].priority < pod.priority
        ]
        for other in lower:
            del self._node[other]
        return lower

    def by_node(self, but: str) -> Nominated:
        """Return the nominated pods of each node, without one: the pod whose cycle it is."""
        found: dict[str, list[Pod]] = {}
        for identity, (node, _) in self._node.items():
            pod = self._pods.get(identity)
            if pod is not None and identity != but:
                found.setdefault(node, []).append(pod)
        return found
