"""What a gang does where nobody has room for all of it: have one target make some, give its places back for a while, or
say why it waits.

In: a pass over the gang, and what each target has for it. Out: decisions on the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.events import RevokeAcked
from controlplane.controllers.candidates.source.gang_counts import GangCounts
from controlplane.controllers.candidates.source.gang_events import GangRested, GangWaits
from controlplane.controllers.candidates.source.gang_pass import GangPass, TargetPlaces, pause, permit_in
from controlplane.controllers.candidates.source.gang_state import SourceGangState
from controlplane.controllers.candidates.source.observations import (
    CandidateRefused,
    CandidateUnschedulable,
)
from controlplane.controllers.candidates.source.pod_status import silence
from controlplane.controllers.candidates.source.policy import Target
from controlplane.runtime.phrases import each_says

_FIRST_ROUND, _LAST_ROUND = timedelta(minutes=10), timedelta(hours=1)
_SAID = 900


def making_room(pass_: GangPass, ready: set[str]) -> bool:
    """Whether one target is being asked to make room. Once any has a quorum, the asking ends: it binds nobody."""
    asked = {name: s.permit for name, s in pass_.members.items() if s.permit is not None and s.permit.kind == "Preempt"}
    if not asked:
        return False
    for name, permit in asked.items():
        if ready:
            acked = RevokeAcked(
                cluster=permit.cluster,
                candidate=permit.candidate,
                number=permit.number,
                reason=CandidateReason.ANOTHER_READY,
            )
            pass_.plan.theirs.append((name, acked))
    return True


def rest(
    pass_: GangPass, places: Mapping[str, TargetPlaces], targets: Mapping[str, Target], ahead: Callable[[], bool]
) -> bool:
    """Have the gang give its places back if it holds some and has had no quorum for too long: another may need just
    these.

    Whoever comes later in the order gives way sooner, so that of two that hold half of each other's the first gets all.
    """
    since = [pass_.offers[member][name].since for name, place in places.items() for member in place.ready]
    if not since:
        return False
    wait = pass_.context.policy.gang_wait
    yields = ahead()
    until = min(since) + (wait / 3 if yields else wait)
    if pass_.now < until:
        pass_.wake_at(until)
        return False
    if not yields and _make_room(pass_, places, targets):
        return True
    message = "some of its pods have a place and no cluster has one for all: it gives them back and tries again"
    pass_.say(
        GangRested(
            until=pass_.now + pause(pass_, pass_.group.tries + 1),
            message=message,
            reason=CandidateReason.GANG_YIELDS if yields else CandidateReason.GANG_FITS_NOWHERE,
        )
    )
    return True


def nowhere(pass_: GangPass, places: Mapping[str, TargetPlaces], targets: Mapping[str, Target]) -> None:
    """Everybody has answered and nobody has room for all: have one make some, or say so."""
    if _make_room(pass_, places, targets):
        return
    said = each_says({name: _says(pass_, name, places[name]) for name in sorted(places)})
    message = f"0/{len(places)} clusters have room for all of PodGroup {pass_.group.name}: {said}"[:_SAID]
    known = pass_.group.waits
    if known is None or known.message != message:
        pass_.say(GangWaits(message=message, reason=CandidateReason.GANG_FITS_NOWHERE))


def _says(pass_: GangPass, cluster: str, place: TargetPlaces) -> str:
    """Return what a target says: the first objection to a member. How many there are would change with each pod."""
    if not pass_.context.in_view(cluster):
        return "cannot be reached"
    for name in place.without:
        known = pass_.passes[name].current().get(cluster)
        seen = known[1].seen if known is not None else None
        if isinstance(seen, (CandidateUnschedulable, CandidateRefused)):
            return seen.message or seen.why or "no node"
        if barred := pass_.passes[name].barred(cluster):
            return barred
        if pass_.passes[name].silent(cluster):
            return silence(pass_.passes[name])
    return "has room for some of its pods only"


def _make_room(pass_: GangPass, places: Mapping[str, TargetPlaces], targets: Mapping[str, Target]) -> bool:
    """Ask one target to preempt for all members that found no node there: all of them may, or none, and nowhere else.

    Whether all of them would fit is not known before it is tried, so who was evicted may have gone in vain: a target
    that was asked and found no room is asked again only after the others, and much later."""
    group = pass_.group
    able = [name for name, place in places.items() if pass_.context.in_view(name) and _could(pass_, name, place)]
    chosen = min(
        able, key=lambda n: (group.asked.get(n, 0), group.failures.get(n, 0), targets[n].tier, n), default=None
    )
    if chosen is None:
        return False
    rounds = group.asked.get(chosen, 0)
    until = group.asked_until
    if until is not None and pass_.now < (until := until + _rounds_apart(rounds)):
        pass_.wake_at(until)
        return False
    unplaced = [name for name in places[chosen].without if _unschedulable(pass_, name, chosen) is not None]
    permit_in(pass_, chosen, "Preempt", CandidateReason.ROOM_BY_PREEMPTION, unplaced, {})
    return bool(pass_.plan.theirs)


def _rounds_apart(rounds: int) -> timedelta:
    """Return how long no target is asked once each was asked so often: not at all the first time."""
    return min(_FIRST_ROUND * float(2 ** min(rounds - 1, 10)), _LAST_ROUND) if rounds else timedelta()


def _could(pass_: GangPass, cluster: str, place: TargetPlaces) -> bool:
    """Whether a target could have a quorum if it made room: it says so of one member at least, and refuses not too
    many.
    """
    found = [seen for name in place.without if (seen := _unschedulable(pass_, name, cluster)) is not None]
    enough = len(place.ready) + len(found) >= place.need
    return enough and any(seen.preemptable for seen in found)


def _unschedulable(pass_: GangPass, name: str, cluster: str) -> CandidateUnschedulable | None:
    known = pass_.passes[name].current().get(cluster)
    seen = known[1].seen if known is not None else None
    return seen if isinstance(seen, CandidateUnschedulable) and not seen.deleting else None


def contends(group: SourceGangState, members: GangCounts) -> set[str]:
    """Return the targets in which a gang that is placed nowhere holds places: who comes after it gives way there."""
    return set() if group.placed is not None else members.holds
