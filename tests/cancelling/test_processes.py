"""The service and the scheduler as wholes: at any await of a turn, and at any moment, they end, close what they opened,
and leave nothing.

Clusters and log are in memory, so that the same number is the same moment each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager

import pytest

from controlplane.tasks import end
from tests.cancelling.whole import Process, Stage, staged, the_scheduler, the_service
from tests.support.cancelling import Scene, Work, cancelled_at_every_await, interrupted_after
from tests.support.cancelling import Stage as Given
from tests.support.deep import deep_after, deep_but

# Moments that do not come in step with anything: every turn of the loop at first, where it starts, and then some
# primes.
_PRIMES = [number for number in range(24, 420) if all(number % by for by in range(2, 21))]
MOMENTS = [*range(24), *_PRIMES[::3]]
#: Each third of them; `make test-deep` has the others.
WHEN = pytest.mark.parametrize(
    "moments",
    deep_after(
        1,
        [MOMENTS[::6], [moment for place, moment in enumerate(MOMENTS) if place % 6]],
        ids=["a sixth", "the others"],
    ),
)
PROCESSES = (the_service, the_scheduler)

Course = Callable[[Stage], Work]


async def leading(stage: Stage) -> None:
    """What happens beside it: nothing."""


async def following(stage: Stage) -> None:
    """Another one leads."""
    await stage.another_leads()


async def losing(stage: Stage) -> None:
    """It leads, and then another one does."""
    while not stage.leads:
        await asyncio.sleep(0)
    for _ in range(60):
        await asyncio.sleep(0)
    await stage.another_leads()


async def closing(stage: Stage) -> None:
    """It is asked to stop while it leads."""
    while not stage.leads:
        await asyncio.sleep(0)
    for _ in range(60):
        await asyncio.sleep(0)
    stage.stop.set()


COURSES = (leading, following, losing, closing)


def scene(process: Process, course: Course, work: Callable[[Stage], Work], kept: list[Stage] | None = None) -> Scene:
    @asynccontextmanager
    async def set_up() -> Given:
        with staged(process) as stage:
            if kept is not None:
                kept.append(stage)
            beside = [asyncio.create_task(one, name="beside") for one in (stage.clock.run(), course(stage))]
            yield work(stage)
            await end(*beside)

    return set_up


@pytest.mark.parametrize(
    ("process", "course"),
    deep_but(
        {(process, course) for process in PROCESSES for course in COURSES} - {(the_service, leading)},
        [(process, course) for process in PROCESSES for course in COURSES],
    ),
    ids=lambda one: one.__name__,
)
def test_a_turn_ends_wherever_it_is_cancelled(process: Process, course: Course) -> None:
    assert cancelled_at_every_await(scene(process, course, Stage.turn)) > 1


@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.__name__)
def test_a_process_that_is_cancelled_while_it_stops_ends_as_cancelled(process: Process) -> None:
    assert cancelled_at_every_await(scene(process, closing, Stage.run)) > 1


@WHEN
@pytest.mark.parametrize("course", COURSES, ids=lambda course: course.__name__)
@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.__name__)
def test_it_ends_whenever_it_is_cancelled(process: Process, course: Course, moments: list[int]) -> None:
    interrupted_after(moments, scene(process, course, Stage.run))


@WHEN
@pytest.mark.parametrize("course", COURSES, ids=lambda course: course.__name__)
@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.__name__)
def test_it_ends_whenever_it_is_asked_to_stop(process: Process, course: Course, moments: list[int]) -> None:
    kept: list[Stage] = []
    ended = interrupted_after(moments, scene(process, course, Stage.run, kept), lambda task: kept[-1].stop.set())
    assert set(ended) == {"ended"}


async def _course(process: Process) -> tuple[set[str], set[str]]:
    with staged(process) as stage:
        time, running = asyncio.create_task(stage.clock.run()), asyncio.create_task(stage.run())
        for _ in range(MOMENTS[-1]):
            await asyncio.sleep(0)
        said = {type(new.event).__name__ for new, *_ in stage.store.rows}
        done = {request for cluster in stage.opened for request in cluster.asked}
        stage.stop.set()
        await running
        await end(time)
    return said, done


def test_there_is_something_to_interrupt() -> None:
    said, done = asyncio.run(_course(the_service))
    assert {"ClusterConnected", "NominationDecided", "ConditionDecided"} <= said
    assert "patch workloads" in done
    said, done = asyncio.run(_course(the_scheduler))
    assert {"NodeReserved", "BindingDecided"} <= said
    assert "post pods" in done
