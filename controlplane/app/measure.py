"""What the metrics hear of the loop: one place that turns events and outcomes into numbers.

Counters count what happens while this process leads. Gauges are set from the folds now and then (`Turn._report`); a
process that does not lead shows none of a cluster, for what it last knew would be reported for ever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from controlplane.app.candidates.measure import CandidateMeasure, Placing
from controlplane.app.quota_measure import QuotaReport
from controlplane.audit.absence import owed
from controlplane.audit.clusters_now import unknown_copies
from controlplane.controllers.connectivity.events import ClusterConnected, ClusterSuspected
from controlplane.controllers.manifests import SERVICE
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.events import (
    AttemptBegun,
    CheckStateDecided,
    CloneDecided,
    NominationDecided,
    RemovalDecided,
    WorkloadDecision,
)
from controlplane.controllers.multikueue.observations import WorkloadGone, WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.log.event import Recorded
from controlplane.runtime.hosting import GaugeReading
from controlplane.runtime.measure import ProcessMeasure, exemplar
from controlplane.runtime.spans import Spans
from controlplane.telemetry import Metrics

REFUSED: tuple[type[Any], ...] = tuple(one.refused for one in SERVICE if one.refused is not None)
"""An object that is not what it claims to be, in each capability's words."""

_COUNTED: tuple[type[Any], ...] = tuple(one.decision for one in SERVICE if one.counted and one.decision is not None)
_MINUTE = timedelta(minutes=1)
_ROLE = "leader"


