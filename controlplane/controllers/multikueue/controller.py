"""Answers what the loop asks of a controller: MultiKueue's states in memory, as the log has them.

In: events in the log's order. Out: which streams to decide about, what was decided, what an open write looks like. It
only keeps folds and indices between them; what to do is decided in `decide` and `conditions`, how it looks in `render`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import FLEET_STREAM, MANAGEMENT, cluster_stream
from controlplane.controllers.connectivity.local_connection import service_started
from controlplane.controllers.connectivity.outage import decide_outage
from controlplane.controllers.multikueue import conditions, render
from controlplane.controllers.multikueue.anticipation import anticipated, leads_nowhere
from controlplane.controllers.multikueue.causes import about, causes_of
from controlplane.controllers.multikueue.context import MultiKueuePolicy, WorkloadContext
from controlplane.controllers.multikueue.copy_reads import CopyReads
from controlplane.controllers.multikueue.decide import decide
from controlplane.controllers.multikueue.events import (
    EVENTS,
    ConditionDecided,
    EffectFailed,
    EffectUnneeded,
    WinnerChosen,
    WorkloadDecision,
    WorkloadWrite,
)
from controlplane.controllers.multikueue.failures import RepeatedWriteFailure
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.observations import AdmissionCheckObserved, MultiKueueClusterObserved
from controlplane.controllers.multikueue.observe import WorkloadObserver
from controlplane.controllers.multikueue.own_objects import OwnObjects
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.unobserved_jobs import rests_on
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.kinds import Request
from controlplane.kube.requests import Obsolete
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite
from controlplane.runtime.decision_pass import PassResult
from controlplane.runtime.writes import OpenWrites, WritingController

_MINUTE = timedelta(minutes=1)
_LOST = (WorkloadReason.REMOTE_LOST, WorkloadReason.LOST_BEFORE_READY)

__all__ = ["MultiKueueController", "service_started"]


class Unfolded(NamedTuple):
    """What was decided about a Workload and is not folded yet, with the versions of the streams that it rests on: the
    Workload's, and `others`. When; of the choice of a cluster also for which ClusterQueue, and which one."""

    version: int
    others: Mapping[str, int]
    at: datetime
    queue: str = ""
    cluster: str = ""


