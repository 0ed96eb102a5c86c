"""The fold of one source pod: what is known of it, of its candidates everywhere, which permit is open, which writes
are.

In: the events of `sourcepod/NS/NAME`, in order. Out: `SourceState`, a value. Nothing else remembers a permit: whoever
leads next folds the same events and holds the same one. A write is open until its object is seen to change, or until an
API server said no."""

from __future__ import annotations

from datetime import datetime

import msgspec

from controlplane.controllers.candidates.objects import HINT_CLUSTER
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import events, observations
from controlplane.controllers.candidates.source.candidate import Candidate, Permit, ScaleUp, as_seen, writes_to
from controlplane.log.event import Recorded
from controlplane.runtime.streams import StreamFold, streams_of
from controlplane.runtime.writes import OpenWrites, WriteFailure, closed, is_late, opened, refused

STREAM = "sourcepod"


class SourceState(OpenWrites[events.CandidateWrite, WriteFailure], StreamFold):
    """A source pod, its candidates and its open writes.

    `uid` and `epoch` are those of the attempt under way (`electing`), `targets` its targets. `delegate` is the
    candidate that is bound. `permits` counts the permits ever granted on this stream, `failures` by target those of
    this pod that came to nothing. `shown` is the status last written, `over`: the pod has ended, or was ended by us.
    `refused` is why it could not be elected, for the version of the pod that it was said about. `scale_up` is whose
    autoscaler may add nodes for it, `scaled` how often each target's could. `committed`: the UID of the pod that is to
    be bound to a Node, `hinted`: that of the pod that was told where its delegate is, `hinted_to` the target that it
    was told last."""

    namespace: str
    name: str
    version: int = 0
    position: int = 0
    pod: observations.SourcePodObserved | None = None
    uid: str = ""
    epoch: int = 0
    electing: bool = False
    closed_by: str = ""
    targets: list[str] = []
    candidates: dict[str, Candidate] = {}
    permit: Permit | None = None
    permits: int = 0
    failures: dict[str, int] = {}
    delegate: str = ""
    shown: events.StatusShown | None = None
    refused: events.ElectionRefused | None = None
    dirty: bool = False
    scale_up: ScaleUp | None = None
    scaled: dict[str, int] = {}
    committed: str = ""
    hinted: str = ""
    hinted_to: str = ""

    @property
    def stays(self) -> bool:
        """Whether the pod is bound to a virtual Node, or may be: no other target gets it."""
        return self.pod is not None and (bool(self.pod.node) or self.committed == self.pod.uid)

    @property
    def next_permit(self) -> int:
        """The number of the next permit: above those of a log that was lost."""
        seen = (known.seen for known in self.candidates.values())
        return 1 + max([self.permits, *(max(one.permit, one.withdrawn) for one in seen if one is not None)])

    def next_epoch(self, uid: str) -> int:
        """Return the number of the next epoch of a pod: above those of a log that was lost."""
        return 1 + max([self.epoch, *(known.epoch for known in self.candidates.values() if known.uid == uid)])

    @property
    def settled(self) -> bool:
        """Whether nothing more can come of it: no pod, no candidate, no open write, and it was said."""
        return self.pod is None and not self.candidates and not self.effects and not self.dirty

    @property
    def chosen(self) -> Candidate | None:
        """The delegate, if there is one."""
        return self.candidates.get(self.delegate) if self.delegate else None


_replace = msgspec.structs.replace


source_stream = streams_of(STREAM)
"""The stream of the source pods of a name."""


def fold(state: SourceState, recorded: Recorded) -> SourceState:
    """Return the state after one more event of the stream."""
    event, state = recorded.event, state.folded_to(recorded)
    match event:
        case observations.SourcePodObserved():
            return _fold_pod(state, event)
        case observations.SourceDeleted():
            return _fold_deleted(state, event)
        case observations.CandidateSeen():
            return _fold_candidate(state, event, recorded)
        case observations.CandidateGone():
            return _fold_gone(state, event, recorded)
        case events.CandidateWriteFailed() | events.CandidateWriteUnneeded() if is_late(state, event.target, recorded):
            return state
        case events.CandidateWriteFailed():
            return refused(state, event)
        case events.CandidateWriteUnneeded():
            return closed(state, event.target)
        case events.CandidateWrite():
            return _fold_write(opened(state, event, recorded), event, recorded.recorded_at)
        case _:
            return _fold_decision(state, event)


