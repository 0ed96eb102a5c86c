"""What to do about one gang now: permit it in one target, take that back, let it go, or have it rest. Pure.

In: the group's state, its members' as they are folded, the context, the time. Out: decisions, each with its stream, and when to look again.
A permission is one for a quorum at least: the group's own event and a permit for each member, of one append on the versions of all their
streams. All else a member does by itself, looking at the group's state (`GangView`): it takes its permit back, follows, ends its epoch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from controlplane.candidates.events import (
    CandidateRefused,
    CandidateReserved,
    CandidateUnschedulable,
    Decision,
    PermitGranted,
    PermitKind,
    RevokeAcked,
)
from controlplane.candidates.gang_events import (
    GangDissolved,
    GangFormed,
    GangKept,
    GangPermitted,
    GangReleased,
    GangRested,
    GangWaits,
    GangWithdrawn,
)
from controlplane.candidates.gangs import GroupState, Placed, stage_of, targets_of, view_of
from controlplane.candidates.permits import predecessor_runs
from controlplane.candidates.policy import Choice, Offer, Placement, Target, choose, effective
from controlplane.candidates.reasons import Reason
from controlplane.candidates.state import SourceState
from controlplane.candidates.turn import Context, Turn

_FIRST_REST, _LAST_REST = timedelta(seconds=1), timedelta(minutes=1)
_SAID = 900


class GangPlan(msgspec.Struct):
    """What was decided: the group's own decisions first, then those on members' streams. `wake`: when to look again."""

    own: list[Decision] = []
    theirs: list[tuple[str, Decision]] = []
    wake: datetime | None = None


class _Place(NamedTuple):
    """What one target has for a gang: members that hold a place, that may still get one, that found none, and how many are missing."""

    ready: list[str]
    hopes: list[str]
    without: list[str]
    need: int

    @property
    def whole(self) -> bool:
        return len(self.ready) >= self.need


def gang_decide(
    stream: str,
    group: GroupState,
    members: Mapping[str, SourceState],
    context: Context,
    now: datetime,
    ahead: Callable[[], bool] = lambda: False,
) -> GangPlan:
    """Return what follows for a gang; nothing while the source cluster's pods are not in view.

    `ahead`: whether a gang that comes before this one is waiting for the same targets.
    """
    turn = _GangTurn(group, members, context, now)
    if not context.ready:
        return turn.plan
    if group.placed is not None:
        _placed(turn, group.placed)
    elif view_of(stream, group, members).held is None:
        _free(turn, ahead)
    return turn.plan


class _GangTurn:
    """One pass over one gang. `turns` has what each member could do by itself; of the `lingering` ones an earlier attempt may still run
    somewhere; `busy` are all who cannot be permitted now, whatever they are offered.
    """

    def __init__(self, group: GroupState, members: Mapping[str, SourceState], context: Context, now: datetime) -> None:
        self.group, self.members, self.context, self.now = group, members, context, now
        self.plan = GangPlan()
        self.turns = {name: Turn(state, context, now) for name, state in sorted(members.items())}
        self.offers = {name: {o.cluster: o for o in one.offers()} for name, one in self.turns.items()}
        self.lingering = {name for name, one in self.turns.items() if predecessor_runs(one)}
        self.busy = {n for n, one in self.turns.items() if one.closed or one.permit is not None} | self.lingering
        for one in self.turns.values():
            self.wake_at(one.plan.wake)

    def say(self, decision: Decision) -> None:
        self.plan.own.append(decision)

    def wake_at(self, when: datetime | None) -> None:
        if when is not None and when > self.now and (self.plan.wake is None or when < self.plan.wake):
            self.plan.wake = when

    @property
    def number(self) -> int:
        return self.group.numbers + 1

    def bound(self, cluster: str) -> list[str]:
        """Return the members that have a place in a target for good: on a node there, or done there."""
        return [name for name in self.members if self.where(name) == cluster]

    def where(self, name: str) -> str:
        """Return the target that a member is bound in, or ended well in; "" if it is in none."""
        state = self.members[name]
        chosen = state.chosen if stage_of(state) in ("Assigned", "Succeeded") else None
        return chosen.cluster if chosen is not None else ""

    def runs(self, name: str) -> bool:
        return stage_of(self.members[name]) == "Assigned"

    def permitted(self) -> list[str]:
        """Return the members that have a permit to bind."""
        return [name for name, s in self.members.items() if s.permit is not None and s.permit.kind == "Bind"]


# --- while it is permitted somewhere ---------------------------------------------------------------------------------------


def _placed(turn: _GangTurn, placed: Placed) -> None:
    bound, open_ = turn.bound(placed.cluster), turn.permitted()
    running = [name for name in bound if turn.runs(name)]
    if not running and not open_:
        if not turn.lingering:
            _release(turn, placed, bound)
    elif placed.withdrawing:
        if running and not open_ and not placed.dissolved:
            turn.say(GangKept(cluster=placed.cluster, number=placed.number, reason=Reason.GANG_BOUND_MEANWHILE))
    elif placed.formed:
        return
    elif len(bound) >= placed.least:
        turn.say(GangFormed(cluster=placed.cluster, number=placed.number, reason=Reason.GANG_FORMED))
    elif not running and len(bound) + len(_firm(turn, open_)) < placed.least:
        message = f"fewer than {placed.least} of its members still hold a place in {placed.cluster}"
        turn.say(
            GangWithdrawn(cluster=placed.cluster, number=placed.number, message=message, reason=Reason.GANG_INCOMPLETE)
        )
    elif running:
        _together_in_time(turn, placed)


def _firm(turn: _GangTurn, open_: list[str]) -> list[str]:
    """Return the members whose permits may still be used."""
    return [name for name in open_ if not _revoking(turn.members[name])]


def _revoking(state: SourceState) -> bool:
    return state.permit is not None and state.permit.revoking


def _together_in_time(turn: _GangTurn, placed: Placed) -> None:
    """Some run and a quorum never did: others follow, but not for ever. A gang that cannot come together is taken back whole."""
    until = placed.since + turn.context.policy.gang_timeout
    if turn.now < until or not turn.context.in_view(placed.cluster):
        turn.wake_at(until)
        return
    message = f"fewer than {placed.least} of its members found a place in {placed.cluster} in time"
    turn.say(GangDissolved(cluster=placed.cluster, number=placed.number, message=message, reason=Reason.GANG_DISSOLVED))


def _release(turn: _GangTurn, placed: Placed, done: list[str]) -> None:
    """Nobody runs there any more: done, or lost, or taken back. If it failed, others are next; if it fails there again, it rests first."""
    group, cluster = turn.group, placed.cluster
    failed = not (placed.formed and (len(done) >= placed.least or turn.context.in_view(cluster)))
    failures = group.failures.get(cluster, 0) + failed
    others = [name for name in _targets(turn) if name != cluster]
    nobody_left = failures > 1 or all(group.failures.get(name, 0) >= failures for name in others)
    until = turn.now + _pause(turn, failures) if failed and nobody_left and not placed.formed else None
    turn.say(
        GangReleased(
            cluster=cluster,
            number=placed.number,
            failed=failed,
            until=until,
            reason=Reason.GANG_ENDED if placed.formed else Reason.GANG_INCOMPLETE,
        )
    )


def _pause(turn: _GangTurn, tries: int) -> timedelta:
    """Return how long a gang rests: longer each time, and not as long as another that began with it."""
    group = turn.group
    uid = group.seen.uid if group.seen is not None else group.name
    digest = hashlib.sha256(f"{uid}/{group.numbers}/{group.tries}/{tries}".encode()).digest()
    share = 0.5 + digest[0] / 512
    pause: timedelta = _FIRST_REST * float(2 ** min(max(tries - 1, 0), 30))
    return min(pause, _LAST_REST) * share


# --- while it is permitted nowhere -----------------------------------------------------------------------------------------


def _free(turn: _GangTurn, ahead: Callable[[], bool]) -> None:
    if _adopt(turn):
        return
    group = turn.group
    if group.rests_until is not None and turn.now < group.rests_until:
        turn.wake_at(group.rests_until)
        return
    placement, targets = _placement(turn), _targets(turn)
    places = {name: _place(turn, name) for name in targets}
    offers = [_offer(turn, targets[name], place) for name, place in places.items() if place.whole]
    pending = {
        name: targets[name] for name, place in places.items() if not place.whole and _may_come(turn, name, place)
    }
    if _making_room(turn, {offer.cluster for offer in offers}):
        return
    verdict = choose(offers, pending, group.failures, {}, placement, turn.now)
    if isinstance(verdict, Choice):
        among = {offer.cluster: offer.score for offer in offers}
        place = places[verdict.cluster]
        _permit(turn, verdict.cluster, "Bind", verdict.reason, place.ready, among, place.need)
        return
    turn.wake_at(verdict.until)
    if offers or _rest(turn, places, targets, ahead):
        return
    if not pending:
        _nowhere(turn, places, targets)


def _adopt(turn: _GangTurn) -> bool:
    """Take note of members that run, or are permitted, though the gang was never placed: they are where it is."""
    permits = (turn.members[name].permit for name in turn.permitted())
    there = [turn.where(name) for name in turn.members if turn.runs(name)]
    there += [permit.cluster for permit in permits if permit is not None]
    if not there:
        return False
    cluster = max(sorted(set(there)), key=there.count)
    members = [turn.members[name].name for name in turn.bound(cluster)]
    turn.say(
        GangPermitted(
            cluster=cluster,
            number=turn.number,
            kind="Bind",
            least=turn.group.least,
            members=members,
            reason=Reason.GANG_FOUND,
        )
    )
    return True


def _targets(turn: _GangTurn) -> dict[str, Target]:
    """Return the targets that every member may go to."""
    asked = targets_of(turn.members.values())
    return {t.name: t for t in turn.context.targets if asked is None or t.name in asked}


def _placement(turn: _GangTurn) -> Placement:
    """Return how the target is chosen: the most patient of what the members ask for. Spread is not asked: a gang never spans clusters."""
    chosen = turn.context.policy.placement
    asked = [effective(chosen, state.pod.options) for state in turn.members.values() if state.pod is not None]
    return msgspec.structs.replace(
        chosen,
        mode="BestOf" if any(one.mode == "BestOf" for one in asked) else "FirstReady",
        min_candidates=max((one.min_candidates for one in asked), default=chosen.min_candidates),
        max_wait=max((one.max_wait for one in asked), default=chosen.max_wait),
        max_skew=0,
    )


def _place(turn: _GangTurn, cluster: str) -> _Place:
    """Return what a target has for the gang."""
    ready: list[str] = []
    hopes: list[str] = []
    without: list[str] = []
    done = 0
    for name, one in turn.turns.items():
        stage = stage_of(one.state)
        done += stage == "Succeeded" and turn.where(name) == cluster
        if stage != "Pending":
            continue
        known = one.current().get(cluster)
        seen = known[1].seen if known is not None else None
        if name in turn.busy:
            hopes.append(name)
        elif cluster in turn.offers[name]:
            ready.append(name)
        elif isinstance(seen, (CandidateUnschedulable, CandidateRefused)):
            without.append(name)
        else:
            hopes.append(name)
    return _Place(ready, hopes, without, max(turn.group.least - done, 1))


def _may_come(turn: _GangTurn, cluster: str, place: _Place) -> bool:
    """Whether a target may still have room for a quorum."""
    return turn.context.in_view(cluster) and len(place.ready) + len(place.hopes) >= place.need


def _offer(turn: _GangTurn, target: Target, place: _Place) -> Offer:
    """Return what a target offers to a gang: since when it has a quorum, and the score of the worst place that the quorum needs.

    The least and not the sum: a gang goes as fast as its slowest member, and a sum would prefer whoever has more of the extra members.
    """
    offers = [turn.offers[name][target.name] for name in place.ready]
    scores = sorted((offer.score for offer in offers), reverse=True)
    since = sorted(offer.since for offer in offers)
    return Offer(
        cluster=target.name,
        score=scores[place.need - 1],
        since=since[place.need - 1],
        tier=target.tier,
        failures=turn.group.failures.get(target.name, 0),
    )


def _permit(
    turn: _GangTurn,
    cluster: str,
    kind: PermitKind,
    reason: Reason,
    names: list[str],
    among: dict[str, int],
    need: int = 1,
) -> None:
    """Permit members in a target, all in one append; none of them if `need` of them cannot be."""
    until, permits = turn.now + turn.context.policy.lease, []
    for name in names:
        one = turn.turns[name]
        candidate, known = one.current()[cluster]
        seen = known.seen
        assert seen is not None
        decision = PermitGranted(
            cluster=cluster,
            candidate=candidate,
            epoch=one.state.epoch,
            number=one.state.permits + 1,
            kind=kind,
            reservation=seen.reservation,
            until=until,
            among=among,
            resource_version=seen.resource_version,
            reason=reason,
        )
        if not one.write(decision):
            turn.wake_at(one.plan.wake)
            continue
        permits.append((name, decision))
    if len(permits) < need:
        return  # a candidate rests after its API server's no: the whole gang waits for it
    asked = turn.group.asked.get(cluster, 0) + 1
    turn.say(
        GangPermitted(
            cluster=cluster,
            number=turn.number,
            kind=kind,
            least=turn.group.least,
            members=[turn.members[name].name for name, _ in permits],
            among=among,
            until=until + _pause(turn, asked) if kind == "Preempt" else None,
            reason=reason,
        )
    )
    turn.plan.theirs += permits
    turn.wake_at(until)


# --- where there is no room ------------------------------------------------------------------------------------------------


def _making_room(turn: _GangTurn, ready: set[str]) -> bool:
    """Whether one target is being asked to make room. If another has a quorum meanwhile, the asking ends: it binds nobody."""
    asked = {name: s.permit for name, s in turn.members.items() if s.permit is not None and s.permit.kind == "Preempt"}
    if not asked:
        return False
    for name, permit in asked.items():
        if ready - {permit.cluster}:
            acked = RevokeAcked(
                cluster=permit.cluster,
                candidate=permit.candidate,
                number=permit.number,
                reason=Reason.ANOTHER_READY,
            )
            turn.plan.theirs.append((name, acked))
    return True


def _rest(
    turn: _GangTurn, places: Mapping[str, _Place], targets: Mapping[str, Target], ahead: Callable[[], bool]
) -> bool:
    """Have the gang give its places back if it holds some and has had no quorum for too long: another may need just these.

    Whoever comes later in the order gives way sooner, so that of two that hold half of each other's the first gets all.
    """
    since = [turn.offers[member][name].since for name, place in places.items() for member in place.ready]
    if not since:
        return False
    wait = turn.context.policy.gang_wait
    yields = ahead()
    until = min(since) + (wait / 3 if yields else wait)
    if turn.now < until:
        turn.wake_at(until)
        return False
    if not yields and _make_room(turn, places, targets):
        return True
    message = "some of its pods have a place and no cluster has one for all: it gives them back and tries again"
    turn.say(
        GangRested(
            until=turn.now + _pause(turn, turn.group.tries + 1),
            message=message,
            reason=Reason.GANG_YIELDS if yields else Reason.GANG_FITS_NOWHERE,
        )
    )
    return True


def _nowhere(turn: _GangTurn, places: Mapping[str, _Place], targets: Mapping[str, Target]) -> None:
    """Everybody has answered and nobody has room for all: have one make some, or say so."""
    if _make_room(turn, places, targets):
        return
    said = "; ".join(f"{name}: {_word(turn, name, places[name])}" for name in sorted(places))
    message = f"0/{len(places)} clusters have room for all of PodGroup {turn.group.name}: {said}"[:_SAID]
    known = turn.group.waits
    if known is None or known.message != message:
        turn.say(GangWaits(message=message, reason=Reason.GANG_FITS_NOWHERE))


def _word(turn: _GangTurn, cluster: str, place: _Place) -> str:
    """Return what a target says: the first word against a member. How many there are would change with each pod."""
    if not turn.context.in_view(cluster):
        return "cannot be reached"
    for name in place.without:
        known = turn.turns[name].current().get(cluster)
        seen = known[1].seen if known is not None else None
        if isinstance(seen, (CandidateUnschedulable, CandidateRefused)):
            return seen.message or seen.why or "no node"
    return "has room for some of its pods only"


def _make_room(turn: _GangTurn, places: Mapping[str, _Place], targets: Mapping[str, Target]) -> bool:
    """Ask one target to preempt for all members that found no node there: all of them may, or none, and nowhere else."""
    group = turn.group
    if group.asked_until is not None and turn.now < group.asked_until:
        turn.wake_at(group.asked_until)
        return False
    able = [name for name, place in places.items() if turn.context.in_view(name) and _could(turn, name, place)]
    chosen = min(
        able, key=lambda n: (group.asked.get(n, 0), group.failures.get(n, 0), targets[n].tier, n), default=None
    )
    if chosen is None:
        return False
    unplaced = [name for name in places[chosen].without if _unschedulable(turn, name, chosen) is not None]
    _permit(turn, chosen, "Preempt", Reason.ROOM_BY_PREEMPTION, unplaced, {})
    return bool(turn.plan.theirs)


def _could(turn: _GangTurn, cluster: str, place: _Place) -> bool:
    """Whether a target could have a quorum if it made room: it says so of one member at least, and refuses not too many."""
    found = [seen for name in place.without if (seen := _unschedulable(turn, name, cluster)) is not None]
    enough = len(place.ready) + len(found) >= place.need
    return enough and any(seen.preemptable for seen in found)


def _unschedulable(turn: _GangTurn, name: str, cluster: str) -> CandidateUnschedulable | None:
    known = turn.turns[name].current().get(cluster)
    seen = known[1].seen if known is not None else None
    return seen if isinstance(seen, CandidateUnschedulable) and not seen.deleting else None


def contends(group: GroupState, members: Mapping[str, SourceState]) -> set[str]:
    """Return the targets in which a gang that is placed nowhere holds places: who comes after it gives way there."""
    if group.placed is not None:
        return set()
    return {
        known.cluster
        for state in members.values()
        for known in state.candidates.values()
        if (known.uid, known.epoch) == (state.uid, state.epoch) and isinstance(known.seen, CandidateReserved)
    }
