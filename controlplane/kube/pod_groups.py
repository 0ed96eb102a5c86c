"""Gangs: a group's pods start together or not at all.

In: a group, what was seen of its members, what a scheduler did with one of them, the time. Out: who is held, who waits,
who is let go or turned back together. Values and functions only; the scheduler's plugin `Gang` asks them at its
extension points and keeps the `GangProgress` of each group, and so may any other scheduler. A group is on one cluster,
so one process knows all of its members.

The rules follow the gang plugin of Volcano (volcano-sh/volcano pkg/scheduler/plugins/gang/gang.go, ed72c7c81), the
coscheduling plugin (kubernetes-sigs/scheduler-plugins pkg/coscheduling) and KEP-4671 (kubernetes/enhancements
keps/sig-scheduling/4671-gang-scheduling). Members without requests count towards the quorum, as in Volcano: a gang asks
for pods, not for resources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from controlplane.values import Value

#: The annotation of a pod that names its PodGroup.
GROUP_NAME = "scheduling.k8s.io/group-name"
#: The annotation of a candidate's Pod: how many of its group start together, where no PodGroup of that name is in its
#: cluster.
QUORUM = "candidates.controlplane.dev/min-member"
Amounts = Mapping[str, int]
#: `Pending` is not bound; `Assigned` is bound to a node, though it may be terminating there (it still counts, as
#: volcano-sh/volcano issue 5794 asks).
Stage = Literal["Pending", "Assigned", "Succeeded", "Failed"]
Rank = tuple[int, float, str, bool, float, str]


class GangValue(Value, omit_defaults=True, forbid_unknown_fields=True):
    """A value about a gang."""


class GangDefaults(GangValue):
    """The defaults of all groups. `gap_percent`: how many of the wanted members may fail before those who wait are
    turned back.
    """

    timeout: timedelta = timedelta(minutes=5)
    first_backoff: timedelta = timedelta(seconds=1)
    last_backoff: timedelta = timedelta(minutes=1)
    gap_percent: int = 0


class GroupSpec(GangValue):
    """What a PodGroup asks for. `min_resources` in the unit that the free sum is in too; `timeout` overrides the
    default.
    """

    namespace: str
    name: str
    created: datetime
    min_member: int
    priority: int = 0
    min_resources: dict[str, int] = {}
    timeout: timedelta | None = None


class Member(GangValue):
    """A pod of a group, as it was last seen."""

    uid: str
    name: str
    stage: Stage = "Pending"


class GangProgress(Value):
    """A group's members and how far their start has come.

    `waiting`: reserved and held at permit; `released`: let go there and not seen on a node yet; `failing`: could not be
    placed since the last time the gang was turned back. `started`: a quorum was on nodes at once, which holds until
    nobody runs any more; that one was let go is less, since its members are bound one by one."""

    members: dict[str, Member] = {}
    waiting: tuple[str, ...] = ()
    released: frozenset[str] = frozenset()
    failing: frozenset[str] = frozenset()
    started: bool = False
    deadline: datetime | None = None
    failures: int = 0
    not_before: datetime | None = None

    @property
    def assigned(self) -> set[str]:
        """The members that have a place for good: on a node, done there, or let go."""
        placed = {uid for uid, member in self.members.items() if member.stage in ("Assigned", "Succeeded")}
        return placed | self.released

    @property
    def present(self) -> int:
        """How many members there are to start or started; a pod that failed is replaced by another one, or is
        missing.
        """
        return sum(member.stage != "Failed" for member in self.members.values())


EMPTY = GangProgress()
HoldReason = Literal["GroupMissing", "SourceUnknown", "TooFewMembers", "BackingOff"]


class GangHold(GangValue):
    """Why a pod does not enter the queue yet; `until` where time alone ends it."""

    reason: HoldReason
    message: str
    until: datetime | None = None


class Go(GangValue):
    """The pod may be bound, and so may these siblings that waited."""

    released: tuple[str, ...] = ()


class GangWait(GangValue):
    """The pod keeps its place and waits until `deadline`; `activate`: siblings that should be tried at once."""

    deadline: datetime
    activate: tuple[str, ...] = ()


# --- what was seen ---------------------------------------------------------------------------------------------------


def seen(gang: GangProgress, member: Member, group: GroupSpec | None = None) -> GangProgress:
    """Return the gang after a member was seen; `group`, where it is known, says whether they are together now."""
    gang = _replace(gang, members={**gang.members, member.uid: member})
    if member.stage != "Pending":
        gang = _without(gang, member.uid)
    gang = _settled(gang)
    return together(group, gang) if group is not None else gang


def together(group: GroupSpec, gang: GangProgress) -> GangProgress:
    """Return the gang with its start noted, and its failures forgotten, if `min_member` are on nodes; also those bound
    by others.
    """
    placed = gang.assigned - gang.released
    if len(placed) < group.min_member or not _runs(gang):
        return gang
    return _replace(gang, started=True, failures=0, not_before=None)


def gone(gang: GangProgress, uid: str) -> GangProgress:
    """Return the gang after a member was deleted; of one that waited or was wanted, `unplaced` is asked as well."""
    members = {key: member for key, member in gang.members.items() if key != uid}
    return _settled(_without(_replace(gang, members=members), uid))


# --- before the queue ------------------------------------------------------------------------------------------------


def short_of(group: GroupSpec | None, assigned: int, present: int) -> GangHold | None:
    """Return why members are held of a group of which so many have a place for good and so many are there, None if they
    are not.

    A pod whose group is not there waits for it, for ever if need be: it is not scheduled singly."""
    if group is None:
        return GangHold(reason="GroupMissing", message="the PodGroup that the pod names is not there")
    if assigned >= group.min_member or present >= group.min_member:
        return None
    # How many are missing would change with each pod.
    missing = f"fewer than {group.min_member} pods of PodGroup {group.name} are there"
    return GangHold(reason="TooFewMembers", message=missing)


def hold(group: GroupSpec | None, gang: GangProgress, now: datetime) -> GangHold | None:
    """Return why a member may not enter the queue, None if it may."""
    if group is not None and _has_quorum(group, gang):
        return None
    if (short := short_of(group, len(gang.assigned), gang.present)) is not None or group is None:
        return short
    if gang.not_before is not None and now < gang.not_before:
        return GangHold(
            reason="BackingOff",
            message=f"PodGroup {group.name} could not be placed as a whole and rests",
            until=gang.not_before,
        )
    return None


def rank(group: GroupSpec, pod_created: datetime, pod_name: str, *, follows: bool = False) -> Rank:
    """Return the sort key of a member: groups one after the other, by priority, age and name, then the pods inside;
    last those that `follow` other pods to their nodes, which may be pods of the group.

    Ordered by pods, two gangs would interleave, and each hold half (kubernetes-sigs/scheduler-plugins issue 114).
    """
    return (
        -group.priority,
        group.created.timestamp(),
        f"{group.namespace}/{group.name}",
        follows,
        pod_created.timestamp(),
        pod_name,
    )


def rank_single(namespace: str, name: str, priority: int, created: datetime) -> Rank:
    """Return the sort key of a pod without a group, which is a group of its own."""
    return (-priority, created.timestamp(), f"{namespace}/{name}", False, created.timestamp(), name)


def shortage(group: GroupSpec, free: Amounts, own: Amounts) -> dict[str, int]:
    """Return what the cluster lacks for the group's `minResources`, empty if nothing.

    `free` is the sum over all nodes, `own` what the group's own pods hold of what is used. Only what the group asks for
    is looked at. It is a necessary condition: a sum that suffices says nothing about whether each pod fits on a node.
    """
    lacking = {
        name: amount - free.get(name, 0) - own.get(name, 0) for name, amount in sorted(group.min_resources.items())
    }
    return {name: amount for name, amount in lacking.items() if amount > 0}


# --- at permit -------------------------------------------------------------------------------------------------------


def permit(
    group: GroupSpec, gang: GangProgress, uid: str, now: datetime, limits: GangDefaults
) -> tuple[GangProgress, Go | GangWait]:
    """Decide about a member that has a place: it goes, and everybody with it, once there are enough; else it
    waits.
    """
    if uid in gang.released:
        return gang, Go()
    if _has_quorum(group, gang):
        return _all_go(_replace(_without(gang, uid), released=gang.released | {uid}))
    if len(gang.assigned | {*gang.waiting, uid}) >= group.min_member:
        return _all_go(_replace(_without(gang, uid), released=gang.released | {uid}))
    first = not gang.waiting
    if uid in gang.waiting and gang.deadline is not None:
        return gang, GangWait(deadline=gang.deadline)
    deadline = gang.deadline or now + (group.timeout or limits.timeout)
    gang = _replace(gang, waiting=(*gang.waiting, uid), deadline=deadline, failing=gang.failing - {uid})
    return gang, GangWait(deadline=deadline, activate=_siblings(gang) if first else ())


def unplaced(
    group: GroupSpec, gang: GangProgress, uid: str, now: datetime, limits: GangDefaults
) -> tuple[GangProgress, tuple[str, ...]]:
    """Return the gang after a member could not be placed or lost its place, and the siblings that are turned back for
    it.

    Without it, nine of ten pods would pin their nodes until the time-out (kubernetes-sigs/scheduler-plugins issue 713).
    After a quorum, a failure is its own member's alone. Of a quorum that was let go and is not on nodes yet, those who
    are not bound are turned back too; those who are stay, and count when the others are tried again."""
    gang = _without(gang, uid)
    if _has_quorum(group, gang):
        return _settled(gang), ()
    gang = _replace(gang, failing=gang.failing | {uid})
    if len(gang.failing) * 100 <= group.min_member * limits.gap_percent:
        return gang, ()
    let_go = tuple(sorted(gang.released))
    gang, rejected = _turned_back(_replace(gang, released=frozenset()), now, limits)
    return _settled(gang), (*rejected, *let_go)


def expire(gang: GangProgress, now: datetime, limits: GangDefaults) -> tuple[GangProgress, tuple[str, ...]]:
    """Return the gang after its time is over, and all who waited: they are turned back together."""
    if gang.deadline is None or now < gang.deadline:
        return gang, ()
    return _turned_back(gang, now, limits)


# --- preemption ------------------------------------------------------------------------------------------------------


def victims(group: GroupSpec, gang: GangProgress, wanted: Iterable[str]) -> frozenset[str]:
    """Return who has to go if these members go: they alone while a quorum stays, else everybody who has a
    place.
    """
    placed = {uid for uid in gang.members if gang.members[uid].stage == "Assigned"} | gang.released | {*gang.waiting}
    chosen = placed & {*wanted}
    done = sum(member.stage == "Succeeded" for member in gang.members.values())
    if not chosen or len(placed) - len(chosen) + done >= group.min_member:
        return frozenset(chosen)
    return frozenset(placed)


# --- what people and autoscalers see ---------------------------------------------------------------------------------


class GroupCondition(GangValue):
    """The one condition of a group: type `Unschedulable` or `Scheduled`, in Volcano's words."""

    type: str
    status: str
    reason: str
    message: str


