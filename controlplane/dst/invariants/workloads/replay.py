"""The log alone gives the state: a fold of it beside every process equals what the process holds, and what the clusters
hold.

In: what a process holds after each batch that it has folded, and the state that a second fold, of the log alone, has
come to. Out: the first difference in words. Most of a state is frozen values, so a value is compared again only when
either side has put another one in its place; what is changed in place is compared each time. Whether a frozen value was
changed all the same is seen by `difference`, which compares everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.objects import execution_policy
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.workloads.oddities import odd
from controlplane.kube.kinds import CLUSTER_QUEUES, Kind
from controlplane.kube.kueue_names import ORIGIN_LABEL
from controlplane.simulation.apiserver.store import Store

RULE = "the log gives the state"
# What is a to-do list of the process, or is cut by the time that passes: not state.
# What a state is made of, and not what it is: see `SharedJobs` of the last two.
_NOT_STATE = frozenset({"policy", "requeues", "changed_clusters", "_dirty", "_rested", "_looked_through"})


_Held = dict[str, Any]
_Pair = tuple[object, object]


class ReplayRules:
    """Compares what processes hold with `index`, the fold of the log."""

    def __init__(self, trace: Trace, index: WorkloadIndex) -> None:
        self._trace, self._index = trace, index
        self._beside: dict[str, Beside] = {}
        self.batches = 0

    def folded(self, process: str, index: WorkloadIndex) -> None:
        """Look at a process that has folded a batch. One that is behind is looked at when it has caught up."""
        if index.position != self._index.position:
            return
        self.batches += 1
        beside = self._beside.get(process)
        if beside is None or beside.one is not index:  # a process that was deposed begins another turn with nothing
            beside = self._beside[process] = Beside(index, self._index)
        wrong = beside.difference()
        if wrong:
            self._trace.violate(RULE, f"{process}: {wrong}")


class Beside:
    """Two indices side by side, and which of their values were found equal."""

    def __init__(self, one: WorkloadIndex, other: WorkloadIndex) -> None:
        self.one = one
        self._parts = [(*left, right[1]) for left, right in zip(holders(one), holders(other), strict=True)]
        self._equal: list[dict[object, _Pair]] = [{} for _ in self._parts]

    def difference(self) -> str:
        """Return where the indices differ by now."""
        for (part, one, other), equal in zip(self._parts, self._equal, strict=True):
            name = part.rpartition(".")[2]
            left, right = one[name], other[name]
            if not isinstance(left, dict):
                if left != right:
                    return f"{part}: {left!r} and {right!r}"
            elif left.keys() != right.keys():
                key = next(iter(left.keys() ^ right.keys()))
                return f"{part}: {key}: {left.get(key)!r} and {right.get(key)!r}"
            elif left:
                key = _unequal(left, right, equal)
                if key is not None:
                    return f"{part}: {key}: {left[key]!r} and {right[key]!r}"
        return ""


def _unequal(left: _Held, right: _Held, equal: dict[object, _Pair]) -> str | None:
    """Return a key under which two dicts of the same keys differ; remember the frozen values that do not."""
    for key, mine in left.items():
        theirs, known = right[key], equal.get(key)
        if known is not None and known[0] is mine and known[1] is theirs:
            continue
        if mine != theirs:
            return key
        if isinstance(mine, msgspec.Struct):
            equal[key] = (mine, theirs)
    return None


def holders(index: WorkloadIndex) -> Iterator[tuple[str, _Held]]:
    """Yield each part of an index, the parts of its parts included, by the attributes among which it is the one of that
    name.
    """
    return _holders("", vars(index))


def _holders(of: str, among: _Held) -> Iterator[tuple[str, _Held]]:
    for name, value in among.items():
        if name not in _NOT_STATE:
            inner = getattr(value, "__dict__", None)
            if inner is None:
                yield f"{of}{name}", among
            else:
                yield from _holders(f"{of}{name}.", inner)


def parts(index: WorkloadIndex) -> Iterator[tuple[str, Any]]:
    """Yield what an index holds, the parts of its parts included."""
    return ((part, among[part.rpartition(".")[2]]) for part, among in holders(index))


def difference(one: WorkloadIndex, other: WorkloadIndex) -> str:
    """Return where two indices differ."""
    for (part, left), (_, right) in zip(parts(one), parts(other), strict=True):
        if left != right and isinstance(left, Mapping):
            keys = [key for key in {**left, **right} if left.get(key) != right.get(key)]
            return f"{part}: {keys[0]}: {left.get(keys[0])!r} and {right.get(keys[0])!r}"
        if left != right:
            return f"{part}: {left!r} and {right!r}"
    return ""


def unlike(index: WorkloadIndex, cluster: str, store: Store, kinds: list[Kind]) -> str:
    """Return what the log believes of a cluster that is not so: an object that is not there, or not in that version.

    Of an object that cannot be read the log believes what it last could read.
    """
    for kind in kinds:
        records = [r for r in store.records(kind) if cluster == MANAGEMENT or ORIGIN_LABEL in r.labels]
        unread = {record.uid for record in records if odd(store.name, record)}
        found = index.known(cluster, kind.name).items()
        known = {uid: version for uid, (_, _, version) in found if uid not in unread}
        there = {record.uid: str(record.version) for record in records if record.uid not in unread}
        if kind == CLUSTER_QUEUES:  # of whose versions the log has those with which what is decided on changed
            known = {queue.uid: queue.execution_policy for queue in index.queues.values() if queue.uid not in unread}
            there = {record.uid: execution_policy(record.obj) for record in records if record.uid not in unread}
        if known != there:
            return f"{kind.name} on {cluster}: the log says {known}, there is {there}"
    return ""
