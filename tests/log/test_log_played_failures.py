"""Many callers append while answers are lost, the server goes away, and somebody else appends: each is told what the
log has."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from datetime import datetime

import psycopg
import pytest

from controlplane.log.batch import Batch
from controlplane.log.event import Append, VersionConflict
from controlplane.log.insistent_line import InsistentLine
from controlplane.log.postgres import PostgresLog
from tests.log.flights import Open
from tests.log.words import Saw, everything, outcome, request, saw
from tests.support.deep import deep_after


class Play:
    """Callers who append at once, on what they know or blindly, while answers are lost, the server is away for a
    moment, and somebody else appends."""

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
async def test_whatever_fails_each_caller_is_told_what_the_log_has(opener: Open, seed: int) -> None:
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


async def replayed(opener: Open, play: Play) -> list[int | str]:
    """What becomes of every observation that was recorded if another writer brings it again."""
    other = opener()
    await other.take_epoch("other")
    seen = [new for asked, told in play.told.values() if isinstance(told, int) for new in asked.events if new.source]
    return [await outcome(other, request(new)) for new in seen] or [0]
