"""Pacing: tokens, places, pauses, order, and back-off."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.clusters.backoff import Backoff, doubled, jittered
from controlplane.clusters.budget import RateLimits, RequestBudget
from tests.clusters.clocks import ManualClock


async def spend(budget: RequestBudget, count: int) -> list[float]:
    """The moments at which that many requests started, from the first."""
    starts: list[float] = []

    async def one() -> None:
        async with budget.slot():
            starts.append(budget.clock.monotonic() - 1000.0)

    await asyncio.gather(*(one() for _ in range(count)))
    return starts


async def test_a_burst_at_once_then_the_rate() -> None:
    starts = await spend(RequestBudget(RateLimits(qps=10, burst=5, concurrency=100), clock=ManualClock()), 15)
    assert starts[:5] == [0.0] * 5
    assert starts[5:] == pytest.approx([0.1 * n for n in range(1, 11)])


async def test_tokens_come_back_up_to_the_burst() -> None:
    clock = ManualClock()
    budget = RequestBudget(RateLimits(qps=10, burst=5, concurrency=100), clock=clock)
    await spend(budget, 5)
    clock.seconds += 1000
    started = clock.seconds - 1000.0
    assert [start - started for start in await spend(budget, 6)] == pytest.approx([0, 0, 0, 0, 0, 0.1])


async def test_a_pause_holds_everybody_and_the_longest_counts() -> None:
    budget = RequestBudget(RateLimits(qps=1000, burst=1000), clock=ManualClock())
    budget.pause(5)
    budget.pause(2)
    assert await spend(budget, 3) == pytest.approx([5, 5, 5])
    budget.pause(10_000)
    assert (await spend(budget, 1))[0] <= 66


async def test_no_more_under_way_than_there_are_places_and_first_come_first_served() -> None:
    budget = RequestBudget(RateLimits(qps=1e6, burst=1000, concurrency=2), clock=ManualClock())
    release, order, under_way = asyncio.Event(), [], []

    async def one(number: int) -> None:
        async with budget.slot():
            order.append(number)
            under_way.append(number)
            await release.wait()
            under_way.remove(number)

    tasks = [asyncio.create_task(one(number)) for number in range(10)]
    for _ in range(50):
        await asyncio.sleep(0)
    assert under_way == [0, 1]
    tasks[2].cancel()
    release.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [0, 1, *range(3, 10)]


async def test_one_that_is_cancelled_in_the_queue_costs_no_place() -> None:
    budget = RequestBudget(RateLimits(qps=1000, burst=1000, concurrency=1), clock=ManualClock())
    async with budget.slot():
        waiting = asyncio.create_task(spend(budget, 1))
        await asyncio.sleep(0)
        waiting.cancel()
    assert await spend(budget, 1) == [0.0]


@given(st.integers(0, 2**32), st.integers(1, 200))
def test_backoff_stays_between_floor_and_a_ceiling_that_doubles(seed: int, attempts: int) -> None:
    backoff = Backoff(1.0, 60.0, random=random.Random(seed).random, floor=0.5)
    for attempt in range(attempts):
        assert 0.5 <= backoff.next() <= min(60.0, 2.0**attempt)
    backoff.reset()
    assert backoff.next() <= 1.0


def test_a_wait_is_doubled_up_to_a_cap() -> None:
    assert [doubled(1.0, 60.0, times) for times in (0, 1, 2, 5, 6, 7, 10_000)] == [1, 2, 4, 32, 60, 60, 60]


@given(st.integers(0, 2**32))
def test_jitter_spreads_around_the_period(seed: int) -> None:
    assert 8.0 <= jittered(10.0, random.Random(seed).random) <= 12.0
