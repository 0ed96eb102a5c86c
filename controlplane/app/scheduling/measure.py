"""What the metrics hear of a scheduler: cycles, the queue, the log, the connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from controlplane.connectivity.events import KindSynced
from controlplane.connectivity.state import Connection, Phase
from controlplane.log.event import Recorded, Unknown
from controlplane.scheduler.events import SchedulingDecision
from controlplane.scheduler.loop import Loop
from controlplane.telemetry import Metrics


class SchedulerMeasure:
    """Counts into a `Metrics`."""

    def __init__(self, metrics: Metrics, loop: Loop) -> None:
        self._metrics, self._loop = metrics, loop
        self._counted: Counter[str] = Counter()

    def cycle(self, seconds: float) -> None:
        """Count a cycle."""
        self._metrics.cycle_seconds.observe(seconds)

    def folded(self, events: Sequence[Recorded], live: bool) -> None:
        """Count what was folded; decisions and lags only of events that happened while this process led."""
        self._metrics.log_position.set(events[-1].position)
        for recorded in events:
            event = recorded.event
            if isinstance(event, Unknown):
                self._metrics.unknown_events.labels(type=event.type).inc()
            elif live and isinstance(event, SchedulingDecision):
                self._metrics.decisions.labels(type=type(event).__name__, reason=str(event.reason)).inc()
            elif live and isinstance(event, KindSynced):
                reason = "gap" if event.gap else "start"
                self._metrics.relists.labels(cluster=recorded.cluster, kind=event.kind, reason=reason).inc()
            if live and recorded.observed_at is not None:
                lag = (recorded.recorded_at - recorded.observed_at).total_seconds()
                self._metrics.loop_lag_seconds.observe(max(0.0, lag))

    def gauges(self, *, sure: bool, log_answers: bool) -> None:
        """Set what is so now."""
        self._metrics.leader_sure.set(sure)
        self._metrics.log_reachable.set(log_answers)
        for place, count in self._loop.queue.counts.items():
            self._metrics.pending_pods.labels(queue=str(place)).set(count)
        self._metrics.scheduler_nodes.set(len(self._loop.view.snapshot))
        for result, count in self._loop.attempts.items():
            self._metrics.schedule_attempts.labels(result=result).inc(count - self._counted[result])
            self._counted[result] = count

    def connection(self, connection: Connection, open_writes: int) -> None:
        """Set what is known of the API server, and how many writes to it are open."""
        name = connection.name
        self._metrics.cluster_connected.labels(cluster=name).set(connection.connected)
        for phase in get_args(Phase):
            self._metrics.cluster_phase.labels(cluster=name, phase=phase).set(connection.phase == phase)
        self._metrics.effects_open.labels(cluster=name).set(open_writes)
