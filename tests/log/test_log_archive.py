"""Archives of a log: what is in them, that they are there whole or not at all, and that other programs read them."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import psycopg
import pyarrow.parquet
import pytest

from controlplane.log.archive import parquet
from controlplane.log.archive.checking import check_archives, check_checkpoint, check_seam
from controlplane.log.archive.manifest import (
    BATCHES,
    BODIES,
    EVENTS,
    MANIFEST,
    Archive,
    ArchiveError,
    ArchiveManifest,
    archives_of,
    some_archives,
)
from controlplane.log.checkpoint import Checkpoint
from controlplane.log.verify import NoLog
from tests.log import archived
from tests.log.archived import archive, connected, rows, written
from tests.support.rows import each


@pytest.fixture
def owner(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with connected(database_url) as connection:
        yield connection


@pytest.fixture
def log(written_url: str, owner: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """A log of 75 events in four partitions, of which three are sealed."""
    return owner


def bounds(archives: list[Archive]) -> list[tuple[int, int]]:
    return [(one.manifest.first, one.manifest.last) for one in archives]


async def test_sealed_partitions_are_archived_up_to_their_last_batch_each_once(
    log: psycopg.Connection[Any], tmp_path: Path
) -> None:
    made = archive(log, tmp_path)
    assert bounds(made) == [(1, 18), (19, 39), (40, 60)]
    assert made[0].folder.name == "000000000000001-000000000000018"
    assert archive(log, tmp_path) == []
    assert bounds(archives_of(tmp_path, "main")) == bounds(made)
    found = check_archives(made)
    assert (found.first, found.last, found.events, found.batches, found.bodies) == (1, 60, 60, 20, 20)
    check_seam(log, made[-1])
    noted = "SELECT first, last, directory, dropped_at FROM audit.archives ORDER BY first"
    assert [row[:2] for row in log.execute(noted)] == bounds(made)


async def test_an_archive_is_on_the_disk_with_every_folder_that_leads_to_it(
    log: psycopg.Connection[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut may take the archives whose events have left the database."""
    settled: list[Path] = []

    def noted(descriptor: int, fsync: Callable[[int], None] = os.fsync) -> None:
        fsync(descriptor)
        settled.append(Path(f"/proc/self/fd/{descriptor}").resolve())

    monkeypatch.setattr(os, "fsync", noted)
    made = archive(log, tmp_path / "new" / "folder")
    assert {tmp_path, tmp_path / "new", tmp_path / "new" / "folder"} <= set(settled)
    last = max(place for place, path in enumerate(settled) if path.parent.name.endswith(".unfinished"))
    assert made[-1].folder.parent in settled[last:]


@pytest.mark.parametrize(("before", "last"), [(20, [18]), (40, [18, 39]), (1, []), (1000, [18, 39, 60])])
async def test_only_what_is_before_a_position(
    log: psycopg.Connection[Any], tmp_path: Path, before: int, last: list[int]
) -> None:
    assert [end for _, end in bounds(archive(log, tmp_path, before))] == last


async def test_where_there_is_nothing_to_archive_no_directory_is_made(
    log: psycopg.Connection[Any], tmp_path: Path
) -> None:
    assert archive(log, tmp_path / "typo", 1) == []
    assert not (tmp_path / "typo").exists()


async def test_only_what_is_before_a_time(log: psycopg.Connection[Any], tmp_path: Path) -> None:
    (at,) = log.execute("SELECT recorded_at FROM controlplane.events WHERE position = 40").fetchone() or ()
    assert bounds(archive(log, tmp_path, at)) == [(1, 18), (19, 39)]


async def test_the_rows_are_those_of_the_table_with_types(log: psycopg.Connection[Any], tmp_path: Path) -> None:
    archive(log, tmp_path)
    files = sorted(tmp_path.glob(f"main/*/{EVENTS}"))
    table = pyarrow.parquet.read_table(files[0])
    kinds = {name: str(kind) for name, kind in zip(table.schema.names, table.schema.types, strict=True)}
    assert kinds["position"] == "int64"
    assert (kinds["data"], kinds["recorded_at"], kinds["caused_by"]) == ("string", "timestamp[us, tz=UTC]", "int64")
    read = [("main", *row) for path in files for piece in parquet.read(path, parquet.EVENT_COLUMNS) for row in piece]
    query = archived.EVENTS.replace(
        "*",
        "log, position, stream, version, type, schema, data::text, reason, cluster, caused_by, trace, observed_at, "
        "recorded_at",
    )
    there = log.execute(query.replace("ORDER", "AND position <= 60 ORDER").encode()).fetchall()
    assert read == there


