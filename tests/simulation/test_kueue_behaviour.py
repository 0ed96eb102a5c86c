"""The queue that drives everything in a simulated cluster: order, timers, retries, and the loop around it."""

from __future__ import annotations

import asyncio

import pytest

from controlplane.clock import SystemClock
from controlplane.clusters.protocol import ApiError
from controlplane.kube.kinds import JOBS, JOBSETS, Json, Kind, meta
from controlplane.simulation.controllers.behaviour import Behaviour, Key, View
from tests.simulation.kueue_cluster import Cluster, ManualClock, job
from tests.support.waiting import PATIENCE


class Recorder(Behaviour):
    def __init__(self, clock: ManualClock | SystemClock | None = None) -> None:
        super().__init__("recorder", clock or ManualClock())
        self.handled: list[str] = []
        self.answers: dict[str, list[float | ApiError | None]] = {}

    def reconcile(self, key: Key) -> float | None:
        self.handled.append(key[0])
        answers = self.answers.get(key[0])
        answer = answers.pop(0) if answers else None
        if isinstance(answer, ApiError):
            raise answer
        return answer


def test_keys_are_handled_once_each_in_the_order_in_which_they_came() -> None:
    behaviour = Recorder()
    for name in "abcab":
        behaviour.enqueue((name,))
    assert behaviour.drain() == 3
    assert behaviour.handled == ["a", "b", "c"]


def test_a_delay_brings_a_key_back_when_it_is_due_and_the_earliest_counts() -> None:
    clock = ManualClock()
    behaviour = Recorder(clock)
    behaviour.answers = {"a": [5.0]}
    behaviour.enqueue(("a",))
    behaviour.drain()
    assert behaviour.next_due() == 5.0
    behaviour.enqueue_after(("a",), 9)
    assert behaviour.next_due() == 5.0
    behaviour.enqueue_after(("a",), 2)
    assert behaviour.next_due() == 2.0
    clock.move(2)
    behaviour.drain()
    assert behaviour.handled == ["a", "a"]
    assert behaviour.next_due() is None
    clock.move(100)
    assert behaviour.drain() == 0


def test_conflicts_are_retried_at_once_other_trouble_later_and_what_is_gone_never() -> None:
    clock = ManualClock()
    behaviour = Recorder(clock)
    behaviour.answers = {
        "conflict": [ApiError(409, "Conflict", "")] * 2,
        "gone": [ApiError(404, "NotFound", "")],
        "refused": [ApiError(422, "Invalid", "")] * 2,
    }
    for name in behaviour.answers:
        behaviour.enqueue((name,))
    behaviour.drain()
    assert behaviour.handled == ["conflict", "gone", "refused", "conflict", "conflict"]
    first = behaviour.next_due()
    assert first is not None
    assert first > 0
    clock.move(first)
    behaviour.drain()
    second = behaviour.next_due()
    assert second is not None
    assert second - first > first, "it backs off"
    clock.move(second)
    behaviour.drain()
    assert behaviour.handled.count("refused") == 3
    assert behaviour.next_due() is None


def test_an_endless_conflict_does_not_spin() -> None:
    behaviour = Recorder()
    behaviour.answers = {"a": [ApiError(409, "Conflict", "")] * 100}
    behaviour.enqueue(("a",))
    assert behaviour.drain() < 10
    assert behaviour.next_due() is not None


def test_what_never_settles_is_noticed() -> None:
    behaviour = Recorder()
    behaviour.answers = {"a": [0.0] * 100}
    behaviour.enqueue(("a",))
    with pytest.raises(RuntimeError, match="recorder did not settle within 10 steps"):
        behaviour.drain(10)


async def test_the_loop_wakes_for_marks_and_timers_and_ends_when_cancelled() -> None:
    behaviour = Recorder(SystemClock())
    task = asyncio.create_task(behaviour.run())

    async def until(names: list[str]) -> None:
        async with asyncio.timeout(PATIENCE):
            while behaviour.handled != names:
                await asyncio.sleep(0.001)

    behaviour.enqueue(("a",))
    await until(["a"])
    behaviour.enqueue_after(("b",), 0.01)
    await until(["a", "b"])
    behaviour.enqueue_after(("later",), 60)
    await asyncio.sleep(0)
    behaviour.enqueue(("c",))
    await until(["a", "b", "c"])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_view_announces_what_is_there_and_what_changes() -> None:
    cluster = Cluster()
    cluster.submit("a", queue="")
    view = View(cluster.store, (JOBS,))
    seen: list[tuple[str, str, str]] = []

    def name(obj: Json | None) -> str:
        return str(meta(obj)["name"]) if obj else "-"

    def listener(kind: Kind, old: Json | None, new: Json | None) -> None:
        seen.append((kind.kind, name(old), name(new)))

    view.listen(listener)
    view.start()
    cluster.store.create(JOBS, job("b"))
    cluster.store.patch(JOBS, "default", "b", {"metadata": {"labels": {"x": "y"}}})
    cluster.submit("s", kind=JOBSETS)
    cluster.store.delete(JOBS, "default", "a")
    assert seen == [("Job", "-", "a"), ("Job", "-", "b"), ("Job", "b", "b"), ("Job", "a", "-")]
    assert [place[1] for place in view.all(JOBS)] == ["b"]
    assert view.get(JOBSETS, "default", "s") is None
    view.stop()
    cluster.store.delete(JOBS, "default", "b")
    assert len(seen) == 4
