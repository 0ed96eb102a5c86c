"""Finds what a log that was lost, or put back, does not know of a source pod: permits that it never gave, delegates
that run by them, and Candidates that may be such and cannot be seen or read.

In: a pass. Out: the placement that goes on as if the log knew of it, and what nobody may be permitted beside. Pure.
Within one log none of this ever is: a permit is in the log before it is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controlplane.controllers.candidates.objects import HINT_CLUSTER, HINT_POD
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.binding import HINT
from controlplane.controllers.candidates.source.candidate import Candidate, unknown_permit
from controlplane.controllers.candidates.source.decision_pass import PodPass
from controlplane.controllers.candidates.source.events import PlacementFound
from controlplane.controllers.candidates.source.observations import (
    CandidateBound,
    CandidateObservationRefused,
    SourcePodObserved,
)
from controlplane.controllers.candidates.source.state import SourceState, dropping


def find(pass_: PodPass, pod: SourcePodObserved, targets: Sequence[str]) -> bool:
    """Take note of a candidate of the pod that is bound, or permitted, without the log's knowing; return whether there
    is one. What is bound comes first, and of that what the pod itself says that it is."""
    state = pass_.state
    if state.delegate or state.permit is not None:
        return False
    found = [
        (name, known, number)
        for name, known in sorted(state.candidates.items())
        if known.uid == pod.uid and not dropping(state, name) and (number := unknown_permit(known, state.permits))
    ]
    if not found:
        return False
    name, known, number = min(found, key=lambda one: (not _bound(one[1]), one[0] != pod.hints.get(HINT_POD)))
    seen = known.seen
    assert seen is not None
    pass_.say(
        PlacementFound(
            uid=pod.uid,
            epoch=known.epoch,
            targets=list(targets),
            cluster=known.cluster,
            candidate=name,
            number=number,
            bound=_bound(known),
            reservation=seen.reservation,
            # It was given before now, for one lease.
            until=pass_.now + pass_.context.policy.lease,
            revoking=seen.withdrawn >= number,
            reason=CandidateReason.PERMIT_UNKNOWN,
        )
    )
    return True


def _bound(known: Candidate) -> bool:
    return isinstance(known.seen, CandidateBound)


def held(pass_: PodPass) -> CandidateReason | None:
    """Return why nobody may be permitted, though the log knows of nobody that runs; None if nothing is in the way."""
    if unread(pass_):
        return CandidateReason.CANDIDATE_UNREAD
    if _unseen(pass_):
        return CandidateReason.DELEGATE_UNSEEN
    pass_.wake_at(pass_.context.untried_until)
    untried = pass_.context.untried_until
    return CandidateReason.AWAITS_UNTRIED if untried is not None and pass_.now < untried else None


def said(pass_: PodPass) -> str:
    """Return which object is in the way, what is wrong with it, and what to do; "" if none is."""
    for cluster in unread(pass_):
        one = _unread_of(pass_)[cluster]
        return (
            f"Candidate {one.namespace}/{one.name} of {cluster} cannot be read, so it may run there: mend "
            f"{one.field or 'it'} ({one.error}), or delete it there"
        )
    cluster = _unseen(pass_)
    if not cluster:
        return ""
    return (
        f"it says that it runs in {cluster}, which does not show its candidates: nobody else is permitted before that "
        "is known, or the target is given up (controlplane clusters forget)"
    )


def unread(pass_: PodPass) -> list[str]:
    """Return the targets with a Candidate that may be of a pod of this name and that nobody could read yet; but those
    whose grace is over, or that were given up."""
    return [cluster for cluster in sorted(_unread_of(pass_)) if _counts(pass_, cluster)]


def _unread_of(pass_: PodPass) -> Mapping[str, CandidateObservationRefused]:
    return pass_.context.unread.get(pass_.state.name, {})


def named(state: SourceState) -> str:
    """Return the target in which the pod says that its delegate is, unless it is this log that said so last, or is
    about to say something else; "" if there is none. A log that was put back may know of a delegate before."""
    pod = state.pod
    cluster = pod.hints.get(HINT_CLUSTER, "") if pod is not None else ""
    if pod is None or not cluster or HINT in state.effects or HINT in state.trouble:
        return ""
    return "" if (state.hinted, state.hinted_to) == (pod.uid, cluster) else cluster


def _unseen(pass_: PodPass) -> str:
    """Return the target in which the pod says that its delegate is, if the log knows nothing of it and it is out of
    view; "" if there is none."""
    cluster = named(pass_.state)
    if not cluster or pass_.context.in_view(cluster):
        return ""
    return cluster if _counts(pass_, cluster) else ""


def _counts(pass_: PodPass, cluster: str) -> bool:
    """Whether what may be in a target is waited for: as what is known to be there would be."""
    context = pass_.context
    if context.forgotten(cluster) or (
        cluster not in context.connections and cluster not in {target.name for target in context.targets}
    ):
        return False
    until = context.lost_until(cluster)
    pass_.wake_at(until)
    return until is None or pass_.now < until
