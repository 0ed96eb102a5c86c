"""One cluster: whether it can be reached and since when, what is on it, its absences, and what happened to it.

In: an `Asked` with a name. Out: a `ClusterStory`, as `controlplane describe cluster` says it, now or at a time."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import replace
from datetime import datetime

from controlplane.audit.places import moments_of
from controlplane.audit.reads import Filter
from controlplane.audit.shown import place
from controlplane.audit.timeline import TimelineEntry
from controlplane.controllers.connectivity.events import MANAGEMENT, cluster_stream
from controlplane.pages.asking import Asked, NotFound
from controlplane.pages.directory import ACTIVE
from controlplane.pages.views.fleet import ClusterItem, fleet, in_order
from controlplane.pages.views.outages import OutageItem, outages
from controlplane.pages.views.workloads import WorkloadItem, explained, listed
from controlplane.values import Value

_NEWEST = 50  # moments, and Workloads
_OUTAGES = 10
_READ = 2000  # events of the cluster: one that is away for weeks repeats itself


class ClusterStory(Value):
    """One cluster. `states` counts the Workloads that it has, those that are over left out; `workloads` are those that
    changed last, of `total`. `moments` are the newest of its connection, the newest first. `identity`, `restores` (from
    a backup), `lost_since` and `labels` are those of now, and empty at a time; `uncounted` as in a `Fleet`."""

    cluster: ClusterItem
    identity: str
    restores: int
    lost_since: datetime | None
    forgotten: bool
    labels: dict[str, str]
    states: dict[str, int]
    workloads: list[WorkloadItem]
    total: int
    outages: list[OutageItem]
    moments: list[TimelineEntry]
    uncounted: str


def cluster(asked: Asked) -> ClusterStory:
    """Return what there is to say of a cluster. Raises `NotFound`."""
    name, all_of_them = _meant(asked.path["cluster"]), fleet(asked)
    found = {one.name: one for one in all_of_them.clusters}
    if name not in found:
        near = [f"/clusters/{one}" for one in difflib.get_close_matches(name, found, n=3, cutoff=0.4)]
        when = " at that time" if asked.at is not None else ""
        raise NotFound(f"there is no cluster {place(name)} in the log {asked.reader.log}{when}", near)
    identity, restores, lost_since, forgotten, labels = _known_now(asked, name)
    there = _there(asked, name) if not all_of_them.uncounted else []
    states = Counter(one.shown for one in there) if asked.at is not None else _counted(asked, name)
    newest = asked.reader.events(Filter(streams=[cluster_stream(name)]), limit=_READ, newest=True)
    moments = [one for one in moments_of(newest) if one.noteworthy]
    return ClusterStory(
        cluster=found[name],
        identity=identity,
        restores=restores,
        lost_since=lost_since,
        forgotten=forgotten,
        labels=labels,
        states=in_order(states),
        workloads=explained(asked, there[:_NEWEST]),
        total=sum(states.values()),
        outages=outages(replace(asked, given={"cluster": name, "limit": str(_OUTAGES)})).items,
        moments=moments[: -_NEWEST - 1 : -1],
        uncounted=all_of_them.uncounted,
    )


def _meant(name: str) -> str:
    return MANAGEMENT if name == place(MANAGEMENT) else name


def _there(asked: Asked, name: str) -> list[WorkloadItem]:
    """Return the Workloads that a cluster has, those that changed last first: at a time all of them."""
    most = str(_NEWEST if asked.at is None else 10**9)
    return listed(replace(asked, given={"cluster": name, "state": "active", "sort": "changed", "limit": most})).items


def _counted(asked: Asked, name: str) -> Counter[str]:
    states: Counter[str] = Counter()
    with asked.follower.lock:
        for (_, _, cluster_name, shown), count in asked.follower.directory.counts.items():
            if cluster_name == name and shown in ACTIVE:
                states[shown] += count
    return states


def _known_now(asked: Asked, name: str) -> tuple[str, int, datetime | None, bool, dict[str, str]]:
    """Return what is known of a cluster now alone: identity, restores, since when it is lost, whether it was given up,
    labels."""
    with asked.follower.lock:
        connection = asked.follower.index.connections.get(name)
        observed = asked.follower.index.clusters.get(name)
        if asked.at is not None or connection is None:
            return "", 0, None, False, {}
        labels = dict(observed.labels) if observed is not None else {}
        return connection.incarnation, connection.restores, connection.lost_since, connection.forgotten, labels
