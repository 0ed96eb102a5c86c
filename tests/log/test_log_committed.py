"""What a process committed itself is folded from memory: it is what any reader gets, in the same order, without a
hole."""

from __future__ import annotations

import asyncio
import random
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from controlplane.log.batch import Batch
from controlplane.log.codec import Codec
from controlplane.log.committed import CommittedEvent, CommittedEvents
from controlplane.log.event import Append, LogError, NewEvent, VersionConflict, body_of
from controlplane.log.postgres import PostgresLog
from tests.log.words import TYPES, Saw, everything, postgres_opener, request, saw, until
from tests.support.rows import each
from tests.support.waiting import PATIENCE

AT = datetime(2026, 5, 1, tzinfo=UTC)
BATCH = uuid.UUID(int=7)


def rows(first: int, count: int) -> list[CommittedEvent]:
    return [
        CommittedEvent(number, "a", number, "Saw", 1, f'{{"n":{number}}}', "", 0, "", None, AT, BATCH)
        for number in range(first, first + count)
    ]


def positions(events: CommittedEvents, after: int, limit: int = 100) -> list[int] | None:
    page = events.after(after, limit)
    return None if page is None else [one.position for one in page.events]


def test_a_page_ends_where_nothing_more_was_committed() -> None:
    events = CommittedEvents(Codec(TYPES))
    events.add(rows(1, 3), heard=4)
    first = events.after(0, 2)
    assert first is not None
    assert ([one.position for one in first.events], first.heard) == ([1, 2], None)
    second = events.after(2, 2)
    assert second is not None
    assert ([one.event for one in second.events], second.heard) == ([Saw(n=3)], 4)
    assert events.after(3, 2) is None


@each(
    ("added", "after", "found"),
    [
        ([(1, 2), (3, 1)], 0, [1, 2, 3]),
        ([(1, 2), (3, 1)], 1, [2, 3]),  # the first was read from the database
        ([(1, 2), (3, 1)], 3, None),
        ([(2, 2)], 0, None),  # another event is before it
        ([(1, 2), (4, 1)], 0, None),  # another event is between them
        ([(1, 2), (4, 1)], 3, [4]),
        ([(1, 6)], 0, None),  # more than are kept
        ([], 0, None),
    ],
)
def test_only_what_follows_without_a_gap_is_handed_out(
    added: list[tuple[int, int]], after: int, found: list[int] | None
) -> None:
    events = CommittedEvents(Codec(TYPES), most=5)
    for first, count in added:
        events.add(rows(first, count), heard=0)
    assert positions(events, after) == found
    assert events.end == (added[-1][0] + added[-1][1] - 1 if added else 0)


def drawn(rng: random.Random) -> NewEvent:
    text = rng.choice(["", "a\nb", "ü \u2028", "x" * 300])
    zone = timezone(timedelta(hours=rng.choice([-7, 0, 5])))
    observed = datetime.fromtimestamp(rng.randrange(10**9), zone) + timedelta(microseconds=rng.randrange(10**6))
    return NewEvent(
        stream=rng.choice("abc"),
        event=Saw(n=rng.randrange(5), text=text),
        source=rng.choice(["", "x", "y"]),
        mark=rng.randrange(40),
        cluster=rng.choice(["", "east"]),
        caused_by=rng.choice([0, 1]),
        trace=rng.choice(["", "t1"]),
        observed_at=rng.choice([None, observed]),
        bodies=(body_of({"text": text}),) if rng.random() < 0.2 else (),
    )


async def append(log: PostgresLog, rng: random.Random) -> None:
    expected = {rng.choice("abc"): rng.randrange(6)} if rng.random() < 0.3 else None
    try:
        await log.append(Append([drawn(rng) for _ in range(rng.randrange(1, 4))], expected))
    except LogError:
        return


@pytest.mark.parametrize("seed", range(4))
async def test_it_is_what_any_reader_gets(database_url: str, seed: int) -> None:
    rng = random.Random(seed)
    async with postgres_opener(database_url) as opener:
        log, operator = opener(), opener()
        await log.take_epoch("one")
        await operator.assist()
        found: list[Any] = []
        for _ in range(120):
            match rng.randrange(6):
                case 0:
                    await append(operator, rng)
                case 1 | 2:
                    await asyncio.gather(*(append(log, rng) for _ in range(rng.randrange(1, 4))))
                case 3:
                    await log.wait(found[-1].position if found else 0, 0.001)
                case _:
                    found += await log.read(found[-1].position if found else 0, rng.choice([1, 3, 100]))
        await log.wait(0, 0.0)
        while events := await log.read(found[-1].position if found else 0):
            found += events
        assert found == await everything(opener())
        assert len(found) > 20


async def test_who_follows_its_own_commits_asks_the_database_for_nothing(database_url: str) -> None:
    async with postgres_opener(database_url) as opener:
        log = opener()
        await log.take_epoch("one")
        await log.wait(0, 0.0)
        await until(lambda: log._rung.is_set())  # it listens
        await everything(log)
        await log._reader.close()
        position = 0
        for number in range(5):
            await log.append(request(saw("a", number), saw("b", number)))
            while events := await log.read(position):
                position = events[-1].position
            waiting = asyncio.create_task(log.wait(position, PATIENCE))
            await asyncio.sleep(0.01)
            assert not waiting.done(), "nothing is new"
            await log.append(request(saw("a", number)))
            await waiting
        assert position == 14
        assert log._reader._connection is None, "it was asked"


async def test_what_was_committed_without_an_answer_is_read(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with postgres_opener(database_url) as opener:
        log = opener()
        await log.take_epoch("one")
        await log.append(request(saw("a", 1)))
        assert len(await everything(log)) == 1
        sent = log.appender._append

        lost = []

        async def unanswered(batch: Batch) -> tuple[str, datetime]:
            answer = await sent(batch)
            if not lost:
                lost.append(answer)
                raise psycopg.OperationalError("the answer is lost")
            return answer

        monkeypatch.setattr(log.appender, "_append", unanswered)
        waiting = asyncio.create_task(log.wait(1, PATIENCE))
        assert await log.append(request(saw("a", 2), saw("b", 1))) == 2, "the batch finds itself"
        await log.append(request(saw("a", 3)))
        await waiting
        found = await log.read(1)
        assert [(one.position, one.stream) for one in found] == [(2, "a"), (3, "b"), (4, "a")]


async def test_the_database_is_not_asked_about_a_decision_that_an_own_commit_overtook(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with postgres_opener(database_url) as opener:
        log = opener()
        await log.take_epoch("one")
        await log.append(request(saw("a", 1)))
        sent, calls = log.appender._append, []

        async def counted(batch: Batch) -> tuple[str, datetime]:
            calls.append(batch.id)
            return await sent(batch)

        monkeypatch.setattr(log.appender, "_append", counted)
        answers = await asyncio.gather(
            log.append(request(saw("a", 2))),
            log.append(request(saw("a", 3), a=1)),
            log.append(request(saw("b", 1), b=0, a=1)),
            log.append(request(saw("c", 1), c=0)),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers] == [int, VersionConflict, VersionConflict, int]
        assert len(calls) <= 2
        assert await log.append(request(saw("a", 4), a=2)) == 1
        assert log.appender.stats.conflicts == 2
