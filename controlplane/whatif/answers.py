"""What follows in the simulated clusters from what is decided, and from what was recorded of each Workload.

In: decisions, and the time. Out: writes to the management cluster and to the workers, each after the seconds that the
recorded one took; what becomes of them is theirs (`home`, `workers`). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue import events as said
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.log.event import Event, Recorded
from controlplane.whatif.engine_quota import EngineQuota
from controlplane.whatif.home import ManagementCluster
from controlplane.whatif.others import HeldCapacity, queue_place
from controlplane.whatif.past import PastWorkload
from controlplane.whatif.queue import PlaceQueues, QueuedWorkload
from controlplane.whatif.seconds import UsualSeconds
from controlplane.whatif.simulated_log import SimulatedLog
from controlplane.whatif.workers import WorkerCopies
from controlplane.whatif.world import SimulatedCopy, SimulatedWorkload

_replace = msgspec.structs.replace
_Act = tuple[datetime, Callable[[], None]]


class Answers:
    """The simulated clusters. `left_out`: the Workloads that are not simulated, and `beyond` how many of them for
    which reason."""

    def __init__(self, log: SimulatedLog, settings: EngineSettings) -> None:
        self._log, self._history = log, log.history
        alternative = log.alternative
        added = {one.name: one for one in alternative.added}
        pasts = list(self._history.workloads.values())
        self.places = PlaceQueues(
            log.capacities.of, alternative.capacities, added, log.at_last, self._history.mean_request
        )
        self.engine = EngineQuota(log, settings)
        self._usual = UsualSeconds(pasts)
        self._home = ManagementCluster(log, self.places, self.engine, pasts, self._usual)
        self._workers = self.workers = WorkerCopies(log, self.places, added, self._usual)
        beyond = (one.why_not for one in (*pasts, *self._history.later) if one.why_not and one.is_of(log.begin))
        self.beyond = dict(sorted(Counter(beyond).items()))
        self.left_out = {one.stream for one in pasts if one.why_not}
        self._live: dict[str, SimulatedWorkload] = {}

    def placements(self) -> dict[str, list[str]]:
        """Return the clusters that were chosen, by Workload."""
        return {stream: live.placed for stream, live in self._live.items() if live.placed}

    def arrival(self, past: PastWorkload) -> Callable[[], None]:
        """Return what happens when a Workload is created."""

        def arrive() -> None:
            live = self._live[past.stream] = self._new(past)
            live.job = past.job
            if past.job is not None:
                self._log.record(past.job_stream, past.job)
            first = _replace(past.first, conditions=[], checks=[], cluster_name="", nominated=[])
            self._home.tell(live, first)
            self._expect(live)
            self._log.after(self._waits(live), partial(self._home.enter, live))

        return arrive

    def _waits(self, live: SimulatedWorkload) -> float:
        """Return the seconds that a new Workload takes to be in its queue."""
        if live.claim is not None:
            return 0.0
        first = live.past.stays[0].since if live.past.stays else None
        return self._log.near(self._log.capacities.waits.get(live.stream, 0.0), first)

    def _new(self, past: PastWorkload) -> SimulatedWorkload:
        return SimulatedWorkload(past, self._history.request(past.stream), self.engine.request(past.stream))

    def _expect(self, live: SimulatedWorkload) -> None:
        """Have happen to a Workload what others did to it."""
        past, now = live.past, self._log.now
        for at, act in (*self._done_to_copies(live), *self._done_to_it(live)):
            if at > now:
                self._log.at(at, act)
        if past.gone is not None and past.finished is None and past.gone > now:
            self._log.at(past.gone, partial(self._home.deleted, live))

    def _done_to_copies(self, live: SimulatedWorkload) -> Iterator[_Act]:
        for at, cluster, seen in live.past.evictions:
            yield at, partial(self._workers.evict, live, cluster, seen)
        for at, cluster, of in live.past.deletions:
            yield at, partial(self._workers.vanish, live, cluster, of)

    def _done_to_it(self, live: SimulatedWorkload) -> Iterator[_Act]:
        past, claim = live.past, live.claim
        for at, local in past.taken_back:
            if claim is None or past.is_apart(local):
                yield at, partial(self._home.take_back, live, local)
        for at, asked in claim.past.changes if claim is not None else ():
            yield at, partial(self._home.change, live, asked)
        for at, wanted in past.changes if claim is None else ():
            yield at, partial(self._home.change_in_place, live, wanted)

    def decided(self, stream: str, event: Event, recorded: Recorded) -> None:
        """Carry out what was decided: at once on the management cluster, elsewhere once the cluster can be reached."""
        live = self._live.get(stream)
        if live is None:
            return
        if isinstance(event, said.WinnerChosen):
            live.placed.append(event.cluster)
        if not isinstance(event, said.WorkloadWrite):
            return
        act = partial(self._carry_out, live, event, recorded.position)
        if event.cluster in self._workers.away:
            self._workers.send(event.cluster, act)
        else:
            seconds = self._seconds(live, event)
            coming = live.coming.get(event.cluster) if isinstance(event, said.CloneDecided) else None
            like = coming.past if coming is not None else None
            self._log.after(seconds, act, like.made if like is not None else 0)

    def _seconds(self, live: SimulatedWorkload, event: said.WorkloadWrite) -> float:
        """Return how long it takes until a write is seen."""
        if isinstance(event, said.NominationDecided):
            live.nominations += 1
            known = live.past.nominated
            if not known:
                return 0.0
            asked, seconds = known[min(live.nominations, len(known)) - 1]
            return self._log.near(seconds, asked + timedelta(seconds=seconds))
        if isinstance(event, said.JobCreationDecided):
            return self._workers.make_seconds(live)
        if isinstance(event, said.DeactivationDecided):
            return self._usual.obey
        if isinstance(event, said.RemovalDecided):
            return self._workers.leave_seconds(live, event)
        if isinstance(event, said.CloneDecided):
            copy = SimulatedCopy(event.cluster, live.recorded_copy(event.cluster))
            live.coming[event.cluster] = copy
            past = copy.past
            if past is None or past.created is None:
                return self._usual.create
            return self._log.near((past.created - past.asked).total_seconds(), past.created)
        return 0.0

    def _carry_out(self, live: SimulatedWorkload, event: said.WorkloadWrite, position: int) -> None:
        """Carry a write out unless it is settled: whatever changed its object since settled it."""
        state = self._log.controller.index.workloads.get(live.stream)
        effect = state.effects.get(event.target) if state is not None else None
        if effect is None or effect.position != position:
            return
        if event.cluster in self._workers.away and not self._reached(live, event):
            self._workers.send(event.cluster, partial(self._carry_out, live, event, position))
        elif event.cluster == MANAGEMENT:
            self._home.write(live, event)
        else:
            self._workers.write(live, event)

    def _reached(self, live: SimulatedWorkload, event: said.WorkloadWrite) -> bool:
        """Whether what was sent reached a cluster that is away since, by when it was seen there: as one that comes
        back is listed, it counts as away still."""
        if isinstance(event, said.CloneDecided):
            coming = live.coming.get(event.cluster)
            return coming is not None and coming.past is not None and coming.past.created == self._log.now
        return isinstance(event, said.JobCreationDecided) and any(seen == self._log.now for _, seen in live.past.made)

    def adopt(self) -> None:
        """Take over the Workloads that are there when the time begins, with their copies and open writes: first the
        room that they have, then what they wait for."""
        index = self._log.controller.index
        for stream, state in list(index.workloads.items()):
            past = self._history.workloads.get(stream)
            if past is None or past.why_not or state.local is None or state.local.uid != past.first.uid:
                self.left_out.add(stream)
                self._log.measures.leave_out(stream)
                continue
            live = self._live[stream] = self._new(past)
            self._adopt(live, state, state.local)
            live.job = index.jobs.get(past.job_stream)
            for effect in list(state.effects.values()):
                self._log.after(0.0, partial(self._carry_out, live, effect.decision, effect.position))
        self.engine.begin()

    def elsewhere(self) -> None:
        """Have what is not simulated take room as it did, and ClusterQueues be stopped."""
        begin = self._log.begin
        for one in self._log.capacities.others:
            if not one.again and (one.until is None or one.until > begin):
                self._expect_held(one)
        for since, until, queue in self._history.stops:
            place = self.places.of(queue_place(queue))
            if until is None or until > begin:
                self._log.at(since, place.stop)
            if until is not None and until > begin:
                self._log.at(until, partial(place.stop, stopped=False))

    def _expect_held(self, one: HeldCapacity) -> None:
        """Have something be held that is not simulated: it waits in its queue for it, and has it for as long as it
        did."""
        place = self.places.of(one.place)

        def leave() -> None:
            place.leave(one.request)

        def take() -> None:
            if one.until is not None:
                self._log.after(self._log.near((one.until - one.since).total_seconds(), one.until), leave)

        if one.since <= self._log.begin:
            place.room.take(one.request)
            if one.until is not None:
                self._log.at(one.until, leave)
            return
        priority, came = one.past.first.priority.value, one.came.replace(microsecond=0)
        waits = QueuedWorkload(-priority, came, one.order, one.request, take, lambda: False)
        self._log.at(one.came + timedelta(seconds=one.wait), partial(place.enter, waits), one.order)

    def _adopt(self, live: SimulatedWorkload, state: WorkloadState, local: WorkloadObserved) -> None:
        begin, past = self._log.begin, live.past
        live.local, live.finished = local, local.is_true("Finished")
        live.nominations = sum(at <= begin for at, _ in past.nominated)
        live.stays = sum(one.since <= begin for one in past.stays)
        live.evictions = sum(one.until is not None and one.until <= begin for one in past.stays)
        if not live.finished:
            self._adopt_quota(live, local)
        self._adopt_copies(live, state)
        self._expect(live)

    def _adopt_copies(self, live: SimulatedWorkload, state: WorkloadState) -> None:
        """Take over the copies that are there when the time begins, and count those that there were."""
        for cluster, copies in live.past.copies.items():
            live.created[cluster] = sum(one.asked <= self._log.begin for one in copies)
        for cluster, remote in state.remotes.items():
            if remote.clone is not None or remote.job is not None:
                live.created[cluster] = max(live.created.get(cluster, 0) - 1, 0)
                self._workers.adopt(live, cluster, remote.clone, remote.job)
        for effect in state.effects.values():
            if isinstance(effect.decision, said.CloneDecided):
                cluster = effect.decision.cluster
                live.created[cluster] = max(live.created.get(cluster, 0) - 1, 0)

    def _adopt_quota(self, live: SimulatedWorkload, local: WorkloadObserved) -> None:
        """Take over the quota that a Workload has, or its place in a queue."""
        reserved = local.is_true("QuotaReserved")
        if live.claim is not None:
            self.engine.adopt(live)
            self._home.adopt(live)
        elif reserved:
            live.holds, live.place = True, queue_place(local.cluster_queue)
            self.places.of(live.place).room.take(live.request)
            self._home.adopt_eviction(live)
        else:
            self._home.adopt_eviction(live)
            self._log.at(self._waited_until(live), partial(self._home.enter, live))
        if reserved:
            self._log.after(0.0, partial(self._home.settle, live))

    def _waited_until(self, live: SimulatedWorkload) -> datetime:
        """Return when one that waits as the time begins is in its queue."""
        past, capacities = live.past, self._log.capacities
        if not live.stays:
            return past.arrived + timedelta(seconds=capacities.waits.get(live.stream, 0.0))
        again = past.stays[live.stays : live.stays + 1]
        wait = capacities.later.get(live.stream, {}).get(again[0].since, 0.0) if again else 0.0
        return (past.stays[live.stays - 1].until or self._log.begin) + timedelta(seconds=wait)
