"""Keeps what the log says of the pods that a scheduler has to place and of those that it evicts: two controllers of the
loop.

In: events in the log's order, and what the API server shows. Out: which streams to decide about, what was decided, what
an open write looks like; for the scheduling loop the states. They remember nothing beside the log, but what they
recorded last of each pod."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from controlplane.controllers.scheduling.causes import CAUSES, POD, STANDING, VICTIM, said
from controlplane.controllers.scheduling.decide import SchedulingPlan, decide_pod, decide_victim
from controlplane.controllers.scheduling.events import (
    SCHEDULING_EVENTS,
    PendingPodGone,
    PendingPodObserved,
    PreBindSeen,
    SchedulingWrite,
    SchedulingWriteFailed,
    SchedulingWriteUnneeded,
    VictimGone,
    VictimSeen,
)
from controlplane.controllers.scheduling.observe import news, pending_pod
from controlplane.controllers.scheduling.render import render_pod, render_victim, tell_pod, tell_victim
from controlplane.controllers.scheduling.state import (
    PRE_BIND,
    STATUS,
    PodState,
    StreamState,
    VictimState,
    pod_fold,
    pod_stream,
    victim_fold,
)
from controlplane.kube.kinds import PODS, STRATEGIC_PATCH, Json, Request, meta, version_number
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite
from controlplane.runtime.facets import Parts, cause_of, causes_of, newest
from controlplane.runtime.writes import WritingController

S = TypeVar("S", bound=StreamState)
Place = tuple[str, str, str]
"""Kind, namespace and name of an object."""


class StreamController(WritingController[SchedulingWrite], Generic[S]):
    """Keeps the states of one sort of stream, and answers what is asked of every controller alike."""

    types: Sequence[type[Event]] = SCHEDULING_EVENTS
    FAILED, UNNEEDED = SchedulingWriteFailed, SchedulingWriteUnneeded
    PARTS: ClassVar[Parts]

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.states: dict[str, S] = {}
        self._positions: dict[str, dict[str, int]] = {}
        self._dirty: dict[str, None] = {}

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call."""
        dirty, self._dirty = list(self._dirty), {}
        return dirty

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        """Return nothing: a scheduler's writes are small."""
        return ()

    def _writes(self, stream: str) -> S | None:
        return self.states.get(stream)

    def said(self, stream: str, *events: Event, **others: int) -> list[NewEvent]:
        """Return events that are decided together about a stream, each with the event that it rests on. `others` are
        positions of other streams' events that they may rest on, by their name in the table."""
        state = self.states[stream]
        positions = self._positions.get(stream, {})
        causes = causes_of(
            events,
            positions | others if others else positions,
            lambda event, own: cause_of(CAUSES, event, own, {}) or state.position,
            said,
        )
        return [NewEvent(stream=stream, event=one, caused_by=cause) for one, cause in zip(events, causes, strict=True)]

    def _decided(self, stream: str, plan: SchedulingPlan) -> Decided:
        return Decided(self.said(stream, *plan.decisions), self.states[stream].version, plan.wake)

    def _keep(self, stream: str, before: S, after: S) -> None:
        if after.settled:
            self.states.pop(stream, None)
            self._positions.pop(stream, None)
        else:
            positions = self._positions.get(stream)
            if positions is None:
                positions = self._positions[stream] = {}
            self.PARTS.note(positions, before, after, after.position)
            self.states[stream] = after
        self._dirty[stream] = None


class PodRules(NamedTuple, Generic[S]):
    """What follows from a state, how a write of it looks, and which Kubernetes Event tells of one."""

    decide: Callable[[S, datetime], SchedulingPlan]
    render: Callable[[S, SchedulingWrite, datetime], Request | None]
    tell: Callable[[S, SchedulingWrite, str, str, datetime], Request | None]


class PodStreamController(StreamController[S]):
    """The states of pods, by their rules."""

    RULES: ClassVar[PodRules[Any]]

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what follows for a pod."""
        state = self.states.get(stream)
        return self._decided(stream, self.RULES.decide(state, now)) if state is not None else Decided()

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return the request that carries a write out, None if there is nothing to do."""
        decision = self._decision(write)
        return self.RULES.render(self.states[write.stream], decision, now) if decision is not None else None

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        """Return the Kubernetes Event about a write."""
        decision = self._decision(write)
        if decision is None:
            return None
        told: Request | None = self.RULES.tell(
            self.states[write.stream], decision, self.identity, str(write.position), now
        )
        return told