def group_condition(group: GroupSpec, gang: GangProgress, why: str = "") -> GroupCondition:
    """Return the condition of a group: scheduled, or unschedulable with the number of members that have no place
    yet.
    """
    total, ready = max(gang.present, group.min_member), len(gang.assigned)
    if ready >= group.min_member:
        return GroupCondition(
            type="Scheduled",
            status="True",
            reason="tasks in gang are ready to be scheduled",
            message=f"{ready}/{total} ready",
        )
    message = f"{total - ready}/{total} tasks in gang unschedulable: at least {group.min_member} are needed together"
    return GroupCondition(
        type="Unschedulable",
        status="True",
        reason="NotEnoughResources",
        message=f"{message}; {why}" if why else message,
    )


# --- the parts -------------------------------------------------------------------------------------------------------

_replace = msgspec.structs.replace


def _has_quorum(group: GroupSpec, gang: GangProgress) -> bool:
    """Whether members are scheduled singly: enough have a place, or had one together and some of them still run."""
    return gang.started or len(gang.assigned) >= group.min_member


def _siblings(gang: GangProgress) -> tuple[str, ...]:
    resting = gang.assigned | {*gang.waiting}
    return tuple(uid for uid, member in gang.members.items() if member.stage == "Pending" and uid not in resting)