def _fold_decision(state: SourceState, event: object) -> SourceState:
    match event:
        case events.Elected():
            same = state.uid == event.uid
            return _replace(
                state,
                uid=event.uid,
                epoch=event.epoch,
                electing=True,
                closed_by="",
                targets=event.targets,
                permit=None,
                delegate="",
                failures=state.failures if same else {},
                scale_up=None,
                scaled=state.scaled if same else {},
                refused=None,
                shown=state.shown if state.shown is not None and state.shown.uid == event.uid else None,
            )
        case events.PlacementFound():
            return _fold_found(state, event)
        case events.ElectionRefused():
            return _replace(state, refused=event)
        case events.RevokeAcked():
            return _fold_acked(state, event)
        case events.DelegateLost():
            failures = {**state.failures, event.cluster: state.failures.get(event.cluster, 0) + 1}
            state = _excuse(state, event.candidate, event.reason)
            state = _replace(state, delegate="", electing=False, closed_by=event.reason, failures=failures)
            return _without_shadows(state)
        case events.EpochClosed():
            permit = state.permit
            if permit is not None:
                state = _excuse(_without_permit_writes(state, permit.candidate), permit.candidate, event.reason)
            return _without_shadows(_replace(state, permit=None, delegate="", electing=False, closed_by=event.reason))
        case events.AutoscalerChosen():
            scaled = {**state.scaled, event.cluster: state.scaled.get(event.cluster, 0) + 1}
            return _replace(state, scale_up=ScaleUp(cluster=event.cluster, until=event.until), scaled=scaled)
        case events.CleanupDone():
            return _replace(state, dirty=False)
        case _:
            return state


def _fold_found(state: SourceState, event: events.PlacementFound) -> SourceState:
    """Go on with a placement as if the log had been there: with the delegate, or with the permit that may still be
    used."""
    known = state.candidates.get(event.candidate)
    if known is None:
        return state
    permit = Permit(
        cluster=event.cluster,
        candidate=event.candidate,
        number=event.number,
        kind="Bind",
        reservation=event.reservation,
        until=event.until,
        revoking=event.revoking,
    )
    on_node = event.bound and state.pod is not None and bool(state.pod.node)
    return _replace(
        state,
        uid=event.uid,
        epoch=event.epoch,
        electing=True,
        closed_by="",
        targets=event.targets,
        candidates={**state.candidates, event.candidate: _replace(known, may_run=True)},
        permit=None if event.bound else permit,
        permits=max(state.permits, event.number),
        delegate=event.candidate if event.bound else "",
        scale_up=None,
        refused=None,
        hinted=event.uid if event.bound else state.hinted,
        hinted_to=event.cluster if event.bound else state.hinted_to,
        committed=event.uid if on_node else state.committed,
    )


def _excuse(state: SourceState, name: str, reason: str) -> SourceState:
    """Go on without knowing what became of a candidate, or knowing that its pod is gone."""
    known = state.candidates.get(name)
    if known is None:
        return state
    # What has ended needs no excuse: if a backup revives it, it is waited for.
    ended = reason in (CandidateReason.POD_MISSING, CandidateReason.POD_REJECTED)
    known = _replace(known, may_run=known.may_run and not ended, excused=known.excused or not ended)
    return _without_shadows(_replace(state, candidates={**state.candidates, name: known}))


def _without_shadows(state: SourceState) -> SourceState:
    """Forget candidates that are nowhere: never seen, or seen to be gone, and not asked for any more."""
    kept = {name: known for name, known in state.candidates.items() if not known_to_be_gone(state, name)}
    return _replace(state, candidates=kept) if len(kept) != len(state.candidates) else state


def _fold_acked(state: SourceState, event: events.RevokeAcked) -> SourceState:
    permit = state.permit
    if permit is None or permit.number != event.number:
        return state
    known = state.candidates.get(permit.candidate)
    candidates = state.candidates
    if known is not None and permit.kind == "Bind" and event.reason != CandidateReason.TARGET_FORGOTTEN:
        candidates = {**candidates, permit.candidate: _replace(known, may_run=False)}
    failures = state.failures
    # A preemption that was done is no failure, whatever then comes of it; one in vain is, so that another target is
    # asked next.
    made = (
        event.reason == CandidateReason.ANSWERED
        and known is not None
        and isinstance(known.seen, observations.CandidateReserved)
    )
    if not made and event.reason != CandidateReason.ANOTHER_READY:
        failures = {**failures, permit.cluster: failures.get(permit.cluster, 0) + 1}
    state = _replace(state, permit=None, candidates=candidates, failures=failures)
    return _without_shadows(_without_permit_writes(state, permit.candidate))


def _without_permit_writes(state: SourceState, name: str) -> SourceState:
    """A permit that is dead is neither sent nor taken back any more: what is open of it would only be in the way of the
    next.
    """
    effects = {
        key: effect
        for key, effect in state.effects.items()
        if not (
            isinstance(effect.decision, (events.PermitGranted, events.PermitRevoked))
            and effect.decision.candidate == name
        )
    }
    return _replace(state, effects=effects) if len(effects) != len(state.effects) else state


