"""Decides what to do about one pod, one group, or the rules now: level-triggered, from what is seen.

In: the index of what is known, the time. Out: decisions, and when to look again. Pure. A pod is resolved once and its
pin recorded; its group is created when it has a member, the pod's annotation written when the group is there and ours.
Fields of a group are touched only when what we derive for them changes: who edits a group by hand keeps
the edit until then."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.podgroups import events, phases
from controlplane.controllers.podgroups.condition import LONGEST_NOTE, shown_condition, wanted_condition
from controlplane.controllers.podgroups.index import PodGroupIndex
from controlplane.controllers.podgroups.membership import group_queue, min_resources, newest_template
from controlplane.controllers.podgroups.objects import OwnerReference
from controlplane.controllers.podgroups.ownership import (
    Read,
    Resolution,
    Retry,
    Warned,
    member_count,
    resolve,
    skip,
)
from controlplane.controllers.podgroups.phases import Counts, Phase
from controlplane.controllers.podgroups.reasons import Oddity, PodGroupReason
from controlplane.controllers.podgroups.reservations import claim_of
from controlplane.controllers.podgroups.state import MemberState, PodGroupState, RulesState
from controlplane.log.event import Event
from controlplane.runtime.streams import object_of

_LONGEST_PAUSE = 300  # seconds before something that others keep undoing is done again


class GroupPassResult(msgspec.Struct, frozen=True):
    """What one pass decided, the read it waits for, and when to look again though nothing happens."""

    decisions: tuple[Event, ...] = ()
    read: Read | None = None
    wake: datetime | None = None


NOTHING = GroupPassResult()


# --- a pod -----------------------------------------------------------------------------------------------------------


def decide_member(index: PodGroupIndex, state: MemberState, now: datetime) -> GroupPassResult:
    """Return what follows for a pod: its owner is resolved, it is put into its group, or it is told why it cannot
    be.
    """
    seen = state.seen
    if seen is None or not index.ready or _is_left_alone(index, seen):
        return NOTHING
    if state.resolved is None:
        return _resolve(index, seen, now)
    if not state.slot.free(now):
        return GroupPassResult(wake=state.slot.wake)
    group, owner = index.group_of(state.resolved, seen.facts.namespace).seen, state.resolved.resolution.owner
    if group is None and index.is_gone(seen.facts.namespace, owner):
        return _resolve(index, seen, now, but=owner)
    if group is None or group.deleting:
        return NOTHING
    head = {"uid": seen.uid, "resource_version": seen.resource_version, "cluster": index.connection.name}
    if group.owner_uid != owner.uid:
        warning = taken(group)
        if seen.problem == str(warning):
            return NOTHING
        return GroupPassResult((events.MemberWarned(**head, warning=warning, reason=PodGroupReason.GROUP_NAME_TAKEN),))
    warnings = [*state.resolved.resolution.warnings, *group_queue(seen.facts)[1]]
    joins = events.MembershipDecided(**head, group=group.name, warnings=warnings, reason=PodGroupReason.GROUP_EXISTS)
    return GroupPassResult((joins,))


def _is_left_alone(index: PodGroupIndex, seen: events.MemberObserved) -> bool:
    return seen.deleting or skip(seen.facts, index.policy.schedulers) is not None


def taken(group: events.GroupObserved) -> Warned:
    """Return the warning that a group's name belongs to another owner."""
    whose = group.owner or "nobody: it has no controlling owner"
    return Warned(oddity=Oddity.GROUP_NAME_TAKEN, message=f"PodGroup {group.name} belongs to {whose}; remove it")


def _resolve(
    index: PodGroupIndex, seen: events.MemberObserved, now: datetime, but: OwnerReference | None = None
) -> GroupPassResult:
    """Find who owns the group of a pod; `but`: who owned it, and is gone."""
    rules = index.rules.rules
    step = resolve(seen.facts, rules, lambda ns, owner: index.known(ns, owner, now), index.policy.schedulers)
    match step:
        case Read():
            return GroupPassResult(read=step)
        case Retry():
            return GroupPassResult(wake=_retry_at(index, seen.facts.namespace, step))
        case Resolution() if step.owner != but:
            found = events.OwnerResolved(uid=seen.uid, group=step.group_name, resolution=step, reason=step.reason)
            return GroupPassResult((found,))
        case _:
            return NOTHING


