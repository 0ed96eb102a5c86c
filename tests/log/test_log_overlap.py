"""While a batch is in flight the next one is judged on top of it: whatever becomes of the first, the second is what it would
have been after it, and nobody is told of anything that is not in the log."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime

import psycopg
import pytest

from controlplane.log import insistent_line, schema
from controlplane.log.appender import Appender
from controlplane.log.batch import Batch
from controlplane.log.event import Append, Fenced, NewEvent, VersionConflict
from controlplane.log.insistent_line import InsistentLine
from controlplane.log.postgres import PostgresLog
from tests.log.words import Saw, everything, outcome, postgres_opener, request, saw, shape, until
from tests.support.deep import deep_after

Sent = Callable[[Batch], Awaitable[tuple[str, datetime]]]


class Held:
    """An appender's way to the database: each batch waits until it is let go, by `go` before it is sent or `answer` after."""

    def __init__(self, log: PostgresLog) -> None:
        self._sent: Sent = log.appender._append
        self.batches: list[Batch] = []
        self.go, self.answer = asyncio.Event(), asyncio.Event()
        self.answer.set()
        self.fails: list[Exception] = []
        """What is raised instead of the next answers."""
        log.appender._append = self._append  # type: ignore[method-assign]

    async def _append(self, batch: Batch) -> tuple[str, datetime]:
        self.batches.append(batch)
        await self.go.wait()
        answer = await self._sent(batch)
        await self.answer.wait()
        if self.fails:
            raise self.fails.pop(0)
        return answer


@pytest.fixture
async def opener(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., PostgresLog]]:
    monkeypatch.setattr(insistent_line, "AGAIN", 0.0)
    async with postgres_opener(database_url) as open_:
        yield open_


async def begun(
    opener: Callable[..., PostgresLog], *asked: Append
) -> tuple[PostgresLog, Held, list[asyncio.Task[int]]]:
    """A log with one event in stream a, where the first request is in flight and the others are judged on top of it."""
    log = opener()
    await log.take_epoch("one")
    await log.append(request(saw("a", 0)))
    held = Held(log)
    tasks = [asyncio.create_task(log.append(asked[0]))]
    await until(lambda: len(held.batches) == 1)
    tasks += [asyncio.create_task(log.append(one)) for one in asked[1:]]
    await until(lambda: drafted(log) == len(asked) - 1)
    return log, held, tasks


def drafted(log: PostgresLog) -> int:
    draft = log.appender._draft
    return len(draft.group) if draft is not None else -1


async def answers(tasks: list[asyncio.Task[int]]) -> list[int | str]:
    found = await asyncio.gather(*tasks, return_exceptions=True)
    return [one if isinstance(one, int) else type(one).__name__ for one in found]


async def numbers(log: PostgresLog) -> list[tuple[str, int, int]]:
    return [
        (stream, version, event.n)
        for _, stream, version, event in shape(await everything(log))
        if isinstance(event, Saw)
    ]


async def test_what_is_asked_for_meanwhile_is_judged_and_made_ready(opener: Callable[..., PostgresLog]) -> None:
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


async def test_the_arrays_of_a_full_batch_are_made_meanwhile(opener: Callable[..., PostgresLog]) -> None:
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


async def test_nobody_is_told_of_a_conflict_with_what_is_not_committed(opener: Callable[..., PostgresLog]) -> None:
    log, held, tasks = await begun(opener, request(saw("a", 1), a=1), request(saw("b", 2), a=1))
    assert log.appender._draft is not None
    assert log.appender._draft.batch.new == [None]
    for _ in range(5):
        await asyncio.sleep(0)
    assert not tasks[1].done()
    held.go.set()
    assert await answers(tasks) == [1, "VersionConflict"]