async def test_duckdb_reads_them(log: psycopg.Connection[Any], tmp_path: Path) -> None:
    archive(log, tmp_path)
    found = duckdb.sql(
        f"SELECT stream, count(*) AS events, max(data ->> '$.n') AS n FROM '{tmp_path}/main/*/{EVENTS}'"
        " WHERE stream LIKE 'long/%' GROUP BY stream ORDER BY stream"
    ).fetchall()
    assert found == [("long/a", 20, "9"), ("long/rare", 4, "5")]


async def test_without_bodies_there_are_none(log: psycopg.Connection[Any], tmp_path: Path) -> None:
    assert check_archives(archive(log, tmp_path, bodies=False)).bodies == 0


async def test_another_log_of_the_database_has_archives_of_its_own(
    database_url: str, log: psycopg.Connection[Any], tmp_path: Path
) -> None:
    await written(database_url, 9, log="east/1", size=None)
    assert bounds(archive(log, tmp_path)) == [(1, 18), (19, 39), (40, 60)]
    assert bounds(archive(log, tmp_path, log="east/1")) == [(1, 18)]
    assert {one.name for one in tmp_path.iterdir()} == {"main", "east%2F1"}
    with pytest.raises(NoLog, match="there are east/1, main"):
        archive(log, tmp_path, log="other")
    with pytest.raises(
        ArchiveError, match="has no archive of the log other: there are archives of east/1, main; choose"
    ):
        some_archives(tmp_path, "other")


def test_a_folder_that_is_no_archive_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "photos" / "2026").mkdir(parents=True)
    with pytest.raises(ArchiveError, match=r"has no archive of the log main$"):
        some_archives(tmp_path, "main")


async def test_what_was_left_unfinished_is_written_anew(log: psycopg.Connection[Any], tmp_path: Path) -> None:
    left = tmp_path / "main" / "000000000000001-000000000000018.unfinished"
    left.mkdir(parents=True)
    (left / EVENTS).write_text("half of it")
    assert bounds(archive(log, tmp_path)) == [(1, 18), (19, 39), (40, 60)]
    assert not left.exists()


async def test_a_hole_in_the_log_is_not_archived(log: psycopg.Connection[Any], tmp_path: Path) -> None:
    log.execute("DELETE FROM controlplane.events WHERE position = 25")
    with pytest.raises(ArchiveError, match="has 20 events at the positions 19 to 39: some were removed"):
        archive(log, tmp_path)
    assert bounds(archives_of(tmp_path, "main")) == [(1, 18)]