class MultiKueueController(WritingController[WorkloadWrite]):
    """MultiKueue's states and the answers that the loop asks of them. `identity` names this process in Kubernetes
    Events.
    """

    types: Sequence[type[Event]] = (*connectivity.EVENTS, *EVENTS)
    FAILED, UNNEEDED = EffectFailed, EffectUnneeded

    GIVEN = ("policy", "identity", "_observer", "_own", "_granted", "_looked_at", "_chosen", "copies")
    ENDING = frozenset({"workload", "job"})
    """The first words of the streams of which no fold needs an event any more at some time: see `leaves_nothing`."""

    def __init__(self, policy: MultiKueuePolicy, identity: str) -> None:
        self.policy, self.identity = policy, identity
        self.index = WorkloadIndex(policy)
        self._granted: dict[str, Unfolded] = {}
        self._looked_at = 0
        self._chosen: dict[str, Unfolded] = {}
        self._own = OwnObjects(self.index) if policy.own_only else None
        self.copies = CopyReads(self.index)
        self._observer = WorkloadObserver(
            policy.adapters,
            policy.controller_name,
            self.index.stream_of_remote_job,
            self.index.queue,
            is_known=self.index.has_job,
            identities=self._identities,
            labelled=policy.scoring is not None,
            queued=policy.knows_queues,
            flavored=policy.scoring is not None and policy.scoring.flavors_weight > 0,
        )

    def _identities(self) -> Sequence[str] | None:
        """Return that of the management cluster, and those that the log's one had before; none where it cannot be read,
        and None before the log was ever connected to it."""
        management = self.index.connections.get(MANAGEMENT)
        return management.identities if management is not None and management.connected_once else None

    # --- what was seen -----------------------------------------------------------------------------------------------

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of something seen on a cluster; None if it concerns nobody."""
        if self._own is not None and change.cluster == MANAGEMENT and not self._own.concerns_us(change):
            return None
        return self._observer.observe(change, now)

    def take_missed(self) -> bool:
        """Return whether Workloads and jobs have to be listed again: some that were not recorded may concern us by
        now."""
        return self._own is not None and self._own.take_missed()

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        self.index.fold(recorded)
        if self._own is not None:
            self._own.fold(recorded)

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call; Workloads are left alone where nothing is
        dispatched.
        """
        dirty = self.index.take_dirty()
        if self.policy.dispatches:
            return dirty
        return [stream for stream in dirty if stream == FLEET_STREAM or stream.startswith("cluster/")]

    # --- what follows ------------------------------------------------------------------------------------------------

    def is_over(self, stream: str) -> bool:
        """Whether nothing is left of a stream, so that nothing can follow for it."""
        return stream.startswith("workload/") and stream not in self.index.workloads

    def leaves_nothing(self, stream: str) -> bool:
        """Whether no state is left of a stream. A fold of the log without its events gives what it gives with them if
        it is not one of `needed_streams` either, and none of them is younger than `forgets_after`; but for the UIDs of
        what went last, which are hints.
        """
        return not self.index.has_job(stream) if stream.startswith("job/") else self.is_over(stream)

    def needed_streams(self) -> set[str]:
        """Return the streams on whose events what is known of others rests, also if they are over."""
        return self.index.needed_streams

    @property
    def forgets_after(self) -> timedelta:
        """For how long what happened to a Workload counts for others: the answers of clusters, and how many Workloads
        were queued again in the last minute.
        """
        return max(self.policy.scoring_window, timedelta(minutes=1))

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what follows for a stream."""
        kind, _, name = stream.partition("/")
        if kind == "workload":
            return self._decide_workload(stream, now)
        if stream == FLEET_STREAM:
            return self._decide_outage()
        if kind == "cluster":
            return self._decide_condition(stream, self._cluster_condition(name), now)
        if kind == "admissioncheck":
            return self._decide_condition(stream, self._check_condition(name), now)
        return Decided()

    def decided_afresh(self, stream: str, now: datetime) -> Decided:
        """Return what follows for a stream on what is folded alone; what was decided and is not folded yet stays
        known."""
        granted, chosen = self._granted.copy(), self._chosen.copy()
        self.forget_unfolded()
        try:
            return self.decide(stream, now)
        finally:
            self._granted, self._chosen = granted | self._granted, chosen | self._chosen

    def forget_unfolded(self) -> None:
        """Forget what was decided and is not folded yet: whoever asks and appends nothing has decided nothing."""
        self._granted.clear()
        self._chosen.clear()

    def anticipate(self, events: Sequence[Recorded], now: datetime) -> Decided | None:
        """Return what follows from observations of a Workload that are about to be committed; None where they have to
        be folded first.
        """
        if not self.policy.dispatches:
            return None
        if (found := anticipated(self.index, events)) is not None:
            return self._decided(events[0].stream, *found, now)
        return Decided() if leads_nowhere(self.index, events, now) else None

    def _decide_workload(self, stream: str, now: datetime) -> Decided:
        state = self.index.workloads.get(stream)
        return Decided() if state is None else self._decided(stream, state, self.index.context(state), now)

    def plan(self, stream: str, now: datetime) -> PassResult[Event]:
        """Return what is decided about a Workload, or about an outage, on what is folded and nothing else; without what
        a log needs besides, for whoever appends nothing."""
        self.forget_unfolded()
        if stream == FLEET_STREAM:
            return PassResult(decisions=[new.event for new in self._decide_outage().events])
        state = self.index.workloads.get(stream)
        found = None if state is None else self._planned(state, self.index.context(state), now)
        return PassResult() if found is None else PassResult(decisions=[*found.decisions], wake=found.wake)

    def _planned(self, state: WorkloadState, context: WorkloadContext, now: datetime) -> PassResult[WorkloadDecision]:
        context = msgspec.structs.replace(context, requeue_at=self._requeue_at(now))
        return decide(state, self._with_choices(context, state), now)

    def _decided(self, stream: str, state: WorkloadState, context: WorkloadContext, now: datetime) -> Decided:
        for unfolded in (self._granted, self._chosen):
            unfolded.pop(stream, None)  # what is asked about again was not recorded, as far as anybody knows
        plan = self._planned(state, context, now)
        others = self._rested_on(plan.decisions, state)
        for decision in plan.decisions:
            if getattr(decision, "reason", "") == WorkloadReason.REMOTE_LOST and self.policy.requeues_per_minute:
                self._granted[stream] = Unfolded(state.version, others, now)
            elif isinstance(decision, WinnerChosen) and self.policy.scoring is not None:
                queue = state.local.cluster_queue if state.local is not None else ""
                self._chosen[stream] = Unfolded(state.version, others, now, queue, decision.cluster)
        around = self.index.positions(state) if plan.decisions else ()
        causes = causes_of(plan.decisions, state, around)
        events = [_event(stream, decision, cause) for decision, cause in zip(plan.decisions, causes, strict=True)]
        wakes = [at for at in (plan.wake, self.copies.asked_again(stream, state, context, now)) if at is not None]
        return Decided(events, state.version, min(wakes, default=None), others)

    def _with_choices(self, context: WorkloadContext, state: WorkloadState) -> WorkloadContext:
        """Return the context with the choices of clusters in it that were decided a moment ago and are not folded yet:
        the spread of a queue's Workloads is kept to exactly. One that the log did not take, or has given already, is
        dropped.
        """
        scoring, local = context.scoring, state.local
        if scoring is None or local is None:
            return context
        facts = dict(scoring.facts)
        for choice in self._open(self._chosen):
            cluster = choice.cluster
            if choice.queue == local.cluster_queue and cluster in facts:
                facts[cluster] = msgspec.structs.replace(facts[cluster], placed=facts[cluster].placed + 1)
        return msgspec.structs.replace(context, scoring=msgspec.structs.replace(scoring, facts=facts))

    def _open(self, unfolded: dict[str, Unfolded]) -> Iterable[Unfolded]:
        """Return what may still come: the log takes it only where every stream has the version that it rests on. Drop
        the rest."""
        for stream, one in list(unfolded.items()):
            known = self.index.workloads.get(stream)
            moved = known is None or known.version != one.version
            if moved or any(self._version(other) != version for other, version in one.others.items()):
                del unfolded[stream]
        return unfolded.values()

    def _rested_on(self, decisions: Sequence[WorkloadDecision], state: WorkloadState) -> dict[str, int]:
        """Return the versions of the streams by which a cluster counts as lost: it may be back before the decision is
        in the log. Where Workloads must be spread, those by which clusters count as there, too.
        """
        lost = {about(decision, state) for decision in decisions if getattr(decision, "reason", "") in _LOST}
        scoring = self.policy.scoring
        spread = scoring is not None and scoring.spread_required
        if spread and any(isinstance(decision, WinnerChosen) for decision in decisions):
            around = set(self.index.connections)
        else:
            around = lost & set(self.index.connections)
        streams = [*map(cluster_stream, sorted(around - {MANAGEMENT})), *([FLEET_STREAM] if lost & around else [])]
        return {stream: self._version(stream) for stream in streams}

    def _version(self, stream: str) -> int:
        return self.index.outage.version if stream == FLEET_STREAM else self.index.slots.get(stream).version

    def _requeue_at(self, now: datetime) -> datetime | None:
        """Return when the next re-queue from a lost cluster is allowed, None if it is now.

        What was decided a moment ago and is not folded yet counts too.
        """
        limit, times, granted = self.policy.requeues_per_minute, self.index.requeues, self._granted
        while times and times[0] <= now - _MINUTE:
            times.popleft()
        if not limit or len(times) + len(granted) < limit:
            return None
        if self._looked_at != self.index.position:  # once after a fold, not for each of many that wait
            self._open(granted)
            self._looked_at = self.index.position
        over = len(times) + len(granted) - limit
        if over < 0:
            return None
        spent = times[over] if over < len(times) else list(granted.values())[over - len(times)].at
        return spent + _MINUTE if spent > now - _MINUTE else None

    def _decide_outage(self) -> Decided:
        if not self.index.ready:
            return Decided()
        away, of = self.index.away()
        event = decide_outage(self.index.outage, away, of, self.policy.mass_outage_share)
        cause = self.index.around.outage(of=list(self.index.clusters))
        events = [NewEvent(stream=FLEET_STREAM, event=event, caused_by=cause)] if event else []
        return Decided(events, self.index.outage.version)

    def _cluster_condition(self, name: str) -> ConditionDecided | None:
        seen = self.index.clusters.get(name)
        if seen is None or not self.index.ready:
            return None
        wanted = conditions.cluster_active(self.index.connection_of(name))
        return conditions.set_active(seen, wanted, "MultiKueueCluster")

    def _check_condition(self, name: str) -> ConditionDecided | None:
        seen = self.index.checks.get(name)
        if seen is None or seen.controller_name != self.policy.controller_name or not self.index.ready:
            return None
        wanted = conditions.check_active(seen, self.index.configs, self.index.clusters)
        return conditions.set_active(seen, wanted, "AdmissionCheck")

    def _decide_condition(self, stream: str, decision: ConditionDecided | None, now: datetime) -> Decided:
        free, wake = self.index.slots.free(stream, now, decision)
        slot = self.index.slots.get(stream)
        if decision is None or not free:
            return Decided((), slot.version, wake if decision else None)
        if slot.overwritten > 1:  # once it may be that the management cluster went back to before
            decision = msgspec.structs.replace(decision, reason=WorkloadReason.CONDITION_OVERWRITTEN)
        return Decided(
            [_event(stream, decision, self.index.around.condition(stream, self._beside(stream)))], slot.version
        )

    def _beside(self, stream: str) -> list[str]:
        """Return the other streams that the condition of an object rests on."""
        kind, _, name = stream.partition("/")
        check = self.index.checks.get(name) if kind == "admissioncheck" else None
        if check is None:
            return []
        config = self.index.configs.get(check.parameters.get("name", ""))
        named = config.clusters if config is not None else []
        return [f"multikueueconfig/{check.parameters.get('name', '')}", *(cluster_stream(one) for one in named)]

    def resting_on(self, cluster: str, now: datetime) -> int:
        """Return how many Workloads wait for a cluster that is away, on which their job may run."""
        states = [state for state in self.index.workloads.values() if state.concerns(cluster)]
        return sum(rests_on(state, self.index.context(state), cluster, now) for state in states)

    # --- what is open ------------------------------------------------------------------------------------------------

    def _writes(self, stream: str) -> OpenWrites[WorkloadWrite, RepeatedWriteFailure]:
        return self.index.workloads.get(stream) or self.index.slots.get(stream)

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        """Return the refs of the bodies that `request` needs."""
        decision, state = self._decision(write), self.index.workloads.get(write.stream)
        if decision is None or state is None:
            return []
        job = self.index.written(state, getattr(decision, "part", ""))
        return render.bodies_needed(decision, job, state.local)

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return the request that carries a write out, or None if what it was decided on is gone."""
        decision = self._decision(write)
        if decision is None:
            return None
        if isinstance(decision, ConditionDecided):
            return self._condition_request(write.stream, decision, now)
        state = self.index.workloads[write.stream]
        try:
            job = self.index.written(state, decision.part)
            return render.render(state, job, decision, bodies, self.policy, now, self._identities() or ())
        except Obsolete:
            return None

    def _condition_request(self, stream: str, decision: ConditionDecided, now: datetime) -> Request | None:
        name = stream.partition("/")[2]
        seen: MultiKueueClusterObserved | AdmissionCheckObserved | None = (
            self.index.clusters.get(name) if decision.of == "MultiKueueCluster" else self.index.checks.get(name)
        )
        if seen is None:
            return None
        return render.render_condition(decision, name, seen.conditions, conditions.condition(seen, decision, now))

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        """Return the Kubernetes Event that reports a write."""
        decision, state = self._decision(write), self.index.workloads.get(write.stream)
        if decision is None or state is None or state.local is None:
            return None
        return render.announcement(state.local, decision, write.position, self.identity, now)


def _event(stream: str, decision: Event, caused_by: int) -> NewEvent:
    cluster = getattr(decision, "cluster", "") or MANAGEMENT
    return NewEvent(stream=stream, event=decision, cluster=cluster, caused_by=caused_by)
