"""The one permit of a source pod: who has it, how it ends, who gets the next.

In: a pass. Out: decisions. A permit ends by what its target says (acknowledged, un-reserved, gone), never by a guess
within an epoch: a lease that has run out tells that no binding *begins* any more, not that none was made. Only by
ending the epoch do we go on without an answer."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import lost_log
from controlplane.controllers.candidates.source.candidate import Candidate, Permit, unknown_permit
from controlplane.controllers.candidates.source.decision_pass import PodPass
from controlplane.controllers.candidates.source.events import (
    EpochClosed,
    PermitGranted,
    PermitKind,
    PermitRevoked,
    RevokeAcked,
)
from controlplane.controllers.candidates.source.observations import (
    CandidateBound,
    CandidateReserved,
    CandidateSeen,
    CandidateUnschedulable,
)
from controlplane.controllers.candidates.source.policy import PermitChoice, choose, preemptor
from controlplane.controllers.candidates.source.state import SourceState


def settle(pass_: PodPass) -> None:
    """Bring the open permit nearer to its end, if it has to end."""
    permit = pass_.permit
    if permit is None:
        return
    known = pass_.state.candidates.get(permit.candidate)
    seen = known.seen if known else None
    answer = _answer(pass_, permit, seen)
    if answer is not None:
        _acked(pass_, permit, answer)
    elif permit.kind == "Preempt":
        _settle_preemption(pass_, permit, seen)
    elif pass_.context.forgotten(permit.cluster):
        _outlive(pass_, CandidateReason.TARGET_FORGOTTEN)
    elif pass_.now >= permit.until:
        _ended(pass_, permit, seen)
    elif permit.revoking:
        _revoke(pass_, permit, seen, CandidateReason.LEASE_ENDED)
        pass_.wake_at(permit.until)
    elif pass_.context.gang is not None and pass_.context.gang.withdraws:
        _revoke(pass_, permit, seen, CandidateReason.GANG_INCOMPLETE)
        pass_.wake_at(permit.until)
    else:
        pass_.wake_at(permit.until)
        _resend(pass_, permit, seen)


def _answer(pass_: PodPass, permit: Permit, seen: CandidateSeen | None) -> CandidateReason | None:
    """Return by what the target has made the permit void, None if it has not."""
    if seen is None:
        # Gone, with its pod: the finalizer held it until then.
        return CandidateReason.CANDIDATE_GONE
    if permit.kind == "Preempt":
        return CandidateReason.ANSWERED if seen.tried >= permit.number or isinstance(seen, CandidateReserved) else None
    if isinstance(seen, CandidateBound):
        return None
    if seen.acknowledged >= permit.number:
        return CandidateReason.ACKNOWLEDGED
    if seen.reservation < permit.reservation:
        return None  # from before that reservation: its target went back to a backup, and will say what became of it
    holds = isinstance(seen, CandidateReserved) and seen.reservation == permit.reservation
    return None if holds else CandidateReason.UNRESERVED


def _acked(pass_: PodPass, permit: Permit, reason: CandidateReason) -> None:
    pass_.say(RevokeAcked(cluster=permit.cluster, candidate=permit.candidate, number=permit.number, reason=reason))
    pass_.acked = True  # who is next is decided when this is in the log


def _settle_preemption(pass_: PodPass, permit: Permit, seen: CandidateSeen | None) -> None:
    """A permit to make room binds nobody, so it ends at once when another is ready, or with its lease.

    A gang needs more than one that is ready: its own decision says when it is (`gang_decide`).
    """
    if pass_.context.gang is None and any(offer.cluster != permit.cluster for offer in pass_.offers()):
        _acked(pass_, permit, CandidateReason.ANOTHER_READY)
        return
    policy = pass_.context.policy
    until = permit.until + policy.skew
    if not pass_.context.in_view(permit.cluster):
        # Whether room is being made there cannot be seen: that delays the others no longer than a permit to bind would.
        until -= policy.holds("Preempt") - policy.lease
    if pass_.now >= until:
        _acked(pass_, permit, CandidateReason.LEASE_ENDED)
    else:
        pass_.wake_at(until)
        if pass_.now < permit.until:
            _resend(pass_, permit, seen)


def _ended(pass_: PodPass, permit: Permit, seen: CandidateSeen | None) -> None:
    """The lease is over: take the permit back, and if nobody answers, end the epoch, unless never-twice was asked
    for.
    """
    _revoke(pass_, permit, seen, CandidateReason.LEASE_ENDED)
    if not pass_.context.outlives:
        told = silent_from(pass_, permit)
        pass_.wake_at(told if pass_.now < told else None)
        return
    policy = pass_.context.policy
    until = permit.until + policy.skew
    if pass_.context.in_view(permit.cluster):
        until += policy.ack_patience
    if pass_.context.mass_outage:
        return
    if pass_.now >= until:
        _outlive(pass_, CandidateReason.PERMIT_WAS_OUTLIVED)
    else:
        pass_.wake_at(until)


def silent_from(pass_: PodPass, permit: Permit) -> datetime:
    """Return from when a target's silence about a permit is told of: when the lease and its patience are over."""
    policy = pass_.context.policy
    return permit.until + policy.skew + policy.ack_patience


