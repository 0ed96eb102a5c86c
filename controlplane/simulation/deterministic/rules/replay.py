"""The log alone gives the state: a fresh fold of it equals what a living process holds, and what the clusters hold.

In: two indices, or an index and the stores. Out: the first difference in words, "" if there is none.
"""

from __future__ import annotations

from controlplane.connectivity.events import MANAGEMENT
from controlplane.kube import Kind
from controlplane.multikueue.adapters.base import ORIGIN_LABEL
from controlplane.multikueue.index import Index
from controlplane.simulation.store import Store

_PARTS = ("workloads", "jobs", "checks", "configs", "clusters", "queues", "connections", "outage")


def difference(one: Index, other: Index) -> str:
    """Return where two indices differ."""
    if one.position != other.position or one.ready != other.ready:
        return f"position {one.position} and {other.position}, ready {one.ready} and {other.ready}"
    for part in _PARTS:
        left, right = getattr(one, part), getattr(other, part)
        if left != right and not isinstance(left, dict):
            return f"{part}: {left!r} and {right!r}"
        if left != right:
            keys = [key for key in {**left, **right} if left.get(key) != right.get(key)]
            return f"{part}: {keys[0]}: {left.get(keys[0])!r} and {right.get(keys[0])!r}"
    return ""


def unlike(index: Index, cluster: str, store: Store, kinds: list[Kind]) -> str:
    """Return what the log believes of a cluster that is not so: an object that is not there, or not in that version."""
    for kind in kinds:
        known = {uid: version for uid, (_, _, version) in index.known(cluster, kind.name).items()}
        there = {
            record.uid: str(record.version)
            for record in store.records(kind)
            if cluster == MANAGEMENT or ORIGIN_LABEL in record.labels
        }
        if known != there:
            return f"{kind.name} on {cluster}: the log says {known}, there is {there}"
    return ""
