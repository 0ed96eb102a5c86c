"""All of a source cluster's candidates in memory, as the log says it: the loop's `Capability`.

In: events in the log's order. Out: which streams to decide about, what was decided, what an open write looks like. What
to do is decided in `decide`, how it looks in `render`. Targets are MultiKueueClusters or any other connection:
`targets_of` says which a namespace may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import ClassVar

import msgspec

from controlplane.controllers.candidates.objects import CANDIDATES, PODS
from controlplane.controllers.candidates.source import render
from controlplane.controllers.candidates.source.causes import CAUSES, said, words_of
from controlplane.controllers.candidates.source.decide import decide
from controlplane.controllers.candidates.source.decision_pass import PodContext, PodPass
from controlplane.controllers.candidates.source.events import (
    EVENTS,
    CandidateDecision,
    CandidateWrite,
    CandidateWriteFailed,
    CandidateWriteUnneeded,
    PermitGranted,
    StatusShown,
)
from controlplane.controllers.candidates.source.facets import SourceFacets
from controlplane.controllers.candidates.source.gang_capacity import contends
from controlplane.controllers.candidates.source.gang_decide import gang_decide
from controlplane.controllers.candidates.source.gang_events import GANG_EVENTS, GROUP
from controlplane.controllers.candidates.source.gang_pass import GangPlan
from controlplane.controllers.candidates.source.gang_state import SourceGangState, rank_of
from controlplane.controllers.candidates.source.gangs import SourceGangs
from controlplane.controllers.candidates.source.observations import (
    CandidateGone,
    CandidateObservationRefused,
    CandidateSeen,
)
from controlplane.controllers.candidates.source.observe import SourceObserver
from controlplane.controllers.candidates.source.pod_events import news
from controlplane.controllers.candidates.source.policy import SourcePolicy, Target, effective
from controlplane.controllers.candidates.source.spread import WorkloadSpread
from controlplane.controllers.candidates.source.state import STREAM, SourceState, fold
from controlplane.controllers.candidates.source.unread import UnreadCandidates, concerns
from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import FLEET_STREAM, MANAGEMENT, ServiceStarted
from controlplane.controllers.connectivity.outage import Outage, fold_outage, outage_resumed
from controlplane.controllers.connectivity.state import Connection, restarted
from controlplane.controllers.connectivity.state import fold as fold_connection
from controlplane.kube.kinds import POD_GROUPS, ObjectRef, Request
from controlplane.kube.requests import Obsolete, event_about
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite
from controlplane.runtime.facets import FacetPositions, cause_of, causes_of
from controlplane.runtime.writes import WritingController


class SourceCandidates(WritingController[CandidateWrite]):
    """The source side's states, and the answers that the loop asks of them. `identity` names this process in Kubernetes
    Events; `obstacles_of` tells what keeps ConfigMaps and Secrets from following a pod.

    Events of connectivity are another capability's in the same log: they are folded here and not declared.
    """

    types: Sequence[type[Event]] = (*EVENTS, *GANG_EVENTS)
    FAILED, UNNEEDED = CandidateWriteFailed, CandidateWriteUnneeded

    GIVEN: ClassVar[Sequence[str]] = (
        "policy",
        "identity",
        "_targets_of",
        "obstacles_of",
        "obstacles_at",
        "_observer",
    )

    def __init__(self, policy: SourcePolicy, identity: str, targets_of: Callable[[str], Sequence[Target]]) -> None:
        self.policy, self.identity, self._targets_of = policy, identity, targets_of
        self.sources: dict[str, SourceState] = {}
        self.connections: dict[str, Connection] = {}
        self.outage = Outage()
        self.gangs = SourceGangs()
        self.obstacles_of: Callable[[str], str] = lambda stream: ""
        self.obstacles_at: Callable[[str], int] = lambda stream: 0
        self.positions = SourceFacets()
        self._streams: dict[tuple[str, str], str] = {}
        self.spread = WorkloadSpread()
        self._dirty: dict[str, None] = {}
        self.unread = UnreadCandidates()
        self._observer = SourceObserver(policy.cluster, policy.scheduler_name, self._stream_of, self._identity)

    def who_we_are(self) -> str:
        """Return the UID that the source cluster is known by, "" as long as it is not known."""
        return self._identity() or ""

    def _identity(self) -> str | None:
        """Return the same; None before the log was ever connected to the source cluster."""
        home = self.connections.get(MANAGEMENT)
        if home is None or not (home.incarnation or home.connected_once):
            return None
        return home.incarnation

    def _stream_of(self, cluster: str, uid: str) -> str:
        """Return the stream that a candidate was recorded on, or its refusal; "" if it is not known."""
        return self._streams.get((cluster, uid), "") or self.unread.stream_of(cluster, uid)

    # --- what was seen -----------------------------------------------------------------------------------------------

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of something seen on a cluster; None if it concerns nobody."""
        new = self._observer.observe(change, now)
        spec = change.object.get("spec")
        if new is not None and change.gone and change.cluster == MANAGEMENT and isinstance(spec, dict):
            # What was seen just now may not be folded yet, so that the stream is unknown says nothing.
            return new if spec.get("schedulerName") == self.policy.scheduler_name else None
        return new

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        kind, _, name = recorded.stream.partition("/")
        if (refusal := self.unread.fold(recorded)) is not None:
            self._look_again(refusal, recorded.position)
        if kind == STREAM:
            self._fold_source(recorded)
        elif kind == GROUP:
            before = self.gangs.groups.get(recorded.stream)
            self.gangs.fold(recorded)
            self.positions.group(before, self.gangs.state(recorded.stream), recorded)
            self._tidy([recorded.stream])
        elif kind == "cluster" and isinstance(recorded.event, connectivity.EVENTS):
            self.connections[name] = fold_connection(self.connections.get(name, Connection(name=name)), recorded)
            self.positions.connections.fold(self.connections, [name], recorded.position)
            if name == MANAGEMENT:
                self.gangs.unseen = self.connections[name].off.get(POD_GROUPS.name, "")
            self.touch_all()
        elif recorded.stream == FLEET_STREAM:
            self.outage = fold_outage(self.outage, recorded)
            self.positions.around[FLEET_STREAM] = recorded.position
            self.touch_all()
        elif isinstance(recorded.event, ServiceStarted):
            self.outage = outage_resumed(self.outage, recorded)
            self.connections = {key: restarted(known, recorded) for key, known in self.connections.items()}
            self.positions.connections.fold(self.connections, self.connections, recorded.position)
            self.touch_all()

    def _look_again(self, refusal: CandidateObservationRefused, position: int) -> None:
        """Ask again about the pods that an object which cannot be read, or can be again, may concern."""
        for stream, state in self.sources.items():
            if concerns(refusal, state.namespace, state.name):
                self.positions.around[f"unread/{stream}"] = position
                self._dirty[stream] = None
                self.gangs.look(stream)

    def touch(self, streams: Iterable[str]) -> None:
        """Ask about some pods again: what is told of them by others has changed."""
        self._dirty.update(dict.fromkeys(stream for stream in streams if stream in self.sources))

    def touch_all(self) -> None:
        """Ask about every stream again: a connection, the targets or the policy have changed."""
        self._dirty.update(dict.fromkeys(self.sources))
        self.gangs.touch_all()

    def _fold_source(self, recorded: Recorded) -> None:
        stream, event = recorded.stream, recorded.event
        before = self.sources.get(stream)
        after = fold(before or SourceState.initial(stream), recorded)
        if isinstance(event, CandidateSeen):
            self._streams[recorded.cluster, event.uid] = stream
        elif isinstance(event, CandidateGone):
            self._streams.pop((recorded.cluster, event.uid), None)
        if isinstance(event, PermitGranted):
            self.spread.granted.pop(stream, None)
        self._regroup(stream, after, recorded.position)
        groups = self.positions.pod(before, after, recorded)
        if after.settled:
            self.sources.pop(stream, None)
            self.positions.forget(stream)
        else:
            self.sources[stream] = after
        self.gangs.member(stream, self.sources.get(stream))
        self._tidy(groups)
        self._dirty[stream] = None

    def _tidy(self, groups: Iterable[str]) -> None:
        """Forget the positions of groups of which nothing is left."""
        for group in groups:
            if group not in self.gangs.groups and not self.gangs.members(group):
                self.positions.forget(group)

    def _regroup(self, stream: str, after: SourceState, position: int) -> None:
        for workload in self.spread.note(stream, after, self._max_skew(after)):
            if workload not in self.spread:
                self.positions.around.pop(f"spread/{workload}", None)
                continue
            self.positions.around[f"spread/{workload}"] = position
            # Whoever waits for the spread to allow it may go now.
            self._dirty.update(dict.fromkeys(self.spread.waiting(workload)))

    def _max_skew(self, state: SourceState) -> int:
        """Return by how much a pod allows its workload's pods to be spread unevenly, 0 for any."""
        placement = self.policy.placement
        return effective(placement, state.pod.options).max_skew if state.pod is not None else placement.max_skew

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call: gangs first, whose decisions rest on their members as
        they are.
        """
        gangs, members = self.gangs.take_changed()
        dirty, self._dirty = [*gangs, *dict.fromkeys([*self._dirty, *members])], {}
        return dirty

    def known(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind on a cluster: UID to (namespace, name, resourceVersion)."""
        if cluster == MANAGEMENT:
            pods = [state.pod for state in self.sources.values() if state.pod is not None and kind == PODS.name]
            read = {pod.uid: (pod.namespace, pod.name, pod.resource_version) for pod in pods}
            return self.unread.seen(cluster, kind) | read
        if kind != CANDIDATES.name:
            return {}
        seen = [
            known.seen
            for state in self.sources.values()
            for known in state.candidates.values()
            if known.cluster == cluster and known.seen is not None
        ]
        there = {one.uid: (one.namespace, one.name, one.resource_version) for one in seen}
        return self.unread.seen(cluster, kind) | there

    # --- what follows ------------------------------------------------------------------------------------------------

    def context(self, stream: str, state: SourceState) -> PodContext:
        """Return what a decision on a source pod may look at."""
        home = self.connections.get(MANAGEMENT)
        return PodContext(
            policy=self.policy,
            ready=home is not None and home.in_view(PODS.name),
            targets=self._targets_of(state.namespace),
            connections=self.connections,
            counts=self._counts(stream, state),
            mass_outage=self.outage.holds,
            outage_ended=self.outage.ended,
            gang=self.gangs.view(stream),
            obstacles=self.obstacles_of(stream),
            unread_pod=self.unread.pod(state.namespace, state.name) if state.pod is None else None,
            unread={state.name: self.unread.candidates(state)},
        )

    def _counts(self, stream: str, state: SourceState) -> Mapping[str, int]:
        """Return where the workload's other pods are, if the pod asks for their spread."""
        if state.pod is None or self._max_skew(state) <= 0:
            return {}
        return self.spread.counts(stream, state.pod.workload)

    def is_over(self, stream: str) -> bool:
        """Whether nothing is left of a stream, so that nothing can follow for it."""
        return stream not in self.sources and stream not in self.gangs.groups

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what follows for a stream."""
        if stream in self.gangs.groups:
            return self._decide_gang(stream, now)
        state = self.sources.get(stream)
        if state is None:
            return Decided()
        context = self.context(stream, state)
        plan = decide(state, context, now)
        self.spread.granted.pop(stream, None)
        granted = [one for one in plan.decisions if isinstance(one, PermitGranted)]
        for permit in granted:
            if permit.kind == "Bind":
                self.spread.granted[stream] = permit.cluster
        causes = self._causes(stream, state, PodPass(state, context, now), plan.decisions) if plan.decisions else []
        events = [
            NewEvent(stream=stream, event=one, cluster=getattr(one, "cluster", "") or MANAGEMENT, caused_by=cause)
            for one, cause in zip(plan.decisions, causes, strict=True)
        ]
        gang = context.gang if granted else None
        return Decided(events, state.version, plan.wake, {gang.stream: gang.version} if gang is not None else {})

    def _causes(
        self, stream: str, state: SourceState, pass_: PodPass, decisions: Sequence[CandidateDecision]
    ) -> list[int]:
        gang = pass_.context.gang
        known = {known.cluster for known in state.candidates.values()} | pass_.targets().keys()
        own = self.positions.of(stream, gang.stream if gang is not None else "", state.namespace, known)
        own["obstacles"] = self.obstacles_at(stream)
        own["unread"] = self.positions.around.get(f"unread/{stream}", 0)
        if pass_.placement.max_skew > 0 and state.pod is not None:
            own["spread"] = self.positions.around.get(f"spread/{state.pod.workload}", 0)

        def cause(decision: CandidateDecision, own: FacetPositions) -> int:
            return cause_of(CAUSES, decision, own, words_of(decision, pass_)) or state.position

        return causes_of(decisions, own, cause, said)

    def _decide_gang(self, stream: str, now: datetime) -> Decided:
        """Return what follows for a gang. A permission rests on all of its members, and so on the versions of all their
        streams.
        """
        group, members = self.gangs.state(stream), self.gangs.members(stream)
        known = SourceState(
            namespace=group.namespace, name="", targets=[group.placed.cluster] if group.placed is not None else []
        )
        unread = {state.name: self.unread.candidates(state) for state in members.values()}
        context = msgspec.structs.replace(self.context("", known), unread=unread)
        plan = gang_decide(stream, group, members, context, now, lambda: self._ahead(stream))
        if plan.outlook is not None:
            self.gangs.outlooks[stream] = plan.outlook
        events = self._said_of(stream, group, plan) if plan.own or plan.theirs else []
        others = {name: state.version for name, state in members.items()} if plan.theirs else {}
        return Decided(events, group.version, plan.wake, others)

    def _said_of(self, stream: str, group: SourceGangState, plan: GangPlan) -> list[NewEvent]:
        """Return the events of what was decided about a gang. What is said on its members' streams with it rests on the
        same.
        """
        names = {target.name for target in self._targets_of(group.namespace)}
        own = self.positions.of("", stream, group.namespace, names)

        def cause(said: CandidateDecision) -> int:
            words = {"c": (getattr(said, "cluster", ""),), "every": names, "mine": ("members",)}
            return cause_of(CAUSES, said, own, words) or group.position

        whole = max((cause(said) for said in plan.own), default=0)
        found = [(stream, said, cause(said)) for said in plan.own]
        found += [(on, said, whole or cause(said)) for on, said in plan.theirs]
        return [
            NewEvent(stream=on, event=said, cluster=getattr(said, "cluster", "") or MANAGEMENT, caused_by=at)
            for on, said, at in found
        ]

    def _ahead(self, stream: str) -> bool:
        """Whether a gang of ours that comes before this one holds places in a target where this one does."""
        mine, gangs = contends(self.gangs.state(stream), self.gangs.counts(stream)), self.gangs
        rank = rank_of(gangs.state(stream), gangs.counts(stream))
        return any(
            mine & contends(other, gangs.counts(name)) and rank_of(other, gangs.counts(name)) < rank
            for name, other in gangs.groups.items()
            if name != stream
        )

    def resting_on(self, cluster: str, now: datetime) -> int:
        """Return how many pods wait for an answer from a target that is away, in which they were permitted to run, or
        do."""
        return sum(self._rests_on(stream, state, cluster, now) for stream, state in self.sources.items())

    def _rests_on(self, stream: str, state: SourceState, cluster: str, now: datetime) -> bool:
        if not any(
            known.cluster == cluster and known.may_run and not known.excused for known in state.candidates.values()
        ):
            return False
        context = self.context(stream, state)
        until = context.lost_until(cluster)
        return not context.forgotten(cluster) and (until is None or now < until)

    # --- what is open ------------------------------------------------------------------------------------------------

    def _writes(self, stream: str) -> SourceState | None:
        return self.sources.get(stream)

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        """Return the refs of the bodies that `request` needs."""
        decision = self._decision(write)
        return render.bodies_needed(decision) if decision is not None else []

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return the request that carries a write out, or None if what it was decided on is gone."""
        decision = self._decision(write)
        if decision is None:
            return None
        try:
            return render.render(self.sources[write.stream], decision, bodies, self.policy, now, self.who_we_are())
        except Obsolete:
            return None

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        """Return the Kubernetes Event that tells of a write: a pod that cannot be placed, or was, learns why."""
        decision, state = self._decision(write), self.sources.get(write.stream)
        if not isinstance(decision, StatusShown) or state is None or state.pod is None:
            return None
        told = news(state.pod, decision)
        if told is None:
            return None
        kind, reason, note = told
        ref, suffix = ObjectRef(PODS, state.namespace, state.name), f"{write.position:x}"
        return event_about(ref, state.pod.uid, kind, reason, note, suffix, self.identity, now)
