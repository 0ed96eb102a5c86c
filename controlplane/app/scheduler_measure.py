"""Reports a scheduler's own metrics, beside those of every process: cycles, the queue, decisions about pods."""

from __future__ import annotations

from collections import Counter

from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.scheduling.events import SchedulingDecision
from controlplane.controllers.scheduling.loop import Loop
from controlplane.log.event import Recorded
from controlplane.runtime.measure import ProcessMeasure
from controlplane.runtime.spans import Spans
from controlplane.telemetry import Metrics


class SchedulerMeasure(ProcessMeasure):
    """Counts into a `Metrics` what a scheduler says."""

    def __init__(self, metrics: Metrics, loop: Loop, spans: Spans | None = None) -> None:
        super().__init__(metrics, spans)
        self._loop = loop
        self._counted: Counter[str] = Counter()

    def cycle(self, seconds: float) -> None:
        """Count a cycle."""
        self._metrics.cycle_seconds.observe(seconds)

    def _count(self, recorded: Recorded) -> None:
        super()._count(recorded)
        event = recorded.event
        if isinstance(event, SchedulingDecision):
            self._metrics.decisions.labels(type=type(event).__name__, reason=str(event.reason)).inc()

    def gauges(self, *, sure: bool, log_answers: bool) -> None:
        """Set what is so now."""
        self.sure(sure)
        self.log_answers(log_answers)
        for place, count in self._loop.queue.counts.items():
            self._metrics.pending_pods.labels(queue=str(place)).set(count)
        self._metrics.scheduler_nodes.set(len(self._loop.view.snapshot))
        self._count_attempts()

    def follows(self) -> None:
        """Say that this process does not lead, and forget what only a leader knows; what it tried until now counts."""
        super().follows()
        self._count_attempts()
        self._metrics.pending_pods.clear()
        self._metrics.scheduler_nodes.set(0)
        self.takes_candidates(takes=False)

    def _count_attempts(self) -> None:
        for result, count in self._loop.attempts.items():
            self._metrics.schedule_attempts.labels(result=result).inc(count - self._counted[result])
            self._counted[result] = count

    def takes_candidates(self, *, takes: bool) -> None:
        """Say whether Candidates are this scheduler's now."""
        self._metrics.takes_candidates.set(takes)

    def connection(self, connection: Connection, open_writes: int) -> None:
        """Set what is known of the API server, and how many writes to it are open."""
        self._stands(connection.name, connection)
        self._metrics.effects_open.labels(cluster=connection.name).set(open_writes)
