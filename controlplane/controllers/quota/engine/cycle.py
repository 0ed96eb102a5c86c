"""One scheduling cycle: the heads of all ClusterQueues are tried together.

In: a `State` and the moment. Out: decisions. First each head is nominated: flavors are looked for, and targets if it does
not fit at once. Then the heads are taken one after the other, each on top of what those before it take
(kubernetes-sigs/kueue pkg/scheduler/scheduler.go). Nothing is changed: usages that are written on the way are taken back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controlplane.controllers.quota.engine import reasons
from controlplane.controllers.quota.engine.admissibility import problem
from controlplane.controllers.quota.engine.amounts import Usage, add, sub
from controlplane.controllers.quota.engine.assignment import Assignment
from controlplane.controllers.quota.engine.decisions import Admit, Decision, Inadmissible, Preempt, Victim
from controlplane.controllers.quota.engine.entry import Entry
from controlplane.controllers.quota.engine.fair_preemption import FairPreemptor
from controlplane.controllers.quota.engine.flavor_assigner import FlavorAssigner
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import ANY, ClusterQueue, PodSetAssignment, QuotaAdmission
from controlplane.controllers.quota.engine.modes import AssignmentMode
from controlplane.controllers.quota.engine.partial_admission import can_shrink, most_pods
from controlplane.controllers.quota.engine.pending import PendingQueue
from controlplane.controllers.quota.engine.preemption import Need, PreemptionTarget, Preemptor
from controlplane.controllers.quota.engine.state import State
from controlplane.controllers.quota.engine.tournament import by_borrowing, by_share
from controlplane.controllers.quota.engine.tree import Journal, add_all, remove_all, rollback

Found = tuple[Assignment, list[PreemptionTarget]]

OVERLAPS = "Workload has overlapping preemption targets with another workload"
DEFERRED = f"{OVERLAPS}, but will fit after these preemptions complete"
NO_LONGER_FITS = "Workload no longer fits after processing another workload"


def decide(state: State, now: float) -> list[Decision]:
    """Return what follows for the heads of all active ClusterQueues, in the order in which they were considered; what
    cannot be considered comes last. Empty if nobody is to be tried.
    """
    heads = state.heads()
    return _Cycle(state, now).run(heads) if heads else []


class _Cycle:
    """One cycle. `preempted`: targets of entries that were taken already, by key."""

    def __init__(self, state: State, now: float) -> None:
        self.snapshot = state.snapshot
        self.fair_sharing = state.settings.fair_sharing
        self.number = state.cycle + 1
        self.journal: Journal = []
        self.preempted: dict[str, PreemptionTarget] = {}
        strategies, used = state.settings.preemption_strategies, state.used_by()
        self.preemptor: Preemptor = (
            FairPreemptor(now, self.journal, self.snapshot.queues, used, strategies)
            if self.fair_sharing
            else Preemptor(now, self.journal, used)
        )
        self.wakes = {queue.name: queue.wakes for queue in state.queues.pending.values()}

    def run(self, heads: Iterable[tuple[PendingQueue, Info]]) -> list[Decision]:
        """Return the decisions about some heads."""
        entries, refused = [], []
        try:
            for pending, info in heads:
                queue = self.snapshot.queues[pending.name]
                found = problem(self.snapshot, queue, info)
                if found is not None:
                    wakes = self.wakes[queue.name]
                    refused.append(Inadmissible(info.key, queue.name, *found, info.progress, wakes))
                    continue
                entry = Entry(info, queue)
                entry.record(*self._assign(entry))
                entries.append(entry)
            ordered = by_share(entries, self.journal) if self.fair_sharing else by_borrowing(entries)
            decided: list[Decision] = []
            for entry in ordered:
                self._process(entry)
                decided.append(self._decision(entry))
            return [*decided, *refused]
        finally:
            rollback(self.journal)

    # Nomination.

    def _assign(self, entry: Entry) -> Found:
        """Return the flavors that an entry would get and its targets, for fewer pods if all do not fit."""
        info, queue = entry.info, entry.queue
        progress = info.progress
        if progress is not None and progress.outdated(queue.generation, self.number, info.shape):
            info = info.having(progress=None)
        assigner = FlavorAssigner(
            info,
            queue,
            self.snapshot.flavors,
            lambda place, amount: self.preemptor.simulate(info, queue, place, amount),
            self.number,
            fair_sharing=self.fair_sharing,
            nominated=entry.nominated,
        )
        full = assigner.assign()
        found = self._with_targets(entry, full)
        if found is None and can_shrink(info.workload.pod_sets):
            found = most_pods(info.workload.pod_sets, lambda counts: self._with_targets(entry, assigner.assign(counts)))
        return found or (full, [])

    def _with_targets(self, entry: Entry, assignment: Assignment) -> Found | None:
        """Return an assignment with the targets that it needs; None if it does not fit or there are no targets."""
        if assignment.mode is AssignmentMode.FIT:
            return assignment, []
        if assignment.mode is not AssignmentMode.PREEMPT:
            return None
        requests, places = assignment.total_requests(entry.info), assignment.needing_preemption()
        targets = self.preemptor.targets(Need(entry.info, entry.queue, requests, places))
        return (assignment, targets) if targets else None

    # One entry after the other.

    def _process(self, entry: Entry) -> None:
        """Find out what becomes of an entry after those before it, and take what it takes."""
        fits = self._assign_again(entry) if self._overlaps(entry) else self._fits(entry)
        mode = entry.assignment.mode
        if mode is AssignmentMode.NO_FIT:
            entry.wait(entry.assignment.no_fit_reason, reasons.NO_FIT)
        elif mode is AssignmentMode.PREEMPT and not entry.targets:
            entry.wait(reasons.WAITING_FOR_QUOTA, reasons.NO_CANDIDATES)
            # Who cannot always get its own quota back keeps it from those that come later in the cycle.
            if entry.queue.spec.preemption.reclaim_within_cohort != ANY:
                add_all(entry.queue, _to_reserve(entry), self.journal)
        elif mode is AssignmentMode.DEFERRED_FIT:
            entry.wait(reasons.WAITING_FOR_PREEMPTED, reasons.PENDING_PREEMPTION, DEFERRED)
            entry.progress = None
            add_all(entry.queue, entry.assignment.usage, self.journal)
        elif self._overlaps(entry):
            entry.wait(reasons.WAITING_FOR_QUOTA, reasons.FAILED_AFTER_NOMINATION, OVERLAPS)
        elif not fits:
            entry.wait(reasons.WAITING_FOR_QUOTA, reasons.FAILED_AFTER_NOMINATION, NO_LONGER_FITS)
        else:
            self._take(entry)

    def _take(self, entry: Entry) -> None:
        for target in entry.targets:
            self.preempted[target.info.key] = target
        add_all(entry.queue, entry.assignment.usage, self.journal)
        if entry.assignment.mode is AssignmentMode.FIT:
            entry.admitted = True
            return
        entry.wait(
            reasons.WAITING_FOR_PREEMPTED,
            reasons.PENDING_PREEMPTION,
            f"{entry.message}. Pending the preemption of {len(entry.targets)} workload(s)",
        )
        entry.progress = None

    def _overlaps(self, entry: Entry) -> bool:
        return any(target.info.key in self.preempted for target in entry.targets)

    def _fits(self, entry: Entry) -> bool:
        """Return whether an entry fits once all targets are gone, its own and those before it.

        What fits beside targets fits without them, so most entries are answered before all of them are removed.
        """
        own = {target.info.key: target for target in entry.targets}
        mark = len(self.journal)
        self._remove(own)
        fits = self._has_room(entry)
        if not fits:
            places = entry.assignment.usage.keys()
            self._remove(
                {
                    key: target
                    for key, target in self.preempted.items()
                    if key not in own and not target.info.usage.keys().isdisjoint(places)
                }
            )
            fits = self._has_room(entry)
        rollback(self.journal, mark)
        return fits

    def _has_room(self, entry: Entry) -> bool:
        usage = entry.assignment.usage.items()
        return all(max(0, entry.queue.available(place)) >= amount for place, amount in usage)

    def _assign_again(self, entry: Entry) -> bool:
        """Look for targets other than those that are taken, in the same flavors; return whether the entry fits."""
        mark = len(self.journal)
        self._remove(self.preempted)
        self.preemptor.hidden = set(self.preempted)
        entry.nominated = entry.assignment.nominated()
        entry.info = entry.info.having(progress=None)
        entry.record(*self._assign(entry))
        entry.nominated = None
        self.preemptor.hidden = set()
        rollback(self.journal, mark)
        if entry.assignment.mode is AssignmentMode.FIT:
            entry.assignment.defer()
        return self._fits(entry)

    def _remove(self, targets: Mapping[str, PreemptionTarget]) -> None:
        for target in targets.values():
            remove_all(target.queue, target.info.usage, self.journal)

    # What is said.

    def _decision(self, entry: Entry) -> Decision:
        queue = entry.queue
        if entry.admitted:
            given = entry.assignment.given()
            return Admit(entry.info.key, QuotaAdmission(queue.name, given), checks_for(queue.spec, given))
        said = entry.info.key, queue.name, entry.reason, entry.message, entry.requeue
        wakes = self.wakes[queue.name]
        if entry.requeue == reasons.PENDING_PREEMPTION and entry.assignment.mode is AssignmentMode.PREEMPT:
            victims = tuple(_victim(entry, target) for target in entry.targets)
            return Preempt(*said, entry.progress, wakes, victims)
        return Inadmissible(*said, entry.progress, wakes)


def _victim(entry: Entry, target: PreemptionTarget) -> Victim:
    preemptor, preemptee = entry.info.workload, target.info.workload
    paths = entry.queue.path(), target.queue.path()
    message = reasons.preempted(preemptor.uid, preemptor.job_uid, target.reason, *paths)
    return Victim(preemptee.key, preemptee.uid, target.queue.name, target.reason, message, preemptee.evicted)


def _to_reserve(entry: Entry) -> Usage:
    """Return what an entry without targets keeps from others: its requests, but no more than its ClusterQueue may use."""
    found: Usage = {}
    for place, amount in entry.assignment.usage.items():
        quota = entry.queue.quota(place)
        used = entry.queue.usage.get(place, 0)
        if entry.assignment.borrowing == 0:
            found[place] = max(0, min(amount, sub(quota.nominal, used)))
        elif quota.borrowing_limit is None:
            found[place] = amount
        else:
            found[place] = min(amount, sub(add(quota.nominal, quota.borrowing_limit), used))
    return found


def checks_for(queue: ClusterQueue, given: Iterable[PodSetAssignment]) -> tuple[str, ...]:
    """Return the admission checks that are for one of the flavors that were given."""
    flavors = {flavor for pod_set in given for flavor in pod_set.flavors.values()}
    return tuple(name for name, on in queue.admission_checks if not on.isdisjoint(flavors))
