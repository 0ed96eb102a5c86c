"""Fair sharing: how much a node borrows of what could be lent, its dominant resource share.

In: a node of a Cohort tree. Out: its share, weighted, comparable (kubernetes-sigs/kueue
pkg/cache/scheduler/fair_sharing.go)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from controlplane.controllers.quota.engine.amounts import FlavorResource, Usage, add, sub
from controlplane.controllers.quota.engine.tree import QuotaNode

Rank = tuple[bool, float]
"""Shares in the order in which they are compared: who borrows with a weight of zero comes after everybody else."""


@dataclass(frozen=True, slots=True)
class DominantResourceShare:
    """The largest ratio of what is borrowed to what can be lent, in thousandths, before it is divided by the weight."""

    weight: float
    ratio: float = 0.0
    borrowed: tuple[FlavorResource, ...] = ()

    @property
    def borrows(self) -> bool:
        """Whether more is used than there is, of any resource."""
        return bool(self.borrowed)

    def borrows_any(self, requests: Usage) -> bool:
        """Return whether it borrows something that is requested."""
        return any(requests.get(place, 0) > 0 for place in self.borrowed)

    @property
    def weighted(self) -> float:
        """The share; infinite for who borrows with a weight of zero."""
        if self.ratio == 0:
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    @property
    def rank(self) -> Rank:
        """What shares are compared by."""
        if self.weight == 0 and self.ratio != 0:
            return True, self.ratio
        return False, self.weighted


LEAST_RANK: Rank = (False, -1.0)
"""Below every share."""


def dominant_resource_share(node: QuotaNode) -> DominantResourceShare:
    """Return a node's share; a root borrows from nobody."""
    if node.parent is None:
        return DominantResourceShare(node.fair_weight)
    borrowing: dict[str, int] = {}
    places = []
    for place, quota in node.subtree.items():
        borrowed = sub(node.usage.get(place, 0), quota)
        if borrowed > 0:
            borrowing[place[1]] = add(borrowing.get(place[1], 0), borrowed)
            places.append(place)
    if not borrowing:
        return DominantResourceShare(node.fair_weight)
    lendable = node.parent.lendable()
    ratios = [
        amount * 1000.0 / float(lendable[name]) for name, amount in borrowing.items() if lendable.get(name, 0) > 0
    ]
    return DominantResourceShare(node.fair_weight, max(ratios, default=0.0), tuple(places))
