"""What to do about one gang now: permit it in one target, take that back, let it go, or have it rest. Pure.

In: the group's state, its members' as they are folded, the context, the time. Out: decisions, each with its stream, and
when to look again. A permission is one for a quorum at least: the group's own event and a permit for each member, of
one append on the versions of all their streams. All else a member does by itself, looking at the group's state
(`GangView`): it takes its permit back, follows, ends its epoch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

import msgspec

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import gang_events
from controlplane.controllers.candidates.source.decision_pass import PodContext
from controlplane.controllers.candidates.source.gang_capacity import making_room, nowhere, rest
from controlplane.controllers.candidates.source.gang_pass import (
    GangPass,
    GangPlan,
    TargetPlaces,
    pause,
    permit_in,
    place_in,
    targets_for,
)
from controlplane.controllers.candidates.source.gang_spared import Outlook
from controlplane.controllers.candidates.source.gang_state import Placed, SourceGangState, view_of
from controlplane.controllers.candidates.source.policy import (
    Offer,
    PermitChoice,
    PlacementPolicy,
    Target,
    choose,
    effective,
)
from controlplane.controllers.candidates.source.state import SourceState


def gang_decide(
    stream: str,
    group: SourceGangState,
    members: Mapping[str, SourceState],
    context: PodContext,
    now: datetime,
    ahead: Callable[[], bool] = lambda: False,
) -> GangPlan:
    """Return what follows for a gang; nothing while the source cluster's pods are not in view.

    `ahead`: whether a gang that comes before this one is waiting for the same targets.
    """
    pass_ = GangPass(group, members, context, now)
    if not context.ready:
        return pass_.plan
    if group.placed is not None:
        _placed(pass_, group.placed)
    elif view_of(stream, group, pass_.counts).held is None:
        _free(pass_, ahead)
    return pass_.plan


# --- while it is permitted somewhere ---------------------------------------------------------------------------------


def _placed(pass_: GangPass, placed: Placed) -> None:
    bound, open_ = pass_.bound(placed.cluster), pass_.permitted()
    running = [name for name in bound if pass_.runs(name)]
    if not running and not open_:
        if not pass_.lingering:
            _release(pass_, placed, bound)
    elif placed.withdrawing:
        _withdrawing(pass_, placed, running, open_)
    elif placed.formed:
        return
    elif len(bound) >= placed.least:
        pass_.say(
            gang_events.GangFormed(cluster=placed.cluster, number=placed.number, reason=CandidateReason.GANG_FORMED)
        )
    elif not running and len(bound) + len(_firm(pass_, open_)) < placed.least:
        message = f"fewer than {placed.least} of its members still hold a place in {placed.cluster}"
        pass_.say(
            gang_events.GangWithdrawn(
                cluster=placed.cluster, number=placed.number, message=message, reason=CandidateReason.GANG_INCOMPLETE
            )
        )
    elif running:
        _together_in_time(pass_, placed)


def _withdrawing(pass_: GangPass, placed: Placed, running: list[str], open_: list[str]) -> None:
    """Keep a gang where some of it was bound before its permits were back, unless it is dissolved."""
    if running and not open_ and not placed.dissolved:
        pass_.say(
            gang_events.GangKept(
                cluster=placed.cluster, number=placed.number, reason=CandidateReason.GANG_BOUND_MEANWHILE
            )
        )


def _firm(pass_: GangPass, open_: list[str]) -> list[str]:
    """Return the members whose permits may still be used."""
    return [name for name in open_ if not _revoking(pass_.members[name])]


def _revoking(state: SourceState) -> bool:
    return state.permit is not None and state.permit.revoking


def _together_in_time(pass_: GangPass, placed: Placed) -> None:
    """Some run and a quorum never did: others follow, but not for ever. A gang that cannot come together is taken back
    whole.
    """
    until = placed.since + pass_.context.policy.gang_timeout
    if pass_.now < until or not pass_.context.in_view(placed.cluster):
        pass_.wake_at(until)
        return
    message = f"fewer than {placed.least} of its members found a place in {placed.cluster} in time"
    pass_.say(
        gang_events.GangDissolved(
            cluster=placed.cluster, number=placed.number, message=message, reason=CandidateReason.GANG_DISSOLVED
        )
    )


def _release(pass_: GangPass, placed: Placed, done: list[str]) -> None:
    """Nobody runs there any more: done, or lost, or taken back. If it failed, others are next; if it fails there again,
    it rests first.
    """
    group, cluster = pass_.group, placed.cluster
    failed = not (placed.formed and (len(done) >= placed.least or pass_.context.in_view(cluster)))
    failures = group.failures.get(cluster, 0) + failed
    others = [name for name in targets_for(pass_) if name != cluster]
    nobody_left = failures > 1 or all(group.failures.get(name, 0) >= failures for name in others)
    until = pass_.now + pause(pass_, failures) if failed and nobody_left and not placed.formed else None
    pass_.say(
        gang_events.GangReleased(
            cluster=cluster,
            number=placed.number,
            failed=failed,
            until=until,
            reason=CandidateReason.GANG_ENDED if placed.formed else CandidateReason.GANG_INCOMPLETE,
        )
    )


# --- while it is permitted nowhere -----------------------------------------------------------------------------------


def _free(pass_: GangPass, ahead: Callable[[], bool]) -> None:
    if _adopt(pass_) or _rests(pass_):
        return
    targets = targets_for(pass_)
    places = {name: place_in(pass_, name) for name in targets}
    offers = [_offer(pass_, targets[name], place) for name, place in places.items() if place.whole]
    pending = _pending(pass_, targets, places)
    if making_room(pass_, {offer.cluster for offer in offers}):
        return
    choice = choose(offers, pending, pass_.group.failures, {}, _placement(pass_), pass_.now)
    if isinstance(choice, PermitChoice):
        among = {offer.cluster: offer.score for offer in offers}
        place = places[choice.cluster]
        permit_in(pass_, choice.cluster, "Bind", choice.reason, place.ready, among, place.need)
        return
    pass_.wake_at(choice.until)
    if offers:
        return
    if not rest(pass_, places, targets, ahead) and not pending:
        nowhere(pass_, places, targets)
    pass_.plan.outlook = _outlook(pass_.plan, places, pending)


def _outlook(plan: GangPlan, places: Mapping[str, TargetPlaces], pending: Collection[str]) -> Outlook | None:
    """Return what the gang waits for, where nobody has room for all of it yet; None if something was decided."""
    if plan.own or plan.theirs:
        return None
    slack = {name: len(places[name].ready) + len(places[name].hopes) - places[name].need for name in pending}
    return Outlook(slack, holds=any(place.ready for place in places.values()))


def _rests(pass_: GangPass) -> bool:
    until = pass_.group.rests_until
    pass_.wake_at(until)
    return until is not None and pass_.now < until


def _pending(pass_: GangPass, targets: Mapping[str, Target], places: Mapping[str, TargetPlaces]) -> dict[str, Target]:
    """Return the targets that do not have a place for all of it yet, and may."""
    return {name: targets[name] for name, place in places.items() if not place.whole and _may_come(pass_, name, place)}


def _adopt(pass_: GangPass) -> bool:
    """Take note of members that run, or are permitted, though the gang was never placed: they are where it is."""
    permits = (pass_.members[name].permit for name in pass_.permitted())
    there = [pass_.where(name) for name in pass_.members if pass_.runs(name)]
    there += [permit.cluster for permit in permits if permit is not None]
    if not there:
        return False
    cluster = max(sorted(set(there)), key=there.count)
    members = [pass_.members[name].name for name in pass_.bound(cluster)]
    pass_.say(
        gang_events.GangPermitted(
            cluster=cluster,
            number=pass_.number,
            kind="Bind",
            least=pass_.group.least,
            members=members,
            reason=CandidateReason.GANG_FOUND,
        )
    )
    return True


def _placement(pass_: GangPass) -> PlacementPolicy:
    """Return how the target is chosen: the most patient of what the members ask for. Spread is not asked: a gang never
    spans clusters.
    """
    chosen = pass_.context.policy.placement
    asked = [effective(chosen, state.pod.options) for state in pass_.members.values() if state.pod is not None]
    return msgspec.structs.replace(
        chosen,
        mode="BestOf" if any(one.mode == "BestOf" for one in asked) else "FirstReady",
        min_candidates=max((one.min_candidates for one in asked), default=chosen.min_candidates),
        max_wait=max((one.max_wait for one in asked), default=chosen.max_wait),
        max_skew=0,
    )


def _may_come(pass_: GangPass, cluster: str, place: TargetPlaces) -> bool:
    """Whether a target may still have room for a quorum."""
    return pass_.context.in_view(cluster) and len(place.ready) + len(place.hopes) >= place.need


def _offer(pass_: GangPass, target: Target, place: TargetPlaces) -> Offer:
    """Return what a target offers to a gang: since when it has a quorum, and the score of the worst place that the
    quorum needs.

    The least and not the sum: a gang goes as fast as its slowest member, and a sum would prefer whoever has more of the
    extra members."""
    offers = [pass_.offers[name][target.name] for name in place.ready]
    scores = sorted((offer.score for offer in offers), reverse=True)
    since = sorted(offer.since for offer in offers)
    return Offer(
        cluster=target.name,
        score=scores[place.need - 1],
        since=since[place.need - 1],
        tier=target.tier,
        failures=pass_.group.failures.get(target.name, 0),
    )
