"""What the metrics hear of the loop: one place that turns events and outcomes into numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from controlplane.connectivity.events import ClusterConnected, KindSynced
from controlplane.log.event import Recorded, Unknown
from controlplane.multikueue.events import CheckStateDecided, CloneDecided, Decision, ObservationRefused
from controlplane.multikueue.fleet import Fleet
from controlplane.telemetry import Metrics


class Measure:
    """Counts into a `Metrics`."""

    def __init__(self, metrics: Metrics, fleet: Fleet) -> None:
        self._metrics, self._fleet = metrics, fleet

    def appended(self, types: Sequence[str], seconds: float) -> None:
        """Count a commit."""
        self._metrics.append_seconds.observe(seconds)
        if types:
            self._metrics.append_batch_size.observe(len(types))
            for name, count in Counter(types).items():
                self._metrics.events_appended.labels(type=name).inc(count)

    def folded(self, events: Sequence[Recorded], live: bool) -> None:
        """Count what was folded; decisions and lags only of events that happened while this process led."""
        self._metrics.log_position.set(events[-1].position)
        for recorded in events:
            event = recorded.event
            if isinstance(event, Unknown):
                self._metrics.unknown_events.labels(type=event.type).inc()
            elif live:
                self._count(recorded)

    def _count(self, recorded: Recorded) -> None:
        event = recorded.event
        if recorded.observed_at is not None:
            self._metrics.loop_lag_seconds.observe(
                max(0.0, (recorded.recorded_at - recorded.observed_at).total_seconds())
            )
        match event:
            case Decision():
                self._metrics.decisions.labels(type=type(event).__name__, reason=str(event.reason)).inc()
                self._count_dispatch(recorded, event)
            case ObservationRefused():
                self._metrics.observations_refused.labels(cluster=recorded.cluster, kind=event.kind).inc()
            case KindSynced():
                reason = "gap" if event.gap else "start"
                self._metrics.relists.labels(cluster=recorded.cluster, kind=event.kind, reason=reason).inc()
            case ClusterConnected():
                self._metrics.cluster_connected.labels(cluster=recorded.cluster).set(1)

    def _count_dispatch(self, recorded: Recorded, event: Decision) -> None:
        state = self._fleet.index.workloads.get(recorded.stream)
        queue = state.local.cluster_queue if state and state.local else ""
        if isinstance(event, CloneDecided):
            self._metrics.workloads_dispatched.labels(cluster_queue=queue, cluster=event.cluster).inc()
        elif isinstance(event, CheckStateDecided) and event.winner and not event.topology:
            self._metrics.workloads_admitted.labels(cluster_queue=queue, cluster=event.winner).inc()

    def connections(self) -> None:
        """Set the gauge of each cluster's connection."""
        for name, connection in self._fleet.index.connections.items():
            self._metrics.cluster_connected.labels(cluster=name).set(1 if connection.connected else 0)

    def effects(self, open_by_cluster: dict[str, int]) -> None:
        """Set the gauge of open writes."""
        for name, count in open_by_cluster.items():
            self._metrics.effects_open.labels(cluster=name).set(count)