async def test_a_conflict_with_what_the_database_refused_is_none(opener: Callable[..., PostgresLog]) -> None:
    bad = NewEvent(stream="a", event=Saw(n=1), source="s", mark=5, cluster="no text in PostgreSQL: \x00")
    log, held, tasks = await begun(opener, Append([bad], {"a": 1}), request(saw("b", 2, source="s", mark=5), a=1))
    assert log.appender._draft is not None
    assert log.appender._draft.batch.new == [None]
    held.go.set()
    assert await answers(tasks) == ["LogError", 1]
    assert await numbers(opener()) == [("a", 1, 0), ("b", 1, 2)]


async def test_an_answer_that_is_lost_changes_nothing_of_the_next_batch(opener: Callable[..., PostgresLog]) -> None:
    log, held, tasks = await begun(
        opener, request(saw("a", 1), a=1), request(saw("a", 2), a=2), request(saw("a", 3), a=1)
    )
    held.fails = [psycopg.OperationalError("the answer is lost")] * 2
    held.go.set()
    assert await answers(tasks) == [1, 1, "VersionConflict"]
    assert len({batch.id for batch in held.batches}) == 2
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("a", 3, 2)]
    assert await log.append(request(saw("a", 4), a=3)) == 1


async def test_who_appends_in_between_has_both_judged_anew_in_their_order(opener: Callable[..., PostgresLog]) -> None:
    _, held, tasks = await begun(opener, request(saw("b", 1)), request(saw("a", 2), a=1), request(saw("b", 3), b=1))
    beside = opener()
    await beside.assist()
    await beside.append(request(saw("a", 9)))
    held.go.set()
    assert await answers(tasks) == [1, "VersionConflict", 1]
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 9), ("b", 1, 1), ("b", 2, 3)]


async def test_who_appends_after_the_batch_in_flight_has_the_next_judged_anew(
    opener: Callable[..., PostgresLog],
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


async def test_whoever_takes_the_log_over_has_both_fenced_off(opener: Callable[..., PostgresLog]) -> None:
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


async def test_what_is_taken_back_before_it_is_sent_is_not_written(opener: Callable[..., PostgresLog]) -> None:
    _, held, tasks = await begun(
        opener, request(saw("a", 1)), request(saw("b", 2)), request(saw("b", 3), b=1), request(saw("c", 4))
    )
    tasks[0].cancel()
    tasks[1].cancel()
    await asyncio.sleep(0)
    held.go.set()
    assert await answers(tasks[2:]) == ["VersionConflict", 1]
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("c", 1, 4)]


async def test_who_closes_the_log_leaves_nobody_waiting(opener: Callable[..., PostgresLog]) -> None:
    log, _, tasks = await begun(opener, request(saw("a", 1)), request(saw("b", 2)), request(saw("b", 3), b=1))
    await log.close()
    assert await answers(tasks) == ["CancelledError"] * 3


async def test_the_next_batch_is_on_its_way_before_the_callers_of_the_last_are_told(
    opener: Callable[..., PostgresLog],
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
    opener: Callable[..., PostgresLog],
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


async def test_whoever_rejoins_has_what_was_ready_judged_anew(opener: Callable[..., PostgresLog]) -> None:
    log, held, tasks = await begun(opener, request(saw("a", 1), a=1), request(saw("b", 2), a=2))
    await log.take_epoch("one again")
    assert drafted(log) == -1
    held.go.set()
    assert await answers(tasks) == [1, 1]
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("b", 1, 2)]


class Early:
    """What is sent while the batch before it is in flight: what was sent, by which batch, and what was said."""

    def __init__(self, log: PostgresLog) -> None:
        self._sent = log.appender._sent
        self.said: list[tuple[uuid.UUID, str]] = []
        self.fails: list[Exception] = []
        """What is raised instead of the next answers."""
        log.appender._early._send = self._send

    async def _send(self, batch: Batch) -> tuple[str, datetime]:
        try:
            answer = await self._sent(self.log_line(), batch)
        except psycopg.Error as error:
            self.said.append((batch.id, str(error.sqlstate)))
            raise
        self.said.append((batch.id, answer[0]))
        if self.fails:
            raise self.fails.pop(0)
        return answer

    def log_line(self) -> InsistentLine:
        appender = self._sent.__self__  # type: ignore[attr-defined]
        assert isinstance(appender, Appender)
        return appender._other


