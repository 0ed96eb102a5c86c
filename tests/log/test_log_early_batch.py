"""A full batch is sent while the one before it is in flight: it is committed after that one, once, or never."""

from __future__ import annotations

import asyncio

import psycopg

from controlplane.log import schema
from controlplane.log.event import Append, NewEvent
from controlplane.log.postgres import PostgresLog
from tests.log.flights import Early, Held, Open, answers, numbers
from tests.log.words import Saw, request, saw, until


async def full(
    opener: Open, first: Append, *others: Append
) -> tuple[PostgresLog, Held, Early, list[asyncio.Task[int]]]:
    """A log where the first request is in flight, and the others are as many as go into a batch."""
    log = opener(max_batch=sum(len(one.events) for one in others))
    await log.take_epoch("one")
    await log.append(request(saw("a", 0)))
    held, early = Held(log), Early(log)
    tasks = [asyncio.create_task(log.append(first))]
    await until(lambda: len(held.batches) == 1)
    tasks += [asyncio.create_task(log.append(one)) for one in others]
    await until(lambda: log.appender._early.on_its_way)
    return log, held, early, tasks


async def test_a_full_batch_that_comes_before_the_one_in_flight_is_sent_again(
    opener: Open,
) -> None:
    _, held, early, tasks = await full(
        opener, request(saw("a", 1)), request(saw("a", 2), a=2), request(saw("a", 3), a=1)
    )
    await until(lambda: len(early.said) == 1)
    held.go.set()
    assert await answers(tasks) == [1, 1, "VersionConflict"]
    assert early.said == [(held.batches[1].id, "CP003")]
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("a", 3, 2)]


async def test_a_full_batch_goes_in_after_the_one_in_flight(opener: Open) -> None:
    log, held, early, tasks = await fly(opener, request(saw("a", 1)), request(saw("a", 2), a=2), request(saw("b", 3)))
    assert await answers(tasks) == [1, 1, 1]
    assert [said for _, said in early.said] == ["new"]
    assert len(held.batches) == 1, "it is not sent again"
    assert await log.append(request(saw("a", 4), a=3)) == 1
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("a", 3, 2), ("b", 1, 3), ("a", 4, 4)]


async def test_a_full_batch_whose_answer_was_lost_is_found(opener: Open) -> None:
    lost = psycopg.OperationalError("the answer is lost")
    _, held, early, tasks = await fly(
        opener, request(saw("a", 1)), request(saw("a", 2), a=2), request(saw("b", 3)), lost=lost
    )
    assert await answers(tasks) == [1, 1, 1]
    assert early.said == [(held.batches[1].id, "new")]
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("a", 3, 2), ("b", 1, 3)]


async def fly(
    opener: Open, *asked: Append, lost: Exception | None = None
) -> tuple[PostgresLog, Held, Early, list[asyncio.Task[int]]]:
    """As `full`, and the second batch is sent once the first one is committed, whose answer comes after that of the
    second."""
    log = opener(max_batch=len(asked) - 1)
    await log.take_epoch("one")
    await log.append(request(saw("a", 0)))
    held, early = Held(log), Early(log)
    early.fails = [lost] if lost is not None else []
    held.answer.clear()
    held.go.set()
    tasks = [asyncio.create_task(log.append(asked[0]))]
    reader = opener()
    while not await reader.read(1):
        await asyncio.sleep(0)
    tasks += [asyncio.create_task(log.append(one)) for one in asked[1:]]
    await until(lambda: len(early.said) == 1)
    assert not any(task.done() for task in tasks)
    held.answer.set()
    return log, held, early, tasks


async def test_a_full_batch_on_one_that_is_refused_is_never_committed(opener: Open) -> None:
    bad = NewEvent(stream="a", event=Saw(n=1), cluster="no text in PostgreSQL: \x00")
    _, held, early, tasks = await full(
        opener, Append([bad], {"a": 1}), request(saw("a", 2), a=1), request(saw("b", 3), a=2)
    )
    held.go.set()
    assert await answers(tasks) == ["LogError", 1, 1]
    assert "new" not in dict(early.said).values()
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 2), ("b", 1, 3)]


async def test_a_full_batch_is_judged_anew_if_somebody_appends_before_it(opener: Open) -> None:
    _, held, early, tasks = await full(
        opener, request(saw("b", 1)), request(saw("a", 2), a=1), request(saw("b", 3), b=1)
    )
    await until(lambda: len(early.said) == 1)
    beside = opener()
    await beside.assist()
    await beside.append(request(saw("a", 9)))
    held.go.set()
    assert await answers(tasks) == [1, "VersionConflict", 1]
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 9), ("b", 1, 1), ("b", 2, 3)]


async def test_a_full_batch_of_a_holder_that_lost_the_log_is_fenced_off(opener: Open) -> None:
    _, held, _, tasks = await full(opener, request(saw("a", 1)), request(saw("a", 2)), request(saw("b", 3)))
    await opener().take_epoch("other")
    held.go.set()
    assert await answers(tasks) == ["Fenced"] * 3
    assert await numbers(opener()) == [("a", 1, 0)]


async def test_whoever_rejoins_while_two_batches_are_on_their_way_writes_both_once(
    opener: Open,
) -> None:
    log, held, early, tasks = await full(opener, request(saw("a", 1)), request(saw("a", 2), a=2), request(saw("b", 3)))
    await until(lambda: len(early.said) == 1)
    await log.take_epoch("one again")
    held.go.set()
    assert await answers(tasks) == [1, 1, 1]
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("a", 3, 2), ("b", 1, 3)]


async def test_two_batches_that_wait_for_the_log_are_in_it_in_their_order(opener: Open, database_url: str) -> None:
    """Both wait for the head row, whichever gets it first."""
    log = opener(max_batch=3)
    await log.take_epoch("one")
    await log.append(request(saw("a", 0)))
    async with await psycopg.AsyncConnection.connect(schema.libpq_url(database_url)) as other:
        await other.execute("SELECT FROM controlplane.log_head WHERE log = %s FOR UPDATE", (log.name,))
        tasks = [asyncio.create_task(log.append(request(saw("a", n)))) for n in range(1, 10)]
        await until(lambda: log.appender._early.on_its_way)
        await other.rollback()
    assert await answers(tasks) == [1] * 9
    assert await numbers(opener()) == [("a", n + 1, n) for n in range(10)]
