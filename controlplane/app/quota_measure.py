"""What the metrics hear of quota: one place that turns what was seen of Workloads into Kueue's numbers.

In: the Workloads as they were when this process began to lead, then every event of theirs, in order. Out: counts by
queue. What counts is a change that was seen in a Workload's status, and not the decision on it, which may be overtaken.
Times are those of conditions, in whole seconds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from prometheus_client import Histogram

from controlplane.app.quota_gauges import QuotaGauges
from controlplane.controllers.jobframework.pod_events import PodStartDecided, QueuedPodGone, QueuedPodObserved
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.topology_events import PodUngateDecided, TopologyPodGone, TopologyPodObserved
from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission import workload_status as ws
from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.admission.metric_labels import CountedLabels, MetricLabels
from controlplane.controllers.quota.admission.workload_status import WorkloadStatus, as_read, moment
from controlplane.kube.kinds import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, WORKLOADS, Json
from controlplane.kube.kueue_names import ADMISSION_GATE
from controlplane.kube.slices import ELASTIC_GATE, SLICE_REPLACED
from controlplane.kube.topologies import TOPOLOGY_GATE
from controlplane.log.event import Recorded
from controlplane.quota_metrics import ROLE, ByQueue, QueuePlace, QuotaMetrics
from controlplane.settings.quota_metrics import QuotaMetricsSettings
from controlplane.telemetry import Metrics

Seen = Callable[[str], events.AdmissionWorkloadObserved | None]
_WORKLOAD, _TREE = "admission/workload/", ("admission/clusterqueue/", "admission/cohort/")


class QuotaReport:
    """Has quota counted and its gauges reported while this process leads."""

    def __init__(self, metrics: Metrics, admission: AdmissionController, settings: QuotaMetricsSettings) -> None:
        self._metrics, self._index, self._settings = metrics, admission.index, settings
        self._labels = admission.labels
        self._measure: QuotaMeasure | None = None
        self._gauges: QuotaGauges | None = None
        self._held: list[Recorded] | None = None

    def begin(self) -> None:
        """Report from now on."""
        self.end()
        self._metrics.quota.label(self._metrics.registry, self._labels.custom)
        local_queues = self._settings.local_queues == "yes"
        self._measure = QuotaMeasure(self._metrics.quota, self._index, self._labels, local_queues=local_queues)
        resources = self._settings.cluster_queue_resources == "yes"
        left_out, labels = self._measure.left_out, self._labels
        self._gauges = QuotaGauges(
            self._index, labels, resources=resources, local_queues=local_queues, left_out=left_out
        )
        self._metrics.registry.register(self._gauges)
        self._held = []

    def folded(self, several: Sequence[Recorded]) -> None:
        """Count what some more events brought about; before every object has been shown to this process, its labels are
        waited for."""
        if self._measure is None:
            return
        if self._held is not None:
            self._held.extend(several)
            if not self._labels.knows_all(self._index):
                return
            several, self._held = self._held, None
        self._measure.folded(several)

    def end(self) -> None:
        """Report nothing any more: what was known last would be reported for ever."""
        self._measure = self._held = None
        if self._gauges is not None:
            self._metrics.registry.unregister(self._gauges)
            self._gauges = None


class QuotaMeasure:
    """See the module. It is made when a process begins to lead, and serves for as long as it does. `local_queues`:
    those are counted too. `left_out`: Cohorts that were deleted though ClusterQueues name them: as with Kueue they are
    not reported before something changes below them."""

    def __init__(
        self, metrics: QuotaMetrics, index: AdmissionIndex, labels: MetricLabels, *, local_queues: bool
    ) -> None:
        self._metrics, self._index, self._local_queues = metrics, index, local_queues
        self._labels = CountedLabels(labels)
        self._seen = {key: state.observed for key, state in index.workloads.items() if state.observed is not None}
        self._preempting: dict[str, str] = {}
        self._cohorts: set[str] = set()
        self._specs: dict[str, int] = {}
        self.left_out: set[str] = set()
        self._gates = GateMeasure(metrics, self._labels, lambda key: index.workload(key).observed)

    def folded(self, several: Sequence[Recorded]) -> None:
        """Count what some more events brought about."""
        cycles: dict[int, bool] = {}
        for recorded in several:
            event: Any = recorded.event
            self._gates.folded(recorded)
            if recorded.stream.startswith(_WORKLOAD):
                self._of_workload(recorded.stream.removeprefix(_WORKLOAD), recorded, event)
            if isinstance(event, events.QuotaReservationDecided):
                cycles[event.cycle] = True
            elif isinstance(event, events.WorkloadInadmissible):
                cycles.setdefault(event.cycle, False)
            else:
                self._of_queue(recorded.stream, event)
            if recorded.stream.startswith(_TREE):
                self._forget_cohorts(self._cohorts - {one.name for one in self._index.engine.snapshot.cohorts()})
        for admits in cycles.values():
            self._metrics.attempts.labels("success" if admits else "inadmissible", ROLE).inc()

    def _of_queue(self, stream: str, event: Any) -> None:
        """Forget what is gone, and note which Cohorts are not reported for now."""
        name = stream.rpartition("/")[2]
        match event:
            case events.AdmissionClusterQueueGone():
                self._metrics.forget_cluster_queue(name)
                self._labels.forget(CLUSTER_QUEUES, "", name)
            case events.AdmissionLocalQueueGone():
                self._metrics.forget_local_queue(event.namespace, name)
                self._labels.forget(LOCAL_QUEUES, event.namespace, name)
            case events.AdmissionLocalQueueObserved() if self._labels.have_changed(LOCAL_QUEUES, event.namespace, name):
                self._metrics.forget_local_queue(event.namespace, name)
            case events.AdmissionCohortGone():
                self._forget_cohorts({name})
                self.left_out.add(name)
            case events.AdmissionCohortObserved():
                self.left_out.discard(name)
            case events.AdmissionClusterQueueObserved():
                if self._labels.have_changed(CLUSTER_QUEUES, "", name):
                    self._metrics.forget_cluster_queue(name)
                if self._specs.get(name) not in (None, event.generation):
                    self._report_above(name)
                self._specs[name] = event.generation

    def _forget_cohorts(self, names: Collection[str]) -> None:
        for name in names:
            self._metrics.forget_cohort(name)
            self._cohorts.discard(name)

    def _report_above(self, cluster_queue: str) -> None:
        """Report the Cohorts again that a ClusterQueue is in, "" for none."""
        node = self._index.engine.snapshot.queues.get(cluster_queue) if self.left_out else None
        for cohort in node.ancestors() if node is not None else ():
            self.left_out.discard(cohort.name)

    def _of_workload(self, key: str, recorded: Recorded, event: Any) -> None:
        if isinstance(event, events.AdmissionWorkloadObserved):
            before = self._seen.get(key)
            self._seen[key] = event
            if before is not None and before.uid == event.uid and before.status != event.status:
                self._changed(key, before, event, recorded.recorded_at)
        elif isinstance(event, events.AdmissionWorkloadGone):
            before = self._seen.get(key)
            if before is not None and before.uid == event.uid:
                del self._seen[key]
                self._preempting.pop(key, None)
        elif isinstance(event, events.WorkloadPreemptionDecided):
            self._preempting[key] = self._cluster_queue_of(event.preemptor)

    def _changed(
        self,
        key: str,
        before: events.AdmissionWorkloadObserved,
        after: events.AdmissionWorkloadObserved,
        now: datetime,
    ) -> None:
        """Count what became of a Workload."""
        old, new = as_read(before.status), as_read(after.status)

        def became(condition: str) -> bool:
            return new.is_true(condition) and not old.is_true(condition)

        place, released = self._place(after), self._place(before)
        self._report_above((place.cluster_queue or released.cluster_queue) if _used_anew(old, new) else "")
        metrics, kind, queued = self._metrics, after.priority_class, _queued_since(after, new)
        if new.reserved and not old.reserved:
            _count(metrics.reserved, place, kind)
            _observe(metrics.reserved_wait, place, queued, _since(new, ws.QUOTA_RESERVED), kind)
        if became(ws.ADMITTED):
            self._admitted(place, kind, queued, new)
        self._evicted(place if place.cluster_queue else released, kind, old, new)
        self._preempted(key, old, new)
        if old.reserved and not new.reserved and new.is_true(ws.EVICTED):
            self._gave_back(released, new, now)
        if became(ws.PODS_READY):
            self._ready(place, kind, queued, new)
        if became(ws.FINISHED):
            self._finished(key, place, kind, new)

    def _preempted(self, key: str, old: WorkloadStatus, new: WorkloadStatus) -> None:
        """Count a preemption by the ClusterQueue that it made room in."""
        if new.is_true(ws.PREEMPTED) and _since(old, ws.PREEMPTED) != _since(new, ws.PREEMPTED):
            queue = self._preempting.pop(key, "")
            custom = self._labels.of_cluster_queue(queue)
            self._metrics.preempted.labels(queue, _reason(new, ws.PREEMPTED), ROLE, *custom).inc()

    def _admitted(self, place: QueuePlace, kind: str, queued: datetime | None, new: WorkloadStatus) -> None:
        _count(self._metrics.admitted, place, kind)
        at = _since(new, ws.ADMITTED)
        _observe(self._metrics.admitted_wait, place, queued, at, kind)
        if new.checks:
            _observe(self._metrics.checks_wait, place, _since(new, ws.QUOTA_RESERVED), at, kind)
        node = self._index.engine.snapshot.queues.get(place.cluster_queue)
        for cohort in node.ancestors() if node is not None else ():
            custom = self._labels.of(COHORTS, "", cohort.name)
            self._metrics.cohort_admitted.labels(cohort.name, kind, ROLE, *custom).inc()
            self._cohorts.add(cohort.name)

    def _ready(self, place: QueuePlace, kind: str, queued: datetime | None, new: WorkloadStatus) -> None:
        """Observe how long it took until the pods of a Workload were ready for the first time."""
        if not place.cluster_queue or _reason(new, ws.PODS_READY) != "Started":
            return
        at = _since(new, ws.PODS_READY)
        _observe(self._metrics.ready_wait, place, queued, at, kind)
        _observe(self._metrics.admitted_until_ready, place, _since(new, ws.ADMITTED), at, kind)

    def _gave_back(self, released: QueuePlace, new: WorkloadStatus, now: datetime) -> None:
        """Observe how long an evicted Workload took to give its quota back."""
        since = _since(new, ws.EVICTED)
        if released.cluster_queue and since is not None:
            labels = released.cluster_queue, _reason(new, ws.EVICTED), ROLE, *released.custom
            self._metrics.eviction_latency.labels(*labels).observe(max(0.0, (now - since).total_seconds()))

    def _evicted(self, place: QueuePlace, kind: str, old: WorkloadStatus, new: WorkloadStatus) -> None:
        """Count evictions, which a Workload's status counts by reason and cause."""
        if not place.cluster_queue:
            return
        for reason, cause, first in _evictions(old.status, new.status):
            _count(self._metrics.evicted, place, reason, cause, kind)
            if first:
                self._metrics.evicted_once.labels(place.cluster_queue, reason, cause, kind, ROLE, *place.custom).inc()
            ready, evicted = _since(old, ws.PODS_READY), _since(new, ws.EVICTED)
            if old.is_true(ws.PODS_READY) and ready is not None and evicted is not None:
                ran = max(0.0, (evicted - ready).total_seconds())
                labels = place.cluster_queue, reason, cause, ROLE, *place.custom
                self._metrics.ready_to_evicted.labels(*labels).observe(ran)

    def _finished(self, key: str, place: QueuePlace, kind: str, new: WorkloadStatus) -> None:
        _count(self._metrics.finished, self._last_place(key, place, new), kind)
        if _reason(new, ws.FINISHED) == SLICE_REPLACED and place.cluster_queue:
            self._metrics.replaced.labels(place.cluster_queue, ROLE, *place.custom).inc()
        admitted, ended = _since(new, ws.ADMITTED), _since(new, ws.FINISHED)
        if new.is_true(ws.ADMITTED) and admitted is not None and ended is not None:
            past = int(new.status.get("accumulatedPastExecutionTimeSeconds") or 0)
            for metric in self._metrics.execution.at(place, kind):
                metric.observe(past + max(0.0, (ended - admitted).total_seconds()))

    def _last_place(self, key: str, place: QueuePlace, new: WorkloadStatus) -> QueuePlace:
        """Return where a Workload ended. A slice in whose place another one is has given its quota back if it was
        evicted."""
        if place.cluster_queue or _reason(new, ws.FINISHED) != SLICE_REPLACED:
            return place
        seen = self._seen[key]
        return self._at(self._cluster_queue_of(key), seen)

    def _place(self, seen: events.AdmissionWorkloadObserved) -> QueuePlace:
        return self._at(str((seen.status.get("admission") or {}).get("clusterQueue", "")), seen)

    def _at(self, queue: str, seen: events.AdmissionWorkloadObserved) -> QueuePlace:
        if not queue:
            return QueuePlace("")
        custom = self._labels.of_cluster_queue(queue)
        local = self._labels.of_local_queue(seen.namespace, seen.queue) if self._local_queues else None
        if local is None:
            return QueuePlace(queue, custom=custom)
        return QueuePlace(
            queue, seen.namespace, seen.queue, custom, local, self._labels.of(WORKLOADS, seen.namespace, seen.name)
        )

    def _cluster_queue_of(self, workload: str) -> str:
        seen = self._index.workload(workload).observed
        local = self._index.engine.queues.local.get(f"{seen.namespace}/{seen.queue}") if seen is not None else None
        return local.cluster_queue if local is not None else ""


