"""The service: one process that follows a log and, when it leads, keeps it and acts on it.

In: settings and a way to the management cluster. Out: everything that `controlplane run` does. A turn
(`controlplane.app.leadership`) ends with a fence or a fault; the process then starts over as a follower, with nothing
but what the log says."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
from importlib import metadata

import structlog

from controlplane.app.hosted import TYPES, HostedControllers
from controlplane.app.leadership import ServiceTerm
from controlplane.app.measure import Measure
from controlplane.clock import Clock, SystemClock
from controlplane.controllers.connectivity.local_connection import service_stopped
from controlplane.controllers.coscheduling.controller import CoschedulingController
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append, LogError
from controlplane.log.port import Log
from controlplane.log.postgres import PostgresLog
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from controlplane.runtime.lifecycle import OpenManagement, Shared, turn_after_turn
from controlplane.settings import Settings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

_log = structlog.get_logger(__name__)

# What a page of a list is decoded into lives for milliseconds, and is more than the collector's own first thresholds
# many times over: it would look at each page several times while it is made. `python -m benchmarks failover` shows it.
_COLLECT = (50_000, 20, 50)
_LEAVE = 1.0  # seconds that the last event of a process may take

CHECKS = ("schema", "database", "leader", "caches", "clusters")


class Service:
    """One replica. `run` returns when `stop` is set, after a drain; it raises only for what a restart does not cure."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        open_management: OpenManagement,
        *,
        metrics: Metrics,
        health: Health,
        clock: Clock | None = None,
    ) -> None:
        self._database, self._settings, self._health = database, settings, health
        self._shared = Shared(
            settings,
            open_management,
            metrics,
            health,
            clock or SystemClock(),
            random.Random(),  # noqa: S311 - jitter
        )
        self.fleet: MultiKueueController | None = None
        self.runs: CoschedulingController | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Follow, lead, and start over, until `stop` is set."""
        await turn_after_turn(self._turn, stop, _log, self._shared.replaced)

    async def _turn(self, stop: asyncio.Event) -> None:
        """Follow the log until the lead is ours, then lead until stopped or fenced."""
        gc.unfreeze()  # what the turn before has left
        hosted = HostedControllers(self._settings)
        fleet = self.fleet = hosted.fleet
        self.runs = hosted.local.runs
        measure = Measure(self._shared.metrics, fleet)
        gate = Gate()
        log = PostgresLog(
            self._database,
            Codec(TYPES),
            log=self._settings.database.log,
            on_state=lambda ok, detail: self._database_state(gate, measure, ok, detail),
            on_batch=measure.appended,
        )
        leader = Leader(log, self._settings.leader.identity, self._shared.clock, gate)
        turn = ServiceTerm(self._shared, hosted, measure, gate, log, leader)
        try:
            self._health.set("leader", True, "follows")
            head = await turn.follow_until(stop)
            if head is None:
                return
            await turn.take_over(head, version(), fleet.index.watched)
            # What was folded stays. The collector need not look through it again and again while the clusters are listed, which is
            # when most is made and a takeover waits: half of the processor time of that.
            gc.freeze()
            gc.set_threshold(*_COLLECT)
            _log.info("leading", epoch=head.epoch, position=head.position, workloads=len(fleet.index.workloads))
            self._health.set("leader", True, f"leads epoch {head.epoch}")
            measure.leads(head.epoch)
            await turn.lead(stop)
            await take_leave(log, leader, head.epoch, self._settings.leader.identity)
        finally:
            measure.follows()
            try:
                await turn.close()
                await leader.release()
            finally:
                await log.close()

    def _database_state(self, gate: Gate, measure: Measure, ok: bool, detail: str) -> None:
        # A reason of its own: a server that takes no writes may answer reads, which are what "log" tells of.
        gate.set("append", ok, detail)
        measure.log_answers(ok)
        if not ok:  # that it is well again is for the report to say, which knows of reads too
            self._health.set("database", False, detail)


async def take_leave(log: Log, leader: Leader, epoch: int, identity: str) -> None:
    """Say in the log that we look at no cluster from now on, if it can be said at once: resigning leaves no sign of
    life behind.
    """
    if leader.sure:
        with contextlib.suppress(LogError, TimeoutError):
            async with asyncio.timeout(_LEAVE):
                await log.append(Append([service_stopped(epoch, identity)]))


def version() -> str:
    """Return the version of this program."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("controlplane")
    return "unknown"
