"""Whom a workload may preempt, and in which order they are taken.

In: the workload that needs room, and those that have quota. Out: candidates, ordered (kubernetes-sigs/kueue
pkg/scheduler/preemption/common, pkg/scheduler/preemption/classical)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from functools import cached_property
from heapq import merge
from typing import NamedTuple

from controlplane.controllers.quota.engine import model, reasons
from controlplane.controllers.quota.engine.amounts import FlavorResource, Usage
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.controllers.quota.engine.tree import QuotaNode

Places = Collection[FlavorResource]
UsedBy = Callable[[Info], float | None]
"""What a workload's LocalQueue used in the past; None where that does not count."""


Ranked = tuple[int, Info]
"""A workload with its place in the order."""

_FORGET = 32  # workloads more that count as gone, before those are taken out of a ranking
_FEW = 48  # ClusterQueues whose workloads are merged; of more, all workloads are looked through


class Variant(Enum):
    """Why a candidate may be preempted; its value is the reason that is told."""

    WITHIN_CLUSTER_QUEUE = (reasons.IN_CLUSTER_QUEUE, 0)
    HIERARCHICAL_RECLAIM = (reasons.IN_COHORT_RECLAMATION, 1)
    RECLAIM_WITHOUT_BORROWING = (reasons.IN_COHORT_RECLAMATION, 2)
    RECLAIM_WHILE_BORROWING = (reasons.IN_COHORT_RECLAIM_WHILE_BORROWING, 3)

    @property
    def reason(self) -> str:
        """The reason of the Preempted condition."""
        return self.value[0]


class PreemptionCandidate(NamedTuple):
    """A workload that may be preempted. `common`: the lowest Cohort that has both ClusterQueues below it, None for the
    same ClusterQueue.
    """

    info: Info
    queue: QueueNode
    common: QuotaNode | None
    variant: Variant


def satisfies(policy: str, preemptor: model.Workload, candidate: model.Workload) -> bool:
    """Return whether a preemption policy lets one workload preempt another."""
    if policy == model.ANY:
        return True
    if policy not in (model.LOWER_PRIORITY, model.LOWER_OR_NEWER_EQUAL_PRIORITY):
        return False
    if preemptor.priority > candidate.priority:
        return True
    newer = preemptor.priority == candidate.priority and preemptor.queued_at < candidate.queued_at
    return policy == model.LOWER_OR_NEWER_EQUAL_PRIORITY and newer


def order(info: Info, cluster_queue: str, now: float) -> tuple[bool, bool, int, float, str]:
    """Return a key that sorts candidates: those that are being evicted, those of other ClusterQueues, lower priorities,
    later reservations.
    """
    workload = info.workload
    reserved = now if workload.reserved_at is None else workload.reserved_at
    return not workload.evicted, info.cluster_queue == cluster_queue, workload.priority, -reserved, workload.uid


def ordered(infos: Iterable[Info], cluster_queue: str, now: float, used: UsedBy | None = None) -> list[Info]:
    """Return candidates in the order in which they are preempted. With `used`, those of one ClusterQueue change places
    with each other: the LocalQueue that used more comes first.

    Kueue compares usages only within a ClusterQueue, which does not say how those of several mix; here every
    ClusterQueue keeps its places.
    """
    found = sorted(infos, key=lambda info: order(info, cluster_queue, now))
    if used is None:
        return found
    places: dict[tuple[bool, str], list[int]] = {}
    for at, info in enumerate(found):
        places.setdefault((info.workload.evicted, info.cluster_queue), []).append(at)
    listed = list(found)
    for taken in places.values():
        by_usage = sorted((found[at] for at in taken), key=lambda info: -(used(info) or 0.0))
        for at, info in zip(taken, by_usage, strict=True):
            listed[at] = info
    return listed


