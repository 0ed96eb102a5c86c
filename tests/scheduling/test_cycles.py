"""What a scheduler does about a log that does not answer, or does not take a proposal: it goes on, binds once, and
gives nothing away twice."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from controlplane.app.scheduling_cycles import CycleDriver
from controlplane.controllers.scheduling import events
from controlplane.log.event import Append, Fenced, LogError, LogUnavailable, VersionConflict
from controlplane.runtime.gate import Gate
from tests.scheduling.bench import Bench, ready
from tests.support.waiting import PATIENCE


class Troubled:
    """The log of a bench. It answers the first requests with errors; of those in `written` it takes what it was given
    all the same."""

    def __init__(self, bench: Bench, *errors: LogError, written: bool = False) -> None:
        self._bench, self._errors, self._written = bench, list(errors), written
        self.asked = 0

    async def append(self, request: Append) -> int:
        self.asked += 1
        error = self._errors.pop(0) if self._errors else None
        if (error is None or self._written) and not self._bench.append(request.events, request.expected):
            raise VersionConflict("it has moved on")
        if error is not None:
            raise error
        return len(request.events)


class BenchClock:
    """The bench's time: nobody waits."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def now(self) -> datetime:
        return self._bench.now

    def monotonic(self) -> float:
        return self._bench.now.timestamp()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def drive(bench: Bench, log: Troubled, most: int) -> None:
    """Run cycles until a log was asked so often, and nothing is under way."""
    log_: Any = log
    driver = CycleDriver(bench.loop, log_, BenchClock(bench), Gate(), lambda: True)
    running = asyncio.create_task(driver.run())
    try:
        async with asyncio.timeout(PATIENCE):
            while log.asked < most and not running.done():
                await asyncio.sleep(0)
            if running.done():
                await running
            for _ in range(20):
                await asyncio.sleep(0)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("written", [False, True])
async def test_a_log_that_does_not_answer_is_asked_again(written: bool) -> None:
    """Whether or not it wrote the proposal: then the second try is refused, and the fold says what was written."""
    bench = ready("n", cpu="1")
    bench.pod("p")
    log = Troubled(bench, LogUnavailable("cut"), written=written)
    await drive(bench, log, 2)
    assert len(bench.recorded(events.NodeReserved)) == 1
    bench.settle(3)
    assert bench.on("p") == "n"
    assert bench.overcommitted() == []


async def test_a_proposal_that_the_database_will_not_have_is_made_again() -> None:
    bench = ready("n", cpu="1")
    bench.pod("p")
    log = Troubled(bench, LogError("value too long"))
    await drive(bench, log, 1)
    assert bench.recorded(events.NodeReserved) == []
    assert bench.view.claims == {}
    bench.pass_time(60)
    bench.settle(3)
    assert bench.on("p") == "n"
    assert bench.overcommitted() == []


async def test_whoever_is_fenced_off_runs_no_more_cycles() -> None:
    bench = ready("n", cpu="1")
    bench.pod("p")
    with pytest.raises(Fenced):
        await drive(bench, Troubled(bench, Fenced("another leads")), 2)
    assert bench.recorded(events.NodeReserved) == []