class OwnPods(PodStreamController[PodState]):
    """The pods that are ours to schedule: those that name one of `profiles`."""

    PARTS = POD
    RULES = PodRules(decide_pod, render_pod, tell_pod)

    def __init__(self, profiles: Collection[str], identity: str) -> None:
        super().__init__(identity)
        self.profiles = frozenset(profiles)
        self.readable: Container[int] = ()  # the ids of objects that the view has read already
        self._shown: dict[str, tuple[str, PendingPodObserved]] = {}  # the last that was offered to the log, by UID
        self._offered: dict[str, list[str]] = {}  # the versions of those that are not folded yet: the log may lack them
        # What a request before a binding is about → the streams of the pods, several where they share it; and back.
        self._awaited: dict[Place, dict[str, None]] = {}
        self._awaits: dict[str, Place] = {}

    def observations(self, change: ObjectChange, now: datetime) -> Sequence[NewEvent]:
        """Return the events of something seen on the API server: what comes before a binding is there, of each pod that
        waited for it; and what is new of a pod of ours.
        """
        if change.unreadable:
            return ()  # the view reports it; what was known before holds
        own = self.observe(change, now) if change.kind == PODS else None
        awaited = self._awaited.get(_place(change), ()) if self._awaited else ()
        there = [seen for stream in awaited if (seen := self._pre_bind_seen(stream, change)) is not None]
        return there if own is None else [*there, own]

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of a pod that the API server showed; None if it says nothing new about one of ours."""
        uid = str(meta(change.object).get("uid", ""))
        stream, before = self._shown.get(uid, ("", None))
        if change.gone:
            if before is None:
                return None
            return change.observed(stream, PendingPodGone(uid=uid, resource_version=change.resource_version), now)
        readable = id(change.object) in self.readable
        found = pending_pod(change.object, change.resource_version, self.profiles, readable=readable)
        if found is None or not (news(before, found) or self._may_be_lost(uid, change)):
            return None
        stream = pod_stream(str(meta(change.object).get("namespace", "")), str(meta(change.object)["name"]))
        self._shown[uid] = (stream, found)
        if change.resource_version not in (offered := self._offered.setdefault(uid, [])):
            offered.append(change.resource_version)
        return change.observed(stream, found, now)

    def _may_be_lost(self, uid: str, change: ObjectChange) -> bool:
        """Whether what was offered to the log has to be offered again: it was taken back, or the watch was cut
        meanwhile. What the log has by then it knows."""
        offered = self._offered.get(uid)
        return offered is not None and (change.listed or change.resource_version in offered)

    def _pre_bind_seen(self, stream: str, change: ObjectChange) -> NewEvent | None:
        state = self.states.get(stream)
        first = state.pre_bind if state is not None else None
        if state is None or first is None or change.gone or state.pre_bound >= len(first.calls):
            return None
        call = first.calls[state.pre_bound]
        if call.uid not in ("", str(meta(change.object).get("uid", ""))) or not _holds(
            call.body, change.object, merging=call.content_type == STRATEGIC_PATCH
        ):
            return None
        event = PreBindSeen(number=first.number, index=state.pre_bound)
        return NewEvent(stream=stream, event=event, cluster=change.cluster)

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        stream, event = recorded.stream, recorded.event
        before = self.states.get(stream) or PodState.initial(stream)
        after = pod_fold(before, recorded)
        if isinstance(event, PendingPodObserved) and not event.node:
            known = self._shown.get(event.uid)
            if known is None or _older(known[1], event):
                self._shown[event.uid] = (stream, event)
            self._was_folded(event)
        elif isinstance(event, PendingPodObserved | PendingPodGone):
            self._shown.pop(event.uid, None)
            self._offered.pop(event.uid, None)
        self._await(stream, before, after)
        self._keep(stream, before, after)

    def overtakes(self, uid: str, ahead: Container[str]) -> bool:
        """Whether another pod was seen before this one and is not folded yet, unless it is decided about already."""
        for other in self._offered:
            if other == uid:
                break
            stream, shown = self._shown[other]
            if not shown.node and stream not in ahead:
                return True
        return False

    def _was_folded(self, event: PendingPodObserved) -> None:
        offered = self._offered.get(event.uid)
        if offered is None or event.resource_version not in offered:
            return
        if left := offered[offered.index(event.resource_version) + 1 :]:
            self._offered[event.uid] = left
        else:
            del self._offered[event.uid]

    @contextmanager
    def assumed(self, recorded: Recorded) -> Iterator[None]:
        """Have the state of a pod as if the first event of its stream were folded already."""
        stream, before = recorded.stream, PodState.initial(recorded.stream)
        after = self.states[stream] = pod_fold(before, recorded)
        self._positions[stream] = {}
        self.PARTS.note(self._positions[stream], before, after, recorded.position)
        try:
            yield
        finally:
            del self.states[stream], self._positions[stream]

    def _await(self, stream: str, before: PodState, after: PodState) -> None:
        if before.pre_bind is None and after.pre_bind is None:
            return
        if (place := self._awaits.pop(stream, None)) is not None:
            del self._awaited[place][stream]
            if not self._awaited[place]:
                del self._awaited[place]
        if after.pre_bind is not None and PRE_BIND in after.effects:
            call = after.pre_bind.calls[after.pre_bound]
            place = self._awaits[stream] = call.where.name, call.namespace, call.name
            self._awaited.setdefault(place, {})[stream] = None

    def since(self, stream: str) -> int:
        """Return the position of the event with which a pod came to wait for a node, to have one, or to be let go."""
        return newest(self._positions.get(stream, {}), STANDING)

    def tells(self, stream: str) -> bool:
        """Whether a pod's status is being written, or was and does not show so yet."""
        state = self.states.get(stream)
        return state is not None and STATUS in state.effects

    def known(self) -> dict[str, tuple[str, str, str]]:
        """Return the pods that the log knows: UID to (namespace, name, resourceVersion)."""
        pods = ((state, state.pod) for state in self.states.values())
        return {pod.uid: (state.namespace, state.name, pod.resource_version) for state, pod in pods if pod is not None}