class Ranking:
    """All workloads of a tree that use some resources, in order, with their places in it. Made once a cycle; each head
    takes from it what it needs."""

    def __init__(self, root: QuotaNode, places: Places, now: float, used: UsedBy | None) -> None:
        self.queues: dict[str, QueueNode] = {queue.name: queue for queue in root.subtree_queues() if queue.active}
        found = [info for queue in self.queues.values() for info in using(queue, places, ())]
        listed = list(enumerate(ordered(found, "", now, used)))
        evicted = sum(info.workload.evicted for _, info in listed)
        self.evicted, self.others = listed[:evicted], listed[evicted:]
        self.by_priority = used is None
        self._gone = 0

    def without(self, gone: Collection[str]) -> Ranking:
        """Forget workloads that count as gone, if there are many more of them than when that was done before."""
        if len(gone) >= self._gone + _FORGET:
            self._gone = len(gone)
            self.evicted = [one for one in self.evicted if one[1].key not in gone]
            self.others = [one for one in self.others if one[1].key not in gone]
            self.__dict__.pop("by_queue", None)
        return self

    @cached_property
    def by_queue(self) -> dict[str, tuple[list[Ranked], list[Ranked]]]:
        """The same by ClusterQueue: those that are being evicted, and the others."""
        found: dict[str, tuple[list[Ranked], list[Ranked]]] = {name: ([], []) for name in self.queues}
        for at, listed in enumerate((self.evicted, self.others)):
            for one in listed:
                found[one[1].cluster_queue][at].append(one)
        return found


def _some_exceed(root: QuotaNode, places: Places) -> bool:
    """Return whether a ClusterQueue of a tree uses more than its quota of one of some resources."""
    cohorts = [root]
    while cohorts:
        cohort = cohorts.pop()
        if any(child.is_queue for child in cohort.exceeding(places)):
            return True
        cohorts.extend(cohort.cohorts.values())
    return False


def using(queue: QueueNode, places: Places, gone: Collection[str]) -> Iterator[Info]:
    """Yield the workloads of a ClusterQueue that use one of some resources, but those that count as gone."""
    for info in queue.workloads.values():
        if not info.flavor_resources.isdisjoint(places) and info.key not in gone:
            yield info


