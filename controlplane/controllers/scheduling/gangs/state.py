"""Keeps the gangs of one cluster: which PodGroups there are, who is in them, and how far each has come.

In: PodGroups, PriorityClasses and pods as the view takes them in; from the loop what was reserved, let go, or found no
node; the time, which the loop sets before it asks. Out: what the plugin `Gang` answers, and for the loop who is let go
or turned back. The rules are `controlplane.kube.pod_groups`'s; here they meet a cluster. It stands among the tables of
a `Cluster`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from controlplane.controllers.scheduling.gangs import progress
from controlplane.controllers.scheduling.gangs.objects import Name, PodGroupsHere, follows, is_gated, name_of, stage_of
from controlplane.controllers.scheduling.gangs.place import UNMARKED, KnownSources, MemberCounts, Place, StartProgress
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.kube import pod_groups as rules
from controlplane.kube.pod_fields import Obj
from controlplane.kube.pod_groups import (
    EMPTY,
    GangDefaults,
    GangHold,
    GangProgress,
    GroupCondition,
    GroupSpec,
    Member,
)

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class ClusterGangs:
    """See the module. `enabled` once a profile has the plugin; `groups` what each gang asks for; `changed` which
    the loop has to look at again.
    """

    def __init__(self) -> None:
        self.enabled = False
        self.limits = GangDefaults()
        self.now = _BEGINNING
        self.groups: dict[Place, GroupSpec] = {}
        self.here = PodGroupsHere()
        self.changed: dict[Place, None] = {}
        self.lost: set[Place] = set()  # groups of which a member went, or whose wishes changed: everybody looks again
        self.short: set[Place] = set()  # groups that `minResources` kept back last
        self._of_name: dict[Name, set[Place]] = {}  # the gangs that have members
        self._gangs: dict[Place, GangProgress] = {}
        self._pods: dict[Place, dict[str, Pod]] = {}
        self._counts: dict[Place, MemberCounts] = {}
        self._gated: dict[Place, set[str]] = {}  # members that still have scheduling gates
        self._places: dict[str, Place] = {}
        self._sources = KnownSources()
        self._waited_for: set[Place] = set()

    # ---------------------------------------------------------------- what the watches show

    def put(self, obj: Obj, where: str = "podGroup") -> None:
        """Read a PodGroup; one that cannot be read is as if it were not there, and `PodMisfit` names the field."""
        name = name_of(obj, where)
        try:
            self.here.put(name, obj, where)
        finally:
            self._renew(name)

    def drop(self, name: Name) -> None:
        """Forget a PodGroup."""
        self.here.drop(name)
        self._renew(name)

    def _renew(self, name: Name) -> None:
        """A PodGroup came, changed or went: it counts for this cluster's pods, and for each source's by themselves."""
        for place in sorted({Place(*name), *self._of_name.get(name, ())}):
            self.changed[place] = None
            before, group = self.groups.get(place), self._asked(place)
            self._ask(place, group)
            if before is not None and group is not None and before != group:
                self.lost.add(place)

    def _asked(self, place: Place) -> GroupSpec | None:
        """Return what a gang asks for: a group that is not here is what its candidates' source says of it; a PodGroup
        of this cluster says more, also a bad one.
        """
        name = place[:2]
        if name in self.here.groups or name in self.here.problems:
            return self.here.groups.get(name)
        counts = self._counts.get(place)
        least = counts.least if counts is not None else 0
        known = self.groups.get(place)
        since = known.created if known is not None else self.now
        return GroupSpec(namespace=place[0], name=place[1], created=since, min_member=least) if least else None

    def _ask(self, place: Place, group: GroupSpec | None) -> None:
        if group is None:
            self.groups.pop(place, None)
            return
        self.groups[place] = group
        if place in self._gangs:
            self._gangs[place] = rules.together(group, self._gangs[place])

    def _lend(self, place: Place) -> None:
        """Have a gang be what its own pods say of it, where no PodGroup of this cluster does."""
        group = self._asked(place)
        if group != self.groups.get(place):
            self._ask(place, group)
            self.changed[place] = None
            self.lost.add(place)

    def see(self, pod: Pod) -> None:
        """Take a pod in, or take note that it has changed. One that is being deleted counts no more: its place is as
        good as free.
        """
        if pod.terminating:
            self.forget(pod.identity)
            return
        others = self._sources.put(pod)
        self._take(pod)
        self._look_again(others)

    def _look_again(self, identities: Sequence[str]) -> None:
        """Have members be of the gang that they are of by what others say now."""
        for pod in filter(None, map(self.pod, identities)):
            self._take(pod)

    def _take(self, pod: Pod) -> None:
        place, before = self._sources.of(pod), self._places.get(pod.identity)
        came_from = None
        if before is not None and before != place:
            same = place is not None and place.by_name == before.by_name
            came_from = self._gangs[before] if same else None
            self._leave(pod.identity)
        if place is None:
            return
        self._places[pod.identity] = place
        known = self._pods.setdefault(place, {})
        self._counts.setdefault(place, MemberCounts()).change(known.get(pod.identity), pod)
        known[pod.identity] = pod
        self._of_name.setdefault(place[:2], set()).add(place)
        self._lend(place)
        gated = self._gated.setdefault(place, set())
        was = pod.identity in gated
        (gated.add if is_gated(pod) else gated.discard)(pod.identity)
        member = Member(uid=pod.identity, name=pod.name, stage=stage_of(pod))
        gang = self._gangs.get(place, EMPTY)
        if gang.members.get(pod.identity) != member or was != (pod.identity in gated):
            self._gangs[place] = rules.seen(gang, member, self.groups.get(place))
            self.changed[place] = None
        if came_from is not None:
            self._gangs[place] = progress.joined(self._gangs[place], pod.identity, came_from)
            self._waited_for.add(place)

    def forget(self, identity: str) -> None:
        """A member is gone, or on its way out."""
        self._leave(identity)
        self._look_again(self._sources.drop(identity))

    def _leave(self, identity: str) -> None:
        place = self._places.pop(identity, None)
        if place is None:
            return
        self._counts[place].change(self._pods[place].pop(identity), None)
        self._gated[place].discard(identity)
        self._gangs[place] = rules.gone(self._gangs[place], identity)
        self.changed[place] = None
        self.lost.add(place)
        if not self._pods[place]:
            for table in (self._pods, self._gangs, self._gated, self._counts):
                table.pop(place, None)
            self.short.discard(place)
            self._left(place)
        self._lend(place)

    def _left(self, place: Place) -> None:
        """The last member of a gang went. Another one may speak for the PodGroup now, and know whose start is told."""
        others = self._of_name[place[:2]]
        others.discard(place)
        self.changed.update(dict.fromkeys(sorted(others)))
        if not others:
            del self._of_name[place[:2]]
        if place.source:
            self.groups.pop(place, None)

    # ---------------------------------------------------------------- what is asked

    def place(self, identity: str) -> Place | None:
        """Return the group that a pod is known in."""
        return self._places.get(identity)

    def of(self, pod: Pod) -> Place | None:
        """Return the group that a pod is of, None if it names none."""
        return self._sources.of(pod)

    def members(self, place: Place) -> list[str]:
        """Return the pods of a group."""
        return list(self._pods.get(place, ()))

    def gang(self, place: Place) -> GangProgress:
        """Return a gang as it stands; without the members that still have scheduling gates, which cannot be tried."""
        gang = self._gangs.get(place, EMPTY)
        gated = self._gated.get(place)
        if not gated:
            return gang
        return _replace(gang, members={uid: one for uid, one in gang.members.items() if uid not in gated})

    def hold(self, place: Place) -> GangHold | None:
        """Return why the members of a group may not be tried."""
        if place.source == UNMARKED:
            message = f"a Pod of PodGroup {place[1]} does not say which cluster it comes from yet"
            return GangHold(reason="SourceUnknown", message=message)
        if self.singly(place):
            return None
        held = rules.hold(self.groups.get(place), self.gang(place), self.now)
        if held is not None and held.reason == "GroupMissing":
            problem = self.here.problems.get(place[:2])
            why = f"cannot be read: {problem}" if problem else "is not there"
            return _replace(held, message=f"PodGroup {place[1]} {why}")
        return held

    def sort_key(self, pod: Pod, enqueued: float) -> rules.Rank:
        """Return what the queue is sorted by: groups by priority, age and name, the pods of one side by side; others by
        themselves.
        """
        place, since = self.of(pod), datetime.fromtimestamp(enqueued, UTC)
        group = self.groups.get(place) if place is not None else None
        if place is None or group is None:
            return rules.rank_single(pod.namespace, pod.name, pod.priority, since)
        name = f"{place.name}/{place.origin}" if place.source else group.name
        named = _replace(group, name=name, priority=self.priority(place))
        return rules.rank(named, since, pod.name, follows=follows(pod))

    def priority(self, place: Place) -> int:
        """Return a group's priority: its class's, and without one the highest of its pods."""
        known, counts = self.here.priority(place[:2]), self._counts.get(place)
        if known is not None:
            return known
        return counts.priority if counts is not None else 0

    def singly(self, place: Place) -> bool:
        """Whether members are placed one by one: the gang has started, or enough of it has a place."""
        gang, group = self._gangs.get(place, EMPTY), self.groups.get(place)
        if place.source == UNMARKED:
            return False
        return group is not None and (gang.started or len(gang.assigned) >= group.min_member)

    def wait(self, place: Place) -> float | None:
        """Return for how many seconds a member with a place waits for the others; None if it may go now."""
        group = self.groups.get(place)
        if self.singly(place):
            return None
        gang = self._gangs.get(place, EMPTY)
        timeout = group.timeout if group is not None and group.timeout is not None else self.limits.timeout
        deadline = gang.deadline or self.now + timeout
        self._gangs[place] = _replace(gang, deadline=deadline)
        return max((deadline - self.now).total_seconds(), 0.0)

    def victims(self, place: Place, wanted: set[str]) -> frozenset[str]:
        """Return who of a group has to go if these go."""
        group = self.groups.get(place)
        return rules.victims(group, self._gangs.get(place, EMPTY), wanted) if group is not None else frozenset(wanted)

    def bound(self, place: Place) -> int:
        """Return how many members are on nodes."""
        counts = self._counts.get(place)
        return counts.on_nodes if counts is not None else 0

    def pod(self, identity: str) -> Pod | None:
        """Return a member."""
        place = self._places.get(identity)
        return self._pods[place].get(identity) if place is not None else None

    def condition(self, place: Place, why: str = "") -> GroupCondition | None:
        """Return the one condition of a PodGroup, None if it is not there, or another gang speaks for it."""
        group = self.here.groups.get(place[:2])
        if min(self._of_name.get(place[:2], ()), default=place) != place:
            return None
        return rules.group_condition(group, self._gangs.get(place, EMPTY), why) if group is not None else None

    def others(self, place: Place) -> set[Place]:
        """Return the other gangs whose pods name the same PodGroup."""
        return self._of_name.get(place[:2], set()) - {place}

    def is_ambiguous(self, place: Place) -> bool:
        """Whether pods that do not say yet which source they are of may be of this gang."""
        return bool(place.source) and any(one.source == UNMARKED for one in self.others(place))

    # ---------------------------------------------------------------- what the loop did

    def reserved(self, identity: str, until: datetime) -> tuple[str, ...]:
        """A member's reservation is recorded and waits for the others. Return the siblings to be tried at once, if it
        is the first.
        """
        place = self._places[identity]
        gang = self._gangs[place]
        if identity in gang.waiting:
            return ()
        self._waited_for.add(place)
        self._gangs[place] = progress.waits(gang, identity, until)
        taken = gang.assigned | {*gang.waiting, identity}
        others = tuple(uid for uid, one in gang.members.items() if one.stage == "Pending" and uid not in taken)
        return () if gang.waiting else others

    def let_go(self, identity: str) -> bool:
        """A member may be bound, as the log says. Return whether that is news."""
        place = self._places[identity]
        gang = self._gangs[place]
        if identity in gang.assigned:
            return False
        gang = self._gangs[place] = progress.let_go(gang, identity)
        if self.singly(place):  # they go, whatever befell the gang while the log was asked
            self._gangs[place] = _replace(gang, not_before=None)
        self.changed[place] = None
        return True

    def freed(self, identity: str) -> tuple[str, ...]:
        """A member has no reservation any more. Return the siblings that give theirs back, if it was let go and their
        gang needs it.
        """
        place = self._places.get(identity)
        gang = self._gangs.get(place, EMPTY) if place is not None else EMPTY
        if place is None or (identity not in gang.waiting and identity not in gang.released):
            return ()
        lost = identity in gang.released
        self._gangs[place] = progress.freed(gang, identity)
        self.changed[place] = None
        return self.failed(identity) if lost else ()

    def quorum(self, place: Place) -> tuple[str, ...]:
        """Return those who wait, if they are enough to be let go together; none otherwise."""
        gang, group = self._gangs.get(place, EMPTY), self.groups.get(place)
        if group is None or not gang.waiting:
            return ()
        enough = self.singly(place) or len(gang.assigned | {*gang.waiting}) >= group.min_member
        return gang.waiting if enough else ()

    def failed(self, identity: str) -> tuple[str, ...]:
        """A member found no node. Return the siblings that give their places back for it."""
        place = self._places.get(identity)
        group = self.groups.get(place) if place is not None else None
        if place is None or group is None or self.singly(place) or self.quorum(place):
            return ()
        gang = self._gangs[place]
        if gang.not_before is not None and self.now < gang.not_before:
            return self.unbound(place)  # it rests already: this is no new failure
        return self._turned(place, lambda: rules.unplaced(group, gang, identity, self.now, self.limits))

    def unbound(self, place: Place) -> tuple[str, ...]:
        """Return who has a place and is not on a node: those who wait for the others, and those who were let go."""
        gang = self._gangs.get(place, EMPTY)
        return (*gang.waiting, *sorted(gang.released))

    def start(self, place: Place) -> StartProgress:
        """Return how far a group's start has come."""
        gang = self._gangs.get(place, EMPTY)
        return StartProgress(gang.started, gang.failures, gang.not_before)

    def recall(self, place: Place, start: StartProgress) -> None:
        """Take up what a process before this one knew of a group's start; whether it still runs is read off its
        pods.
        """
        gang = self._gangs.get(place)
        if gang is None or gang.started:
            return
        known = progress.recalled(gang, start)
        group = self.groups.get(place)
        self._gangs[place] = rules.together(group, known) if group is not None else known

    def resting(self, place: Place) -> datetime | None:
        """Return until when a gang rests, None if it does not."""
        until = self._gangs.get(place, EMPTY).not_before
        return until if until is not None and self.now < until else None

    def expired(self, place: Place) -> tuple[str, ...]:
        """Return who is turned back because the gang's time is over."""
        gang = self._gangs.get(place, EMPTY)
        if not gang.waiting or gang.deadline is None or self.now < gang.deadline:
            return ()
        return self._turned(place, lambda: rules.expire(gang, self.now, self.limits))

    def waiting(self) -> dict[Place, datetime]:
        """Return the groups of which somebody waits, and until when."""
        found = {}
        for place in sorted(self._waited_for):
            gang = self._gangs.get(place, EMPTY)
            if not gang.waiting:
                self._waited_for.discard(place)
            elif gang.deadline is not None:
                found[place] = gang.deadline
        return found

    def _turned(self, place: Place, ask: Callable[[], tuple[GangProgress, tuple[str, ...]]]) -> tuple[str, ...]:
        # They have their places until the log says that they have given them back (`freed`).
        self.changed[place] = None
        before = self._gangs[place]
        after, rejected = ask()
        self._gangs[place] = _replace(after, waiting=before.waiting, released=before.released, deadline=None)
        return rejected


_replace = msgspec.structs.replace
