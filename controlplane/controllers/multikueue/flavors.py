"""Keeps what is left of the quota of the workers' ClusterQueues, and says whether a Workload fits into it.

In: ClusterQueues and LocalQueues of workers, as API servers show them; the events that are made of them. Out: those
events, and for a cluster a score from 0 to 100 with the fact that it rests on. Pure. The queue that counts is the one
behind the worker's LocalQueue of the Workload's namespace and name, as for the copy there. It fits where each pod set
finds one flavor in each resource group that has all of it left (kubernetes-sigs/kueue
pkg/scheduler/flavorassigner/flavorassigner.go, ff69552e). What a cohort would lend, and what a cluster does not say, is
neither for nor against a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controlplane.controllers.connectivity.objects import Deduplicator
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue import objects
from controlplane.controllers.multikueue.observations import Observation, WorkloadObserved
from controlplane.controllers.multikueue.worker_queues import (
    WorkerClusterQueueGone,
    WorkerClusterQueueObserved,
    WorkerFlavor,
    WorkerLocalQueueGone,
    WorkerLocalQueueObserved,
    WorkerResourceGroup,
)
from controlplane.kube.conditions import Condition, conditions_of
from controlplane.kube.fields import Misfit, items, section, strings, text
from controlplane.kube.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, Json, Kind, meta
from controlplane.kube.quantities import nanos, spell, to_milli
from controlplane.log.event import Body, Event, Recorded
from controlplane.runtime.controller import ObjectChange
from controlplane.runtime.observations import forget

CLUSTER_QUEUE, LOCAL_QUEUE = "workerclusterqueue", "workerlocalqueue"
"""The first words of their streams."""
KINDS = (CLUSTER_QUEUES, LOCAL_QUEUES)
"""What is watched on workers where clusters are scored by their flavors."""
FITS, NOT_KNOWN, FULL = 100, 50, 0
NEUTRAL = (NOT_KNOWN, "not known")

_Place = tuple[str, str, str]
_Built = tuple[str, Event, tuple[Body, ...]]


# --- what is seen -----------------------------------------------------------------------------------------------------


class QueueObserver:
    """Makes events of the queues of workers, of each version that differs in what is recorded; none where clusters are
    not scored by their flavors."""

    def __init__(self, *, flavored: bool) -> None:
        self._flavored, self._repeats = flavored, Deduplicator()

    def built(self, change: ObjectChange) -> _Built | None:
        """Return stream and event of a change; None if it says nothing new. `Misfit` if it does not fit its API."""
        if not self._flavored:
            return None
        name, namespace = str(meta(change.object)["name"]), str(meta(change.object).get("namespace") or "")
        local = change.kind == LOCAL_QUEUES
        place = f"{namespace}/{name}" if local else name
        stream = f"{LOCAL_QUEUE if local else CLUSTER_QUEUE}/{change.cluster}/{place}"
        if change.gone:
            self._repeats.forget(change.source)
            gone = WorkerLocalQueueGone if local else WorkerClusterQueueGone
            return stream, gone(namespace=namespace, name=name, uid=change.uid), ()
        event = _seen(change.kind, change.whole())
        if change.source and self._repeats.says_nothing_new(change.source, event, listed=change.listed):
            return None
        return stream, event, ()


def _seen(kind: Kind, obj: Json) -> Observation:
    spec, status = section(obj, "spec"), section(obj, "status")
    stopped = text(spec, "stopPolicy", "spec") or "None"
    inactive = "it is stopped" if stopped != "None" else _inactive(conditions_of(status))
    if kind == LOCAL_QUEUES:
        queue = text(spec, "clusterQueue", "spec")
        return WorkerLocalQueueObserved(**objects.identity(obj), cluster_queue=queue, inactive=inactive)
    borrows = bool(text(spec, "cohortName", "spec") or text(spec, "cohort", "spec"))
    groups = _groups(spec, status)
    return WorkerClusterQueueObserved(**objects.identity(obj), groups=groups, borrows=borrows, inactive=inactive)


def requests(status: Json) -> dict[str, dict[str, str]]:
    """Return what each pod set of an admission takes, by resource."""
    where = "status.admission.podSetAssignments[]"
    return {
        text(one, "name", where): {
            resource: str(amount) for resource, amount in section(one, "resourceUsage", where).items()
        }
        for one in objects.assignments(status)
    }


def _inactive(conditions: Iterable[Condition]) -> str:
    found = next((one for one in conditions if one.type == "Active" and one.status == "False"), None)
    return f"it is not active ({found.reason})" if found is not None else ""


def _groups(spec: Json, status: Json) -> list[WorkerResourceGroup] | None:
    """Return the resource groups with what is left in each flavor; None if the status does not tell."""
    if "flavorsReservation" not in status:
        return None
    where = "status.flavorsReservation[]"
    reserved = {
        (text(flavor, "name", where), text(one, "name", f"{where}.resources[]")): one.get("total", "0")
        for flavor in items(status, "flavorsReservation", "status")
        for one in items(flavor, "resources", where)
    }
    where = "spec.resourceGroups[]"
    return [
        WorkerResourceGroup(
            covered=strings(group, "coveredResources", where),
            flavors=[
                _flavor(flavor, text(flavor, "name", f"{where}.flavors[]"), reserved)
                for flavor in items(group, "flavors", where)
            ],
        )
        for group in items(spec, "resourceGroups", "spec")
    ]


def _flavor(flavor: Json, name: str, reserved: Mapping[tuple[str, str], object]) -> WorkerFlavor:
    where = "spec.resourceGroups[].flavors[].resources[]"
    free = {}
    for one in items(flavor, "resources", where):
        resource = text(one, "name", where)
        left = _amount(one.get("nominalQuota", "0"), f"{where}.nominalQuota")
        left -= _amount(reserved.get((name, resource), "0"), "status.flavorsReservation[].resources[].total")
        free[resource] = spell(resource, to_milli(max(left, 0)))
    return WorkerFlavor(name=name, free=free)


def _amount(found: object, where: str) -> int:
    if isinstance(found, str | int | float) and not isinstance(found, bool):
        try:
            return nanos(found)
        except ValueError:
            pass
    raise Misfit(where, found, "a quantity")


# --- what is known ----------------------------------------------------------------------------------------------------


_OF_QUEUES = frozenset(
    (WorkerClusterQueueObserved, WorkerLocalQueueObserved, WorkerClusterQueueGone, WorkerLocalQueueGone)
)


class WorkerQueues:
    """The queues of all workers, as the log says them."""

    def __init__(self) -> None:
        self._queues: dict[_Place, WorkerClusterQueueObserved] = {}
        self._local: dict[_Place, WorkerLocalQueueObserved] = {}

    def fold(self, recorded: Recorded) -> None:
        """Take one more event of a worker's queue. What is gone is so by its UID."""
        event, cluster = recorded.event, recorded.cluster
        if type(event) not in _OF_QUEUES:
            return
        match event:
            case WorkerClusterQueueObserved():
                self._queues[cluster, "", event.name] = event
            case WorkerLocalQueueObserved():
                self._local[cluster, event.namespace, event.name] = event
            case WorkerClusterQueueGone():
                forget(self._queues, (cluster, "", event.name), event)
            case WorkerLocalQueueGone():
                forget(self._local, (cluster, event.namespace, event.name), event)

    def seen(self, cluster: str, kind: str) -> list[Observation]:
        """Return the queues of a kind (`Kind.name`) that are known to exist on a cluster."""
        known: Iterable[tuple[_Place, Observation]] = (
            self._queues.items() if kind == CLUSTER_QUEUES.name else self._local.items()
        )
        return [one for place, one in known if place[0] == cluster]

    def fit(self, cluster: str, local: WorkloadObserved, connection: Connection | None) -> tuple[int, str]:
        """Return how well a Workload fits into what is left on a cluster, and why."""
        kinds = (CLUSTER_QUEUES.name, LOCAL_QUEUES.name)
        if connection is None or not all(connection.in_view(kind) for kind in kinds):
            return NEUTRAL
        through = self._local.get((cluster, local.namespace, local.queue_name))
        if through is None:
            return FULL, f"no LocalQueue {local.namespace}/{local.queue_name}"
        queue = self._queues.get((cluster, "", through.cluster_queue))
        if queue is None:
            return FULL, f"no ClusterQueue {through.cluster_queue}"
        if inactive := through.inactive or queue.inactive:
            return FULL, inactive
        if queue.groups is None or not local.requests:
            return NEUTRAL
        lacking = _lacking(queue.groups, local.requests)
        if not lacking:
            return FITS, f"free in {through.cluster_queue}"
        return (NOT_KNOWN, f"{lacking}, and its cohort may lend") if queue.borrows else (FULL, lacking)


