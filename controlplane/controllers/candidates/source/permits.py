"""The one permit of a source pod: who has it, how it ends, who gets the next.

In: a pass. Out: decisions. A permit ends by what its target says (acknowledged, un-reserved, gone), never by a guess
within an epoch: a lease that has run out tells that no binding *begins* any more, not that none was made. Only by
ending the epoch do we go on without an answer."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.decision_pass import PodPass
from controlplane.controllers.candidates.source.events import (
    CandidateBound,
    CandidateReserved,
    CandidateSeen,
    CandidateUnschedulable,
    EpochClosed,
    PermitGranted,
    PermitKind,
    PermitRevoked,
    RevokeAcked,
)
from controlplane.controllers.candidates.source.policy import PermitChoice, choose, preemptor
from controlplane.controllers.candidates.source.state import Permit


def settle(turn: PodPass) -> None:
    """Bring the open permit nearer to its end, if it has to end."""
    permit = turn.permit
    if permit is None:
        return
    known = turn.state.candidates.get(permit.candidate)
    seen = known.seen if known else None
    answer = _answer(turn, permit, seen)
    if answer is not None:
        _acked(turn, permit, answer)
    elif permit.kind == "Preempt":
        _settle_preemption(turn, permit, seen)
    elif turn.context.forgotten(permit.cluster):
        _outlive(turn, CandidateReason.TARGET_FORGOTTEN)
    elif turn.now >= permit.until:
        _ended(turn, permit, seen)
    elif permit.revoking:
        _revoke(turn, permit, seen, CandidateReason.LEASE_ENDED)
        turn.wake_at(permit.until)
    elif turn.context.gang is not None and turn.context.gang.withdraws:
        _revoke(turn, permit, seen, CandidateReason.GANG_INCOMPLETE)
        turn.wake_at(permit.until)
    else:
        turn.wake_at(permit.until)
        _resend(turn, permit, seen)


def _answer(turn: PodPass, permit: Permit, seen: CandidateSeen | None) -> CandidateReason | None:
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


def _acked(turn: PodPass, permit: Permit, reason: CandidateReason) -> None:
    turn.say(RevokeAcked(cluster=permit.cluster, candidate=permit.candidate, number=permit.number, reason=reason))
    turn.acked = True  # who is next is decided when this is in the log (S3)


def _settle_preemption(turn: PodPass, permit: Permit, seen: CandidateSeen | None) -> None:
    """A permit to make room binds nobody, so it ends at once when another is ready, or with its lease.

    A gang needs more than one that is ready: its own decision says when it is (`gang_decide`).
    """
    if turn.context.gang is None and any(offer.cluster != permit.cluster for offer in turn.offers()):
        _acked(turn, permit, CandidateReason.ANOTHER_READY)
        return
    policy = turn.context.policy
    until = permit.until + policy.skew
    if not turn.context.in_view(permit.cluster):
        # Whether room is being made there cannot be seen: that delays the others no longer than a permit to bind would.
        until -= policy.holds("Preempt") - policy.lease
    if turn.now >= until:
        _acked(turn, permit, CandidateReason.LEASE_ENDED)
    else:
        turn.wake_at(until)
        if turn.now < permit.until:
            _resend(turn, permit, seen)


def _ended(turn: PodPass, permit: Permit, seen: CandidateSeen | None) -> None:
    """The lease is over: take the permit back, and if nobody answers, end the epoch, unless never-twice was asked
    for.
    """
    _revoke(turn, permit, seen, CandidateReason.LEASE_ENDED)
    if not turn.context.outlives:
        told = silent_from(turn, permit)
        turn.wake_at(told if turn.now < told else None)
        return
    policy = turn.context.policy
    until = permit.until + policy.skew
    if turn.context.in_view(permit.cluster):
        until += policy.ack_patience
    if turn.context.mass_outage:
        return
    if turn.now >= until:
        _outlive(turn, CandidateReason.PERMIT_WAS_OUTLIVED)
    else:
        turn.wake_at(until)


def silent_from(turn: PodPass, permit: Permit) -> datetime:
    """Return from when a target's silence about a permit is told of: when the lease and its patience are over."""
    policy = turn.context.policy
    return permit.until + policy.skew + policy.ack_patience


def _outlive(turn: PodPass, reason: CandidateReason) -> None:
    turn.say(EpochClosed(epoch=turn.state.epoch, reason=reason))
    turn.permit, turn.closed = None, True


def _revoke(turn: PodPass, permit: Permit, seen: CandidateSeen | None, reason: CandidateReason) -> None:
    if seen is None or seen.deleting or not turn.context.in_view(permit.cluster):
        return
    if seen.withdrawn >= permit.number:
        return
    turn.write(
        PermitRevoked(
            cluster=permit.cluster,
            candidate=permit.candidate,
            number=permit.number,
            resource_version=seen.resource_version,
            reason=reason,
        )
    )