def _retry_at(index: PodGroupIndex, namespace: str, step: Retry) -> datetime | None:
    state = index.owners.get(events.owner_stream(namespace, step.owner))
    return state.retry_at if state is not None else None


# --- a group ---------------------------------------------------------------------------------------------------------


def decide_group(index: PodGroupIndex, stream: str, state: PodGroupState, now: datetime) -> GroupPassResult:
    """Return what follows for a group: it is created for its first member, kept in line with its owner, its phase
    written.
    """
    members = index.members_of(stream)
    first = first_of(members, stream)
    if not index.ready or (first is None and state.seen is None):
        return NOTHING
    if not state.slot.free(now):
        return GroupPassResult(wake=state.slot.wake)
    if state.seen is None:
        return _create(index, state, first, now) if first is not None else NOTHING
    if state.seen.deleting:
        return NOTHING
    if first is None or is_made_by_others(state, first):
        return _keep_others(index, state, state.seen, members, now)
    if (update := _update(index, state, state.seen, first)) is not None:
        return _not_before(_after(state.missed_at, state.missed), update, now)
    return _status(index, state, state.seen, members, now)


def _keep_others(
    index: PodGroupIndex, state: PodGroupState, seen: events.GroupObserved, members: list[MemberState], now: datetime
) -> GroupPassResult:
    """Return what follows for a group that others made: its fields are theirs, its phase is that of the pods that name
    it.
    """
    named = [one for one in members if one.seen is not None and one.seen.facts.group_name]
    if named or state.derived or state.written_at:
        return _status(index, state, seen, named, now)
    return NOTHING


def first_of(members: list[MemberState], stream: str) -> MemberState | None:
    """Return the oldest of the members that were resolved to a group, those that are not being deleted first: the one
    that it is derived from.
    """
    namespace, name = object_of(stream)  # a pod may name any group
    resolved = [
        (one.seen.deleting, one.seen.created, one.seen.facts.name, one)
        for one in members
        if one.seen is not None
        and one.resolved is not None
        and one.resolved.group == name
        and one.seen.facts.namespace == namespace
    ]
    return min(resolved, key=lambda found: found[:3])[3] if resolved else None


def is_made_by_others(state: PodGroupState, first: MemberState | None) -> bool:
    """Whether a group belongs to another owner than the pod's that it would be derived from; `first` is that pod."""
    if state.seen is None or first is None or first.resolved is None:
        return True
    return state.seen.owner_uid != first.resolved.resolution.owner.uid


def _after(at: datetime | None, times: int) -> datetime | None:
    """Return when something that did not last may be done again, later each time."""
    return at + timedelta(seconds=min(2 ** min(times, 20), _LONGEST_PAUSE)) if at is not None else None


def _not_before(at: datetime | None, decision: Event, now: datetime) -> GroupPassResult:
    """Return a decision, or that it has to wait."""
    return GroupPassResult((decision,)) if at is None or at <= now else GroupPassResult(wake=at)


def _create(index: PodGroupIndex, state: PodGroupState, first: MemberState, now: datetime) -> GroupPassResult:
    seen, resolved = first.seen, first.resolved
    assert seen is not None
    assert resolved is not None
    found = resolved.resolution
    if seen.deleting or index.is_gone(seen.facts.namespace, found.owner):
        return NOTHING  # nobody needs it any more, or the garbage collector would take it as soon as it is there
    wanted, resources = _derive(index, first, found, found.min_member)
    created = events.GroupCreationDecided(
        cluster=index.connection.name,
        owner=found.owner,
        min_member=wanted,
        min_resources=resources,
        queue=group_queue(seen.facts)[0],
        priority_class=seen.priority_class,
        reason=PodGroupReason.MEMBER_WITHOUT_GROUP,
    )
    # Deleted under its members: their owner may be on its way out as well.
    return _not_before(_after(state.lost_at, state.lost), created, now)


