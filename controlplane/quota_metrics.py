"""The metrics of quota that is reserved by this service, under the names, labels and buckets that they have in Kueue
(kubernetes-sigs/kueue pkg/metrics/metrics.go, main after v0.19.2).

In: what makes a metric (`controlplane.telemetry.Metrics`). Out: counters and histograms as fields, and what the gauges
are called, which are read from the state when somebody asks for them (`controlplane.app.quota_gauges`). Dashboards and
alerts that are made for Kueue go on with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics import MetricWrapperBase

from controlplane.candidate_metrics import NewMetric
from controlplane.custom_labels import NO_LABELS, CustomLabels
from controlplane.settings.custom_metric_labels import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, WORKLOAD

M = TypeVar("M", bound=MetricWrapperBase)
PREFIX = "kueue"
ROLE = "leader"
"""The label `replica_role`: only the leader reserves quota and counts."""

_BUCKETS = (1.0, *(2.5 * 2**power for power in range(13)))
_CLASS, _EVICTED = "priority_class", "reason underlying_cause priority_class"


_BY_WORKLOAD = frozenset(
    (
        "pending_workloads",
        "admitted_active_workloads",
        "local_queue_admitted_active_workloads",
        "local_queue_admitted_workloads_total",
        "local_queue_admission_wait_time_seconds",
    )
)
BELOW_COHORT = "cohort_subtree_admitted_active_workloads"
"""The metric of Cohorts that has the custom labels of the ClusterQueues below them."""


def label_sources(name: str) -> tuple[str, ...]:
    """Return the kinds of the objects whose custom labels a metric has (`InitMetricVectors` in
    pkg/metrics/metrics.go)."""
    kind = CLUSTER_QUEUE
    if name.startswith("local_queue_"):
        kind = LOCAL_QUEUE
    elif name.startswith("cohort_") and name != BELOW_COHORT:
        kind = COHORT
    return (kind, WORKLOAD) if name in _BY_WORKLOAD else (kind,)


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where a Workload is counted: its ClusterQueue, and its LocalQueue if those are counted, otherwise "". `custom`:
    the custom labels of the ClusterQueue, of the LocalQueue and of the Workload."""

    cluster_queue: str
    namespace: str = ""
    local_queue: str = ""
    custom: tuple[str, ...] = ()
    local_custom: tuple[str, ...] = ()
    workload_custom: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ByQueue(Generic[M]):
    """A metric of ClusterQueues, and its like of LocalQueues, which has the custom labels of Workloads if
    `by_workload`."""

    cluster: M
    local: M
    by_workload: bool

    def at(self, place: QueuePlace, *labels: str) -> Sequence[M]:
        """Return what is to be counted of a Workload."""
        found = [self.cluster.labels(place.cluster_queue, *labels, ROLE, *place.custom)]
        if place.local_queue:
            custom = place.local_custom + (place.workload_custom if self.by_workload else ())
            found.append(self.local.labels(place.local_queue, place.namespace, *labels, ROLE, *custom))
        return found


