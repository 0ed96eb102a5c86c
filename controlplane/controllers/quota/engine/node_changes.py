"""What happens to nodes, and to the pods on them that no workload has placed there: the part of `State` that notes it.

In: Topologies, Nodes and pods as they come, change and go. Out: the same state with them, and those woken that may fit
now."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection

from controlplane.controllers.quota.engine.snapshot import QuotaSnapshot
from controlplane.controllers.quota.topology.model import Node, Topology


class NodeChanges(ABC):
    """See the module. Each change is one that has happened."""

    snapshot: QuotaSnapshot

    @abstractmethod
    def wake(self, cluster_queues: Collection[str], now: float) -> None:
        """Let all be tried again that are inadmissible in ClusterQueues, and in others of their Cohort trees."""

    @abstractmethod
    def wake_released(self) -> None:
        """Wake whom the releases so far may help."""

    def put_topology(self, topology: Topology, now: float) -> None:
        """Note a Topology, new or changed."""
        if self.snapshot.topology.topologies.get(topology.name) != topology:
            self.wake(self.snapshot.put_topology(topology), now)

    def drop_topology(self, name: str, now: float) -> None:
        """Note that a Topology is gone."""
        self.wake(self.snapshot.drop_topology(name), now)

    def put_node(self, node: Node, now: float) -> None:
        """Note a Node, new or changed; what says nothing new of it changes nothing."""
        if self.snapshot.topology.nodes.get(node.name) != node:
            self.wake_released()
            self._wake_for_room(self.snapshot.put_node(node), now)

    def drop_node(self, name: str, now: float) -> None:
        """Note that a Node is gone."""
        self.wake_released()
        self._wake_for_room(self.snapshot.drop_node(name), now)

    def _wake_for_room(self, cluster_queues: Collection[str], now: float) -> None:
        if cluster_queues:
            self.wake(cluster_queues, now)
