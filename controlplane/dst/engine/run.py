"""Plays a plan: starts the replicas, carries the steps out, ends all trouble, and waits until everything has settled.

In: a scene, which says who acts and what must hold. Out: a trace, with the first broken invariant. When the plan is
over all trouble ends at once: within an hour of virtual time everything must have settled, and then nothing may be
written any more.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from controlplane.clusters.protocol import ApiError
from controlplane.dst.engine.loop import Stuck, VirtualLoop
from controlplane.dst.engine.network import NetworkRequest
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.process import SimulatedReplica
from controlplane.dst.engine.quiet import hushed
from controlplane.dst.engine.steps import HORIZON, Step
from controlplane.dst.engine.trace import Trace, TraceLine, Violation
from controlplane.runtime.collector import without_collector

QUIET = 120.0  # virtual seconds without a write, once it has
SETTLES = "everything settles"
LOOK = 5.0  # virtual seconds between two looks at what cannot be looked at with every change


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: the first violation or None, the digest of its trace, the lines, and some figures."""

    plan: Plan
    violation: Violation | None
    digest: str
    lines: Sequence[TraceLine]
    seconds: float
    events: int
    steps: int

    def brief(self) -> Outcome:
        """Return the outcome without its lines."""
        return replace(self, lines=())


class SceneRun(ABC):
    """A run under way. In virtual seconds, `patience` is the time in which everything has to settle, and `rest` the
    time without an event that means that it has.
    """

    patience, rest = 3600.0, 40.0
    one_cluster = False
    replicas: dict[str, SimulatedReplica]

    def __init__(self, plan: Plan, seed: str) -> None:
        self.plan = plan
        self.loop = VirtualLoop(seed)  # type: ignore[abstract]  # sockets, signals and the like are not there
        self.trace = Trace(self.loop)
        self.writes = 0
        self._ends: list[tuple[asyncio.TimerHandle, Callable[..., object], tuple[object, ...]]] = []

    # --- what a scene says -------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def events(self) -> int:
        """How many events were recorded, in all logs."""

    @abstractmethod
    def perform(self, step: Step) -> None:
        """Carry a step out."""

    @abstractmethod
    def heal(self) -> None:
        """Let networks and databases be well again."""

    @abstractmethod
    def mend(self) -> None:
        """Put right what is wrong in the clusters."""

    @abstractmethod
    def left(self) -> str:
        """Return what is not settled yet, in words; "" if all is."""

    @abstractmethod
    def at_the_end(self) -> None:
        """Look at everything that has to hold at the end."""

    @abstractmethod
    def look(self) -> None:
        """Look at what cannot be looked at with every single change."""

    @abstractmethod
    def close(self) -> None:
        """Let nothing of the run live on."""

    def finish(self) -> None:
        """Wait until everything has settled, and for a while after it."""
        self.settle(self.left, SETTLES, self.rest)
        self.pause()

    # --- the run -----------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Play the plan, end all trouble, wait for the end."""
        try:
            for replica in self.replicas.values():
                replica.start()
            for step in self.plan.steps:
                self.advance(step.at)
                if self.trace.violation is not None:
                    return
                self.trace.note("plan", "plan", str(step))
                self.perform(step)
            if self.plan.steps:
                self.advance(max(HORIZON * 0.5, self.plan.steps[-1].at + 1.0))
            self._calm()
            self.finish()
        except Stuck as stuck:
            self.trace.violate("time moves on", str(stuck))

    def advance(self, until: float) -> None:
        """Let time go by."""
        while self.loop.time() < until and self.trace.violation is None:
            self.loop.advance(min(until, self.loop.time() + LOOK))
            self.look()
            for failure in self.loop.failures:
                self.trace.violate("no part fails", failure)

    def after(self, seconds: float, end: Callable[..., object], *arguments: object) -> None:
        """Do something later: when its time has come, or when all trouble ends."""
        timer = self.loop.world_later(seconds, self._end, end, arguments)
        self._ends.append((timer, end, arguments))

    def _end(self, end: Callable[..., object], arguments: tuple[object, ...]) -> None:
        with suppress(ApiError):
            end(*arguments)

    def _calm(self) -> None:
        self.trace.note("plan", "plan", "all trouble ends")
        for timer, end, arguments in list(self._ends):
            if timer.when() > self.loop.time():
                timer.cancel()
                self._end(end, arguments)
        self.heal()
        for replica in self.replicas.values():
            replica.thaw()
            replica.process.stop_at = -1
            if not replica.alive:
                replica.start()
        self.mend()

    def settle(
        self,
        left: Callable[[], str],
        rule: str,
        rest: float,
        *,
        holds: Callable[[], bool] = lambda: True,
        events_count: bool = True,
    ) -> None:
        """Wait until nothing is `left` and, if events count, none has come for a while; no longer than `holds` does."""
        deadline, events, since = self.loop.time() + self.patience, 0, self.loop.time()
        while self.trace.violation is None and holds():
            what = left()
            if what or (self.events > events and events_count):
                events, since = self.events, self.loop.time()
            if self.loop.time() - since >= rest:
                break
            if self.loop.time() >= deadline:
                self.trace.violate(rule, what or "a log grows and grows")
            self.advance(self.loop.time() + LOOK)

    def pause(self) -> None:
        """Let a while go by in which nothing may be done."""
        events, writes = self.events, self.writes
        self.advance(self.loop.time() + QUIET)
        if self.trace.violation is not None:
            return
        if left := self.left():
            self.trace.violate("what is settled stays settled", left)
        events, writes = self.events - events, self.writes - writes
        if (events or writes) and not self.tries_again():
            self.trace.violate("quiet when nothing changes", f"{events} events and {writes} writes in {QUIET:g} s")
        self.at_the_end()

    def tries_again(self) -> bool:
        """Whether somebody is to be tried again every so often although nothing changes."""
        return False

    # --- what is heard -----------------------------------------------------------------------------------------------

    def asked(self, process: str, cluster: str, request: NetworkRequest, outcome: str) -> None:
        """Hear of a request that a process sent, and how it ended."""
        if outcome != "done":
            where = "" if self.one_cluster else f" on {cluster}"
            self.trace.note("request", process, f"{request.verb} {request.resource} {request.name}{where}: {outcome}")

    def warned(self, level: str, text: str) -> None:
        """Take over what the processes say about themselves: errors are faults of ours."""
        self.trace.note("warning", level, text)
        if level in ("error", "critical", "exception"):
            self.trace.violate("no part fails", text)


def simulate(plan: Plan, make: Callable[[Plan], SceneRun]) -> Outcome:
    """Play a plan, as `make` has it played. The same plan gives the same outcome, to the byte."""
    with hushed() as warnings, without_collector():
        run = make(plan)
        warnings.listener = run.warned
        try:
            run.play()
        finally:
            seconds, steps = run.loop.time(), run.loop.steps
            digest, violation, lines = run.trace.digest(), run.trace.violation, run.trace.lines
            warnings.listener = None
            run.close()
    return Outcome(plan, violation, digest, lines, seconds, run.events, steps)
