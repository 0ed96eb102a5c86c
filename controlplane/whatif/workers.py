"""The simulated workers: their Kueues and job controllers, as far as MultiKueue sees them.

In: decisions that write to copies, and the evictions that were recorded. Out: observations of copies and of their
jobs. A copy is admitted once there is room on its cluster and the seconds have passed that the recorded one like it
took besides; its job runs for as long as the recorded one did. What a cluster does while it is away is seen when it
is back. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

import msgspec

from controlplane.controllers.multikueue import events as said
from controlplane.controllers.multikueue.objects import EVICTED_ON_MANAGER
from controlplane.controllers.multikueue.observations import (
    CloneGone,
    CloneObserved,
    PreemptionGate,
    RemoteJobGone,
    RemoteJobObserved,
)
from controlplane.kube.kueue_names import PREEMPTION_GATE
from controlplane.log.event import Event
from controlplane.whatif.past import DELETING
from controlplane.whatif.queue import LATER, AddedCluster, PlaceQueues, QueuedWorkload
from controlplane.whatif.seconds import UsualSeconds, nth
from controlplane.whatif.simulated_log import SimulatedLog
from controlplane.whatif.world import (
    ENDED,
    RUNS,
    STOPPED,
    SimulatedCopy,
    SimulatedWorkload,
    new_clone,
    new_job,
    stamp,
    unneeded,
    with_conditions,
)

_replace = msgspec.structs.replace
_BY_US = f"DeactivatedDueTo{EVICTED_ON_MANAGER}"


class WorkerCopies:
    """The copies on workers. `away`: the clusters out of view."""

    def __init__(
        self,
        log: SimulatedLog,
        places: PlaceQueues,
        added: Mapping[str, AddedCluster],
        usual: UsualSeconds,
    ) -> None:
        self._log, self._places, self._history, self._added, self._usual = log, places, log.history, added, usual
        self.away: set[str] = set()
        self._unseen: dict[str, dict[tuple[str, str], Event]] = {}
        self._unsent: dict[str, list[Callable[[], None]]] = {}

    def _see(self, live: SimulatedWorkload, cluster: str, event: Event) -> None:
        """Let a change on a worker be seen, now or when the cluster is back; of an object the last one then."""
        if cluster in self.away:
            what = "job" if isinstance(event, RemoteJobObserved | RemoteJobGone) else "copy"
            self._unseen.setdefault(cluster, {})[live.stream, what] = event
        else:
            self._log.record(live.stream, event, cluster)

    def send(self, cluster: str, act: Callable[[], None]) -> None:
        """Keep a write for when a cluster is back."""
        self._unsent.setdefault(cluster, []).append(act)

    def shown(self, cluster: str) -> None:
        """Let be seen what a cluster did while it was away: it is listed."""
        self.away.discard(cluster)
        for (stream, _), event in self._unseen.pop(cluster, {}).items():
            self._log.record(stream, event, cluster)

    def back(self, cluster: str) -> None:
        """Send a cluster what was decided while it was away."""
        self.away.discard(cluster)
        for act in self._unsent.pop(cluster, ()):
            self._log.after(0.0, act)

    def write(self, live: SimulatedWorkload, event: said.WorkloadWrite) -> None:
        """Carry out a write to a copy."""
        copy = live.copies.get(event.cluster)
        if isinstance(event, said.CloneDecided):
            self._create(live, event)
        elif isinstance(event, said.RemovalDecided) and copy is not None and copy.has(event.of):
            self._remove(live, copy, job=event.of == "Job")
        elif copy is None or copy.clone is None or isinstance(event, said.RemovalDecided):
            self._log.record(live.stream, unneeded(event, self._log.version()), event.cluster)
        elif isinstance(event, said.JobCreationDecided):
            self._start(live, copy)
        else:
            self._change(live, copy, copy.clone, event)

    def _change(
        self, live: SimulatedWorkload, copy: SimulatedCopy, clone: CloneObserved, event: said.WorkloadWrite
    ) -> None:
        """Carry out a write that changes the clone."""
        if isinstance(event, said.DeactivationDecided):
            self._stop(live, copy, _replace(clone, active=False), _BY_US)
        elif isinstance(event, said.GateOpeningDecided):
            gate = PreemptionGate(name=PREEMPTION_GATE, position="Open", last_transition_time=stamp(self._log.now))
            self._show(live, copy, _replace(clone, gates=[gate]))
        elif isinstance(event, said.CloneUpdateDecided):
            self._show(live, copy, _replace(clone, priority=event.priority))
            if copy.waits:
                copy.waits = False
                self._ask_for_room(live, copy)
        elif isinstance(event, (said.FinalizerRemovalDecided, said.FinalizerAdditionDecided)):
            self._show(live, copy, _replace(clone, finalizers=list(event.finalizers)))
        else:
            self._log.record(live.stream, unneeded(event, self._log.version()), event.cluster)

    def _show(self, live: SimulatedWorkload, copy: SimulatedCopy, clone: CloneObserved) -> None:
        copy.clone = _replace(clone, resource_version=self._log.version())
        self._see(live, copy.cluster, copy.clone)

    def _create(self, live: SimulatedWorkload, event: said.CloneDecided) -> None:
        cluster, local = event.cluster, live.local
        if local is None:
            return
        copy = live.coming.pop(cluster, None) or SimulatedCopy(cluster, live.recorded_copy(cluster))
        live.copies[cluster] = copy
        copy.since = self._log.now.replace(microsecond=0)
        copy.clone = new_clone(local, self._log.version(), gated=event.gated)
        self._see(live, copy.cluster, copy.clone)
        past = copy.past
        seconds = self._log.near(self._admission_seconds(copy), past.admitted if past is not None else None)
        order = past.order if past is not None else 0
        if seconds:
            self._log.after(seconds, partial(self._ask_for_room, live, copy), order)
        else:
            self._ask_for_room(live, copy)  # together with its creation

    def _admission_seconds(self, copy: SimulatedCopy) -> float:
        if copy.past is not None:
            return self._log.capacities.base.get(id(copy.past), 0.0)
        added = self._added.get(copy.cluster)
        if added is not None and added.admission_seconds is not None:
            return added.admission_seconds
        return self._log.capacities.delay(copy.cluster)

    def _ask_for_room(self, live: SimulatedWorkload, copy: SimulatedCopy) -> None:
        if copy.left or copy.holds or copy.waits or copy.clone is None or not copy.clone.active:
            return
        copy.waits, copy.entries = True, copy.entries + 1
        entry = copy.entries
        self._places.of(copy.cluster).enter(
            QueuedWorkload(
                -live.priority,
                copy.since or self._log.now,
                copy.past.rank if copy.past is not None else LATER,
                live.request,
                partial(self._admit, live, copy),
                lambda: copy.left or not copy.waits or copy.entries != entry,
            )
        )

    def _admit(self, live: SimulatedWorkload, copy: SimulatedCopy) -> None:
        """Let a copy have room, and its admission be seen when it was, if that is about now: of two clusters that
        admit at one moment the one that was first is first."""
        copy.waits, copy.holds = False, True
        past = copy.past
        seconds = self._log.near(0.0, past.admitted if past is not None else None)
        self._log.after(
            seconds, partial(self._admitted, live, copy, copy.stops), past.rank if past is not None else LATER
        )

    def _admitted(self, live: SimulatedWorkload, copy: SimulatedCopy, stops: int) -> None:
        if copy.clone is None or not copy.holds or copy.stops != stops:
            return
        lag = copy.past.lag if copy.past is not None else 0.0
        at = stamp(self._log.now - timedelta(seconds=lag - 0.0005))
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
            self._places.of(copy.cluster).leave(live.request)

    def _start(self, live: SimulatedWorkload, copy: SimulatedCopy) -> None:
        if live.job is None:
            return
        copy.job = new_job(live, live.job, self._log.version())
        self._see(live, copy.cluster, copy.job)
        known, now = live.past.made, self._log.now
        seconds = live.past.starts[-1] if live.past.starts else self._usual.start
        due = now + timedelta(
            seconds=max(seconds - (known[-1][1] - known[-1][0]).total_seconds() if known else 0.0, 0.0)
        )
        began = [at for at, where in live.past.began if where == copy.cluster]
        nearest = min(began, key=lambda at: abs(at - due), default=None)
        self._log.after(
            self._log.near((due - now).total_seconds(), nearest), partial(self._begin, live, copy, copy.ends)
        )

    def make_seconds(self, live: SimulatedWorkload) -> float:
        """Return for how many seconds a job that is asked for is not seen."""
        known, now = live.past.made, self._log.now
        if not known:
            return self._usual.make
        asked, seen = min(known, key=lambda one: abs(one[0] - now))
        return self._log.near((seen - asked).total_seconds(), seen)

    def _begin(self, live: SimulatedWorkload, copy: SimulatedCopy, ends: int) -> None:
        clone = copy.clone
        if copy.job is not None and clone is not None and copy.ends == ends and not clone.is_true("Evicted"):
            self._run(live, copy)

    def _run(self, live: SimulatedWorkload, copy: SimulatedCopy) -> None:
        """Let a job run, for as long as it did, from its beginning."""
        assert copy.job is not None, "a job is there"
        copy.job = _replace(
            copy.job, suspended=False, inactive=False, status=RUNS, resource_version=self._log.version()
        )
        copy.ends += 1
        self._see(live, copy.cluster, copy.job)
        seconds = copy.remaining if copy.remaining is not None else self._history.run_seconds(live.past)
        copy.remaining = None
        if seconds is not None:
            ended = live.past.ended if live.past.run_cluster == copy.cluster else None
            self._log.after(self._log.near(seconds, ended), partial(self._end, live, copy, copy.ends))

    def _end(self, live: SimulatedWorkload, copy: SimulatedCopy, run: int) -> None:
        if copy.left or copy.job is None or copy.clone is None or copy.ends != run or copy.job.suspended:
            return
        copy.job = _replace(copy.job, finished=True, inactive=True, status=ENDED, resource_version=self._log.version())
        self._see(live, copy.cluster, copy.job)
        done = with_conditions(copy.clone.conditions, self._log.now, Finished=(True, "Succeeded"))
        self._show(live, copy, _replace(copy.clone, conditions=done))
        self._release(live, copy)

    def evict(self, live: SimulatedWorkload, cluster: str, seen: CloneObserved) -> None:
        """Have a worker evict a copy, as it once did, if it has one, and queue it again."""
        copy, condition = live.copies.get(cluster), seen.condition("Evicted")
        if copy is None or copy.clone is None or copy.left:
            return
        clone = _replace(copy.clone, active=seen.active)
        if copy.holds and seen.is_true("Evicted"):
            self._stop(live, copy, clone, condition.reason if condition is not None else "Preempted")
        elif clone != copy.clone:
            self._show(live, copy, clone)

    def _stop(self, live: SimulatedWorkload, copy: SimulatedCopy, clone: CloneObserved, reason: str) -> None:
        """Evict a copy: its job is stopped at once, and its room is free once that rests."""
        seconds = nth(copy.past.stops if copy.past is not None else (), copy.stops, self._usual.stop)
        copy.ends, copy.stops = copy.ends + 1, copy.stops + 1
        self._show(
            live,
            copy,
            _replace(clone, conditions=with_conditions(clone.conditions, self._log.now, Evicted=(True, reason))),
        )
        if copy.job is not None and not copy.job.finished:
            copy.job = _replace(copy.job, suspended=True, resource_version=self._log.version())
            self._see(live, copy.cluster, copy.job)
        self._log.after(seconds, partial(self._stopped, live, copy, copy.stops))

    def _stopped(self, live: SimulatedWorkload, copy: SimulatedCopy, stops: int) -> None:
        """Let a copy that was evicted rest, and wait for room again unless it was deactivated."""
        clone = copy.clone
        if copy.left or clone is None or copy.stops != stops:
            return
        if copy.job is not None and not copy.job.finished:
            copy.job = _replace(copy.job, inactive=True, status=STOPPED, resource_version=self._log.version())
            self._see(live, copy.cluster, copy.job)
        values = {"QuotaReserved": (False, "Pending"), "Admitted": (False, "NoReservation")}
        self._show(live, copy, _replace(clone, conditions=with_conditions(clone.conditions, self._log.now, **values)))
        self._release(live, copy)
        if clone.active:
            self._log.after(self._admission_seconds(copy), partial(self._ask_for_room, live, copy))

    def vanish(self, live: SimulatedWorkload, cluster: str, of: str) -> None:
        """Have somebody delete a copy, or the job of one, as it once happened, if it is there."""
        copy = live.copies.get(cluster)
        if copy is None:
            return
        if of != DELETING:
            self._remove(live, copy, job=of == "Job")
        elif copy.clone is not None:
            self._show(live, copy, _replace(copy.clone, deleting=True))

    def leave_seconds(self, live: SimulatedWorkload, event: said.RemovalDecided) -> float:
        """Return for how many seconds what is removed is still there."""
        copy = live.copies.get(event.cluster)
        usual, past = self._usual.leave.get(event.of, 0.0), copy.past if copy is not None else None
        if past is None:
            return usual
        return self._log.near(past.leaves.get(event.of, usual), past.gone if event.of == "Workload" else None)

    def _remove(self, live: SimulatedWorkload, copy: SimulatedCopy, *, job: bool) -> None:
        if job and copy.job is not None:
            one, copy.job = copy.job, None
            copy.ends += 1
            self._see(
                live, copy.cluster, RemoteJobGone(namespace=one.namespace, name=one.name, uid=one.uid, kind=one.kind)
            )
            if copy.clone is not None and copy.clone.deleting:
                self._remove(live, copy, job=False)  # its job kept it
            self._forget(live, copy)
        elif not job and copy.clone is not None:
            clone, copy.clone = copy.clone, None
            copy.left = True
            self._forget(live, copy)
            self._see(live, copy.cluster, CloneGone(namespace=clone.namespace, name=clone.name, uid=clone.uid))
            self._release(live, copy)

    def _settle(self, live: SimulatedWorkload, copy: SimulatedCopy) -> None:
        """Do what a worker had not done yet when the time began: stop what is to be deactivated, run what is
        admitted."""
        clone = copy.clone
        if clone is None or clone.is_true("Evicted") or clone.is_true("Finished"):
            return
        if clone.is_true("DeactivationTarget"):
            self._stop(live, copy, _replace(clone, active=False), _BY_US)
        elif copy.job is not None and copy.job.suspended and not copy.job.finished and clone.is_true("Admitted"):
            self._run(live, copy)

    def _forget(self, live: SimulatedWorkload, copy: SimulatedCopy) -> None:
        """Forget a copy of which nothing is there any more: a job may be there without its clone."""
        if copy.clone is None and copy.job is None and live.copies.get(copy.cluster) is copy:
            del live.copies[copy.cluster]

    def adopt(
        self, live: SimulatedWorkload, cluster: str, clone: CloneObserved | None, job: RemoteJobObserved | None
    ) -> None:
        """Take over a copy that is there when the time begins, or what is left of one: its job."""
        copy = live.copies[cluster] = SimulatedCopy(cluster, live.recorded_copy(cluster))
        copy.clone, copy.job = clone, job
        if clone is None:
            return
        if clone.is_true("Finished"):
            self._adopt_ended(live, copy)
            return
        self._adopt_room(live, copy, clone)
        self._log.at(self._log.begin, partial(self._settle, live, copy))
        if job is not None and not job.suspended and not job.finished:
            began = [at for at, where in live.past.began if where == cluster and at <= self._log.begin]
            since, seconds = max(began, default=self._log.begin), self._history.run_seconds(live.past)
            copy.ends += 1
            if seconds is not None:
                ran = (self._log.begin - since).total_seconds()
                self._log.after(max(seconds - ran, 0.0), partial(self._end, live, copy, copy.ends))

    def _adopt_ended(self, live: SimulatedWorkload, copy: SimulatedCopy) -> None:
        """Let be seen that the job of a copy ended, if that was seen of its clone alone."""
        if copy.job is not None and not copy.job.finished:
            version = self._log.version()
            copy.job = _replace(copy.job, finished=True, inactive=True, status=ENDED, resource_version=version)
            self._log.after(self._log.near(0.0, live.past.ended), partial(self._see, live, copy.cluster, copy.job))

    def _adopt_room(self, live: SimulatedWorkload, copy: SimulatedCopy, clone: CloneObserved) -> None:
        """Take over the room that a copy has, until it is stopped if it was evicted, or its place in the queue."""
        past = copy.past
        if clone.is_true("QuotaReserved"):
            copy.holds = True
            self._places.of(copy.cluster).room.take(live.request)
            if clone.is_true("Evicted"):
                stops = nth(past.stops if past is not None else (), 0, self._usual.stop)
                self._log.after(stops, partial(self._stopped, live, copy, copy.stops))
            return
        came = past.created if past is not None and past.created is not None else self._log.begin
        copy.since = came.replace(microsecond=0)
        due = came + timedelta(seconds=self._admission_seconds(copy))
        self._log.at(due, partial(self._ask_for_room, live, copy), past.order if past is not None else 0)
