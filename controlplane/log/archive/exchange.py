"""Puts new tables in the place of partitions of `events`, while logs are read and appended to.

In: the rows that are to be there. Out: partitions with these rows, or nothing was changed. The tables are filled beside
the partitions, which takes as long as it takes; then they take their place in one transaction. Readers and appends wait
for that alone. What other logs append meanwhile is brought after."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import errors, sql

from controlplane.log.archive.manifest import ArchiveError

_TRIES, _PAUSE = 40, 0.25
_BUSY = (
    "another session holds a lock on controlplane.events: nothing was changed; pg_locks and pg_stat_activity show it, "
    "then try again"
)

_PARTITIONS = r"""
SELECT c.relname, coalesce(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM \(''?(\d+)''?\)')::bigint, 1) AS first,
       substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''?(\d+)''?\)')::bigint AS after
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass('controlplane.events') ORDER BY 2"""


class Partition(NamedTuple):
    """A partition: its table, its first position, and the first one after it."""

    table: str
    first: int
    after: int


class NewTable(NamedTuple):
    """A table that is to hold the positions from `first` on, and before `after`."""

    first: int
    after: int

    @property
    def name(self) -> str:
        """What it is called until it is a partition."""
        return f"events_new_{self.first}"


def partitions(connection: psycopg.Connection[Any]) -> list[Partition]:
    """Return the partitions of `events`, in order."""
    return [Partition(*row) for row in connection.execute(_PARTITIONS).fetchall()]


def refuse_distributed(connection: psycopg.Connection[Any]) -> None:
    """Raise `ArchiveError` where Citus distributes the log: a partition's rows are chosen by tables of one session,
    which are on no other node."""
    row = connection.execute("SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL").fetchone()
    if row == (True,):
        distributed = (
            "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'controlplane.events'::regclass)"
        )
        row = connection.execute(distributed).fetchone()
        if row == (True,):
            raise ArchiveError(
                "events of a log that Citus distributes can be archived, but neither leave the database nor be "
                "brought back: keep them, and archive them all the same"
            )


@contextmanager
def alone(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Keep other sessions from archiving, dropping and restoring meanwhile. Raises `ArchiveError` if one does;
    psycopg's errors, such as of a role without the right to, become one too."""
    row = connection.execute("SELECT pg_try_advisory_lock(hashtextextended('controlplane.archives', 0))").fetchone()
    if row is None or not row[0]:
        raise ArchiveError(
            "another session archives, drops or restores events of this database now: try again when it has ended"
        )
    try:
        yield
    except errors.InsufficientPrivilege as error:
        raise ArchiveError(
            f"the database's role may not do that ({error.diag.message_primary}): use a login with the rights of the "
            "schema's owner"
        ) from None
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(hashtextextended('controlplane.archives', 0))")


def begin(connection: psycopg.Connection[Any]) -> None:
    """Note where each log ends, and remove what an interrupted run left."""
    left = connection.execute(
        "SELECT c.relname FROM pg_class c WHERE c.relnamespace = to_regnamespace('controlplane') AND c.relname ~ "
        "'^events_new_\\d+$' AND c.relkind = 'r' AND NOT c.relispartition"
    )
    for (name,) in left.fetchall():
        connection.execute(sql.SQL("DROP TABLE controlplane.{}").format(sql.Identifier(name)))
    connection.execute("DROP TABLE IF EXISTS pg_temp.heads")
    connection.execute("CREATE TEMP TABLE heads AS SELECT h.log, h.position FROM controlplane.log_head h")


def make(connection: psycopg.Connection[Any], table: NewTable) -> None:
    """Make a new table, without rows and without indexes."""
    connection.execute(
        sql.SQL("CREATE TABLE controlplane.{} (LIKE controlplane.events INCLUDING DEFAULTS INCLUDING STORAGE)").format(
            sql.Identifier(table.name)
        )
    )
    owner = connection.execute(
        "SELECT c.relowner::regrole::text FROM pg_class c WHERE c.oid = 'controlplane.events'::regclass"
    )
    for (role,) in owner.fetchall():  # a superuser may be somebody else
        connection.execute(
            sql.SQL("ALTER TABLE controlplane.{} OWNER TO {}").format(sql.Identifier(table.name), sql.SQL(role))
        )


def copy(
    connection: psycopg.Connection[Any],
    old: Sequence[Partition],
    table: NewTable,
    but: sql.Composable,
    given: dict[str, Any],
) -> None:
    """Copy into a new table the rows of partitions that are in its range, as of `begin`, except those of which `but` is
    true (in SQL, of `e`)."""
    for one in old:
        connection.execute(
            sql.SQL(
                "INSERT INTO controlplane.{} SELECT e.* FROM controlplane.{} e JOIN heads h ON h.log = e.log AND "
                "e.position <= h.position WHERE e.position >= %(first)s AND e.position < %(after)s AND NOT ({})"
            ).format(sql.Identifier(table.name), sql.Identifier(one.table), but),
            {**given, "first": table.first, "after": table.after},
        )


