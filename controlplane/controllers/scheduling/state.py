"""Folds a scheduler's events: one pod on its way to a node, and one pod that is evicted.

In: the events of `pod/NS/NAME` and `victim/NS/NAME`, in order. Out: `PodState` and `VictimState`, values. Which node is
taken for a pod that the watch does not show there yet is read from these states alone, so a scheduler that starts anew
holds what it held."""

from __future__ import annotations

import msgspec

from controlplane.controllers.scheduling import events
from controlplane.log.event import Recorded
from controlplane.runtime.streams import StreamFold, streams_of
from controlplane.runtime.writes import OpenWrites, WriteFailure, closed, dropped, is_late, opened, refused

POD_STREAM, VICTIM_STREAM, GANG_STREAM = "pod", "victim", "gang"
BINDING, STATUS = f"{events.HERE}/{events.BindingDecided.WHAT}", f"{events.HERE}/{events.PodStatusDecided.WHAT}"
PRE_BIND = f"{events.HERE}/{events.PreBindDecided.WHAT}"
MARK, REMOVAL = f"{events.HERE}/{events.VictimMarkDecided.WHAT}", f"{events.HERE}/{events.VictimRemovalDecided.WHAT}"
_replace = msgspec.structs.replace
# What an API server answers to a write that names a pod's UID if that pod is not there, or another one has its name. It
# ends an eviction, and nothing else: whoever needs the room chooses again among the pods that there are.
_NOT_THERE = frozenset({404, 409})


class StreamState(OpenWrites[events.SchedulingWrite, WriteFailure], StreamFold):
    """What the states of all streams have: which object they are about, how far they are folded, their open writes."""

    namespace: str
    name: str
    version: int = 0
    position: int = 0

    @property
    def settled(self) -> bool:
        """Whether nothing more can come of it."""
        raise NotImplementedError


class PodState(StreamState):
    """A pod and what was decided about it.

    `held` is the reservation, `allowed` the Permit plugins that have let it go on, `pre_bound` how many requests before
    the binding are done; `binding` may be on its way (`unsure`: the API server did not confirm it). `dropped` is the
    last reservation that was given up, `told` the last failure to find a node, without the nodes' names: nothing is
    decided by them."""

    pod: events.PendingPodObserved | None = None
    reservations: int = 0
    held: events.NodeReserved | None = None
    allowed: frozenset[str] = frozenset()
    pre_bind: events.PreBindDecided | None = None
    pre_bound: int = 0
    binding: events.BindingDecided | None = None
    unsure: bool = False
    dropped: events.ReservationDropped | None = None
    told: events.SchedulingFailed | None = None

    @property
    def settled(self) -> bool:
        """Whether nothing more can come of it: it is gone, or on its node."""
        return self.pod is None or bool(self.pod.node)

    @property
    def node(self) -> str:
        """The node that is taken for it before the watch shows it there; "" if none is."""
        return self.held.node if self.held is not None else ""

    @property
    def waits_for_node(self) -> bool:
        """Whether a cycle may look for a node for it."""
        pod = self.pod
        if pod is None or pod.candidate or pod.deleting or pod.over or pod.node or pod.problem:
            return False
        return self.held is None

    @property
    def prepares(self) -> bool:
        """Whether everything that comes before the binding is written, and what has to come of it is waited for."""
        first = self.pre_bind
        if first is None or first.until is None or self.binding is not None:
            return False
        return self.pre_bound >= len(first.calls)

    @property
    def permitted(self) -> bool:
        """Whether no Permit plugin holds it back any more."""
        return self.held is not None and self.allowed >= self.held.waits.keys()


class VictimState(StreamState):
    """A pod that is evicted: for whom, and how far it is."""

    chosen: events.VictimChosen | None = None
    marked: bool = False

    @property
    def settled(self) -> bool:
        """Whether nothing is left to do."""
        return self.chosen is None


pod_stream = streams_of(POD_STREAM)
"""The stream of a pod."""


victim_stream = streams_of(VICTIM_STREAM)
"""The stream of a pod that is evicted."""


gang_stream = streams_of(GANG_STREAM)
"""The stream of what is said of a PodGroup."""