async def full(
    opener: Callable[..., PostgresLog], first: Append, *others: Append
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
    opener: Callable[..., PostgresLog],
) -> None:
    _, held, early, tasks = await full(
        opener, request(saw("a", 1)), request(saw("a", 2), a=2), request(saw("a", 3), a=1)
    )
    await until(lambda: len(early.said) == 1)
    held.go.set()
    assert await answers(tasks) == [1, 1, "VersionConflict"]
    assert early.said == [(held.batches[1].id, "CP003")]
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("a", 3, 2)]


async def test_a_full_batch_goes_in_after_the_one_in_flight(opener: Callable[..., PostgresLog]) -> None:
    log, held, early, tasks = await fly(opener, request(saw("a", 1)), request(saw("a", 2), a=2), request(saw("b", 3)))
    assert await answers(tasks) == [1, 1, 1]
    assert [said for _, said in early.said] == ["new"]
    assert len(held.batches) == 1, "it is not sent again"
    assert await log.append(request(saw("a", 4), a=3)) == 1
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("a", 3, 2), ("b", 1, 3), ("a", 4, 4)]


async def test_a_full_batch_whose_answer_was_lost_is_found(opener: Callable[..., PostgresLog]) -> None:
    lost = psycopg.OperationalError("the answer is lost")
    _, held, early, tasks = await fly(
        opener, request(saw("a", 1)), request(saw("a", 2), a=2), request(saw("b", 3)), lost=lost
    )
    assert await answers(tasks) == [1, 1, 1]
    assert early.said == [(held.batches[1].id, "new")]
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("a", 3, 2), ("b", 1, 3)]


async def fly(
    opener: Callable[..., PostgresLog], *asked: Append, lost: Exception | None = None
) -> tuple[PostgresLog, Held, Early, list[asyncio.Task[int]]]:
    """As `full`, and the second batch is sent once the first one is committed, whose answer comes after that of the second."""
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


async def test_a_full_batch_on_one_that_is_refused_is_never_committed(opener: Callable[..., PostgresLog]) -> None:
    bad = NewEvent(stream="a", event=Saw(n=1), cluster="no text in PostgreSQL: \x00")
    _, held, early, tasks = await full(
        opener, Append([bad], {"a": 1}), request(saw("a", 2), a=1), request(saw("b", 3), a=2)
    )
    held.go.set()
    assert await answers(tasks) == ["LogError", 1, 1]
    assert "new" not in dict(early.said).values()
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 2), ("b", 1, 3)]


async def test_a_full_batch_is_judged_anew_if_somebody_appends_before_it(opener: Callable[..., PostgresLog]) -> None:
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


async def test_a_full_batch_of_a_holder_that_lost_the_log_is_fenced_off(opener: Callable[..., PostgresLog]) -> None:
    _, held, _, tasks = await full(opener, request(saw("a", 1)), request(saw("a", 2)), request(saw("b", 3)))
    await opener().take_epoch("other")
    held.go.set()
    assert await answers(tasks) == ["Fenced"] * 3
    assert await numbers(opener()) == [("a", 1, 0)]


async def test_whoever_rejoins_while_two_batches_are_on_their_way_writes_both_once(
    opener: Callable[..., PostgresLog],
) -> None:
    log, held, early, tasks = await full(opener, request(saw("a", 1)), request(saw("a", 2), a=2), request(saw("b", 3)))
    await until(lambda: len(early.said) == 1)
    await log.take_epoch("one again")
    held.go.set()
    assert await answers(tasks) == [1, 1, 1]
    assert await numbers(opener()) == [("a", 1, 0), ("a", 2, 1), ("a", 3, 2), ("b", 1, 3)]


