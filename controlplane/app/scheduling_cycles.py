"""Runs the scheduling loop on the clock: cycles one after the other, their proposals to the log without waiting for
each.

In: a `Loop`, the log. Out: appends. A cycle ends with a proposal; the next begins at once, while the log commits the
first together with whatever else has arrived. Nothing runs while the gate is closed or the cluster is out of view."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import datetime

import structlog

from controlplane.clock import Clock
from controlplane.controllers.scheduling.binding.assumed import Proposal
from controlplane.controllers.scheduling.loop import Loop
from controlplane.log.event import Fenced, LogError, LogUnavailable, VersionConflict
from controlplane.log.port import Log
from controlplane.runtime.gate import Gate
from controlplane.tasks import end

_log = structlog.get_logger(__name__)

# Seconds of cycles before the event loop gets a turn; proposals under way; seconds between two tries on a log that does
# not answer.
_SLICE = 0.01
_MOST_UNDER_WAY = 1000
_AWAY_PAUSE = 0.5
_LONGEST_NAP = 1.0


class CycleDriver:
    """Drives a `Loop`. `ready` says whether the cluster is in view, `on_cycle(seconds)` hears how long each cycle took.

    `stopwatch` measures what the cycles take of the processor; simulations have their own.
    """

    stopwatch: Callable[[], float] = staticmethod(time.perf_counter)

    def __init__(
        self,
        loop: Loop,
        log: Log,
        clock: Clock,
        gate: Gate,
        ready: Callable[[], bool],
        on_cycle: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._loop, self._write, self._clock, self._gate, self._ready = loop, log, clock, gate, ready
        self._on_cycle = on_cycle
        self._wake = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        self._failure: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Something has changed: look for work."""
        self._wake.set()

    async def run(self) -> None:
        """Run cycles until cancelled, or until a newer leader fences us off (`Fenced`)."""
        self._failure = asyncio.get_running_loop().create_future()
        try:
            while True:
                await self._gate.passed()
                if self._failure.done():
                    self._failure.result()
                more = self._slice() if self._ready() else False
                self._send()
                if more:
                    await asyncio.sleep(0)
                else:
                    await self._nap()
        finally:
            await end(*self._under_way)

    def _slice(self) -> bool:
        """Run cycles for a moment; return whether there are more to run now."""
        until = self.stopwatch() + _SLICE
        while len(self._under_way) + len(self._loop.outbox) < _MOST_UNDER_WAY:
            if not self.one(self._clock.now()):
                return False
            if self.stopwatch() >= until:
                return True
        return False  # the next proposal that is through wakes us

    def one(self, now: datetime) -> bool:
        """Run one cycle; False if there is none to run."""
        began = self.stopwatch()
        ran = self._loop.schedule_one(now)
        if ran:
            self._on_cycle(self.stopwatch() - began)
        return ran

    def _send(self) -> None:
        while self._loop.outbox:
            task = asyncio.create_task(self._append(self._loop.outbox.popleft()), name="proposal")
            self._under_way.add(task)
            task.add_done_callback(self._ended)

    async def _append(self, proposal: Proposal) -> None:
        while True:
            try:
                await self._write.append(proposal.append)
            except VersionConflict:
                self._loop.turned_down(proposal, self._clock.now())
            except LogUnavailable:
                # It may have been written all the same: then the second try is refused by the version, and the fold
                # says it.
                await self._clock.sleep(_AWAY_PAUSE)
                continue
            except Fenced:
                raise
            except LogError as error:
                _log.error("proposal not recorded", stream=proposal.stream, error=str(error))
                self._loop.given_up(proposal, self._clock.now())
            else:
                self._loop.committed(proposal)
            return

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._wake.set()
        error = None if task.cancelled() else task.exception()
        if error is not None and self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _nap(self) -> None:
        due = self._loop.next_due()
        seconds = _LONGEST_NAP if due is None else min(_LONGEST_NAP, due - self._clock.now().timestamp())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.005)):
                await self._wake.wait()
        self._wake.clear()
