"""The processes of a run: replicas of the service in the source, and the scheduler beside each target, as production
has them.

In: the stage's API servers and a database each. Out: what they do. `app.turn.Turn` and
`app.scheduling.turn.SchedulerTurn` are the real ones; how a cluster is reached differs, gauges that nobody reads are
not kept, and what a cycle takes of the processor is drawn."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Sequence
from datetime import timedelta

import msgspec

from controlplane.app.hosted import HostedControllers
from controlplane.app.leadership import Shared
from controlplane.app.policy import policy_of
from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.app.scheduler_leadership import SchedulerContext, SchedulerTerm
from controlplane.app.scheduler_profiles import DEFAULT_PROFILE, load, setup_of
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.candidates.source.policy import AT_LEAST_ONCE
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.scheduling.framework.configuration import read
from controlplane.dst.engine.database import DatabaseLog, SimulatedDatabase
from controlplane.dst.engine.loop import SimulatedProcess, VirtualLoop
from controlplane.dst.engine.process import ProcessRuns
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.candidates.environment import CAMPUS, NAMESPACE
from controlplane.dst.scenes.workloads.processes import OpenServer, SimulatedReplica, SimulatedServiceTerm
from controlplane.log.event import Recorded
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from controlplane.settings import Settings
from controlplane.settings.candidates import Candidates
from controlplane.settings.model import LeaderSettings, RunSettings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

LOST_AFTER = timedelta(minutes=2)
LEASE, RENEW = 12.0, 3.0
GANGS = {
    "profiles": [
        {
            "schedulerName": DEFAULT_PROFILE,
            "plugins": {"multiPoint": {"enabled": [{"name": "Gang"}], "disabled": [{"name": "PrioritySort"}]}},
        }
    ]
}
POLL = 5.0  # the log's alarm clock is never lost here
_LONGEST_CYCLE = 0.006  # seconds of the processor

OnSourceFolded = Callable[[str, HostedControllers], None]
"""`folded(process, hosted)`: a process of the source has folded a batch, and these are its rooms."""
OnTargetFolded = Callable[[str, str, SchedulerControllers, int], None]
"""`folded(target, process, rooms, position)`: the same of a scheduler, and how far it has come."""


def source_settings(execution_policy: str = AT_LEAST_ONCE, *, jobs: bool = True) -> Settings:
    """Return the settings of the source's service; `jobs`: MultiKueue is on beside candidates."""
    settings = Settings()
    chosen = Candidates(
        cluster=CAMPUS, namespaces=(NAMESPACE,), lost_after=LOST_AFTER, execution_policy=execution_policy
    )
    controllers = ("multikueue", "candidates") if jobs else ("candidates",)
    return msgspec.structs.replace(settings, run=RunSettings(controllers=controllers), candidates=chosen)


class SourceReplica(SimulatedReplica):
    """One replica of the source's service."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        loop: VirtualLoop,
        seed: str,
        database: SimulatedDatabase,
        open_server: OpenServer,
        trace: Trace,
        folded: OnSourceFolded,
    ) -> None:
        self._settings, self._heard = settings, folded
        super().__init__(
            name, _policy(settings), loop, seed, database, open_server, trace, lambda process, _: self._on_folded()
        )

    def _shared(self, process: SimulatedProcess, source: random.Random) -> Shared:
        shared = super()._shared(process, source)
        settings = msgspec.structs.replace(self._settings, leader=shared.settings.leader)
        return Shared(
            settings, shared.open_management, shared.metrics, shared.health, shared.clock, source, self.replaced
        )

    @property
    def hosted(self) -> HostedControllers | None:
        """The rooms of the turn under way."""
        return hosted_of(self.turn) if self.turn is not None else None

    def _on_folded(self) -> None:
        if self.turn is not None:
            self._heard(self.process.name, hosted_of(self.turn))


def hosted_of(turn: SimulatedServiceTerm) -> HostedControllers:
    """Return the rooms of a turn."""
    return turn._hosted


def _policy(settings: Settings) -> MultiKueuePolicy:
    return policy_of(settings)


class SchedulerReplica(ProcessRuns):
    """The scheduler beside a target."""

    def __init__(
        self,
        target: str,
        number: int,
        loop: VirtualLoop,
        seed: str,
        database: SimulatedDatabase,
        open_server: Callable[[str], ApiServer],
        trace: Trace,
        folded: OnTargetFolded,
        *,
        gangs: bool = False,
    ) -> None:
        super().__init__(f"{target}-scheduler-{number}", loop, seed, trace)
        self._gangs = gangs
        self.target, self._database, self._open, self._heard = target, database, open_server, folded
        self.turn: SimulatedSchedulerTerm | None = None

    @property
    def leading(self) -> SimulatedSchedulerTerm | None:
        """The turn of a living process that believes that it leads."""
        return self.turn if self.alive and self.turn is not None and self.turn.leads else None

    def _forget(self) -> None:
        self.turn = None

    async def _turn(self, process: SimulatedProcess, source: random.Random, stop: asyncio.Event) -> None:
        """What `SchedulerService._turn` does."""
        settings = scheduler_settings(process.name)
        setup = setup_of(read(GANGS), "the simulation") if self._gangs else load("")

        async def open_server() -> ApiServer:
            return self._open(process.name)

        around = SchedulerContext(settings, setup, open_server, _metrics(), Health(), self.clock, source, self.replaced)
        rooms, gate = SchedulerControllers(settings, setup.names, gangs=setup.gangs), Gate()
        log = DatabaseLog(self._database, process, lambda ok, detail: gate.set("append", ok, detail))
        leader = Leader(log, process.name, self.clock, gate, lease=LEASE, renew=RENEW)
        heard = functools.partial(self._heard, self.target, process.name)
        turn = self.turn = SimulatedSchedulerTerm(around, rooms, gate, log, leader, heard)
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


def scheduler_settings(identity: str = "") -> Settings:
    """Return the settings of a scheduler."""
    return msgspec.structs.replace(Settings(), leader=LeaderSettings(identity=identity))


class SimulatedSchedulerTerm(SchedulerTerm):
    """A turn of a scheduler whose cycles take what is drawn; `heard(rooms, position)` hears of each batch that it has
    folded.
    """

    def __init__(
        self,
        around: SchedulerContext,
        rooms: SchedulerControllers,
        gate: Gate,
        log: DatabaseLog,
        leader: Leader,
        heard: Callable[[SchedulerControllers, int], None],
    ) -> None:
        self._on_folded, self.rooms = heard, rooms
        super().__init__(around, rooms, gate, log, leader)
        self.runner._poll = POLL
        self._spent = 0.0
        self._cycles.stopwatch = self._read_stopwatch

    @property
    def leads(self) -> bool:
        """Whether it believes that it leads."""
        return self._live

    def _read_stopwatch(self) -> float:
        self._spent += _LONGEST_CYCLE * self._around.random.random()
        return self._spent

    def _folded(self, events: Sequence[Recorded]) -> None:
        super()._folded(events)
        self._on_folded(self.rooms, events[-1].position)

    async def _report(self) -> None:
        """Nobody looks at gauges here."""
        await asyncio.Event().wait()


@functools.cache
def _metrics() -> Metrics:
    return Metrics()