async def test_two_batches_that_wait_for_the_log_are_in_it_in_their_order(
    opener: Callable[..., PostgresLog], database_url: str
) -> None:
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


class Play:
    """Callers who append at once, on what they know or blindly, while answers are lost, the server is away for a moment, and
    somebody else appends."""

    def __init__(self, log: PostgresLog, beside: PostgresLog, seed: int) -> None:
        self.log, self.beside, self.dice = log, beside, random.Random(seed)
        self.told: dict[int, tuple[Append, int | str]] = {}
        self._sent = log.appender._sent
        log.appender._sent = self._faulty  # type: ignore[method-assign]

    async def _faulty(self, line: InsistentLine, batch: Batch) -> tuple[str, datetime]:
        what = self.dice.randrange(8)
        if what == 0:
            raise psycopg.OperationalError("the server is away")
        if what == 1:
            await self.beside.append(request(saw(self.dice.choice("abc"), -1)))
        if what == 4:
            await asyncio.sleep(self.dice.random() / 100)
        answer = await self._sent(line, batch)
        if what == 2:
            raise psycopg.OperationalError("the answer is lost")
        if what == 3:
            await self.beside.append(request(saw(self.dice.choice("abc"), -1)))
        return answer

    async def caller(self, first: int) -> None:
        for number in range(first, first + 12):
            asked = self._asked(number)
            self.told[number] = asked, await outcome(self.log, asked)
            for _ in range(self.dice.randrange(4)):
                await asyncio.sleep(0)

    def _asked(self, number: int) -> Append:
        dice = self.dice
        source = dice.choice(["", "", "x", "y"])
        events = [
            saw(dice.choice("abc"), 10 * number + each, source=source, mark=dice.randrange(60))
            for each in range(dice.randrange(1, 4))
        ]
        versions = self.log.appender._cache
        known = {stream: versions.version(stream) or 0 for stream in dice.sample("abc", dice.randrange(1, 3))}
        return Append(events, known if dice.random() < 0.5 else None)


@pytest.mark.parametrize("seed", deep_after(6, range(40)))
async def test_whatever_fails_each_caller_is_told_what_the_log_has(
    opener: Callable[..., PostgresLog], seed: int
) -> None:
    log, beside = opener(max_batch=4), opener()
    await log.take_epoch("one")
    await beside.assist()
    play = Play(log, beside, seed)
    await asyncio.gather(*(play.caller(100 * caller) for caller in range(1, 9)))
    found = await everything(opener())
    assert [one.position for one in found] == list(range(1, len(found) + 1))
    versions, marks, written = dict[str, int](), dict[str, int](), defaultdict[int, int](int)
    for one in found:
        assert isinstance(one.event, Saw)
        number, each = divmod(one.event.n, 10)
        asked, _ = play.told.get(number, (None, None))
        if asked is not None:
            new = asked.events[each]
            assert not new.source or new.mark > marks.get(new.source, -1), "it is known"
            marks[new.source] = new.mark
            if not written[number] and asked.expected:
                assert {stream: versions.get(stream, 0) for stream in asked.expected} == asked.expected
            written[number] += 1
        versions[one.stream] = versions.get(one.stream, 0) + 1
        assert one.version == versions[one.stream]
    for number, (asked, told) in play.told.items():
        assert written[number] == (told if isinstance(told, int) else 0), told
        if told == VersionConflict.__name__:
            assert any(versions.get(stream, 0) > version for stream, version in (asked.expected or {}).items())
        else:
            assert isinstance(told, int)
            assert told or all(new.source for new in asked.events)
    assert set(await replayed(opener, play)) == {0}, "the marks of all that was recorded are known"


async def replayed(opener: Callable[..., PostgresLog], play: Play) -> list[int | str]:
    """What becomes of every observation that was recorded if another writer brings it again."""
    other = opener()
    await other.take_epoch("other")
    seen = [new for asked, told in play.told.values() if isinstance(told, int) for new in asked.events if new.source]
    return [await outcome(other, request(new)) for new in seen] or [0]
