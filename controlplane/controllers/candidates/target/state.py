"""The fold of one candidate in its target: what the source said, what the scheduler holds, what became of the Pod.

In: the events of `candidate/NS/NAME`, in order. Out: `TargetState`, a value. What a node has given away is read from
these states alone, so a scheduler that starts anew holds what it held."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target import events
from controlplane.controllers.candidates.target.amendment import Made, amended, made_of
from controlplane.kube.conditions import Condition
from controlplane.kube.well_known import ENDED_PHASES
from controlplane.log.event import Recorded
from controlplane.runtime.streams import Folded, StreamFold, StreamFolds, streams_of
from controlplane.runtime.writes import OpenWrites, WriteFailure, closed, dropped, is_late, opened, refused

STREAM = "candidate"
_TRIES = 3  # to set a condition that are remembered beside the last
_FIRST_PAUSE, _DOUBLINGS = timedelta(seconds=1), 4  # between bindings that are refused: up to sixteen seconds
_replace = msgspec.structs.replace


class TargetState(OpenWrites[events.TargetWrite, WriteFailure], StreamFold):
    """A candidate, its Pod and its open writes.

    `leaving`: it is being deleted, and cannot be read. `agreed`: what its source says of readiness gates that the Pod
    has said too, `ours`: by type, what of them was set on the Pod or may have been, the newest last. `admitted_at`: the
    position of the event by which it was admitted. `reservations` counts them; `held` is the one that is held now.
    `permit` is the last permit that was read for it. `binding` is a binding that may be on its way (`bind_failed`:
    nobody confirmed it), `bound` the one that was made; `bind_failures` counts those that were not confirmed one after
    the other, and none is begun before `bind_after`; `missing`: its Pod is gone and had not ended. `withdrawn` is what
    was acknowledged, `tried` the last permit to preempt that was used up. `sequence` counts the changes of the bound
    Pod's status. `told` is the scheduler's last answer, if it found nothing. `fenced` is the UID of the Pod that was
    touched last, so that no older binding is made; `said` is the number of the last status that was told."""

    namespace: str
    name: str
    version: int = 0
    position: int = 0
    seen: events.CandidateObserved | None = None
    leaving: events.UnreadCandidateDeleted | None = None
    agreed: list[Condition] = []
    ours: Mapping[str, list[Condition]] = {}
    admitted: bool = False
    admitted_at: int = 0
    refused: events.Refused | None = None
    pod: events.CandidatePodObserved | None = None
    reservations: int = 0
    held: events.Reserved | None = None
    unreserved: events.Unreserved | None = None
    told: events.NotSchedulable | None = None
    permit: events.PermitSeen | None = None
    withdrawn: int = 0
    tried: int = 0
    binding: events.BindStarted | None = None
    bind_failed: bool = False
    bind_failures: int = 0
    bind_after: datetime | None = None
    bound: events.Bound | None = None
    missing: bool = False
    sequence: int = 0
    pod_status: str = ""
    pod_phase: str = ""
    made: Made | None = None
    amendment: events.AmendmentRefused | None = None
    follows: list[str] = []
    fenced: str = ""
    said: int = 0

    @property
    def settled(self) -> bool:
        """Whether nothing more can come of it."""
        return self.seen is None and self.leaving is None and self.pod is None and not self.effects

    @property
    def unfenced(self) -> bool:
        """Whether a binding may be on its way that the log does not know, since it was lost or put back: the Candidate
        has a permit for what it says is reserved, and nothing was ever said of that here."""
        seen, pod = self.seen, self.pod
        permit = seen.permit if seen is not None else None
        if seen is None or pod is None or permit is None or permit.kind != "Bind":
            return False
        known = (self.held, self.binding, self.bound, self.told, self.unreserved)
        if any(one is not None for one in known) or permit.reservation != seen.reported.reservation:
            return False
        return self.fenced != pod.uid or POD in self.effects

    @property
    def node(self) -> str:
        """The node on which something is taken for it: reserved, on its way or bound; "" if none is.

        A Pod that has ended takes nothing any more, and one that is gone neither.
        """
        if self.bound is not None:
            return "" if self.missing or self.pod_phase in ENDED_PHASES else self.bound.node
        if self.binding is not None:
            return self.binding.node
        return self.held.node if self.held is not None else ""


candidate_stream = streams_of(STREAM)
"""The stream of a candidate in its target."""


def target_fold(state: TargetState, recorded: Recorded) -> TargetState:
    """Return the state after one more event of the stream."""
    after = _folded(state.folded_to(recorded), recorded)
    seen, pod = after.seen, after.pod
    if after.made is not None or seen is None or pod is None or seen.changeable is None:
        return after
    # The log went back to before it was made. What it agrees with is what it was made of, or was changed to since.
    agrees = pod.owner == seen.uid and pod.template == seen.template
    return _replace(after, made=made_of(seen, pod.template)) if agrees else after


def _folded(state: TargetState, recorded: Recorded) -> TargetState:
    event = recorded.event
    match event:
        case events.CandidateObserved():
            return _fold_candidate(state, event)
        case events.UnreadCandidateDeleted():
            return _fold_leaving(state, event)
        case events.CandidateVanished():
            if event.uid not in (one.uid for one in (state.seen, state.leaving) if one is not None):
                return state
            return _replace(closed(state, CANDIDATE), seen=None, leaving=None, held=None, admitted=False)
        case events.CandidatePodObserved() | events.CandidatePodGone():
            return _fold_pod(state, event)
        case events.TargetWriteFailed() | events.TargetWriteUnneeded() if is_late(state, event.target, recorded):
            return state
        case events.TargetWriteFailed():
            return refused(state, event)
        case events.TargetWriteUnneeded():
            return closed(state, event.target)
        case events.TargetWrite():
            return _fold_write(opened(state, event, recorded), event)
        case _:
            return _fold_answer(state, recorded)


CANDIDATE, POD = f"{events.HERE}/{events.StatusReported.WHAT}", f"{events.HERE}/{events.PodMade.WHAT}"
AMENDMENT = f"{events.HERE}/{events.PodAmended.WHAT}"
GATES = f"{events.HERE}/{events.PodGatesSet.WHAT}"


def _fold_write(state: TargetState, decision: events.TargetWrite) -> TargetState:
    match decision:
        case events.BindStarted():
            return _replace(state, binding=decision, bind_failed=False)
        case events.StatusReported():
            return _replace(state, said=max(state.said, decision.reported.sequence))
        case events.PodFenced():
            return _replace(state, fenced=decision.uid)
        case events.PodGatesSet():
            newest = {one.type: [*state.ours.get(one.type, [])[-_TRIES:], one] for one in decision.conditions}
            return _replace(state, ours={**state.ours, **newest})
        case events.PodMade():
            return _replace(state, made=made_of(state.seen, decision.template), amendment=None)
        case events.PodAmended() if state.made is not None:
            return _replace(state, made=amended(state.made, state.seen, state.pod))
        case _:
            return state


def _fold_answer(state: TargetState, recorded: Recorded) -> TargetState:
    event = recorded.event
    match event:
        case events.Admitted():
            return _replace(state, admitted=True, admitted_at=recorded.position, refused=None)
        case events.Refused():
            return _replace(state, admitted=False, refused=event)
        case events.FollowingAllowed():
            return _replace(state, follows=event.kinds)
        case events.AmendmentRefused():
            return _replace(state, amendment=event)
        case events.Reserved():
            state = _replace(state, tried=max(state.tried, _preempt_permit(state)))
            return _replace(state, reservations=event.number, held=event, told=None, unreserved=None, permit=None)
        case events.NotSchedulable():
            return _replace(state, told=event, tried=max(state.tried, event.tried))
        case events.Unreserved() if state.held is not None and state.held.number == event.number:
            return _replace(state, held=None, permit=None, unreserved=event)
        case events.PermitSeen():
            return _replace(state, permit=event)
        case events.BindFailed() if state.binding is not None and state.binding.number == event.number:
            return _fold_bind_failed(dropped(state, POD), recorded.recorded_at)
        case events.Bound():
            state = _unbound(dropped(state, POD))
            return _replace(state, bound=event, held=None, permit=None, bind_failures=0, bind_after=None)
        case events.Withdrawn():
            return _replace(state, withdrawn=max(state.withdrawn, event.number))
        case _:
            return state


def _fold_bind_failed(state: TargetState, at: datetime) -> TargetState:
    """Note that nobody confirmed a binding. After the first such answer, which may only have been lost, the permit is
    used again at once; after others it is taken note of anew when a pause is over, as kube-scheduler lets a pod back
    off."""
    state = _replace(state, bind_failed=True, bind_failures=state.bind_failures + 1)
    if state.bind_failures == 1:
        return state
    pause = _FIRST_PAUSE * 2 ** min(state.bind_failures - 2, _DOUBLINGS)
    return _replace(state, permit=None, bind_after=at + pause)


def _unbound(state: TargetState) -> TargetState:
    return _replace(state, binding=None, bind_failed=False)


def _preempt_permit(state: TargetState) -> int:
    """Return the number of the permit to preempt that a node answers, which is then used up; 0 if there is none."""
    permit = state.seen.permit if state.seen is not None else None
    return permit.number if permit is not None and permit.kind == "Preempt" else 0


def _fold_leaving(state: TargetState, event: events.UnreadCandidateDeleted) -> TargetState:
    state, before = _replace(closed(state, CANDIDATE), leaving=event), state.seen
    if before is None:
        return state
    if before.uid != event.uid:
        return _replace(state, seen=None, held=None, admitted=False)
    told: dict[str, Any] = {"deleting": True, "resource_version": event.resource_version}
    return _replace(state, seen=_replace(before, finalizers=event.finalizers, **told))


def _fold_candidate(state: TargetState, seen: events.CandidateObserved) -> TargetState:
    before, state = state.seen, _replace(state, leaving=None)
    if before is None and not state.reservations:
        # A new candidate has reserved nothing. One that a backup brought back has, and old permits must not be for what
        # is reserved now.
        state = _replace(state, reservations=seen.reported.reservation)
    state = closed(state, CANDIDATE)
    if before is not None and before.uid != seen.uid:
        # Another object of the same name. What was permitted to the one before is not permitted to it.
        state = TargetState(
            namespace=state.namespace,
            name=state.name,
            version=state.version,
            position=state.position,
            pod=state.pod,
            effects=state.effects,
            made=state.made,
        )
    told = seen.reported
    # A log that was lost, or put back, knows of fewer reservations, withdrawals and statuses than it has told.
    state = _replace(
        state,
        seen=seen,
        reservations=max(state.reservations, told.reservation),
        withdrawn=max(state.withdrawn, told.acknowledged),
        tried=max(state.tried, told.tried),
    )
    if told.sequence <= state.said:
        return state
    # The source shows none of a lower number.
    news = state.pod_status not in ("", seen.pod_status)
    return _replace(state, said=told.sequence, sequence=max(state.sequence, told.sequence) + news)


def _fold_pod(state: TargetState, event: events.CandidatePodObserved | events.CandidatePodGone) -> TargetState:
    if isinstance(event, events.CandidatePodGone):
        return _fold_pod_gone(state, event)
    state = closed(closed(closed(state, POD), AMENDMENT), GATES)
    state = _replace(state, agreed=_agreed(state, event), ours=_ours(state, event))
    if state.binding is not None and not event.node and _moved_on(state.binding, event):
        # The binding named the version before this one: it cannot be made any more.
        state = _unbound(state)
    if event.status != state.pod_status and event.node and not event.stopped:
        state = _replace(state, sequence=state.sequence + 1, pod_status=event.status, pod_phase=event.phase)
    if state.bound is not None and state.pod_phase not in ENDED_PHASES:
        # What was bound stays bound, unless the cluster goes back to a backup: from before that, or from when it was
        # not yet gone.
        state = _replace(state, missing=(event.uid, event.node) != (state.bound.uid, state.bound.node))
    return _replace(state, pod=event, amendment=_unfollowed(state.amendment, event))


def _agreed(state: TargetState, pod: events.CandidatePodObserved) -> list[Condition]:
    """Return what the source says of readiness gates that the Pod says, or has said before."""
    wanted = state.seen.gates if state.seen is not None else []
    before = state.agreed if state.pod is not None and state.pod.uid == pod.uid else []
    return [one for one in wanted if one in pod.gates or one in before]


def _ours(state: TargetState, pod: events.CandidatePodObserved) -> Mapping[str, list[Condition]]:
    """Return what was set of the Pod's readiness gates, or may have been: what shows it has, and nothing older."""
    before = state.ours if state.pod is not None and state.pod.uid == pod.uid else {}
    wanted = state.seen.gates if state.seen is not None else []
    return {**before, **{one.type: [one] for one in wanted if one in pod.gates}}


def _unfollowed(
    said: events.AmendmentRefused | None, pod: events.CandidatePodObserved
) -> events.AmendmentRefused | None:
    """Return what was said of a change that the Pod does not follow; None once it does."""
    if said is None or (said.template == pod.template and said.reason != TargetReason.CANNOT_BE_CHANGED):
        return None
    return said


def _fold_pod_gone(state: TargetState, event: events.CandidatePodGone) -> TargetState:
    if state.pod is not None and state.pod.uid != event.uid:
        return state
    state = closed(closed(closed(state, POD), AMENDMENT), GATES)
    state = _replace(_unbound(state), pod=None, bind_failures=0, bind_after=None)
    ours = state.bound is not None and state.bound.uid == event.uid
    return _replace(state, missing=True) if ours and state.pod_phase not in ENDED_PHASES else state


def _moved_on(binding: events.BindStarted, pod: events.CandidatePodObserved) -> bool:
    return binding.uid != pod.uid or binding.resource_version != pod.resource_version


FOLDS: StreamFolds = {STREAM: Folded(TargetState.initial, target_fold)}
