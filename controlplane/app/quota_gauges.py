"""The gauges of quota, under Kueue's names, read from the state when somebody asks for the metrics.

In: the folded state of admission. Out: metric families. What is gone is not reported any more, and nothing is computed
that nobody reads (kubernetes-sigs/kueue pkg/cache/queue/metrics.go and unadmitted_workloads.go,
pkg/cache/scheduler/clusterqueue.go, cohort_metrics.go, main after v0.19.2)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.admission.metric_labels import MetricLabels
from controlplane.controllers.quota.admission.queue_status import is_admitted, local_readiness
from controlplane.controllers.quota.admission.workload_status import (
    ADMITTED,
    FINISHED,
    NO_RESERVATION,
    PENDING_EVALUATION,
    QUOTA_RESERVED,
    WorkloadStatus,
    as_read,
)
from controlplane.controllers.quota.engine.amounts import UNLIMITED, Usage, add
from controlplane.controllers.quota.engine.info import Info, total_usage
from controlplane.controllers.quota.engine.model import NO_STOP
from controlplane.controllers.quota.engine.shares import dominant_resource_share
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.controllers.quota.engine.tree import QuotaNode
from controlplane.kube import kinds
from controlplane.quota_metrics import BELOW_COHORT, GAUGES, PREFIX, ROLE, label_sources
from controlplane.settings.custom_metric_labels import CLUSTER_QUEUE, WORKLOAD

_WAITING = ("active", "inadmissible")
_CLUSTER_QUEUE_STATES, _CONDITION_STATES = ("pending", "active", "terminating"), ("True", "False", "Unknown")


_ABOUT = {
    kinds.CLUSTER_QUEUES.kind: (kinds.CLUSTER_QUEUES, "", "cluster_queue"),
    kinds.COHORTS.kind: (kinds.COHORTS, "", "cohort"),
    kinds.LOCAL_QUEUES.kind: (kinds.LOCAL_QUEUES, "namespace", "name"),
}


class GaugeFamilies:
    """Makes metric families of gauges, sample by sample, each with its custom labels."""

    def __init__(self, labels: MetricLabels) -> None:
        self._labels = labels
        self._families: dict[str, GaugeMetricFamily] = {}

    def add(self, name: str, labels: tuple[str, ...], value: float, more: tuple[str, ...] = ()) -> None:
        """Add a sample. `more`: the values of custom labels that are not of the object that `labels` name."""
        family = self._families.get(name)
        if family is None:
            names, doc = GAUGES[name]
            custom = self._labels.custom.names(*label_sources(name))
            family = GaugeMetricFamily(f"{PREFIX}_{name}", doc, labels=[*names.split(), "replica_role", *custom])
            self._families[name] = family
        own = self._own(name, labels) if self._labels.custom.rules else ()
        family.add_metric([*labels, ROLE, *own, *more], float(value))

    def all(self) -> Sequence[GaugeMetricFamily]:
        """Return those that have samples."""
        return [self._families[name] for name in GAUGES if name in self._families]

    def _own(self, name: str, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Return the values of the object that a sample is about."""
        if name == BELOW_COHORT:
            return ()
        kind, namespace, named = _ABOUT[label_sources(name)[0]]
        said = dict(zip(GAUGES[name][0].split(), labels, strict=True))
        return self._labels.of(kind, said.get(namespace, ""), said[named])


