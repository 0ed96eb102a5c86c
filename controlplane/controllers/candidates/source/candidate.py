"""What is known of one candidate, of the open permit and of whose autoscaler may add nodes: parts of a source pod's
state.

In: what a target shows of a candidate. Out: values. Pure."""

from __future__ import annotations

from datetime import datetime

import msgspec

from controlplane.controllers.candidates.source import events, observations
from controlplane.values import Value

_ANSWERS = (
    observations.CandidateReserved,
    observations.CandidateUnschedulable,
    observations.CandidateRefused,
    observations.CandidateBound,
)


class Candidate(Value):
    """What is known of one candidate.

    `asked`: by this log; what nobody asked for was there before the log was lost, or put back. `may_run`: it was
    permitted or bound, so its pod may run until we know better. `excused`: it still may, and we go on all the same (its
    target was forgotten, or its permit outlived under at-least-once). `ready_since`: since when its reservation is
    known. `waits_since`: since when its target owes an answer: it was asked, or gave up what it had found. `bound`: the
    UID of the object that last said that it is bound, `bound_by` the reservation by which it was."""

    cluster: str
    uid: str
    epoch: int
    seen: observations.CandidateSeen | None = None
    asked: bool = False
    may_run: bool = False
    excused: bool = False
    ready_since: datetime | None = None
    waits_since: datetime | None = None
    bound: str = ""
    bound_by: int = 0


class Permit(Value):
    """The open permit. `revoking`: it is being taken back."""

    cluster: str
    candidate: str
    number: int
    kind: str
    reservation: int
    until: datetime
    revoking: bool = False


class ScaleUp(Value):
    """Whose autoscaler may add nodes for the pod, and until when nobody else's may."""

    cluster: str
    until: datetime


def unknown_permit(known: Candidate, permits: int) -> int:
    """Return the number of a permit by which a candidate is bound, or may be, and which a log that gave so many never
    gave; 0 if there is none."""
    seen = known.seen
    if isinstance(seen, observations.DelegateMissing):
        return 0
    if not isinstance(seen, (observations.CandidateReserved, observations.CandidateBound)):
        return 0  # whatever it was permitted, its target has given up
    # A permit to make room that was used binds nobody.
    return seen.permit if seen.permit > max(permits, seen.acknowledged, seen.tried) else 0


def writes_to(cluster: str, name: str) -> tuple[str, ...]:
    """Return the keys of what may be open to a candidate."""
    of = (events.amendment_of, events.scale_up_of, events.gates_of)
    return f"{cluster}/{name}", *(key(cluster, name) for key in of)


def as_seen(known: Candidate, seen: observations.CandidateSeen, at: datetime) -> Candidate:
    """Return a candidate with what its target shows of it."""
    bound = isinstance(seen, observations.CandidateBound)
    ready_since = at if isinstance(seen, observations.CandidateReserved) else None
    if ready_since and known.seen is not None and known.seen.reservation == seen.reservation:
        ready_since = known.ready_since or at
    return msgspec.structs.replace(
        known,
        seen=seen,
        ready_since=ready_since,
        waits_since=None if isinstance(seen, _ANSWERS) else known.waits_since or at,
        # A missing pod does not run, nor one that was rejected; whether it did when we last decided stays as it is
        # until we decide again.
        may_run=known.may_run or (bound and not _over(seen)),
        bound=seen.uid if bound else known.bound,
        bound_by=seen.reservation if bound else known.bound_by,
    )


def _over(seen: observations.CandidateSeen) -> bool:
    """Whether a bound candidate's pod is not there any more, or was never started."""
    if isinstance(seen, observations.DelegateStatus):
        return bool(seen.rejected)
    return isinstance(seen, observations.DelegateMissing)
