"""Takes archived events out of the database: those of streams that are over, as whole streams.

In: archives that are sound, and which streams are over. Out: a log whose fold is what it was, with what is left.
Everything is checked before anything leaves: the log against its chain, the archives against theirs, and both against
each other. Events of streams that go on stay, however old they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg import sql

from controlplane.log.archive import exchange
from controlplane.log.archive.checking import check_archives, check_seam
from controlplane.log.archive.exchange import NewTable, kept_of
from controlplane.log.archive.manifest import Archive, ArchiveError, some_archives
from controlplane.log.archive.writing import LogEnd, log_end
from controlplane.log.ended import Ended
from controlplane.log.verify import verify

_AT_ONCE = 10_000

_LEFT: LiteralString = "SELECT r.position FROM read_models.progress r WHERE r.log = %s"
# The streams of some kinds that have no event after a position, each with its last event.
_ENDED: LiteralString = """
SELECT s.stream, n.version, n.position
FROM (SELECT DISTINCT e.stream FROM controlplane.events e
      WHERE e.log = %(log)s AND e.position <= %(upto)s AND split_part(e.stream, '/', 1) = ANY(%(kinds)s)) s
CROSS JOIN LATERAL (
    SELECT e.version, e.position, e.recorded_at FROM controlplane.events e
    WHERE e.log = %(log)s AND e.stream = s.stream ORDER BY e.version DESC LIMIT 1) n
WHERE n.position <= %(upto)s AND n.recorded_at < clock_timestamp() - %(age)s"""
# The Workloads that leave and that the read models do not tell of, such as one with a write that never showed.
_UNTOLD: LiteralString = """
SELECT l.stream, l.version FROM leaving l
WHERE l.stream LIKE 'workload/%%' AND NOT EXISTS (
    SELECT FROM read_models.streams k WHERE k.log = %s AND k.stream = l.stream AND k.version >= l.version)"""
_HOLDS: LiteralString = """
SELECT EXISTS (SELECT FROM leaving l JOIN controlplane.events e ON e.stream = l.stream
               WHERE e.log = %s AND e.position >= %s AND e.position <= %s)"""
_TOLD = ("workload_phases", "runs", "placements", "pending_reasons", "effects")
_LEAVE: LiteralString = """
UPDATE controlplane.streams s SET version = l.version, archived_to = l.position FROM leaving l WHERE s.log = %s AND s.stream = l.stream"""
_UNCHAIN: LiteralString = "DELETE FROM controlplane.batches b WHERE b.log = %s AND b.last < %s AND b.last <> %s - 1"
_NOTE: LiteralString = """
UPDATE controlplane.archives a SET dropped_at = clock_timestamp() WHERE a.log = %s AND a.last <= %s AND a.dropped_at IS NULL"""
_HEAD: LiteralString = """
UPDATE controlplane.log_head h SET archived_to = %s, kept_events = %s, kept_hash = %s WHERE h.log = %s"""


class DropResult(NamedTuple):
    """What left: up to which position, how many events of how many streams, and how many events up to there stayed.
    `why`: why no more did, "" if nothing is in the way; `upto` is 0 if nothing left."""

    upto: int = 0
    events: int = 0
    streams: int = 0
    kept: int = 0
    why: str = ""


def drop(
    connection: psycopg.Connection[Any],
    log: str,
    directory: Path,
    ended: Ended,
    *,
    read_models: bool,
    progress: Callable[[Archive], None] = lambda one: None,
) -> DropResult:
    """Drop what is archived in a directory. `read_models`: they are kept, so that what they have not looked at stays.
    Raises `ArchiveError`, with nothing changed, and psycopg's errors."""
    end = log_end(connection, log)
    archives = some_archives(directory, log)
    archived = [one for one in archives if one.manifest.last > end.archived_to]
    chosen, why = _allowed(connection, log, archived, ended, read_models=read_models)
    if not chosen:
        return DropResult(why=why)
    exchange.refuse_distributed(connection)
    _check(connection, log, chosen, progress)
    upto = chosen[-1].manifest.last
    exchange.begin(connection)
    streams = _leaving(connection, log, upto, ended)
    _check_earlier(connection, log, archives, chosen[0], progress)
    if read_models:
        _tell(connection, log)
    before = _count(connection, log, upto)
    kept = _without(connection, log, end, upto)
    return DropResult(upto, before - kept, streams, kept, why)


def _allowed(
    connection: psycopg.Connection[Any], log: str, archived: list[Archive], ended: Ended, *, read_models: bool
) -> tuple[list[Archive], str]:
    """Return the archives whose events may leave, and why no more may."""
    upto, why = ended.position, f"the newest snapshot that a process can start from is of position {ended.position}"
    if read_models:
        row = connection.execute(_LEFT, (log,)).fetchone()
        looked = row[0] if row is not None else 0
        if looked < upto:
            upto, why = looked, f"the read models have been made up to position {looked}"
    chosen = [one for one in archived if one.manifest.last <= upto]
    if not archived:
        return chosen, "everything that is archived has left already"
    return chosen, why if len(chosen) < len(archived) else ""


