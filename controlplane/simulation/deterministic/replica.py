"""One replica of the service, life after life: the turns of production, on virtual time and a simulated database.

In: the stage's API servers and the database. Out: what the service does. A life is a `Process`: it is started with nothing but the log,
frozen and thawed in the middle of anything, killed without a word, or asked to stop. `controlplane.app.turn.Turn` is the real one; only
how a worker is reached differs, and gauges that nobody reads are not kept.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from controlplane.app.measure import Measure
from controlplane.app.rooms import Hosted
from controlplane.app.turn import Shared, Turn
from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.streams import ApiServer
from controlplane.clusters.surroundings import Surroundings
from controlplane.connectivity.events import MANAGEMENT
from controlplane.log.event import Append, Fenced
from controlplane.multikueue.adapters import adapters_for
from controlplane.multikueue.context import Policy
from controlplane.multikueue.fleet import service_started
from controlplane.reconcile.gate import Gate
from controlplane.reconcile.leader import Leader
from controlplane.settings import Settings
from controlplane.settings.model import Leader as LeaderSettings
from controlplane.simulation.deterministic.database import Database, DatabaseLog
from controlplane.simulation.deterministic.loop import Process, VirtualClock, VirtualLoop
from controlplane.simulation.deterministic.trace import Trace
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

OpenServer = Callable[[str, str, str], ApiServer]
"""`open_server(cluster, process, token)`: a connection to a cluster, `@management` included."""

POLICY = Policy(
    adapters=adapters_for(["batch/job"]),
    worker_lost_timeout=timedelta(minutes=3),
    refusal_pause=timedelta(minutes=1),
)
HOME_TOKEN = "0"  # noqa: S105 - of a cluster that does not exist
_LEASE, _RENEW = 12.0, 3.0
_POLL = 5.0  # the log's alarm clock is never lost here, and polling is most of what an idle hour costs


@functools.cache
def _metrics() -> Metrics:
    return Metrics()


class Replica:
    """One replica. `clock` is its machine's wall clock, which may be wrong."""

    def __init__(
        self, name: str, loop: VirtualLoop, seed: str, database: Database, open_server: OpenServer, trace: Trace
    ) -> None:
        self.name, self._loop, self._seed, self._database = name, loop, seed, database
        self._open_server, self._trace = open_server, trace
        self.clock = VirtualClock(loop)
        self.process = Process(name)
        self.turn: SimulatedTurn | None = None
        self._lives = 0
        self._stop = asyncio.Event()

    @property
    def alive(self) -> bool:
        """Whether there is a process that could act."""
        return self._lives > 0 and not self.process.dead

    @property
    def leading(self) -> SimulatedTurn | None:
        """The turn of a living process that believes that it leads."""
        return self.turn if self.alive and self.turn is not None and self.turn.leads else None

    def start(self) -> None:
        """Begin a new life, with nothing but the log."""
        self._lives += 1
        self.process = process = Process(f"{self.name}#{self._lives}")
        self._stop = asyncio.Event()
        self.turn = None
        self._trace.note("process", process.name, "starts")
        self._loop.world_later(0.0, self._launch, process, self._stop)

    def _launch(self, process: Process, stop: asyncio.Event) -> None:
        self._loop.create_task(self._run(process, stop), name=process.name, context=process.context())

    def crash(self, why: str) -> None:
        """Die between two awaits: nothing is cleaned up, nothing is said."""
        if not self.process.dead:
            self._trace.note("process", self.process.name, why)
            self.process.frozen = self.process.dead = True

    def crash_after(self, steps: int, why: str) -> None:
        """Die that many steps from now."""
        self.process.on_stop = lambda: self.crash(why)
        self.process.stop_at = self.process.steps + steps

    def freeze(self) -> None:
        """Stand still, knowing nothing of it."""
        self._trace.note("process", self.process.name, "stands still")
        self.process.frozen = True

    def thaw(self) -> None:
        """Go on in the middle of whatever it was, with whatever it believed."""
        if not self.process.dead and self.process.frozen:
            self._trace.note("process", self.process.name, "goes on")
            self._loop.thaw(self.process)

    def stop(self) -> None:
        """Ask it to end in good order."""
        self._trace.note("process", self.process.name, "is asked to stop")
        self._stop.set()

    async def _run(self, process: Process, stop: asyncio.Event) -> None:
        """What `Service.run` does."""
        source = random.Random(f"{process.name} {self._seed}")  # noqa: S311 - reproducible on purpose
        while not stop.is_set():
            try:
                await self._turn(process, source, stop)
            except Fenced as fenced:
                self._trace.note("process", process.name, f"is deposed: {fenced}")
            except Exception as error:
                self._trace.violate("no part fails", f"{process.name}: {type(error).__name__}: {error}")
                raise
        self._trace.note("process", process.name, "has stopped")
        process.dead = True

    async def _turn(self, process: Process, source: random.Random, stop: asyncio.Event) -> None:
        """Follow the log until the lead is ours, then lead until stopped or fenced: what `Service._turn` does."""
        shared, gate = self._shared(process, source), Gate()
        hosted = Hosted(shared.settings, POLICY)
        log = DatabaseLog(self._database, process, lambda ok, detail: gate.set("append", ok, detail))
        leader = Leader(log, process.name, self.clock, gate, lease=_LEASE, renew=_RENEW)
        turn = self.turn = SimulatedTurn(shared, hosted, gate, log, leader, self._worker(process))
        try:
            head = await turn.follow_until(stop)
            if head is None:
                return
            await turn.runner.catch_up(head.position)
            await log.append(Append([service_started(head.epoch, process.name, "simulated")]))
            self._trace.note("process", process.name, f"leads epoch {head.epoch} from position {head.position}")
            await turn.lead(stop)
        finally:
            await turn.close()
            await leader.release()
            await log.close()

    def _shared(self, process: Process, source: random.Random) -> Shared:
        async def open_management() -> ApiServer:
            return self._open_server(MANAGEMENT, process.name, HOME_TOKEN)

        settings = msgspec.structs.replace(Settings(), leader=LeaderSettings(identity=process.name))
        return Shared(settings, open_management, _metrics(), Health(), self.clock, source)

    def _worker(self, process: Process) -> Callable[[str, ClientConfig], ApiServer]:
        return lambda cluster, config: self._open_server(cluster, process.name, config.token)


class SimulatedTurn(Turn):
    """A turn whose workers are reached through `open_worker`."""

    def __init__(
        self,
        shared: Shared,
        hosted: Hosted,
        gate: Gate,
        log: Any,
        leader: Leader,
        open_worker: Callable[[str, ClientConfig], ApiServer],
    ) -> None:
        self.fleet, self._open_worker = hosted.fleet, open_worker
        super().__init__(shared, hosted, Measure(shared.metrics, hosted.fleet), gate, log, leader)
        self.runner._poll = _POLL

    @property
    def leads(self) -> bool:
        """Whether it believes that it leads."""
        return self._live

    def _surroundings(self, *arguments: Any) -> Surroundings:
        return dataclasses.replace(super()._surroundings(*arguments), open_server=self._open_worker)

    async def _report(self) -> None:
        """Nobody looks at gauges here."""
        await asyncio.Event().wait()
