"""Whom a workload may preempt, and in which order they are taken.

In: the workload that needs room, and those that have quota. Out: candidates, ordered (kubernetes-sigs/kueue
pkg/scheduler/preemption/common, pkg/scheduler/preemption/classical)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from controlplane.controllers.quota.engine import model, reasons
from controlplane.controllers.quota.engine.amounts import FlavorResource, Usage
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.controllers.quota.engine.tree import QuotaNode

Places = Collection[FlavorResource]
UsedBy = Callable[[Info], float | None]
"""What a workload's LocalQueue used in the past; None where that does not count."""


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

    Kueue compares usages only within a ClusterQueue, which does not say how those of several mix; here every ClusterQueue
    keeps its places.
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
    """All workloads of a tree that use some resources, in order. Made once a cycle; each head takes from it what it needs."""

    def __init__(self, root: QuotaNode, places: Places, now: float, used: UsedBy | None) -> None:
        self.queues: dict[str, QueueNode] = {queue.name: queue for queue in root.subtree_queues() if queue.active}
        found = [info for queue in self.queues.values() for info in using(queue, places, ())]
        listed = ordered(found, "", now, used)
        evicted = sum(info.workload.evicted for info in listed)
        self.evicted, self.others = listed[:evicted], listed[evicted:]
        self.by_priority = used is None


def _some_exceed(root: QuotaNode, places: Places) -> bool:
    """Return whether a ClusterQueue of a tree uses more than its quota of one of some resources."""
    cohorts = [root]
    while cohorts:
        cohort = cohorts.pop()
        if any(child.is_queue for child in cohort.exceeding(places)):
            return True
        cohorts.extend(cohort.cohorts.values())
    return False


def using(queue: QueueNode, places: Places, hidden: Collection[str]) -> Iterator[Info]:
    """Yield the workloads of a ClusterQueue that use one of some resources, but those that count as gone."""
    for info in queue.workloads.values():
        if not info.flavor_resources.isdisjoint(places) and info.key not in hidden:
            yield info


class PreemptionCandidates:
    """The candidates of one workload in other ClusterQueues, by what gives it the right to preempt them.

    `hidden`: workloads that count as gone.
    """

    def __init__(
        self,
        preemptor: Info,
        queue: QueueNode,
        places: Places,
        requests: Usage,
        rank: Callable[[], Ranking],
        hidden: Collection[str],
    ) -> None:
        self.preemptor = preemptor.workload
        self.queue = queue
        self.places = places
        self._rank = rank
        self.hidden = hidden
        self.reclaims = (
            queue.parent is not None
            and queue.spec.preemption.reclaim_within_cohort != model.NEVER
            and _some_exceed(queue.root(), places)
        )
        self._exceeds: dict[str, bool] = {}
        self._advantages: dict[QuotaNode, bool] = {}
        self._common: dict[str, QuotaNode | None] = {}
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
        """Yield candidates of other ClusterQueues: over which its place in the tree gives it an advantage, or over which
        priority decides.
        """
        if not self.reclaims or advantage not in self._advantages.values():
            return
        for info in self.satisfying(evicted):
            common = self._common_cohort(info.cluster_queue)
            if common is not None and self._advantages[common] is advantage:
                variant = Variant.HIERARCHICAL_RECLAIM if advantage else self._by_priority(info.workload)
                yield PreemptionCandidate(info, self.ranking.queues[info.cluster_queue], common, variant)

    def satisfying(self, evicted: bool) -> Iterator[Info]:
        """Yield the workloads of other ClusterQueues that exceed their quota, which the policy lets it preempt."""
        policy, preemptor = self.queue.spec.preemption.reclaim_within_cohort, self.preemptor
        for info in self.ranking.evicted if evicted else self.ranking.others:
            if policy != model.ANY and info.workload.priority > preemptor.priority:
                if self.ranking.by_priority:
                    return
                continue
            name = info.cluster_queue
            if name not in self._exceeds:
                queue = self.ranking.queues[name]
                self._exceeds[name] = queue is not self.queue and not queue.within_nominal(self.places)
            if self._exceeds[name] and info.key not in self.hidden and satisfies(policy, preemptor, info.workload):
                yield info

    def _common_cohort(self, name: str) -> QuotaNode | None:
        """Return the lowest Cohort above both ClusterQueues; None if one below it is within its quota."""
        if name not in self._common:
            node = self.ranking.queues[name].parent
            while node is not None and node not in self._advantages:
                node = None if node.within_nominal(self.places) else node.parent
            self._common[name] = node
        return self._common[name]

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
