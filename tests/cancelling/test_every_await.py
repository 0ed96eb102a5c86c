"""Each coroutine of the shell, cancelled at each of its awaits, ends, and leaves no task behind.

One that waits for a task which it has cancelled itself must not take its own cancellation for the task's: it would run
on for ever, and a leader that was fenced would act on."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.app.workers import Workers
from controlplane.clusters import connections
from controlplane.clusters.budget import RequestBudget
from controlplane.clusters.concurrency import first_to_end, until_failure
from controlplane.clusters.connection import ClusterConnection
from controlplane.clusters.connections import Connections
from controlplane.clusters.dynamic_reader import Dynamic
from controlplane.clusters.management_connection import ManagementConnection
from controlplane.clusters.reflector import Reflector
from controlplane.clusters.sources import SecretSource
from controlplane.clusters.verbs import Executor
from controlplane.controllers.multikueue.observations import MultiKueueClusterObserved
from controlplane.kube.kinds import JOBS, NODES, ObjectRef, Request
from controlplane.kube.watches import WatchSpec
from controlplane.log.codec import Codec
from controlplane.log.memory import MemoryLog, MemoryStore
from controlplane.runtime import lifecycle
from controlplane.runtime.bodies import Bodies
from controlplane.runtime.effects import Effects
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from controlplane.runtime.lifecycle import LostLog, run_terms
from controlplane.runtime.reads import Reads
from controlplane.runtime.runner import Runner
from controlplane.tasks import end
from tests.cancelling.brisk import Clock, Server, fact, sink, surroundings
from tests.support.cancelling import Scene, Stage, cancelled_at_every_await
from tests.support.rows import each


async def _slow_to_end(turns: int = 3) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        for _ in range(turns):
            await asyncio.sleep(0)


async def _soon(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


@asynccontextmanager
async def ending() -> Stage:
    yield end(asyncio.create_task(_slow_to_end()), asyncio.create_task(_slow_to_end(6)), asyncio.create_task(_soon(2)))


@asynccontextmanager
async def racing() -> Stage:
    yield first_to_end(_soon(4), _slow_to_end(), _slow_to_end(5))


@asynccontextmanager
async def failing() -> Stage:
    yield until_failure(_soon(2), _soon(5), _slow_to_end())


@asynccontextmanager
async def reflector() -> Stage:
    around = surroundings()
    budget = RequestBudget(clock=around.clock, random=around.random)
    yield Reflector("w", WatchSpec(JOBS), sink, budget).run(Server("w"))  # type: ignore[arg-type]


@asynccontextmanager
async def link() -> Stage:
    found = ClusterConnection("w", SecretSource("s"), surroundings())
    found.want({WatchSpec(NODES): sink})
    yield found.run()


@asynccontextmanager
async def home() -> Stage:
    around = surroundings()

    async def opened() -> Any:
        await asyncio.sleep(0)
        return around.open_server("home", None)  # type: ignore[arg-type]

    yield ManagementConnection("home", opened, around).run()


@asynccontextmanager
async def comings_and_goings() -> Stage:
    """Clusters come, are followed for more, change and go."""
    found = Connections(surroundings())

    async def work() -> None:
        try:
            for name in ("a", "b", "c"):
                found.set(name, SecretSource(name))
            await _soon(30)
            found.want({"a": {WatchSpec(NODES): sink}})
            await _soon(30)
            found.want({})
            found.secret_changed("b")
            await _soon(10)
            await found.remove("a")
            found.set("a", SecretSource("other"))
            await found.remove("b")
            await found.remove("a")
            await found.run()
        finally:
            await found.close()

    yield work()


@asynccontextmanager
async def workers() -> Stage:
    """The driver of the connections, while MultiKueueClusters come and go: this is where the process did not hear that
    it should stop.
    """
    found = Connections(surroundings())
    clusters: dict[str, Any] = {}
    index = SimpleNamespace(clusters=clusters, changed_clusters=set())
    driver = Workers(SimpleNamespace(index=index), found, fact)  # type: ignore[arg-type]

    async def come_and_go() -> None:
        for turn in range(9):
            name = "abc"[turn % 3]
            if clusters.pop(name, None) is None:
                clusters[name] = MultiKueueClusterObserved(name=name, uid=name, resource_version="1", location=name)
            index.changed_clusters.add(name)
            driver.wake()
            await _soon(12)

    async def work() -> None:
        try:
            await driver.run()
        finally:
            await found.close()

    going = asyncio.create_task(come_and_go())
    yield work()
    await end(going)


@asynccontextmanager
async def executor() -> Stage:
    around = surroundings()
    found = Executor(Server("w"), RequestBudget(clock=around.clock, random=around.random))
    ref = ObjectRef(JOBS, "ns", "a")

    async def work() -> None:
        await found.execute(Request("patch", ref, {"metadata": {"uid": "u"}}))
        await found.execute(Request("delete", ref, uid="u"))
        with suppress(Exception):
            await found.execute(Request("create", ref, {"metadata": {"name": "a", "namespace": "ns"}}))
        await Dynamic(Server("w"), RequestBudget(clock=around.clock)).look("batch/v1", "Job", "ns", "a")

    yield work()


def _log(clock: Clock) -> MemoryLog:
    return MemoryLog(MemoryStore(), Codec(()), clock.now)


@asynccontextmanager
async def leader() -> Stage:
    clock = Clock()
    found = Leader(_log(clock), "me", clock, Gate())

    async def work() -> None:
        await found.acquire()
        try:
            await found.keep()
        finally:
            await found.release()

    yield work()


@asynccontextmanager
async def runner() -> Stage:
    clock, capability = Clock(), SimpleNamespace(take_dirty=list, fold=lambda recorded: None)
    yield Runner(_log(clock), capability, SimpleNamespace(), Gate(), clock).run()  # type: ignore[arg-type]


@asynccontextmanager
async def effects() -> Stage:
    """Closing, while writes are on their way, wait for their time, and stand before the gate."""
    clock, gate = Clock(), Gate()
    log = _log(clock)
    found = Effects(
        log,
        SimpleNamespace(),  # type: ignore[arg-type]
        Bodies(log),
        clock,
        gate,
        lambda cluster: None,
        rng=random.Random(1),
    )
    lane = SimpleNamespace(workers={asyncio.create_task(_slow_to_end(), name="write")}, held=set())
    found._lanes["w"] = lane  # type: ignore[assignment]
    found._later.add(asyncio.create_task(_slow_to_end(), name="later"))
    yield found.close(drain=0.0)


@asynccontextmanager
async def reads() -> Stage:
    clock = Clock()
    found = Reads(_log(clock), SimpleNamespace(), clock, lambda cluster: None, rng=random.Random(1))  # type: ignore[arg-type]
    found._under_way = {name: asyncio.create_task(_slow_to_end(), name=name) for name in "ab"}
    yield found.close()


@asynccontextmanager
async def turns() -> Stage:
    """A turn that takes its time to end, and a stop in the middle of it."""
    stop = asyncio.Event()

    async def term(stop: asyncio.Event) -> None:
        try:
            await asyncio.gather(_soon(4), stop.wait())
        finally:
            await _soon(5)

    async def work() -> None:
        async with AsyncExitStack() as stack:
            asker = asyncio.create_task(_soon(20))
            asker.add_done_callback(lambda _: stop.set())
            stack.push_async_callback(end, asker)
            await run_terms(term, stop, LostLog())

    yield work()


@asynccontextmanager
async def overdue_turn() -> Stage:
    """A turn that is out of time when it is asked to stop: it is cancelled, and what is heard meanwhile is meant for
    us.
    """
    stop = asyncio.Event()

    async def term(stop: asyncio.Event) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await _soon(5)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifecycle, "_DRAIN", 0.0)
        yield _after_one(run_terms(term, stop, LostLog()), stop)


async def _after_one(work: Any, stop: asyncio.Event) -> None:
    """Let the first turn begin before it is asked to stop."""
    asking = asyncio.create_task(_soon(3))
    asking.add_done_callback(lambda _: stop.set())
    try:
        await work
    finally:
        await end(asking)


SCENES = (
    ending,
    racing,
    failing,
    reflector,
    link,
    home,
    comings_and_goings,
    workers,
    executor,
    leader,
    runner,
    effects,
    reads,
    turns,
    overdue_turn,
)


@each("scene", SCENES, ids=lambda scene: scene.__name__)
def test_it_ends_wherever_it_is_cancelled(scene: Scene) -> None:
    assert cancelled_at_every_await(scene) > 1


async def _await_it(*tasks: asyncio.Task[Any]) -> None:
    """What stood in the place of `end`."""
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task


def test_the_pattern_that_overhears_its_own_end_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "end", _await_it)
    with pytest.raises(AssertionError, match="it did not end"):
        cancelled_at_every_await(workers)


def test_what_is_left_behind_is_found_out() -> None:
    @asynccontextmanager
    async def careless() -> Stage:
        async def work() -> None:
            task = asyncio.create_task(_slow_to_end(), name="forgotten")
            await _soon(2)
            task.cancel()

        yield work()

    with pytest.raises(AssertionError, match="it left behind \\['forgotten'\\]"):
        cancelled_at_every_await(careless)


def test_every_await_is_counted() -> None:
    ended: list[int] = []

    @asynccontextmanager
    async def counted() -> Stage:
        async def work() -> None:
            for number in range(5):
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    ended.append(number)
                    raise

        yield work()

    assert cancelled_at_every_await(counted) == 6
    assert ended == [0, 1, 2, 3, 4]
