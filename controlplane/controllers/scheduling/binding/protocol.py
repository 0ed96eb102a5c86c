"""Defines what the scheduling loop asks about a pod that needs a node, whoever decides about it: for a plain pod its
own stream, for a candidate the protocol with its source.

In: a stream, and what a cycle found. Out: the events to append, with the versions that they were decided on; nothing if
the pod does not want it any more. `Plain` is the first sort; candidates' own is at the root, which sees both
controllers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from controlplane.controllers.scheduling.binding.pod_scheduling import OwnPods
from controlplane.controllers.scheduling.events import (
    BindingDecided,
    NodeReserved,
    PermitGiven,
    PreBindDecided,
    ReservationDropped,
    SchedulingFailed,
    Woken,
    call_of,
    request_of,
)
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.render import binding
from controlplane.kube.kinds import PODS, ObjectRef, Request
from controlplane.log.event import Event, NewEvent
from controlplane.runtime.streams import object_of

CANDIDATE_STREAM = "candidate"  # a Candidate and its Pod have one name


class ProposedAppend(NamedTuple):
    """Events to be appended together, if the streams are still at the versions of `expected`; no events: it is not
    wanted.

    `kept`: nothing is to be recorded yet, but the node is taken all the same.
    """

    events: Sequence[NewEvent] = ()
    expected: Mapping[str, int] = {}
    kept: bool = False


class DroppedReservation(NamedTuple):
    """Why the last reservation was given up: by which Permit plugins, or by an error (none)."""

    plugins: frozenset[str] = frozenset()


class BindingRequests(NamedTuple):
    """What is to be written once everyone permits: the requests before the binding, and the binding that a plugin asks
    for.

    `timeout`: the seconds granted for what has to come of the first; None if the binding follows at once.
    """

    pre_bind: Sequence[Request]
    bind: Request
    timeout: float | None = None


class Score(NamedTuple):
    """The total of the chosen node, its parts by plugin, among how many feasible nodes, and how the pod came to this
    cycle.
    """

    total: int
    parts: Mapping[str, int] = {}
    feasible: int = 0
    attempt: int = 0
    woken: Woken | None = None


class BindingProtocol(Protocol):
    """One sort of pods. Every method takes the pod's stream. `asks_others`: somebody elsewhere has to permit each
    binding.
    """

    asks_others: bool

    def streams(self) -> Iterable[str]:
        """Return all streams that there are."""

    def identity(self, stream: str) -> str:
        """Return the pod's UID, "" if there is none."""

    def version(self, stream: str) -> int:
        """Return the version of the stream as it is folded."""

    def waits(self, stream: str) -> bool:
        """Whether a cycle may look for a node."""

    def taken(self, stream: str) -> str:
        """Return the node that the log says is taken for the pod, "" if none is."""

    def firm(self, stream: str) -> bool:
        """Whether the binding may be on its way, so that the node cannot be given back."""

    def dropped(self, stream: str) -> DroppedReservation:
        """Return why the last reservation was given up."""

    def awaits(self, stream: str, plugin: str) -> datetime | None:
        """Return until when the pod, which has a node, waits for this Permit plugin; None if it does not."""

    def may_bind(self, stream: str, now: datetime) -> bool:
        """Whether everyone who is asked through the log permits the binding now."""

    def may_preempt(self, stream: str, now: datetime) -> bool:
        """Whether others may be evicted for the pod."""

    def urged(self, stream: str, now: datetime) -> bool:
        """Whether the pod has to be tried now, whatever refused it last: it was allowed what it was not before."""

    def found(
        self, stream: str, node: str, score: Score, waits: Mapping[str, datetime], now: datetime
    ) -> ProposedAppend:
        """Reserve a node; `waits`: until when each Permit plugin waits."""

    def go_on(self, stream: str, way: BindingRequests, now: datetime) -> ProposedAppend:
        """Begin the binding, or what comes before it."""

    def decided(self, stream: str) -> tuple[Request, ...]:
        """Return what was decided to be written before the binding."""

    def begun(self, stream: str) -> bool:
        """Whether what comes before the binding was decided, so that everyone has permitted it."""

    def prepares(self, stream: str) -> bool:
        """Whether all of that is written, and what has to come of it is waited for."""

    def bind(self, stream: str, now: datetime) -> ProposedAppend:
        """Begin the binding: what it waited for is there."""

    def given_back(self, stream: str) -> ProposedAppend:
        """Record what else ends with a reservation that was given back."""

    def elsewhere(self, stream: str) -> str:
        """Return the stream on which a pod is decided about, if it is not this one; else ""."""

    def tells(self, stream: str) -> bool:
        """Whether the pod's status is being written, or was and does not show so yet."""

    def not_found(
        self, stream: str, failed: SchedulingFailed, now: datetime, *, preemptable: bool, making_room: bool = False
    ) -> ProposedAppend:
        """Say why there is no node, if that is news. `making_room`: there may be one once those who are evicted for it
        have stopped.
        """

    def permit(self, stream: str, plugin: str, now: datetime, *, siblings: int = 0) -> ProposedAppend:
        """Say that a Permit plugin lets the pod go on; `siblings` is the position of the event with which enough of its
        gang had a node.
        """

    def since(self, stream: str) -> int:
        """Return the position of the event with which the pod came to wait for a node, to have one, or to be let go;
        0 if none is known.
        """

    def drop(self, stream: str, reason: SchedulingReason, message: str, plugin: str) -> ProposedAppend:
        """Give the reservation back."""


