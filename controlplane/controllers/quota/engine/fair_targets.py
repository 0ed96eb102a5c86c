"""Fair sharing: from which ClusterQueue the next workload is preempted.

In: candidates, and the tree as it is after what was removed already. Out: the ClusterQueue that a walk down the tree
ends at, always into the child with the highest share (kubernetes-sigs/kueue
pkg/scheduler/preemption/fairsharing/ordering.go). Between equal children the one with the lesser name is taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from controlplane.controllers.quota.engine.candidates import order
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.shares import (
    LEAST_RANK,
    DominantResourceShare,
    Rank,
    dominant_resource_share,
)
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.controllers.quota.engine.tree import QuotaNode


class TargetQueues:
    """The ClusterQueues to preempt from, one after the other. Each time a workload is popped, or the queue dropped."""

    def __init__(
        self, preemptor: QueueNode, candidates: Iterable[Info], queues: Mapping[str, QueueNode], now: float
    ) -> None:
        self.preemptor = preemptor
        self.now = now
        self._path = list(preemptor.ancestors())
        self._left: dict[str, list[Info]] = {}
        self._pruned: set[QuotaNode] = set()
        self._below: dict[QuotaNode, dict[QuotaNode, None]] = {}
        for info in candidates:
            if info.cluster_queue not in self._left:
                self._connect(queues[info.cluster_queue])
            self._left.setdefault(info.cluster_queue, []).append(info)

    def __iter__(self) -> Iterator[QueueNode]:
        """Yield the ClusterQueue with the highest share that has candidates, until there are none."""
        root = self.preemptor.root()
        if root is self.preemptor:
            while root not in self._pruned and self.has(self.preemptor):
                yield self.preemptor
            return
        while root not in self._pruned:
            found = self._next(root)
            if found is not None:
                yield found

    def _connect(self, node: QuotaNode) -> None:
        """Note the way to a ClusterQueue from the root; children without candidates are never looked at."""
        while node.parent is not None:
            self._below.setdefault(node.parent, {})[node] = None
            node = node.parent

    def has(self, queue: QuotaNode) -> bool:
        """Return whether a ClusterQueue has candidates left."""
        return bool(self._left.get(queue.name))

    def pop(self, queue: QueueNode) -> Info:
        """Return a ClusterQueue's next candidate, and forget it."""
        return self._left[queue.name].pop(0)

    def drop(self, queue: QueueNode) -> None:
        """Take no more from a ClusterQueue."""
        self._pruned.add(queue)

    def shares(self, target: QueueNode) -> tuple[DominantResourceShare, DominantResourceShare]:
        """Return the shares that are compared, of the preemptor and of the target: of the children of their lowest
        common Cohort.
        """
        common = next(cohort for cohort in target.ancestors() if cohort in self._path)
        return tuple(dominant_resource_share(_child(queue, common)) for queue in (self.preemptor, target))  # type: ignore[return-value]

    def _next(self, cohort: QuotaNode) -> QueueNode | None:
        """Return the ClusterQueue to take from below a Cohort; None if this only found that there is less to search."""
        queue, queue_rank = self._highest_queue(cohort)
        child, child_rank = self._highest_cohort(cohort)
        if queue is None and child is None:
            self._pruned.add(cohort)
            return None
        if child is not None and child_rank >= queue_rank:
            return self._next(child)
        return queue

    def _highest_queue(self, cohort: QuotaNode) -> tuple[QueueNode | None, Rank]:
        highest: QueueNode | None = None
        highest_rank = LEAST_RANK
        for queue in self._below.get(cohort, ()):
            if queue in self._pruned or not isinstance(queue, QueueNode):
                continue
            share = dominant_resource_share(queue)
            if (not share.borrows and queue is not self.preemptor) or not self.has(queue):
                self._pruned.add(queue)
            elif highest is None or share.rank > highest_rank:
                highest, highest_rank = queue, share.rank
            elif share.rank == highest_rank and self._first(queue) < self._first(highest):
                highest = queue
        return highest, highest_rank

    def _highest_cohort(self, cohort: QuotaNode) -> tuple[QuotaNode | None, Rank]:
        highest: QuotaNode | None = None
        highest_rank = LEAST_RANK
        for child in self._below.get(cohort, ()):
            if child in self._pruned or child.is_queue:
                continue
            share = dominant_resource_share(child)
            if not share.borrows and child not in self._path:
                self._pruned.add(child)
            elif highest is None or share.rank > highest_rank:
                highest, highest_rank = child, share.rank
            elif share.rank == highest_rank and child.name < highest.name:
                highest = child
        return highest, highest_rank

    def _first(self, queue: QueueNode) -> tuple[bool, bool, int, float, str]:
        return order(self._left[queue.name][0], self.preemptor.name, self.now)


def _child(queue: QueueNode, common: QuotaNode) -> QuotaNode:
    """Return the child of a Cohort that has a ClusterQueue below it, or is it."""
    node: QuotaNode = queue
    while node.parent is not None and node.parent is not common:
        node = node.parent
    return node
