"""The event loop of the simulation: time jumps, callbacks keep their order, processes stand still and die between two
awaits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from controlplane.dst.engine.loop import PROCESS, SimulatedProcess, Stuck, VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop("test")  # type: ignore[abstract]
    yield made
    made.finish()


def test_time_jumps_to_the_next_timer_and_no_further(loop: VirtualLoop) -> None:
    seen: list[float] = []

    async def work() -> None:
        for seconds in (3600.0, 0.5, 0.0):
            await asyncio.sleep(seconds)
            seen.append(loop.time())

    loop.create_task(work())
    loop.advance(3600.2)
    assert seen == [3600.0]
    assert loop.time() == 3600.2
    loop.advance(10_000)
    assert seen == [3600.0, 3600.5, 3600.5]
    assert loop.time() == 10_000


def test_timeouts_and_locks_work(loop: VirtualLoop) -> None:
    seen: list[object] = []

    async def work() -> None:
        lock = asyncio.Lock()
        async with lock:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await lock.acquire()
        seen.append(loop.time())
        done, late = await asyncio.wait(
            {asyncio.create_task(asyncio.sleep(1)), asyncio.create_task(asyncio.sleep(9))}, timeout=2
        )
        seen.append((len(done), len(late), loop.time()))

    loop.create_task(work())
    loop.advance(100)
    assert seen == [5.0, (1, 1, 7.0)]


def test_callbacks_keep_their_order_and_tasks_need_not() -> None:
    orders = set()
    for seed in range(20):
        loop = VirtualLoop(str(seed), shuffle=1.0)  # type: ignore[abstract]
        seen: list[str] = []

        async def say(word: str, seen: list[str] = seen) -> None:
            seen.append(word)

        loop.call_soon(seen.append, "x")
        for word in "abc":
            loop.create_task(say(word))
        loop.call_soon(seen.append, "y")
        loop.advance(1)
        assert seen.index("x") < seen.index("y")
        orders.add(tuple(seen))
        loop.finish()
    assert len(orders) > 3


def test_a_frozen_process_goes_on_where_it_was(loop: VirtualLoop) -> None:
    seen: list[float] = []
    process = SimulatedProcess("p")

    async def work() -> None:
        assert PROCESS.get() is process
        while True:
            await asyncio.sleep(1)
            seen.append(loop.time())

    loop.create_task(work(), context=process.context())
    loop.advance(2.5)
    process.frozen = True
    loop.advance(10)
    assert seen == [1.0, 2.0]
    loop.thaw(process)
    loop.advance(11.5)
    assert seen == [1.0, 2.0, 10.0, 11.0]


def test_a_process_dies_at_a_step_and_cleans_up_nothing_before_the_end(loop: VirtualLoop) -> None:
    seen: list[str] = []
    process = SimulatedProcess("p")

    async def work() -> None:
        try:
            for number in range(100):
                seen.append(str(number))
                await asyncio.sleep(0)
        finally:
            seen.append("cleaned up")

    async def start() -> None:
        await asyncio.gather(asyncio.create_task(work()))

    process.on_stop = lambda: seen.append("killed")
    process.stop_at = 5
    loop.create_task(start(), context=process.context())
    loop.advance(50)
    assert seen[-1] == "killed"
    assert len(seen) < 10
    loop.finish()
    assert seen[-1] == "cleaned up"


def test_standing_time_is_noticed(loop: VirtualLoop) -> None:
    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    task = loop.create_task(spin())
    with pytest.raises(Stuck):
        loop.advance(1)
    task.cancel()


def test_failures_that_nobody_hears_are_kept(loop: VirtualLoop) -> None:
    loop.call_soon(lambda: 1 / 0)
    loop.advance(1)
    assert "ZeroDivisionError" in loop.failures[0]
