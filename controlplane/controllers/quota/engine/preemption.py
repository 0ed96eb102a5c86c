"""Preemption: a small set of workloads whose quota, once free, lets another one in.

In: the workload, what it needs and where. Out: targets, or none. PreemptionCandidates are removed in order until the
workload fits; then, in the reverse order, those are put back that it fits beside (kubernetes-sigs/kueue
pkg/scheduler/preemption/preemption.go)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from controlplane.controllers.quota.engine.amounts import FlavorResource, Usage
from controlplane.controllers.quota.engine.borrowing import lowest_subtree_that_fits
from controlplane.controllers.quota.engine.candidates import (
    Places,
    PreemptionCandidate,
    PreemptionCandidates,
    Ranking,
    UsedBy,
    Variant,
    ordered,
    satisfies,
    using,
)
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import NEVER
from controlplane.controllers.quota.engine.modes import Possibility
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.controllers.quota.engine.tree import Journal, QuotaNode, add_all, remove_all, rollback
from controlplane.controllers.quota.topology.fleet import TopologyFleet


@dataclass(frozen=True, slots=True)
class PreemptionTarget:
    """A workload to preempt, where its quota is, and why it may be preempted."""

    info: Info
    queue: QueueNode
    reason: str


@dataclass(frozen=True, slots=True)
class Need:
    """What room is made for: a workload, its requests by flavor, and the resources that are not free. `placeable`: says
    whether its pods can be placed as things are, None where they need not be."""

    info: Info
    queue: QueueNode
    requests: Usage
    places: Places
    placeable: Callable[[], bool] | None = None

    def fits(self, borrowing: bool) -> bool:
        """Return whether the requests fit as things are, without borrowing if that is not allowed."""
        if not borrowing and self.borrows():
            return False
        if any(amount > max(0, self.queue.available(place)) for place, amount in self.requests.items()):
            return False
        return self.placeable is None or self.placeable()

    def borrows(self) -> bool:
        """Return whether its ClusterQueue would borrow with the requests."""
        return any(self.queue.borrows_with(place, amount) for place, amount in self.requests.items())


class Preemptor:
    """Finds targets. It writes usages while it tries, notes them in the journal, and takes them back.

    `used`: what LocalQueues used, where that counts. `gone`: workloads that count as gone; their usage is not in the
    tree. `topology`: the nodes that workloads are placed on.
    """

    def __init__(
        self,
        now: float,
        journal: Journal,
        topology: TopologyFleet,
        used: UsedBy | None = None,
        gone: Collection[str] = (),
    ) -> None:
        self.now = now
        self.journal = journal
        self.topology = topology
        self.used = used
        self.gone = gone
        self._ranked: dict[tuple[QuotaNode, frozenset[FlavorResource]], Ranking] = {}

    def remove(self, queue: QueueNode, info: Info) -> None:
        """Take away what a workload uses: its quota, and its places."""
        remove_all(queue, info.usage, self.journal)
        if info.placed:  # most are nowhere, and this is done for each candidate
            self.topology.give_back(info.placed, self.journal)

    def put_back(self, queue: QueueNode, info: Info) -> None:
        """Let a workload use again what was taken away."""
        add_all(queue, info.usage, self.journal)
        if info.placed:
            self.topology.take(info.placed, self.journal)

    def targets(self, need: Need) -> list[PreemptionTarget]:
        """Return whom to preempt, empty if that does not help."""
        others, own = self.candidates(need)
        for borrowing in self._attempts(need, others):
            found = self._of_its_own(need, others, own) if not borrowing and need.borrows() else None
            if found is None:
                found = self._attempt(need, _in_turn(need, others, own, borrowing), borrowing)
            if found:
                return found
        return []

    def simulate(self, info: Info, queue: QueueNode, place: FlavorResource, amount: int) -> tuple[Possibility, int]:
        """Return what preemption could do for an amount of one resource, and how far away the quota would be then."""
        found = self.targets(Need(info, queue, {place: amount}, frozenset((place,))))
        savepoint = len(self.journal)
        for target in found:
            remove_all(target.queue, target.info.usage, self.journal)
        borrowing, _ = lowest_subtree_that_fits(queue, place, amount)
        rollback(self.journal, savepoint)
        if not found:
            return Possibility.NO_CANDIDATES, borrowing
        own = any(target.queue is queue for target in found)
        return Possibility.PREEMPT if own else Possibility.RECLAIM, borrowing

    def candidates(self, need: Need) -> tuple[PreemptionCandidates, list[Info]]:
        """Return the candidates of other ClusterQueues, and those of its own in order."""
        root, places = need.queue.root(), frozenset(need.places)
        policy, preemptor = need.queue.spec.preemption.within_cluster_queue, need.info.workload
        own: list[Info] = []
        if policy != NEVER:
            found = (info for info in using(need.queue, places, self.gone) if info.key != preemptor.replaces)
            satisfying = (info for info in found if satisfies(policy, preemptor, info.workload))
            own = ordered(satisfying, need.queue.name, self.now, self.used)
        rank = partial(self._ranking, root, places)
        return PreemptionCandidates(need.info, need.queue, places, need.requests, rank, self.gone), own

    def _ranking(self, root: QuotaNode, places: frozenset[FlavorResource]) -> Ranking:
        if (root, places) not in self._ranked:
            self._ranked[root, places] = Ranking(root, places, self.now, self.used)
        return self._ranked[root, places].without(self.gone)

    def _attempts(self, need: Need, found: PreemptionCandidates) -> tuple[bool, ...]:
        """Return whether it is tried with borrowing, without, or both in which order."""
        both = (True, False)
        hierarchical = any(next(found.others(evicted, True), None) for evicted in both)
        by_priority = hierarchical or any(next(found.others(evicted, False), None) for evicted in both)
        forbidden = need.queue.spec.preemption.borrow_within_cohort == NEVER
        if not by_priority or (forbidden and not _under_nominal(need)):
            return (True,)
        return (False, True) if forbidden and not hierarchical else (True, False)

    def _attempt(
        self, need: Need, candidates: Iterable[PreemptionCandidate], borrowing: bool
    ) -> list[PreemptionTarget]:
        savepoint = len(self.journal)
        targets = self._removed(need, candidates, borrowing)
        found = self.fill_back(need, targets, borrowing) if targets else []
        rollback(self.journal, savepoint)
        return found

    def _removed(
        self, need: Need, candidates: Iterable[PreemptionCandidate], borrowing: bool
    ) -> list[PreemptionTarget]:
        """Remove candidates until the workload fits, and return them; empty if it does not even then."""
        targets: list[PreemptionTarget] = []
        for candidate in candidates:
            if not _valid(candidate, need, borrowing):
                continue
            self.remove(candidate.queue, candidate.info)
            targets.append(PreemptionTarget(candidate.info, candidate.queue, candidate.variant.reason))
            if need.fits(borrowing):
                return targets
        return []

    def _of_its_own(self, need: Need, others: PreemptionCandidates, own: list[Info]) -> list[PreemptionTarget] | None:
        """Return the targets of a workload whose ClusterQueue would borrow, which it may not; None if it is not as
        clear.

        All others are before its own, and not one of them keeps it from borrowing: all would be removed, and nearly all
        be put back in the end. Which of its own stay is said by its quota alone, as long as it fits with all others
        gone; so it does if it fits with some gone, and then no more than these need be tried: the last ones are put
        back first.
        """
        if need.placeable is not None or any(info.workload.evicted for info in own):
            return None  # places are not said by quota; who is being evicted comes before others
        savepoint = len(self.journal)
        targets: list[PreemptionTarget] = []
        for info in own:
            remove_all(need.queue, info.usage, self.journal)
            targets.append(PreemptionTarget(info, need.queue, Variant.WITHIN_CLUSTER_QUEUE.reason))
            if not need.borrows():
                break
        found: list[PreemptionTarget] | None = []
        if not need.borrows():
            found = self._put_back(targets, need.borrows)
            if not need.fits(False):
                more = self._removed(need, _in_turn(need, others, (), False), False)
                found = found + self.fill_back(need, more, False) if more else None
        rollback(self.journal, savepoint)
        return found

    def fill_back(self, need: Need, targets: list[PreemptionTarget], borrowing: bool) -> list[PreemptionTarget]:
        """Return the targets without those that the workload fits beside; the last one made room and stays."""
        return self._put_back(targets, lambda: not need.fits(borrowing))

    def _put_back(self, targets: list[PreemptionTarget], lacks: Callable[[], bool]) -> list[PreemptionTarget]:
        """Put back the targets without which nothing is lacking, the last ones first but not the very last; return the
        others.
        """
        found = list(targets)
        for at in range(len(found) - 2, -1, -1):
            savepoint = len(self.journal)
            self.put_back(found[at].queue, found[at].info)
            if lacks():
                rollback(self.journal, savepoint)
            else:
                found[at] = found[-1]
                found.pop()
        return found


def _in_turn(
    need: Need, others: PreemptionCandidates, own: Sequence[Info], borrowing: bool
) -> Iterator[PreemptionCandidate]:
    """Yield candidates: those that are being evicted first; where its place decides, then priority, then its own."""
    never = borrowing and need.queue.spec.preemption.borrow_within_cohort == NEVER  # while it borrows, for its priority
    for evicted in (True, False):
        yield from others.others(evicted, True)
        if not never:
            yield from others.others(evicted, False)
        for info in own:
            if info.workload.evicted is evicted:
                yield PreemptionCandidate(info, need.queue, None, Variant.WITHIN_CLUSTER_QUEUE)


def _under_nominal(need: Need) -> bool:
    """Return whether the ClusterQueue uses less than its nominal quota of all that is not free."""
    return all(need.queue.quota(place).nominal > need.queue.usage.get(place, 0) for place in need.places)


def _valid(candidate: PreemptionCandidate, need: Need, borrowing: bool) -> bool:
    """Return whether a candidate may be preempted still: removals before may have brought its Cohorts within quota."""
    if candidate.queue is need.queue:
        return True
    if borrowing and candidate.variant is Variant.RECLAIM_WITHOUT_BORROWING:
        return False
    if candidate.queue.within_nominal(need.places):
        return False
    for cohort in candidate.queue.ancestors():
        if cohort is candidate.common:
            break
        if cohort.within_nominal(need.places):
            return False
    return True
