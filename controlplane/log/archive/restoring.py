"""Brings archived events back into the database.

In: archives that are sound, and a database with the rest of their log, or one that has nothing of it. Out: partitions
with all events from a position on, as if they had not been dropped; what is restored already is left as it is. Of
streams that have a later event, what is archived of them before that position comes back too: a stream is there as a
whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg import sql
from psycopg.types.json import Json

from controlplane.log.archive import exchange
from controlplane.log.archive.checking import check_archives, check_seam
from controlplane.log.archive.exchange import NewTable, Partition, kept_of
from controlplane.log.archive.manifest import BATCHES, BODIES, EVENTS, RESTORED, Archive, ArchiveError, some_archives
from controlplane.log.archive.parquet import (
    BATCH_COLUMNS,
    BODY_COLUMNS,
    EVENT_COLUMNS,
    Row,
    last_of_streams,
    read,
    streams_of,
)
from controlplane.log.archive.writing import LogEnd, log_end
from controlplane.log.verify import NoLog

_COLUMNS = sql.SQL(", ").join(sql.Identifier(name) for name, _ in (("log", ""), *EVENT_COLUMNS))
_TYPES = (
    "text", "int8", "text", "int8", "text", "int2", "json", "text", "text", "int8", "text", "timestamptz", "timestamptz",
)  # fmt: skip
_THEIRS = sql.SQL("e.log = %(log)s")

_BATCH: LiteralString = """
INSERT INTO controlplane.batches (log, first, last, batch, epoch, recorded_at, hash) VALUES (%s, %s, %s, %s::uuid, %s, %s, %s)
ON CONFLICT DO NOTHING"""
_BODY: LiteralString = """
INSERT INTO controlplane.bodies (hash, body, recorded_at, redacted) VALUES (%s, %s::text::json, %s, %s) ON CONFLICT DO NOTHING"""
_BACK: LiteralString = """
UPDATE controlplane.streams s SET archived_to = NULL
WHERE s.log = %(log)s AND s.archived_to IS NOT NULL AND (
    s.archived_to >= %(first)s OR EXISTS (SELECT FROM back b WHERE b.stream = s.stream))"""
_NOTE: LiteralString = "UPDATE controlplane.archives a SET dropped_at = NULL WHERE a.log = %s AND a.first >= %s"
_HEAD: LiteralString = """
UPDATE controlplane.log_head h SET archived_to = %s, kept_events = %s, kept_hash = %s WHERE h.log = %s"""
_NEW: LiteralString = """
INSERT INTO controlplane.log_head (log, id, position, epoch, holder, hash, batch, chained_from, archived_to)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"""
_NOTED: LiteralString = """
INSERT INTO controlplane.archives (log, first, last, since, until, directory, hash, dropped_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, clock_timestamp()) ON CONFLICT DO NOTHING"""
_NEW_STREAMS: LiteralString = """
INSERT INTO controlplane.streams (log, stream, version)
SELECT %s, b.stream, 1 FROM back b ON CONFLICT (log, stream) DO NOTHING"""


class RestoreResult(NamedTuple):
    """What came back: the positions, None if nothing had left, and how many events and bodies. `made`: the database had
    nothing of the log, which ends at `last` now."""

    first: int | None
    last: int | None
    events: int
    bodies: int
    made: bool = False


def restore(
    connection: psycopg.Connection[Any],
    log: str,
    directory: Path,
    wanted: tuple[int, int] | None = None,
    *,
    bodies: bool = False,
    progress: Callable[[Archive], None] = lambda one: None,
) -> RestoreResult:
    """Bring back the events of a log from the position on with which `wanted` begins, all of them by default: whole
    archives. `bodies`: those too that were removed since. Raises `ArchiveError`, with nothing changed, and psycopg's
    errors."""
    archives = some_archives(directory, log)
    end = _end(connection, log, archives)
    if end is not None and end.archived_to == 0:
        check_seam(connection, archives[-1])
        return RestoreResult(None, None, 0, _bodies(connection, archives) if bodies else 0)
    exchange.refuse_distributed(connection)
    made, upto = end is None, archives[-1].manifest.last if end is None else end.archived_to
    earlier, chosen = _chosen(archives, upto, wanted, directory, made=made)
    check_archives([*earlier, *chosen], progress)
    if made:
        _found_log(connection, log, [*earlier, *chosen])
    else:
        check_seam(connection, chosen[-1])
    count = _restore(connection, log, upto, earlier, chosen)
    restored = _bodies(connection, chosen) if bodies else 0
    return RestoreResult(chosen[0].manifest.first, upto, count, restored, made)


def _end(connection: psycopg.Connection[Any], log: str, archives: Sequence[Archive]) -> LogEnd | None:
    """Return what the database's log is, None if it has none. Raises `ArchiveError` if the archives are of another
    one."""
    try:
        end = log_end(connection, log)
    except NoLog:
        return None
    if end.id != archives[0].manifest.log_id:
        raise ArchiveError(f"{archives[0].folder.parent} has archives of another log than the {log} of this database")
    return end


def _chosen(
    archives: Sequence[Archive], upto: int, wanted: tuple[int, int] | None, directory: Path, *, made: bool
) -> tuple[list[Archive], list[Archive]]:
    """Return the archives that are before what is to be restored, and those that are to be, of what left up to a
    position."""
    there = [one for one in archives if one.manifest.first <= upto]
    if not there or there[-1].manifest.last != upto:
        ends = f"end at {archives[-1].manifest.last}" if archives[-1].manifest.last < upto else "begin later"
        raise ArchiveError(
            f"what left the database ends at position {upto}, and the archives in {directory} {ends}: the rest would "
            "be missing in between; the view audit.archives says where they were written"
        )
    if there[0].manifest.first != 1:
        raise ArchiveError(
            f"the archives in {directory} begin at position {there[0].manifest.first}: those before it are needed too, "
            "since streams come back as a whole; the view audit.archives says where they were written"
        )
    if wanted is None:
        return [], there
    first, last = wanted
    if last < upto:
        goes_on = "the archives end" if made else "the database goes on"
        raise ArchiveError(
            f"the positions {first} to {last} alone would leave a gap up to {upto}, where {goes_on}: name "
            f"{first}..{upto}"
        )
    if first > upto:
        there_is = f"in no archive in {directory}: they end at" if made else "in the database: what left it ends at"
        raise ArchiveError(f"the positions from {first} on are {there_is} {upto}")
    chosen = [one for one in there if one.manifest.last >= first]
    return there[: len(there) - len(chosen)], chosen


def _found_log(connection: psycopg.Connection[Any], log: str, archives: Sequence[Archive]) -> None:
    """Make the log in a database that has nothing of it, as if all of its events had left. What is known of a stream
    then is where it goes on, should it begin again: also of those that do not come back."""
    manifest = archives[-1].manifest
    (*_, batch) = _rows(archives[-1])
    with connection.transaction():
        given = (
            log,
            manifest.log_id,
            manifest.last,
            batch[3],
            RESTORED,
            batch[5],
            manifest.batch,
            manifest.chained_from,
            manifest.last,
        )
        connection.execute(_NEW, given)
        connection.execute(_BATCH, (log, *batch))
        newest: dict[str, tuple[int, int]] = {}
        for one in archives:
            newest.update(last_of_streams(one.file(EVENTS)))
            said = one.manifest
            noted = (log, said.first, said.last, said.since, said.until, str(one.folder.parent.parent.resolve()))
            connection.execute(_NOTED, (*noted, bytes.fromhex(said.hash)))
        streams = "COPY controlplane.streams (log, stream, version, archived_to) FROM STDIN"
        with connection.cursor() as cursor, cursor.copy(streams) as copy:
            for stream, last in newest.items():
                copy.write_row((log, stream, *last))


def _restore(
    connection: psycopg.Connection[Any], log: str, upto: int, earlier: Sequence[Archive], chosen: Sequence[Archive]
) -> int:
    """Put partitions with the archived events in the place of the one without; return how many events came back."""
    first = chosen[0].manifest.first
    exchange.begin(connection)
    _streams(connection, chosen)
    old = [one for one in exchange.partitions(connection) if one.first <= upto]
    tables = _tables(old, first, chosen)
    before = kept_of(connection, "events", log, upto)[0]
    for table in tables:
        exchange.make(connection, table)
    by_first = {one.manifest.first: one for one in chosen}
    for table in tables:
        theirs = _THEIRS + sql.SQL(" AND e.position >= %(from)s AND e.position <= %(upto)s")
        exchange.copy(connection, old, table, theirs, {"log": log, "from": first, "upto": upto})
        if (archive := by_first.get(table.first)) is not None:
            name = sql.SQL("controlplane.{}").format(sql.Identifier(table.name))
            _copy_rows(connection, name, log, read(archive.file(EVENTS), EVENT_COLUMNS))
        exchange.finish(connection, table)
    kept: tuple[int, bytes | None] = (0, None)
    if first > 1:
        _bring_earlier(connection, tables[0].name, log, earlier)
        kept = kept_of(connection, tables[0].name, log, first - 1)

    def beside() -> None:
        connection.execute(_BACK, {"log": log, "first": first})
        connection.execute(_NEW_STREAMS, (log,))
        for one in earlier[-1:]:
            (*_, batch) = _rows(one)
            connection.execute(_BATCH, (log, *batch))
        for one in chosen:
            with connection.cursor() as cursor:
                cursor.executemany(_BATCH, [(log, *row) for row in _rows(one)])
        connection.execute(_NOTE, (log, first))

    def head() -> None:
        connection.execute(_HEAD, (first - 1, *kept, log))

    exchange.exchange(connection, log, old, tables, beside, head)
    return upto - first + 1 - before + kept[0]


def _streams(connection: psycopg.Connection[Any], archives: Sequence[Archive]) -> None:
    """Make a table of the streams that come back."""
    connection.execute("DROP TABLE IF EXISTS pg_temp.back")
    connection.execute('CREATE TEMP TABLE back (stream text COLLATE "C" PRIMARY KEY)')
    names: set[str] = set()
    for one in archives:
        names |= streams_of(one.file(EVENTS))
    with connection.cursor() as cursor, cursor.copy("COPY back FROM STDIN") as copy:
        for name in names:
            copy.write_row((name,))


def _tables(old: Sequence[Partition], first: int, chosen: Sequence[Archive]) -> list[NewTable]:
    """Return the new partitions: one for what stays before, and one for each archive; the last one goes on as far as
    the old ones did."""
    bounds = [1] if first > 1 else []
    bounds += [one.manifest.first for one in chosen]
    after = max(old[-1].after, chosen[-1].manifest.last + 1)
    return [NewTable(low, high) for low, high in zip(bounds, [*bounds[1:], after], strict=True)]


def _copy_rows(
    connection: psycopg.Connection[Any], table: sql.Composable, log: str, pieces: Iterator[list[Row]]
) -> None:
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(table, _COLUMNS)
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(_TYPES)
        for rows in pieces:
            for row in rows:
                copy.write_row((log, *row[:5], Json(row[5], dumps=str), *row[6:]))


def _bring_earlier(connection: psycopg.Connection[Any], table: str, log: str, earlier: Sequence[Archive]) -> None:
    """Copy what archives have of the streams that come back into a table that may have it already."""
    streams = [name for (name,) in connection.execute("SELECT b.stream FROM back b").fetchall()]
    connection.execute("DROP TABLE IF EXISTS pg_temp.earlier")
    connection.execute("CREATE TEMP TABLE earlier (LIKE controlplane.events)")
    for one in earlier:
        _copy_rows(connection, sql.SQL("earlier"), log, read(one.file(EVENTS), EVENT_COLUMNS, streams))
    connection.execute(
        sql.SQL("INSERT INTO controlplane.{} SELECT * FROM earlier ON CONFLICT DO NOTHING").format(
            sql.Identifier(table)
        )
    )


def _bodies(connection: psycopg.Connection[Any], archives: Sequence[Archive]) -> int:
    """Bring back bodies that are not there; return how many."""
    count = 0
    for one in archives:
        for rows in read(one.file(BODIES), BODY_COLUMNS):
            with connection.transaction(), connection.cursor() as cursor:
                for row in rows:
                    count += cursor.execute(_BODY, row).rowcount
    return count


def _rows(archive: Archive) -> Iterator[Row]:
    for piece in read(archive.file(BATCHES), BATCH_COLUMNS):
        yield from piece
