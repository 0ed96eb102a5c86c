"""The runner: only what is committed is folded, only what is folded is decided on, and one stream's trouble stays
there.
"""

from __future__ import annotations

import asyncio

import pytest

from controlplane.log.event import Append, Fenced, LogError
from controlplane.log.memory import MemoryLog, MemoryStore
from tests.runtime.bench import Bench, ManualClock, bench, settle
from tests.runtime.errands import Asked, Began, Shown, asked, shown


async def test_every_stream_is_decided_about_in_batches_and_slices() -> None:
    async with bench(slice_=3, batch=4) as it:
        names = [f"job-{number}" for number in range(11)]
        await it.tell(*[asked(name) for name in names])
        assert it.east.names == names
        assert sum(it.folded) == 22
        assert max(it.folded) == 4
        assert it.runner.position == 22


async def test_a_stream_whose_decision_fails_does_not_stop_the_others_and_is_tried_later(running: Bench) -> None:
    running.capability.broken.add("a")
    await running.tell(asked("a"), asked("b"))
    assert running.east.names == ["b"]
    assert running.failed == ["a"]
    await running.tell(shown("b"))
    running.capability.broken.clear()
    await running.pass_(29.0)
    assert running.east.names == ["b"]
    await running.pass_(2.0)
    assert running.east.names == ["b", "a"]


async def test_a_stream_whose_decision_failed_is_tried_when_it_changes(running: Bench) -> None:
    running.capability.broken.add("a")
    await running.tell(asked("a"))
    running.capability.broken.clear()
    await running.tell(asked("a"))
    assert running.east.names == ["a"]


async def test_a_stream_is_woken_at_its_time(running: Bench) -> None:
    await running.tell(asked("late", after=7.3), asked("early", after=2.6))
    await running.pass_(2.5)
    assert not running.east.requests
    await running.pass_(0.2)
    assert running.east.names == ["early"]
    await running.tell(shown("early"))
    await running.pass_(4.5)
    assert running.east.names == ["early"]
    await running.pass_(0.2)
    assert running.east.names == ["early", "late"]


async def test_the_newest_wake_of_a_stream_holds(running: Bench) -> None:
    await running.tell(asked("a", after=5.0))
    await running.tell(asked("a", after=20.0))
    asked_about = len(running.capability.decided)
    await running.pass_(19.0)
    assert len(running.capability.decided) == asked_about, "the first one is void"
    await running.pass_(1.5)
    assert running.east.names == ["a"]


async def test_nothing_is_decided_while_nothing_happens(running: Bench) -> None:
    await running.tell(asked("a"))
    await running.tell(shown("a"))
    asked_about, position = len(running.capability.decided), running.runner.position
    await running.pass_(300.0)
    assert len(running.capability.decided) == asked_about
    assert running.runner.position == position


async def test_a_decision_that_was_overtaken_is_taken_again_after_folding(running: Bench) -> None:
    """The wish changes between the fold and the append: what was decided on the old one must not stand."""

    async def overtake(request: Append) -> None:
        running.log.before_append = None
        await MemoryLog.append(running.log, Append([asked("a", "delete", "west")]))

    running.log.before_append = overtake
    await running.tell(asked("a", "create", "east"))
    assert running.events() == [
        Asked(verb="create", cluster="east"),
        Asked(verb="delete", cluster="west"),
        Began(verb="delete", cluster="west"),
    ]
    assert not running.east.requests
    assert running.west.names == ["a"]


async def test_a_conflict_on_one_stream_does_not_touch_the_decisions_on_others(running: Bench) -> None:
    async def settle_a(request: Append) -> None:
        running.log.before_append = None
        await MemoryLog.append(running.log, Append([shown("a")]))

    running.log.before_append = settle_a
    await running.tell(asked("a"), asked("b"))
    assert running.east.names == ["b"]
    assert len(running.events(Began)) == 1


async def test_a_decision_that_rests_on_another_stream_is_taken_again_when_that_one_went_on(running: Bench) -> None:
    """What came on the other stream may be no news to this one, so nothing else would ask about it again."""

    async def go_on_there(request: Append) -> None:
        running.log.before_append = None
        await MemoryLog.append(running.log, Append([shown("beside")]))

    await running.tell(shown("beside"))
    running.capability.beside = "beside"
    running.log.before_append = go_on_there
    await running.tell(asked("a"))
    await running.pass_(0.2)
    assert running.east.names == ["a"]
    assert [event for event in running.events() if isinstance(event, (Began, Shown))] == [
        Shown(),
        Shown(),
        Began(verb="create", cluster="east"),
    ]


async def test_a_decision_that_the_log_does_not_take_is_tried_again(running: Bench) -> None:
    async def refuse(request: Append) -> None:
        if request.events[0].stream == "a":
            raise LogError("the database refused an append")

    running.log.before_append = refuse
    await running.tell(asked("a"), asked("b"))
    assert running.east.names == ["b"]
    await running.tell(shown("b"))
    running.log.before_append = None
    await running.pass_(4.5)
    assert running.east.names == ["b"]
    await running.pass_(1.0)
    assert running.east.names == ["b", "a"]


