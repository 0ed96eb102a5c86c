"""A database that needs longer for a statement than it is given: the statement is given more time, and it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import LogUnavailable
from controlplane.log.line import Line
from controlplane.log.postgres import PostgresLog
from tests.log.archived import connected
from tests.log.words import ROLE, TYPES, Saw, everything, request, saw
from tests.outages.wire import Wire
from tests.support.waiting import PATIENCE

untriggered = pytest.mark.undistributed("Citus has no triggers on a table that it distributes")
LIMIT = 0.1
SLOW = """
CREATE FUNCTION controlplane.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$;
CREATE {kind} TRIGGER slow AFTER INSERT ON controlplane.events {when} EXECUTE FUNCTION controlplane.slow()"""


@contextmanager
def slow(url: str, *, commit: bool) -> Iterator[None]:
    """Let each insert of events, or each commit of one, take long, as on a slow disk."""
    seconds = 1.5 if commit else 0.3
    how = {True: ("CONSTRAINT", "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"), False: ("", "FOR EACH STATEMENT")}[
        commit
    ]
    with connected(url) as owner:
        owner.execute(SLOW.format(kind=how[0], when=how[1], seconds=seconds).encode())
        yield
        owner.execute("DROP FUNCTION controlplane.slow() CASCADE")


@untriggered
@pytest.mark.parametrize("commit", [False, True], ids=["its inserts", "its commit"])
async def test_an_append_that_needs_more_time_than_it_has_lands(database_url: str, commit: bool) -> None:
    """It was sent again for ever, with the same limit each time."""
    said: list[tuple[bool, str]] = []
    database = Database(database_url, ROLE, statement_timeout=LIMIT)
    log = PostgresLog(database, Codec(TYPES), on_state=lambda ok, detail: said.append((ok, detail)))
    async with log:
        await log.take_epoch("one")
        with slow(database_url, commit=commit):
            async with asyncio.timeout(PATIENCE / 4):
                assert await log.append(request(saw("a", 1), saw("b", 2))) == 2
        assert [(one.position, one.stream) for one in await everything(log)] == [(1, "a"), (2, "b")]
        assert [one.position for one in await everything(PostgresLog(database, Codec(TYPES)))] == [1, 2]
        longer = [detail for ok, detail in said if not ok]
        assert any("longer than 0.1 s" in one and "again with 0.2 s" in one for one in longer), longer
        assert said[-1] == (True, "")
        async with asyncio.timeout(PATIENCE):  # a commit on a busy machine may take longer than the limit, too
            for n in count(3):
                assert await log.append(request(saw("a", n))) == 1
                if log.appender._line.limit.seconds == LIMIT:  # what is quick again has its limit again
                    break


async def test_a_read_that_needs_more_time_than_it_has_is_given_more(database_url: str) -> None:
    line = Line(Database(database_url, ROLE, statement_timeout=LIMIT), "reader")
    tries = []
    try:
        while not tries or isinstance(tries[-1], LogUnavailable):
            try:
                tries.append(await line.fetch("SELECT 1 FROM pg_sleep(%s)", (0.3,)))
            except LogUnavailable as error:
                tries.append(error)
            assert len(tries) < 8
        assert "longer than 0.1 s" in str(tries[0])
        assert "again with 0.2 s" in str(tries[0])
        assert tries[-1] == [(1,)]
    finally:
        await line.close()


async def test_a_server_that_says_nothing_is_not_waited_for_longer(database_url: str) -> None:
    """A connection that was open before and is silent says nothing of how long the statement takes."""
    wire = Wire(database_url)
    line = Line(Database(await wire.start(), ROLE, connect_timeout=2, statement_timeout=LIMIT), "reader")
    try:
        assert await line.fetch("SELECT 1", ()) == [(1,)]
        wire.set("silent")
        with pytest.raises(LogUnavailable):
            await line.fetch("SELECT 1", ())
        assert line.limit.seconds == LIMIT
        wire.set("whole")
        assert await line.fetch("SELECT 1", ()) == [(1,)]
    finally:
        await line.close()
        await wire.stop()


@untriggered
async def test_a_log_that_was_slow_has_each_event_once(database_url: str) -> None:
    """Many callers at once, while batches need longer than they may."""
    database = Database(database_url, ROLE, statement_timeout=LIMIT)
    async with PostgresLog(database, Codec(TYPES), max_batch=3) as log:
        await log.take_epoch("one")
        with slow(database_url, commit=False):
            async with asyncio.timeout(PATIENCE / 2):
                answers = await asyncio.gather(*(log.append(request(saw(f"s{n % 3}", n))) for n in range(9)))
        assert answers == [1] * 9
        found = [one.event.n for one in await everything(log) if isinstance(one.event, Saw)]
        assert sorted(found) == list(range(9))


async def test_a_statement_that_somebody_cancels_is_given_no_more_time(database_url: str) -> None:
    line = Line(Database(database_url, ROLE), "reader")
    cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'SELECT 1 FROM pg_sleep%'"
    asked = asyncio.create_task(line.fetch("SELECT 1 FROM pg_sleep(%s)", (PATIENCE,)))
    try:
        with connected(database_url) as owner:
            while owner.execute(cancel).fetchone() == (0,):
                await asyncio.sleep(0.01)
        with pytest.raises(LogUnavailable, match="due to user request"):
            await asked
        assert line.limit.seconds == 10.0
    finally:
        await line.close()