class QuotaGauges(Collector):
    """See the module. `resources`: also quotas and usage of ClusterQueues; `local_queues`: also what is by LocalQueue;
    `left_out`: Cohorts that are not reported now. Nothing is reported whose custom labels are not known yet."""

    def __init__(
        self,
        index: AdmissionIndex,
        labels: MetricLabels,
        *,
        resources: bool,
        local_queues: bool,
        left_out: Collection[str] = (),
    ) -> None:
        self._index, self._labels, self._left_out = index, labels, left_out
        self._resources, self._local_queues = resources, local_queues

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return what is to be reported now."""
        found = GaugeFamilies(self._labels)
        if not self._labels.knows_all(self._index):
            return ()
        admitted: dict[str, list[Info]] = {}
        for queue in self._index.engine.snapshot.queues.values():
            admitted[queue.name] = [info for info in queue.workloads.values() if is_admitted(self._index, info)]
            self._cluster_queue(found, queue, admitted[queue.name])
        self._finished(found)
        self._unadmitted(found)
        for cohort in self._index.engine.snapshot.cohorts():
            if cohort.name not in self._left_out:
                self._cohort(found, cohort, admitted)
        if self._local_queues:
            self._by_local_queue(found, admitted)
        return found.all()

    def _cluster_queue(self, found: GaugeFamilies, queue: QueueNode, admitted: list[Info]) -> None:
        name = queue.name
        for status, waiting in zip(_WAITING, self._waiting(queue), strict=True):
            self._add_by_workload(found, "pending_workloads", (name, status), waiting)
        for status, shapes in zip(_WAITING, self._shapes(queue), strict=True):
            found.add("pending_scheduling_hashes", (name, status), len(shapes))
        found.add("reserving_active_workloads", (name,), len(queue.workloads))
        self._add_by_workload(found, "admitted_active_workloads", (name,), admitted)
        seen = self._index.seen(kinds.CLUSTER_QUEUES, "", name)
        state = "terminating" if seen is not None and seen.deleting else "active" if queue.active else "pending"
        for one in _CLUSTER_QUEUE_STATES:
            found.add("cluster_queue_status", (name, one), one == state)
        tree = (queue.parent.name, queue.root().name) if queue.parent is not None else ("", "")
        found.add("cluster_queue_info", (name, *tree), 1)
        if self._resources:
            self._resources_of(found, queue, admitted)

    def _add_by_workload(
        self, found: GaugeFamilies, name: str, labels: tuple[str, ...], several: Sequence[Info]
    ) -> None:
        """Add how many Workloads there are, by their custom labels if they have some: as with Kueue, none has no sample
        then."""
        counts: Mapping[tuple[str, ...], int] = {(): len(several)}
        if WORKLOAD in self._labels.custom.kinds:
            counts = Counter(self._labels.of(kinds.WORKLOADS, *one.key.split("/", 1)) for one in several)
        for custom, count in counts.items():
            found.add(name, labels, count, custom)

    def _waiting(self, queue: QueueNode) -> tuple[list[Info], list[Info]]:
        """Return who waits that is tried, and who waits for a change: all if the ClusterQueue does not admit."""
        pending = self._index.engine.queues.pending.get(queue.name)
        if pending is None:
            return [], []
        active, inadmissible = list(pending.active.values()), list(pending.inadmissible.values())
        return (active, inadmissible) if queue.active else ([], active + inadmissible)

    def _shapes(self, queue: QueueNode) -> tuple[set[object], set[object]]:
        """Return the shapes of who is tried, and of who waits for a change: all if the ClusterQueue does not admit."""
        pending = self._index.engine.queues.pending.get(queue.name)
        active, inadmissible = pending.shapes() if pending is not None else (set(), set())
        return (active, inadmissible) if queue.active else (set(), active | inadmissible)

    def _resources_of(self, found: GaugeFamilies, queue: QueueNode, admitted: list[Info]) -> None:
        cohort, name, usage = queue.parent.name if queue.parent is not None else "", queue.name, total_usage(admitted)
        for place, quota in queue.quotas.items():
            labels = (cohort, name, *place)
            found.add("cluster_queue_nominal_quota", labels, _units(place[1], quota.nominal))
            found.add("cluster_queue_borrowing_limit", labels, _limit(place[1], quota.borrowing_limit))
            found.add("cluster_queue_lending_limit", labels, _limit(place[1], quota.lending_limit))
            found.add("cluster_queue_resource_reservation", labels, _units(place[1], queue.usage.get(place, 0)))
            found.add("cluster_queue_resource_usage", labels, _units(place[1], usage.get(place, 0)))
        asked: dict[str, int] = {place[1]: 0 for place in queue.quotas}
        pending = self._index.engine.queues.pending.get(name)
        for info in (*pending.active.values(), *pending.inadmissible.values()) if pending is not None else ():
            for pod_set in info.pod_sets:
                for resource, amount in pod_set.requests.items():
                    asked[resource] = add(asked.get(resource, 0), amount)
        for resource, amount in asked.items():
            found.add("cluster_queue_resource_pending", (name, resource), _units(resource, amount))
        if self._index.engine.settings.fair_sharing:
            share = dominant_resource_share(queue).weighted
            found.add("cluster_queue_weighted_share", (name, cohort), math.nan if share == math.inf else share)

    def _cohort(self, found: GaugeFamilies, cohort: QuotaNode, admitted: Mapping[str, list[Info]]) -> None:
        name = cohort.name
        found.add("cohort_info", (name, cohort.parent.name if cohort.parent is not None else "", cohort.root().name), 1)
        for place, amount in cohort.subtree.items():
            if amount > 0:
                found.add("cohort_subtree_quota", (name, *place), _units(place[1], amount))
        total: Usage = {}
        counts = Counter[tuple[str, ...]]({} if CLUSTER_QUEUE in self._labels.custom.kinds else {(): 0})
        for queue in cohort.subtree_queues():
            counts[self._labels.of(kinds.CLUSTER_QUEUES, "", queue.name)] += len(admitted.get(queue.name, ()))
            for place, amount in queue.usage.items():
                total[place] = add(total.get(place, 0), amount)
        for place, amount in total.items():
            if amount > 0:
                found.add("cohort_subtree_resource_reservations", (name, *place), _units(place[1], amount))
        for custom, count in counts.items():
            found.add(BELOW_COHORT, (name,), count, custom)
        if self._index.engine.settings.fair_sharing:
            found.add("cohort_weighted_share", (name,), dominant_resource_share(cohort).weighted)

    def _finished(self, found: GaugeFamilies) -> None:
        """Count those that have ended and are still there, by the ClusterQueue that they were admitted to."""
        cluster_queues: Counter[str] = Counter(dict.fromkeys(self._index.engine.snapshot.queues, 0))
        local_queues: Counter[tuple[str, str]] = Counter({(one.name, one.namespace): 0 for one in self._local()})
        for state in self._index.workloads.values():
            seen = state.observed
            if seen is None or not as_read(seen.status).is_true(FINISHED):
                continue
            cluster_queues[str((seen.status.get("admission") or {}).get("clusterQueue", ""))] += 1
            local_queues[seen.queue, seen.namespace] += 1
        for name in self._index.engine.snapshot.queues:
            found.add("finished_workloads", (name,), cluster_queues[name])
        if self._local_queues:
            for local in self._reported():
                labels = (local.name, local.namespace)
                found.add("local_queue_finished_workloads", labels, local_queues[labels])

    def _unadmitted(self, found: GaugeFamilies) -> None:
        """Count those that are not admitted, by why, and by the ClusterQueue that their LocalQueue names."""
        queues = {(one.name, one.namespace): str(one.spec.get("clusterQueue") or "") for one in self._local()}
        counts = Counter[tuple[str, str, str, str, str]]()
        for state in self._index.workloads.values():
            seen = state.observed
            if seen is None or seen.deleting or not (queue := queues.get((seen.queue, seen.namespace))):
                continue
            why = _why_unadmitted(as_read(seen.status))
            if why is not None:
                counts[seen.queue, seen.namespace, queue, *why] += 1
        by_cluster_queue = Counter[tuple[str, str, str]]()
        for labels, count in counts.items():
            by_cluster_queue[labels[2:]] += count
            if self._local_queues and self._labels.reports(labels[1], labels[0]):
                found.add("local_queue_unadmitted_workloads", labels, count)
        for labels_, count in by_cluster_queue.items():
            found.add("unadmitted_workloads", labels_, count)

    def _local(self) -> Iterator[events.AdmissionLocalQueueObserved]:
        for state in self._index.objects.values():
            if isinstance(state.observed, events.AdmissionLocalQueueObserved):
                yield state.observed

    def _reported(self) -> Iterator[events.AdmissionLocalQueueObserved]:
        return (one for one in self._local() if self._labels.reports(one.namespace, one.name))

    def _by_local_queue(self, found: GaugeFamilies, admitted: Mapping[str, list[Info]]) -> None:
        engine = self._index.engine
        reserving, running, active, inadmissible = (_by_queue(several) for several in self._infos(admitted))
        for local in self._reported():
            labels, key = (local.name, local.namespace), f"{local.namespace}/{local.name}"
            name = str(local.spec.get("clusterQueue") or "")
            queue = engine.snapshot.queues.get(name)
            waits = len(active.get(key, ())), len(inadmissible.get(key, ()))
            if queue is not None and not queue.active:
                waits = 0, sum(waits)
            for status, count in zip(_WAITING, waits, strict=True):
                found.add("local_queue_pending_workloads", (*labels, status), count)
            own, mine = reserving.get(key, []), running.get(key, [])
            found.add("local_queue_reserving_active_workloads", labels, len(own))
            self._add_by_workload(found, "local_queue_admitted_active_workloads", labels, mine)
            stopped = (local.spec.get("stopPolicy") or NO_STOP) != NO_STOP
            ready, _, _ = local_readiness(self._index, stopped=stopped, name=name)
            for one in _CONDITION_STATES:
                found.add("local_queue_status", (*labels, one), one == ready)
            reserved, used = total_usage(own), total_usage(mine)
            for place in queue.quotas if queue is not None else ():
                found.add(
                    "local_queue_resource_reservation",
                    (*labels, *place),
                    _units(place[1], reserved.get(place, 0)),
                )
                found.add("local_queue_resource_usage", (*labels, *place), _units(place[1], used.get(place, 0)))
            if engine.settings.admission_fair_sharing is not None:
                found.add("local_queue_admission_fair_sharing_usage", (*labels, name), engine.usage_of(key))

    def _infos(self, admitted: Mapping[str, list[Info]]) -> Iterator[Iterable[Info]]:
        """Yield who has quota, who is admitted, who is tried, and who waits for a change."""
        engine = self._index.engine
        yield engine.snapshot.workloads.values()
        yield (info for several in admitted.values() for info in several)
        yield (info for pending in engine.queues.pending.values() for info in pending.active.values())
        yield (info for pending in engine.queues.pending.values() for info in pending.inadmissible.values())


def _why_unadmitted(status: WorkloadStatus) -> tuple[str, str] | None:
    """Return why a Workload is not admitted, and the cause if it is without quota; None if it is admitted, or has
    ended."""
    if status.is_true(ADMITTED) or status.is_true(FINISHED):
        return None
    admitted, reserved = status.condition(ADMITTED), status.condition(QUOTA_RESERVED)
    reason = str(admitted.get("reason", "")) if admitted is not None else NO_RESERVATION
    if reserved is None:
        return reason, PENDING_EVALUATION  # it was not tried yet
    return reason, "" if status.reserved else str(reserved.get("reason", ""))


def _by_queue(several: Iterable[Info]) -> dict[str, list[Info]]:
    found: dict[str, list[Info]] = {}
    for info in several:
        found.setdefault(info.workload.local_queue, []).append(info)
    return found


def _limit(resource: str, amount: int | None) -> float:
    return math.inf if amount is None else _units(resource, amount)


def _units(resource: str, amount: int) -> float:
    """Return an amount in units: cpu in cores."""
    if amount == UNLIMITED:
        return math.inf
    return amount / 1000 if resource == "cpu" else float(amount)
