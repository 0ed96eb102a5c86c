"""Decides about the quota of the management cluster in a simulation with the engine that decides about it in the
service.

In: the recorded changes of ClusterQueues, Cohorts, flavors and all else that quota rests on, at their times, or what is
to take their place; the Workloads that wait, and those that give quota back. Out: who gets quota, in which ClusterQueue
and with which checks, and who is preempted. Decided is in scheduling cycles, once all that happens at a moment has
happened. What is not simulated has the quota that it had, when it had it. Pods count as ready at once. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.admission import events, facts
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.engine.cycle import decide
from controlplane.controllers.quota.engine.decisions import Admit, Decision, Inadmissible, Preempt
from controlplane.controllers.quota.engine.forecast import said_by
from controlplane.controllers.quota.engine.model import LONGEST_RUN, NO_STOP, Workload
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.log.event import Event, Recorded
from controlplane.whatif.past import LOCAL_QUEUE_STOPPED, QUEUE_STOPPED
from controlplane.whatif.quota_history import PREEMPTED, QuotaRequest, granted
from controlplane.whatif.seconds import nth, usually
from controlplane.whatif.simulated_log import SimulatedLog
from controlplane.whatif.world import QuotaClaim, SimulatedWorkload


class ManagementWorkloads(Protocol):
    """The Workloads of the management cluster, which are told what is decided about them."""

    def grant(self, live: SimulatedWorkload, grants: int) -> None:
        """One got quota."""

    def preempt(self, live: SimulatedWorkload, since: datetime) -> None:
        """One is preempted."""

    def stop(self, live: SimulatedWorkload, reason: str, *, drains: bool) -> None:
        """The queue of one is stopped."""


class EngineQuota:
    """The quota of the management cluster. `home` is told of what is `decided`, which is kept by stream, in order."""

    def __init__(self, log: SimulatedLog, settings: EngineSettings) -> None:
        self._log, self._past, self._settings = log, log.history.quota, settings
        self._given: Mapping[str, Event] = log.alternative.objects
        self._index = AdmissionIndex(settings)
        self._engine = self._index.engine
        self._live: dict[str, SimulatedWorkload] = {}
        self._due: datetime | None = None
        self._said: set[object] = set()
        self._gap = usually(self._past.cycles)
        self._told: dict[str, tuple[str, datetime]] = {}
        requests = self._past.requests.values()
        self._write = timedelta(seconds=usually(seconds for one in requests for seconds in one.grants))
        self._drain = usually(seconds for one in requests for seconds in one.drains)
        self.decided: list[tuple[str, str]] = []
        self.home: ManagementWorkloads

    def request(self, stream: str) -> QuotaRequest | None:
        """Return what is known of a Workload that the engine decides about, by its stream; None of any other."""
        found = self._past.requests.get(stream)
        return found if found is not None and found.by_engine else None

    # --- what was ----------------------------------------------------------------------------------------------------

    def before(self, recorded: Recorded) -> None:
        """Take an event from before the time that is played."""
        self._index.fold(recorded)

    def begin(self) -> None:
        """Begin with what was there. Of what is not simulated is known what it had, and when: it waits for nothing."""
        for key in self._index.workloads.keys() - self._live.keys() - self._engine.snapshot.workloads.keys():
            self._engine.drop_workload(key, self._log.now.timestamp())
        self._index.workloads.clear()  # from here on they are told to the engine
        told = {stream: state.observed for stream, state in self._index.objects.items() if state.observed is not None}
        for stream, event in {**told, **self._given}.items():
            self._see(stream, self._given.get(stream) or self._log.alternative.quota_of(event))
        for request in self._past.requests.values():
            for at, seen in request.held:
                if at > self._log.begin:
                    self._log.at(at, partial(self._hold, request, seen))
        self._plan()

    def _hold(self, request: QuotaRequest, seen: events.AdmissionWorkloadObserved | None) -> None:
        now = self._log.now.timestamp()
        if seen is None:
            self._engine.drop_workload(f"{request.first.namespace}/{request.first.name}", now)
        else:
            self._engine.put_workload(facts.workload(seen, by=self._settings), now)
        self._plan()

    def happens(self, recorded: Recorded) -> None:
        """Let an object be seen again, or what takes its place."""
        if recorded.stream not in self._given:
            self._see(recorded.stream, self._log.alternative.quota_of(recorded.event))
            self._plan()

    def _see(self, stream: str, event: Event) -> None:
        now, home = self._log.now, MANAGEMENT
        self._index.fold(Recorded(position=0, stream=stream, version=0, event=event, cluster=home, recorded_at=now))
        if isinstance(event, events.AdmissionClusterQueueObserved):
            self._stop(event, QUEUE_STOPPED, {event.name})
        elif isinstance(event, events.AdmissionLocalQueueObserved):
            self._stop(event, LOCAL_QUEUE_STOPPED, {f"{event.namespace}/{event.name}"})

    def _stop(self, queue: events.AdmissionQueueObserved, reason: str, names: set[str]) -> None:
        """Take quota back as a queue says that is stopped: a reservation in any case, an admission if it is drained."""
        policy = queue.spec.get("stopPolicy") or NO_STOP
        if policy == NO_STOP:
            return
        for info in list(self._engine.snapshot.workloads.values()):
            live = self._live.get(info.key)
            if live is not None and names & {info.cluster_queue, info.workload.local_queue}:
                self.home.stop(live, reason, drains=policy == "HoldAndDrain")

    # --- Workloads ---------------------------------------------------------------------------------------------------

    def adopt(self, live: SimulatedWorkload) -> None:
        """Take over a Workload that is there when the time begins: the engine knows whether it has quota."""
        key = live.key
        self._live[key] = live
        claim = _claim(live)
        for at, seen in claim.past.changes:
            claim.wanted = seen if at <= self._log.begin else claim.wanted
        info = self._engine.snapshot.workloads.get(key)
        live.holds, live.waits = info is not None, info is None
        if info is not None and live.local is not None:
            claim.given = info.cluster_queue, [one.name for one in live.local.checks]
            self._log.after(0.0, partial(self.home.grant, live, claim.grants))

    def wait(self, live: SimulatedWorkload, seconds: float = 0.0) -> None:
        """Let a Workload wait for quota, not before some seconds have passed; one that has quota gives it back."""
        now = self._log.now.timestamp()
        self._live[live.key] = live
        live.waits, live.holds = True, False
        found = self._workload(live)
        at = now + seconds if seconds else 0.0
        self._engine.put_workload(replace(found, requeue_at=at), now)
        if seconds:
            self._log.after(seconds, self._plan)
        self._plan()

    def evicted(self, claim: QuotaClaim, since: datetime, *, by_check: bool, lost: bool) -> None:
        """Note that a Workload was evicted: how long it ran, from when on its quota is free, and which place it has in
        its queue then. `lost`: its cluster is."""
        now = self._log.now
        if claim.admitted_at is not None:
            claim.ran += int((now - claim.admitted_at).total_seconds())
            claim.admitted_at = None
        claim.drained_at = since + timedelta(seconds=nth(claim.past.drains, claim.evictions, self._drain))
        claim.evictions += 1
        claim.queued_at = float(int(now.timestamp())) if by_check else 0.0
        claim.lost_after = float(claim.ran) if lost and self._settings.readmission_order == LONGEST_RUN else 0.0

    def leave(self, live: SimulatedWorkload) -> None:
        """Forget a Workload that has ended or is gone."""
        live.waits = live.holds = False
        self._live.pop(live.key, None)
        self._told.pop(live.key, None)
        self._engine.drop_workload(live.key, self._log.now.timestamp())
        self._plan()

    def change(self, live: SimulatedWorkload, seen: events.AdmissionWorkloadObserved) -> None:
        """Take over what was changed of a Workload: its priority, its queue, its pods, whether it is active."""
        _claim(live).wanted = seen
        info = self._engine.snapshot.workloads.get(live.key)
        if info is not None:
            found = replace(
                info.workload,
                priority=facts.priority_of(seen, self._settings),
                reclaimable=self._workload(live).reclaimable,
            )
            self._engine.put_workload(found, self._log.now.timestamp())
            self._plan()
        elif live.waits or seen.active:
            self.wait(live)

    def _workload(self, live: SimulatedWorkload) -> Workload:
        """Return a Workload that waits for quota."""
        claim = _claim(live)
        seen = claim.wanted
        asked = msgspec.structs.replace(seen, status={"reclaimablePods": seen.status.get("reclaimablePods") or []})
        found = facts.workload(
            asked, self._index.pod_defaults(seen.namespace), by=self._settings, known=self._index.devices.known
        )
        return replace(
            found, pods_ready=True, queued_at=claim.queued_at or found.queued_at, lost_after=claim.lost_after
        )

    # --- deciding ----------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Have a cycle for what changed, once all of this moment has happened."""
        self._said.clear()
        self._next(0.0)

    def _next(self, seconds: float) -> None:
        due = max(self._log.now + timedelta(seconds=seconds), self._log.absent_until)
        if self._due is None or due < self._due:
            self._due = due
            self._log.at(due, partial(self._cycle, due))

    def _cycle(self, due: datetime) -> None:
        """Decide once; what follows from that is decided in the next cycle, as long after it as in the log."""
        if self._due != due:
            return
        self._due = None
        if self._log.now < self._log.absent_until:
            self._next(0.0)
            return
        now = self._log.now.timestamp()
        self._engine.due(now)
        news = [one for one in decide(self._engine, now) if said_by(one) not in self._said]
        self._said.update(map(said_by, news))
        taken = [one for one in news if not self._is_written(one)]
        self._engine.apply(taken, now)
        for one in taken:
            self._carry_out(one)
        if news:
            self._next(self._gap)

    def _is_written(self, decision: Decision) -> bool:
        """Whether a Workload would get quota just while it is written why it waits: as in the service, it gets it after
        that, if it fits then."""
        if not isinstance(decision, Admit):
            return False
        _, until = self._told.get(decision.workload, ("", self._log.now))
        if until > self._log.now:
            self._log.at(until, self._plan)
        return until > self._log.now

    def _carry_out(self, decision: Decision) -> None:
        if isinstance(decision, Inadmissible):
            told, _ = self._told.get(decision.workload, ("", self._log.now))
            if told != decision.message:
                self._told[decision.workload] = decision.message, self._log.now + self._write
        if isinstance(decision, Preempt):
            for victim in decision.victims:
                live = self._live.get(victim.workload)
                if live is not None and not victim.ongoing:
                    self.decided.append((live.stream, PREEMPTED))
                    self._log.at(self._log.now + self._write, partial(self.home.preempt, live, self._log.now))
        elif isinstance(decision, Admit) and (live := self._live.get(decision.workload)) is not None:
            self._admitted(live, decision)

    def _admitted(self, live: SimulatedWorkload, decision: Admit) -> None:
        """Let a Workload have quota, and let that be seen as long after it as it was."""
        live.waits, live.holds = False, True
        self._told.pop(decision.workload, None)
        flavors = (name for one in decision.admission.pod_sets for name in one.flavors.values())
        self.decided.append((live.stream, granted(decision.cluster_queue, flavors)))
        now = self._log.now.timestamp()
        info = self._engine.snapshot.workloads[decision.workload]
        # As its condition will say, in whole seconds: who is preempted first goes by it.
        self._engine.put_workload(replace(info.workload, reserved_at=float(int(now))), now)
        claim = _claim(live)
        seconds = nth(claim.past.grants, claim.grants, self._write.total_seconds())
        claim.grants, claim.given = claim.grants + 1, (decision.cluster_queue, list(decision.checks))
        self._log.after(seconds, partial(self.home.grant, live, claim.grants))


def _claim(live: SimulatedWorkload) -> QuotaClaim:
    assert live.claim is not None, "the engine decides about it"
    return live.claim
