"""How much a log holds, and what of it takes the room.

In: a connection with the service's or the owner's rights. Out: counts and bytes, by type of event, by table and by
partition. It reads all events of the log once; sizes of tables and partitions are those of the whole database, which
other logs may share."""

from __future__ import annotations

from datetime import datetime
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg.rows import class_row

from controlplane.log.verify import no_log

_LOG: LiteralString = """
SELECT h.position AS last, (SELECT min(e.position) FROM controlplane.events e WHERE e.log = h.log) AS first,
       (SELECT b.recorded_at FROM controlplane.batches b WHERE b.log = h.log ORDER BY b.last LIMIT 1) AS oldest,
       (SELECT b.recorded_at FROM controlplane.batches b WHERE b.log = h.log ORDER BY b.last DESC LIMIT 1) AS newest,
       (SELECT count(*) FROM controlplane.streams s WHERE s.log = h.log) AS streams,
       (SELECT count(*) FROM controlplane.batches b WHERE b.log = h.log) AS batches
FROM controlplane.log_head h WHERE h.log = %s"""
_TYPES: LiteralString = """
SELECT e.type, count(*) AS events, sum(octet_length(e.data::text))::bigint AS bytes, max(e.recorded_at) AS newest
FROM controlplane.events e WHERE e.log = %s GROUP BY e.type ORDER BY bytes DESC, e.type"""
_TABLES: LiteralString = """
SELECT c.relname AS table, CASE WHEN c.relkind = 'p' THEN (
           SELECT sum(pg_total_relation_size(i.inhrelid)) FROM pg_inherits i WHERE i.inhparent = c.oid)
       ELSE pg_total_relation_size(c.oid) END::bigint AS bytes
FROM pg_class c
WHERE c.relnamespace = to_regnamespace('controlplane') AND c.relkind IN ('r', 'p') AND NOT c.relispartition
ORDER BY bytes DESC, c.relname"""
_PARTITIONS: LiteralString = """
SELECT c.relname AS partition, bounds[1]::bigint AS first, bounds[2]::bigint - 1 AS last, pg_total_relation_size(c.oid) AS bytes
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
CROSS JOIN LATERAL regexp_match(
    replace(pg_get_expr(c.relpartbound, c.oid), 'MINVALUE', '1'), $$FROM \\('?(\\d+)'?\\) TO \\('?(\\d+)'?\\)$$) AS bounds
WHERE i.inhparent = to_regclass('controlplane.events') ORDER BY 2"""


class LogSize(NamedTuple):
    """How long a log is: positions, when the first and the last batch came, and how many streams and batches it has.
    All None or 0 where it is empty."""

    last: int
    first: int | None
    oldest: datetime | None
    newest: datetime | None
    streams: int
    batches: int


class TypeSize(NamedTuple):
    """The events of one type: how many, the bytes of their JSON, and when the last one was recorded."""

    type: str
    events: int
    bytes: int
    newest: datetime


class TableSize(NamedTuple):
    """A table with its indexes, in bytes on disk."""

    table: str
    bytes: int


class PartitionSize(NamedTuple):
    """A partition of `events`: the positions that it can hold, and its bytes on disk with its indexes."""

    partition: str
    first: int
    last: int
    bytes: int


class LogStats(NamedTuple):
    """See the module; types and tables with the largest first, partitions in order."""

    log: LogSize
    types: list[TypeSize]
    tables: list[TableSize]
    partitions: list[PartitionSize]

    @property
    def events(self) -> int:
        """The number of events of the log."""
        return sum(one.events for one in self.types)


def stats(connection: psycopg.Connection[Any], log: str) -> LogStats:
    """Return how much a log holds. Raises `NoLog`, and psycopg's errors."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        found = connection.cursor(row_factory=class_row(LogSize)).execute(_LOG, (log,)).fetchone()
        if found is None:
            raise no_log(connection, log)
        return LogStats(
            found,
            connection.cursor(row_factory=class_row(TypeSize)).execute(_TYPES, (log,)).fetchall(),
            connection.cursor(row_factory=class_row(TableSize)).execute(_TABLES).fetchall(),
            connection.cursor(row_factory=class_row(PartitionSize)).execute(_PARTITIONS).fetchall(),
        )