class Evictions(PodStreamController[VictimState]):
    """The pods that have to go for others."""

    PARTS = VICTIM
    RULES = PodRules(decide_victim, render_victim, tell_victim)

    def __init__(self, identity: str) -> None:
        super().__init__(identity)
        self._streams: dict[str, str] = {}

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of a victim that changed or went."""
        uid = str(meta(change.object).get("uid", ""))
        stream = self._streams.get(uid) if change.kind == PODS else None
        if stream is None or change.unreadable:
            return None
        if change.gone:
            return change.observed(stream, VictimGone(uid=uid, resource_version=change.resource_version), now)
        event = VictimSeen(
            uid=uid,
            resource_version=change.resource_version,
            marked=_marked(change.object),
            terminating=bool(meta(change.object).get("deletionTimestamp")),
        )
        return change.observed(stream, event, now) if event.marked or event.terminating else None

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        stream = recorded.stream
        before = self.states.get(stream) or VictimState.initial(stream)
        after = victim_fold(before, recorded)
        if before.chosen is not None:
            self._streams.pop(before.chosen.uid, None)
        if after.chosen is not None:
            self._streams[after.chosen.uid] = stream
        self._keep(stream, before, after)

    def leaving(self, uid: str) -> bool:
        """Whether a pod is being evicted already."""
        return uid in self._streams

    def known(self) -> dict[str, tuple[str, str, str]]:
        """Return the victims that the log knows: UID to (namespace, name, no version)."""
        states = ((state, state.chosen) for state in self.states.values())
        return {chosen.uid: (state.namespace, state.name, "") for state, chosen in states if chosen is not None}


def _place(change: ObjectChange) -> Place:
    metadata = meta(change.object)
    return change.kind.name, str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _older(known: PendingPodObserved, event: PendingPodObserved) -> bool:
    """Whether what is known is older than an event: versions of one object count up."""
    one, other = known.resource_version, event.resource_version
    first, second = version_number(one), version_number(other)
    return first is not None and second is not None and first < second


def _marked(obj: Json) -> bool:
    status = obj.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return any(
        isinstance(c, dict) and c.get("type") == "DisruptionTarget" and c.get("status") == "True"
        for c in (conditions if isinstance(conditions, list) else ())
    )


def _holds(wanted: Any, found: Any, *, merging: bool = False) -> bool:
    """Whether an object shows everything that a patch, or a created object, asks for; `merging`: its lists are merged
    with what is there, as those of a strategic merge patch are.
    """
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            (key not in found) if value is None else _holds(value, found.get(key), merging=merging)
            for key, value in wanted.items()
        )
    if merging and isinstance(wanted, list):
        return isinstance(found, list) and all(
            any(_holds(one, other, merging=True) for other in found) for one in wanted
        )
    return bool(wanted == found)