GAUGES: dict[str, tuple[str, str]] = {
    "pending_workloads": (
        "cluster_queue status",
        "Workloads that wait: `active` ones are tried, `inadmissible` ones wait for a change.",
    ),
    "pending_scheduling_hashes": (
        "cluster_queue status",
        "Workloads that wait, counted once where they are alike to the scheduler; `status` as of `pending_workloads`.",
    ),
    "local_queue_pending_workloads": ("name namespace status", "The same of a LocalQueue."),
    "unadmitted_workloads": (
        "cluster_queue reason underlying_cause",
        (
            "Workloads that are not admitted, by the reason of their condition `Admitted`, and without quota by that of "
            "`QuotaReserved`."
        ),
    ),
    "local_queue_unadmitted_workloads": (
        "name namespace cluster_queue reason underlying_cause",
        "The same of a LocalQueue.",
    ),
    "reserving_active_workloads": ("cluster_queue", "Workloads that have quota."),
    "local_queue_reserving_active_workloads": ("name namespace", "The same of a LocalQueue."),
    "admitted_active_workloads": ("cluster_queue", "Workloads that are admitted, and have not ended."),
    "local_queue_admitted_active_workloads": ("name namespace", "The same of a LocalQueue."),
    "finished_workloads": ("cluster_queue", "Workloads that have ended, and are still there."),
    "local_queue_finished_workloads": ("name namespace", "The same of a LocalQueue."),
    "cluster_queue_status": ("cluster_queue status", "1 for what it is: `pending`, `active` or `terminating`."),
    "local_queue_status": (
        "name namespace active",
        "1 for what its condition `Active` is: `True`, `False` or `Unknown`.",
    ),
    "cluster_queue_info": (
        "cluster_queue parent_cohort root_cohort",
        "1 for each ClusterQueue, with the Cohorts that it is in.",
    ),
    "cohort_info": ("cohort parent_cohort root_cohort", "1 for each Cohort."),
    "cohort_subtree_quota": ("cohort flavor resource", "Nominal quota of a Cohort and all below it."),
    "cohort_subtree_resource_reservations": ("cohort flavor resource", "What is reserved below a Cohort."),
    "cohort_subtree_admitted_active_workloads": (
        "cohort",
        "Workloads below a Cohort that are admitted, and have not ended.",
    ),
    "cohort_weighted_share": ("cohort", "The share of a Cohort, with `quota.fairSharing.enable`."),
    "local_queue_resource_reservation": ("name namespace flavor resource", "What is reserved for a LocalQueue."),
    "local_queue_resource_usage": ("name namespace flavor resource", "What its admitted Workloads have of that."),
    "local_queue_admission_fair_sharing_usage": (
        "name namespace cluster_queue",
        "What a LocalQueue used in the past, weighted, with `quota.admissionFairSharing.enable`.",
    ),
    "cluster_queue_resource_reservation": (
        "cohort cluster_queue flavor resource",
        "What is reserved in a ClusterQueue.",
    ),
    "cluster_queue_resource_usage": (
        "cohort cluster_queue flavor resource",
        "What its admitted Workloads have of that.",
    ),
    "cluster_queue_resource_pending": ("cluster_queue resource", "What Workloads ask for that wait."),
    "cluster_queue_nominal_quota": ("cohort cluster_queue flavor resource", "Nominal quota."),
    "cluster_queue_borrowing_limit": (
        "cohort cluster_queue flavor resource",
        "How much it may borrow; `+Inf` if there is no limit.",
    ),
    "cluster_queue_lending_limit": (
        "cohort cluster_queue flavor resource",
        "How much it lends; `+Inf` if there is no limit.",
    ),
    "cluster_queue_weighted_share": (
        "cluster_queue cohort",
        "The share of a ClusterQueue, with `quota.fairSharing.enable`; `NaN` if it borrows with a weight of 0.",
    ),
}
"""Each gauge: its labels but for `replica_role`, separated by spaces, and what it means."""

GAUGE_ROWS = [
    (f"{PREFIX}_{name}", "gauge", (*labels.split(), "replica_role"), doc) for name, (labels, doc) in GAUGES.items()
]
"""The same as the reference of all metrics has them."""


def _new_in(
    registry: CollectorRegistry,
    kind: type[M],
    name: str,
    label_names: str,
    doc: str,
    buckets: tuple[float, ...] = (),
    *,
    prefix: str = PREFIX,
) -> M:
    options: dict[str, Any] = {"buckets": buckets} if buckets else {}
    return kind(f"{prefix}_{name}", doc, label_names.split(), registry=registry, **options)


