"""A snapshot is of this log, whole and undamaged, or there is none: which one is taken, and what is said of the
others."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import LogReplaced, LogUnavailable
from controlplane.log.postgres import LogPosition, PostgresLog
from controlplane.log.schema import libpq_url
from controlplane.log.snapshots import Contents, PostgresSnapshots, SnapshotError, compressed
from tests.log.words import ROLE, TYPES, everything, request, saw

FOLD, OTHER = "f1", "f2"
AT = datetime(2026, 1, 1, tzinfo=UTC)


class Stage:
    """A log with events, each a batch of its own, and its snapshots."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.log = PostgresLog(Database(url, ROLE), Codec(TYPES))
        self.store = PostgresSnapshots(Database(url, ROLE), self.log)
        self.places: list[LogPosition] = []

    async def append(self, count: int) -> None:
        for _ in range(count):
            await self.log.append(request(saw("a")))
            await everything(self.log, after=len(self.places))
            place = await self.log.place()
            assert place is not None
            self.places.append(place)

    async def keep(self, position: int, fold: str = FOLD, **parts: list[bytes]) -> bool:
        given = parts or {"one": [b"1", b"2"], "two": [b"3"]}
        chunks = [(name, compressed(data)) for name, all_ in given.items() for data in all_]
        contents = Contents({name: len(all_) for name, all_ in given.items()}, AT)
        return await self.store.keep(fold, self.places[position - 1], contents, chunks)

    async def found(self, fold: str = FOLD, **more: Any) -> int | None:
        found = await self.store.found(fold, **more)
        return found.position if found is not None else None

    async def chunks(self, fold: str = FOLD) -> list[tuple[str, bytes]]:
        found = await self.store.found(fold)
        assert found is not None
        return [chunk async for chunk in self.store.chunks(found)]

    def run(self, statement: str, *parameters: object) -> list[Any]:
        with psycopg.connect(libpq_url(self.url), autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def there(self) -> list[tuple[str, int]]:
        rows = self.run(
            "SELECT DISTINCT fold_version, position FROM controlplane.snapshots ORDER BY fold_version, position"
        )
        return [(fold, position) for fold, position in rows]


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    one = Stage(database_url)
    await one.log.take_epoch("one")
    await one.append(6)
    yield one
    await one.store.close()
    await one.log.close()


async def test_what_was_kept_is_found(stage: Stage) -> None:
    assert await stage.found() is None
    assert await stage.store.newest(FOLD) == 0
    assert await stage.keep(4)
    found = await stage.store.found(FOLD)
    assert found is not None
    assert found.place == stage.places[3]
    assert found.contents == Contents({"one": 2, "two": 1}, AT)
    assert await stage.chunks() == [("one", b"1"), ("one", b"2"), ("two", b"3")]
    assert await stage.store.newest(FOLD) == 4


async def test_many_chunks_come_in_order(stage: Stage) -> None:
    many = [str(n).encode() for n in range(40)]
    await stage.keep(2, one=many, two=[b"x"])
    assert await stage.chunks() == [*(("one", data) for data in many), ("two", b"x")]


async def test_the_newest_two_of_a_fold_stay(stage: Stage) -> None:
    for position in (1, 2, 3, 4):
        assert await stage.keep(position)
    assert stage.there() == [(FOLD, 3), (FOLD, 4)]
    assert await stage.found() == 4
    assert await stage.found(besides=[4]) == 3


async def test_the_version_before_keeps_its_own_during_a_rollout(stage: Stage) -> None:
    for position, fold in ((1, "f0"), (2, "f3"), (3, OTHER), (4, FOLD), (5, OTHER), (6, FOLD)):
        assert await stage.keep(position, fold)
    assert stage.there() == [(FOLD, 4), (FOLD, 6), (OTHER, 3), (OTHER, 5), ("f3", 2)]
    with capture_logs() as said:
        assert await stage.found(OTHER) == 5
        assert await stage.found("f4") is None
    assert [one["event"] for one in said] == ["snapshots of other versions or settings are not used"]


async def test_of_one_place_there_is_one(stage: Stage) -> None:
    assert await stage.keep(3)
    assert not await stage.keep(3)
    assert not await stage.keep(2)
    assert await stage.keep(2, OTHER)
    assert stage.there() == [(FOLD, 3), (OTHER, 2)]


async def test_a_damaged_one_is_not_believed_and_the_one_before_is(stage: Stage) -> None:
    await stage.keep(3)
    await stage.keep(5)
    stage.run("UPDATE controlplane.snapshots SET data = 'x' WHERE position = 5 AND part = ''")
    with capture_logs() as said:
        assert await stage.found() == 3
    assert [(one["position"], one["why"]) for one in said] == [(5, "its checksum is wrong")]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE controlplane.snapshots SET data = data || 'x' WHERE part = 'one' AND chunk = 1", "checksum is wrong"),
        ("UPDATE controlplane.snapshots SET data = 'x', checksum = sha256('x') WHERE part = 'two'", "incorrect|Error"),
        ("DELETE FROM controlplane.snapshots WHERE part = 'two'", "part two lacks chunk 0"),
        ("DELETE FROM controlplane.snapshots WHERE part = 'one' AND chunk = 0", "does not belong there"),
        ("UPDATE controlplane.snapshots SET part = 'three' WHERE part = 'one'", "does not belong there"),
    ],
)
async def test_a_chunk_that_is_damaged_or_not_there_is_seen(stage: Stage, change: str, why: str) -> None:
    await stage.keep(5)
    stage.run(change)
    with pytest.raises(SnapshotError, match=why):
        await stage.chunks()


