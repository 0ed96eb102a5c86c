"""Writes the sealed partitions of a log into archives, one each.

In: a connection with the owner's rights, and a folder. Out: archives that are there whole or not at all; a run that was
ended goes on with the first one that is missing. A partition is sealed once the log has gone past its end. An archive
ends with the last batch that ends in its partition, so that the chain says what is in it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import msgspec
import psycopg

from controlplane.log.archive import parquet
from controlplane.log.archive.manifest import (
    BATCHES,
    BODIES,
    EVENTS,
    MANIFEST,
    UNFINISHED,
    Archive,
    ArchiveError,
    ArchiveManifest,
    FileEntry,
    archives_of,
    checksum,
    folder_name,
    log_folder,
    settle,
)
from controlplane.log.archive.parquet import BATCH_COLUMNS, BODY_COLUMNS, EVENT_COLUMNS, PIECE, ParquetFile, Row
from controlplane.log.verify import no_log

_NAMED = re.compile(r'"([0-9a-f]{64})"')
"""Whatever looks like a hash in an event names a body, or nothing."""
_AT_ONCE = 1000

_HEAD: LiteralString = """
SELECT h.id, h.position, h.chained_from, h.archived_to,
       (SELECT b.hash FROM controlplane.batches b WHERE b.log = h.log AND b.last = h.chained_from - 1) IS NOT NULL AS sealed,
       (SELECT v.version_num FROM controlplane.alembic_version v) AS schema, has_table_privilege('controlplane.archives', 'INSERT')
FROM controlplane.log_head h WHERE h.log = %s"""
# The batch with which an archive ends: the last one that ends in a sealed partition, and before a position and a time.
_ENDS: LiteralString = """
SELECT DISTINCT b.last FROM (
    SELECT substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \\(''?(\\d+)''?\\)')::bigint - 1 AS last
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass('controlplane.events')
) p CROSS JOIN LATERAL (
    SELECT b.last, b.recorded_at FROM controlplane.batches b WHERE b.log = %(log)s AND b.last <= p.last ORDER BY b.last DESC LIMIT 1
) b
WHERE p.last < %(head)s AND b.last > %(after)s AND (%(position)s::bigint IS NULL OR b.last < %(position)s)
  AND (%(time)s::timestamptz IS NULL OR b.recorded_at < %(time)s)
ORDER BY 1"""
_BEFORE: LiteralString = "SELECT encode(b.hash, 'hex') FROM controlplane.batches b WHERE b.log = %s AND b.last = %s"
_EVENTS: LiteralString = """
SELECT e.position, e.stream, e.version, e.type, e.schema, e.data::text, e.reason, e.cluster, e.caused_by, e.trace, e.observed_at,
       e.recorded_at
FROM controlplane.events e WHERE e.log = %s AND e.position >= %s AND e.position <= %s ORDER BY e.position"""
_BATCHES: LiteralString = """
SELECT b.first, b.last, b.batch::text, b.epoch, b.recorded_at, b.hash FROM controlplane.batches b
WHERE b.log = %s AND b.last >= %s AND b.last <= %s ORDER BY b.last"""
_BODIES: LiteralString = """
SELECT b.hash, b.body::text, b.recorded_at, b.redacted FROM controlplane.bodies b WHERE b.hash = ANY(%s) ORDER BY b.hash"""
_NOTE: LiteralString = """
INSERT INTO controlplane.archives AS a (log, first, last, since, until, directory, hash) VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (log, first) DO UPDATE SET directory = excluded.directory, archived_at = excluded.archived_at
WHERE a.last = excluded.last AND a.hash = excluded.hash AND a.directory <> excluded.directory"""


class LogEnd(NamedTuple):
    """What a log is, where its chain begins, and up to where its events left the database."""

    id: Any
    position: int
    chained_from: int
    archived_to: int
    sealed: bool
    schema: str
    may_archive: bool


def log_end(connection: psycopg.Connection[Any], log: str) -> LogEnd:
    """Return what a log is. Raises `NoLog`."""
    row = connection.execute(_HEAD, (log,)).fetchone()
    if row is None:
        raise no_log(connection, log)
    return LogEnd(*row)


def planned(
    connection: psycopg.Connection[Any], log: str, directory: Path, before: int | datetime | None = None
) -> list[tuple[int, int]]:
    """Return which archives a directory lacks, by their first and last positions: of sealed partitions alone that end
    before a position or a time. Raises `ArchiveError`, `NoLog`, and psycopg's errors."""
    end = log_end(connection, log)
    if end.chained_from > 1 and not end.sealed and end.archived_to < end.chained_from:
        raise ArchiveError(
            f"what the log {log} has before position {end.chained_from} has no hashes: run `controlplane log seal` "
            "first"
        )
    after = _goes_on_after(directory, log, end)
    given: dict[str, Any] = {"log": log, "head": end.position, "after": after, "position": None, "time": None}
    given["time" if isinstance(before, datetime) else "position"] = before
    ends = [last for (last,) in connection.execute(_ENDS, given).fetchall()]
    return list(zip([after + 1, *(last + 1 for last in ends)], ends, strict=False))