class _LosesGate(NamedTuple):
    gate: str
    workload: str


class GateMeasure:
    """Observes how long after its Workload's admission a pod lost a gate: that it was seen without it counts, by the
    time at which that was recorded (kubernetes-sigs/kueue pkg/util/pod/pod.go, RecordPodSchedulingGateRemovalSeconds,
    ff69552e). `seen` tells a Workload by its namespace and name. Pods are known here from a decision until they follow
    it."""

    def __init__(self, metrics: QuotaMetrics, labels: CountedLabels, seen: Seen) -> None:
        self._metrics, self._labels, self._seen = metrics, labels, seen
        self._open: dict[str, _LosesGate] = {}

    def folded(self, recorded: Recorded) -> None:
        """Count what one more event brought about."""
        event: Any = recorded.event
        match event:
            case PodStartDecided():
                self._open[event.uid] = _LosesGate(ADMISSION_GATE, event.workload)
            case PodUngateDecided():
                gate = ELASTIC_GATE if event.reason == JobReason.SLICE_ADMITTED else TOPOLOGY_GATE
                self._open[event.uid] = _LosesGate(gate, event.workload)
            case QueuedPodObserved() if not event.gated:
                self._lost(recorded, event, ADMISSION_GATE)
            case TopologyPodObserved():
                for gate in {ELASTIC_GATE, TOPOLOGY_GATE}.difference(event.gates):
                    self._lost(recorded, event, gate)
            case QueuedPodGone() | TopologyPodGone():
                self._open.pop(event.uid, None)

    def _lost(self, recorded: Recorded, pod: QueuedPodObserved | TopologyPodObserved, gate: str) -> None:
        loses = self._open.get(pod.uid)
        if loses is None or loses.gate != gate:
            return
        del self._open[pod.uid]
        workload = self._seen(f"{pod.namespace}/{loses.workload}")
        if workload is None:
            return
        status = as_read(workload.status)
        since = moment((status.condition(ws.ADMITTED) or {}).get("lastTransitionTime"))
        queue = str((status.status.get("admission") or {}).get("clusterQueue", ""))
        if status.is_true(ws.ADMITTED) and since is not None:
            of_group = str(gate != ELASTIC_GATE and workload.of_group).lower()
            waited = max(0.0, (recorded.recorded_at - since).total_seconds())
            custom = self._labels.of_cluster_queue(queue)
            self._metrics.gate_removed.labels(gate, queue, of_group, ROLE, *custom).observe(waited)