def _check(
    connection: psycopg.Connection[Any], log: str, archives: list[Archive], progress: Callable[[Archive], None]
) -> None:
    check_archives(archives, progress)
    check_seam(connection, archives[-1])
    found = verify(connection, log)
    if found.wrong:
        one = found.wrong[0]
        raise ArchiveError(
            f"the log {log} is not as it was appended (positions {one.first} to {one.last}: {one.what}), so nothing "
            "was dropped: `controlplane log verify` says all"
        )


def _check_earlier(
    connection: psycopg.Connection[Any],
    log: str,
    archives: list[Archive],
    chosen: Archive,
    progress: Callable[[Archive], None],
) -> None:
    """Check the archives before the first that was chosen which have events that leave now, since their streams went
    on: what is in no sound archive stays."""

    def holds(first: int, last: int) -> bool:
        return connection.execute(_HOLDS, (log, first, last)).fetchone() == (True,)

    begin = archives[0].manifest.first
    if begin > 1 and holds(1, begin - 1):
        raise ArchiveError(
            f"the archives in {archives[0].folder.parent} begin at position {begin}, and streams that would leave have "
            "events before it: bring the archives before it here (the view audit.archives says where they were written)"
        )
    earlier = [one for one in archives if one.manifest.last < chosen.manifest.first]
    if held := [one for one in earlier if holds(one.manifest.first, one.manifest.last)]:
        check_archives(held, progress)


def _leaving(connection: psycopg.Connection[Any], log: str, upto: int, ended: Ended) -> int:
    """Make a table of the streams that leave, and return how many that are."""
    connection.execute("DROP TABLE IF EXISTS pg_temp.leaving")
    connection.execute(
        'CREATE TEMP TABLE leaving (stream text COLLATE "C" PRIMARY KEY, version bigint, position bigint)'
    )
    count = 0
    with connection.transaction(), connection.cursor("ended") as cursor:
        given = {"log": log, "upto": upto, "kinds": sorted(ended.kinds), "age": ended.age}
        cursor.execute(_ENDED, given)
        while rows := cursor.fetchmany(_AT_ONCE):
            over = [row for row in rows if ended.is_over(row[0])]
            with connection.cursor() as other, other.copy("COPY leaving FROM STDIN") as copy:
                for row in over:
                    copy.write_row(row)
            count += len(over)
    connection.execute("ANALYZE leaving")
    return count


def _tell(connection: psycopg.Connection[Any], log: str) -> None:
    """Let the read models tell of the Workloads that leave: what the views say of them is final now."""
    for stream, version in connection.execute(_UNTOLD, (log,)).fetchall():
        _, namespace, name = stream.split("/", 2)
        with connection.transaction():
            connection.execute("DELETE FROM read_models.streams WHERE log = %s AND stream = %s", (log, stream))
            for view in _TOLD:
                which = sql.SQL("WHERE log = %s AND namespace = %s AND name = %s")
                connection.execute(
                    sql.SQL("DELETE FROM read_models.{} ").format(sql.Identifier(view)) + which, (log, namespace, name)
                )
            for view in _TOLD:
                kept, live = sql.Identifier(view), sql.Identifier(f"live_{view}")
                said = sql.SQL(
                    "INSERT INTO read_models.{} SELECT * FROM read_models.{} WHERE log = %s AND namespace = %s AND "
                    "name = %s"
                )
                connection.execute(said.format(kept, live), (log, namespace, name))
            connection.execute(
                "INSERT INTO read_models.streams (log, stream, version) VALUES (%s, %s, %s)", (log, stream, version)
            )


def _count(connection: psycopg.Connection[Any], log: str, upto: int) -> int:
    row = connection.execute(
        "SELECT count(*) FROM controlplane.events e WHERE e.log = %s AND e.position <= %s", (log, upto)
    ).fetchone()
    assert row is not None
    return int(row[0])


def _without(connection: psycopg.Connection[Any], log: str, end: LogEnd, upto: int) -> int:
    """Put a partition without the events that leave in the place of those that have them; return how many events of the
    log stay in it."""
    old = [one for one in exchange.partitions(connection) if one.first <= upto]
    table = NewTable(old[0].first, old[-1].after)
    exchange.make(connection, table)
    leaves = sql.SQL(
        "e.log = %(log)s AND e.position <= %(upto)s AND EXISTS (SELECT FROM leaving l WHERE l.stream = e.stream)"
    )
    exchange.copy(connection, old, table, leaves, {"log": log, "upto": upto})
    exchange.finish(connection, table)
    kept, kept_hash = kept_of(connection, table.name, log, upto)

    def besides() -> None:
        connection.execute(_LEAVE, (log,))
        connection.execute(_UNCHAIN, (log, upto, end.chained_from))
        connection.execute(_NOTE, (log, upto))

    def head() -> None:
        connection.execute(_HEAD, (upto, kept, kept_hash, log))

    exchange.exchange(connection, log, old, [table], besides, head)
    return kept