async def test_one_of_another_log_is_ignored(stage: Stage) -> None:
    await stage.keep(5)
    stage.run(f"UPDATE controlplane.snapshots SET log_id = '{uuid.uuid4()}'")
    with capture_logs() as said:
        assert await stage.found() is None
    assert said[0]["why"] == "it is of another log"


async def test_one_that_lies_behind_the_end_of_the_log_is_ignored(stage: Stage) -> None:
    """A backup was restored, and the snapshot was not in it but beside it."""
    await stage.keep(5)
    backup_of(stage, 3)
    with capture_logs() as said:
        assert await stage.found() is None
    assert said[0]["why"] == "the log ends before it"


async def test_one_of_events_that_were_lost_is_ignored_when_the_log_has_others_there(stage: Stage) -> None:
    await stage.keep(2)
    await stage.keep(5)
    backup_of(stage, 3)
    other = Stage(stage.url)
    await other.log.take_epoch("two")
    for _ in range(4):
        await other.log.append(request(saw("b")))
    with capture_logs() as said:
        assert await other.found() == 2
    assert [(one["position"], one["why"]) for one in said] == [(5, "the log has another event there")]
    await everything(other.log)
    other.places = [place] * 7 if (place := await other.log.place()) else []
    assert await other.keep(7)
    assert stage.there() == [(FOLD, 2), (FOLD, 7)]  # what is of events that were lost is gone
    await other.store.close()
    await other.log.close()


async def test_one_of_a_part_of_the_log_that_was_lost_is_ignored(stage: Stage) -> None:
    await stage.keep(2)
    await stage.keep(5)
    with capture_logs() as said:
        assert await stage.found(upto=3) == 2
    assert said[0]["why"] == "what the log had after 3 was lost"


async def test_what_the_log_does_not_have_is_not_kept(stage: Stage) -> None:
    here = stage.places[-1]
    for place in (here._replace(position=7), here._replace(batch=uuid.uuid4()), here._replace(log_id=uuid.uuid4())):
        assert not await stage.store.keep(FOLD, place, Contents({}, AT), [])
    assert stage.there() == []


async def test_a_log_that_is_gone_on_with_knows_what_it_was(stage: Stage) -> None:
    """What follows is read, and a log that went back is told, as by whoever has read all of it."""
    found = Stage(stage.url)
    await stage.keep(4)
    snapshot = await found.store.found(FOLD)
    assert snapshot is not None
    found.store.resume(snapshot.place)
    assert await found.store.place() == stage.places[3]
    assert [event.position for event in await found.log.read(4)] == [5, 6]
    found.store.resume(snapshot.place)
    assert (await found.log.head()).position == 6
    backup_of(stage, 3)
    with pytest.raises(LogReplaced, match="had been read up to 4"):
        await found.log.head()
    await found.store.close()
    await found.log.close()


async def test_a_database_that_is_away_is_said(stage: Stage) -> None:
    away = PostgresSnapshots(Database("postgresql://nobody@127.0.0.1:1/none", connect_timeout=1), stage.log)
    with pytest.raises(LogUnavailable):
        await away.found(FOLD)
    with pytest.raises(LogUnavailable):
        await away.keep(FOLD, stage.places[0], Contents({}, AT), [])


def backup_of(stage: Stage, position: int) -> None:
    """Put the log back to a position, the snapshots aside."""
    for table, column in (("events", "position"), ("batches", "last")):
        stage.run(f"DELETE FROM controlplane.{table} WHERE {column} > %s", position)
    stage.run("UPDATE controlplane.log_head SET position = %s", position)


async def test_with_a_snapshot_the_hash_of_its_place_is_written_down(stage: Stage) -> None:
    with capture_logs() as said:
        assert await stage.keep(3)
        assert not await stage.keep(3)
    ((hash_,),) = stage.run("SELECT encode(hash, 'hex') FROM controlplane.batches WHERE last = 3")
    told = [(one["log"], one["position"], one["hash"]) for one in said if one["event"] == "log checkpoint"]
    assert told == [("main", 3, hash_)]