class Waits:
    """How long Workloads wait for a nomination, and from there for their admission check; by the log's times, of what
    began while this process leads."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._reserved: dict[str, datetime] = {}
        self._nominated: dict[str, datetime] = {}

    def seen(self, recorded: Recorded, event: WorkloadObserved | WorkloadGone) -> None:
        """Note that a Workload has quota; without it, or without a Workload, nothing is waited for."""
        stream = recorded.stream
        if isinstance(event, WorkloadGone) or not event.is_true("QuotaReserved") or event.is_true("Finished"):
            self._reserved.pop(stream, None)
            self._nominated.pop(stream, None)
        elif not event.cluster_name and stream not in self._nominated:
            self._reserved.setdefault(stream, recorded.recorded_at)

    def nominated(self, recorded: Recorded, queue: str) -> None:
        """Note the first nomination of an attempt."""
        since = self._reserved.pop(recorded.stream, None)
        if since is not None:
            waited = (recorded.recorded_at - since).total_seconds()
            self._metrics.dispatch_seconds.labels(queue).observe(waited, exemplar(recorded))
        self._nominated.setdefault(recorded.stream, recorded.recorded_at)

    def ready(self, recorded: Recorded, queue: str, cluster: str) -> None:
        """Note that the admission check is to be Ready."""
        since = self._nominated.pop(recorded.stream, None)
        if since is not None:
            waited = (recorded.recorded_at - since).total_seconds()
            self._metrics.admission_seconds.labels(queue, cluster).observe(waited, exemplar(recorded))


class Measure(ProcessMeasure):
    """Counts into a `Metrics` what the service says."""

    def __init__(
        self,
        metrics: Metrics,
        fleet: MultiKueueController,
        spans: Spans | None = None,
        placing: Placing | None = None,
        quota: QuotaReport | None = None,
    ) -> None:
        super().__init__(metrics, spans)
        self._fleet, self._placing, self._quota = fleet, placing, quota
        self._candidates: CandidateMeasure | None = None
        self._shown: set[str] = set()
        self._waits = Waits(metrics)
        self._of_states: dict[str, bool] = {}

    def leads(self, epoch: int) -> None:
        """Say that this process leads from now on; what source pods and quota come to is counted from here."""
        super().leads(epoch)
        if self._placing is not None:
            self._candidates = CandidateMeasure(self._metrics, self._placing)
        if self._quota is not None:
            self._quota.begin()

    def folded(self, events: Sequence[Recorded], live: bool) -> None:
        """Count what was folded; decisions, lags, candidates and quota only of what happened while this process led."""
        super().folded(events, live)
        if live and self._candidates is not None:
            self._candidates.folded(events)
        if live and self._quota is not None:
            self._quota.folded(events)

    def follows(self) -> None:
        """Say that this process does not lead, and forget what only a leader knows."""
        super().follows()
        self._candidates = None
        if self._quota is not None:
            self._quota.end()
        self._waits = Waits(self._metrics)
        for name, labelled in self._of_states.items():
            gauge = getattr(self._metrics, name)
            gauge.clear() if labelled else gauge.set(0)
        for gauge in (self._metrics.mass_outage, self._metrics.requeue_budget):
            gauge.set(0)

    def _count(self, recorded: Recorded) -> None:
        super()._count(recorded)
        event: Any = recorded.event
        match event:
            case _ if isinstance(event, _COUNTED):
                self._metrics.decisions.labels(type=type(event).__name__, reason=str(event.reason)).inc()
                if isinstance(event, WorkloadDecision):
                    self._count_dispatch(recorded, event)
            case WorkloadObserved() | WorkloadGone():
                self._waits.seen(recorded, event)
            case _ if isinstance(event, REFUSED):
                self._metrics.observations_refused.labels(cluster=recorded.cluster, kind=event.kind).inc()
            case ClusterConnected():
                self._metrics.cluster_connected.labels(cluster=recorded.cluster).set(1)
            case ClusterSuspected():
                self._metrics.cluster_suspected.labels(cluster=recorded.cluster).inc()

    def _count_dispatch(self, recorded: Recorded, event: WorkloadDecision) -> None:
        state = self._fleet.index.workloads.get(recorded.stream)
        queue = state.local.cluster_queue if state and state.local else ""
        if isinstance(event, CloneDecided):
            self._metrics.workloads_dispatched.labels(cluster_queue=queue, cluster=event.cluster).inc()
            for metric in self._metrics.kueue_dispatched:
                metric.labels(queue, event.cluster, _ROLE).inc()
        elif isinstance(event, RemovalDecided) and event.of == "Workload":
            self._metrics.copies_removed.labels(event.cluster, event.reason.value).inc()
        elif isinstance(event, NominationDecided | AttemptBegun):
            self._waits.nominated(recorded, queue)
        elif isinstance(event, CheckStateDecided):
            self._count_check(recorded, event, queue, state.local.cluster_name if state and state.local else "")

    def _count_check(self, recorded: Recorded, event: CheckStateDecided, queue: str, cluster: str) -> None:
        if event.reason == WorkloadReason.ADMITTED_ON_WORKER:
            self._metrics.workloads_admitted.labels(cluster_queue=queue, cluster=event.winner).inc()
            for metric in self._metrics.kueue_admitted:
                metric.labels(queue, event.winner, _ROLE).inc()
            self._waits.ready(recorded, queue, event.winner)
        elif event.state == "Retry":
            self._metrics.retries.labels(cluster, event.reason.value).inc()
            if event.reason == WorkloadReason.REMOTE_LOST:
                self._metrics.requeues.labels(cluster=cluster).inc()

    def connections(self, now: datetime) -> None:
        """Set the gauges of each cluster's connection; one that was removed has none any more."""
        for name, connection in self._fleet.index.connections.items():
            if connection.phase != "Removed" or name in self._fleet.index.clusters:
                self._shown.add(name)
                self._stands(name, connection)
                self._metrics.cluster_lost_seconds.labels(cluster=name).set(_seconds(now, connection.lost_since))
            elif name in self._shown:
                self._shown.remove(name)
                self._metrics.forget_cluster(name)

    def guards(self, now: datetime) -> None:
        """Set the gauges of what bounds a lost cluster's consequences: the mass outage, the budget."""
        index, limit = self._fleet.index, self._fleet.policy.requeues_per_minute
        self._metrics.mass_outage.set(index.outage.holds)
        spent = sum(at > now - _MINUTE for at in index.requeues)
        self._metrics.requeue_budget.set(max(0, limit - spent) if limit else float("inf"))

    def backlog(self, now: datetime) -> None:
        """Set the gauges that need a look at every Workload: what is owed to whom, what is of nobody known, and the
        oldest open write to each cluster.
        """
        owing, oldest = owed(self._fleet.index), self._oldest()
        unknown = unknown_copies(self._fleet.index.workloads.values())
        for name in self._shown:
            self._metrics.effects_oldest_seconds.labels(cluster=name).set(_seconds(now, oldest.get(name)))
            self._metrics.removals_owed.labels(cluster=name).set(owing.get(name, 0))
            self._metrics.unknown_copies.labels(cluster=name).set(len(unknown.get(name, ())))

    def _oldest(self) -> Mapping[str, datetime]:
        found: dict[str, datetime] = {}
        for state in self._fleet.index.workloads.values():
            for effect in state.effects.values():
                cluster, at = effect.decision.cluster, effect.decided_at
                found[cluster] = min(at, found.get(cluster, at))
        return found

    def states(self, readings: Iterable[GaugeReading]) -> None:
        """Set the gauges that controllers read off their own states."""
        for name, value, labels in readings:
            self._of_states[name] = bool(labels)
            gauge = getattr(self._metrics, name)
            (gauge.labels(**labels) if labels else gauge).set(value)

    def effects(self, open_by_cluster: dict[str, int]) -> None:
        """Set the gauge of open writes; a cluster that was removed has none once nothing is on its way there."""
        for name, count in open_by_cluster.items():
            if count or name in self._shown:
                self._metrics.effects_open.labels(cluster=name).set(count)
            else:
                self._metrics.effects_open.remove_by_labels({"cluster": name})


def _seconds(now: datetime, since: datetime | None) -> float:
    """Return how long ago something was; the clocks of the database and of this process may differ a little."""
    return max(0.0, (now - since).total_seconds()) if since is not None else 0.0