def _lacking(groups: Sequence[WorkerResourceGroup], asked: Mapping[str, Mapping[str, str]]) -> str:
    """Return what there is too little of for pod sets that are placed one after the other, "" if they fit."""
    taken: dict[tuple[str, str], int] = {}
    for amounts in asked.values():
        left = {resource: nanos(amount) for resource, amount in amounts.items() if nanos(amount)}
        for group in groups:
            wanted = {resource: left.pop(resource) for resource in group.covered if resource in left}
            if wanted and (missing := _take(group, wanted, taken)):
                return missing
        if left:
            return f"no {', '.join(sorted(left))}"
    return ""


def _take(group: WorkerResourceGroup, wanted: Mapping[str, int], taken: dict[tuple[str, str], int]) -> str:
    """Take amounts from the first flavor of a group that has them; return what there is too little of, "" if they
    fit."""
    missing = "no flavor"
    for flavor in group.flavors:
        missing = _missing(flavor, wanted, taken)
        if not missing:
            for resource, amount in wanted.items():
                taken[flavor.name, resource] = taken.get((flavor.name, resource), 0) + amount
            break
    return missing


def _missing(flavor: WorkerFlavor, wanted: Mapping[str, int], taken: Mapping[tuple[str, str], int]) -> str:
    for resource, amount in wanted.items():
        free = max(nanos(flavor.free.get(resource, "0")) - taken.get((flavor.name, resource), 0), 0)
        if amount > free:
            return (
                f"{spell(resource, to_milli(free))} {resource} free in {flavor.name}, "
                f"{spell(resource, to_milli(amount))} asked"
            )
    return ""
