"""The scheduler as a process: one replica that follows its log and, when it leads, schedules.

In: settings, profiles, a way to the API server. Out: everything that `controlplane scheduler run` does. A turn ends with a fence or a
fault; the process then starts over as a follower, with nothing but what the log says.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import structlog

from controlplane.app.scheduling.profiles import Setup
from controlplane.app.scheduling.rooms import SchedulerRooms
from controlplane.app.scheduling.turn import Around, OpenServer, SchedulerTurn
from controlplane.app.service import version
from controlplane.clock import Clock, SystemClock
from controlplane.connectivity.here import service_started
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append, Fenced
from controlplane.log.postgres import PostgresLog
from controlplane.reconcile.gate import Gate
from controlplane.reconcile.leader import Leader
from controlplane.settings import Settings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

_log = structlog.get_logger(__name__)

SCHEDULER_CHECKS = ("schema", "database", "leader", "cluster")
_DRAIN = 15.0


class SchedulerService:
    """One replica. `run` returns when `stop` is set, after a drain; it raises only for what a restart does not cure."""

    def __init__(
        self,
        settings: Settings,
        setup: Setup,
        database: Database,
        open_server: OpenServer,
        *,
        metrics: Metrics,
        health: Health,
        clock: Clock | None = None,
    ) -> None:
        self._database, self._settings, self._health, self._metrics = database, settings, health, metrics
        self._around = Around(
            settings,
            setup,
            open_server,
            metrics,
            health,
            clock or SystemClock(),
            random.Random(),  # noqa: S311 - jitter, and the choice among equals
        )
        self.turn: SchedulerTurn | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Follow, lead, and start over, until `stop` is set."""
        while not stop.is_set():
            turn = asyncio.create_task(self._turn(stop), name="turn")
            stopping = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait({turn, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not turn.done():
                    await asyncio.wait({turn}, timeout=_DRAIN)
                    turn.cancel()
                await turn
            except asyncio.CancelledError:
                if not stop.is_set():
                    raise
            except Fenced as fenced:
                _log.warning("another replica leads, following it", detail=str(fenced))
            finally:
                stopping.cancel()
                if not turn.done():
                    turn.cancel()
                    await asyncio.gather(turn, return_exceptions=True)

    async def _turn(self, stop: asyncio.Event) -> None:
        """Follow the log until the lead is ours, then lead until stopped or fenced."""
        identity = self._settings.leader.identity
        rooms = SchedulerRooms(self._settings, self._around.setup.names, gangs=self._around.setup.gangs)
        gate = Gate()
        log = PostgresLog(
            self._database,
            Codec(rooms.capability.types),
            log=self._settings.scheduler.log,
            on_state=lambda ok, detail: self._database_state(gate, ok, detail),
            on_batch=self._appended,
        )
        leader = Leader(log, identity, self._around.clock, gate)
        turn = self.turn = SchedulerTurn(self._around, rooms, gate, log, leader)
        try:
            self._health.set("leader", True, "follows")
            head = await turn.follow_until(stop)
            if head is None:
                return
            await turn.runner.catch_up(head.position)
            await log.append(Append([service_started(head.epoch, identity, version())]))
            held = sum(state.held is not None for state in rooms.placements.states.values())
            _log.info("leading", epoch=head.epoch, position=head.position, held=held, profiles=self._around.setup.names)
            self._health.set("leader", True, f"leads epoch {head.epoch}")
            self._metrics.leader.set(1)
            self._metrics.leader_epoch.set(head.epoch)
            await turn.lead(stop)
        finally:
            for gauge in (self._metrics.leader, self._metrics.leader_sure):
                gauge.set(0)
            self._metrics.forget_clusters()
            await turn.close()
            await leader.release()
            await log.close()

    def _appended(self, types: Sequence[str], seconds: float) -> None:
        self._metrics.append_seconds.observe(seconds)
        if types:
            self._metrics.append_batch_size.observe(len(types))
            for name in types:
                self._metrics.events_appended.labels(type=name).inc()

    def _database_state(self, gate: Gate, ok: bool, detail: str) -> None:
        gate.set("append", ok, detail)
        self._health.set("database", ok, detail)
