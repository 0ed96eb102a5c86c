"""Says which gang a pod is of: by the PodGroup that it names, and by the cluster that it comes from.

In: a pod as the scheduler sees it. Out: a place, a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.kube.candidate_pods import UNMARKED as UNMARKED

GANG = "Gang"


class Place(NamedTuple):
    """A gang: the PodGroup that its pods name, and the cluster that they come from, "" for the scheduler's own. The
    groups of two sources have nothing in common but their name. `uid`: which cluster of that name, where that is said.

    `UNMARKED` are pods of a source that do not say yet which one that is (an earlier version made them)."""

    namespace: str
    name: str
    source: str = ""
    uid: str = ""

    @property
    def origin(self) -> str:
        """The cluster by its name, and by its UID where that is said."""
        return f"{self.source}/{self.uid}" if self.uid else self.source

    @property
    def by_name(self) -> Place:
        """The gang of those who say no more of their cluster than its name."""
        return self._replace(uid="")


class StartProgress(NamedTuple):
    """How far a group's start has come: see `GangStart`."""

    together: bool = False
    failures: int = 0
    until: datetime | None = None


def place_of(pod: Pod) -> Place | None:
    """Return the gang of a pod by what itself says, None if it names no PodGroup."""
    return Place(pod.namespace, pod.group, pod.source, pod.source_uid) if pod.group else None


class KnownSources:
    """Of which cluster the members are that say no more of it than its name: of the one that the other members say, if
    that is one. Their Candidates were made before Candidates said it, or by who cannot know it: without this, a gang
    that runs since then would not get the members that take the place of its own."""

    def __init__(self) -> None:
        self._of: dict[str, Place] = {}
        self._said: dict[Place, Counter[str]] = {}
        self._silent: dict[Place, dict[str, None]] = {}

    def of(self, pod: Pod) -> Place | None:
        """Return the gang of a pod, None if it names no PodGroup."""
        place = place_of(pod)
        return place if place is None or place.uid else place._replace(uid=self._one(place))

    def put(self, pod: Pod) -> Sequence[str]:
        """Take note of what a pod says; return who is of another gang by that."""
        place, before = place_of(pod), self._of.get(pod.identity)
        if before == place:
            return ()
        moved = self.drop(pod.identity)
        if place is None or not place.source:
            return moved
        self._of[pod.identity], by_name = place, place.by_name
        one = self._one(by_name)
        if place.uid:
            self._said.setdefault(by_name, Counter())[place.uid] += 1
        else:
            self._silent.setdefault(by_name, {})[pod.identity] = None
        return [*dict.fromkeys((*moved, *self._moved(by_name, one)))]

    def drop(self, identity: str) -> Sequence[str]:
        """Forget a pod; return who is of another gang by that."""
        place = self._of.pop(identity, None)
        if place is None:
            return ()
        by_name = place.by_name
        one = self._one(by_name)
        silent, said = self._silent.get(by_name, {}), self._said.get(by_name, Counter[str]())
        silent.pop(identity, None)
        if place.uid:
            said[place.uid] -= 1
            if not said[place.uid]:
                del said[place.uid]
        for table, left in ((self._silent, silent), (self._said, said)):
            if not left:
                table.pop(by_name, None)
        return self._moved(by_name, one)

    def _one(self, by_name: Place) -> str:
        """Return the one cluster that members say, "" if none does, or several are said."""
        said = self._said.get(by_name, ())
        return next(iter(said)) if len(said) == 1 else ""

    def _moved(self, by_name: Place, before: str) -> Sequence[str]:
        return [*self._silent.get(by_name, ())] if self._one(by_name) != before else ()


class MemberCounts:
    """How many of a gang's members are on nodes, and how many of them say that so many start together: counted, since
    each of them asks."""

    def __init__(self) -> None:
        self.on_nodes = 0
        self._least: Counter[int] = Counter()
        self._priorities: Counter[int] = Counter()

    def change(self, before: Pod | None, after: Pod | None) -> None:
        """Take a member as it is now; None where it is none."""
        for pod, by in ((before, -1), (after, 1)):
            if pod is None:
                continue
            self.on_nodes += by * bool(pod.node_name)
            for table, number in ((self._least, pod.least), (self._priorities, pod.priority)):
                table[number] += by
                if not table[number]:
                    del table[number]

    @property
    def priority(self) -> int:
        """The highest of the members' priorities, 0 if there is none."""
        return max(self._priorities, default=0)

    @property
    def least(self) -> int:
        """How many start together by the highest number that a member says, 0 if none says one."""
        return max(self._least, default=0)


class PermittedMembers:
    """When it is worth asking all members of a gang whether they may be bound: not each time that one may, but when as
    many have come as were missing the last time."""

    def __init__(self) -> None:
        self._missing: dict[Place, tuple[int, int, set[str]]] = {}
        self._quorum: tuple[Place, datetime, set[str]] | None = None

    def is_of_quorum(self, place: Place, identity: str, now: datetime) -> bool:
        """Whether a member is one of those that were found to be enough at this very moment."""
        if self._quorum is None or self._quorum[:2] != (place, now) or identity not in self._quorum[2]:
            return False
        self._quorum[2].discard(identity)
        return True

    def may_suffice(self, place: Place, identity: str, least: int) -> bool:
        """Whether all have to be asked, now that one more may be bound."""
        wanted, missing, asked = self._missing.get(place, (least, 0, set[str]()))
        if identity not in asked:
            asked.add(identity)
            missing -= 1
        self._missing[place] = wanted, missing, asked
        return wanted != least or missing <= 0

    def found(self, place: Place, ready: set[str], least: int, now: datetime) -> bool:
        """Take note of who may be bound, of all; return whether they are enough."""
        if len(ready) < least:
            self._missing[place] = least, least - len(ready), set(ready)
            return False
        self._missing.pop(place, None)
        self._quorum = place, now, ready
        return True

    def changed(self) -> None:
        """Take note that who was enough may be so no more."""
        self._quorum = None

    def forget(self, place: Place) -> None:
        """Forget a gang that is gone."""
        self._missing.pop(place, None)