def _members_now(index: PodGroupIndex, namespace: str, found: Resolution) -> int | None:
    """Return how many members the owners ask for now; None where that is not known: an owner that was read before, and
    cannot be read any more or is gone, asks for what it did.
    """
    read = {look.owner for look in found.looked if look.outcome == "Found"}
    unknown = False
    for position in range(found.selected, 0, -1):
        owner = found.chain[position]
        state = index.owners.get(events.owner_stream(namespace, owner))
        if state is None or state.answer.facts is None:
            if state is None or state.answer.outcome == "Unavailable" or owner in read:
                return None
            unknown = True
        elif state.answer.facts.min_member is not None:
            return member_count(state.answer.facts.min_member) or 1
    return None if unknown else 1


def _derive(index: PodGroupIndex, member: MemberState, found: Resolution, before: int) -> tuple[int, dict[str, str]]:
    """Return minMember and minResources as the owners say now; `before`: how many members there were to be until
    now."""
    assert member.seen is not None
    namespace = member.seen.facts.namespace
    wanted = _members_now(index, namespace, found) or before
    requests = newest_template(index.templates(found, namespace), namespace, found) or member.seen.requests
    return wanted, min_resources(requests, wanted) or {}


def _update(
    index: PodGroupIndex, state: PodGroupState, seen: events.GroupObserved, first: MemberState
) -> events.GroupUpdateDecided | None:
    assert first.resolved is not None
    before = state.derived[0] if state.derived is not None else seen.min_member
    wanted = _derive(index, first, first.resolved.resolution, before)
    # Of a group that others made, only what we would write is compared: it may ask for more.
    shown = {name: amount for name, amount in seen.min_resources.items() if name in wanted[1]}
    known = state.derived if state.derived is not None else (seen.min_member, shown)
    if wanted == known or not _by_template(index, first, known, wanted):
        return None
    return events.GroupUpdateDecided(
        cluster=index.connection.name,
        uid=seen.uid,
        resource_version=seen.resource_version,
        min_member=wanted[0],
        min_resources=wanted[1],
        dropped=sorted(known[1].keys() - wanted[1].keys()),
        reason=PodGroupReason.MIN_MEMBER_CHANGED if wanted[0] != known[0] else PodGroupReason.TEMPLATE_CHANGED,
    )


def _by_template(
    index: PodGroupIndex, first: MemberState, known: tuple[int, dict[str, str]], wanted: tuple[int, dict[str, str]]
) -> bool:
    """Whether a difference is one that an owner made: which pod happens to be the oldest now is none."""
    assert first.seen is not None
    assert first.resolved is not None
    if known[0] != wanted[0]:
        return True
    found, namespace = first.resolved.resolution, first.seen.facts.namespace
    return newest_template(index.templates(found, namespace), namespace, found) is not None


def _status(
    index: PodGroupIndex, state: PodGroupState, seen: events.GroupObserved, members: list[MemberState], now: datetime
) -> GroupPassResult:
    warnings = _warnings(members)
    if not _is_ours(index, state, members):
        return _condition(index, state, seen, warnings, now)
    counts = phases.count(one.seen.stage for one in members if one.seen is not None)
    phase, reason, wake = _phase(index, state, seen, counts, members, now)
    shown = (seen.phase, seen.running, seen.succeeded, seen.failed)
    same = shown == (phase, counts.running, counts.succeeded, counts.failed) and state.phase == phase
    if same and shown_condition(seen) == wanted_condition(warnings):
        return GroupPassResult(wake=wake)
    next_write = _next_write(index, state, now)
    if now < next_write:
        return GroupPassResult(wake=min(next_write, wake) if wake is not None else next_write)
    status = events.GroupStatusDecided(
        cluster=index.connection.name,
        uid=seen.uid,
        resource_version=seen.resource_version,
        phase=phase,
        running=counts.running,
        succeeded=counts.succeeded,
        failed=counts.failed,
        warnings=warnings,
        reason=reason,
    )
    return GroupPassResult((status,), wake=wake)


def _is_ours(index: PodGroupIndex, state: PodGroupState, members: list[MemberState]) -> bool:
    """Whether a group's phase and numbers are ours to write, by the schedulers of its members; without any it stays
    as it was."""
    names = {one.seen.facts.scheduler_name for one in members if one.seen is not None}
    return not names.isdisjoint(index.policy.status_for) if names else state.ours