def _fold_write(state: SourceState, decision: events.CandidateWrite, at: datetime) -> SourceState:
    match decision:
        case events.CandidateRequested():
            known = Candidate(
                cluster=decision.cluster, uid=decision.uid, epoch=decision.epoch, asked=True, waits_since=at
            )
            candidates = {decision.candidate: known, **state.candidates}
            return _replace(state, candidates=candidates, dirty=True)
        case events.PermitGranted():
            permit = Permit(
                cluster=decision.cluster,
                candidate=decision.candidate,
                number=decision.number,
                kind=decision.kind,
                reservation=decision.reservation,
                until=decision.until,
            )
            known = state.candidates[decision.candidate]
            if decision.kind == "Bind":
                known = _replace(known, may_run=True)
            return _replace(
                state,
                permit=permit,
                permits=max(state.permits, decision.number),
                candidates={**state.candidates, decision.candidate: known},
            )
        case events.PermitRevoked() if state.permit is not None and state.permit.number == decision.number:
            return _replace(state, permit=_replace(state.permit, revoking=True))
        case events.StatusShown():
            return _replace(state, shown=decision)
        case events.DelegateHinted():
            return _replace(state, hinted=decision.uid, hinted_to=decision.hints.get(HINT_CLUSTER, ""))
        case events.SourceBound():
            return _replace(state, committed=decision.uid)
        case _:
            return state


def _fold_pod(state: SourceState, seen: observations.SourcePodObserved) -> SourceState:
    before = state.pod
    state = _replace(_settled_to_pod(state), pod=seen, dirty=True)
    if before is not None and before.uid != seen.uid:
        return _end(state)
    return state


def _fold_deleted(state: SourceState, event: observations.SourceDeleted) -> SourceState:
    if state.pod is not None and state.pod.uid != event.uid:
        return state
    return _replace(_end(_settled_to_pod(state)), pod=None, dirty=True)


def _settled_to_pod(state: SourceState) -> SourceState:
    """The pod has changed: what was on its way to it has arrived, or names a version that is not there any more."""
    for key in events.TO_POD:
        state = closed(state, key)
    return state


def _end(state: SourceState) -> SourceState:
    """Nothing is wanted any more that was wanted for the pod before: creations that were not carried out are not to
    be.
    """
    asked = (events.CandidateRequested, events.CandidateAmended, events.ScaleUpSet, events.GatesSet)
    effects = {k: e for k, e in state.effects.items() if not isinstance(e.decision, asked)}
    return _without_shadows(
        _replace(
            state,
            electing=False,
            closed_by=CandidateReason.SOURCE_DELETED,
            permit=None,
            delegate="",
            effects=effects,
            refused=None,
        )
    )


def _fold_candidate(state: SourceState, seen: observations.CandidateSeen, recorded: Recorded) -> SourceState:
    name, cluster = seen.name, recorded.cluster
    for key in writes_to(cluster, name):
        state = closed(state, key)
    known = state.candidates.get(name)
    if known is None or known.cluster != cluster:
        known = Candidate(cluster=cluster, uid=seen.origin.uid, epoch=seen.origin.epoch)
    known = as_seen(known, seen, recorded.recorded_at)
    state = _replace(state, candidates={**state.candidates, name: known}, dirty=True)
    if isinstance(seen, observations.CandidateBound) and _is_winner(state, name, known) and state.permit is not None:
        return _replace(state, delegate=name, permit=None)
    return state


def _is_winner(state: SourceState, name: str, known: Candidate) -> bool:
    """Whether a bound candidate is the one that holds the open permit of the epoch under way."""
    permit = state.permit
    return (
        permit is not None
        and permit.kind == "Bind"
        and permit.candidate == name
        and not state.delegate
        and (known.uid, known.epoch) == (state.uid, state.epoch)
    )


def _fold_gone(state: SourceState, event: observations.CandidateGone, recorded: Recorded) -> SourceState:
    known = state.candidates.get(event.name)
    if known is None or known.cluster != recorded.cluster:
        return state
    if known.seen is not None and known.seen.uid != event.uid:
        return state
    for key in writes_to(recorded.cluster, event.name):
        state = closed(state, key)
    kept = {name: other for name, other in state.candidates.items() if name != event.name}
    if event.name == state.delegate or (state.permit is not None and state.permit.candidate == event.name):
        # Held in mind until it is decided what follows; without what was seen it is nowhere.
        kept[event.name] = _replace(known, seen=None, may_run=False, ready_since=None)
    return _replace(state, candidates=kept)


def known_to_be_gone(state: SourceState, name: str) -> bool:
    """Whether a candidate that was there, or asked for, is nowhere and will not come."""
    known = state.candidates.get(name)
    if known is None:
        return True
    return known.seen is None and f"{known.cluster}/{name}" not in state.effects


def dropping(state: SourceState, name: str) -> bool:
    """Whether a candidate's deletion is under way."""
    known = state.candidates.get(name)
    if known is None:
        return False
    effect = state.effects.get(f"{known.cluster}/{name}")
    deleting = known.seen is not None and known.seen.deleting
    return deleting or (effect is not None and isinstance(effect.decision, events.CandidateDropped))


def may_be_of_another(state: SourceState, known: Candidate) -> bool:
    """Whether a candidate may be of another cluster that has our name: it does not say that ours made it, this log did
    not ask for it, and its pod neither is here nor was the one that was elected for."""
    unmarked = known.seen is not None and known.seen.unmarked
    here = known.uid in (state.uid, state.pod.uid if state.pod is not None else "")
    return unmarked and not known.asked and not here
