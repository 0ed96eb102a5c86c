"""The simulated management cluster: Kueue's core there, and the users' jobs, as far as MultiKueue sees them.

In: decisions that write to a Workload or its job, and what others did to them. Out: observations of both. A Workload gets
quota once there is room in its ClusterQueue and the seconds have passed that the recorded one took besides; one that is
evicted is queued again once nothing of its job runs by its status. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from controlplane.controllers.multikueue import events as said
from controlplane.controllers.multikueue.observations import JobGone, WorkloadGone, WorkloadObserved
from controlplane.whatif.capacity import queue_place
from controlplane.whatif.history import PastWorkload
from controlplane.whatif.queue import PlaceQueues, QueuedWorkload
from controlplane.whatif.simulated_log import SimulatedLog
from controlplane.whatif.world import (
    ENDED,
    RUNS,
    STOPPED,
    SimulatedWorkload,
    evicted,
    queued,
    reserved,
    stamp,
    unneeded,
    with_conditions,
)

_replace = msgspec.structs.replace


class ManagementCluster:
    """The Workloads and jobs of users; `pasts` tell which ClusterQueue a LocalQueue leads to."""

    def __init__(self, log: SimulatedLog, places: PlaceQueues, pasts: Iterable[PastWorkload]) -> None:
        self._log, self._places = log, places
        self._like = {(one.first.namespace, one.first.queue_name): one.reserved for one in pasts if one.reserved}

    def tell(self, live: SimulatedWorkload, local: WorkloadObserved) -> None:
        """Let a Workload be seen as it is now."""
        live.local = _replace(local, resource_version=self._log.version())
        self._log.record(live.stream, live.local)

    def enter(self, live: SimulatedWorkload) -> None:
        """Wait for quota on the management cluster."""
        local = live.local
        like = live.past.reserved or self._like.get((live.past.first.namespace, live.past.first.queue_name))
        if local is None or live.waits or live.holds or live.finished or like is None or not local.active:
            return
        live.waits, live.place = True, queue_place(like.cluster_queue)
        self._places.of(live.place).enter(
            QueuedWorkload(
                -live.priority,
                live.past.arrived.replace(microsecond=0),  # as Kueue orders them: by whole seconds
                live.past.turn or self._log.position,
                live.request,
                partial(self._reserve, live, like),
                lambda: live.local is None or live.finished,
            )
        )

    def _reserve(self, live: SimulatedWorkload, like: WorkloadObserved) -> None:
        live.waits, live.holds = False, True
        assert live.local is not None, "it waits"
        self.tell(live, reserved(live.local, like, self._log.now, ""))

    def give_back(self, live: SimulatedWorkload) -> None:
        """Give its quota back."""
        if live.holds:
            live.holds = False
            self._places.of(live.place).leave(live.request)

    def _evict(self, live: SimulatedWorkload, check: str, reason: str, seconds: float = 0.0) -> None:
        """Evict a Workload, and queue it again once nothing of its job runs by its status."""
        if live.local is None or live.finished:
            return
        self.tell(live, evicted(live.local, check, self._log.now, "", reason))
        if live.job is not None and not live.job.suspended:
            live.job = _replace(live.job, suspended=True, resource_version=self._log.version())
            self._log.record(live.past.job_stream, live.job)
        self.requeue(live, seconds)

    def settle(self, live: SimulatedWorkload) -> None:
        """Do what the core had not done yet when the time began: evict what is to be retried, admit what is ready, finish
        what has ended."""
        local = live.local
        if local is None or live.finished:
            return
        retry = next((one.name for one in local.checks if one.state == "Retry"), None)
        if live.job is not None and live.job.finished:
            self._finish(live)
        elif retry is not None and not local.is_true("Evicted"):
            self._evict(live, retry, "AdmissionCheck")
        elif all(one.state == "Ready" for one in local.checks) and not local.is_true("Admitted"):
            self.tell(live, _replace(local, conditions=with_conditions(local.conditions, self._log.now, Admitted=True)))
        else:
            self.requeue(live)

    def requeue(self, live: SimulatedWorkload, seconds: float = 0.0) -> None:
        """Take the quota of an evicted Workload of which nothing runs, and queue it again after some seconds."""
        local = live.local
        if local is None or live.finished or not local.is_true("Evicted") or not local.is_true("QuotaReserved"):
            return
        if live.job is None or live.job.inactive:
            self.tell(live, queued(local, self._log.now, ""))
            self.give_back(live)
            self._log.after(seconds, partial(self.enter, live))

    def take_back(self, live: SimulatedWorkload, seen: WorkloadObserved) -> None:
        """Evict a Workload as Kueue once did for a reason of its own."""
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
            self._evict(live, event.check, "AdmissionCheck", float(event.requeue_after_seconds))
        elif event.state == "Ready":
            conditions = with_conditions(local.conditions, self._log.now, Admitted=True)
            self.tell(
                live,
                _replace(local, checks=checks, cluster_name=event.winner, nominated=[], conditions=conditions),
            )
            if live.job is not None and live.job.suspended:
                live.job = _replace(live.job, suspended=False, resource_version=self._log.version())
                self._log.record(live.past.job_stream, live.job)
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
            self._finish(live)
        else:
            self.requeue(live)
