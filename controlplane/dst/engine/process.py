"""Starts, freezes, thaws, kills and stops one simulated replica of a process.

In: orders of a plan. Out: the process of production (`controlplane.runtime.lifecycle.Process`) in virtual time. Its
ports are a simulated database and simulated connections; each batch that it folds is reported.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from controlplane.dst.engine.database import DatabaseLog, SimulatedDatabase
from controlplane.dst.engine.loop import SimulatedProcess, VirtualClock, VirtualLoop
from controlplane.dst.engine.snapshots import SimulatedSnapshots
from controlplane.dst.engine.trace import Trace
from controlplane.log.codec import Codec
from controlplane.log.event import Fenced, LogHead
from controlplane.log.port import Log
from controlplane.runtime.lifecycle import Observer, OnBatch, OnState, Ports, Process
from controlplane.telemetry import Metrics

STOPPED_WITHIN = 30.0  # seconds that Kubernetes gives a pod
_LEASE, _RENEW = 12.0, 3.0
AHEAD = 1  # as the recorded seeds are played; a test plays others with more
_POLL = 5.0  # the log's alarm clock is never lost here, and polling is most of what an idle hour costs

Make = Callable[[str, Ports, random.Random], Process]
Heard = Callable[[str, Any, int], None]


class ReplicaEnvironment(NamedTuple):
    """Where a replica runs: its time, its random numbers, its log, who writes down what it does, and who hears of each
    batch that it folds (`heard(name, hosted, position)`). `ahead`: how many pieces of a watch are handed over together,
    0: as the recorded seeds are played.
    """

    loop: VirtualLoop
    seed: str
    database: SimulatedDatabase
    trace: Trace
    heard: Heard
    ahead: int = 0


class SimulatedReplica(Observer):
    """One replica, started any number of times. `clock` is its machine's wall clock, which may be wrong.

    `make(name, ports, random)` makes the process of one start.
    """

    def __init__(
        self,
        name: str,
        place: ReplicaEnvironment,
        make: Make,
    ) -> None:
        self.name, self._make = name, make
        self._loop, self._seed, self._database, self._trace, self._heard, self._ahead = place
        self.clock = VirtualClock(self._loop)
        self.process = SimulatedProcess(name)
        self._starts = self._pauses = 0
        self._stop = asyncio.Event()
        self._forget()

    @property
    def alive(self) -> bool:
        """Whether there is a process that could act."""
        return self._starts > 0 and not self.process.dead

    def start(self) -> None:
        """Start it, with nothing but the log."""
        self._starts += 1
        self.process = process = SimulatedProcess(f"{self.name}#{self._starts}")
        self._stop = asyncio.Event()
        self._forget()
        self._trace.note("process", process.name, "starts")
        self._loop.world_later(0.0, self._launch, process, self._stop)

    @property
    def leading(self) -> bool:
        """Whether it is alive and believes that it leads."""
        return self.alive and self._leads

    def _forget(self) -> None:
        self.hosted: Any = None
        self.position = 0
        self._leads = False

    def _launch(self, process: SimulatedProcess, stop: asyncio.Event) -> None:
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
        self._pauses += 1
        self.process.frozen = True

    def thaw(self) -> None:
        """Go on in the middle of whatever it was, with whatever it believed."""
        if not self.process.dead and self.process.frozen:
            self._trace.note("process", self.process.name, "goes on")
            self._loop.thaw(self.process)

    def stop(self) -> None:
        """Ask it to end in good order, and see that it does, unless it stands still meanwhile."""
        self._trace.note("process", self.process.name, "is asked to stop")
        self._stop.set()
        if not self.process.frozen:
            self._loop.world_later(STOPPED_WITHIN, self._stopped, self.process, self._pauses)

    def _stopped(self, process: SimulatedProcess, pauses: int) -> None:
        if not process.dead and self._pauses == pauses:
            self._trace.violate("who is asked to stop stops", f"{process.name} runs on after {STOPPED_WITHIN:g} s")

    async def _run(self, process: SimulatedProcess, stop: asyncio.Event) -> None:
        source = random.Random(f"{process.name} {self._seed}")  # noqa: S311 - reproducible on purpose

        def open_log(name: str, codec: Codec, on_state: OnState, on_batch: OnBatch) -> Log:
            return DatabaseLog(self._database, process, on_state)

        ports = Ports(
            open_log=open_log,
            version="simulated",
            lease=_LEASE,
            renew=_RENEW,
            poll=_POLL,
            ahead=self._ahead or AHEAD,
            gauges=False,
            tunes_collector=False,
            observer=self,
            snapshots=self._snapshots if self._database.keeps_snapshots else None,
        )
        await self._make(process.name, ports, source).run(stop)
        self._trace.note("process", process.name, "has stopped")
        process.dead = True

    def _snapshots(self, log: Log) -> SimulatedSnapshots:
        assert isinstance(log, DatabaseLog), "the log of a simulated process"
        return SimulatedSnapshots(log, self._database.snapshots)

    # --- what is heard -----------------------------------------------------------------------------------------------

    def folded(self, hosted: Any, position: int) -> None:
        """A batch was folded."""
        self.hosted, self.position = hosted, position
        self._heard(self.process.name, hosted, position)

    def leads(self, head: LogHead) -> None:
        """The process begins to lead."""
        self._leads = True
        self._trace.note("process", self.process.name, f"leads epoch {head.epoch} from position {head.position}")

    def ended(self) -> None:
        """A term is over."""
        self._leads = False

    def failed(self, error: Exception) -> None:
        """A term ended with an error: another one leads, or something is wrong with us."""
        if isinstance(error, Fenced):
            self._trace.note("process", self.process.name, f"is deposed: {error}")
        else:
            self._trace.violate("no part fails", f"{self.process.name}: {type(error).__name__}: {error}")


@functools.cache
def metrics() -> Metrics:
    """Return the metrics of all simulated processes, which nobody reads."""
    return Metrics()
