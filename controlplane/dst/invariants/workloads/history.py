"""What the API servers committed is in the log: each change once, in order, with gaps only where a list declares them.

In: the commits of what the service watches, the lists it was given, and the observations that reach the log. Out: a
violation as soon as an observation tells of something that was never committed, comes twice, or skips what no list
covers; and at the end, for what was never told. A cluster may be told of under either of two names. One that began anew
begins a new era: resourceVersions go back, and what the old one had not told is void."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from controlplane.controllers.connectivity.events import EventRefused, KindSynced
from controlplane.controllers.multikueue.objects import execution_policy
from controlplane.controllers.multikueue.observations import ObjectGone
from controlplane.dst.engine.trace import Trace
from controlplane.kube.kinds import CLUSTER_QUEUES, Kind, meta
from controlplane.log.event import Event, NewEvent
from controlplane.simulation.apiserver.history import Commit, Record

RULE = "the log holds what was committed"


@dataclass(slots=True)
class ToldKind:
    """One kind of one cluster in one era. `floor`: up to where lists have covered it; `listing`: up to where one is
    under way.

    `inherited`: what was told in the era before, of objects that a backup brought back, and changes of what nobody
    decides on: it may be told, and need not."""

    commits: list[int] = field(default_factory=list)
    uids: list[str] = field(default_factory=list)
    recorded: set[tuple[str, int]] = field(default_factory=set)
    inherited: set[tuple[str, int]] = field(default_factory=set)
    floor: int = 0
    listing: int = 0
    checked: int = 0

    def knows(self, uid: str, version: int) -> bool:
        """Whether a change was told, in this era or before."""
        return (uid, version) in self.recorded or (uid, version) in self.inherited


class HistoryRules:
    """What was committed, and what of it is told. `gone` are the events that tell of an end: a list gives its own
    version to them; `place` says which cluster a name of the log means.
    """

    def __init__(
        self, trace: Trace, gone: type[Event] = ObjectGone, place: Callable[[str], str] = lambda name: name
    ) -> None:
        self._trace, self._gone, self._place = trace, gone, place
        self._told: dict[tuple[str, str], ToldKind] = {}
        self._last: dict[str, int] = {}
        self._before: dict[tuple[str, str], set[tuple[str, int]]] = {}
        self._incarnation: dict[str, str] = {}
        self._past: dict[str, set[str]] = {}
        self.commits = self.observations = 0

    def committed(self, cluster: str, kind: Kind, uid: str, version: int, *, news: bool = True) -> None:
        """Note a change that the service is to be told of, or need not be where it is no `news` to any decision."""
        told = self._of(cluster, kind.name)
        told.commits.append(version)
        told.uids.append(uid)
        if not news:
            told.inherited.add((uid, version))
        self.commits += 1

    def listed(self, cluster: str, kind: Kind, version: int) -> None:
        """Note that a list was given out."""
        told = self._of(cluster, kind.name)
        told.listing = max(told.listing, version)

    def new_era(self, cluster: str) -> None:
        """Begin anew. What is told of the incarnation that the log knows may be of the era before: it may have been on
        its way for long.
        """
        for name in {cluster, *(name for name in self._incarnation if self._place(name) == cluster)}:
            self._past.setdefault(name, set()).add(self._incarnation.get(name, ""))
        self._last = {
            source: mark for source, mark in self._last.items() if self._place(source.partition("/")[0]) != cluster
        }
        for key in [key for key in self._told if key[0] == cluster]:
            old = self._told.pop(key)
            self._told[key] = ToldKind(inherited=old.inherited | old.recorded)
            self._before.setdefault(key, set()).update(zip(old.uids, old.commits, strict=True))

    def appended(self, new: NewEvent) -> None:
        """Look at an event that reached the log."""
        if isinstance(new.event, KindSynced):
            told = self._of(self._place(new.cluster), new.event.kind)
            version = int(new.event.resource_version)
            told.floor = max(told.floor, version)
            if version >= told.listing:
                told.listing = 0
        elif new.source and not isinstance(new.event, EventRefused):
            name, _, rest = new.source.partition("/")
            incarnation, kind, uid = rest.rsplit("/", 2)
            self._incarnation[name] = incarnation
            self._observed(name, kind, uid, new)

    def _observed(self, name: str, kind: str, uid: str, new: NewEvent) -> None:
        cluster = self._place(name)
        told, mark = self._of(cluster, kind), new.mark
        self.observations += 1
        what = f"{type(new.event).__name__} of {uid[:8]} on {name} at {mark}"
        known = self._is_commit(told, uid, mark)
        if not known and not isinstance(new.event, self._gone):
            if (uid, mark) not in self._before.get((cluster, kind), set()):
                self._trace.violate(RULE, f"{what}: it was never committed")
            return
        last = self._last.get(new.source, -1)
        if mark <= last:
            self._trace.violate(RULE, f"{what}: after {last}")
        told.recorded.add((uid, mark))
        if self._may_be_of_before(name, kind, uid, mark):
            return
        self._last[new.source] = mark
        if known and mark > max(told.floor, told.listing):
            self._no_gap(told, mark, what)

    def _may_be_of_before(self, name: str, kind: str, uid: str, mark: int) -> bool:
        """Whether both eras have this change, and the log does not know yet that another one has begun."""
        before = self._before.get((self._place(name), kind), ())
        return self._incarnation[name] in self._past.get(name, ()) and (uid, mark) in before

    def _no_gap(self, told: ToldKind, mark: int, what: str) -> None:
        """A watch shows everything of its kind in order: whatever lies between the last list and this is told by
        now.
        """
        first = max(told.checked, bisect_right(told.commits, told.floor))
        end = bisect_right(told.commits, mark)
        for place in range(first, end):
            if not told.knows(told.uids[place], told.commits[place]):
                self._trace.violate(RULE, f"{what}: {told.commits[place]} of {told.uids[place][:8]} was skipped")
                return
        told.checked = end

    def finish(self) -> None:
        """Look for what was never told."""
        for (cluster, kind), told in self._told.items():
            for uid, version in zip(told.uids, told.commits, strict=True):
                if version > told.floor and not told.knows(uid, version):
                    self._trace.violate(RULE, f"{version} of {uid[:8]} ({kind} on {cluster}) was never told")
                    return

    def _is_commit(self, told: ToldKind, uid: str, version: int) -> bool:
        place = bisect_right(told.commits, version) - 1
        return place >= 0 and told.commits[place] == version and told.uids[place] == uid

    def _of(self, cluster: str, kind: str) -> ToldKind:
        key = (cluster, kind)
        found = self._told.get(key)
        if found is None:
            found = self._told[key] = ToldKind()
        return found


def is_news(commit: Commit) -> bool:
    """Whether a change may matter to a decision: of a ClusterQueue only its execution policy, its deletion and its end
    do.
    """
    record, before = commit.record, commit.previous
    if record.kind != CLUSTER_QUEUES or before is None or commit.type != "MODIFIED" or before.uid != record.uid:
        return True
    return _shown(before) != _shown(record)


def _shown(record: Record) -> tuple[object, object]:
    return execution_policy(record.obj), meta(record.obj).get("deletionTimestamp")