async def test_a_fence_ends_the_run() -> None:
    async with bench() as it:
        run = it.running
        assert run is not None
        other = MemoryLog(it.store, it.log._codec, it.clock.now)
        await other.take_epoch("another")
        await other.append(Append([asked("a")]))
        await settle()
        assert isinstance(run.exception(), Fenced)
        assert not it.east.requests
        assert not it.events(Began)


async def test_a_log_that_does_not_answer_closes_the_gate_until_it_does(running: Bench) -> None:
    await settle()
    running.log.away = True
    await running.pass_(3.0)
    assert running.gate.against("log") == "connection refused"
    await running.tell(asked("a"))
    await running.pass_(10.0)
    assert not running.capability.decided
    running.log.away = False
    await running.pass_(1.0)
    assert running.gate.is_open
    assert running.east.names == ["a"]


async def test_a_log_that_stops_answering_while_it_is_waited_for_does_not_end_the_run(running: Bench) -> None:
    await settle()
    running.log.away = True
    await running.tell(asked("a"))
    assert running.running is not None
    assert not running.running.done()
    running.log.away = False
    await running.pass_(3.0)
    assert running.east.names == ["a"]


# --- a new leader ----------------------------------------------------------------------------------------------------


async def written() -> tuple[MemoryStore, ManualClock]:
    """A log whose leader died after it had begun `a` and finished `b`; nobody has decided about `c`."""
    async with bench() as before:
        await before.tell(asked("a"), asked("b"))
        await before.tell(shown("b"))
    await before.tell(asked("c"))
    return before.store, before.clock


async def test_catching_up_folds_and_decides_nothing() -> None:
    store, clock = await written()
    after = Bench(store, clock, batch=2)
    head = await after.log.take_epoch("after")
    seen: list[int] = []
    await after.runner.catch_up(head.position, seen.append)
    assert seen == [2, 4, 6]
    assert after.runner.position == head.position == 6
    assert not after.capability.decided
    assert not after.east.requests
    assert len(store.rows) == 6


async def test_catching_up_past_the_end_is_an_error() -> None:
    store, clock = await written()
    after = Bench(store, clock)
    with pytest.raises(LogError, match="ends at 6, before 7"):
        await after.runner.catch_up(7)


async def test_catching_up_waits_for_a_log_that_does_not_answer() -> None:
    store, clock = await written()
    after = Bench(store, clock)
    after.log.away = True
    catching_up = asyncio.create_task(after.runner.catch_up(6))
    await clock.pass_(10.0)
    assert not catching_up.done()
    after.log.away = False
    await clock.pass_(2.0)
    await catching_up
    assert after.runner.position == 6


async def test_following_folds_what_there_is_and_decides_nothing() -> None:
    store, clock = await written()
    follower = Bench(store, clock, batch=4)
    await follower.runner.follow()
    assert follower.runner.position == 6
    assert follower.capability.errands["a"].open is not None
    assert not follower.capability.decided


async def test_a_new_leader_takes_up_what_was_begun_and_decides_what_was_not() -> None:
    store, clock = await written()
    after = Bench(store, clock)
    head = await after.log.take_epoch("after")
    await after.runner.catch_up(head.position)
    after.run()
    await settle()
    assert sorted(after.east.names) == ["a", "c"]
    assert [type(event) for event in after.events()][-3:] == [Shown, Asked, Began]
    await after.close()


# --- what follows from what is not committed yet ----------------------------------------------------------------------


async def test_what_follows_is_committed_with_what_it_follows_from_and_carried_out_once() -> None:
    async with bench(anticipates=True) as it:
        await it.tell(asked("a"), asked("b"))
        assert [(row[0].stream, type(row[0].event)) for row in it.store.rows] == [
            ("a", Asked),
            ("b", Asked),
            ("a", Began),
            ("b", Began),
        ]
        assert it.east.names == ["a", "b"]
        await it.tell(shown("a"))
        await it.pass_(60.0)
        assert it.east.names.count("a") == 1
        assert len(it.events(Began)) == 2


async def test_what_cannot_be_anticipated_is_decided_once_it_is_folded() -> None:
    async with bench(anticipates=True) as it:
        it.capability.broken.add("a")
        await it.tell(asked("a"), asked("b"))
        assert it.east.names == ["b"]
        assert set(it.failed) == {"a"}
        await it.tell(shown("b"))
        it.capability.broken.clear()
        await it.pass_(31.0)
        assert it.east.names == ["b", "a"]


async def test_a_decision_that_others_overtook_is_taken_again_once_they_are_folded() -> None:
    async with bench(anticipates=True) as it:
        await it.tell(asked("other", cluster="west"))
        it.capability.beside = "other"
        await it.tell(shown("other"), asked("a"))
        await it.pass_(1.0)
        assert it.east.names == ["a"]
        assert len(it.events(Began)) == 2


async def test_a_loop_that_has_ended_is_asked_no_more() -> None:
    async with bench(anticipates=True) as it:
        running = it.running
        assert running is not None
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await it.tell(asked("a"))
        assert not it.events(Began)
