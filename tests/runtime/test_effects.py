"""Effects: each decided write reaches its cluster once, and again only for a reason; what a cluster says no to is in
the log.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controlplane.clusters.protocol import Foreign, Unreachable
from controlplane.kube.kinds import Verb
from controlplane.log.event import NewEvent
from tests.runtime.bench import LONG, Bench, bench, no, settle
from tests.runtime.errands import PAUSE, VERSION, Asked, Began, Refused, Unneeded, asked, shown

# --- once, and when again --------------------------------------------------------------------------------------------


async def test_a_write_that_shows_is_carried_out_once(running: Bench) -> None:
    await running.tell(asked("a"))
    assert running.east.names == ["a"]
    await running.tell(shown("a"))
    await running.pass_(LONG)
    assert running.east.names == ["a"]
    assert running.outcomes == [("east", "create", "done")]


async def test_a_write_that_does_not_show_is_repeated_when_its_time_is_over() -> None:
    async with bench(settle=15.0) as it:
        await it.tell(asked("a"))
        await it.pass_(14.9)
        assert it.east.names == ["a"]
        await it.pass_(0.2)
        assert it.east.names == ["a", "a"]
        await it.pass_(15.0)
        assert it.east.names == ["a", "a", "a"]
        await it.tell(shown("a"))
        await it.pass_(LONG)
        assert len(it.east.requests) == 3
        assert len(it.events(Began)) == 1, "repeating decides nothing"


async def test_news_about_a_stream_does_not_carry_out_what_is_under_way(running: Bench) -> None:
    """The stream is looked at again at each of its events; only a new decision is a new write."""
    running.east.held = asyncio.Event()
    await running.tell(asked("a"))
    running.effects.sync("a")
    running.effects.sync("a")
    await settle()
    assert running.east.names == ["a"]


async def test_a_new_decision_about_the_same_target_is_a_new_write(running: Bench) -> None:
    await running.tell(asked("a"))
    await running.tell(asked("a", "delete"))
    assert [request.verb for request in running.east.requests] == ["create", "delete"]
    await running.tell(shown("a"))
    await running.pass_(LONG)
    assert len(running.east.requests) == 2


async def test_a_write_that_took_the_place_of_another_between_two_looks_is_a_new_one() -> None:
    it = Bench()
    await it.log.take_epoch("bench")
    verbs: tuple[Verb, ...] = ("create", "delete")
    for verb in verbs:
        await it.tell(asked("a", verb), NewEvent(stream="a", event=Began(cluster="east", verb=verb)))
        await it.runner.follow()
        it.effects.sync("a")
        await settle()
    assert [request.verb for request in it.east.requests] == ["create", "delete"]
    await it.close()


async def test_no_answer_is_tried_again_and_says_nothing_in_the_log(running: Bench) -> None:
    running.east.answers.extend([Unreachable("cut"), Unreachable("cut")])
    await running.tell(asked("a"))
    assert running.east.names == ["a"]
    await running.pass_(0.4)
    assert running.east.names == ["a"], "not at once"
    await running.pass_(4.0)
    assert running.east.names == ["a", "a", "a"]
    assert [type(event) for event in running.events()] == [Asked, Began]
    assert [outcome for _, _, outcome in running.outcomes] == ["unreachable", "unreachable", "done"]


@pytest.mark.parametrize("told_before", [False, True])
async def test_an_event_is_settled_by_its_answer_since_nobody_watches_events(running: Bench, told_before: bool) -> None:
    running.capability.events.add("a")
    if told_before:
        running.east.answers.append(no(409, "AlreadyExists"))
    await running.tell(asked("a"))
    await running.pass_(LONG)
    assert running.east.names == ["a"]
    assert [type(event) for event in running.events()] == [Asked, Began, Unneeded]
    assert running.outcomes == [("east", "create", "done")]


# --- an API server's no ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "status"), [("create", 422), ("create", 403), ("create", 409), ("patch", 422), ("delete", 403)]
)
async def test_a_no_is_recorded_once_and_after_a_pause_decided_anew(running: Bench, verb: Verb, status: int) -> None:
    running.east.answers.append(no(status, "Because"))
    await running.tell(asked("a", verb))
    assert running.events(Refused) == [Refused(code=status, error="Because", message=f"no: {status}")]
    await running.pass_(PAUSE - 0.5)
    assert running.east.names == ["a"]
    assert len(running.events(Began)) == 1
    await running.pass_(1.0)
    assert running.east.names == ["a", "a"]
    assert [type(event) for event in running.events()] == [Asked, Began, Refused, Began]
    assert running.outcomes == [("east", verb, "refused"), ("east", verb, "done")]


async def test_a_no_without_a_reason_is_recorded_by_its_number_and_names_its_decision(running: Bench) -> None:
    running.east.answers.append(no(500))
    await running.tell(asked("a"))
    last = (await running.log.read(2))[0]
    assert last.event == Refused(code=500, error="500", message="no: 500")
    assert last.caused_by == 2


@pytest.mark.parametrize("before", [Unreachable("cut"), {"metadata": {"resourceVersion": "8"}}])
async def test_a_no_to_a_write_that_was_sent_before_says_so(running: Bench, before: Any) -> None:
    running.east.answers.extend([before, no(403)])
    await running.tell(asked("a"))
    await running.pass_(LONG)
    assert [one.sent_before for one in running.events(Refused)] == [True]  # type: ignore[union-attr]


async def test_a_no_after_a_conflict_does_not() -> None:
    async with bench() as it:
        it.east.answers.extend([no(409, "Conflict"), no(409, "Conflict")])
        await it.tell(asked("a", "patch"))
        await it.pass_(5.0)
        assert [one.sent_before for one in it.events(Refused)] == [False]  # type: ignore[union-attr]


async def test_what_another_process_decided_may_have_been_sent_by_it() -> None:
    async with bench() as it:
        it.effects.inherited = 10
        it.east.answers.append(no(403))
        await it.tell(asked("a"))
        assert [one.sent_before for one in it.events(Refused)] == [True]  # type: ignore[union-attr]


async def test_a_no_to_what_the_watch_has_settled_is_not_recorded(running: Bench) -> None:
    running.east.held = asyncio.Event()
    running.east.answers.append(no(422))
    await running.tell(asked("a"))
    await running.tell(shown("a"))
    running.east.held.set()
    await running.pass_(LONG)
    assert not running.events(Refused)
    assert running.east.names == ["a"]


async def test_what_is_not_ours_is_recorded_as_foreign(running: Bench) -> None:
    running.east.answers.append(Foreign("somebody else's", {}))
    await running.tell(asked("a"))
    assert running.events(Refused) == [Refused(code=409, error="Foreign", message="somebody else's")]


@pytest.mark.parametrize("status", [404, 409])
@pytest.mark.parametrize("verb", ["patch", "delete"])
async def test_a_conflict_waits_for_the_news_that_explains_it(running: Bench, verb: Verb, status: int) -> None:
    running.east.answers.append(no(status))
    await running.tell(asked("a", verb))
    await running.pass_(1.5)
    assert running.east.names == ["a"]
    await running.tell(shown("a"))
    await running.pass_(LONG)
    assert running.east.names == ["a"]
    assert not running.events(Refused)
    assert running.outcomes == [("east", verb, "conflict")]


@pytest.mark.parametrize("status", [404, 409])
@pytest.mark.parametrize("verb", ["patch", "delete"])
async def test_a_conflict_that_nothing_explains_is_recorded(running: Bench, verb: Verb, status: int) -> None:
    running.east.answers.extend([no(status), no(status)])
    await running.tell(asked("a", verb))
    assert not running.events(Refused)
    await running.pass_(2.5)
    assert len(running.events(Refused)) == 1
    assert running.east.names == ["a", "a"]
    await running.pass_(PAUSE)
    assert len(running.events(Began)) == 2
    assert [outcome for _, _, outcome in running.outcomes] == ["conflict", "refused", "done"]


async def test_a_conflict_of_an_earlier_decision_does_not_count_against_the_next(running: Bench) -> None:
    running.east.answers.extend([no(409), no(409), no(409)])
    await running.tell(asked("a", "patch"))
    await running.pass_(2.5 + PAUSE)
    assert len(running.events(Began)) == 2
    assert len(running.events(Refused)) == 1, "the second decision's conflict waits for news of its own"


async def test_a_decision_whose_ground_is_gone_waits_for_news_and_is_recorded_if_none_comes(running: Bench) -> None:
    running.capability.obsolete.add("a")
    await running.tell(asked("a", "patch"))
    await running.pass_(1.0)
    assert not running.events(Refused)
    await running.pass_(2.0)
    assert [event.code for event in running.events(Refused) if isinstance(event, Refused)] == [404]
    assert not running.east.requests


async def test_refused_credentials_wait_for_better_ones(running: Bench) -> None:
    running.east.answers.extend([no(401, "Unauthorized"), no(401, "Unauthorized")])
    await running.tell(asked("a", "patch"))
    await running.pass_(0.9)
    assert running.east.names == ["a"]
    await running.pass_(8.0)
    assert running.east.names == ["a", "a", "a"]
    assert not running.events(Refused)
    assert [outcome for _, _, outcome in running.outcomes] == ["unauthorized", "unauthorized", "done"]


async def test_a_patch_that_changes_nothing_is_settled_by_its_answer(running: Bench) -> None:
    """No watch will ever show it."""
    running.east.answers.append({"metadata": {"resourceVersion": VERSION}})
    await running.tell(asked("a", "patch", announced=True))
    assert running.events(Unneeded) == [Unneeded(version=VERSION)]
    await running.pass_(LONG)
    assert running.east.names == ["a"], "neither repeated nor announced"
