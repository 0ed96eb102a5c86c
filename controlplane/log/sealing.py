"""Gives the batches of a log that were appended before there was a chain their hashes, once.

In: a connection with the owner's rights. Out: how many batches were sealed. They are a chain of their own, which ends
where the other one begins; a checkpoint has the hashes of both ends."""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg

from controlplane.log.chain import BatchRow, batch_hash
from controlplane.log.verify import EVENT_HASH, no_log

_PIECE = 20_000

_HEAD: LiteralString = """
SELECT h.id, h.chained_from, EXISTS (
    SELECT FROM controlplane.batches b WHERE b.log = h.log AND b.last = h.chained_from - 1 AND b.hash IS NOT NULL)
FROM controlplane.log_head h WHERE h.log = %s"""
_ROWS: LiteralString = """
SELECT b.batch, b.first, b.last, b.epoch, b.recorded_at, r.count, r.rows
FROM controlplane.batches b CROSS JOIN LATERAL (
    SELECT count(*) AS count, string_agg({hash}, '' ORDER BY e.position) AS rows
    FROM controlplane.events e WHERE e.log = b.log AND e.position >= b.first AND e.position <= b.last
) r
WHERE b.log = %s AND b.last > %s AND b.last < %s ORDER BY b.last LIMIT %s""".replace("{hash}", EVENT_HASH)
_GIVE: LiteralString = """
UPDATE controlplane.batches b SET hash = n.hash FROM unnest(%s::bigint[], %s::bytea[]) AS n (last, hash)
WHERE b.log = %s AND b.last = n.last"""


class CannotSeal(Exception):  # noqa: N818
    """What is there cannot be sealed as it is; the message says where it is wrong."""


def seal(connection: psycopg.Connection[Any], log: str) -> int:
    """Seal what is before the chain, all of it or nothing; return how many batches that were, 0 if nothing is to be
    sealed.

    Raises `CannotSeal` where a batch or an event is missing, `NoLog`, and psycopg's errors."""
    with connection.transaction():
        connection.execute("SET LOCAL enable_seqscan = off")
        head = connection.execute(_HEAD, (log,)).fetchone()
        if head is None:
            raise no_log(connection, log)
        log_id, chained_from, done = head
        if done:
            return 0
        before, last, count = None, 0, 0
        while rows := connection.execute(_ROWS, (log, last, chained_from, _PIECE)).fetchall():
            hashes = []
            for batch, first, end, epoch, recorded_at, events, hashed in rows:
                if first != last + 1 or events != end - first + 1:
                    raise CannotSeal(f"the log {log} lacks events after position {last}: nothing was sealed")
                before = batch_hash(before, BatchRow(log, log_id, batch, first, end, epoch, recorded_at), [hashed])
                hashes.append(before)
                last = end
            connection.execute(_GIVE, ([row[2] for row in rows], hashes, log))
            count += len(rows)
        if last != chained_from - 1:
            raise CannotSeal(f"the log {log} lacks events after position {last}: nothing was sealed")
        return count
