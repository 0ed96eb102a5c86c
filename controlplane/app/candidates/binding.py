"""Decides about candidates for the scheduling loop: a cycle's findings in the terms of the protocol with their source.

In: what the loop found or asks. Out: the protocol's own answers
(`controlplane.controllers.candidates.target.controller`), on the candidate's stream; and on the pod's stream what its
condition is to say, so that the target's autoscaler and its people see why it waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target.calls import waits_for_node
from controlplane.controllers.candidates.target.causes import CAUSES
from controlplane.controllers.candidates.target.controller import TargetController
from controlplane.controllers.candidates.target.events import BindStarted, NotSchedulable
from controlplane.controllers.candidates.target.state import TargetState
from controlplane.controllers.scheduling.binding.pod_scheduling import OwnPods
from controlplane.controllers.scheduling.binding.protocol import (
    BindingRequests,
    DroppedReservation,
    ProposedAppend,
    Score,
    way_of,
)
from controlplane.controllers.scheduling.events import NodeReserved, ReservationDropped, SchedulingFailed, request_of
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.render import scheduled
from controlplane.controllers.scheduling.state import PodState, pod_stream
from controlplane.kube.kinds import PODS, ObjectRef, Request
from controlplane.log.event import NewEvent
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite
from controlplane.runtime.facets import newest

_PATIENCE = 60.0
_REASONS = {
    SchedulingReason.NODE_GONE: TargetReason.NODE_GONE,
    SchedulingReason.PREEMPTED: TargetReason.PREEMPTED,
    SchedulingReason.PERMIT_REFUSED: TargetReason.NO_NODE,
    SchedulingReason.PRE_BIND_FAILED: TargetReason.BIND_FAILED,
}


class Targets(TargetController):
    """The target side, which says on a candidate's Pod what kube-scheduler would say: the Event `Scheduled`. `takes`:
    whether candidates are this scheduler's; of those of another one nothing is recorded."""

    identity = ""
    takes = True

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of something seen on this cluster; None if it concerns nobody here."""
        return super().observe(change, now) if self.takes else None

    def open_writes(self, stream: str) -> Sequence[OpenWrite]:
        """Return the open writes of a stream; none of candidates that are another one's by now."""
        return super().open_writes(stream) if self.takes else ()

    def is_open(self, write: OpenWrite) -> bool:
        """Whether a write is still to be carried out."""
        return self.takes and super().is_open(write)

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        """Return the Event of a binding."""
        decision, state = self._decision(write), self.candidates.get(write.stream)
        if not isinstance(decision, BindStarted) or state is None:
            return None
        ref = ObjectRef(PODS, state.namespace, state.name)
        scheduler, suffix = self.policy.scheduler_name, str(write.position)
        return scheduled(ref, decision.uid, decision.node, scheduler, self.identity, suffix, now)

    def since(self, stream: str) -> int:
        """Return the position of the event that what the scheduler finds for a candidate rests on."""
        return newest(self._marks.of(stream), CAUSES[NotSchedulable][TargetReason.NO_NODE])


