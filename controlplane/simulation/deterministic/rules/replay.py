"""The log alone gives the state: a fold of it beside every process equals what the process holds, and what the clusters hold.

In: what a process holds after each batch that it has folded, and the state that a second fold, of the log alone, has come to. Out: the
first difference in words. Most of a state is frozen values, so a value is compared again only when either side has put another one in
its place; what is changed in place is compared each time. Whether a frozen value was changed all the same is seen by `difference`, which
compares everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from controlplane.connectivity.events import MANAGEMENT
from controlplane.kube import Kind
from controlplane.multikueue.adapters.base import ORIGIN_LABEL
from controlplane.multikueue.index import Index
from controlplane.simulation.deterministic.oddities import odd
from controlplane.simulation.deterministic.trace import Trace
from controlplane.simulation.store import Store

RULE = "the log gives the state"
# What is a to-do list of the process, or is cut by the time that passes: not state.
_NOT_STATE = frozenset({"policy", "requeues", "changed_clusters", "_dirty"})


class Replay:
    """Compares what processes hold with `index`, the fold of the log."""

    def __init__(self, trace: Trace, index: Index) -> None:
        self._trace, self._index = trace, index
        self._compared: dict[str, dict[tuple[str, object], tuple[object, object]]] = {}
        self.batches = 0

    def folded(self, process: str, index: Index) -> None:
        """Look at a process that has folded a batch. One that is behind is looked at when it has caught up."""
        if index.position != self._index.position:
            return
        self.batches += 1
        wrong = self._changed(self._compared.setdefault(process, {}), index)
        if wrong:
            self._trace.violate(RULE, f"{process}: {wrong}")

    def _changed(self, compared: dict[tuple[str, object], tuple[object, object]], index: Index) -> str:
        for (part, left), (_, right) in zip(parts(index), parts(self._index), strict=True):
            if not isinstance(left, dict):
                if left != right:
                    return f"{part}: {left!r} and {right!r}"
                continue
            if left.keys() != right.keys():
                key = next(iter(left.keys() ^ right.keys()))
                return f"{part}: {key}: {left.get(key)!r} and {right.get(key)!r}"
            for key, mine in left.items():
                theirs, known = right[key], compared.get((part, key))
                if known is not None and known[0] is mine and known[1] is theirs:
                    continue
                if mine != theirs:
                    return f"{part}: {key}: {mine!r} and {theirs!r}"
                if isinstance(mine, msgspec.Struct):
                    compared[part, key] = (mine, theirs)
        return ""


def parts(index: Index) -> Iterator[tuple[str, Any]]:
    """Yield what an index holds, the parts of its parts included."""
    for name, value in vars(index).items():
        if name in _NOT_STATE:
            continue
        inner = getattr(value, "__dict__", None)
        if inner is None:
            yield name, value
        else:
            for more, held in inner.items():
                yield f"{name}.{more}", held


def difference(one: Index, other: Index) -> str:
    """Return where two indices differ."""
    for (part, left), (_, right) in zip(parts(one), parts(other), strict=True):
        if left != right and isinstance(left, Mapping):
            keys = [key for key in {**left, **right} if left.get(key) != right.get(key)]
            return f"{part}: {keys[0]}: {left.get(keys[0])!r} and {right.get(keys[0])!r}"
        if left != right:
            return f"{part}: {left!r} and {right!r}"
    return ""


def unlike(index: Index, cluster: str, store: Store, kinds: list[Kind]) -> str:
    """Return what the log believes of a cluster that is not so: an object that is not there, or not in that version.

    Of an object that cannot be read the log believes what it last could read.
    """
    for kind in kinds:
        records = [r for r in store.records(kind) if cluster == MANAGEMENT or ORIGIN_LABEL in r.labels]
        unread = {record.uid for record in records if odd(store.name, record)}
        found = index.known(cluster, kind.name).items()
        known = {uid: version for uid, (_, _, version) in found if uid not in unread}
        there = {record.uid: str(record.version) for record in records if record.uid not in unread}
        if known != there:
            return f"{kind.name} on {cluster}: the log says {known}, there is {there}"
    return ""