class QuotaMetrics:
    """See the module."""

    def __init__(self, new: NewMetric) -> None:
        self._new, self._custom = new, NO_LABELS
        self._made: list[tuple[frozenset[str], MetricWrapperBase]] = []
        self.attempts = new(
            Counter,
            "admission_attempts_total",
            "result replica_role",
            "Cycles that decided something: `success` if a Workload got quota, otherwise `inadmissible`.",
            prefix=PREFIX,
        )
        self._make()

    def label(self, registry: CollectorRegistry, custom: CustomLabels) -> None:
        """Have other custom labels besides, by what each metric is about: whatever is about a queue begins anew in the
        registry."""
        if custom == self._custom:
            return
        for _, metric in self._made:
            registry.unregister(metric)
        self._new, self._custom, self._made = partial(_new_in, registry), custom, []
        self._make()

    def _make(self) -> None:
        """What becomes of Workloads until they run."""
        self.reserved = self._both(Counter, "quota_reserved_workloads_total", _CLASS, "Workloads that got quota.")
        self.reserved_wait = self._both(
            Histogram, "quota_reserved_wait_time_seconds", _CLASS, "From being queued, or queued again, to quota."
        )
        self.admitted = self._both(Counter, "admitted_workloads_total", _CLASS, "Workloads that were admitted.")
        self.admitted_wait = self._both(
            Histogram, "admission_wait_time_seconds", _CLASS, "From being queued, or queued again, to admission."
        )
        self.checks_wait = self._both(
            Histogram, "admission_checks_wait_time_seconds", _CLASS, "From quota to admission, where there are checks."
        )
        self.ready_wait = self._both(
            Histogram,
            "ready_wait_time_seconds",
            _CLASS,
            "From being queued, or queued again, until its pods are ready.",
        )
        self.admitted_until_ready = self._both(
            Histogram, "admitted_until_ready_wait_time_seconds", _CLASS, "From admission until its pods are ready."
        )
        self._make_ends()

    def _make_ends(self) -> None:
        """What becomes of those that have quota."""
        self.finished = self._both(Counter, "finished_workloads_total", _CLASS, "Workloads that ended.")
        self.execution = self._both(
            Histogram, "execution_time_seconds", _CLASS, "How long an admitted Workload ran, all times that it ran."
        )
        self.evicted = self._both(Counter, "evicted_workloads_total", _EVICTED, "Workloads that were evicted.")
        self.evicted_once = self._one(
            Counter,
            "evicted_workloads_once_total",
            f"cluster_queue {_EVICTED}",
            "Each Workload once for a reason and cause.",
        )
        self.ready_to_evicted = self._one(
            Histogram,
            "pods_ready_to_evicted_time_seconds",
            "cluster_queue reason underlying_cause",
            "From ready pods to the eviction of a Workload.",
        )
        self.eviction_latency = self._one(
            Histogram,
            "workload_eviction_latency_seconds",
            "cluster_queue reason",
            "From an eviction until its quota is free.",
        )
        self.preempted = self._one(
            Counter,
            "preempted_workloads_total",
            "preempting_cluster_queue reason",
            "Workloads that were preempted, by the ClusterQueue of the Workload that they made room for.",
        )
        self.replaced = self._one(
            Counter,
            "replaced_workload_slices_total",
            "cluster_queue",
            "Workload slices whose place another one of the same job took.",
        )
        self.gate_removed = self._one(
            Histogram,
            "pod_scheduling_gate_removal_seconds",
            "name cluster_queue is_group",
            "From the admission of a Workload until one of its pods lost its gate `name`.",
            Histogram.DEFAULT_BUCKETS,
        )
        self.cohort_admitted = self._one(
            Counter,
            "cohort_subtree_admitted_workloads_total",
            f"cohort {_CLASS}",
            "Workloads that were admitted below a Cohort.",
        )

    def _one(self, kind: type[M], name: str, labels: str, doc: str, buckets: tuple[float, ...] = _BUCKETS) -> M:
        buckets = buckets if issubclass(kind, Histogram) else ()
        custom = " ".join(self._custom.names(*label_sources(name)))
        made = self._new(kind, name, f"{labels} replica_role {custom}", doc, buckets, prefix=PREFIX)
        self._made.append((frozenset(labels.split()), made))
        return made

    def _both(self, kind: type[M], name: str, labels: str, doc: str) -> ByQueue[M]:
        local = f"local_queue_{name}"
        return ByQueue(
            self._one(kind, name, f"cluster_queue {labels}", doc),
            self._one(kind, local, f"name namespace {labels}", f"{doc[:-1]}, by LocalQueue."),
            WORKLOAD in label_sources(local),
        )

    def forget_cluster_queue(self, name: str) -> None:
        """Drop what was counted of a ClusterQueue that is gone."""
        self._forget({"cluster_queue": name})
        self._forget({"preempting_cluster_queue": name})

    def forget_local_queue(self, namespace: str, name: str) -> None:
        """Drop what was counted of a LocalQueue that is gone."""
        self._forget({"name": name, "namespace": namespace})

    def forget_cohort(self, name: str) -> None:
        """Drop what was counted of a Cohort that is gone."""
        self._forget({"cohort": name})

    def _forget(self, labels: dict[str, str]) -> None:
        for known, metric in self._made:
            if known.issuperset(labels):
                metric.remove_by_labels(labels)
