"""The two sorts of processes of the scene: the controllers of the cluster's own pods, and its scheduler; life after
life.

In: the stage's API server, by the way of each sort, and a log for each. Out: what they do.
`controlplane.app.leadership.Turn` and `controlplane.app.scheduler_leadership.SchedulerTurn` are the real ones; what a
cycle takes of the processor is nothing here, and gauges that nobody reads are not kept."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from controlplane.app.hosted import HostedControllers
from controlplane.app.leadership import ServiceTerm, Shared
from controlplane.app.measure import Measure
from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.app.scheduler_leadership import SchedulerContext, SchedulerTerm
from controlplane.app.scheduler_profiles import Setup, setup_of
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.scheduling.framework.configuration import read
from controlplane.dst.engine.database import DatabaseLog, SimulatedDatabase
from controlplane.dst.engine.loop import SimulatedProcess, VirtualLoop
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.workloads.processes import HOME_TOKEN, POLICY, OpenServer, SimulatedReplica
from controlplane.log.event import Recorded
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from controlplane.settings import Settings
from controlplane.settings.local import CoschedulingSettings
from controlplane.settings.model import LeaderSettings, RunSettings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

ROOMS, SCHEDULER = "rooms", "scheduler"
"""The two sorts, by the first word of their processes' names and by the name of their way to the API server."""
PROFILES = ("controlplane", "default-scheduler")
SETTINGS = msgspec.structs.replace(
    Settings(),
    run=RunSettings(controllers=("podgroups", "coscheduling")),
    coscheduling=CoschedulingSettings(image="example.com/nop:1"),
)
_GANG = {"multiPoint": {"enabled": [{"name": "Gang"}], "disabled": [{"name": "PrioritySort"}]}}
_LEASE, _RENEW = 12.0, 3.0
_POLL = 5.0  # the log's alarm clock is never lost here

OnFolded = Callable[[str, Any, int], None]
"""`folded(process, rooms, position)`: a process has folded so far, and these are its rooms: `HostedControllers` or `SchedulerControllers`."""


@functools.cache
def _metrics() -> Metrics:
    return Metrics()


def hosted() -> HostedControllers:
    """Return the rooms of the controllers, with nothing in them."""
    return HostedControllers(SETTINGS)


def setup() -> Setup:
    """Return the scheduler's profiles: one for gangs, one for everybody else, both with the plugin Gang."""
    args = [{"name": "Gang", "args": {"waitForGroup": [PROFILES[0]], "scheduleTimeoutSeconds": 40}}]
    profiles = [{"schedulerName": name, "plugins": _GANG, "pluginConfig": args} for name in PROFILES]
    return setup_of(read({"profiles": profiles}), "the simulation")


def scheduler_rooms(identity: str) -> SchedulerControllers:
    """Return the rooms of the scheduler, with nothing in them."""
    return SchedulerControllers(_named(identity), PROFILES, gangs=True)


def _named(identity: str) -> Settings:
    return msgspec.structs.replace(SETTINGS, leader=LeaderSettings(identity=identity))


class _Local(SimulatedReplica):
    """What both sorts have in common: a way to the one cluster, one log, and a turn that is theirs."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        seed: str,
        database: SimulatedDatabase,
        open_server: OpenServer,
        trace: Trace,
        folded: OnFolded,
    ) -> None:
        super().__init__(name, POLICY, loop, seed, database, open_server, trace, lambda process, index: None)
        self._on_folded = folded
        self.leads: Callable[[], bool] = lambda: False

    @property
    def in_charge(self) -> bool:
        """Whether it is alive and believes that it leads."""
        return self.alive and self.leads()

    def start(self) -> None:
        """Begin a new life, with nothing but the log."""
        self.leads = lambda: False
        super().start()

    async def _begin(
        self, turn: Any, log: DatabaseLog, leader: Leader, process: SimulatedProcess, stop: asyncio.Event
    ) -> None:
        """Follow the log until the lead is ours, then lead until stopped or fenced: what both services' `_turn` do."""
        try:
            head = await turn.follow_until(stop)
            if head is None:
                return
            await turn.take_over(head, "simulated")
            self._trace.note("process", process.name, f"leads epoch {head.epoch} from position {head.position}")
            await turn.lead(stop)
        finally:
            await turn.close()
            await leader.release()
            await log.close()

    def _log(self, process: SimulatedProcess, gate: Gate) -> DatabaseLog:
        return DatabaseLog(self._database, process, lambda ok, detail: gate.set("append", ok, detail))

    def _leader(self, log: DatabaseLog, process: SimulatedProcess, gate: Gate) -> Leader:
        return Leader(log, process.name, self.clock, gate, lease=_LEASE, renew=_RENEW)

    async def _server(self, process: SimulatedProcess) -> ApiServer:
        return self._open_server(MANAGEMENT, process.name, HOME_TOKEN)


