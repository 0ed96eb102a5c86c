"""Preemption with fair sharing: room is made where most is borrowed, as long as that makes the shares fairer.

In: the workload, what it needs and where. Out: targets, or none (kubernetes-sigs/kueue
pkg/scheduler/preemption/preemption.go, keps/1714-fair-sharing)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from controlplane.controllers.quota.engine import reasons
from controlplane.controllers.quota.engine.candidates import UsedBy
from controlplane.controllers.quota.engine.fair_targets import TargetQueues
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.preemption import Need, PreemptionTarget, Preemptor
from controlplane.controllers.quota.engine.shares import DominantResourceShare
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.controllers.quota.engine.tree import Journal, add_all, remove_all, rollback
from controlplane.controllers.quota.topology.fleet import TopologyFleet

FINAL_SHARE, INITIAL_SHARE = "LessThanOrEqualToFinalShare", "LessThanInitialShare"
STRATEGIES = (FINAL_SHARE, INITIAL_SHARE)


class FairPreemptor(Preemptor):
    """Finds targets by shares. `strategies`: the first is tried for every candidate, the second for those that it
    spared."""

    def __init__(
        self,
        now: float,
        journal: Journal,
        topology: TopologyFleet,
        queues: Mapping[str, QueueNode],
        used: UsedBy | None = None,
        gone: Collection[str] = (),
        strategies: Sequence[str] = STRATEGIES,
    ) -> None:
        super().__init__(now, journal, topology, used, gone)
        self.queues = queues
        self.strategies = tuple(strategies) or STRATEGIES

    def targets(self, need: Need) -> list[PreemptionTarget]:
        """Return whom to preempt, empty if that does not help."""
        others, own = self.candidates(need)
        candidates: list[Info] = []
        for evicted in (True, False):
            candidates += others.satisfying(evicted) if others.reclaims else ()
            candidates += (info for info in own if info.workload.evicted is evicted)
        if not candidates:
            return []
        savepoint = len(self.journal)
        # Shares are compared as they are with the workload admitted.
        add_all(need.queue, need.requests, self.journal)
        fits, targets, spared = self._first(need, candidates)
        if not fits and len(self.strategies) > 1:
            fits = self._second(need, spared, targets)
        remove_all(need.queue, need.requests, self.journal)
        found = self.fill_back(need, targets, True) if fits else []
        rollback(self.journal, savepoint)
        return found

    def _first(self, need: Need, candidates: Iterable[Info]) -> tuple[bool, list[PreemptionTarget], list[Info]]:
        """Return whether the workload fits after the first strategy, whom it took, and whom it spared."""
        queues = TargetQueues(need.queue, candidates, self.queues, self.now)
        targets: list[PreemptionTarget] = []
        spared: list[Info] = []
        # What a ClusterQueue has of its own is its due, however the shares are.
        entitled = not any(need.queue.borrows_with(place, 0) for place in need.places)
        for queue in queues:
            if queue is need.queue:
                reason, taken = reasons.IN_CLUSTER_QUEUE, queues.pop(queue)
            elif entitled:
                reason, taken = reasons.IN_COHORT_RECLAMATION, queues.pop(queue)
            else:
                reason, chosen = reasons.IN_COHORT_FAIR_SHARING, self._choose(queues, queue, spared)
                if chosen is None:
                    continue
                taken = chosen
            if self._take(need, queue, taken, reason, targets):
                return True, targets, []
        return False, targets, spared

    def _choose(self, queues: TargetQueues, queue: QueueNode, spared: list[Info]) -> Info | None:
        """Return the first candidate of a ClusterQueue that the first strategy lets go."""
        preemptor, before = queues.shares(queue)
        hopeless = math.isinf(preemptor.weighted) and not math.isinf(before.weighted)
        while queues.has(queue):
            info = queues.pop(queue)
            if not hopeless and self._passes(queues, queue, info, preemptor, before):
                return info
            spared.append(info)
        return None

    def _passes(
        self,
        queues: TargetQueues,
        queue: QueueNode,
        info: Info,
        preemptor: DominantResourceShare,
        before: DominantResourceShare,
    ) -> bool:
        if self.strategies[0] == INITIAL_SHARE:
            return preemptor.rank < before.rank
        savepoint = len(self.journal)
        remove_all(queue, info.usage, self.journal)
        _, after = queues.shares(queue)
        rollback(self.journal, savepoint)
        return preemptor.rank <= after.rank

    def _second(self, need: Need, spared: Iterable[Info], targets: list[PreemptionTarget]) -> bool:
        """Take one candidate of each ClusterQueue whose share is above the preemptor's; return whether that is
        enough."""
        queues = TargetQueues(need.queue, spared, self.queues, self.now)
        for queue in queues:
            preemptor, before = queues.shares(queue)
            info = queues.pop(queue)
            if preemptor.rank < before.rank and self._take(need, queue, info, reasons.IN_COHORT_FAIR_SHARING, targets):
                return True
            queues.drop(queue)
        return False

    def _take(self, need: Need, queue: QueueNode, info: Info, reason: str, targets: list[PreemptionTarget]) -> bool:
        """Remove a candidate's usage; return whether the workload fits then."""
        self.remove(queue, info)
        targets.append(PreemptionTarget(info, queue, reason))
        savepoint = len(self.journal)
        remove_all(need.queue, need.requests, self.journal)
        fits = need.fits(True)
        rollback(self.journal, savepoint)
        return fits