async def test_a_target_that_cannot_be_written_is_told_and_goes_on_later(
    log: psycopg.Connection[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: every write but the first few fails."""
    write, count = parquet.ParquetFile.write, 0

    def full(self: parquet.ParquetFile, piece: Any) -> None:
        nonlocal count
        count += 1
        if count > 4:
            raise OSError(28, "No space left on device")
        write(self, piece)

    monkeypatch.setattr(parquet.ParquetFile, "write", full)
    with pytest.raises(ArchiveError, match=r"cannot be written to .*: No space left on device; nothing was dropped"):
        archive(log, tmp_path)
    assert bounds(archives_of(tmp_path, "main")) == [(1, 18)]
    monkeypatch.undo()
    assert bounds(archive(log, tmp_path)) == [(19, 39), (40, 60)]


# --- what is not as it was written -----------------------------------------------------------------------------------


def cut(folder: Path) -> None:
    path = folder / EVENTS
    path.write_bytes(path.read_bytes()[:-100])


def flip(folder: Path) -> None:
    data = bytearray((folder / EVENTS).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / EVENTS).write_bytes(bytes(data))


def anew(folder: Path, name: str, columns: parquet.Columns, change: Callable[[list[Any]], list[Any]]) -> None:
    """Write a file with other rows, and a manifest that says so: as somebody does who knows the format."""
    found = change([list(row) for piece in parquet.read(folder / name, columns) for row in piece])
    with parquet.ParquetFile(folder / name, columns) as file:
        file.write([tuple(row) for row in found])
    manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=ArchiveManifest)
    from controlplane.log.archive.writing import _entry

    files = {**manifest.files, name: _entry(folder / name)}
    (folder / MANIFEST).write_bytes(msgspec.json.encode(msgspec.structs.replace(manifest, files=files)))


def told_otherwise(found: list[Any]) -> list[Any]:
    found[4][5] = '{"n":999}'
    return found


def changed(folder: Path) -> None:
    anew(folder, EVENTS, parquet.EVENT_COLUMNS, told_otherwise)


def shortened(folder: Path) -> None:
    anew(folder, EVENTS, parquet.EVENT_COLUMNS, lambda found: found[:-1])


def another_body(folder: Path) -> None:
    anew(folder, BODIES, parquet.BODY_COLUMNS, lambda found: [[found[0][0], "{}", *found[0][2:]], *found[1:]])


def without_batch(folder: Path) -> None:
    anew(folder, BATCHES, parquet.BATCH_COLUMNS, lambda found: found[:1] + found[2:])


def another_tip(folder: Path) -> None:
    said = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**said, "hash": "00" * 32}))


def renamed(folder: Path) -> None:
    folder.rename(folder.with_name("000000000000019-000000000000040"))


def without_events(folder: Path) -> None:
    (folder / EVENTS).unlink()


def without_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


def no_json(folder: Path) -> None:
    (folder / MANIFEST).write_text("{")


DAMAGE: list[tuple[Callable[[Path], None], str]] = [
    (cut, "events.parquet has .* bytes of .*: it was cut or changed"),
    (flip, "events.parquet has another SHA-256 than its manifest says"),
    (changed, "the batch at the positions 22 to 24 has another hash"),
    (shortened, "lacks the event at position 39"),
    (another_body, "bodies.parquet has another body than"),
    (without_batch, "batches.parquet has no batch from 22 on"),
    (another_tip, "says another hash than its last batch has|does not go on where the archive before it ends"),
    (renamed, "is of the positions 19 to 39: the folder was renamed"),
    (without_events, "events.parquet is missing"),
    (without_manifest, "has no manifest.json"),
    (no_json, "manifest.json cannot be read"),
    (shutil.rmtree, "the positions 19 to 39 are missing before .*: an archive was removed"),
]


@pytest.mark.undistributed("events do not leave a log that Citus distributes")
async def test_what_is_not_as_it_was_written_is_told_with_its_file(
    log: psycopg.Connection[Any], tmp_path: Path
) -> None:
    """The log is archived once: every damage is done to a copy, and leaves the log as it was."""
    archive(log, tmp_path / "whole")
    before = rows(log)

    @each(("damage", "told"), DAMAGE, ids=[one.__name__ for one, _ in DAMAGE])
    def is_told(damage: Callable[[Path], None], told: str) -> None:
        place = tmp_path / damage.__name__
        shutil.copytree(tmp_path / "whole", place)
        damage(place / "main" / "000000000000019-000000000000039")
        with pytest.raises(ArchiveError, match=told):
            check_archives(some_archives(place, "main"))
        with pytest.raises(ArchiveError, match=told):
            archived.dropped(log, place)
        assert rows(log) == before

    is_told()


async def test_archives_of_another_log_of_the_same_name_are_refused(
    database_url: str, log: psycopg.Connection[Any], tmp_path: Path
) -> None:
    archive(log, tmp_path)
    log.execute("UPDATE controlplane.log_head SET id = %s", (uuid.uuid4(),))
    with pytest.raises(ArchiveError, match="another log"):
        archive(log, tmp_path)
    with pytest.raises(ArchiveError, match="another log"):
        check_seam(log, archives_of(tmp_path, "main")[-1])


async def test_a_chain_that_was_made_anew_in_the_database_does_not_fit_the_archive(
    log: psycopg.Connection[Any], tmp_path: Path
) -> None:
    archive(log, tmp_path)
    log.execute("UPDATE controlplane.batches SET hash = sha256(hash) WHERE last = 60")
    with pytest.raises(ArchiveError, match="ends with another hash than the log main of this database has at 60"):
        check_seam(log, archives_of(tmp_path, "main")[-1])


@pytest.mark.undistributed("events do not leave a log that Citus distributes")
async def test_archives_are_compared_with_a_checkpoint(log: psycopg.Connection[Any], tmp_path: Path) -> None:
    """Whoever can change archives and make their hashes anew has not changed what somebody wrote down before."""
    archives = archive(log, tmp_path)
    first, last = archives[0].manifest, archives[-1].manifest
    kept = Checkpoint(
        log="main",
        log_id=first.log_id,
        position=last.last,
        hash=last.hash,
        chained_from=1,
        sealed=None,
        at=datetime.now(UTC),
    )
    change = msgspec.structs.replace
    check_checkpoint(archives, kept)
    check_checkpoint(archives, change(kept, position=first.last, hash=first.hash))
    for wrong, told in (
        (change(kept, log_id=uuid.uuid4()), "the checkpoint is of another log: main with the identity"),
        (change(kept, log="other"), "the checkpoint is of another log: other"),
        (
            change(kept, position=last.last + 1),
            f"the archives have 1 to {last.last}: compare it with the log, without --archive",
        ),
        (change(kept, hash="00" * 32), f"batches.parquet has not the hash of the checkpoint at {last.last}"),
        (change(kept, hash=first.hash), "something up to it was changed, and the hashes after it were made anew"),
        (change(kept, position=last.last - 1), "has not the hash of the checkpoint at"),
    ):
        with pytest.raises(ArchiveError, match=re.escape(told)):
            check_checkpoint(archives, wrong)
