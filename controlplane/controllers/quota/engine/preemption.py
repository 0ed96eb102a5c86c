"""Preemption: a small set of workloads whose quota, once free, lets another one in.

In: the workload, what it needs and where. Out: targets, or none. PreemptionCandidates are removed in order until the workload
fits; then, in the reverse order, those are put back that it fits beside (kubernetes-sigs/kueue
pkg/scheduler/preemption/preemption.go)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


@dataclass(frozen=True, slots=True)
class PreemptionTarget:
    """A workload to preempt, where its quota is, and why it may be preempted."""

    info: Info
    queue: QueueNode
    reason: str


@dataclass(frozen=True, slots=True)
class Need:
    """What room is made for: a workload, its requests by flavor, and the resources that are not free."""

    info: Info
    queue: QueueNode
    requests: Usage
    places: Places

    def fits(self, borrowing: bool) -> bool:
        """Return whether the requests fit as things are, without borrowing if that is not allowed."""
        for place, amount in self.requests.items():
            if not borrowing and self.queue.borrows_with(place, amount):
                return False
            if amount > max(0, self.queue.available(place)):
                return False
        return True


class Preemptor:
    """Finds targets. It writes usages while it tries, notes them in the journal, and takes them back.

    `hidden`: workloads that count as gone. `used`: what LocalQueues used, where that counts.
    """

    def __init__(self, now: float, journal: Journal, used: UsedBy | None = None) -> None:
        self.now = now
        self.journal = journal
        self.used = used
        self.hidden: set[str] = set()
        self._ranked: dict[tuple[QuotaNode, frozenset[FlavorResource]], Ranking] = {}

    def targets(self, need: Need) -> list[PreemptionTarget]:
        """Return whom to preempt, empty if that does not help."""
        others, own = self.candidates(need)
        for borrowing in self._attempts(need, others):
            if found := self._attempt(need, _in_turn(need, others, own), borrowing):
                return found
        return []

    def simulate(self, info: Info, queue: QueueNode, place: FlavorResource, amount: int) -> tuple[Possibility, int]:
        """Return what preemption could do for an amount of one resource, and how far away the quota would be then."""
        found = self.targets(Need(info, queue, {place: amount}, frozenset((place,))))
        mark = len(self.journal)
        for target in found:
            remove_all(target.queue, target.info.usage, self.journal)
        borrowing, _ = lowest_subtree_that_fits(queue, place, amount)
        rollback(self.journal, mark)
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
            found = using(need.queue, places, self.hidden)
            satisfying = (info for info in found if satisfies(policy, preemptor, info.workload))
            own = ordered(satisfying, need.queue.name, self.now, self.used)
        rank = partial(self._ranking, root, places)
        return PreemptionCandidates(need.info, need.queue, places, need.requests, rank, self.hidden), own

    def _ranking(self, root: QuotaNode, places: frozenset[FlavorResource]) -> Ranking:
        if (root, places) not in self._ranked:
            self._ranked[root, places] = Ranking(root, places, self.now, self.used)
        return self._ranked[root, places]

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
        mark = len(self.journal)
        targets: list[PreemptionTarget] = []
        for candidate in candidates:
            if not _valid(candidate, need, borrowing):
                continue
            remove_all(candidate.queue, candidate.info.usage, self.journal)
            targets.append(PreemptionTarget(candidate.info, candidate.queue, candidate.variant.reason))
            if need.fits(borrowing):
                found = self.fill_back(need, targets, borrowing)
                rollback(self.journal, mark)
                return found
        rollback(self.journal, mark)
        return []

    def fill_back(self, need: Need, targets: list[PreemptionTarget], borrowing: bool) -> list[PreemptionTarget]:
        """Return the targets without those that the workload fits beside; the last one made room and stays."""
        found = list(targets)
        for at in range(len(found) - 2, -1, -1):
            mark = len(self.journal)
            add_all(found[at].queue, found[at].info.usage, self.journal)
            if need.fits(borrowing):
                found[at] = found[-1]
                found.pop()
            else:
                rollback(self.journal, mark)
        return found


def _in_turn(need: Need, others: PreemptionCandidates, own: Sequence[Info]) -> Iterator[PreemptionCandidate]:
    """Yield candidates: those that are being evicted first; where its place decides, then priority, then its own."""
    for evicted in (True, False):
        yield from others.others(evicted, True)
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