def _next_write(index: PodGroupIndex, state: PodGroupState, now: datetime) -> datetime:
    """Return when a status may be written: after a pause, longer each time that somebody else wrote over ours."""
    free = state.written_at + index.policy.status_interval if state.written_at is not None else now
    return max(free, _after(state.contested_at, state.contested) or free)


def _condition(
    index: PodGroupIndex, state: PodGroupState, seen: events.GroupObserved, warnings: list[Warned], now: datetime
) -> GroupPassResult:
    """Return what follows for the one condition of ours, where the rest of the status is another scheduler's."""
    if not state.ours and shown_condition(seen) == wanted_condition(warnings):
        return NOTHING
    if now < (next_write := _next_write(index, state, now)):
        return GroupPassResult(wake=next_write)
    decided = events.GroupStatusDecided(
        cluster=index.connection.name,
        uid=seen.uid,
        resource_version=seen.resource_version,
        phase=state.phase,
        running=seen.running,
        succeeded=seen.succeeded,
        failed=seen.failed,
        warnings=warnings,
        conditions_only=True,
        reason=PodGroupReason.MEMBERS_CHANGED,
    )
    return GroupPassResult((decided,))


def _phase(
    index: PodGroupIndex,
    state: PodGroupState,
    seen: events.GroupObserved,
    counts: Counts,
    members: list[MemberState],
    now: datetime,
) -> tuple[Phase, PodGroupReason, datetime | None]:
    phase = phases.phase_after(state.phase, counts, seen.min_member)
    ends = phases.expires_at(phase, state.since, index.policy.inqueue_limit)
    if ends is not None:
        return (
            ("Pending", PodGroupReason.INQUEUE_EXPIRED, None)
            if now >= ends
            else (phase, PodGroupReason.MEMBERS_CHANGED, ends)
        )
    if phase != "Pending" or index.capacity is None:
        return phase, PodGroupReason.MEMBERS_CHANGED, None
    rested = state.rests_until + index.policy.inqueue_limit if state.rests_until is not None else None
    if rested is not None and now < rested:
        return phase, PodGroupReason.MEMBERS_CHANGED, rested
    if counts.live < max(seen.min_member, 1):
        return phase, PodGroupReason.MEMBERS_CHANGED, None
    claim, kept = claim_of(state, members), index.kept_free_besides(events.group_stream(seen.namespace, seen.name))
    if claim is not None and phases.fits(claim, index.capacity, kept, index.policy.overcommit):
        return "Inqueue", PodGroupReason.ROOM_FOUND, None
    return phase, PodGroupReason.MEMBERS_CHANGED, None


def _warnings(members: list[MemberState]) -> list[Warned]:
    """Return what was odd on the way to a group's owner, each once."""
    found = {
        str(one): one
        for member in members
        if member.resolved is not None
        for one in member.resolved.resolution.warnings
    }
    return [found[key] for key in sorted(found)]


# --- the rules -------------------------------------------------------------------------------------------------------


def decide_rules(index: PodGroupIndex, state: RulesState, now: datetime) -> GroupPassResult:
    """Return what follows for the ConfigMap: a note of ours on it says whether its rules hold."""
    if not state.uid:
        return NOTHING
    wanted = note_of(state)
    if state.note == wanted:
        return NOTHING
    if not state.slot.free(now):
        return GroupPassResult(wake=state.slot.wake)
    noted = events.RulesNoted(
        cluster=index.connection.name,
        uid=state.uid,
        resource_version=state.resource_version,
        note=wanted,
        reason=PodGroupReason.RULES_REFUSED if state.complaints else PodGroupReason.RULES_ACCEPTED,
    )
    return GroupPassResult((noted,))


def note_of(state: RulesState) -> str:
    """Return what the ConfigMap is to say; "" for rules that hold."""
    if not state.complaints:
        return ""
    text = f"refused, the rules before it stay in force: {'; '.join(map(str, state.complaints))}"
    return text if len(text) <= LONGEST_NOTE else text[: LONGEST_NOTE - 4] + " ..."