def _resend(turn: PodPass, permit: Permit, seen: CandidateSeen | None) -> None:
    """Send the same permit again if the candidate does not carry it: the write met a conflict, or was lost."""
    if seen is None or seen.permit >= permit.number or not turn.context.in_view(permit.cluster):
        return
    _grant(turn, permit, seen.resource_version, CandidateReason.PERMIT_OPEN, {})


def grant(turn: PodPass) -> CandidateReason | None:
    """Give the permit to one candidate, if one may have it now; return what is waited for otherwise."""
    if turn.permit is not None or turn.acked or turn.closed or turn.state.delegate:
        return CandidateReason.PERMIT_OPEN
    if predecessor_runs(turn):
        return CandidateReason.PREDECESSOR_STOPS
    gang = turn.context.gang
    if gang is not None:
        return _follow(turn, gang.home) if gang.follows else CandidateReason.AWAITS_GANG
    offers, pending, state = turn.offers(), turn.pending(), turn.state
    # Who does not take the pod is no place that it could be spread to: it would be the emptiest for ever.
    counts = {
        name: turn.context.counts.get(name, 0)
        for name in turn.targets()
        if turn.context.in_view(name) and not turn.declined(name)
    }
    verdict = choose(offers, pending, state.failures, counts, turn.placement, turn.now)
    if isinstance(verdict, PermitChoice):
        among = {offer.cluster: offer.score for offer in offers}
        _new(turn, verdict.cluster, "Bind", verdict.reason, among)
        return None
    turn.wake_at(verdict.until)
    if not offers and not pending:
        return _make_room(turn, counts)
    return verdict.reason


def _follow(turn: PodPass, home: str) -> CandidateReason | None:
    """Permit one more member of a gang where the gang is, and nowhere else; spread is no question for it."""
    if any(offer.cluster == home for offer in turn.offers()):
        _new(turn, home, "Bind", CandidateReason.GANG_FOLLOWS, {})
        return None
    current = turn.current().get(home)
    if current is None or not turn.context.in_view(home) or not _could_preempt(current[1].seen):
        return CandidateReason.AWAITS_GANG
    _new(turn, home, "Preempt", CandidateReason.ROOM_BY_PREEMPTION, {})
    return None


def _make_room(turn: PodPass, counts: dict[str, int]) -> CandidateReason | None:
    """Ask one target to preempt, once all have said that there is no room without it (#97: not all of them at once)."""
    targets = turn.targets()
    able = {
        cluster: targets[cluster]
        for cluster, (_, known) in turn.current().items()
        if cluster in targets and turn.context.in_view(cluster) and _could_preempt(known.seen)
    }
    chosen = preemptor(able, turn.state.failures, counts, turn.placement.max_skew)
    if not chosen:
        return CandidateReason.UNSCHEDULABLE_EVERYWHERE
    _new(turn, chosen, "Preempt", CandidateReason.ROOM_BY_PREEMPTION, {})
    return None


def _could_preempt(seen: CandidateSeen | None) -> bool:
    return isinstance(seen, CandidateUnschedulable) and seen.preemptable and not seen.deleting


def _new(turn: PodPass, cluster: str, kind: PermitKind, reason: CandidateReason, among: dict[str, int]) -> None:
    name, known = turn.current()[cluster]
    seen = known.seen
    assert seen is not None
    permit = Permit(
        cluster=cluster,
        candidate=name,
        number=turn.state.permits + 1,
        kind=kind,
        reservation=seen.reservation,
        until=turn.now + turn.context.policy.holds(kind),
    )
    if _grant(turn, permit, seen.resource_version, reason, among):
        turn.permit = permit
        turn.wake_at(permit.until)


def _grant(
    turn: PodPass, permit: Permit, resource_version: str, reason: CandidateReason, among: dict[str, int]
) -> bool:
    kind: PermitKind = "Preempt" if permit.kind == "Preempt" else "Bind"
    return turn.write(
        PermitGranted(
            cluster=permit.cluster,
            candidate=permit.candidate,
            epoch=turn.state.epoch,
            number=permit.number,
            kind=kind,
            reservation=permit.reservation,
            until=permit.until,
            among=among,
            resource_version=resource_version,
            reason=reason,
        )
    )


def predecessor_runs(turn: PodPass) -> bool:
    """Whether an earlier pod of this name, or an earlier epoch of it, may still run somewhere: a StatefulSet's next one
    waits for it.

    That of an absent target is waited for too, for as long as a delegate would be, or until the target is forgotten.
    """
    held = False
    for known in turn.state.candidates.values():
        if (known.uid, known.epoch) == (turn.state.uid, turn.state.epoch) or not known.may_run or known.excused:
            continue
        if turn.context.forgotten(known.cluster):
            continue
        until = turn.context.lost_until(known.cluster)
        if until is not None and turn.now >= until:
            continue
        turn.wake_at(until)
        held = True
    return held
