"""Cohort trees: what each ClusterQueue and Cohort has, uses, lends and may borrow of each flavor's resource.

In: quotas of nodes, and usage that is added or removed. Out: what is available. A change is carried up the path to the
root and nowhere else. The rules are those of kubernetes-sigs/kueue pkg/cache/scheduler/resource_node.go: a node keeps
for itself what its lending limit does not let go of (its local quota), and uses that before its parent's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from typing import Any, Protocol

from controlplane.controllers.quota.engine.amounts import UNLIMITED, FlavorResource, Usage, add, sub
from controlplane.controllers.quota.engine.model import Quotas, ResourceQuota

NO_QUOTA = ResourceQuota(0)

Share = tuple[int | None, int | None]
"""What a child lends its parent, and what it uses of it; None for none."""

NO_SHARE: Share = (None, None)


class Journaled(Protocol):
    """What holds usages that a simulation writes: a node of a Cohort tree, or the fleet of nodes that pods are placed
    on."""

    def _write(self, place: Any, amount: Any) -> None: ...


Journal = list[tuple[Journaled, Any, Any]]
"""What usages were before they changed, oldest first: whose, of what, how much, None for none."""


class QuotaNode:
    """A ClusterQueue or Cohort in its tree. `usage` is what counts against `subtree`, its quota with what its children
    lend it. `active`: whether its workloads count in decisions; their usage always does.
    """

    __slots__ = (
        "_height",
        "_lendable",
        "active",
        "cohorts",
        "fair_weight",
        "local",
        "name",
        "over",
        "parent",
        "queues",
        "quotas",
        "subtree",
        "usage",
        "version",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.parent: QuotaNode | None = None
        self.cohorts: dict[str, QuotaNode] = {}
        self.queues: dict[str, QuotaNode] = {}
        self.quotas: Quotas = {}
        self.subtree: Usage = {}
        self.usage: Usage = {}
        self.over: dict[FlavorResource, dict[QuotaNode, None]] = {}
        self.local: Usage = {}
        self.fair_weight = 1.0
        self.version = 0
        self.active = True
        self._height: tuple[QuotaNode, int, int] | None = None
        self._lendable: tuple[QuotaNode, int, dict[str, int]] | None = None

    @property
    def is_queue(self) -> bool:
        """Whether it is a ClusterQueue."""
        return False

    def quota(self, place: FlavorResource) -> ResourceQuota:
        """Return its own quota."""
        return self.quotas.get(place, NO_QUOTA)

    def ancestors(self) -> Iterator[QuotaNode]:
        """Yield its parent, and so on up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def root(self) -> QuotaNode:
        """Return the root of its tree."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def children(self) -> Iterator[QuotaNode]:
        """Yield its child Cohorts and ClusterQueues."""
        yield from self.cohorts.values()
        yield from self.queues.values()

    def subtree_queues(self) -> Iterator[Any]:
        """Yield the ClusterQueues below it, or itself if it is one."""
        if self.is_queue:
            yield self
        yield from self.queues.values()
        for cohort in self.cohorts.values():
            yield from cohort.subtree_queues()

    def height(self) -> int:
        """Return the distance to its furthest leaf."""
        root = self.root()
        if self._height is None or self._height[:2] != (root, root.version):
            below = [cohort.height() + 1 for cohort in self.cohorts.values()]
            leaves = any(queue.active for queue in self.queues.values())
            self._height = root, root.version, max([int(leaves or bool(self.cohorts)), *below])
        return self._height[2]

    def local_available(self, place: FlavorResource) -> int:
        """Return what is free of its local quota."""
        return max(0, sub(self.local.get(place, 0), self.usage.get(place, 0)))

    def available(self, place: FlavorResource) -> int:
        """Return what is free, its own and borrowed; negative where more is used than there is."""
        if self.parent is None:
            return sub(self.subtree.get(place, 0), self.usage.get(place, 0))
        found = self.parent.available(place)
        limit = self.quota(place).borrowing_limit
        if limit is not None:
            local = self.local.get(place, 0)
            stored = sub(self.subtree.get(place, 0), local)
            used = max(0, sub(self.usage.get(place, 0), local))
            found = min(add(sub(stored, used), limit), found)
        return add(self.local_available(place), found)

    def potential_available(self, place: FlavorResource) -> int:
        """Return what there would be if nothing were used."""
        if self.parent is None:
            return self.subtree.get(place, 0)
        found = add(self.local.get(place, 0), self.parent.potential_available(place))
        limit = self.quota(place).borrowing_limit
        return found if limit is None else min(add(self.subtree.get(place, 0), limit), found)

    def borrows_with(self, place: FlavorResource, amount: int) -> bool:
        """Return whether its usage and an amount more would exceed its quota: a ClusterQueue's nominal one, a Cohort's
        subtree's.
        """
        return self.subtree.get(place, 0) < add(self.usage.get(place, 0), amount)

    def within_nominal(self, places: Collection[FlavorResource]) -> bool:
        """Return whether it uses no more than its quota of any of some resources."""
        return all(self.subtree.get(place, 0) >= self.usage.get(place, 0) for place in places)

    def fits_in_quota(self, requests: Usage) -> tuple[bool, Usage]:
        """Return whether requests fit into its quota, and what is left of them for its parent."""
        fits = not any(self.borrows_with(place, amount) for place, amount in requests.items())
        return fits, {place: max(0, sub(amount, self.local_available(place))) for place, amount in requests.items()}

    def add_usage(self, place: FlavorResource, amount: int, journal: Journal | None = None) -> None:
        """Add usage to it, and what exceeds its local quota to its parent."""
        node: QuotaNode = self
        while True:
            beyond = sub(amount, node.local_available(place))
            node._write(place, add(node.usage.get(place, 0), amount), journal)
            if node.parent is None or beyond <= 0:
                return
            node, amount = node.parent, beyond

    def remove_usage(self, place: FlavorResource, amount: int, journal: Journal | None = None) -> None:
        """Remove usage from it, and from its parent what was beyond its local quota."""
        node: QuotaNode = self
        while True:
            used = node.usage.get(place, 0)
            beyond = sub(used, node.local.get(place, 0))
            node._write(place, sub(used, amount), journal)
            if node.parent is None or beyond <= 0:
                return
            node, amount = node.parent, min(amount, beyond)

    def give_back(self, usage: Usage, others: Iterable[Usage]) -> None:
        """Remove usage of several resources for good, with all `others` that are left. A sum that has ended at what is
        unlimited, here or in a Cohort above, is made anew: nothing can be taken away from it."""
        path = [self, *self.ancestors()]
        ended = [place for place in usage if any(node.usage.get(place) == UNLIMITED for node in path)]
        remove_all(self, usage)
        left = list(others) if ended else []
        for place in ended:
            self._write(place, _sum(one.get(place, 0) for one in left))
            for node in path[1:]:
                node._recount(place)

    def _write(self, place: FlavorResource, amount: int | None, journal: Journal | None = None) -> None:
        """Set its usage, and tell its parent whether that is more than its quota."""
        before, quota = self.usage.get(place), self.subtree.get(place, 0)
        if journal is not None:
            journal.append((self, place, before))
        _put(self.usage, place, amount)
        if self.parent is not None and ((before or 0) > quota) is not ((amount or 0) > quota):
            self._note(place)

    def _note(self, place: FlavorResource) -> None:
        """Tell its parent whether it uses more than its quota."""
        if self.parent is None:
            return
        if self.usage.get(place, 0) > self.subtree.get(place, 0):
            self.parent.over.setdefault(place, {})[self] = None
        elif place in self.parent.over:
            self.parent.over[place].pop(self, None)

    def exceeding(self, places: Collection[FlavorResource]) -> list[QuotaNode]:
        """Return its children that use more than their quota of any of some resources."""
        return list(dict.fromkeys(child for place in places for child in self.over.get(place, ())))

    def lendable(self) -> dict[str, int]:
        """Return, by resource, what there would be of all flavors if nothing were used."""
        root = self.root()
        if self._lendable is None or self._lendable[:2] != (root, root.version):
            found: dict[str, int] = {}
            for place in root.subtree:
                found[place[1]] = add(found.get(place[1], 0), self.potential_available(place))
            self._lendable = root, root.version, found
        return self._lendable[2]

    # What changes the tree itself.

    def set_quotas(self, quotas: Quotas) -> None:
        """Replace its own quotas."""

        def replaced() -> None:
            self.quotas = quotas

        self._change({*self.quotas, *quotas}, replaced)

    def attach(self, parent: QuotaNode) -> None:
        """Become a child of a Cohort."""
        self.parent = parent
        (parent.queues if self.is_queue else parent.cohorts)[self.name] = self
        parent._changed_by(self, leaves=False)
        for place in self.usage:
            self._note(place)

    def detach(self) -> None:
        """Become the root of a tree of its own."""
        parent = self.parent
        if parent is None:
            return
        self.parent = None
        (parent.queues if self.is_queue else parent.cohorts).pop(self.name)
        for exceeding in parent.over.values():
            exceeding.pop(self, None)
        parent._changed_by(self, leaves=True)
        self.version += 1

    def _changed_by(self, child: QuotaNode, leaves: bool) -> None:
        """Carry what a child brings or takes up to the root."""
        node: QuotaNode | None = self
        shares = {place: child.share(place) for place in {*child.subtree, *child.usage}}
        changes = {place: (share, NO_SHARE) if leaves else (NO_SHARE, share) for place, share in shares.items()}
        while node is not None:
            before = {place: node.share(place) for place in changes}
            for place, (old, new) in changes.items():
                node._shift(place, old, new)
            changes = {place: (share, node.share(place)) for place, share in before.items()}
            node.version += 1
            node = node.parent

    def _change(self, places: Collection[FlavorResource], change: Callable[[], None]) -> None:
        """Make a change of the node itself, and carry what follows from it up to the root."""
        path = [self, *self.ancestors()]
        before = [{place: node.share(place) for place in places} for node in path]
        change()
        for place in places:
            self._recount(place)
        for at, node in enumerate(path[1:]):
            for place in places:
                node._shift(place, before[at][place], path[at].share(place))
        path[-1].version += 1

    def share(self, place: FlavorResource) -> Share:
        """Return what it lends its parent of a resource, and what it uses of it."""
        local, lent, used = self.local.get(place, 0), self.subtree.get(place), self.usage.get(place)
        return None if lent is None else sub(lent, local), None if used is None else max(0, sub(used, local))

    def _shift(self, place: FlavorResource, before: Share, after: Share) -> None:
        """Take one child's share for another; sums that cannot be shifted are made anew."""
        if before == after:
            return
        lent = _shifted(self.subtree.get(place), before[0], after[0])
        used = _shifted(self.usage.get(place), before[1], after[1])
        if lent is None or used is None:
            self._recount(place)
            return
        _put(self.subtree, place, lent if after[0] is not None else self.subtree.get(place))
        _put(self.usage, place, used if after[1] is not None else self.usage.get(place))
        self._set_local(place)

    def _recount(self, place: FlavorResource) -> None:
        """Sum up its own quota and its children's shares."""
        children = [child.share(place) for child in self.children()]
        lent = [share[0] for share in children if share[0] is not None]
        own = self.quotas.get(place)
        _put(self.subtree, place, None if own is None and not lent else _sum([own.nominal if own else 0, *lent]))
        if not self.is_queue:
            used = [share[1] for share in children if share[1] is not None]
            _put(self.usage, place, _sum(used) if used else None)
        self._set_local(place)

    def _set_local(self, place: FlavorResource) -> None:
        self._note(place)
        quota = self.quotas.get(place)
        limit = None if quota is None else quota.lending_limit
        _put(self.local, place, None if limit is None else max(0, sub(self.subtree.get(place, 0), limit)))


