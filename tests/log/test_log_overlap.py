"""While a batch is in flight the next one is judged on top of it: whatever becomes of the first, the second is what it
would have been after it, and nobody is told of anything that is not in the log."""

from __future__ import annotations

import asyncio
from datetime import datetime

import psycopg
import pytest

from controlplane.log.batch import Batch
from controlplane.log.event import Append, Fenced, NewEvent
from tests.log.flights import Open, answers, begun, drafted, numbers
from tests.log.words import Saw, request, saw, until


async def test_what_is_asked_for_meanwhile_is_judged_and_made_ready(opener: Open) -> None:
    log, held, tasks = await begun(
        opener, request(saw("a", 1), a=1), request(saw("a", 2), a=2), request(saw("b", 3), a=2)
    )
    draft = log.appender._draft
    assert draft is not None
    assert (draft.batch.new, draft.batch.after) == ([1, None], 2) or draft.batch.new == [1, 1]
    held.go.set()
    assert await answers(tasks) == [1, 1, "VersionConflict"]
    assert [len(batch) for batch in held.batches] == [1, 1]
    assert held.batches[1] is draft.batch, "it is sent as it was judged"
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("a", 3, 2)]


async def test_the_arrays_of_a_full_batch_are_made_meanwhile(opener: Open) -> None:
    log, held, tasks = await begun(opener, request(saw("a", 1)), *(request(saw("a", n)) for n in range(2, 5)))
    draft = log.appender._draft
    assert draft is not None
    assert draft.batch._arrays is None
    log.appender._max = 4
    tasks += [asyncio.create_task(log.append(request(saw("a", n)))) for n in range(5, 8)]
    await until(lambda: drafted(log) == 4)
    await asyncio.sleep(0)
    assert draft.batch._arrays is not None
    held.go.set()
    assert await answers(tasks) == [1] * 7
    assert log.appender.stats.batches == 4


async def test_nobody_is_told_of_a_conflict_with_what_is_not_committed(opener: Open) -> None:
    log, held, tasks = await begun(opener, request(saw("a", 1), a=1), request(saw("b", 2), a=1))
    assert log.appender._draft is not None
    assert log.appender._draft.batch.new == [None]
    for _ in range(5):
        await asyncio.sleep(0)
    assert not tasks[1].done()
    held.go.set()
    assert await answers(tasks) == [1, "VersionConflict"]


async def test_a_conflict_with_what_the_database_refused_is_none(opener: Open) -> None:
    bad = NewEvent(stream="a", event=Saw(n=1), source="s", mark=5, cluster="no text in PostgreSQL: \x00")
    log, held, tasks = await begun(opener, Append([bad], {"a": 1}), request(saw("b", 2, source="s", mark=5), a=1))
    assert log.appender._draft is not None
    assert log.appender._draft.batch.new == [None]
    held.go.set()
    assert await answers(tasks) == ["LogError", 1]
    assert await numbers(opener()) == [("a", 1, 0), ("b", 1, 2)]


async def test_an_answer_that_is_lost_changes_nothing_of_the_next_batch(opener: Open) -> None:
    log, held, tasks = await begun(
        opener, request(saw("a", 1), a=1), request(saw("a", 2), a=2), request(saw("a", 3), a=1)
    )
    held.fails = [psycopg.OperationalError("the answer is lost")] * 2
    held.go.set()
    assert await answers(tasks) == [1, 1, "VersionConflict"]
    assert len({batch.id for batch in held.batches}) == 2
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("a", 3, 2)]
    assert await log.append(request(saw("a", 4), a=3)) == 1


async def test_who_appends_in_between_has_both_judged_anew_in_their_order(opener: Open) -> None:
    _, held, tasks = await begun(opener, request(saw("b", 1)), request(saw("a", 2), a=1), request(saw("b", 3), b=1))
    beside = opener()
    await beside.assist()
    await beside.append(request(saw("a", 9)))
    held.go.set()
    assert await answers(tasks) == [1, "VersionConflict", 1]
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 9), ("b", 1, 1), ("b", 2, 3)]


async def test_who_appends_after_the_batch_in_flight_has_the_next_judged_anew(
    opener: Open,
) -> None:
    _, held, tasks = await begun(opener, request(saw("b", 1)), request(saw("a", 2), a=1), request(saw("b", 3), b=1))
    held.answer.clear()
    held.go.set()
    beside = opener()
    await beside.assist()
    while not await beside.read(1):
        await asyncio.sleep(0)
    await beside.append(request(saw("a", 9)))
    held.answer.set()
    assert await answers(tasks) == [1, "VersionConflict", 1]
    assert await numbers(opener()) == [("a", 1, 0), ("b", 1, 1), ("a", 2, 9), ("b", 2, 3)]


async def test_whoever_takes_the_log_over_has_both_fenced_off(opener: Open) -> None:
    log, held, tasks = await begun(opener, request(saw("a", 1), a=1), request(saw("b", 2), a=1), request(saw("b", 3)))
    other = opener()
    await other.take_epoch("other")
    held.go.set()
    assert await answers(tasks) == ["Fenced"] * 3
    assert await numbers(opener()) == [("a", 1, 0)]
    with pytest.raises(Fenced):
        await log.append(request(saw("b", 4)))
    await log.take_epoch("one again")
    assert await log.append(request(saw("b", 5), a=1, b=0)) == 1


async def test_what_is_taken_back_before_it_is_sent_is_not_written(opener: Open) -> None:
    _, held, tasks = await begun(
        opener, request(saw("a", 1)), request(saw("b", 2)), request(saw("b", 3), b=1), request(saw("c", 4))
    )
    tasks[0].cancel()
    tasks[1].cancel()
    await asyncio.sleep(0)
    held.go.set()
    assert await answers(tasks[2:]) == ["VersionConflict", 1]
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("c", 1, 4)]


async def test_who_closes_the_log_leaves_nobody_waiting(opener: Open) -> None:
    log, _, tasks = await begun(opener, request(saw("a", 1)), request(saw("b", 2)), request(saw("b", 3), b=1))
    await log.close()
    assert await answers(tasks) == ["CancelledError"] * 3


async def test_the_next_batch_is_on_its_way_before_the_callers_of_the_last_are_told(
    opener: Open,
) -> None:
    _, held, tasks = await begun(opener, request(saw("a", 1), a=1), request(saw("b", 2), b=0))
    told: list[bool] = []
    sent = held._sent

    async def looked(batch: Batch) -> tuple[str, datetime]:
        told.append(tasks[0].done())
        return await sent(batch)

    held._sent = looked
    held.go.set()
    assert await answers(tasks) == [1, 1]
    assert told == [False, False]


async def test_many_callers_are_told_in_parts_and_all_are_when_the_log_is_closed(
    opener: Open,
) -> None:
    log = opener()
    await log.take_epoch("one")
    tasks = [asyncio.create_task(log.append(request(saw(f"s{n % 9}", n)))) for n in range(300)]
    while not log.appender._answers:
        await asyncio.sleep(0)
    await log.close()
    assert set(await answers(tasks)) <= {1, "CancelledError"}
    written = {n for _, _, n in await numbers(opener())}
    assert {n for n, task in enumerate(tasks) if not task.cancelled()} == written


async def test_whoever_rejoins_has_what_was_ready_judged_anew(opener: Open) -> None:
    log, held, tasks = await begun(opener, request(saw("a", 1), a=1), request(saw("b", 2), a=2))
    await log.take_epoch("one again")
    assert drafted(log) == -1
    held.go.set()
    assert await answers(tasks) == [1, 1]
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("b", 1, 2)]