def _outlive(pass_: PodPass, reason: CandidateReason) -> None:
    pass_.say(EpochClosed(epoch=pass_.state.epoch, reason=reason))
    pass_.permit, pass_.closed = None, True


def _revoke(pass_: PodPass, permit: Permit, seen: CandidateSeen | None, reason: CandidateReason) -> None:
    if seen is None or seen.deleting or not pass_.context.in_view(permit.cluster):
        return
    if seen.withdrawn >= permit.number:
        return
    pass_.write(
        PermitRevoked(
            cluster=permit.cluster,
            candidate=permit.candidate,
            number=permit.number,
            resource_version=seen.resource_version,
            reason=reason,
        )
    )


def _resend(pass_: PodPass, permit: Permit, seen: CandidateSeen | None) -> None:
    """Send the same permit again if the candidate does not carry it: the write met a conflict, or was lost."""
    if seen is None or seen.permit >= permit.number or not pass_.context.in_view(permit.cluster):
        return
    _grant(pass_, permit, seen.resource_version, CandidateReason.PERMIT_OPEN, {})


def grant(pass_: PodPass) -> CandidateReason | None:
    """Give the permit to one candidate, if one may have it now; return what is waited for otherwise."""
    if pass_.permit is not None or pass_.acked or pass_.closed or pass_.state.delegate:
        return CandidateReason.PERMIT_OPEN
    if (waits := _waits_for(pass_)) is not None:
        return waits
    gang = pass_.context.gang
    if gang is not None:
        return _follow(pass_, gang.home) if gang.follows else CandidateReason.AWAITS_GANG
    offers, pending, counts = pass_.offers(), pass_.pending(), counts_of(pass_)
    choice = choose(offers, pending, pass_.state.failures, counts, pass_.placement, pass_.now)
    if isinstance(choice, PermitChoice):
        among = {offer.cluster: offer.score for offer in offers}
        _new(pass_, choice.cluster, "Bind", choice.reason, among)
        return None
    pass_.wake_at(choice.until)
    if not offers and not pending:
        return _make_room(pass_, counts)
    return choice.reason


def _waits_for(pass_: PodPass) -> CandidateReason | None:
    """Return why nobody may be permitted yet, whoever is ready; None if somebody may."""
    return CandidateReason.PREDECESSOR_STOPS if predecessor_runs(pass_) else lost_log.held(pass_)


def counts_of(pass_: PodPass) -> dict[str, int]:
    """Return how many of the workload's other pods are in each target that the pod could be spread to.

    Who does not take the pod is no such target: it would be the emptiest for ever."""
    return {
        name: pass_.context.counts.get(name, 0)
        for name in pass_.targets()
        if pass_.context.in_view(name) and not pass_.declined(name)
    }