class PreemptionCandidates:
    """The candidates of one workload in other ClusterQueues, by what gives it the right to preempt them.

    `gone`: workloads that count as gone.
    """

    def __init__(
        self,
        preemptor: Info,
        queue: QueueNode,
        places: Places,
        requests: Usage,
        rank: Callable[[], Ranking],
        gone: Collection[str],
    ) -> None:
        self.preemptor = preemptor.workload
        self.queue = queue
        self.places = places
        self._rank = rank
        self.gone = gone
        self.reclaims = (
            queue.parent is not None
            and queue.spec.preemption.reclaim_within_cohort != model.NEVER
            and _some_exceed(queue.root(), places)
        )
        self._advantages: dict[QuotaNode, bool] = {}
        self._found: dict[tuple[bool, bool], _Replayed] = {}
        self._commons: dict[str, QuotaNode | None] = {}
        if self.reclaims:
            advantage, remaining = queue.fits_in_quota(requests)
            for cohort in queue.ancestors():
                # Who belongs to a subtree that could hold it may take what others use of that subtree's quota.
                self._advantages[cohort] = advantage
                fits, remaining = cohort.fits_in_quota(remaining)
                advantage = advantage or fits

    @cached_property
    def ranking(self) -> Ranking:
        """The workloads of the tree; asked for only if one of them may be preempted."""
        return self._rank()

    def others(self, evicted: bool, advantage: bool) -> Iterator[PreemptionCandidate]:
        """Yield candidates of other ClusterQueues: over which its place in the tree gives it an advantage, or over
        which priority decides.
        """
        if not self._many[advantage] or (evicted and not self.ranking.evicted):
            return iter(())
        if (evicted, advantage) not in self._found:
            self._found[evicted, advantage] = _Replayed(self._others(evicted, advantage))
        return iter(self._found[evicted, advantage])

    def _others(self, evicted: bool, advantage: bool) -> Iterator[PreemptionCandidate]:
        queues = self.ranking.queues
        if self._many[advantage] <= _FEW:
            by_queue = self.ranking.by_queue
            names = [queue.name for queue in self._exceeding(advantage)]
            found: Iterator[Ranked] = merge(*(self._satisfying(by_queue[name][0 if evicted else 1]) for name in names))
        else:
            found = self._satisfying(self.ranking.evicted if evicted else self.ranking.others)
        for _, info in found:
            name = info.cluster_queue
            if name not in self._commons:
                self._commons[name] = self._common_cohort(queues[name])
            common = self._commons[name]
            if common is not None and self._advantages[common] is advantage:
                variant = Variant.HIERARCHICAL_RECLAIM if advantage else self._by_priority(info.workload)
                yield PreemptionCandidate(info, queues[name], common, variant)

    @cached_property
    def _many(self) -> dict[bool, int]:
        """How many ClusterQueues exceed their quota, by whether its place gives it an advantage; some may count twice,
        or have a Cohort above them that does not exceed its own."""
        found = {True: 0, False: 0}
        below: QuotaNode = self.queue
        for common, advantage in self._advantages.items():
            cohorts = [common, *(child for child in common.cohorts.values() if child is not below)]
            while cohorts:
                cohort = cohorts.pop()
                found[advantage] += sum(len(cohort.over.get(place, ())) for place in self.places)
                if cohort is not common:
                    cohorts.extend(cohort.cohorts.values())
            below = common
        return found

    def _exceeding(self, advantage: bool) -> Iterator[QuotaNode]:
        """Yield the active ClusterQueues that exceed their quota, as every Cohort does that is above one and not above
        both."""
        below: QuotaNode = self.queue
        for common, given in self._advantages.items():
            nodes = [child for child in common.exceeding(self.places) if child is not below and given is advantage]
            while nodes:
                node = nodes.pop()
                if not node.is_queue:
                    nodes.extend(node.exceeding(self.places))
                elif node.active:
                    yield node
            below = common

    def _common_cohort(self, queue: QuotaNode) -> QuotaNode | None:
        """Return the lowest Cohort above both ClusterQueues; None if one below it is within its quota."""
        node: QuotaNode | None = queue if queue is not self.queue else None
        while node is not None and node not in self._advantages:
            node = None if node.within_nominal(self.places) else node.parent
        return node

    def satisfying(self, evicted: bool) -> Iterator[Info]:
        """Yield the workloads of other ClusterQueues that exceed their quota, which the policy lets it preempt."""
        queues = {
            name
            for name, queue in self.ranking.queues.items()
            if queue is not self.queue and not queue.within_nominal(self.places)
        }
        listed = self.ranking.evicted if evicted else self.ranking.others
        yield from (info for _, info in self._satisfying(one for one in listed if one[1].cluster_queue in queues))

    def _satisfying(self, listed: Iterable[Ranked]) -> Iterator[Ranked]:
        policy, preemptor = self.queue.spec.preemption.reclaim_within_cohort, self.preemptor
        for one in listed:
            candidate = one[1].workload
            if policy != model.ANY and candidate.priority > preemptor.priority and self.ranking.by_priority:
                return  # so are all that come after it
            if one[1].key not in self.gone and satisfies(policy, preemptor, candidate):
                yield one

    def _by_priority(self, candidate: model.Workload) -> Variant:
        preemption = self.queue.spec.preemption
        threshold = preemption.max_priority_threshold
        if (
            preemption.borrow_within_cohort == model.NEVER
            or candidate.priority >= self.preemptor.priority
            or (threshold is not None and candidate.priority > threshold)
        ):
            return Variant.RECLAIM_WITHOUT_BORROWING
        return Variant.RECLAIM_WHILE_BORROWING


class _Replayed:
    """What an iterator yields, for whoever iterates: it is asked for each thing once."""

    def __init__(self, source: Iterator[PreemptionCandidate]) -> None:
        self._source = source
        self._known: list[PreemptionCandidate] = []

    def __iter__(self) -> Iterator[PreemptionCandidate]:
        at = 0
        while True:
            if at == len(self._known):
                more = next(self._source, None)
                if more is None:
                    return
                self._known.append(more)
            yield self._known[at]
            at += 1
