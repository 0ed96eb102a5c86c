"""The trees as they will be once everybody whom a cycle preempts has left.

In: what the cycle takes, and whom it preempts, one after the other. Out: the ClusterQueues' nodes in copies of their
trees, with that taken and those gone. A tree is copied when it is asked for first; whoever comes later in the cycle
meets a tree from which a thousand workloads need not be removed again."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.controllers.quota.engine.amounts import Usage
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.preemption import PreemptionTarget
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.controllers.quota.engine.tree import add_all, copied, remove_all


class FreedTrees:
    """See the module. `preempted`: the targets so far, by key of the workload; `queues`: the ClusterQueues of the trees
    that were copied; `gone`: the keys of the targets, and of slices whose place others take."""

    def __init__(self) -> None:
        self.preempted: dict[str, PreemptionTarget] = {}
        self.queues: dict[str, QueueNode] = {}
        self.gone: set[str] = set()

    def queue(self, queue: QueueNode) -> QueueNode:
        """Return the node of a ClusterQueue with everybody gone who is preempted."""
        if queue.name not in self.queues:
            found: dict[str, QueueNode] = {one.name: one for one in copied(queue.root()).subtree_queues()}
            self.queues |= found
            for target in self.preempted.values():
                if target.queue.name in found:
                    remove_all(found[target.queue.name], target.info.usage)
        return self.queues[queue.name]

    def take(self, queue: QueueNode, usage: Usage) -> None:
        """Note that a ClusterQueue uses more."""
        if queue.name in self.queues:
            add_all(self.queues[queue.name], usage)

    def preempt(self, targets: Iterable[PreemptionTarget]) -> None:
        """Note more targets; each leaves once."""
        for target in targets:
            if target.info.key not in self.preempted and target.queue.name in self.queues:
                remove_all(self.queues[target.queue.name], target.info.usage)
            self.preempted[target.info.key] = target
            self.gone.add(target.info.key)

    def replace(self, old: Info | None) -> None:
        """Note that the place of a slice is taken: what it has stays in use, and nobody else gets it by preemption."""
        if old is not None:
            self.gone.add(old.key)
