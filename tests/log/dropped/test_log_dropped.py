"""A log whose old events left it: it goes on, and what is over is known by its version."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from controlplane.log.archive import dropping, exchange
from controlplane.log.archive.manifest import EVENTS, Archive, ArchiveError, archives_of
from controlplane.log.connect import Database
from controlplane.log.event import LogArchived, VersionConflict
from controlplane.log.snapshots import Contents, PostgresSnapshots
from controlplane.log.verify import NoLog, checkpoint_of, verify
from tests.log.archived import STREAMS, archive, connected, dropped, over, restored, rows, written
from tests.log.words import ROLE, everything, postgres_opener, request, saw

pytestmark = pytest.mark.undistributed("events do not leave a log that Citus distributes")


async def test_streams_that_are_over_leave_as_a_whole_and_the_others_stay(
    log: psycopg.Connection[Any], database_url: str, tmp_path: Path
) -> None:
    before = rows(log)
    found = dropped(log, tmp_path, over(1 << 40, "short/3"))
    assert (found.upto, found.streams, found.why) == (60, 19, "")
    stay = [one for one in before if "'short/" not in one[2] or int(one[1]) > 60 or one[2] == "'short/3'"]
    assert rows(log) == stay
    assert (found.events, found.kept) == (len(before) - len(stay), len(stay) - 15)
    left = {name: (count, to) for name, count, to in log.execute(STREAMS)}
    assert left["short/0"] == (1, 1)
    assert left["short/4"] == (2, 15)
    assert left["short/3"] == (2, None)
    assert left["long/a"] == (25, None)
    names = [one.table for one in exchange.partitions(log)]
    assert names == ["events_1", "events_61", "events_81"]
    assert log.execute("SELECT min(last) FROM controlplane.batches").fetchone() == (60,)
    async with postgres_opener(database_url) as opened:
        assert [one.position for one in await everything(opened(), 7)] == [int(one[1]) for one in stay]


async def test_the_log_is_verified_from_there_on_with_what_stayed(log: psycopg.Connection[Any], tmp_path: Path) -> None:
    at = checkpoint_of(log, "main")
    dropped(log, tmp_path)
    found = verify(log, "main", checkpoint=at)
    assert (found.first, found.last, found.wrong, found.archived_to) == (61, 75, [], 60)
    assert list(found.directories) == [str(tmp_path)]
    log.execute("UPDATE controlplane.events SET data = '{}' WHERE position = 2")
    (wrong,) = verify(log, "main").wrong
    assert "of the events up to 60, which are in archives, 24 stayed here, and they are not" in wrong.what


async def test_a_checkpoint_of_what_left_is_not_taken_for_a_deviation(
    database_url: str, owner: psycopg.Connection[Any], tmp_path: Path
) -> None:
    await written(database_url, 10)
    at = checkpoint_of(owner, "main")
    await written(database_url, 15, size=None)
    archive(owner, tmp_path)
    dropped(owner, tmp_path)
    with pytest.raises(NoLog, match=r"the checkpoint is of position 30, .* in archives: compare"):
        verify(owner, "main", checkpoint=at)


async def test_what_is_over_is_known_by_its_version_and_goes_on_from_there(
    log: psycopg.Connection[Any], database_url: str, tmp_path: Path
) -> None:
    dropped(log, tmp_path)
    async with postgres_opener(database_url) as opened:
        keeper = opened()
        await keeper.take_epoch("two")
        with pytest.raises(VersionConflict):
            await keeper.append(request(saw("short/4", 1), **{"short/4": 0}))
        with pytest.raises(VersionConflict):
            await keeper.append(request(saw("short/4", 1), **{"short/4": 1}))
        assert await keeper.append(request(saw("short/4", 1), **{"short/4": 2})) == 1
        assert await keeper.append(request(saw("short/6", 1))) == 1
        assert await keeper.append(request(saw("long/a", 1), **{"long/a": 25})) == 1
        found = {one.stream: one.version for one in await everything(keeper)}
    assert (found["short/4"], found["short/6"], found["long/a"]) == (3, 3, 26)
    assert verify(log, "main").wrong == []


async def test_observations_that_were_known_stay_known(
    database_url: str, owner: psycopg.Connection[Any], tmp_path: Path
) -> None:
    async with postgres_opener(database_url) as opened:
        await written(database_url)
        keeper = opened()
        await keeper.take_epoch("two")
        seen = request(saw("short/0", 7, source="c/i/pods/u", mark=7))
        assert await keeper.append(seen) == 1
        await written(database_url, 20, size=None)
        archive(owner, tmp_path)
        assert dropped(owner, tmp_path).upto > 76
        other = opened()
        await other.take_epoch("three")
        assert await other.append(seen) == 0


async def test_a_second_drop_takes_what_has_ended_since(
    database_url: str, log: psycopg.Connection[Any], tmp_path: Path
) -> None:
    everyone = rows(log)
    dropped(log, tmp_path, over(1 << 40, "short/3"))
    assert dropped(log, tmp_path).why == "everything that is archived has left already"
    await written(database_url, 30, size=None)
    more = archive(log, tmp_path)
    assert [one.manifest.first for one in more] == [61, 79, 100, 121, 139]
    found = dropped(log, tmp_path)
    assert found.upto == more[-1].manifest.last
    assert not log.execute(
        "SELECT FROM controlplane.events WHERE stream = 'short/3' AND position <= %s", (found.upto,)
    ).fetchall()
    assert verify(log, "main").wrong == []
    back = restored(log, tmp_path)
    assert (back.first, back.last) == (1, found.upto)
    assert rows(log)[: len(everyone)] == everyone


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda one: one.file(EVENTS).write_bytes(one.file(EVENTS).read_bytes()[:-1]), "it was cut or changed"),
        (lambda one: one.file(EVENTS).unlink(), "is missing"),
        (lambda one: shutil.rmtree(one.folder), "begin at position"),
    ],
)
async def test_what_stayed_leaves_only_if_the_archive_that_has_it_is_sound(
    database_url: str, log: psycopg.Connection[Any], tmp_path: Path, harm: Callable[[Archive], Any], told: str
) -> None:
    """A stream that went on stayed whole, and its first events are in an archive of the drop before."""
    dropped(log, tmp_path, over(1 << 40, "short/3"))
    harm(archives_of(tmp_path, "main")[0])
    await written(database_url, 30, size=None)
    archive(log, tmp_path)
    before = rows(log)
    with pytest.raises(ArchiveError, match=told):
        dropped(log, tmp_path)
    assert rows(log) == before
    assert verify(log, "main").archived_to == 60


async def test_what_is_in_no_archive_of_the_folder_stays(log: psycopg.Connection[Any], tmp_path: Path) -> None:
    """The first archive was moved, or lost, before anything was dropped."""
    before = rows(log)
    shutil.rmtree(archives_of(tmp_path, "main")[0].folder)
    with pytest.raises(ArchiveError, match="begin at position"):
        dropped(log, tmp_path)
    assert rows(log) == before


@pytest.mark.parametrize(("position", "upto"), [(60, 60), (59, 39), (17, 0)])
async def test_nothing_leaves_after_the_snapshot(
    log: psycopg.Connection[Any], tmp_path: Path, position: int, upto: int
) -> None:
    found = dropped(log, tmp_path, over(position))
    assert found.upto == upto
    assert found.why == (
        "" if upto == 60 else f"the newest snapshot that a process can start from is of position {position}"
    )


async def test_nothing_leaves_that_the_read_models_have_not_looked_at(
    log: psycopg.Connection[Any], tmp_path: Path
) -> None:
    with exchange.alone(log):
        found = dropping.drop(log, "main", tmp_path, over(), read_models=True)
        assert (found.upto, found.why) == (0, "the read models have been made up to position 0")
        log.execute("INSERT INTO read_models.progress VALUES ('main', 40)")
        assert dropping.drop(log, "main", tmp_path, over(), read_models=True).upto == 39


async def test_a_changed_log_keeps_everything(log: psycopg.Connection[Any], tmp_path: Path) -> None:
    log.execute("UPDATE controlplane.events SET data = '{}' WHERE position = 30")
    with pytest.raises(ArchiveError, match=r"is not as it was appended .*, so nothing was dropped"):
        dropped(log, tmp_path)
    assert len(rows(log)) == 75


async def test_a_snapshot_of_what_left_is_not_used(
    log: psycopg.Connection[Any], database_url: str, tmp_path: Path
) -> None:
    """It ends within the batch with which the archives end, which the log still has: whoever began with it was told to
    begin again, and began with it."""
    async with postgres_opener(database_url) as opened:
        reader = opened()
        store = PostgresSnapshots(Database(database_url, ROLE), reader)
        for position in (59, 60):
            await reader.read(0, position)
            place = await reader.place()
            assert place is not None
            assert await store.keep(f"fold of {position}", place, Contents({}, datetime.now(UTC)), [])
        dropped(log, tmp_path)
        later = opened()
        snapshots = PostgresSnapshots(Database(database_url, ROLE), later)
        with capture_logs() as said:
            assert await snapshots.found("fold of 59") is None
        assert said[0]["why"] == "events before it have left the log since"
        found = await snapshots.found("fold of 60")
        assert found is not None
        later.resume(found.place)
        assert [one.position for one in await later.read(60)] == list(range(61, 76))
        await store.close()
        await snapshots.close()


# --- who else is there -----------------------------------------------------------------------------------------------


async def test_who_reads_while_events_leave_is_told_to_begin_again(
    log: psycopg.Connection[Any], database_url: str, tmp_path: Path
) -> None:
    async with postgres_opener(database_url) as opened:
        amid, looks, beyond = opened(), opened(), opened()
        await amid.read(0, 10)
        await looks.head()
        await looks.read(0, 10)
        await beyond.head()
        at = (await beyond.read(0, 70))[-1].position
        dropped(log, tmp_path)
        with pytest.raises(LogArchived, match="up to position 60 are in archives, and 10 had been read"):
            await amid.read(10, 10)
        with pytest.raises(LogArchived):
            await looks.head()
        assert [one.position for one in await beyond.read(at)] == [71, 72, 73, 74, 75]
        await beyond.head()


async def test_another_log_appends_meanwhile_and_loses_nothing(
    log: psycopg.Connection[Any], database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written(database_url, 5, log="other", size=None)
    async with postgres_opener(database_url) as opened:
        other, main = opened("other"), opened()
        await other.take_epoch("two")
        await main.take_epoch("two")
        appended = []

        def append() -> None:
            appended.append(asyncio.run_coroutine_threadsafe(other.append(request(saw("late", 1))), loop).result())
            appended.append(asyncio.run_coroutine_threadsafe(main.append(request(saw("late", 1))), loop).result())

        lock = exchange._lock
        monkeypatch.setattr(exchange, "_lock", lambda *given: (append(), lock(*given)))
        loop = asyncio.get_running_loop()
        assert (await asyncio.to_thread(dropped, log, tmp_path)).upto == 60
        assert appended == [1, 1]
        assert [one.position for one in await everything(other)] == list(range(1, 17))
        monkeypatch.undo()
        await asyncio.to_thread(restored, log, tmp_path)
        assert [one.position for one in await everything(opened("other"))] == list(range(1, 17))
        assert [one.position for one in await everything(opened())] == list(range(1, 77))


async def test_appends_wait_for_a_moment_and_a_held_lock_is_named(
    log: psycopg.Connection[Any], database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_TRIES", 2)
    before = rows(log)
    with connected(database_url) as other, other.transaction():
        other.execute("LOCK TABLE controlplane.events IN ACCESS SHARE MODE")
        with pytest.raises(
            ArchiveError, match=r"another session holds a lock on controlplane.events: nothing was changed"
        ):
            dropped(log, tmp_path)
    assert rows(log) == before
    assert dropped(log, tmp_path).upto == 60
    assert len(exchange.partitions(log)) == 3


async def test_one_at_a_time(log: psycopg.Connection[Any], database_url: str, tmp_path: Path) -> None:
    with (
        connected(database_url) as other,
        exchange.alone(other),
        pytest.raises(ArchiveError, match="another session archives"),
    ):
        dropped(log, tmp_path)


async def test_the_services_role_may_not(log: psycopg.Connection[Any], tmp_path: Path) -> None:
    log.execute("SET ROLE controlplane_service")
    for attempt in (dropped, archive):
        with pytest.raises(ArchiveError, match="use a login with the rights of the schema's owner"):
            attempt(log, tmp_path / "new" if attempt is archive else tmp_path)