def _all_go(gang: GangProgress) -> tuple[GangProgress, Go]:
    freed = gang.waiting
    return _replace(gang, waiting=(), released=gang.released | {*freed}, deadline=None, failing=frozenset()), Go(
        released=freed
    )


def _turned_back(gang: GangProgress, now: datetime, limits: GangDefaults) -> tuple[GangProgress, tuple[str, ...]]:
    failures = gang.failures + 1
    pause = min(limits.first_backoff * 2 ** min(failures - 1, 30), limits.last_backoff)
    rejected = gang.waiting
    return (
        _replace(gang, waiting=(), failing=frozenset(), deadline=None, failures=failures, not_before=now + pause),
        rejected,
    )


def _without(gang: GangProgress, uid: str) -> GangProgress:
    """Return the gang in which a member neither waits nor was let go; the last one to leave takes the time-out with
    it.
    """
    waiting = tuple(one for one in gang.waiting if one != uid)
    return _replace(
        gang,
        waiting=waiting,
        released=gang.released - {uid},
        failing=gang.failing - {uid},
        deadline=gang.deadline if waiting else None,
    )


def _settled(gang: GangProgress) -> GangProgress:
    """Return the gang with its start noted or forgotten: it lasts while a member runs or was let go."""
    return _replace(gang, started=gang.started and _runs(gang))


def _runs(gang: GangProgress) -> bool:
    return bool(gang.released) or any(member.stage == "Assigned" for member in gang.members.values())