def pod_fold(state: PodState, recorded: Recorded) -> PodState:
    """Return the state after one more event of the stream."""
    event, state = recorded.event, state.folded_to(recorded)
    match event:
        case events.PendingPodObserved():
            return _observed(state, event)
        case events.PendingPodGone():
            return _gone(state) if state.pod is not None and state.pod.uid == event.uid else state
        case events.NodeReserved():
            return _replace(
                _released(state), reservations=event.number, held=event, dropped=None, told=None, trouble={}
            )
        case events.PermitGiven() if state.held is not None and state.held.number == event.number:
            return _replace(state, allowed=state.allowed | {event.plugin})
        case events.ReservationDropped() if state.held is not None and state.held.number == event.number:
            return _replace(_released(state), dropped=event)
        case events.PreBindSeen() if state.pre_bind is not None and state.pre_bind.number == event.number:
            return _next_call(state, event.index + 1, recorded)
        case events.SchedulingFailed():
            return _replace(state, told=_replace(event, nodes={}) if event.nodes else event)
        case events.SchedulingWriteFailed() | events.SchedulingWriteUnneeded() if is_late(
            state, event.target, recorded
        ):
            return state
        case events.SchedulingWriteFailed():
            return _refused(state, event)
        case events.SchedulingWriteUnneeded():
            return closed(state, event.target)
        case events.SchedulingWrite():
            return _opened(state, event, recorded)
        case _:
            return state


def _observed(state: PodState, pod: events.PendingPodObserved) -> PodState:
    before = state.pod
    if before is not None and before.uid != pod.uid:
        state = _replace(_gone(state), told=None, dropped=None)
    told, effect = state.told, state.effects.get(STATUS)
    if before is not None and before.nominated != pod.nominated and effect is None and told is not None:
        told = _replace(told, nominated=pod.nominated)  # somebody else's word: it stands until the next failure
    state = _replace(state, pod=pod, told=told)
    if pod.node:
        return _replace(_released(state), told=None)
    if effect is not None and shows(pod, effect.decision):
        return closed(state, STATUS)
    return state


def shows(pod: events.PendingPodObserved, decision: events.SchedulingWrite) -> bool:
    """Whether a pod's status says already what was decided to say."""
    if not isinstance(decision, events.PodStatusDecided):
        return False
    return pod.nominated == decision.nominated and said(pod) == (decision.said, decision.message)


def said(pod: events.PendingPodObserved) -> tuple[str, str]:
    """Return reason and message of PodScheduled=False, two empty strings if the pod does not say so."""
    known = pod.scheduled
    return (known.reason, known.message) if known is not None and known.status == "False" else ("", "")


def _gone(state: PodState) -> PodState:
    return _replace(_released(state), pod=None, effects={}, trouble={})


def _released(state: PodState) -> PodState:
    """Return the state without a reservation and what hangs on it."""
    state = closed(closed(state, BINDING), PRE_BIND)
    return _replace(state, held=None, allowed=frozenset(), pre_bind=None, pre_bound=0, binding=None, unsure=False)


def _opened(state: PodState, decision: events.SchedulingWrite, recorded: Recorded) -> PodState:
    if isinstance(decision, events.PreBindDecided):
        return _next_call(_replace(state, pre_bind=decision), 0, recorded)
    if isinstance(decision, events.BindingDecided):
        state = _replace(state, binding=decision, unsure=False)
    return opened(state, decision, recorded)


def _next_call(state: PodState, index: int, recorded: Recorded) -> PodState:
    decision = state.pre_bind
    assert decision is not None
    state = _replace(closed(state, PRE_BIND), pre_bound=index)
    return state if index >= len(decision.calls) else opened(state, decision, recorded)


def _refused(state: PodState, event: events.SchedulingWriteFailed) -> PodState:
    unsure = event.target == BINDING and state.binding is not None
    return _replace(refused(state, event), unsure=unsure or state.unsure)


def victim_fold(state: VictimState, recorded: Recorded) -> VictimState:
    """Return the state after one more event of the stream."""
    event, state = recorded.event, state.folded_to(recorded)
    match event:
        case events.VictimChosen():
            return _replace(state, chosen=event, marked=False, effects={}, trouble={})
        case events.VictimGone() if state.chosen is not None and state.chosen.uid == event.uid:
            return _replace(state, chosen=None, effects={}, trouble={})
        case events.VictimSeen() if state.chosen is not None and state.chosen.uid == event.uid:
            return _victim_seen(state, event)
        case events.SchedulingWriteFailed() | events.SchedulingWriteUnneeded() if is_late(
            state, event.target, recorded
        ):
            return state
        case events.SchedulingWriteFailed() if event.code in _NOT_THERE:
            return _replace(state, chosen=None, effects={}, trouble={})
        case events.SchedulingWriteFailed():
            return refused(state, event)
        case events.SchedulingWriteUnneeded():
            return _replace(dropped(state, event.target), marked=state.marked or event.target == MARK)
        case events.SchedulingWrite():
            return opened(state, event, recorded)
        case _:
            return state


def _victim_seen(state: VictimState, event: events.VictimSeen) -> VictimState:
    """A victim that is being deleted is its kubelet's business from then on."""
    if event.terminating:
        return _replace(state, chosen=None, effects={}, trouble={})
    return _replace(dropped(state, MARK), marked=True) if event.marked else state