def write_archives(
    connection: psycopg.Connection[Any],
    log: str,
    directory: Path,
    before: int | datetime | None = None,
    *,
    bodies: bool = True,
) -> Iterator[Archive]:
    """Yield the archives that a directory lacks (`planned`), as they are written. Raises as `planned` does."""
    parquet.arrow()
    missing = planned(connection, log, directory, before)
    end = log_end(connection, log)
    if not end.may_archive:
        raise ArchiveError(
            "the database's role may not note archives: use a login with the rights of the schema's owner"
        )
    for one in archives_of(directory, log):  # whoever wrote it may have been ended before he could note it
        _note(connection, one, directory)
    try:
        if missing:
            new = [one for one in (directory, *directory.parents) if not one.exists()]
            directory.mkdir(parents=True, exist_ok=True)
            settle(one.parent for one in new)
        for first, last in missing:
            yield _write(connection, log, directory, end, first, last, bodies=bodies)
    except OSError as error:
        raise ArchiveError(
            f"the archive cannot be written to {directory}: {error.strerror or error}; nothing was dropped, and "
            "another run goes on where this one ended"
        ) from None


def _goes_on_after(directory: Path, log: str, end: LogEnd) -> int:
    """Return after which position the next archive begins."""
    there = archives_of(directory, log)
    if there and there[-1].manifest.log_id != end.id:
        raise ArchiveError(
            f"{log_folder(directory, log)} has archives of another log that was called {log}: choose another directory"
        )
    after = there[-1].manifest.last if there else end.archived_to
    if after < end.archived_to:
        raise ArchiveError(
            f"{log_folder(directory, log)} ends at position {after}, and what the log {log} has up to "
            f"{end.archived_to} was archived elsewhere: name that directory (the view audit.archives has it), or copy "
            "its archives here"
        )
    return after


def _write(
    connection: psycopg.Connection[Any], log: str, directory: Path, end: LogEnd, first: int, last: int, *, bodies: bool
) -> Archive:
    folder = log_folder(directory, log)
    whole = folder / folder_name(first, last)
    unfinished = whole.with_name(whole.name + UNFINISHED)
    if not folder.exists():
        folder.mkdir()
        settle([directory])
    for left in folder.glob(f"*{UNFINISHED}"):
        shutil.rmtree(left)
    unfinished.mkdir()
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        named, since, until = write_events(connection, unfinished / EVENTS, log, first, last)
        batches = _write_batches(connection, unfinished / BATCHES, log, first, last)
        _write_bodies(connection, unfinished / BODIES, sorted(named) if bodies else [])
        before = connection.execute(_BEFORE, (log, first - 1)).fetchone() if first != end.chained_from else None
    manifest = ArchiveManifest(
        log=log,
        log_id=end.id,
        first=first,
        last=last,
        since=since,
        until=until,
        before=before[0] if before is not None else None,
        hash=batches[5].hex(),
        batch=UUID(batches[2]),
        chained_from=end.chained_from,
        schema=end.schema,
        program=metadata.version("controlplane"),
        archived_at=datetime.now(UTC),
        files={name: _entry(unfinished / name) for name in (EVENTS, BATCHES, BODIES)},
    )
    (unfinished / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    settle([*unfinished.iterdir(), unfinished])
    unfinished.rename(whole)
    settle([folder])
    written = Archive(whole, manifest)
    _note(connection, written, directory)
    return written


def _note(connection: psycopg.Connection[Any], archive: Archive, directory: Path) -> None:
    one = archive.manifest
    noted = (one.log, one.first, one.last, one.since, one.until, str(directory.resolve()), bytes.fromhex(one.hash))
    connection.execute(_NOTE, noted)


def write_events(
    connection: psycopg.Connection[Any], path: Path, log: str, first: int, last: int
) -> tuple[set[str], datetime, datetime]:
    """Write events to a file; return the bodies that they name, and when the first and the last one were recorded.
    Raises `ArchiveError` if some are missing."""
    named: set[str] = set()
    times: list[datetime] = []
    with ParquetFile(path, EVENT_COLUMNS) as file:
        for rows in _pieces(connection, _EVENTS, (log, first, last)):
            file.write(rows)
            for row in rows:
                named.update(_NAMED.findall(row[5]))
            times += (rows[0][-1], rows[-1][-1])
    if file.rows != last - first + 1:
        raise ArchiveError(
            f"the log {log} has {file.rows} events at the positions {first} to {last}: some were removed; "
            "`controlplane log verify` says which"
        )
    return named, times[0], times[-1]


def _write_batches(connection: psycopg.Connection[Any], path: Path, log: str, first: int, last: int) -> Row:
    """Write batches; return the last one."""
    final: Row = ()
    with ParquetFile(path, BATCH_COLUMNS) as file:
        for rows in _pieces(connection, _BATCHES, (log, first, last)):
            file.write(rows)
            final = rows[-1]
    return final


def _write_bodies(connection: psycopg.Connection[Any], path: Path, named: Sequence[str]) -> None:
    with ParquetFile(path, BODY_COLUMNS) as file:
        for begin in range(0, len(named), _AT_ONCE):
            hashes = [bytes.fromhex(one) for one in named[begin : begin + _AT_ONCE]]
            file.write(connection.execute(_BODIES, (hashes,), binary=True).fetchall())


def _pieces(connection: psycopg.Connection[Any], query: LiteralString, given: tuple[Any, ...]) -> Iterator[list[Row]]:
    with connection.cursor("archive", binary=True) as cursor:
        cursor.execute(query, given)
        while rows := cursor.fetchmany(PIECE):
            yield rows


def _entry(path: Path) -> FileEntry:
    rows = parquet.arrow().parquet.read_metadata(path).num_rows
    return FileEntry(checksum(path), path.stat().st_size, rows)