def finish(connection: psycopg.Connection[Any], table: NewTable) -> None:
    """Give a new table what a partition has: its indexes, and a constraint that saves another scan."""
    name = sql.Identifier(table.name)
    statements = (
        sql.SQL("CREATE UNIQUE INDEX {} ON controlplane.{} (log, stream, version)").format(
            sql.Identifier(f"{table.name}_version"), name
        ),
        sql.SQL("ALTER TABLE controlplane.{} ADD CONSTRAINT {} PRIMARY KEY (log, position)").format(
            name, sql.Identifier(f"{table.name}_pkey")
        ),
        # As migration 0023 has it: what is there already is not made while others wait for the attached table.
        sql.SQL(
            "CREATE INDEX {} ON controlplane.{} (log, stream, position) INCLUDE (type, recorded_at) WHERE type IN"
            " ('ClusterConnected', 'ClusterLost', 'ClusterConnectFailed', 'ClusterDisconnected', 'ClusterForgotten')"
        ).format(sql.Identifier(f"{table.name}_connection"), name),
        sql.SQL("ALTER TABLE controlplane.{} ADD CONSTRAINT range CHECK (position >= {} AND position < {})").format(
            name, sql.Literal(table.first), sql.Literal(table.after)
        ),
        sql.SQL("ANALYZE controlplane.{}").format(name),
    )
    for statement in statements:
        connection.execute(statement)


def exchange(
    connection: psycopg.Connection[Any],
    log: str,
    old: Sequence[Partition],
    new: Sequence[NewTable],
    before: Callable[[], None],
    head: Callable[[], None],
) -> None:
    """Put new tables in the place of partitions, all or nothing. What else belongs to it and takes long is done
    `before` anybody has to wait; what changes the log's head, by `head`. Raises `ArchiveError` if no lock can be
    had."""
    with connection.transaction():
        before()
        _lock(connection, log)
        _bring_after(connection, old, new)
        for one in old:
            name = sql.Identifier(one.table)
            connection.execute(sql.SQL("ALTER TABLE controlplane.events DETACH PARTITION controlplane.{}").format(name))
            connection.execute(sql.SQL("DROP TABLE controlplane.{}").format(name))
        for table in new:
            _attach(connection, table, lowest=table is new[0] and old[0].first == 1)
        head()


def _lock(connection: psycopg.Connection[Any], log: str) -> None:
    """Lock the log's head, then the table: in the order in which an append does."""
    for left in reversed(range(_TRIES)):
        try:
            with connection.transaction():
                connection.execute("SET LOCAL lock_timeout = '500ms'")
                connection.execute("SELECT FROM controlplane.log_head h WHERE h.log = %s FOR UPDATE", (log,))
                connection.execute("LOCK TABLE controlplane.events IN ACCESS EXCLUSIVE MODE")
            return
        except (errors.LockNotAvailable, errors.DeadlockDetected):
            if not left:
                raise ArchiveError(_BUSY) from None
            time.sleep(_PAUSE)


def _bring_after(connection: psycopg.Connection[Any], old: Sequence[Partition], new: Sequence[NewTable]) -> None:
    """Copy what was appended since `begin` to the partitions: by other logs, which are behind."""
    heads = connection.execute(
        "SELECT l.log, coalesce(h.position, 0) FROM controlplane.log_head l LEFT JOIN heads h ON h.log = l.log"
        " WHERE coalesce(h.position, 0) < %s",
        (new[-1].after,),
    )
    for log, position in heads.fetchall():
        for table in new:
            for one in old:
                connection.execute(
                    sql.SQL(
                        "INSERT INTO controlplane.{} SELECT e.* FROM controlplane.{} e WHERE e.log = %s AND "
                        "e.position > %s AND e.position >= %s AND e.position < %s"
                    ).format(sql.Identifier(table.name), sql.Identifier(one.table)),
                    (log, position, table.first, table.after),
                )


def _attach(connection: psycopg.Connection[Any], table: NewTable, *, lowest: bool) -> None:
    name, final = sql.Identifier(table.name), f"events_{table.first}"
    low = sql.SQL("MINVALUE") if lowest else sql.Literal(table.first)
    attach = sql.SQL("ALTER TABLE controlplane.events ATTACH PARTITION controlplane.{} FOR VALUES FROM ({}) TO ({})")
    rename = sql.SQL("ALTER INDEX controlplane.{} RENAME TO {}")
    connection.execute(attach.format(name, low, sql.Literal(table.after)))
    connection.execute(sql.SQL("ALTER TABLE controlplane.{} DROP CONSTRAINT range").format(name))
    for kind in ("version", "pkey", "connection"):
        connection.execute(rename.format(sql.Identifier(f"{table.name}_{kind}"), sql.Identifier(f"{final}_{kind}")))
    connection.execute(sql.SQL("ALTER TABLE controlplane.{} RENAME TO {}").format(name, sql.Identifier(final)))


def kept_of(connection: psycopg.Connection[Any], table: str, log: str, upto: int) -> tuple[int, bytes | None]:
    """Return how many events of a log a table has up to a position, and the SHA-256 over the hashes of their rows."""
    row = connection.execute(
        sql.SQL(
            "SELECT count(*), sha256(string_agg(controlplane.event_hash(e.position, e.stream, e.version, e.type, "
            "e.schema, e.data, e.reason, e.cluster, e.caused_by, e.trace, e.observed_at, e.recorded_at), '' ORDER BY "
            "e.position)) FROM controlplane.{} e WHERE e.log = %s AND e.position <= %s"
        ).format(sql.Identifier(table)),
        (log, upto),
    ).fetchone()
    assert row is not None
    return row[0], row[1]
