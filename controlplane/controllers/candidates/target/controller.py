"""All candidates of one target in memory, as the scheduler's own log says it: a `Capability`, and the calls of the
scheduling cycle.

In: events in the log's order, and what the scheduler finds. Out: decisions and requests; for the scheduler the pods
that wait for a node, what is taken on which node, and who may be bound or may preempt now. A call returns events to be
appended with the stream's version; only when they are in the log does the scheduler act on them. Nothing is remembered
beside the log, so a restart forgets no reservation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from controlplane.controllers.candidates.objects import CANDIDATE_SOURCES, CANDIDATES, PODS
from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target import calls as calls
from controlplane.controllers.candidates.target import events
from controlplane.controllers.candidates.target.bounds import TakenCandidates
from controlplane.controllers.candidates.target.causes import CANDIDATE, CAUSES, said
from controlplane.controllers.candidates.target.decide import TargetContext, TargetPolicy, target_decide
from controlplane.controllers.candidates.target.observe import observe
from controlplane.controllers.candidates.target.render import target_bodies, target_render
from controlplane.controllers.candidates.target.state import STREAM, TargetState, candidate_stream, target_fold
from controlplane.controllers.candidates.target.unread import UnreadCandidateObjects
from controlplane.controllers.connectivity.events import ClusterConnected, ClusterRestored, KindSynced
from controlplane.kube.candidate_pods import is_candidates
from controlplane.kube.kinds import Request, meta
from controlplane.kube.requests import Obsolete
from controlplane.log.event import Event, NewEvent, Recorded, Unknown
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite, WriteRefusal
from controlplane.runtime.facets import Ledger, cause_of, causes_of
from controlplane.runtime.observations import forget
from controlplane.runtime.writes import WritingController

_LISTED = frozenset({PODS.name, CANDIDATES.name, CANDIDATE_SOURCES.name})


class TargetController(WritingController[events.TargetWrite]):
    """The target side's states. `ready` is set by the process once Candidates, Pods and invitations are listed."""

    types: Sequence[type[Event]] = events.TARGET_EVENTS
    FAILED, UNNEEDED = events.TargetWriteFailed, events.TargetWriteUnneeded

    def __init__(self, policy: TargetPolicy) -> None:
        self.policy = policy
        self.ready = False
        self.priority_classes: frozenset[str] | None = None
        self.candidates: dict[str, TargetState] = {}
        self.invitations: dict[str, events.InvitationObserved] = {}
        self._marks: Ledger[TargetState] = Ledger("it", CANDIDATE)
        self._around: dict[str, int] = {}  # since when a namespace has its invitations, and as many candidates
        self._taken = TakenCandidates()
        self._pods: set[str] = set()  # by UID: seen, and not folded as gone
        self.unread = UnreadCandidateObjects()
        self._unlisted: frozenset[str] = frozenset()  # of a cluster that went back: what is not listed since
        self._dirty: dict[str, None] = {}

    # --- the capability ----------------------------------------------------------------------------------------------

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of something seen on this cluster; None if it concerns nobody."""
        new = observe(change, now)
        if new is None:
            return None
        if isinstance(new.event, events.CandidatePodObserved):
            self._pods.add(new.event.uid)
        if isinstance(new.event, events.CandidatePodGone):
            # Pods of all sorts share one watch. That the stream is unknown says nothing: what was seen just now may not
            # be folded yet.
            ours = new.event.uid in self._pods or is_candidates(meta(change.object))
            return new if ours or new.stream in self.candidates else None
        return new

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        stream, event = recorded.stream, recorded.event
        kind = stream.partition("/")[0]
        self._fold_unread(recorded)
        if kind == "cluster":
            self._fold_lists(event)
        elif kind == "invitation":
            if isinstance(event, events.InvitationObserved):
                self.invitations[stream] = event
            elif isinstance(event, events.InvitationGone):
                forget(self.invitations, stream, event)
            self._around[f"invitation/{stream.split('/')[1]}"] = recorded.position
            self.touch_all()
        elif kind == STREAM:
            self._fold_candidate(recorded)

    def _fold_candidate(self, recorded: Recorded) -> None:
        stream, event = recorded.stream, recorded.event
        if isinstance(event, events.CandidatePodObserved):
            self._pods.add(event.uid)
        elif isinstance(event, events.CandidatePodGone):
            self._pods.discard(event.uid)
        before = self.candidates.get(stream)
        after = target_fold(before or TargetState.initial(stream), recorded)
        self._marks.note(stream, before, after, recorded.position)
        self._taken.note(stream, after)
        if (before is not None and before.admitted) != after.admitted:
            self._around[f"others/{after.namespace}"] = recorded.position
            # There may be room for one of those that were too many.
            self._dirty.update(dict.fromkeys(() if after.admitted else self._taken.surplus(after.namespace)))
        if after.settled:
            self.candidates.pop(stream, None)
            self._marks.forget(stream)
            self._around.pop(f"unread/{stream}", None)
        else:
            self.candidates[stream] = after
        self._dirty[stream] = None

    def _fold_unread(self, recorded: Recorded) -> None:
        """Take a refusal, or what may end one, and ask again about whom the object concerns."""
        if (refusal := self.unread.fold(recorded)) is None:
            return
        position = recorded.position
        if refusal.kind == CANDIDATE_SOURCES.name:
            self._around[f"invitation/{refusal.namespace}"] = position
            self.touch_all()
            return
        stream = candidate_stream(refusal.namespace, refusal.name)
        if stream in self.candidates:
            self._around[f"unread/{stream}"] = position
            self._dirty[stream] = None

    def _fold_lists(self, event: Event | Unknown) -> None:
        """Note which kinds are known as they are: whether a Candidate's Pod has stopped shows only when both are listed
        again.
        """
        before = self._unlisted
        if isinstance(event, ClusterRestored):
            self._unlisted = _LISTED
        elif isinstance(event, ClusterConnected):
            self._unlisted -= set(event.kinds)
        elif isinstance(event, KindSynced):
            self._unlisted -= {event.kind}
        if before and not self._unlisted:
            self.touch_all()

    def touch_all(self) -> None:
        """Ask about every candidate again."""
        self._dirty.update(dict.fromkeys(self.candidates))

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call."""
        dirty, self._dirty = list(self._dirty), {}
        return dirty

    def _context(self, stream: str, state: TargetState) -> TargetContext:
        invitations = [known for known in self.invitations.values() if known.namespace == state.namespace]
        return TargetContext(
            policy=self.policy,
            ready=self.ready and not self._unlisted,
            invitations=sorted(invitations, key=lambda known: known.name),
            before=self._taken.before(stream, state),
            priority_classes=self.priority_classes,
            unread_candidate=self.unread.candidate(state.namespace, state.name) if state.seen is None else None,
            unread_pod=self.unread.pod(state.namespace, state.name) if state.pod is None else None,
            unread_invitations=self.unread.invitations(state.namespace),
        )

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what follows for a stream."""
        state = self.candidates.get(stream)
        if state is None:
            return Decided()
        plan = target_decide(state, self._context(stream, state), now)
        return Decided(self._events(stream, state, plan.decisions), state.version, plan.wake)

    def _events(self, stream: str, state: TargetState, decisions: Sequence[Event]) -> list[NewEvent]:
        bounded = any(known.most for known in self.invitations.values() if known.namespace == state.namespace)
        names = ("invitation", "others") if bounded else ("invitation",)
        around = {name: self._around.get(f"{name}/{state.namespace}", 0) for name in names}
        around["unread"] = self._around.get(f"unread/{stream}", 0)
        causes = causes_of(
            decisions,
            {**self._marks.of(stream), **around},
            lambda event, own: cause_of(CAUSES, event, own, {}) or state.position,
            said,
        )
        return [NewEvent(stream=stream, event=one, caused_by=at) for one, at in zip(decisions, causes, strict=True)]

    def _writes(self, stream: str) -> TargetState | None:
        return self.candidates.get(stream)

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        """Return the refs of the bodies that `request` needs."""
        decision = self._decision(write)
        return target_bodies(self.candidates[write.stream], decision) if decision is not None else []

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return the request that carries a write out; None if what it was decided on is gone, or its lease is too near
        its end.
        """
        decision = self._decision(write)
        if decision is None:
            return None
        try:
            return target_render(self.candidates[write.stream], decision, bodies, self.policy, now)
        except Obsolete:
            return None

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        """Return nothing: the scheduler tells of what it finds, and the source of what became of it."""
        return None

    def failed(self, write: OpenWrite, failure: WriteRefusal, now: datetime) -> NewEvent:
        """Return the event that records the API server's no. Of a binding, that alone says nothing: it is found out."""
        state = self.candidates.get(write.stream)
        if write.action == events.BindStarted.__name__ and state is not None:
            unsure = calls.bind_failed(state, f"{failure.code} {failure.error}: {failure.message}")
            if unsure is not None:
                return NewEvent(stream=write.stream, event=unsure, cluster=write.cluster, caused_by=write.position)
        return super().failed(write, failure, now)

    def known(self, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind: UID to (namespace, name, resourceVersion)."""
        states = self.candidates.values()
        unread = self.unread.seen(kind)
        if kind == CANDIDATES.name:
            return unread | {
                one.uid: (s.namespace, s.name, one.resource_version) for s in states if (one := s.seen or s.leaving)
            }
        if kind == PODS.name:
            return unread | {
                s.pod.uid: (s.namespace, s.name, s.pod.resource_version) for s in states if s.pod is not None
            }
        return unread | {i.uid: (i.namespace, i.name, i.resource_version) for i in self.invitations.values()}

    # --- the calls of the scheduling cycle ---------------------------------------------------------------------------

    def waiting(self) -> list[str]:
        """Return the streams of the candidates whose Pods wait for a node."""
        return [stream for stream, state in self.candidates.items() if calls.waits_for_node(state)]

    def taken(self) -> dict[str, str]:
        """Return the node on which something is taken, by stream: reserved, on its way or bound. The assumed pods of a
        new process.
        """
        return {stream: state.node for stream, state in self.candidates.items() if state.node}

    def reserved(
        self,
        stream: str,
        node: str,
        score: int,
        now: datetime,
        *,
        scores: Mapping[str, int] | None = None,
        feasible: int = 0,
    ) -> Decided:
        """Say that a node was reserved, by `scores` of the plugins among so many feasible ones; nothing comes back if
        the candidate does not wait for one any more."""
        state = self.candidates.get(stream)
        event = calls.reserved(state, self.policy, node, score, now) if state else None
        if event is not None and (scores or feasible):
            event = msgspec.structs.replace(event, scores=dict(scores or {}), feasible=feasible)
        return self._said(stream, state, event)

    def not_schedulable(
        self, stream: str, message: str, now: datetime, *, preemptable: bool = False, making_room: bool = False
    ) -> Decided:
        """Say that no node was found; `preemptable`: one would be if pods of lower priority went; `making_room`: they
        are going.
        """
        state = self.candidates.get(stream)
        event = None
        if state is not None:
            event = calls.not_schedulable(
                state, self.policy, message, now, preemptable=preemptable, making_room=making_room
            )
        return self._said(stream, state, event)

    def must_unreserve(self, stream: str, reason: TargetReason, message: str = "") -> Decided:
        """Say that a reservation has to be given up (its node is gone, a more important pod needs it); nothing if it is
        being bound.
        """
        state = self.candidates.get(stream)
        number = state.held.number if state is not None and state.held is not None else 0
        return self._said(stream, state, calls.unreserved(state, number, reason, message) if state else None)

    def may_preempt(self, stream: str, now: datetime) -> bool:
        """Whether pods may be preempted for a candidate now: only under a permit that says so."""
        state = self.candidates.get(stream)
        return state is not None and calls.may_preempt(state, self.policy, now) > 0

    def may_bind(self, stream: str, now: datetime) -> bool:
        """Whether a candidate may be bound now."""
        state = self.candidates.get(stream)
        return state is not None and calls.bind_order(state, self.policy, now) is not None

    def bind(self, stream: str, now: datetime) -> Decided:
        """Begin the binding, once PreBind is through: the event is the write, which the executors carry out."""
        state = self.candidates.get(stream)
        return self._said(stream, state, calls.bind_order(state, self.policy, now) if state else None)

    def _said(self, stream: str, state: TargetState | None, event: Event | None) -> Decided:
        if state is None or event is None:
            return Decided()
        return Decided(self._events(stream, state, [event]), state.version)