class CandidateBinding:
    """Decides about candidates' Pods.

    What a plugin wants to write before the binding is recorded on the Pod's own stream, as for any pod, under the
    number of the candidate's reservation; it begins once the source permits the binding. If that takes longer than the
    permit holds, the reservation lapses as ever, and the next one finds what was done.

    While a Permit plugin waits, the node is taken in memory alone, and the source hears nothing: it may permit what is
    reported as reserved, and a member of a gang is not, before all of it has a place. A leader that dies forgets such a
    place, which nobody knew of."""

    asks_others = True

    def __init__(self, targets: Targets, placements: OwnPods) -> None:
        self._targets, self._placements = targets, placements
        self._kept: dict[str, _Kept] = {}
        self._refused: dict[str, frozenset[str]] = {}

    def streams(self) -> Iterable[str]:
        """Return all streams that there are."""
        return list(self._targets.candidates)

    def identity(self, stream: str) -> str:
        """Return the Pod's UID, "" if there is none."""
        state = self._state(stream)
        return state.pod.uid if state is not None and state.pod is not None else ""

    def version(self, stream: str) -> int:
        """Return the version of the stream as it is folded."""
        state = self._state(stream)
        return state.version if state is not None else 0

    def waits(self, stream: str) -> bool:
        """Whether a cycle may look for a node."""
        state = self._state(stream)
        return self._targets.takes and state is not None and waits_for_node(state)

    def taken(self, stream: str) -> str:
        """Return the node that is reserved, being bound, or bound."""
        state = self._state(stream)
        if state is None or not self._targets.takes:
            self._kept.pop(stream, None)
            return ""
        kept = self._kept.get(stream)
        if kept is not None and (state.node or not waits_for_node(state) or kept.uid != self.identity(stream)):
            del self._kept[stream]
            kept = None
        return state.node or (kept.node if kept is not None else "")

    def awaits(self, stream: str, plugin: str) -> datetime | None:
        """Return until when a Permit plugin waits, so that the node is taken in memory alone; None if it does not."""
        return self._kept[stream].waits.get(plugin) if self.taken(stream) and stream in self._kept else None

    def firm(self, stream: str) -> bool:
        """Whether the binding may be on its way or is made."""
        state = self._state(stream)
        return state is not None and (state.binding is not None or state.bound is not None)

    def dropped(self, stream: str) -> DroppedReservation:
        """Return the Permit plugin that gave a place back; else nobody: it was its time, its source or its node."""
        return DroppedReservation(self._refused.pop(stream, frozenset()))

    def may_bind(self, stream: str, now: datetime) -> bool:
        """Whether the source permits it, and no Permit plugin waits any more."""
        return self._targets.takes and stream not in self._kept and self._targets.may_bind(stream, now)

    def may_preempt(self, stream: str, now: datetime) -> bool:
        """Whether the source permits to evict others for it."""
        return self._targets.takes and self._targets.may_preempt(stream, now)

    def urged(self, stream: str, now: datetime) -> bool:
        """Whether a permit to evict others waits to be used: it holds for a while only."""
        return self.may_preempt(stream, now)

    def found(
        self, stream: str, node: str, score: Score, waits: Mapping[str, datetime], now: datetime
    ) -> ProposedAppend:
        """Reserve a node, and let the source know; or keep it until the others of a gang have theirs."""
        if waits and self.waits(stream):
            self._kept[stream] = _Kept(self.identity(stream), node, score, dict(waits), now)
            return ProposedAppend(kept=True)
        return self._reserve(stream, node, score, now)

    def go_on(self, stream: str, way: BindingRequests, now: datetime) -> ProposedAppend:
        """Begin the binding under the source's permit, or what comes before it."""
        if not way.pre_bind and way.timeout is None:
            return _answer(stream, self._targets.bind(stream, now))
        state, own = self._state(stream), self._own(stream)
        if state is None or state.held is None or own is None or own.pod is None:
            return ProposedAppend()
        number, last = state.held.number, own.dropped
        if own.held is None and last is not None and last.number == number:
            return self.drop(stream, SchedulingReason.PRE_BIND_FAILED, last.message, "")
        reserved = NodeReserved(
            number=number,
            node=state.held.node,
            uid=own.pod.uid,
            score=state.held.score,
            reason=SchedulingReason.NODE_FOUND,
        )
        place = pod_stream(state.namespace, state.name)
        patient = (
            way._replace(timeout=_PATIENCE) if way.timeout is None else way
        )  # the binding is the protocol's to begin
        events = [reserved, way_of(place, reserved, patient, now)]
        return ProposedAppend(self._placements.said(place, *events), {place: own.version})

    def decided(self, stream: str) -> tuple[Request, ...]:
        """Return what was decided to be written before the binding, under the reservation that is held."""
        own = self._own(stream)
        first = own.pre_bind if own is not None and self.begun(stream) else None
        return tuple(request_of(call) for call in first.calls) if first is not None else ()

    def begun(self, stream: str) -> bool:
        """Whether what comes before the binding was decided."""
        state, own = self._state(stream), self._own(stream)
        if state is None or state.held is None or own is None or own.held is None:
            return False
        return own.pre_bind is not None and own.held.number == state.held.number

    def prepares(self, stream: str) -> bool:
        """Whether all of that is written, and what has to come of it is waited for."""
        own = self._own(stream)
        return own is not None and own.prepares and self.begun(stream)

    def bind(self, stream: str, now: datetime) -> ProposedAppend:
        """Begin the binding, if the source's permit still holds."""
        return _answer(stream, self._targets.bind(stream, now))

    def given_back(self, stream: str) -> ProposedAppend:
        """Say on the Pod's stream too that its reservation is over."""
        own = self._own(stream)
        if own is None or own.held is None or own.pre_bind is None or own.binding is not None:
            return ProposedAppend()
        place = pod_stream(own.namespace, own.name)
        event = ReservationDropped(number=own.held.number, reason=SchedulingReason.PERMIT_REFUSED)
        return ProposedAppend(self._placements.said(place, event), {place: own.version})

    def elsewhere(self, stream: str) -> str:
        """Return "": the candidate's stream is where it is decided."""
        return ""

    def tells(self, stream: str) -> bool:
        """Whether the Pod's status is being written, or was and does not show so yet."""
        own = self._own(stream)
        return own is not None and self._placements.tells(pod_stream(own.namespace, own.name))

    def not_found(
        self, stream: str, failed: SchedulingFailed, now: datetime, *, preemptable: bool, making_room: bool = False
    ) -> ProposedAppend:
        """Tell the source, and the Pod."""
        told = self._targets.not_schedulable(
            stream, failed.message, now, preemptable=preemptable, making_room=making_room
        )
        answer = _answer(stream, told)
        state = self._state(stream)
        own = pod_stream(state.namespace, state.name) if state is not None else ""
        known = self._placements.states.get(own)
        if known is None or (known.told is not None and known.told.says == failed.says):
            return answer
        return ProposedAppend(
            [*answer.events, *self._placements.said(own, failed)], {**answer.expected, own: known.version}
        )

    def permit(self, stream: str, plugin: str, now: datetime, *, siblings: int = 0) -> ProposedAppend:
        """Reserve the node that was kept, and let the source know: its permit comes after that."""
        kept = self._kept.get(stream)
        if kept is None or plugin not in kept.waits:
            return ProposedAppend()
        others = {one: until for one, until in kept.waits.items() if one != plugin}
        if others:
            self._kept[stream] = kept._replace(waits=others)
            return ProposedAppend(kept=True)
        return self._reserve(stream, kept.node, kept.score, now)

    def since(self, stream: str) -> int:
        """Return the position of the event that what is found for a candidate rests on."""
        return self._targets.since(stream)

    def drop(self, stream: str, reason: SchedulingReason, message: str, plugin: str) -> ProposedAppend:
        """Give the reservation back, and let the source know."""
        kept = self._kept.pop(stream, None)
        if kept is not None:
            self._refused[stream] = frozenset({plugin} if plugin else ())
            return _answer(stream, self._targets.not_schedulable(stream, message, kept.since, preemptable=False))
        target_reason = _REASONS.get(reason, TargetReason.NO_NODE)
        return _answer(stream, self._targets.must_unreserve(stream, target_reason, message))

    def _reserve(self, stream: str, node: str, score: Score, now: datetime) -> ProposedAppend:
        scores, feasible = dict(score.parts), score.feasible
        said = self._targets.reserved(stream, node, score.total, now, scores=scores, feasible=feasible)
        return _answer(stream, said)

    def _state(self, stream: str) -> TargetState | None:
        return self._targets.candidates.get(stream)

    def _own(self, stream: str) -> PodState | None:
        state = self._state(stream)
        return self._placements.states.get(pod_stream(state.namespace, state.name)) if state is not None else None


class _Kept(NamedTuple):
    """A node that is taken for a candidate of which its source does not know yet."""

    uid: str
    node: str
    score: Score
    waits: Mapping[str, datetime]
    since: datetime


def _answer(stream: str, decided: Decided) -> ProposedAppend:
    return ProposedAppend(decided.events, {stream: decided.version}) if decided.events else ProposedAppend()
