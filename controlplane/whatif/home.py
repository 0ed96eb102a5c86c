"""The simulated management cluster: what reserves quota there, and the users' jobs, as far as MultiKueue sees them.

In: decisions that write to a Workload or its job, and what others did to them. Out: observations of both. A Workload
gets quota when the engine says so; or, where the log does not know the queues, once there is room in its ClusterQueue
and the seconds have passed that the recorded one took besides. One that is evicted is queued again once nothing of its
job runs by its status. A job without checks runs here, for as long as it did. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

import msgspec

from controlplane.controllers.multikueue import events as said
from controlplane.controllers.multikueue.observations import JobGone, Priority, WorkloadGone, WorkloadObserved
from controlplane.controllers.quota.admission.events import AdmissionWorkloadObserved
from controlplane.kube.conditions import REMOTE_LOST
from controlplane.whatif.engine_quota import EngineQuota
from controlplane.whatif.others import queue_place
from controlplane.whatif.past import PastWorkload
from controlplane.whatif.queue import LATER, PlaceQueues, QueuedWorkload
from controlplane.whatif.seconds import UsualSeconds, nth
from controlplane.whatif.simulated_log import SimulatedLog
from controlplane.whatif.world import (
    ENDED,
    RUNS,
    STOPPED,
    SimulatedWorkload,
    evicted,
    moment,
    queued,
    reserved,
    stamp,
    unneeded,
    with_conditions,
)

_replace = msgspec.structs.replace
_CYCLES = 0.1  # seconds: who gets quota within them was in the queue when there was some


class ManagementCluster:
    """The Workloads and jobs of users; `pasts` tell which ClusterQueue a LocalQueue leads to."""

    def __init__(
        self,
        log: SimulatedLog,
        places: PlaceQueues,
        engine: EngineQuota,
        pasts: Iterable[PastWorkload],
        usual: UsualSeconds,
    ) -> None:
        self._log, self._places, self._engine, self._usual = log, places, engine, usual
        engine.home = self
        self._like = {(one.first.namespace, one.first.queue_name): one.reserved for one in pasts if one.reserved}

    def tell(self, live: SimulatedWorkload, local: WorkloadObserved) -> None:
        """Let a Workload be seen as it is now."""
        live.local = _replace(local, resource_version=self._log.version())
        self._log.record(live.stream, live.local)

    def enter(self, live: SimulatedWorkload) -> None:
        """Wait for quota on the management cluster."""
        local = live.local
        if local is None or live.waits or live.holds or live.finished or not local.active:
            return
        if live.claim is not None:
            self._engine.wait(live)
        elif (like := self._like_of(live)) is not None:
            queued = self._queued(live, like)
            self._places.of(live.place).enter(queued)

    def _queued(self, live: SimulatedWorkload, like: WorkloadObserved) -> QueuedWorkload:
        """Let a Workload wait for room, from now on, in the order of its queue: Kueue goes by whole seconds."""
        live.waits, live.place, live.entries = True, queue_place(like.cluster_queue), live.entries + 1
        entry, stays = live.entries, live.past.stays
        return QueuedWorkload(
            -live.priority,
            live.queued_at or live.past.arrived.replace(microsecond=0),
            stays[min(live.stays, len(stays) - 1)].order if stays else LATER,
            live.request,
            partial(self._reserve, live, like),
            lambda: live.local is None or live.finished or not live.waits or live.entries != entry,
        )

    def _like_of(self, live: SimulatedWorkload) -> WorkloadObserved | None:
        return live.past.reserved or self._like.get((live.past.first.namespace, live.past.first.queue_name))

    def _reserve(self, live: SimulatedWorkload, like: WorkloadObserved) -> None:
        live.waits, live.holds, live.stays, live.queued_at = False, True, live.stays + 1, None
        stays = live.past.stays
        seconds = self._log.near(0.0, stays[live.stays - 1].since if live.stays <= len(stays) else None)
        if seconds:
            self._log.after(seconds, partial(self._reserved, live, like, live.stays))
        else:
            self._reserved(live, like, live.stays)

    def _reserved(self, live: SimulatedWorkload, like: WorkloadObserved, stays: int) -> None:
        """Let the quota of a Workload be seen, when it was, if that is about when it got it."""
        if live.local is not None and live.holds and live.stays == stays:
            self.tell(live, reserved(live.local, like, self._log.now, ""))

    def grant(self, live: SimulatedWorkload, grants: int) -> None:
        """Let it be seen that the engine gave a Workload quota, the how manieth time, unless it lost it meanwhile."""
        local, claim = live.local, live.claim
        if claim is None or claim.grants != grants or local is None or live.finished or not live.holds:
            return
        if local.is_true("QuotaReserved"):
            return
        like, claim.queued_at, claim.lost_after = self._like_of(live) or local, 0.0, 0.0
        found = reserved(local, like, self._log.now, "", claim.given)
        if found.checks:
            self.tell(live, found)
        else:
            self._admit(live, found)
            if (seconds := self._log.history.run_seconds(live.past)) is not None:
                self._log.after(seconds, partial(self._ended, live, grants))

    def _admit(self, live: SimulatedWorkload, local: WorkloadObserved) -> None:
        """Let a Workload be admitted, and its job run."""
        if live.claim is not None:
            live.claim.admitted_at = self._log.now
        self.tell(live, _replace(local, conditions=with_conditions(local.conditions, self._log.now, Admitted=True)))
        if live.job is not None and live.job.suspended:
            live.job = _replace(live.job, suspended=False, resource_version=self._log.version())
            self._log.record(live.past.job_stream, live.job)

    def give_back(self, live: SimulatedWorkload) -> None:
        """Give its quota back, and wait for none."""
        if live.claim is not None:
            self._engine.leave(live)
        elif live.holds:
            live.holds = False
            self._places.of(live.place).leave(live.request)

    def preempt(self, live: SimulatedWorkload, since: datetime) -> None:
        """Preempt a Workload, as the engine decided some time ago."""
        self._seen_to_hold(live)
        if live.holds and live.local is not None and not live.local.is_true("Evicted"):
            self._evict(live, "", "Preempted", since=since)

    def _seen_to_hold(self, live: SimulatedWorkload) -> None:
        """Let be seen at once that the engine gave a Workload quota, if that is still on its way."""
        if live.claim is not None:
            self.grant(live, live.claim.grants)

    def stop(self, live: SimulatedWorkload, reason: str, *, drains: bool) -> None:
        """Take the quota of a Workload back since its queue is stopped: an admitted one has it until it is drained."""
        self._seen_to_hold(live)
        local = live.local
        if local is None or not live.holds or local.is_true("Evicted"):
            return
        if not local.is_true("Admitted"):
            self.tell(live, queued(local, self._log.now, ""))
            self._engine.wait(live)
        elif drains:
            self._evict(live, "", reason)

    def change(self, live: SimulatedWorkload, seen: AdmissionWorkloadObserved) -> None:
        """Let be seen what somebody changed of a Workload, where the engine decides."""
        local = live.local
        if local is None or live.finished:
            return
        self._change(live, _replace(local.priority, value=seen.priority), active=seen.active)
        self._engine.change(live, seen)

    def change_in_place(self, live: SimulatedWorkload, seen: WorkloadObserved) -> None:
        """Let be seen what somebody changed of a Workload, where it has its place in one queue."""
        if live.local is None or live.finished:
            return
        self._change(live, seen.priority, active=seen.active)
        live.waits = False  # with another priority its place is another one
        self.enter(live)

    def _change(self, live: SimulatedWorkload, priority: Priority, *, active: bool) -> None:
        local = live.local
        if local is not None and (priority, active) != (local.priority, local.active):
            self.tell(live, _replace(local, priority=priority, active=active))

    def _evict(
        self,
        live: SimulatedWorkload,
        check: str,
        reason: str,
        seconds: float = 0.0,
        *,
        lost: bool = False,
        since: datetime | None = None,
    ) -> None:
        """Evict a Workload, and queue it again once nothing of its job runs by its status. `lost`: its cluster is."""
        if live.local is None or live.finished:
            return
        self.tell(live, evicted(live.local, check, self._log.now, "", reason))
        if live.claim is not None:
            self._engine.evicted(live.claim, since or self._log.now, by_check=bool(check), lost=lost)
        else:
            self._evicted(live, by_check=bool(check))
        if live.job is not None and not live.job.suspended:
            live.job = _replace(live.job, suspended=True, resource_version=self._log.version())
            self._log.record(live.past.job_stream, live.job)
        self.requeue(live, seconds)

    def _evicted(self, live: SimulatedWorkload, *, by_check: bool) -> None:
        """Note from when on the quota of one that was evicted is free, and which place it has in its queue then."""
        now, past = self._log.now, live.past
        stay = past.stays[live.stays - 1] if 0 < live.stays <= len(past.stays) else None
        seconds = nth(past.drains, live.evictions, self._usual.drain)
        seconds = self._log.near(seconds, stay.until if stay is not None else None)
        live.drained_at = now + timedelta(seconds=seconds)
        live.evictions += 1
        live.queued_at = now.replace(microsecond=0) if by_check else None

    def settle(self, live: SimulatedWorkload) -> None:
        """Do what the core had not done yet when the time began: evict what is to be retried, admit what is ready,
        finish what has ended."""
        local = live.local
        if local is None or live.finished:
            return
        retry = next((one.name for one in local.checks if one.state == "Retry"), None)
        if live.job is not None and live.job.finished:
            self._finish(live)
        elif retry is not None and not local.is_true("Evicted"):
            self._evict(live, retry, "AdmissionCheck")
        elif not local.is_true("Admitted") and all(one.state == "Ready" for one in local.checks):
            self.tell(live, _replace(local, conditions=with_conditions(local.conditions, self._log.now, Admitted=True)))
        else:
            self.requeue(live)

    def requeue(self, live: SimulatedWorkload, seconds: float = 0.0) -> None:
        """Take the quota of an evicted Workload of which nothing runs, and queue it again after some seconds."""
        local = live.local
        if local is None or live.finished or not local.is_true("Evicted") or not local.is_true("QuotaReserved"):
            return
        drained_at = live.claim.drained_at if live.claim is not None else live.drained_at
        if drained_at is not None and drained_at > self._log.now:
            self._log.at(drained_at, partial(self.requeue, live, seconds))
        elif live.job is None or live.job.inactive:
            self.tell(live, queued(local, self._log.now, ""))
            if live.claim is not None:
                self._engine.wait(live, seconds)
            else:
                self._queue_again(live, seconds)

    def _queue_again(self, live: SimulatedWorkload, seconds: float) -> None:
        """Give quota back, and wait for some again: in the queue before others are looked at, if that is at once."""
        like = self._like_of(live)
        if not self._places.of(live.place).stopped:
            seconds = max(seconds, self._waits_again(live))
        if seconds or like is None or not live.holds or live.local is None or not live.local.active:
            self.give_back(live)
            self._log.after(seconds, partial(self.enter, live))
            return
        place, live.holds = self._places.of(live.place), False
        if place.stopped:
            place.leave(live.request)
            place.when_open(partial(self.enter, live))
            return
        waits = self._queued(live, like)
        place.leave(live.request, waits._replace(priority=-LATER) if self._kept(live) else waits)

    def _kept(self, live: SimulatedWorkload) -> bool:
        """Whether one that gave its quota back had some again at once, whoever waited."""
        stays = live.past.stays
        if not 0 < live.stays < len(stays):
            return False
        before, again = stays[live.stays - 1], stays[live.stays]
        return before.until is not None and (again.since - before.until).total_seconds() <= _CYCLES

    def _waits_again(self, live: SimulatedWorkload) -> float:
        """Return for how many seconds one waited again although there was room; 0 if it was in the next cycles."""
        stays = live.past.stays
        if live.stays >= len(stays):
            return 0.0
        since = stays[live.stays].since
        known = self._log.capacities.later.get(live.stream, {}).get(since, 0.0)
        return self._log.near(known, since) if known > _CYCLES else 0.0

    def take_back(self, live: SimulatedWorkload, seen: WorkloadObserved) -> None:
        """Evict a Workload as Kueue once did for a reason of its own."""
        condition = seen.condition("Evicted")
        if live.local is None or not live.local.is_true("QuotaReserved"):
            return
        if not seen.active:
            live.local = _replace(live.local, active=False)
        self._evict(live, "", condition.reason if condition is not None else "Preempted")

    def adopt(self, live: SimulatedWorkload) -> None:
        """Take over a job that runs here when the time begins."""
        if live.holds and live.past.reserved is None and live.past.finished is not None:
            self._log.at(live.past.finished, partial(self._ended, live, 0))

    def adopt_eviction(self, live: SimulatedWorkload) -> None:
        """Take over that one was evicted when the time begins: from when on its quota is free, and its place."""
        condition = live.local.condition("Evicted") if live.local is not None else None
        if condition is None or condition.status != "True":
            return
        if condition.reason == "AdmissionCheck":
            live.queued_at = moment(condition.last_transition_time)
        if live.holds and 0 < live.stays <= len(live.past.stays):
            live.drained_at = live.past.stays[live.stays - 1].until

    def _ended(self, live: SimulatedWorkload, grants: int) -> None:
        """End a job that runs here, unless it was stopped meanwhile."""
        if not live.holds or live.claim is None or live.claim.grants != grants or live.local is None:
            return
        if live.job is not None:
            live.job = _replace(live.job, finished=True, status=ENDED, resource_version=self._log.version())
            self._log.record(live.past.job_stream, live.job)
        self._finish(live)

    def _finish(self, live: SimulatedWorkload, reason: str = "Succeeded") -> None:
        local = live.local
        if local is None or live.finished:
            return
        live.finished = True
        self.tell(
            live, _replace(local, conditions=with_conditions(local.conditions, self._log.now, Finished=(True, reason)))
        )
        self.give_back(live)
        past = live.past
        if past.gone is not None and past.finished is not None:
            self._log.after((past.gone - past.finished).total_seconds(), partial(self.deleted, live))

    def deleted(self, live: SimulatedWorkload) -> None:
        """Delete a Workload and its job."""
        local, job = live.local, live.job
        if local is None:
            return
        live.local, live.job = None, None
        gone = WorkloadGone(namespace=local.namespace, name=local.name, uid=local.uid)
        self._log.record(live.stream, gone)
        if job is not None:
            self._log.record(
                live.past.job_stream, JobGone(namespace=job.namespace, name=job.name, uid=job.uid, kind=job.kind)
            )
        self.give_back(live)

    def write(self, live: SimulatedWorkload, event: said.WorkloadWrite) -> None:
        """Carry out a write to a Workload or its job."""
        local = live.local
        if local is None:
            return
        match event:
            case said.NominationDecided():
                self.tell(live, _replace(local, nominated=list(event.clusters)))
            case said.CheckStateDecided():
                self._set_check(live, local, event)
            case said.StatusRelayDecided():
                self._relay(live, event)
            case said.FinishDecided():
                self._finish(live, event.finish_reason)
            case said.NamesClearDecided():
                self.tell(live, _replace(local, cluster_name="", nominated=[]))
            case _:
                self._log.record(live.stream, unneeded(event, self._log.version()), event.cluster)

    def _set_check(self, live: SimulatedWorkload, local: WorkloadObserved, event: said.CheckStateDecided) -> None:
        at = stamp(self._log.now)
        checks = [
            _replace(one, state=event.state, message=event.message, last_transition_time=at)
            if one.name == event.check
            else one
            for one in local.checks
        ]
        if event.state == "Retry":
            live.local = _replace(local, checks=checks)
            lost = event.message.startswith(REMOTE_LOST)
            self._evict(live, event.check, "AdmissionCheck", float(event.requeue_after_seconds), lost=lost)
        elif event.state == "Ready":
            self._admit(live, _replace(local, checks=checks, cluster_name=event.winner, nominated=[]))
        else:
            self.tell(live, _replace(local, checks=checks))

    def _relay(self, live: SimulatedWorkload, event: said.StatusRelayDecided) -> None:
        if live.job is None:
            return
        copy = live.copies.get(event.source)
        job = copy.job if copy is not None and copy.job is not None and copy.job.status == event.status else None
        ended = job.finished if job is not None else event.status == ENDED
        runs = not event.drain and (not job.inactive if job is not None else event.status == RUNS)
        live.job = _replace(
            live.job,
            status=STOPPED if event.drain else event.status,
            inactive=not runs,
            finished=ended,
            says_suspended=event.mark_suspended,
            resource_version=self._log.version(),
        )
        self._log.record(live.past.job_stream, live.job)
        if ended:
            self._log.after(self._log.near(live.past.finish_seconds, live.past.finished), partial(self._finish, live))
        else:
            self.requeue(live)
