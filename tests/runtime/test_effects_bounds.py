"""Effects: what keeps them from acting, how many act at once, what a fault costs, and how they end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from controlplane.clusters.protocol import Foreign, Unreachable
from controlplane.log.event import Append, Fenced, LogError, NewEvent, body_of
from controlplane.log.memory import MemoryLog
from controlplane.runtime import announcements
from controlplane.runtime.announcements import TRIES, YOUNG
from controlplane.runtime.controller import OpenWrite
from tests.runtime.bench import LONG, Bench, bench, no, settle
from tests.runtime.errands import VERSION, Began, Refused, asked, shown
from tests.support.waiting import PATIENCE


async def being_prepared(it: Bench) -> asyncio.Event:
    """Begin a write whose bodies are being read, until the returned event is set."""
    it.log.held_bodies = asyncio.Event()
    await it.tell(asked("a", body=body_of({"big": 1})))
    assert len(it.log.bodies_asked) == 1
    assert not it.east.requests
    return it.log.held_bodies


# --- what keeps effects from acting ----------------------------------------------------------------------------------


async def test_writes_to_an_absent_cluster_are_put_aside_until_it_is_back(running: Bench) -> None:
    del running.clusters["east"]
    await running.tell(asked("a"), asked("b"), asked("c", cluster="west"))
    await running.pass_(LONG)
    assert running.west.names[0] == "c"
    assert running.effects.open_by_cluster()["east"] == 2
    await running.tell(shown("b"))
    running.clusters["east"] = running.east
    running.effects.cluster_back("east")
    running.effects.cluster_back("never heard of")
    await settle()
    assert running.east.names == ["a"], "what was settled in the meantime stays undone"
    assert running.effects.open_by_cluster()["east"] == 0


async def test_a_closed_gate_stops_effects_and_loses_none(running: Bench) -> None:
    running.gate.set("mass outage", ok=False)
    await running.tell(asked("a"), asked("b", cluster="west"))
    await running.pass_(LONG)
    assert not running.east.requests
    assert not running.west.requests
    assert running.effects.open_by_cluster() == {"east": 1, "west": 1}
    running.gate.set("mass outage", ok=True)
    await settle()
    assert (running.east.names, running.west.names) == (["a"], ["b"])


async def test_a_gate_that_closes_while_a_write_is_prepared_stops_it(running: Bench) -> None:
    bodies = await being_prepared(running)
    running.gate.set("leader", ok=False)
    bodies.set()
    await running.pass_(5.0)
    assert not running.east.requests
    running.gate.set("leader", ok=True)
    await running.pass_(1.0)
    assert running.east.names == ["a"]


async def test_who_is_not_sure_to_lead_does_not_act(running: Bench) -> None:
    running.sure = False
    await running.tell(asked("a"))
    await running.pass_(5.0)
    assert not running.east.requests
    running.sure = True
    await running.pass_(0.5)
    assert running.east.names == ["a"]


async def test_a_write_that_was_closed_before_the_gate_is_not_carried_out(running: Bench) -> None:
    running.gate.set("mass outage", ok=False)
    await running.tell(asked("a"), asked("b"))
    await running.tell(shown("a"))
    running.gate.set("mass outage", ok=True)
    await settle()
    assert running.east.names == ["b"]


async def test_a_write_that_was_closed_in_the_queue_is_not_carried_out() -> None:
    async with bench(concurrency=1) as it:
        it.east.held = asyncio.Event()
        await it.tell(asked("a"), asked("b"), asked("c"))
        assert it.east.names == ["a"]
        await it.tell(shown("b"))
        it.east.held.set()
        await settle()
        assert it.east.names == ["a", "c"]


async def test_a_write_that_was_closed_while_its_bodies_were_read_is_not_carried_out(running: Bench) -> None:
    bodies = await being_prepared(running)
    await running.tell(shown("a"))
    bodies.set()
    await running.pass_(LONG)
    assert not running.east.requests


# --- bodies ----------------------------------------------------------------------------------------------------------


async def test_a_request_is_given_the_bodies_that_it_needs(running: Bench) -> None:
    body = body_of({"spec": {"parallelism": 3}})
    await running.tell(asked("a", body=body))
    assert running.capability.given["a"] == {body.ref: b'{"spec":{"parallelism":3}}'}


async def test_bodies_that_cannot_be_read_are_asked_for_again(running: Bench) -> None:
    bodies = await being_prepared(running)
    running.log.away = True
    bodies.set()
    await running.pass_(5.0)
    assert not running.east.requests
    assert len(running.log.bodies_asked) == 1, "the loop has closed the gate by now"
    running.log.away = False
    await running.pass_(3.0)
    assert running.east.names == ["a"]


# --- faults ----------------------------------------------------------------------------------------------------------


async def test_a_fence_met_by_an_outcome_ends_the_turn(running: Bench) -> None:
    running.east.held = asyncio.Event()
    running.east.answers.append(no(422))
    await running.tell(asked("a"))
    await MemoryLog(running.store, running.log._codec, running.clock.now).take_epoch("another")
    running.east.held.set()
    await settle()
    failure = running.effects.failure
    assert failure is not None
    assert isinstance(failure.exception(), Fenced)
    assert not running.events(Refused)


async def test_an_outcome_that_the_log_refuses_is_tried_again_later_and_stops_nobody(running: Bench) -> None:
    async def refuse(request: Append) -> None:
        if any(isinstance(new.event, Refused) for new in request.events):
            raise LogError("the database refused an append")

    running.log.before_append = refuse
    running.east.answers.append(no(422))
    await running.tell(asked("a"), asked("b"))
    await running.tell(shown("b"))
    assert running.east.names == ["a", "b"]
    running.log.before_append = None
    running.east.answers.append(no(422))
    await running.pass_(29.0)
    assert len(running.east.requests) == 2
    await running.pass_(2.0)
    assert len(running.events(Refused)) == 1
    assert running.effects.failure is not None
    assert not running.effects.failure.done()


@pytest.mark.parametrize("where", ["rendering", "the client"])
async def test_a_fault_on_one_write_does_not_stop_the_others(where: str) -> None:
    async with bench(concurrency=1) as it:
        if where == "rendering":
            it.capability.unrenderable.add("a")
        else:
            it.east.answers.append(ZeroDivisionError())
        await it.tell(asked("a"), asked("b"))
        assert it.east.ended == ["b"]
        it.capability.unrenderable.clear()
        await it.tell(shown("b"))
        await it.pass_(29.0)
        assert it.east.ended == ["b"]
        await it.pass_(2.0)
        assert it.east.ended == ["b", "a"]


# --- lanes -----------------------------------------------------------------------------------------------------------


async def test_no_more_than_so_many_writes_to_a_cluster_are_under_way() -> None:
    async with bench(concurrency=3) as it:
        it.east.held = asyncio.Event()
        names = [f"job-{number}" for number in range(10)]
        await it.tell(*[asked(name) for name in names])
        assert it.east.names == names[:3]
        assert it.effects.open_by_cluster() == {"east": 10}
        it.east.held.set()
        await settle()
        assert it.east.ended == names
        assert it.east.most == 3


async def test_of_writes_that_ended_nothing_is_remembered(running: Bench) -> None:
    """A cluster whose webhook is away refuses the same writes for a week."""
    running.capability.events.add("told")
    running.east.answers += [no(503, "")] * 5
    await running.tell(asked("a"), asked("told"), asked("b", "patch"))
    await running.pass_(LONG)
    running.east.answers += [Unreachable("cut"), no(422, "Invalid"), {"metadata": {"resourceVersion": VERSION}}]
    await running.tell(asked("c"), asked("d", "patch"))
    await running.pass_(LONG)
    await running.tell(*(shown(name) for name in "abcd"))
    await running.pass_(LONG)
    assert {write.__name__ for write in map(type, running.events())} >= {"Refused", "Unneeded", "Shown"}
    held = [one for one in vars(running.effects).values() if isinstance(one, set | dict | list) and one]
    assert [one for kept in held for one in kept if isinstance(one, OpenWrite)] == []


async def test_a_slow_cluster_does_not_delay_another() -> None:
    async with bench(concurrency=2) as it:
        it.east.held = asyncio.Event()
        await it.tell(*[asked(f"east-{number}") for number in range(6)])
        await it.tell(*[asked(f"west-{number}", cluster="west") for number in range(6)])
        assert len(it.west.ended) == 6
        assert it.east.names == ["east-0", "east-1"]


@pytest.mark.parametrize("steps", range(12))
async def test_whenever_a_write_comes_somebody_carries_it_out(steps: int) -> None:
    """Also in the moment in which the only worker has found nothing more to do, and still counts as one."""
    it = Bench(concurrency=1)
    await it.log.take_epoch("bench")
    await it.tell(
        asked("a"), asked("b"), *[NewEvent(stream=name, event=Began(cluster="east", verb="create")) for name in "ab"]
    )
    await it.runner.follow()
    it.effects.sync("a")
    for _ in range(steps):
        await asyncio.sleep(0)
    it.effects.sync("b")
    await settle()
    assert it.east.ended == ["a", "b"]
    await it.close()


# --- announcements ---------------------------------------------------------------------------------------------------


async def test_an_announcement_follows_a_success(running: Bench) -> None:
    await running.tell(asked("a", announced=True))
    assert running.east.names == ["a", "a-told"]
    await running.tell(shown("a"))
    await running.pass_(LONG)
    assert running.east.names == ["a", "a-told"]


async def test_an_announcement_survives_a_watch_that_is_quicker_than_the_answer(running: Bench) -> None:
    running.east.held = asyncio.Event()
    await running.tell(asked("a", announced=True))
    await running.tell(shown("a"))
    running.east.held.set()
    await running.pass_(LONG)
    assert running.east.names == ["a", "a-told"]


@pytest.mark.parametrize("trouble", [no(422), no(409), no(403), Foreign("not ours", {})], ids=repr)
async def test_an_announcement_is_best_effort(running: Bench, trouble: Exception) -> None:
    running.east.answers.extend([{"metadata": {"resourceVersion": "8"}}, trouble])
    with capture_logs() as logs:
        await running.tell(asked("a", announced=True))
    assert not logs, "nobody is told of a fault"
    await running.tell(shown("a"))
    await running.pass_(LONG)
    assert running.east.names == ["a", "a-told"]
    assert not running.events(Refused)


@pytest.mark.parametrize("trouble", [no(429), no(503), no(401), Unreachable("may not lead any more")], ids=repr)
async def test_an_announcement_that_nobody_answered_is_told_again(running: Bench, trouble: Exception) -> None:
    ok = {"metadata": {"resourceVersion": "8"}}
    running.east.answers.extend([ok, trouble, ok, trouble])
    await running.tell(asked("a", announced=True))
    await running.tell(asked("b"))
    assert running.east.names == ["a", "a-told", "b"], "nothing waits for it"
    await running.tell(shown("a"), shown("b"))
    await running.pass_(LONG)
    assert running.east.names == ["a", "a-told", "b", "a-told", "a-told"]
    assert not running.events(Refused)


async def test_an_announcement_is_let_go_when_it_is_no_news_any_more(running: Bench) -> None:
    running.east.answers.append({"metadata": {"resourceVersion": "8"}})
    running.east.answers.extend([Unreachable("cut")] * 100)
    await running.tell(asked("a", announced=True))
    await running.tell(shown("a"))
    for _ in range(10):
        await running.pass_(YOUNG / 5)
    told = running.east.names.count("a-told")
    assert 2 < told <= TRIES
    await running.pass_(YOUNG)
    assert running.east.names.count("a-told") == told


async def test_no_more_announcements_wait_than_there_may(running: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "MOST", 1)
    ok = {"metadata": {"resourceVersion": "8"}}
    running.east.answers.extend([ok, Unreachable("cut"), ok, Unreachable("cut")])
    await running.tell(asked("a", announced=True))
    await running.tell(asked("b", announced=True))
    await running.tell(shown("a"), shown("b"))
    await running.pass_(LONG)
    assert running.east.names == ["a", "a-told", "b", "b-told", "a-told"]


async def test_nothing_is_told_while_this_process_may_not_act(running: Bench) -> None:
    running.east.answers.extend([{"metadata": {"resourceVersion": "8"}}, Unreachable("may not lead any more")])
    await running.tell(asked("a", announced=True))
    await running.tell(shown("a"))
    await running.effects.close()
    await running.pass_(LONG)
    assert running.east.names == ["a", "a-told"]


@pytest.mark.parametrize("trouble", [no(422), no(401), Unreachable("cut")], ids=repr)
async def test_nothing_is_announced_before_a_success(running: Bench, trouble: Exception) -> None:
    running.east.answers.append(trouble)
    await running.tell(asked("a", announced=True))
    assert running.east.names == ["a"]


# --- the end ---------------------------------------------------------------------------------------------------------


async def closing(it: Bench, drain: float) -> asyncio.Task[Any]:
    task = asyncio.create_task(it.effects.close(drain))
    await settle()
    return task


async def test_closing_lets_what_is_on_its_way_end_and_starts_nothing_more() -> None:
    async with bench(concurrency=1) as it:
        it.east.held = asyncio.Event()
        it.west.answers.append(Unreachable("cut"))
        await it.tell(asked("a", announced=True), asked("b"), asked("c", cluster="west"))
        closed = await closing(it, 5.0)
        assert not closed.done()
        await it.tell(asked("d"))
        it.east.held.set()
        await asyncio.wait_for(closed, PATIENCE)
        await settle()
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("effects")]
        await it.pass_(LONG)
        assert it.east.ended == ["a"], "neither the next in the queue, nor what came later, nor an announcement"
        assert it.west.names == ["c"], "nor what waited for its time"


async def test_closing_cancels_what_is_late(running: Bench) -> None:
    running.east.held = asyncio.Event()
    await running.tell(asked("a"))
    await asyncio.wait_for(await closing(running, 0.01), PATIENCE)
    assert running.east.under_way == 0
    assert not running.east.ended


async def test_closing_does_not_wait_for_who_waits_before_the_gate(running: Bench) -> None:
    running.gate.set("mass outage", ok=False)
    await running.tell(asked("a"))
    closed = await closing(running, 60.0)
    assert closed.done()
    running.gate.set("mass outage", ok=True)
    await running.pass_(LONG)
    assert not running.east.requests


async def test_closing_stops_a_write_that_is_still_being_prepared(running: Bench) -> None:
    bodies = await being_prepared(running)
    closed = await closing(running, 60.0)
    bodies.set()
    await asyncio.wait_for(closed, PATIENCE)
    assert not running.east.requests
