"""What hangs on the clusters that cannot be reached: which Workloads stay with each, until when, and which copies are
owed there.

In: the folds, the time. Out: an `Absence` for each cluster that is away. Pure, and it decides nothing: it asks
`Context.lost_until`, which the decisions ask too. For the list of clusters, for the metrics, and for whoever is about
to give a cluster up."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import msgspec

from controlplane.audit.standing import grace
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.context import WorkloadContext
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.values import Value


class Absence(Value):
    """What hangs on one cluster that is away.

    `stays`: Workloads that are placed there and are not taken back yet; `never` of them have a grace that does not end
    by itself; `ends` is the earliest end of the others, perhaps past, None if there are no others. `owed`: copies there
    of Workloads that are elsewhere, wait, or are over: they are judged, and as a rule removed, when the cluster is
    back."""

    stays: int = 0
    never: int = 0
    ends: datetime | None = None
    owed: int = 0


def placed(state: WorkloadState) -> str:
    """Return the cluster that a Workload is placed on, or that was chosen for it; "" if there is none, or nothing is to
    run any more.
    """
    local = state.local
    if local is None or local.deleting or local.is_true("Finished"):
        return ""
    return local.cluster_name or state.winner


def is_away(connection: Connection) -> bool:
    """Whether a cluster was tried and cannot be reached, or is gone: not one of which nothing is known since a
    start, and not a further name of a cluster.
    """
    return connection.name != MANAGEMENT and not connection.connected and connection.phase not in ("Unknown", "Standby")


def absences(index: WorkloadIndex, now: datetime) -> dict[str, Absence]:
    """Return what hangs on each cluster that is away, by name."""
    found = {name: Absence(ends=_by_default(index, name, now)) for name, c in index.connections.items() if is_away(c)}
    stays: Counter[str] = Counter()
    never: Counter[str] = Counter()
    ends: dict[str, datetime] = {}
    for state in index.workloads.values() if found else ():
        cluster = placed(state)
        if cluster not in found:
            continue
        # What a mass outage holds back is said of all clusters at once; here it is what holds without it.
        until = grace(state, msgspec.structs.replace(index.context(state), mass_outage=False), cluster, now)
        stays[cluster] += 1
        if until is None:
            never[cluster] += 1
        else:
            ends[cluster] = min(until, ends.get(cluster, until))
    owing = owed(index)
    return {
        name: Absence(
            stays=stays[name],
            never=never[name],
            ends=ends.get(name) if stays[name] else absence.ends,
            owed=owing.get(name, 0),
        )
        for name, absence in found.items()
    }


def owed(index: WorkloadIndex) -> dict[str, int]:
    """Return how many copies are owed on each cluster that is away; one pass without looking anything up."""
    counts = {name: 0 for name, connection in index.connections.items() if is_away(connection)}
    for state in index.workloads.values() if counts else ():
        for cluster in state.remotes:
            if cluster in counts and cluster != placed(state):
                counts[cluster] += 1
    return counts


def _by_default(index: WorkloadIndex, cluster: str, now: datetime) -> datetime | None:
    """Return when the grace ends of a Workload that asks for no policy of its own: what is said of a cluster without
    any.
    """
    anybody = WorkloadContext(
        policy=index.policy,
        ready=True,
        route=None,
        adapter=None,
        job=None,
        outage_ended=index.outage.ended,
        connections=index.connections,
    )
    return anybody.lost_until(cluster, now)
