"""Bodies are removed while logs are appended to: what an event names that came with its body is there afterwards.

Each test holds what the one or the other needs next, so that they meet where they must."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from click.testing import CliRunner

from controlplane.cli import cli
from controlplane.cli.errors import Exit, explain
from controlplane.log import retention, schema
from controlplane.log.codec import Codec
from controlplane.log.event import Append, Body, Event, NewEvent, body_of
from controlplane.log.postgres import PostgresLog
from tests.log.archived import archive, connected, dropped, restored
from tests.log.migrating import partition_size
from tests.log.words import postgres_opener, until

# An append that has looked for its bodies, and waits for the head.
_AT_THE_HEAD: LiteralString = """
SELECT count(*) FROM pg_locks b JOIN pg_locks h USING (pid)
WHERE b.relation = 'controlplane.bodies'::regclass AND b.mode = 'RowExclusiveLock' AND b.granted
  AND h.relation = 'controlplane.log_head'::regclass AND h.mode = 'RowShareLock' AND h.granted"""
_WAITS: LiteralString = """
SELECT count(*) FROM pg_locks l WHERE l.relation = 'controlplane.bodies'::regclass AND NOT l.granted"""
_REMOVES: LiteralString = """
SELECT count(*) FROM pg_locks l
WHERE l.relation = 'controlplane.bodies'::regclass AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock') AND l.granted"""
MONTH = timedelta(days=30)


class Named(Event):
    template: str


def body(number: int) -> Body:
    return body_of({"number": number})


def naming(one: Body, stream: str = "job/jobs.batch/a/j") -> Append:
    """An observation, with its body."""
    return Append([NewEvent(stream=stream, event=Named(template=one.ref), bodies=(one,))])


def execute(url: str, statement: LiteralString) -> list[Any]:
    with psycopg.connect(schema.libpq_url(url), autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def left(url: str) -> set[str]:
    return {bytes(hash_).hex() for (hash_,) in execute(url, "SELECT hash FROM controlplane.bodies")}


def sees(url: str, query: LiteralString) -> Callable[[], bool]:
    return lambda: execute(url, query)[0][0] > 0


@contextmanager
def holding(url: str, statement: LiteralString, *values: Any) -> Iterator[None]:
    """Keep the locks of a statement."""
    with psycopg.connect(schema.libpq_url(url)) as connection:
        connection.execute(statement, values)
        yield


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, a purge waits until the test lets it go on."""
    monkeypatch.setattr(retention, "_TRIES", 10**6, raising=False)


@pytest.fixture
async def log(database_url: str) -> AsyncIterator[PostgresLog]:
    """A log whose two events, and the bodies that they name, are forty days old."""
    async with postgres_opener(database_url) as opener:
        log = opener("main", Codec([Named]))
        await log.take_epoch("one")
        await log.append(naming(body(1)))
        await log.append(naming(body(2)))
        age(database_url)
        yield log


def age(url: str) -> None:
    execute(url, "UPDATE controlplane.events SET recorded_at = now() - interval '40 days'")
    execute(url, "UPDATE controlplane.bodies SET recorded_at = now() - interval '40 days'")


def purging(url: str) -> asyncio.Task[retention.Purged]:
    return asyncio.create_task(asyncio.to_thread(retention.purge, url, MONTH))


async def test_a_body_that_an_append_has_found_stays_when_that_append_is_committed(
    log: PostgresLog, database_url: str
) -> None:
    with holding(database_url, "SELECT FROM controlplane.log_head h WHERE h.log = 'main' FOR UPDATE"):
        append = asyncio.create_task(log.append(naming(body(1))))
        await until(sees(database_url, _AT_THE_HEAD))
        purge, waits = purging(database_url), sees(database_url, _WAITS)
        await until(lambda: purge.done() or waits())
    assert await append == 1
    assert await purge == (1, len(body(2).text))
    assert left(database_url) == {body(1).ref}


async def test_an_append_that_comes_while_a_body_is_removed_has_it_stored_anew(
    log: PostgresLog, database_url: str
) -> None:
    one = "SELECT FROM controlplane.bodies b WHERE b.hash = %s FOR UPDATE"
    with holding(database_url, one, body(1).hash):
        purge = purging(database_url)
        await until(sees(database_url, _REMOVES))
        append, waits = asyncio.create_task(log.append(naming(body(1)))), sees(database_url, _WAITS)
        await until(lambda: append.done() or waits())
    assert await append == 1
    await purge
    assert left(database_url) == {body(1).ref}


@pytest.mark.undistributed("events do not leave a log that Citus distributes")
async def test_a_body_stays_that_events_name_which_are_restored_meanwhile(database_url: str, tmp_path: Path) -> None:
    """They come back to positions that the log has had all the time."""
    partition_size(database_url, 20)
    async with postgres_opener(database_url) as opener:
        log = opener("main", Codec([Named]))
        await log.take_epoch("one")
        for number in range(50):
            await log.append(naming(body(1), f"short/{number}") if number < 10 else naming(body(2), "long/a"))
    execute(database_url, "UPDATE controlplane.bodies SET recorded_at = now() - interval '40 days'")
    with connected(database_url) as owner:
        archive(owner, tmp_path)
        assert dropped(owner, tmp_path).events == 10
        with holding(database_url, "LOCK TABLE controlplane.bodies IN ROW EXCLUSIVE MODE"):
            purge, waits = purging(database_url), sees(database_url, _WAITS)
            await until(lambda: purge.done() or waits())
            assert restored(owner, tmp_path).events == 10
    assert await purge == (0, 0)
    assert left(database_url) == {body(1).ref, body(2).ref}


async def test_who_finds_no_moment_without_appends_says_so(
    log: PostgresLog, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_TRIES", 2)
    with holding(database_url, "LOCK TABLE controlplane.bodies IN ROW EXCLUSIVE MODE"):
        said = CliRunner().invoke(cli, ["log", "purge-bodies", "--older-than", "30d", "--database-url", database_url])
    assert said.exception is not None
    sentence, code = explain(said.exception)
    assert code == Exit.DATABASE
    assert sentence.startswith("another session writes to controlplane.bodies for long: 0 bodies were removed")
    assert left(database_url) == {body(1).ref, body(2).ref}
