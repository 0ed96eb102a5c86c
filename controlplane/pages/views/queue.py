"""One queue: a ClusterQueue with its quota, or a LocalQueue: who has quota there, who waits and why, and who had it
before.

In: an `Asked` with a name. Out: a `ClusterQueueStory` or a `LocalQueueStory`, now or at a time. Where this service
decides on quota it is told from what admission knows; else of what the Workloads themselves say, and nobody here keeps
their order."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from controlplane.audit.past import GROUPS
from controlplane.audit.places import moments_of
from controlplane.audit.queue_quota import (
    HeldQuota,
    QueueMember,
    QueueQuota,
    QuotaLine,
    holders_of,
    lines_of,
    shape_of,
    waiting_in,
)
from controlplane.audit.queue_usage import HeldInterval, newest_intervals
from controlplane.audit.quota_load import load_queue
from controlplane.audit.reads import Filter
from controlplane.audit.timeline import TimelineEntry
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.engine.amounts import add, requested, spelled
from controlplane.kube.quantities import nanos
from controlplane.pages.asking import Asked, NotFound
from controlplane.pages.directory import Row, Wanted
from controlplane.pages.views.queues import QueueItem, queues
from controlplane.values import Value

_NEWEST = 50  # moments, intervals, and Workloads of one list
_RECENT = 100  # Workloads whose quota is looked up
_READ = 2000  # events of the queue


class ClusterQueueStory(Value):
    """A ClusterQueue. `decided`: whether this service decides on its quota; else `quota` has no nominal amounts and
    `shape` is empty. `queues`: the LocalQueues that lead to it, with counts as in a `QueueList`. `waiting` are the
    first of `pending`, `holding` those that have quota, of `holders`. `history`: who held quota, the newest first.
    `moments`: what happened to the object."""

    name: str
    decided: bool
    shape: QueueQuota
    counts: dict[str, int]
    quota: list[QuotaLine]
    queues: list[QueueItem]
    pending: int
    waiting: list[QueueMember]
    holders: int
    holding: list[HeldQuota]
    history: list[HeldInterval]
    moments: list[TimelineEntry]


class LocalQueueStory(Value):
    """A LocalQueue, as a `ClusterQueueStory`: of its own Workloads alone. `quota` is what these have reserved.
    `sees_cluster_queue`: whether whoever asks may see that page."""

    namespace: str
    name: str
    cluster_queue: str
    sees_cluster_queue: bool
    decided: bool
    counts: dict[str, int]
    quota: list[QuotaLine]
    pending: int
    waiting: list[QueueMember]
    holders: int
    holding: list[HeldQuota]
    history: list[HeldInterval]
    moments: list[TimelineEntry]


def cluster_queue(asked: Asked) -> ClusterQueueStory:
    """Return what there is to say of a ClusterQueue. Raises `NotFound`."""
    name = asked.path["clusterqueue"]
    every = queues(_everywhere(asked)).items
    index = load_queue(asked.reader, asked.engine_settings(), name)
    leading = [one for one in every if one.cluster_queue == name]
    moments = _moments(asked, f"clusterqueue/{name}", f"quota/queue/{name}")
    if index is None and not leading and not moments:
        known = sorted({one.cluster_queue for one in every if one.cluster_queue})
        raise _not_found(asked, f"ClusterQueue {name}", "/clusterqueues/", name, known)
    leads = {(one.namespace, one.queue) for one in leading}
    waiting, holding, quota = _in_queue(asked, index, name, leads)
    return ClusterQueueStory(
        name=name,
        decided=index is not None,
        shape=shape_of(index, name) if index is not None else QueueQuota(),
        counts={group: sum(one.counts[group] for one in leading) for group in GROUPS},
        quota=quota,
        queues=leading,
        pending=len(waiting),
        waiting=waiting[:_NEWEST],
        holders=len(holding),
        holding=holding[:_NEWEST],
        history=_history(asked, leads, name),
        moments=moments,
    )


def local_queue(asked: Asked) -> LocalQueueStory:
    """Return what there is to say of a LocalQueue. Raises `NotFound`, also of a namespace that is not to be seen."""
    namespace, name = asked.path["namespace"], asked.path["queue"]
    if not asked.sees(namespace):
        raise NotFound(f"there is no LocalQueue {namespace}/{name} in the log {asked.reader.log}")
    every = queues(_everywhere(asked, namespace)).items
    found = next((one for one in every if one.queue == name), None)
    moments = _moments(asked, f"localqueue/{namespace}/{name}")
    history = _history(asked, {(namespace, name)}, None)
    if found is None and not moments and not history:
        raise _not_found(
            asked, f"LocalQueue {namespace}/{name}", f"/queues/{namespace}/", name, [one.queue for one in every]
        )
    leads_to = found.cluster_queue if found is not None else ""
    index = load_queue(asked.reader, asked.engine_settings(), leads_to) if leads_to else None
    waiting, holding, _ = _in_queue(asked, index, leads_to, {(namespace, name)}, alone=True)
    return LocalQueueStory(
        namespace=namespace,
        name=name,
        cluster_queue=leads_to,
        sees_cluster_queue=asked.allowed is None,
        decided=index is not None,
        counts=dict(found.counts) if found is not None else dict.fromkeys(GROUPS, 0),
        quota=_sum(holding),
        pending=len(waiting),
        waiting=waiting[:_NEWEST],
        holders=len(holding),
        holding=holding[:_NEWEST],
        history=history,
        moments=moments,
    )


_Place = tuple[str, str]


def _everywhere(asked: Asked, namespace: str = "") -> Asked:
    return replace(asked, given={"namespace": namespace} if namespace else {})


def _not_found(asked: Asked, what: str, path: str, name: str, known: Sequence[str]) -> NotFound:
    near = [f"{path}{one}" for one in difflib.get_close_matches(name, known, n=3, cutoff=0.4)]
    when = " at that time" if asked.at is not None else ""
    return NotFound(f"there is no {what} in the log {asked.reader.log}{when}", near)


def _moments(asked: Asked, *streams: str) -> list[TimelineEntry]:
    """Return what happened to an object, the newest first."""
    newest = asked.reader.events(Filter(streams=list(streams)), limit=_READ, newest=True)
    return [one for one in moments_of(newest) if one.noteworthy][: -_NEWEST - 1 : -1]


def _in_queue(
    asked: Asked, index: AdmissionIndex | None, cluster_queue: str, leads: Set[_Place], *, alone: bool = False
) -> tuple[list[QueueMember], list[HeldQuota], list[QuotaLine]]:
    """Return who waits, who has quota, and the quota of a ClusterQueue, to which some LocalQueues lead; of these alone,
    if it is said so."""
    if index is not None:
        waiting, holding = waiting_in(index, cluster_queue), holders_of(index, cluster_queue)
        if alone:
            waiting = [one for one in waiting if (one.namespace, one.queue) in leads]
            holding = [one for one in holding if (one.namespace, one.queue) in leads]
        return waiting, holding, lines_of(index, cluster_queue)
    seen = _seen(asked)
    here = [one for one in seen if (one.namespace, one.queue_name) in leads]
    has = [
        one for one in (here if alone else seen) if _has_quota(one) and (alone or one.cluster_queue == cluster_queue)
    ]
    holding = sorted(map(_holder, has), key=lambda one: (one.since, one.namespace, one.name))
    waits = [_waiter(one) for one in here if not _has_quota(one)]
    return sorted(waits, key=lambda one: (-one.priority, one.since, one.namespace, one.name)), holding, _sum(holding)


def _seen(asked: Asked) -> list[WorkloadObserved]:
    """Return the Workloads that are not over, as they were seen last."""
    if asked.at is None:
        with asked.follower.lock:
            states: Iterable[WorkloadState] = list(asked.follower.index.workloads.values())
    else:
        states = asked.past().states.values()
    live = (state.local for state in states)
    return [
        one
        for one in live
        if one is not None and not (one.is_true("Finished") or one.deleting) and asked.sees(one.namespace)
    ]


def _has_quota(local: WorkloadObserved) -> bool:
    return local.is_true("QuotaReserved")


def _holder(local: WorkloadObserved) -> HeldQuota:
    amounts: dict[str, dict[str, str]] = {}
    for one in local.assignments:
        for resource, amount in (one.get("resourceUsage") or {}).items():
            by_resource = amounts.setdefault(str((one.get("flavors") or {}).get(resource, "")), {})
            by_resource[resource] = _plus(resource, by_resource.get(resource, "0"), str(amount))
    said = local.condition("QuotaReserved")
    return HeldQuota(
        namespace=local.namespace,
        name=local.name,
        queue=local.queue_name,
        priority=local.priority.value,
        admitted=local.is_true("Admitted"),
        amounts=amounts,
        since=said.last_transition_time if said is not None else "",
    )


def _waiter(local: WorkloadObserved) -> QueueMember:
    said = local.condition("QuotaReserved")
    return QueueMember(
        namespace=local.namespace,
        name=local.name,
        queue=local.queue_name,
        priority=local.priority.value,
        position=0,
        in_queue=0,
        since=said.last_transition_time if said is not None else "",
        reason=said.reason if said is not None else "",
        message=said.message if said is not None else "",
    )


def _sum(holding: Sequence[HeldQuota]) -> list[QuotaLine]:
    """Return what some Workloads have reserved, by flavor and resource."""
    total: dict[tuple[str, str], str] = {}
    for one in holding:
        for flavor, by_resource in one.amounts.items():
            for resource, amount in by_resource.items():
                total[flavor, resource] = _plus(resource, total.get((flavor, resource), "0"), amount)
    return [QuotaLine(flavor=place[0], resource=place[1], reserved=amount) for place, amount in sorted(total.items())]


def _plus(resource: str, one: str, other: str) -> str:
    try:
        return spelled(resource, add(requested(resource, nanos(one)), requested(resource, nanos(other))))
    except ValueError:  # what somebody wrote into a status
        return one


def _history(asked: Asked, places: Iterable[_Place], cluster_queue: str | None) -> list[HeldInterval]:
    """Return who held quota of those Workloads that changed last, the newest interval first."""
    rows: list[Row] = []
    for namespace, queue in places:
        wanted = Wanted([namespace], queue=queue)
        if asked.at is not None:
            rows += asked.past().directory.rows(wanted)
            with asked.follower.lock:
                rows += asked.follower.directory.newest_at(asked.at.timestamp(), wanted, _RECENT)
            continue
        with asked.follower.lock:
            rows += asked.follower.directory.page(wanted, "changed", limit=_RECENT).rows
    # Of a time all that are left: of those that were there then, some changed long after it.
    newest = rows if asked.at is not None else sorted(rows, key=lambda row: -row.changed)[:_RECENT]
    names = dict.fromkeys((row.namespace, row.name) for row in newest)
    return newest_intervals(asked.reader, names, asked.moment, queue=cluster_queue, most=_NEWEST)