def _follow(pass_: PodPass, home: str) -> CandidateReason | None:
    """Permit one more member of a gang where the gang is, and nowhere else; spread is no question for it."""
    if any(offer.cluster == home for offer in pass_.offers()):
        _new(pass_, home, "Bind", CandidateReason.GANG_FOLLOWS, {})
        return None
    current = pass_.current().get(home)
    if current is None or not pass_.context.in_view(home) or not _could_preempt(current[1].seen):
        return CandidateReason.AWAITS_GANG
    _new(pass_, home, "Preempt", CandidateReason.ROOM_BY_PREEMPTION, {})
    return None


def _make_room(pass_: PodPass, counts: dict[str, int]) -> CandidateReason | None:
    """Ask one target to preempt, once all have said that there is no room without it: one target at a time."""
    targets = pass_.targets()
    able = {
        cluster: targets[cluster]
        for cluster, (_, known) in pass_.current().items()
        if cluster in targets and pass_.context.in_view(cluster) and _could_preempt(known.seen)
    }
    chosen = preemptor(able, pass_.state.failures, counts, pass_.placement.max_skew)
    if not chosen:
        return CandidateReason.UNSCHEDULABLE_EVERYWHERE
    _new(pass_, chosen, "Preempt", CandidateReason.ROOM_BY_PREEMPTION, {})
    return None


def _could_preempt(seen: CandidateSeen | None) -> bool:
    return isinstance(seen, CandidateUnschedulable) and seen.preemptable and not seen.deleting


def _new(pass_: PodPass, cluster: str, kind: PermitKind, reason: CandidateReason, among: dict[str, int]) -> None:
    name, known = pass_.current()[cluster]
    seen = known.seen
    assert seen is not None
    permit = Permit(
        cluster=cluster,
        candidate=name,
        number=pass_.state.next_permit,
        kind=kind,
        reservation=seen.reservation,
        until=pass_.now + pass_.context.policy.holds(kind),
    )
    if _grant(pass_, permit, seen.resource_version, reason, among):
        pass_.permit = permit
        pass_.wake_at(permit.until)


def _grant(
    pass_: PodPass, permit: Permit, resource_version: str, reason: CandidateReason, among: dict[str, int]
) -> bool:
    kind: PermitKind = "Preempt" if permit.kind == "Preempt" else "Bind"
    return pass_.write(
        PermitGranted(
            cluster=permit.cluster,
            candidate=permit.candidate,
            epoch=pass_.state.epoch,
            number=permit.number,
            kind=kind,
            reservation=permit.reservation,
            until=permit.until,
            among=among,
            resource_version=resource_version,
            reason=reason,
        )
    )


def predecessor_runs(pass_: PodPass) -> bool:
    """Whether an earlier pod of this name, or an earlier epoch of it, may still run somewhere: a StatefulSet's next one
    waits for it.

    That of an absent target is waited for too, for as long as a delegate would be, or until the target is forgotten. So
    is one of this epoch that is bound and was not permitted, and one that has a permit of which a log that was lost
    told.
    """
    held, state = False, pass_.state
    for name, known in state.candidates.items():
        if known.excused or _is_its_own(state, name, known):
            continue
        if not known.may_run and not unknown_permit(known, state.permits):
            continue
        if pass_.context.forgotten(known.cluster):
            continue
        until = pass_.context.lost_until(known.cluster)
        if until is not None and pass_.now >= until:
            continue
        pass_.wake_at(until)
        held = True
    return held


def _is_its_own(state: SourceState, name: str, known: Candidate) -> bool:
    """Whether a candidate is of the epoch under way as it should be, or of one that has ended, which the next waits
    for."""
    if (known.uid, known.epoch) != (state.uid, state.epoch):
        return False
    return not state.electing or name in (state.delegate, state.permit.candidate if state.permit is not None else "")
