"""Says of a log that is followed whether it answers: to whoever asks for readiness, in the metrics, and in the messages
what it lacks.

In: that it was read, or why not. Out: the check `database`, the gauge, and one message for each gap."""

from __future__ import annotations

import structlog

from controlplane.log.event import LogGap, LogUnavailable
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

_log = structlog.get_logger(__name__)


class LogAnswers:
    """See the module."""

    def __init__(self, health: Health, metrics: Metrics) -> None:
        self._health, self._metrics = health, metrics
        self._gap = ""

    def failed(self, error: LogUnavailable | LogGap) -> None:
        """Take note that the log could not be read."""
        if isinstance(error, LogGap) and str(error) != self._gap:
            self._gap = str(error)
            _log.error("the log lacks events, so this process does not lead it", detail=self._gap)
        self._health.set("database", False, str(error))
        self._metrics.log_reachable.set(False)

    def read(self) -> None:
        """Take note that it was read to its end."""
        self._gap = ""
        self._health.set("database", True)
        self._metrics.log_reachable.set(True)
