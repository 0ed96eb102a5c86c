"""The scheduler as a process: one replica that follows its log and, when it leads, schedules.

In: settings, profiles, a way to the API server. Out: everything that `controlplane scheduler run` does. A leadership
term ends with a fence or a fault; the process then starts over as a follower, with nothing but what the log says."""

from __future__ import annotations

import asyncio
import random

import structlog

from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.app.scheduler_leadership import SchedulerContext, SchedulerTerm
from controlplane.app.scheduler_profiles import Setup
from controlplane.app.service import version
from controlplane.clock import Clock, SystemClock
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.postgres import PostgresLog
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from controlplane.runtime.lifecycle import OpenManagement, turn_after_turn
from controlplane.runtime.measure import ProcessMeasure
from controlplane.settings import Settings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

_log = structlog.get_logger(__name__)

SCHEDULER_CHECKS = ("schema", "database", "leader", "cluster")


class SchedulerService:
    """One replica. `run` returns when `stop` is set, after a drain; it raises only for what a restart does not cure."""

    def __init__(
        self,
        settings: Settings,
        setup: Setup,
        database: Database,
        open_server: OpenManagement,
        *,
        metrics: Metrics,
        health: Health,
        clock: Clock | None = None,
    ) -> None:
        self._database, self._settings, self._health, self._metrics = database, settings, health, metrics
        self._around = SchedulerContext(
            settings,
            setup,
            open_server,
            metrics,
            health,
            clock or SystemClock(),
            random.Random(),  # noqa: S311 - jitter, and the choice among equals
        )
        self.term: SchedulerTerm | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Follow, lead, and start over, until `stop` is set."""
        await turn_after_turn(self._turn, stop, _log, self._around.replaced)

    async def _turn(self, stop: asyncio.Event) -> None:
        """Follow the log until the lead is ours, then lead until stopped or fenced."""
        identity = self._settings.leader.identity
        controllers = SchedulerControllers(self._settings, self._around.setup.names, gangs=self._around.setup.gangs)
        measure, gate = ProcessMeasure(self._metrics), Gate()
        log = PostgresLog(
            self._database,
            Codec(controllers.capability.types),
            log=self._settings.scheduler.log,
            on_state=lambda ok, detail: self._database_state(gate, ok, detail),
            on_batch=measure.appended,
        )
        leader = Leader(log, identity, self._around.clock, gate)
        term = self.term = SchedulerTerm(self._around, controllers, gate, log, leader)
        try:
            self._health.set("leader", True, "follows")
            head = await term.follow_until(stop)
            if head is None:
                return
            await term.take_over(head, version())
            held = sum(state.held is not None for state in controllers.placements.states.values())
            _log.info("leading", epoch=head.epoch, position=head.position, held=held, profiles=self._around.setup.names)
            self._health.set("leader", True, f"leads epoch {head.epoch}")
            measure.leads(head.epoch)
            await term.lead(stop)
        finally:
            measure.follows()
            try:
                await term.close()
                await leader.release()
            finally:
                await log.close()

    def _database_state(self, gate: Gate, ok: bool, detail: str) -> None:
        gate.set("append", ok, detail)
        if not ok:  # that it is well again is for the report to say, which knows of reads too
            self._health.set("database", False, detail)
