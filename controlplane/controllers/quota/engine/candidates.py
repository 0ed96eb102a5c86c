"""Whom a workload may preempt, and in which order they are taken.

In: the workload that needs room, and those that have quota. Out: candidates, ordered (kubernetes-sigs/kueue
pkg/scheduler/preemption/common, pkg/scheduler/preemption/classical)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from controlplane.controllers.quota.engine import model, reasons
from controlplane.controllers.quota.engine.amounts import FlavorResource, Usage
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.controllers.quota.engine.tree import Node

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


class Candidate(NamedTuple):
    """A workload that may be preempted. `common`: the lowest Cohort that has both ClusterQueues below it, None for the
    same ClusterQueue.
    """

    info: Info
    queue: QueueNode
    common: Node | None
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


class Collector:
    """Collects the candidates of one workload, by what gives it the right to preempt them.

    `hidden`: workloads that count as gone already.
    """

    def __init__(
        self, preemptor: Info, queue: QueueNode, places: Places, requests: Usage, hidden: Collection[str] = ()
    ) -> None:
        self.preemptor = preemptor.workload
        self.queue = queue
        self.places = places
        self.requests = requests
        self.hidden = hidden

    def same_queue(self) -> list[Candidate]:
        """Return the candidates of the workload's own ClusterQueue."""
        if self.queue.spec.preemption.within_cluster_queue == model.NEVER:
            return []
        return list(self._of(self.queue, None, False))

    def other_queues(self) -> tuple[list[Candidate], list[Candidate]]:
        """Return those that use quota of a subtree which could hold the workload, whatever their priority, and those
        over which priority decides.
        """
        hierarchical: list[Candidate] = []
        by_priority: list[Candidate] = []
        if self.queue.spec.preemption.reclaim_within_cohort == model.NEVER:
            return hierarchical, by_priority
        advantage, remaining = self.queue.fits_in_quota(self.requests)
        below: Node | None = None
        for cohort in self.queue.ancestors():
            found = self._in_subtree(cohort, cohort, below, advantage)
            (hierarchical if advantage else by_priority).extend(found)
            fits, remaining = cohort.fits_in_quota(remaining)
            advantage, below = advantage or fits, cohort
        return hierarchical, by_priority

    def fair(self) -> Iterator[Info]:
        """Yield the candidates of fair sharing: of its own ClusterQueue, and of all in the tree that borrow."""
        preemption = self.queue.spec.preemption
        if preemption.within_cluster_queue != model.NEVER:
            yield from self._satisfying(self.queue, preemption.within_cluster_queue)
        if self.queue.parent is None or preemption.reclaim_within_cohort == model.NEVER:
            return
        cohorts = [self.queue.root()]
        while cohorts:
            cohort = cohorts.pop()
            cohorts.extend(cohort.cohorts.values())
            for other in cohort.exceeding(self.places):
                if isinstance(other, QueueNode) and other is not self.queue and other.active:
                    yield from self._satisfying(other, preemption.reclaim_within_cohort)

    def _in_subtree(self, cohort: Node, top: Node, below: Node | None, advantage: bool) -> Iterator[Candidate]:
        """Yield the candidates below a Cohort that use more than their quota; not of the subtree that was searched."""
        for child in cohort.exceeding(self.places):
            if isinstance(child, QueueNode):
                if child is not self.queue and child.active:
                    yield from self._of(child, top, advantage)
            elif child is not below:
                yield from self._in_subtree(child, top, below, advantage)

    def _of(self, queue: QueueNode, common: Node | None, advantage: bool) -> Iterator[Candidate]:
        preemption = self.queue.spec.preemption
        same = queue is self.queue
        policy = preemption.within_cluster_queue if same else preemption.reclaim_within_cohort
        for info in self._satisfying(queue, policy):
            if same:
                variant = Variant.WITHIN_CLUSTER_QUEUE
            elif advantage:
                variant = Variant.HIERARCHICAL_RECLAIM
            else:
                variant = self._by_priority(info.workload)
            yield Candidate(info, queue, common, variant)

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

    def _satisfying(self, queue: QueueNode, policy: str) -> Iterator[Info]:
        for info in queue.workloads.values():
            if info.key in self.hidden or info.flavor_resources.isdisjoint(self.places):
                continue
            if satisfies(policy, self.preemptor, info.workload):
                yield info
