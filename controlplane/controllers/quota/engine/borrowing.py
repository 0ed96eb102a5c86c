"""How far from a ClusterQueue the quota is that an amount needs.

In: a ClusterQueue's node, and an amount of a flavor's resource. Out: the height of the smallest subtree that it fits in
(kubernetes-sigs/kueue pkg/scheduler/preemption/classical/hierarchical_preemption.go)."""

from __future__ import annotations

from controlplane.controllers.quota.engine.amounts import FlavorResource, sub
from controlplane.controllers.quota.engine.model import NEVER
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.controllers.quota.engine.tree import QuotaNode


def lowest_subtree_that_fits(queue: QuotaNode, place: FlavorResource, amount: int) -> tuple[int, bool]:
    """Return the height of the smallest subtree that fits an amount more, the whole tree's if none does, and whether it
    is smaller than the whole tree.
    """
    if queue.parent is None or not queue.borrows_with(place, amount):
        return 0, queue.parent is not None
    remaining = sub(amount, queue.local_available(place))
    node = queue.parent
    while True:
        if not node.borrows_with(place, remaining):
            return node.height(), node.parent is not None
        remaining = sub(remaining, node.local_available(place))
        if node.parent is None:
            return node.height(), False
        node = node.parent


def may_preempt_for(queue: QueueNode, place: FlavorResource, amount: int, *, fair_sharing: bool) -> bool:
    """Return whether anybody may be preempted so that an amount more fits: within the nominal quota, where a smaller
    subtree than the whole tree fits it, or where the ClusterQueue preempts while it borrows (fitsResourceQuota of
    Kueue's pkg/scheduler/flavorassigner/flavorassigner.go).
    """
    preemption = queue.spec.preemption
    while_borrowing = preemption.borrow_within_cohort != NEVER or (
        fair_sharing and preemption.reclaim_within_cohort != NEVER
    )
    return queue.quota(place).nominal >= amount or while_borrowing or lowest_subtree_that_fits(queue, place, amount)[1]