def _count(metric: ByQueue[Any], place: QueuePlace, *labels: str) -> None:
    for one in metric.at(place, *labels):
        one.inc()


def _observe(
    metric: ByQueue[Histogram], place: QueuePlace, since: datetime | None, until: datetime | None, *labels: str
) -> None:
    if since is not None and until is not None:
        for one in metric.at(place, *labels):
            one.observe(max(0.0, (until - since).total_seconds()))


def _reason(status: WorkloadStatus, condition: str) -> str:
    return str((status.condition(condition) or {}).get("reason", ""))


def _since(status: WorkloadStatus, type_: str) -> datetime | None:
    return moment((status.condition(type_) or {}).get("lastTransitionTime"))


def _used_anew(old: WorkloadStatus, new: WorkloadStatus) -> bool:
    """Whether a Workload came to quota, gave it back, or was admitted."""
    return (old.reserved, old.is_true(ws.ADMITTED)) != (new.reserved, new.is_true(ws.ADMITTED))


def _queued_since(seen: events.AdmissionWorkloadObserved, status: WorkloadStatus) -> datetime | None:
    """Return since when a Workload waits: it was created, or is queued again."""
    return _since(status, ws.REQUEUED) or moment(seen.created)


def _evictions(before: Json, after: Json) -> Iterator[tuple[str, str, bool]]:
    """Yield reason and cause of each new eviction, and whether it is the first one for them."""
    known = {
        (one.get("reason"), one.get("underlyingCause", "")): int(one.get("count") or 0)
        for one in (before.get("schedulingStats") or {}).get("evictions") or ()
    }
    for one in (after.get("schedulingStats") or {}).get("evictions") or ():
        reason, cause = str(one.get("reason", "")), str(one.get("underlyingCause", ""))
        had = known.get((reason, cause), 0)
        for number in range(had, int(one.get("count") or 0)):
            yield reason, cause, number == 0
