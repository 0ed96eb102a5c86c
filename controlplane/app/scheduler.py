"""The scheduler beside a target cluster: one replica that follows its log and, when it leads, schedules.

In: settings, profiles, a way to the log and one to the API server. Out: everything that `controlplane scheduler run`
does."""

from __future__ import annotations

import random

import structlog

from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.app.scheduler_leadership import SchedulerTerm
from controlplane.app.scheduler_profiles import Setup
from controlplane.clock import Clock, SystemClock
from controlplane.log.codec import Codec
from controlplane.log.event import LogHead
from controlplane.runtime.lifecycle import OpenManagement, Ports, Process, ProcessContext
from controlplane.runtime.spans import Spans
from controlplane.settings import Settings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

_log = structlog.get_logger(__name__)

SCHEDULER_CHECKS = ("schema", "database", "leader", "cluster")


class SchedulerService(Process):
    """One replica of the scheduler."""

    def __init__(
        self,
        settings: Settings,
        setup: Setup,
        ports: Ports,
        open_server: OpenManagement,
        *,
        metrics: Metrics,
        health: Health,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        spans: Spans | None = None,
    ) -> None:
        source = rng or random.Random()  # noqa: S311 - jitter, and the choice among equals
        context = ProcessContext(settings, ports, open_server, metrics, health, clock or SystemClock(), source, spans)
        super().__init__(context, settings.scheduler.log)
        self._setup = setup
        self.term: SchedulerTerm | None = None
        self._hosted: SchedulerControllers | None = None

    def _term(self) -> SchedulerTerm:
        hosted = self._hosted = SchedulerControllers(self._context.settings, self._setup.names, gangs=self._setup.gangs)
        gate, log, leader = self._open(Codec(hosted.router.types))
        term = self.term = SchedulerTerm(self._context, self._setup, hosted, gate, log, leader)
        return term

    def _leads(self, head: LogHead) -> None:
        assert self._hosted is not None
        held = sum(state.held is not None for state in self._hosted.placements.states.values())
        _log.info("leading", epoch=head.epoch, position=head.position, held=held, profiles=self._setup.names)
