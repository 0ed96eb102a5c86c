"""One scheduling cycle: the heads of all ClusterQueues are tried together.

In: a `State`, the moment. Out: decisions. For each head flavors are looked for, and targets if it does not fit. Then
the heads are taken in order, each on top of those before it (kubernetes-sigs/kueue pkg/scheduler/scheduler.go)."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.controllers.quota.engine import reasons
from controlplane.controllers.quota.engine.admissibility import problem
from controlplane.controllers.quota.engine.amounts import Usage, add, sub
from controlplane.controllers.quota.engine.assignment import Assignment
from controlplane.controllers.quota.engine.decisions import Admit, Decision, Evict, Inadmissible, Preempt, Victim
from controlplane.controllers.quota.engine.entry import Entry
from controlplane.controllers.quota.engine.fair_preemption import FairPreemptor
from controlplane.controllers.quota.engine.flavor_assigner import FlavorAssigner
from controlplane.controllers.quota.engine.freed import FreedTrees
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import ANY, ClusterQueue, PodSetAssignment, QuotaAdmission
from controlplane.controllers.quota.engine.modes import AssignmentMode
from controlplane.controllers.quota.engine.partial_admission import can_shrink, most_pods
from controlplane.controllers.quota.engine.pending import PendingQueue
from controlplane.controllers.quota.engine.preemption import Need, PreemptionTarget, Preemptor
from controlplane.controllers.quota.engine.slices import replaced_slice
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.controllers.quota.engine.state import State
from controlplane.controllers.quota.engine.tournament import by_borrowing, by_share
from controlplane.controllers.quota.engine.tree import Journal, add_all, remove_all, rollback
from controlplane.controllers.quota.topology.model import Placed
from controlplane.controllers.quota.topology.queue_topology import QueueTopology

Found = tuple[Assignment, list[PreemptionTarget]]

OVERLAPS = "Workload has overlapping preemption targets with another workload"
DEFERRED = f"{OVERLAPS}, but will fit after these preemptions complete"
GATED = "Workload requires preemption, but it's gated"
NO_LONGER_FITS = "Workload no longer fits after processing another workload"


def decide(state: State, now: float) -> list[Decision]:
    """Return what follows for the heads of all active ClusterQueues, in the order in which they were considered; what
    cannot be considered comes last. Empty if nobody is to be tried.
    """
    heads, second = state.heads(), state.second_heads(now)
    return _Cycle(state, now).run(heads, second) if heads or second else []


def waits_for_pods(info: Info, wakes: int) -> Inadmissible:
    """Return that somebody fits, and is admitted once the pods of all others are ready."""
    message = "waiting for all admitted workloads to be in PodsReady condition"
    return Inadmissible(
        info.key, info.cluster_queue, reasons.WAITING_FOR_PODS_READY, message, reasons.GENERIC, info.progress, wakes
    )


def preemptor(state: State, now: float, journal: Journal, freed: FreedTrees | None = None) -> Preemptor:
    """Return what finds targets, as the settings say; with `freed` among those that are not preempted yet."""
    queues, gone = (freed.queues, freed.gone) if freed is not None else (state.snapshot.queues, ())
    topology, used = state.snapshot.topology, state.used_by()
    if state.settings.fair_sharing:
        return FairPreemptor(now, journal, topology, queues, used, gone, state.settings.preemption_strategies)
    return Preemptor(now, journal, topology, used, gone)


class _Cycle:
    """One cycle. `freed`: the trees without the targets of entries that were taken already, `displaced`: where these
    were placed. `kept`: what those that wait keep from others in this cycle, and do not use; `topologies`: what
    ClusterQueues see of topology, by name.
    """

    def __init__(self, state: State, now: float) -> None:
        self.snapshot = state.snapshot
        self.settings, self.blocked = state.settings, state.blocked
        self.waits_for_pods = state.waits_for_pods
        self.entry_penalty = state.entry_penalty
        self.number = state.cycle + 1
        self.journal: Journal = []
        self.freed = FreedTrees()
        self.displaced: list[tuple[Placed, ...]] = []
        self.kept: list[tuple[QueueNode, Usage, tuple[Placed, ...]]] = []
        self.topologies: dict[str, QueueTopology] = {}
        self.preemptor = preemptor(state, now, self.journal)
        self.preemptor_when_freed = preemptor(state, now, self.journal, self.freed)
        self.wakes = {queue.name: queue.wakes for queue in state.queues.pending.values()}

    def run(
        self, heads: Iterable[tuple[PendingQueue, Info]], second: Iterable[tuple[QueueNode, Info, int]] = ()
    ) -> list[Decision]:
        """Return the decisions about some heads, and about some that have quota and are to be placed."""
        begun = [Entry(info, queue, second_pass=number) for queue, info, number in second]
        for pending, info in heads:
            first = self.settings.prioritize_preemptors and pending.first == info.key
            begun.append(Entry(info, self.snapshot.queues[pending.name], goes_first=first))
        entries, refused = [], []
        try:
            for entry in begun:
                queue, info = entry.queue, entry.info
                found = problem(self.snapshot, queue, info)
                if found is not None:
                    wakes = self.wakes[queue.name]
                    told = info.key, queue.name, *found, info.progress, wakes
                    refused.append(Inadmissible(*told, second_pass=entry.second_pass))
                    continue
                entry.record(*self._assign(entry, queue, self.preemptor))
                entries.append(entry)
            decided: list[Decision] = []
            for entry in self._ordered(entries):
                self._process(entry)
                if entry.admitted and self.blocked and not entry.second_pass:
                    wakes = self.wakes[entry.queue.name]
                    decided.append(waits_for_pods(entry.info, wakes))
                    break  # those after it are not looked at
                decided.append(self._decision(entry))
                self.blocked = self.blocked or (entry.admitted and self.settings.block_admission)
            return [*decided, *refused]
        finally:
            rollback(self.journal)

    def _ordered(self, entries: list[Entry]) -> Iterable[Entry]:
        """Yield entries in the order in which they are considered: who has quota already comes first, then who waited
        for the pods of others."""
        yield from by_borrowing(entry for entry in entries if entry.second_pass)
        entries = [entry for entry in entries if not entry.second_pass]
        yield from (entry for entry in entries if entry.info.key == self.waits_for_pods)
        rest = [entry for entry in entries if entry.info.key != self.waits_for_pods]
        yield from by_share(rest, self.journal) if self.settings.fair_sharing else by_borrowing(rest)

    # Nomination.

    def _assign(self, entry: Entry, queue: QueueNode, preemptor: Preemptor) -> Found:
        """Return the flavors that an entry would get and its targets, for fewer pods if all do not fit. `queue`: its
        ClusterQueue, in the tree as it is or as it will be.
        """
        info, topology = entry.info, self._topology(queue)
        progress = info.progress
        if progress is not None and progress.outdated(queue.generation, self.number, info.shape):
            info = info.having(progress=None)
        assigner = FlavorAssigner(
            info,
            queue,
            self.snapshot.flavors,
            lambda place, amount: preemptor.simulate(info, queue, place, amount),
            self.number,
            topology,
            fair_sharing=self.settings.fair_sharing,
            ignore_undeclared=self.settings.ignore_undeclared,
            nominated=entry.nominated,
            replaces=None if entry.second_pass else replaced_slice(info, queue.workloads, self.freed.gone),
            in_bytes=self.settings.devices.in_bytes,
        )

        def with_targets(assignment: Assignment) -> Found | None:
            """Return an assignment with the targets that it needs; None if it does not fit or there are none."""
            if assignment.mode is AssignmentMode.FIT:
                return assignment, []
            if assignment.mode is not AssignmentMode.PREEMPT:
                return None
            requests, places = assignment.total_requests(entry.info), assignment.needing_preemption()
            asked = assignment.asked
            placeable = (lambda: topology.fits(asked, info)) if asked else None
            targets = preemptor.targets(Need(entry.info, queue, requests, places, placeable))
            return (assignment, targets) if targets else None

        full = assigner.assign()
        found = with_targets(full)
        if found is None and can_shrink(info.workload.pod_sets):
            found = most_pods(info.workload.pod_sets, lambda counts: with_targets(assigner.assign(counts)))
        found = found or (full, [])
        if topology.concerns(info):
            self._keep_places(entry, topology, *found)
        return found

    def _topology(self, queue: QueueNode) -> QueueTopology:
        if queue.name not in self.topologies:
            self.topologies[queue.name] = QueueTopology(self.snapshot, queue)
        return self.topologies[queue.name]

    def _keep_places(
        self, entry: Entry, topology: QueueTopology, assignment: Assignment, targets: list[PreemptionTarget]
    ) -> None:
        """Note which places an assignment takes. One that needs preemption takes those that it gets once its targets
        are gone, or, without targets, once everybody is: nobody else is to get them in this cycle."""
        if assignment.mode is AssignmentMode.PREEMPT and not entry.info.workload.on_unhealthy_node:
            savepoint = len(self.journal)
            for target in targets:
                self.snapshot.topology.give_back(target.info.placed, self.journal)
            topology.note(assignment, topology.find(assignment.asked, entry.info, empty=not targets))
            rollback(self.journal, savepoint)
        assignment.placed = topology.placed(assignment, entry.info)

    # One entry after the other.

    def _process(self, entry: Entry) -> None:
        """Find out what becomes of an entry after those before it, and take what it takes."""
        fits = self._assign_again(entry) if self._overlaps(entry) else self._fits(entry) or self._fits_elsewhere(entry)
        mode = entry.assignment.mode
        if entry.info.workload.on_unhealthy_node and mode is not AssignmentMode.FIT:
            entry.evicted = True
        elif mode is AssignmentMode.NO_FIT:
            entry.wait(entry.assignment.no_fit_reason, reasons.NO_FIT)
        elif mode is AssignmentMode.PREEMPT and not self._may_preempt(entry):
            self._wait_for_quota(entry)
        elif mode is AssignmentMode.DEFERRED_FIT:
            entry.wait(reasons.WAITING_FOR_PREEMPTED, reasons.PENDING_PREEMPTION, DEFERRED)
            entry.progress = None
            self._keep(entry, entry.usage)
        elif self._overlaps(entry):
            entry.wait(reasons.WAITING_FOR_QUOTA, reasons.FAILED_AFTER_NOMINATION, OVERLAPS)
        elif not fits:
            entry.wait(reasons.WAITING_FOR_QUOTA, reasons.FAILED_AFTER_NOMINATION, NO_LONGER_FITS)
        else:
            self._take(entry)

    def _may_preempt(self, entry: Entry) -> bool:
        """Whether there is somebody to preempt for an entry, and no gate that keeps it from that."""
        return bool(entry.targets) and not (self.settings.preemption_gates and entry.info.workload.preemption_gated)

    def _wait_for_quota(self, entry: Entry) -> None:
        """Let an entry wait that preempts nobody. Who cannot always get its own quota back keeps it from those later in
        the cycle; so does who waits for victims that are gone for it already, unless it may not preempt for now."""
        if entry.targets:
            entry.wait(reasons.WAITING_FOR_QUOTA, reasons.PREEMPTION_GATED, GATED)
            entry.progress = None
            return
        entry.wait(reasons.WAITING_FOR_QUOTA, reasons.NO_CANDIDATES)
        if entry.queue.spec.preemption.reclaim_within_cohort != ANY or entry.goes_first:
            self._keep(entry, _to_reserve(entry))

    def _keep(self, entry: Entry, usage: Usage) -> None:
        self.kept.append((entry.queue, usage, entry.assignment.placed))
        self._use(entry, usage)

    def _use(self, entry: Entry, usage: Usage) -> None:
        add_all(entry.queue, usage, self.journal)
        self.freed.take(entry.queue, usage)
        self.snapshot.topology.take(entry.assignment.placed, self.journal)

    def _take(self, entry: Entry) -> None:
        self.freed.preempt(entry.targets)
        self.freed.replace(entry.replaces)
        self.displaced += [target.info.placed for target in entry.targets if target.info.placed]
        if entry.assignment.mode is AssignmentMode.FIT:
            self._use(entry, entry.usage)
            entry.admitted = True
            return
        self._keep(entry, entry.usage)
        entry.wait(
            reasons.WAITING_FOR_PREEMPTED,
            reasons.PENDING_PREEMPTION,
            f"{entry.message}. Pending the preemption of {len(entry.targets)} workload(s)",
        )
        entry.progress = None

    def _overlaps(self, entry: Entry) -> bool:
        """Return whether one whom it would preempt, or whose place it would take, is gone for another one."""
        takes = entry.targets or entry.assignment.mode is AssignmentMode.FIT
        old = [entry.replaces] if entry.replaces is not None and takes else []
        return any(info.key in self.freed.gone for info in [*(target.info for target in entry.targets), *old])

    def _fits(self, entry: Entry, *, placed: bool = True) -> bool:
        """Return whether an entry fits once all targets are gone, its own and those before it; without `placed`,
        whether its quota does.

        What fits beside targets fits without them, so most entries are answered before all of them are gone.
        """
        usage, preempted = entry.usage, self.freed.preempted
        places = entry.assignment.placed if placed else ()
        if self._has_room(entry.queue, usage, places, entry.targets):
            return True
        if not preempted or (entry.assignment.mode is AssignmentMode.FIT and not self._fits_now(entry, places)):
            return False
        queue = self.freed.queue(entry.queue)
        own = [
            PreemptionTarget(target.info, self.freed.queues[target.queue.name], target.reason)
            for target in entry.targets
            if target.info.key not in preempted
        ]
        savepoint = len(self.journal)
        self._displace_preempted()
        found = self._has_room(queue, usage, places, own)
        rollback(self.journal, savepoint)
        return found

    def _displace_preempted(self) -> None:
        for places in self.displaced:
            self.snapshot.topology.give_back(places, self.journal)

    def _fits_now(self, entry: Entry, places: tuple[Placed, ...]) -> bool:
        """Return whether an entry fits beside what is in use, of which nobody has left yet.

        Kueue does not ask, and may admit above the quota until those have left whom the cycle preempts for others: what
        fits in the place of them after others were admitted; and, with `PreemptionOverBorrowing`, a workload that has
        to borrow one resource and to preempt for another, which it takes for one that fits (kubernetes-sigs/kueue
        pkg/scheduler/scheduler.go, fits; pkg/scheduler/flavorassigner/flavorassigner.go, findFlavorForPodSets).
        """
        savepoint = len(self.journal)
        for queue, usage, kept in self.kept:
            remove_all(queue, usage, self.journal)
            self.snapshot.topology.give_back(kept, self.journal)
        found = self._has_room(entry.queue, entry.usage, places, ())
        rollback(self.journal, savepoint)
        return found

    def _has_room(
        self, queue: QueueNode, usage: Usage, places: tuple[Placed, ...], without: Iterable[PreemptionTarget]
    ) -> bool:
        savepoint = len(self.journal)
        for target in without:
            self.preemptor.remove(target.queue, target.info)
        found = all(max(0, queue.available(place)) >= amount for place, amount in usage.items())
        found = found and self.snapshot.topology.has_room(places)
        rollback(self.journal, savepoint)
        return found

    def _fits_elsewhere(self, entry: Entry) -> bool:
        """Place the pods of an entry anew whose places others took in this cycle, while its quota is there still;
        return whether it fits."""
        if not entry.assignment.placed or not self._fits(entry, placed=False):
            return False
        self._assign_in_same_flavors(entry, entry.queue, self.preemptor)
        return self._fits(entry)

    def _assign_again(self, entry: Entry) -> bool:
        """Look for targets other than those that are taken, in the same flavors; return whether the entry fits."""
        savepoint = len(self.journal)
        self._displace_preempted()
        self._assign_in_same_flavors(entry, self.freed.queue(entry.queue), self.preemptor_when_freed)
        rollback(self.journal, savepoint)
        if entry.assignment.mode is AssignmentMode.FIT:
            entry.assignment.defer()
        return self._fits(entry)

    def _assign_in_same_flavors(self, entry: Entry, queue: QueueNode, preemptor: Preemptor) -> None:
        entry.nominated = entry.assignment.nominated()
        entry.info = entry.info.having(progress=None)
        assignment, targets = self._assign(entry, queue, preemptor)
        entry.record(assignment, [self._as_it_is(target) for target in targets])
        entry.nominated = None

    def _as_it_is(self, target: PreemptionTarget) -> PreemptionTarget:
        """Return a target in the tree as it is."""
        return PreemptionTarget(target.info, self.snapshot.queues[target.queue.name], target.reason)

    # What is said.

    def _decision(self, entry: Entry) -> Decision:
        queue = entry.queue
        if entry.admitted:
            admission = QuotaAdmission(queue.name, entry.assignment.given())
            checks = checks_for(queue.spec, admission.pod_sets)
            if entry.second_pass:
                return Admit(entry.info.key, admission, checks, second_pass=True)
            old = entry.replaces.key if entry.replaces is not None else ""
            told, penalty = entry.assignment.considered(), self.entry_penalty(entry.info, queue.spec)
            return Admit(entry.info.key, admission, checks, penalty, replaces=old, considered=told)
        if entry.evicted:
            message = reasons.no_replacement(entry.info.workload.unhealthy_nodes)
            return Evict(entry.info.key, queue.name, reasons.NODE_FAILURES, message)
        said, wakes = (entry.info.key, queue.name, entry.reason, entry.message, entry.requeue), self.wakes[queue.name]
        if entry.requeue == reasons.PENDING_PREEMPTION and entry.assignment.mode is AssignmentMode.PREEMPT:
            victims = tuple(_victim(entry, target) for target in entry.targets)
            return Preempt(*said, entry.progress, wakes, entry.second_pass, victims=victims)
        short_of = entry.assignment.short_of if entry.requeue in reasons.OF_ITS_SHAPE else None
        return Inadmissible(*said, entry.progress, wakes, entry.second_pass, short_of)


def _victim(entry: Entry, target: PreemptionTarget) -> Victim:
    preemptor, preemptee = entry.info.workload, target.info.workload
    paths = entry.queue.path(), target.queue.path()
    message = reasons.preempted(preemptor.uid, preemptor.job_uid, target.reason, *paths)
    return Victim(preemptee.key, preemptee.uid, target.queue.name, target.reason, message, preemptee.evicted)


def _to_reserve(entry: Entry) -> Usage:
    """Return what an entry without targets keeps from others: its requests, as far as its ClusterQueue may use."""
    found: Usage = {}
    for place, amount in entry.usage.items():
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
    """Return the checks for the flavors given; for one that the queue lacks now those for all, which Kueue forgets."""
    flavors = {flavor for pod_set in given for flavor in pod_set.flavors.values()}
    for_all = checks_for_all(queue) if flavors - {one for group in queue.groups for one in group.flavors} else ()
    return tuple(name for name, on in queue.admission_checks if on & flavors or name in for_all)


def checks_for_all(queue: ClusterQueue) -> tuple[str, ...]:
    """Return the admission checks that are for every flavor: those of a workload that has none yet."""
    every = {flavor for group in queue.groups for flavor in group.flavors}
    return tuple(name for name, on in queue.admission_checks if on >= every)
