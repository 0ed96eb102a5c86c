"""The outages in the timeline of a Workload: what happened to the clusters that held a copy of it, while they held one.

In: the events of the Workload and of what is around it (the clusters, the fleet, checks, queues), in order. Out:
moments, to be told among those of `timeline`. A cluster's history is on its own stream, and most of it is nobody's
story: the events are folded one by one, and a cluster is told of only while a copy of the Workload is known to be
there, or it is placed there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from controlplane.audit.absence import is_away, placed
from controlplane.audit.case import STAMP, restores
from controlplane.audit.standing import grace
from controlplane.audit.timeline import TimelineEntry, entry_of
from controlplane.audit.words import reason_of, what
from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import FLEET_STREAM, MANAGEMENT, PolicyInForce
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.durations import show
from controlplane.log.event import Recorded
from controlplane.log.folding import Folding

_SECOND = timedelta(seconds=1)
_LISTED_ANEW = "all that was seen of it is listed anew"


def outages(
    policy: MultiKueuePolicy,
    events: Iterable[Recorded],
    stream: str,
    policy_of: Callable[[PolicyInForce], MultiKueuePolicy] | None = None,
) -> list[TimelineEntry]:
    """Return the moments of the clusters that concern the Workload of a stream, and the restores of the management
    cluster that do; `events` are its own and those around it, in order.

    `policy_of` makes a policy of what the service says of its settings: each holds from then on, and
    `policy` before.
    """
    index = WorkloadIndex(policy)
    folding = Folding(index.fold)
    events = list(events)
    entries = [_moment(restore, MANAGEMENT, _LISTED_ANEW) for restore, _ in restores(events, stream)]
    outage_told = False
    for recorded in events:
        cluster = recorded.stream.removeprefix("cluster/")
        before = index.connections.get(cluster, Connection(name=cluster))
        if policy_of is not None and isinstance(recorded.event, PolicyInForce):
            index.policy = policy_of(recorded.event)
        folding(recorded)
        state = index.workloads.get(stream)
        if state is None or not isinstance(recorded.event, connectivity.EVENTS):
            continue
        if recorded.stream == FLEET_STREAM:
            moment = _of_fleet(index, state, recorded, outage_told)
            outage_told = moment is not None
        elif cluster != recorded.stream and cluster in {*state.remotes, placed(state)}:
            moment = _of_cluster(index, state, recorded, before)
        else:
            moment = None
        if moment is not None:
            entries.append(moment)
    return entries


def _of_fleet(index: WorkloadIndex, state: WorkloadState, recorded: Recorded, shown: bool) -> TimelineEntry | None:
    """Tell of a mass outage if one of the Workload's clusters is away in it, and of its end if it was told of."""
    mine = {*state.remotes, placed(state)}
    if not shown and not any(is_away(c) for name, c in index.connections.items() if name in mine):
        return None
    match recorded.event:
        case connectivity.MassOutageBegan():
            why = "nothing is taken from a cluster that is away until it is over, or accepted"
        case connectivity.MassOutageAccepted():
            why = "graces that are over count again"
        case _:
            why = ""
    return _moment(recorded, "", why)


def _of_cluster(
    index: WorkloadIndex, state: WorkloadState, recorded: Recorded, before: Connection
) -> TimelineEntry | None:
    """Tell of a cluster's event; what changes nothing for the Workload is there, and not noteworthy."""
    cluster, event = before.name, recorded.event
    after = index.connections[cluster]
    match event:
        case connectivity.ClusterConnected() if before.lost_since is not None:
            away = recorded.recorded_at - before.lost_since
            return _moment(recorded, cluster, f"it was away for {show(max(_SECOND, away // _SECOND * _SECOND))}")
        case connectivity.ClusterForgotten():
            return _moment(recorded, cluster, _until(index, state, cluster, recorded.recorded_at))
        case connectivity.ClusterRestored():
            return _moment(recorded, cluster, _LISTED_ANEW)
        case connectivity.ClusterLost() | connectivity.ClusterConnectFailed() | connectivity.ClusterDisconnected():
            why = _until(index, state, cluster, recorded.recorded_at)
            begins = before.lost_since is None and after.lost_since is not None
            return _moment(recorded, cluster, why if begins else "", noteworthy=begins)
        case connectivity.KindSynced() | connectivity.KindOff():
            return None
        case _:
            return _moment(recorded, cluster, "", noteworthy=False)


def _until(index: WorkloadIndex, state: WorkloadState, cluster: str, now: datetime) -> str:
    """Return what the absence of a cluster means for the Workload, by the rules in force then."""
    if placed(state) != cluster:
        return "its copy there is dealt with when the cluster is back"
    context = index.context(state)
    until = grace(state, context, cluster, now)
    if until is None:
        return f"it stays there until word comes, by its execution policy {context.execution_policy}"
    if now >= until:
        return "its grace is over"
    return f"it is taken back at {until:{STAMP}} if the cluster is not back by then"


def _moment(recorded: Recorded, cluster: str, why: str, *, noteworthy: bool = True) -> TimelineEntry:
    said = what(recorded.event)
    return entry_of(recorded, said, why, reason_of(recorded), noteworthy=noteworthy, cluster=cluster)
