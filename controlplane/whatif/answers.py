"""What clusters answer to decisions: Kueue's cores and the job controllers, as far as MultiKueue sees them.

In: decisions, and the time. Out: observations of Workloads, copies and jobs, as their watches would show them. A copy is
admitted once there is room on its cluster and the seconds have passed that the recorded one like it took besides; its
job runs for as long as the recorded one did. What a cluster does while it is away is seen when it is back. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue import events as said
from controlplane.controllers.multikueue.observations import (
    PREEMPTION_GATE,
    CloneGone,
    CloneObserved,
    JobGone,
    PreemptionGate,
    RemoteJobGone,
    RemoteJobObserved,
    WorkloadGone,
    WorkloadObserved,
)
from controlplane.log.event import Event, Recorded
from controlplane.whatif.capacity import Capacity, queue_place
from controlplane.whatif.history import PastWorkload
from controlplane.whatif.queue import Queue, Waiting
from controlplane.whatif.world import (
    ENDED,
    RUNS,
    STOPPED,
    SimulatedCopy,
    SimulatedWorkload,
    evicted,
    new_clone,
    new_job,
    queued,
    reserved,
    stamp,
    with_conditions,
)

if TYPE_CHECKING:
    from controlplane.whatif.simulation import Simulation

_replace = msgspec.structs.replace
_FAR = float("inf")


class Answers:
    """The simulated clusters. `away`: those out of view; `left_out`: the Workloads that are not simulated, and `beyond`
    how many of them for which reason."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim, self._history = simulation, simulation.history
        self.away: set[str] = set()
        self.left_out: set[str] = set()
        self.beyond: dict[str, int] = {}
        self._live: dict[str, SimulatedWorkload] = {}
        self._places: dict[str, Queue] = {}
        self._unseen: dict[str, dict[tuple[str, str], Event]] = {}
        self._unsent: dict[str, list[Callable[[], None]]] = {}
        self._added = {one.name: one for one in simulation.alternative.added}
        pasts = [one for one in self._history.workloads.values()]
        counts = Counter(one.why_not for one in pasts if one.why_not)
        self.beyond = dict(sorted(counts.items()))
        self.left_out = {one.stream for one in pasts if one.why_not}
        self._like = {(one.first.namespace, one.first.queue_name): one.reserved for one in pasts if one.reserved}
        runs = [one.run_seconds for one in pasts if one.run_seconds is not None]
        self._usual_run = median(runs) if runs else 60.0
        starts = [seconds for one in pasts for seconds in one.starts]
        self._usual_start = median(starts) if starts else 0.0

    # --- places ------------------------------------------------------------------------------------------------------

    def _place(self, name: str) -> Queue:
        queue = self._places.get(name)
        if queue is None:
            queue = self._places[name] = Queue(self._capacity(name))
        return queue

    def _capacity(self, name: str) -> Capacity:
        told = self._sim.alternative.capacities
        if name in told:
            return told[name]
        if name in self._added:
            return self._added[name].capacity
        found = dict(self._sim.capacities.of.get(name, {}))
        if name.startswith(f"{MANAGEMENT}/"):
            # The quota of the management cluster is that of its workers together: with a cluster it grows.
            for one in self._added.values():
                for resource in found.keys() & one.capacity.keys():
                    found[resource] += one.capacity[resource]
        return found

    def room_of_clusters(self) -> dict[str, Capacity]:
        """Return the capacities of the clusters."""
        names = {*self._sim.capacities.of, *self._sim.alternative.capacities, *self._added}
        return {name: self._capacity(name) for name in sorted(names) if "/" not in name}

    def placements(self) -> dict[str, list[str]]:
        """Return the clusters that were chosen, by Workload."""
        return {stream: live.placed for stream, live in self._live.items() if live.placed}

    # --- the management cluster --------------------------------------------------------------------------------------

    def arrival(self, past: PastWorkload) -> Callable[[], None]:
        """Return what happens when a Workload is created."""

        def arrive() -> None:
            live = self._live[past.stream] = SimulatedWorkload(past, self._history.request(past.stream))
            live.job = past.job
            if past.job is not None:
                self._sim.record(past.job_stream, past.job)
            first = _replace(past.first, conditions=[], checks=[], cluster_name="", nominated=[])
            self._tell(live, first)
            self._expect(live)
            self._sim.after(self._sim.capacities.waits.get(past.stream, 0.0), partial(self._enter, live))

        return arrive

    def _expect(self, live: SimulatedWorkload) -> None:
        """Have happen to a Workload what others did to it."""
        past, now = live.past, self._sim.now
        for at, cluster, seen in past.evictions:
            if at > now:
                self._sim.at(at, partial(self._evict_copy, live, cluster, seen))
        for at, local in past.taken_back:
            if at > now:
                self._sim.at(at, partial(self._take_back, live, local))
        if past.gone is not None and past.finished is None and past.gone > now:
            self._sim.at(past.gone, partial(self._deleted, live))

    def _tell(self, live: SimulatedWorkload, local: WorkloadObserved) -> None:
        """Let a Workload be seen as it is now."""
        live.local = _replace(local, resource_version=self._sim.version())
        self._sim.record(live.stream, live.local)

    def _enter(self, live: SimulatedWorkload) -> None:
        """Wait for quota on the management cluster."""
        local = live.local
        like = live.past.reserved or self._like.get((live.past.first.namespace, live.past.first.queue_name))
        if local is None or live.waits or live.holds or live.finished or like is None or not local.active:
            return
        live.waits, live.place = True, queue_place(like.cluster_queue)
        self._place(live.place).enter(
            Waiting(
                -live.priority,
                live.past.arrived,
                self._sim.position,
                live.request,
                partial(self._reserve, live, like),
                lambda: live.local is None or live.finished,
            )
        )

    def _reserve(self, live: SimulatedWorkload, like: WorkloadObserved) -> None:
        live.waits, live.holds = False, True
        assert live.local is not None, "it waits"
        self._tell(live, reserved(live.local, like, self._sim.now, ""))

    def _give_back(self, live: SimulatedWorkload) -> None:
        if live.holds:
            live.holds = False
            self._place(live.place).leave(live.request)

    def _evict(self, live: SimulatedWorkload, check: str, reason: str, seconds: float = 0.0) -> None:
        """Evict a Workload, and queue it again once nothing of its job runs by its status."""
        if live.local is None or live.finished:
            return
        self._tell(live, evicted(live.local, check, self._sim.now, "", reason))
        if live.job is not None and not live.job.suspended:
            live.job = _replace(live.job, suspended=True, resource_version=self._sim.version())
            self._sim.record(live.past.job_stream, live.job)
        self._requeue(live, seconds)

    def _requeue(self, live: SimulatedWorkload, seconds: float = 0.0) -> None:
        local = live.local
        if local is None or live.finished or not local.is_true("Evicted") or not local.is_true("QuotaReserved"):
            return
        if live.job is None or live.job.inactive:
            self._tell(live, queued(local, self._sim.now, ""))
            self._give_back(live)
            self._sim.after(seconds, partial(self._enter, live))

    def _take_back(self, live: SimulatedWorkload, seen: WorkloadObserved) -> None:
        condition = seen.condition("Evicted")
        if live.local is None or not live.local.is_true("QuotaReserved"):
            return
        if not seen.active:
            live.local = _replace(live.local, active=False)
        self._evict(live, "", condition.reason if condition is not None else "Preempted")

    def _finish(self, live: SimulatedWorkload, reason: str = "Succeeded") -> None:
        local = live.local
        if local is None or live.finished:
            return
        live.finished = True
        self._tell(live, _replace(local, conditions=with_conditions(local.conditions, self._sim.now, Finished=(True, reason))))
        self._give_back(live)
        past = live.past
        if past.gone is not None and past.finished is not None:
            self._sim.after((past.gone - past.finished).total_seconds(), partial(self._deleted, live))

    def _deleted(self, live: SimulatedWorkload) -> None:
        local, job = live.local, live.job
        if local is None:
            return
        live.local, live.job = None, None
        gone = WorkloadGone(namespace=local.namespace, name=local.name, uid=local.uid)
        self._sim.record(live.stream, gone)
        if job is not None:
            self._sim.record(
                live.past.job_stream, JobGone(namespace=job.namespace, name=job.name, uid=job.uid, kind=job.kind)
            )
        self._give_back(live)

    # --- decisions ---------------------------------------------------------------------------------------------------

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
        if event.cluster in self.away:
            self._unsent.setdefault(event.cluster, []).append(act)
        else:
            self._sim.after(self._seconds(live, event), act)

    def _seconds(self, live: SimulatedWorkload, event: said.WorkloadWrite) -> float:
        """Return how long it takes until a write is seen."""
        if isinstance(event, said.NominationDecided):
            live.nominations += 1
            known = live.past.nominated
            return known[min(live.nominations, len(known)) - 1] if known else 0.0
        if isinstance(event, said.JobCreationDecided):
            return live.past.starts[-1] if live.past.starts else self._usual_start
        if isinstance(event, said.CloneDecided):
            copy = SimulatedCopy(event.cluster, live.recorded_copy(event.cluster))
            live.copies[event.cluster] = copy
            past = copy.past
            return (past.created - past.asked).total_seconds() if past is not None and past.created else 0.0
        return 0.0

    def _carry_out(self, live: SimulatedWorkload, event: said.WorkloadWrite, position: int) -> None:
        """Carry a write out unless it is settled: whatever changed its object since settled it."""
        state = self._sim.controller.index.workloads.get(live.stream)
        effect = state.effects.get(event.target) if state is not None else None
        if effect is None or effect.position != position:
            return
        if event.cluster in self.away:
            again = partial(self._carry_out, live, event, position)
            self._unsent.setdefault(event.cluster, []).append(again)
        elif event.cluster == MANAGEMENT:
            self._write_here(live, event)
        else:
            self._write_there(live, event)

    def _write_here(self, live: SimulatedWorkload, event: said.WorkloadWrite) -> None:
        local = live.local
        if local is None:
            return
        match event:
            case said.NominationDecided():
                self._tell(live, _replace(local, nominated=list(event.clusters)))
            case said.CheckStateDecided():
                self._set_check(live, local, event)
            case said.StatusRelayDecided():
                self._relay(live, event)
            case said.FinishDecided():
                self._finish(live, event.finish_reason)
            case said.NamesClearDecided():
                self._tell(live, _replace(local, cluster_name="", nominated=[]))
            case _:
                self._unneeded(live, event)

    def _set_check(self, live: SimulatedWorkload, local: WorkloadObserved, event: said.CheckStateDecided) -> None:
        at = stamp(self._sim.now)
        checks = [
            _replace(one, state=event.state, message=event.message, last_transition_time=at)
            if one.name == event.check
            else one
            for one in local.checks
        ]
        if event.state == "Retry":
            live.local = _replace(local, checks=checks)
            self._evict(live, event.check, "AdmissionCheck", float(event.requeue_after_seconds))
        elif event.state == "Ready":
            conditions = with_conditions(local.conditions, self._sim.now, Admitted=True)
            self._tell(
                live,
                _replace(local, checks=checks, cluster_name=event.winner, nominated=[], conditions=conditions),
            )
            if live.job is not None and live.job.suspended:
                live.job = _replace(live.job, suspended=False, resource_version=self._sim.version())
                self._sim.record(live.past.job_stream, live.job)
        else:
            self._tell(live, _replace(local, checks=checks))

    def _relay(self, live: SimulatedWorkload, event: said.StatusRelayDecided) -> None:
        if live.job is None:
            return
        ended = event.status == ENDED
        status = STOPPED if event.drain else event.status
        live.job = _replace(
            live.job,
            status=status,
            inactive=status != RUNS,
            finished=ended,
            says_suspended=event.mark_suspended,
            resource_version=self._sim.version(),
        )
        self._sim.record(live.past.job_stream, live.job)
        if ended:
            self._finish(live)
        else:
            self._requeue(live)

    def _unneeded(self, live: SimulatedWorkload, event: said.WorkloadWrite) -> None:
        """Say of a write that means nothing here that it changed nothing."""
        version = event.resource_version or self._sim.version()
        answer = said.EffectUnneeded(target=event.target, action=type(event).__name__, resource_version=version)
        self._sim.record(live.stream, answer, event.cluster)

    # --- workers -----------------------------------------------------------------------------------------------------

    def _see(self, live: SimulatedWorkload, cluster: str, event: Event) -> None:
        """Let a change on a worker be seen, now or when the cluster is back; of an object the last one then."""
        if cluster in self.away:
            what = "job" if isinstance(event, RemoteJobObserved | RemoteJobGone) else "copy"
            self._unseen.setdefault(cluster, {})[live.stream, what] = event
        else:
            self._sim.record(live.stream, event, cluster)

    def shown(self, cluster: str) -> None:
        """Let be seen what a cluster did while it was away: it is listed."""
        self.away.discard(cluster)
        for (stream, _), event in self._unseen.pop(cluster, {}).items():
            self._sim.record(stream, event, cluster)

    def back(self, cluster: str) -> None:
        """Send a cluster what was decided while it was away."""
        self.away.discard(cluster)
        for act in self._unsent.pop(cluster, ()):
            self._sim.after(0.0, act)

    def _write_there(self, live: SimulatedWorkload, event: said.WorkloadWrite) -> None:
        copy = live.copies.get(event.cluster)
        if isinstance(event, said.CloneDecided):
            self._create(live, event)
        elif copy is None or copy.clone is None:
            self._unneeded(live, event)
        elif isinstance(event, said.JobCreationDecided):
            self._start(live, copy)
        elif isinstance(event, said.RemovalDecided):
            self._remove(live, copy, job=event.of == "Job")
        elif isinstance(event, said.DeactivationDecided):
            self._stop(live, copy, _replace(copy.clone, active=False), "Deactivated")
        elif isinstance(event, said.GateOpeningDecided):
            gate = PreemptionGate(name=PREEMPTION_GATE, position="Open", last_transition_time=stamp(self._sim.now))
            self._show(live, copy, _replace(copy.clone, gates=[gate]))
        elif isinstance(event, said.CloneUpdateDecided):
            self._show(live, copy, _replace(copy.clone, priority=event.priority))
        elif isinstance(event, said.FinalizerRemovalDecided):
            self._show(live, copy, _replace(copy.clone, finalizers=list(event.finalizers)))
        else:
            self._unneeded(live, event)

    def _show(self, live: SimulatedWorkload, copy: SimulatedCopy, clone: CloneObserved) -> None:
        copy.clone = _replace(clone, resource_version=self._sim.version())
        self._see(live, copy.cluster, copy.clone)

    def _create(self, live: SimulatedWorkload, event: said.CloneDecided) -> None:
        copy, local = live.copies[event.cluster], live.local
        if local is None:
            return
        copy.clone = new_clone(live, local, self._sim.version(), gated=event.gated)
        self._see(live, copy.cluster, copy.clone)
        order = copy.past.order if copy.past is not None else 0
        self._sim.after(self._admission_seconds(copy), partial(self._ask_for_room, live, copy), order)

    def _admission_seconds(self, copy: SimulatedCopy) -> float:
        if copy.past is not None:
            return self._sim.capacities.base.get(id(copy.past), 0.0)
        added = self._added.get(copy.cluster)
        if added is not None and added.admission_seconds is not None:
            return added.admission_seconds
        known = [self._history.delay(name) for name in sorted(self._history.delays)]
        return self._history.delay(copy.cluster) if copy.cluster in self._history.delays else max(known, default=0.0)

    def _ask_for_room(self, live: SimulatedWorkload, copy: SimulatedCopy) -> None:
        if copy.left or copy.holds or copy.waits or copy.clone is None or not copy.clone.active:
            return
        copy.waits = True
        self._place(copy.cluster).enter(
            Waiting(
                -live.priority,
                live.past.arrived,
                self._sim.position,
                live.request,
                partial(self._admit, live, copy),
                lambda: copy.left or not copy.waits,
            )
        )

    def _admit(self, live: SimulatedWorkload, copy: SimulatedCopy) -> None:
        copy.waits, copy.holds = False, True
        assert copy.clone is not None, "it waits"
        lag = copy.past.lag if copy.past is not None else 0.0
        at = stamp(self._sim.now - timedelta(seconds=lag - 0.0005))
        dropped = [one for one in copy.clone.conditions if one.type not in ("Evicted", "QuotaReserved", "Admitted")]
        self._show(
            live, copy, _replace(copy.clone, conditions=with_conditions(dropped, at, QuotaReserved=True, Admitted=True))
        )
        if copy.job is not None and copy.job.suspended:
            self._run(live, copy)

    def _release(self, live: SimulatedWorkload, copy: SimulatedCopy) -> None:
        copy.waits = False
        if copy.holds:
            copy.holds = False
            self._place(copy.cluster).leave(live.request)

    def _start(self, live: SimulatedWorkload, copy: SimulatedCopy) -> None:
        if live.job is None:
            return
        copy.job = new_job(live, live.job, self._sim.version())
        self._run(live, copy)

    def _run(self, live: SimulatedWorkload, copy: SimulatedCopy) -> None:
        """Let a job run, for as long as it did, from its beginning."""
        assert copy.job is not None, "a job is there"
        copy.job = _replace(
            copy.job, suspended=False, inactive=False, status=RUNS, resource_version=self._sim.version()
        )
        copy.runs_since = self._sim.now
        copy.ends += 1
        self._see(live, copy.cluster, copy.job)
        seconds = copy.remaining if copy.remaining is not None else self._run_seconds(live)
        copy.remaining = None
        if seconds != _FAR:
            self._sim.after(seconds, partial(self._end, live, copy, copy.ends))

    def _run_seconds(self, live: SimulatedWorkload) -> float:
        past = live.past
        if past.run_seconds is not None:
            return past.run_seconds
        return _FAR if past.running_since is not None else self._usual_run

    def _end(self, live: SimulatedWorkload, copy: SimulatedCopy, run: int) -> None:
        if copy.left or copy.job is None or copy.clone is None or copy.ends != run or copy.job.suspended:
            return
        copy.job = _replace(
            copy.job, finished=True, inactive=True, status=ENDED, resource_version=self._sim.version()
        )
        self._see(live, copy.cluster, copy.job)
        done = with_conditions(copy.clone.conditions, self._sim.now, Finished=(True, "Succeeded"))
        self._show(live, copy, _replace(copy.clone, conditions=done))
        self._release(live, copy)

    def _evict_copy(self, live: SimulatedWorkload, cluster: str, seen: CloneObserved) -> None:
        """Have a worker evict a copy, as it once did, if it has one, and queue it again."""
        copy, condition = live.copies.get(cluster), seen.condition("Evicted")
        if copy is None or copy.clone is None or copy.left or not copy.holds:
            return
        self._stop(live, copy, copy.clone, condition.reason if condition is not None else "Preempted")
        if seen.active:
            self._sim.after(self._admission_seconds(copy), partial(self._ask_for_room, live, copy))

    def _stop(self, live: SimulatedWorkload, copy: SimulatedCopy, clone: CloneObserved, reason: str) -> None:
        copy.ends += 1
        values = {"Evicted": (True, reason), "QuotaReserved": (False, "Pending"), "Admitted": (False, "NoReservation")}
        self._show(live, copy, _replace(clone, conditions=with_conditions(clone.conditions, self._sim.now, **values)))
        if copy.job is not None and not copy.job.finished:
            copy.job = _replace(
                copy.job, suspended=True, inactive=True, status=STOPPED, resource_version=self._sim.version()
            )
            self._see(live, copy.cluster, copy.job)
        self._release(live, copy)

    def _remove(self, live: SimulatedWorkload, copy: SimulatedCopy, *, job: bool) -> None:
        if job and copy.job is not None:
            one, copy.job = copy.job, None
            copy.ends += 1
            self._see(
                live, copy.cluster, RemoteJobGone(namespace=one.namespace, name=one.name, uid=one.uid, kind=one.kind)
            )
        elif not job and copy.clone is not None:
            clone, copy.clone = copy.clone, None
            copy.left = True
            if live.copies.get(copy.cluster) is copy:
                del live.copies[copy.cluster]
            self._see(
                live, copy.cluster, CloneGone(namespace=clone.namespace, name=clone.name, uid=clone.uid)
            )
            self._release(live, copy)

    # --- what is there already ---------------------------------------------------------------------------------------

    def adopt(self) -> None:
        """Take over the Workloads that are there when the time begins, with their copies and open writes."""
        index = self._sim.controller.index
        for stream, state in list(index.workloads.items()):
            past = self._history.workloads.get(stream)
            if past is None or past.why_not or state.local is None:
                self.left_out.add(stream)
                continue
            live = self._live[stream] = SimulatedWorkload(past, self._history.request(stream))
            live.local, live.finished = state.local, state.local.is_true("Finished")
            live.job = index.jobs.get(past.job_stream)
            live.nominations = live.placed.__len__()
            if live.finished:
                pass
            elif state.local.is_true("QuotaReserved"):
                live.holds, live.place = True, queue_place(state.local.cluster_queue)
                self._place(live.place).room.take(live.request)
            else:
                self._enter(live)
            for cluster, remote in state.remotes.items():
                if remote.clone is not None:
                    self._adopt_copy(live, cluster, remote.clone, remote.job)
            self._expect(live)
            for effect in list(state.effects.values()):
                if isinstance(effect.decision, said.CloneDecided):
                    cluster = effect.decision.cluster
                    live.copies[cluster] = SimulatedCopy(cluster, live.recorded_copy(cluster))
                self._sim.after(0.0, partial(self._carry_out, live, effect.decision, effect.position))

    def _adopt_copy(
        self, live: SimulatedWorkload, cluster: str, clone: CloneObserved, job: RemoteJobObserved | None
    ) -> None:
        copy = live.copies[cluster] = SimulatedCopy(cluster, live.recorded_copy(cluster))
        copy.clone, copy.job = clone, job
        if clone.is_true("Finished"):
            return
        if clone.is_true("QuotaReserved"):
            copy.holds = True
            self._place(cluster).room.take(live.request)
        else:
            self._sim.after(self._admission_seconds(copy), partial(self._ask_for_room, live, copy))
        if job is not None and not job.suspended and not job.finished:
            since, seconds = live.past.running_since or self._sim.begin, self._run_seconds(live)
            copy.ends += 1
            if seconds != _FAR:
                ran = (self._sim.begin - since).total_seconds()
                self._sim.after(max(seconds - ran, 0.0), partial(self._end, live, copy, copy.ends))


def known_capacities(of: Mapping[str, Capacity]) -> dict[str, dict[str, float]]:
    """Return capacities by place, for people."""
    return {place: dict(sorted(capacity.items())) for place, capacity in sorted(of.items())}