class LocalService(_Local):
    """One replica of the controllers."""

    async def _turn(self, process: SimulatedProcess, source: random.Random, stop: asyncio.Event) -> None:
        gate = Gate()
        settings = _named(process.name)
        shared = Shared(
            settings, functools.partial(self._server, process), _metrics(), Health(), self.clock, source, self.replaced
        )
        log = self._log(process, gate)
        leader = self._leader(log, process, gate)
        turn = RoomsTurn(shared, HostedControllers(settings), gate, log, leader, self._on_folded)
        self.leads = lambda: turn.leads
        await self._begin(turn, log, leader, process, stop)


class LocalScheduler(_Local):
    """One replica of the scheduler."""

    async def _turn(self, process: SimulatedProcess, source: random.Random, stop: asyncio.Event) -> None:
        gate = Gate()
        rooms = scheduler_rooms(process.name)
        around = SchedulerContext(
            _named(process.name),
            setup(),
            functools.partial(self._server, process),
            _metrics(),
            Health(),
            self.clock,
            source,
            self.replaced,
        )
        log = self._log(process, gate)
        leader = self._leader(log, process, gate)
        turn = LocalSchedulerTurn(around, rooms, gate, log, leader, self._on_folded, process.name)
        self.leads = lambda: turn.leads
        await self._begin(turn, log, leader, process, stop)


class RoomsTurn(ServiceTerm):
    """A turn of the controllers; `on_folded` hears of each batch that it has folded, leading or not."""

    def __init__(
        self, shared: Shared, hosted: HostedControllers, gate: Gate, log: Any, leader: Leader, on_folded: OnFolded
    ) -> None:
        self.hosted, self._on_folded = hosted, on_folded
        super().__init__(shared, hosted, Measure(shared.metrics, hosted.fleet), gate, log, leader)
        self.runner._poll = _POLL

    @property
    def leads(self) -> bool:
        """Whether it believes that it leads."""
        return self._live

    def _folded(self, events: Sequence[Recorded]) -> None:
        super()._folded(events)
        self._on_folded(self._fleet.identity, self.hosted, events[-1].position)

    async def _report(self) -> None:
        """Nobody looks at gauges here."""
        await asyncio.Event().wait()


class LocalSchedulerTurn(SchedulerTerm):
    """A turn of the scheduler; `on_folded` hears of each batch that it has folded, leading or not."""

    def __init__(
        self,
        around: SchedulerContext,
        rooms: SchedulerControllers,
        gate: Gate,
        log: Any,
        leader: Leader,
        on_folded: OnFolded,
        name: str,
    ) -> None:
        self._on_folded, self._name = on_folded, name
        super().__init__(around, rooms, gate, log, leader)
        self.runner._poll = _POLL
        self._cycles.stopwatch = around.clock.monotonic

    @property
    def leads(self) -> bool:
        """Whether it believes that it leads."""
        return self._live

    def _folded(self, events: Sequence[Recorded]) -> None:
        super()._folded(events)
        self._on_folded(self._name, self._rooms, events[-1].position)

    async def _report(self) -> None:
        """Nobody looks at gauges here."""
        await asyncio.Event().wait()
