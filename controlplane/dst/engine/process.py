"""The lives of one simulated process: started with nothing but the log, frozen and thawed in the middle of anything,
killed without a word.

In: orders of a plan. Out: a `SimulatedProcess` a life, in which `_turn` runs again and again, as a service's own loop
lets it. What a turn is, says whoever derives from this: the service, the scheduler beside a target."""

from __future__ import annotations

import asyncio
import random

import structlog

from controlplane.dst.engine.loop import SimulatedProcess, VirtualClock, VirtualLoop
from controlplane.dst.engine.trace import Trace
from controlplane.log.event import Fenced
from controlplane.runtime.lifecycle import Replaced, turn_after_turn

_log = structlog.get_logger(__name__)
STOPPED_WITHIN = 30.0  # seconds that Kubernetes gives a pod


class ProcessRuns:
    """One process, life after life. `clock` is its machine's wall clock, which may be wrong."""

    def __init__(self, name: str, loop: VirtualLoop, seed: str, trace: Trace) -> None:
        self.name, self._loop, self._seed, self._trace = name, loop, seed, trace
        self.clock = VirtualClock(loop)
        self.process = SimulatedProcess(name)
        self._lives = self._pauses = 0
        self._stop = asyncio.Event()

    @property
    def alive(self) -> bool:
        """Whether there is a process that could act."""
        return self._lives > 0 and not self.process.dead

    def start(self) -> None:
        """Begin a new life, with nothing but the log."""
        self._lives += 1
        self.process = process = SimulatedProcess(f"{self.name}#{self._lives}")
        self._stop = asyncio.Event()
        self._forget()
        self._trace.note("process", process.name, "starts")
        self._loop.world_later(0.0, self._launch, process, self._stop)

    def _forget(self) -> None:
        """Let go of what belongs to the life before."""

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
        """What `Service.run` and `SchedulerService.run` do."""
        source = random.Random(f"{process.name} {self._seed}")  # noqa: S311 - reproducible on purpose
        self.replaced = Replaced()

        async def turn(stop: asyncio.Event) -> None:
            try:
                await self._turn(process, source, stop)
            except Fenced as fenced:
                self._trace.note("process", process.name, f"is deposed: {fenced}")
                raise
            except Exception as error:
                self._trace.violate("no part fails", f"{process.name}: {type(error).__name__}: {error}")
                raise

        await turn_after_turn(turn, stop, _log, self.replaced)
        self._trace.note("process", process.name, "has stopped")
        process.dead = True

    async def _turn(self, process: SimulatedProcess, source: random.Random, stop: asyncio.Event) -> None:
        raise NotImplementedError
