"""What the metrics hear of every process that follows a log: who leads it, what is appended and folded, how its
connections stand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from controlplane.controllers.connectivity.events import EventRefused, KindSynced
from controlplane.controllers.connectivity.state import Connection, Phase
from controlplane.log.event import Recorded, Unknown
from controlplane.runtime.spans import Spans, trace_id
from controlplane.telemetry import Metrics


def exemplar(recorded: Recorded) -> dict[str, str] | None:
    """Return what leads from a measured value to the trace that it is of."""
    return {"trace_id": trace_id(recorded.trace)} if recorded.trace else None


class ProcessMeasure:
    """Counts into a `Metrics`, and has spans made of what happens; each process adds what its own controllers say."""

    def __init__(self, metrics: Metrics, spans: Spans | None = None) -> None:
        self._metrics, self._spans = metrics, spans

    def leads(self, epoch: int) -> None:
        """Say that this process leads from now on."""
        self._metrics.leader.set(1)
        self._metrics.leader_epoch.set(epoch)

    def sure(self, sure: bool) -> None:
        """Say whether nobody else can have taken the lead."""
        self._metrics.leader_sure.set(sure)

    def follows(self) -> None:
        """Say that this process does not lead, and forget what only a leader knows."""
        for gauge in (self._metrics.leader, self._metrics.leader_sure):
            gauge.set(0)
        self._metrics.forget_clusters()

    def log_answers(self, ok: bool) -> None:
        """Say whether the database of the log answers."""
        self._metrics.log_reachable.set(ok)

    def appended(self, types: Sequence[str], seconds: float) -> None:
        """Count a commit."""
        self._metrics.append_seconds.observe(seconds)
        if types:
            self._metrics.append_batch_size.observe(len(types))
            for name, count in Counter(types).items():
                self._metrics.events_appended.labels(type=name).inc(count)

    def failed(self, stream: str) -> None:
        """Count that nothing could be decided about a stream."""
        self._metrics.decisions_failed.labels(kind=stream.partition("/")[0]).inc()

    def folded(self, events: Sequence[Recorded], live: bool) -> None:
        """Count what was folded; decisions and lags only of events that happened while this process led."""
        self._metrics.log_position.set(events[-1].position)
        for recorded in events:
            event = recorded.event
            if isinstance(event, Unknown):
                self._metrics.unknown_events.labels(type=event.type).inc()
            elif live:
                self._count(recorded)
                if self._spans is not None:
                    self._spans.folded(recorded)

    def _count(self, recorded: Recorded) -> None:
        event = recorded.event
        if recorded.observed_at is not None:
            lag = (recorded.recorded_at - recorded.observed_at).total_seconds()
            self._metrics.loop_lag_seconds.observe(max(0.0, lag), exemplar(recorded))
        if isinstance(event, EventRefused):
            self._metrics.events_refused.labels(type=event.type).inc()
        if isinstance(event, KindSynced):
            reason = "gap" if event.gap else "start"
            self._metrics.relists.labels(cluster=recorded.cluster, kind=event.kind, reason=reason).inc()

    def _stands(self, name: str, connection: Connection) -> None:
        self._metrics.cluster_connected.labels(cluster=name).set(connection.connected)
        for phase in get_args(Phase):
            self._metrics.cluster_phase.labels(cluster=name, phase=phase).set(connection.phase == phase)