def copied(node: QuotaNode, parent: QuotaNode | None = None) -> QuotaNode:
    """Return a node with all below it, whose usages change without those of the first."""
    found = copy(node)
    found.parent = parent
    found.usage, found.over = dict(node.usage), {}
    found.cohorts = {name: copied(child, found) for name, child in node.cohorts.items()}
    found.queues = {name: copied(child, found) for name, child in node.queues.items()}
    for place in found.usage:
        found._note(place)
    return found


def rollback(journal: Journal, savepoint: int = 0) -> None:
    """Restore the usages that a journal has noted since a savepoint."""
    while len(journal) > savepoint:
        node, place, before = journal.pop()
        node._write(place, before)


def _put(amounts: Usage, place: FlavorResource, amount: int | None) -> None:
    if amount is None:
        amounts.pop(place, None)
    else:
        amounts[place] = amount


def _shifted(total: int | None, before: int | None, after: int | None) -> int | None:
    """Return a sum of which one part is another; None if it has to be made anew."""
    if before == after:
        return total or 0
    if after is None or UNLIMITED in (total, before, after):
        return None
    found = (total or 0) + after - (before or 0)
    return None if found >= UNLIMITED else found


def _sum(several: Iterable[int]) -> int:
    total = 0
    for amount in several:
        total = add(total, amount)
    return total


def add_all(node: QuotaNode, usage: Mapping[FlavorResource, int], journal: Journal | None = None) -> None:
    """Add usage of several resources to a node."""
    for place, amount in usage.items():
        node.add_usage(place, amount, journal)


def remove_all(node: QuotaNode, usage: Mapping[FlavorResource, int], journal: Journal | None = None) -> None:
    """Remove usage of several resources from a node."""
    for place, amount in usage.items():
        node.remove_usage(place, amount, journal)