class Plain:
    """Decides about plain pods."""

    asks_others = False

    def __init__(self, placements: OwnPods) -> None:
        self._placements = placements

    def streams(self) -> Iterable[str]:
        """Return all streams that there are."""
        return list(self._placements.states)

    def identity(self, stream: str) -> str:
        """Return the pod's UID, "" for a pod that is a Candidate's."""
        state = self._placements.states.get(stream)
        return state.pod.uid if state is not None and state.pod is not None and not state.pod.candidate else ""

    def version(self, stream: str) -> int:
        """Return the version of the stream as it is folded."""
        state = self._placements.states.get(stream)
        return state.version if state is not None else 0

    def waits(self, stream: str) -> bool:
        """Whether a cycle may look for a node."""
        state = self._placements.states.get(stream)
        return state is not None and state.waits_for_node

    def taken(self, stream: str) -> str:
        """Return the node that the log says is taken for the pod."""
        state = self._placements.states.get(stream)
        return state.node if state is not None else ""

    def firm(self, stream: str) -> bool:
        """Whether the binding may be on its way. What comes before it takes nothing that could not be given back."""
        state = self._placements.states.get(stream)
        return state is not None and state.binding is not None

    def dropped(self, stream: str) -> DroppedReservation:
        """Return why the last reservation was given up."""
        state = self._placements.states.get(stream)
        last = state.dropped if state is not None else None
        return DroppedReservation(frozenset({last.plugin}) if last is not None and last.plugin else frozenset())

    def awaits(self, stream: str, plugin: str) -> datetime | None:
        """Return until when the pod waits for this Permit plugin, as the log has it; None if it does not."""
        state = self._placements.states.get(stream)
        held = state.held if state is not None else None
        return (
            held.waits.get(plugin) if state is not None and held is not None and plugin not in state.allowed else None
        )

    def may_bind(self, stream: str, now: datetime) -> bool:
        """Whether every Permit plugin has let the pod go on, and nothing is under way yet."""
        state = self._placements.states.get(stream)
        return state is not None and state.permitted and state.pre_bind is None and state.binding is None

    def may_preempt(self, stream: str, now: datetime) -> bool:
        """Always: the pod's preemptionPolicy is the plugin's to look at."""
        return True

    def urged(self, stream: str, now: datetime) -> bool:
        """Never: a plain pod may always do what it may."""
        return False

    def found(
        self, stream: str, node: str, score: Score, waits: Mapping[str, datetime], now: datetime
    ) -> ProposedAppend:
        """Reserve a node."""
        state = self._placements.states.get(stream)
        if state is None or state.pod is None or not state.waits_for_node:
            return ProposedAppend()
        event = NodeReserved(
            number=state.reservations + 1,
            node=node,
            uid=state.pod.uid,
            score=score.total,
            waits=dict(waits),
            scores=dict(score.parts),
            feasible=score.feasible,
            attempt=score.attempt,
            woken=score.woken,
            reason=SchedulingReason.NODE_FOUND,
        )
        return self._said(stream, event)

    def bound_at_once(
        self, stream: str, reserved: ProposedAppend, way: BindingRequests, now: datetime
    ) -> ProposedAppend:
        """Return a reservation together with the beginning of the binding: where nobody waits, one append does for
        both.
        """
        event = reserved.events[0].event
        assert isinstance(event, NodeReserved)
        more = way_of(stream, event, way, now)
        begun = NewEvent(stream=stream, event=more, caused_by=reserved.events[0].caused_by)
        return ProposedAppend([*reserved.events, begun], reserved.expected)

    def go_on(self, stream: str, way: BindingRequests, now: datetime) -> ProposedAppend:
        """Begin the binding, or what comes before it."""
        state = self._placements.states.get(stream)
        if state is None or state.held is None or not self.may_bind(stream, now):
            return ProposedAppend()
        return self._said(stream, way_of(stream, state.held, way, now))

    def decided(self, stream: str) -> tuple[Request, ...]:
        """Return what was decided to be written before the binding."""
        state = self._placements.states.get(stream)
        first = state.pre_bind if state is not None else None
        return tuple(request_of(call) for call in first.calls) if first is not None else ()

    def begun(self, stream: str) -> bool:
        """Whether what comes before the binding was decided."""
        state = self._placements.states.get(stream)
        return state is not None and state.pre_bind is not None

    def prepares(self, stream: str) -> bool:
        """Whether all of that is written, and what has to come of it is waited for."""
        state = self._placements.states.get(stream)
        return state is not None and state.prepares

    def given_back(self, stream: str) -> ProposedAppend:
        """Record nothing: what hangs on a reservation ends with it."""
        return ProposedAppend()

    def elsewhere(self, stream: str) -> str:
        """Return the stream of the Candidate whose Pod this is."""
        state = self._placements.states.get(stream)
        ours = state is not None and state.pod is not None and state.pod.candidate
        return f"{CANDIDATE_STREAM}/{stream.partition('/')[2]}" if ours else ""

    def tells(self, stream: str) -> bool:
        """Whether the pod's status is being written, or was and does not show so yet."""
        return self._placements.tells(stream)

    def bind(self, stream: str, now: datetime) -> ProposedAppend:
        """Begin the binding: what it waited for is there."""
        state = self._placements.states.get(stream)
        if state is None or state.held is None or state.pre_bind is None or not state.prepares:
            return ProposedAppend()
        held, own = state.held, state.pre_bind.bind
        reason = SchedulingReason.BIND
        event = BindingDecided(number=held.number, node=held.node, uid=held.uid, call=own, reason=reason)
        return self._said(stream, event)

    def not_found(
        self, stream: str, failed: SchedulingFailed, now: datetime, *, preemptable: bool, making_room: bool = False
    ) -> ProposedAppend:
        """Say why there is no node, if that is news."""
        state = self._placements.states.get(stream)
        if state is None or state.pod is None or state.held is not None:
            return ProposedAppend()
        if state.told is not None and state.told.says == failed.says:
            return ProposedAppend()
        return self._said(stream, failed)

    def permit(self, stream: str, plugin: str, now: datetime, *, siblings: int = 0) -> ProposedAppend:
        """Say that a Permit plugin lets the pod go on."""
        state = self._placements.states.get(stream)
        held = state.held if state is not None else None
        if state is None or held is None or plugin not in held.waits or plugin in state.allowed:
            return ProposedAppend()
        event = PermitGiven(number=held.number, plugin=plugin, reason=SchedulingReason.PERMITTED)
        return self._said(stream, event, siblings=siblings)

    def since(self, stream: str) -> int:
        """Return the position of the event with which the pod came to wait for a node, to have one, or to be let go."""
        return self._placements.since(stream)

    def drop(self, stream: str, reason: SchedulingReason, message: str, plugin: str) -> ProposedAppend:
        """Give the reservation back; nothing if the binding may be on its way."""
        state = self._placements.states.get(stream)
        if state is None or state.held is None or self.firm(stream):
            return ProposedAppend()
        events: list[Event] = [
            ReservationDropped(number=state.held.number, reason=reason, message=message, plugin=plugin)
        ]
        if reason is SchedulingReason.PRE_BIND_FAILED:
            events.append(SchedulingFailed(reason=SchedulingReason.SCHEDULER_ERROR, message=message))
        elif plugin:
            told = SchedulingReason.UNSCHEDULABLE
            events.append(SchedulingFailed(reason=told, message=message, plugins=[plugin]))
        return self._said(stream, *events)

    def _said(self, stream: str, *events: Event, **others: int) -> ProposedAppend:
        version = self._placements.states[stream].version
        return ProposedAppend(self._placements.said(stream, *events, **others), {stream: version})


def way_of(stream: str, held: NodeReserved, way: BindingRequests, now: datetime) -> PreBindDecided | BindingDecided:
    """Return what begins the way to the binding of a pod (its stream) that holds a node."""
    usual = binding(ObjectRef(PODS, *object_of(stream)), held.uid, held.node)
    own = None if way.bind == usual else call_of(way.bind)
    if way.pre_bind or way.timeout is not None:
        calls = [call_of(request) for request in way.pre_bind]
        until = now + timedelta(seconds=way.timeout) if way.timeout is not None else None
        return PreBindDecided(number=held.number, calls=calls, bind=own, until=until, reason=SchedulingReason.PRE_BIND)
    return BindingDecided(number=held.number, node=held.node, uid=held.uid, call=own, reason=SchedulingReason.BIND)
