"""Checks that the events of a log are those that were appended: each batch's rows against its hash, and each hash
against the one before.

In: a connection with the service's or the owner's rights, and what was written down of the log elsewhere. Out: what was
verified, and every deviation, each with what it means. One statement reads the log as it is at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg.rows import dict_row

from controlplane.log.checkpoint import Checkpoint

_SETTINGS: LiteralString = (
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off;"
    " SET LOCAL work_mem = '64MB'"
)

EVENT_HASH: LiteralString = (
    "controlplane.event_hash(e.position, e.stream, e.version, e.type, e.schema, e.data, e.reason, e.cluster, "
    "e.caused_by, e.trace, e.observed_at, e.recorded_at)"
)

# `part` says what is verified: from the batch with %(since)s on, but for what has no hashes, and what is in archives
# alone. The batch before that one is read too, for its hash.
_VERIFY: LiteralString = """
WITH head AS MATERIALIZED (
    SELECT h.log, h.id, h.position, h.hash, h.chained_from, h.archived_to, h.kept_events, h.kept_hash,
           (SELECT b.hash FROM controlplane.batches b WHERE b.log = %(log)s AND b.last = h.chained_from - 1) AS sealed
    FROM controlplane.log_head h WHERE h.log = %(log)s
), part AS MATERIALIZED (
    SELECT h.*, greatest(CASE WHEN h.sealed IS NULL THEN h.chained_from ELSE 1 END, h.archived_to + 1, (
        SELECT b.first FROM controlplane.batches b WHERE b.log = %(log)s AND b.last >= %(since)s ORDER BY b.last LIMIT 1)) AS since
    FROM head h
), ordered AS (
    SELECT b.first, b.last, b.batch, b.epoch, b.recorded_at, b.hash,
           coalesce(lag(b.last) OVER w, CASE WHEN p.since = p.chained_from THEN p.since - 1 ELSE 0 END) AS before,
           CASE WHEN b.first <> p.chained_from THEN lag(b.hash) OVER w END AS hash_before
    FROM part p JOIN controlplane.batches b ON b.log = %(log)s AND b.last >= p.since - 1
    WINDOW w AS (ORDER BY b.last)
), judged AS (
    SELECT o.first, o.last, o.epoch, o.recorded_at, o.before, r.count, CASE
        WHEN o.first <> o.before + 1 THEN 'gap'
        WHEN r.count <> o.last - o.first + 1 THEN 'rows'
        WHEN o.hash IS NULL THEN 'unhashed'
        WHEN o.hash <> controlplane.batch_hash(
            o.hash_before, p.log, p.id, o.batch, o.first, o.last, o.epoch, o.recorded_at, r.rows) THEN 'changed' END AS wrong
    FROM part p CROSS JOIN ordered o
    CROSS JOIN LATERAL (
        SELECT count(*) AS count, string_agg({hash}, '' ORDER BY e.position) AS rows
        FROM controlplane.events e WHERE e.log = %(log)s AND e.position >= o.first AND e.position <= o.last
    ) r
    WHERE o.last >= p.since
), found AS (
    SELECT count(*) AS batches, coalesce(sum(j.count), 0)::bigint AS events, min(j.first) AS first, max(j.last) AS last,
           count(*) FILTER (WHERE j.wrong IS NOT NULL) AS deviations,
           (array_agg(jsonb_build_array(j.wrong, j.first, j.last, j.epoch, j.recorded_at, j.before, j.count) ORDER BY j.last)
               FILTER (WHERE j.wrong IS NOT NULL))[1:20] AS wrong
    FROM judged j
)
SELECT f.*, p.id AS log_id, p.position, p.chained_from, p.archived_to, p.kept_events, p.kept_hash,
       p.sealed IS NOT NULL AS is_sealed, encode(p.sealed, 'hex') AS sealed,
       p.hash IS DISTINCT FROM (SELECT b.hash FROM controlplane.batches b WHERE b.log = %(log)s AND b.last = p.position) AS tip_differs,
       (SELECT max(b.last) FROM controlplane.batches b WHERE b.log = %(log)s) AS last_batch,
       ARRAY(SELECT e.position FROM controlplane.events e WHERE e.log = %(log)s AND e.position > p.position ORDER BY 1 LIMIT 20)
       || ARRAY(SELECT e.position FROM controlplane.events e WHERE e.log = %(log)s AND e.position < 1 ORDER BY 1 LIMIT 20) AS strays,
       (SELECT encode(b.hash, 'hex') FROM controlplane.batches b WHERE b.log = %(log)s AND b.last = %(checkpoint)s) AS at_checkpoint
FROM found f CROSS JOIN part p""".replace("{hash}", EVENT_HASH)

# A body's name is the SHA-256 of its text, unless values were left out of it later.
_BODIES: LiteralString = """
SELECT count(*), count(*) FILTER (WHERE b.redacted), (array_agg(encode(b.hash, 'hex') ORDER BY b.hash) FILTER (
    WHERE NOT coalesce(b.redacted, false) AND sha256(convert_to(b.body::text, 'UTF8')) <> b.hash))[1:20]
FROM controlplane.bodies b"""

# Versions are 1, 2, 3 … in each stream, and go on where those end that are in archives alone. The index that would
# refuse another one is each partition's own.
_VERSIONS: LiteralString = """
SELECT v.stream, v.first, v.last
FROM (SELECT e.stream, min(e.position) AS first, max(e.position) AS last, count(*) AS count, max(e.version) AS newest, sum(e.version) AS sum
      FROM controlplane.events e WHERE e.log = %(log)s GROUP BY e.stream) v
LEFT JOIN controlplane.streams s ON s.log = %(log)s AND s.stream = v.stream AND s.archived_to IS NOT NULL
WHERE v.count <> v.newest - coalesce(s.version, 0) OR v.sum <> v.count * coalesce(s.version, 0) + v.count * (v.count + 1) / 2
ORDER BY v.stream LIMIT 20"""

# What stayed of the part that is in archives: the events of streams that went on.
_KEPT: LiteralString = """
SELECT count(*) AS count, sha256(string_agg({hash}, '' ORDER BY e.position)) AS hash
FROM controlplane.events e WHERE e.log = %(log)s AND e.position <= %(upto)s""".replace("{hash}", EVENT_HASH)

_ARCHIVES: LiteralString = """
SELECT array_agg(DISTINCT a.directory) FROM controlplane.archives a WHERE a.log = %s AND a.dropped_at IS NOT NULL"""

_HEAD: LiteralString = """
SELECT h.id AS log_id, h.position, encode(h.hash, 'hex') AS hash, h.chained_from, clock_timestamp() AS at,
       (SELECT encode(b.hash, 'hex') FROM controlplane.batches b WHERE b.log = %(log)s AND b.last = h.chained_from - 1) AS sealed
FROM controlplane.log_head h WHERE h.log = %(log)s"""


class NoLog(Exception):  # noqa: N818
    """The database has no log of that name, or nothing of it can be verified."""


def no_log(connection: psycopg.Connection[Any], log: str) -> NoLog:
    """Return that a database has no log of a name, with the names of those that it has."""
    rows = connection.execute("SELECT h.log FROM controlplane.log_head h ORDER BY h.log LIMIT 20").fetchall()
    hint = f"; there are {', '.join(name for (name,) in rows)}" if rows else ""
    return NoLog(f"the database has no log {log}{hint}")


class Deviation(NamedTuple):
    """What is not as it was appended, and what that means: the positions, and of a batch its epoch and when it came."""

    first: int
    last: int
    what: str
    epoch: int | None = None
    at: str | None = None


class Verified(NamedTuple):
    """What was verified. `first` and `last` are positions, None if there is nothing that has hashes; `chained_from` is
    where the chain begins, and `sealed` says whether what is before it was given hashes later. `deviations` counts
    those of batches, of which `wrong` has the first ones, with all others; `bodies` and `redacted` count bodies. What
    is up to `archived_to` is in archives, in these `directories`, but for `kept` events."""

    first: int | None
    last: int | None
    batches: int
    events: int
    chained_from: int
    sealed: bool
    bodies: int
    redacted: int
    deviations: int
    wrong: list[Deviation]
    bad_bodies: list[str]
    archived_to: int = 0
    kept: int = 0
    directories: Sequence[str] = ()


def verify(
    connection: psycopg.Connection[Any], log: str, since: int = 0, checkpoint: Checkpoint | None = None
) -> Verified:
    """Verify a log from the batch with a position on. Raises `NoLog`, and psycopg's errors."""
    values = {"log": log, "since": since, "checkpoint": checkpoint.position if checkpoint else 0}
    with connection.transaction(), connection.cursor(row_factory=dict_row) as cursor:
        # A batch's rows are next to each other: whatever the statistics say, its index finds them.
        cursor.execute(_SETTINGS, prepare=False)
        row = cursor.execute(_VERIFY, values).fetchone()
        if row is None:
            raise no_log(connection, log)
        _check_range(row, log, since, checkpoint)
        cursor.execute("SET LOCAL enable_seqscan = on")
        bodies, redacted, bad = connection.execute(_BODIES).fetchone() or (0, 0, None)
        wrong = [_told(*one) for one in row["wrong"] or ()]
        wrong += _tail(row)
        wrong += _kept(cursor, log, row)
        if not wrong and since <= 1:
            wrong += [_misnumbered(**one) for one in cursor.execute(_VERSIONS, values)]
    if checkpoint is not None:
        wrong += _against(checkpoint, log, row)
    return Verified(
        row["first"],
        row["last"],
        row["batches"],
        row["events"],
        row["chained_from"],
        row["is_sealed"],
        bodies,
        redacted,
        row["deviations"],
        wrong,
        bad or [],
        row["archived_to"],
        row["kept_events"],
        _directories(connection, log),
    )


def _directories(connection: psycopg.Connection[Any], log: str) -> Sequence[str]:
    return (connection.execute(_ARCHIVES, (log,)).fetchone() or (None,))[0] or ()


def _check_range(row: Mapping[str, Any], log: str, since: int, checkpoint: Checkpoint | None) -> None:
    """Raise `NoLog` if the log does not reach to where it is to be verified from, or has the checkpoint's batch no
    more."""
    if since > max(row["position"], 1):
        raise NoLog(f"the log {log} ends at position {row['position']}: there is nothing from {since} on")
    if checkpoint is not None and checkpoint.position < row["archived_to"]:
        raise NoLog(
            f"the checkpoint is of position {checkpoint.position}, and what the log {log} had up to "
            f"{row['archived_to']} is in archives: compare it with them by `controlplane log verify --archive DIR`"
        )


def checkpoint_of(connection: psycopg.Connection[Any], log: str) -> Checkpoint:
    """Return where the chain of a log stands. Raises `NoLog`, and psycopg's errors."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(_HEAD, {"log": log}).fetchone()
    if row is None:
        raise no_log(connection, log)
    if row["hash"] is None:
        raise NoLog(
            f"the log {log} has no hash yet: its chain begins with the next batch, at position {row['chained_from']}"
        )
    return Checkpoint(log=log, **row)


def _told(wrong: str, first: int, last: int, epoch: int, at: str, before: int, count: int) -> Deviation:
    size = last - first + 1
    said = {
        "gap": f"the batch before it ends at {before}: a batch is missing, or was put in",
        "rows": f"{count} of its {size} events are there: the others were removed",
        "unhashed": "it has no hash: it was put in by hand, or its hash was removed",
        "changed": "its hash is not that of its rows: an event of it, or the batch itself, was changed or exchanged",
    }
    return Deviation(first, last, said[wrong], epoch, at)


def _misnumbered(stream: str, first: int, last: int) -> Deviation:
    what = (
        f"the versions of the stream {stream} are not 1, 2, 3 and so on: the one that appended gave one twice, or "
        "left one out"
    )
    return Deviation(first, last, what)


def _kept(cursor: psycopg.Cursor[dict[str, Any]], log: str, row: Mapping[str, Any]) -> Iterator[Deviation]:
    upto = row["archived_to"]
    if not upto:
        return
    found = cursor.execute(_KEPT, {"log": log, "upto": upto}).fetchone()
    assert found is not None
    if (found["count"], found["hash"]) != (row["kept_events"], row["kept_hash"]):
        what = (
            f"of the events up to {upto}, which are in archives, {row['kept_events']} stayed here, and they are not "
            f"what they were then: there are {found['count']}; `controlplane log restore` brings all of them back"
        )
        yield Deviation(1, upto, what)


def _tail(row: Mapping[str, Any]) -> Iterator[Deviation]:
    position, last = row["position"], row["last_batch"] or 0
    if last != position:
        what = f"the log's head is at {position}, and its last batch ends at {last}: the last batches were removed"
        yield Deviation(last + 1, position, what if last < position else what.replace("removed", "put in by hand"))
    elif row["tip_differs"] and position >= row["chained_from"]:
        yield Deviation(position, position, "the head's hash is not that of the last batch: one of them was changed")
    for stray in row["strays"]:
        yield Deviation(stray, stray, "the event is in no batch: it was put in by hand")


def _against(checkpoint: Checkpoint, log: str, row: Mapping[str, Any]) -> Iterator[Deviation]:
    position, at = checkpoint.position, checkpoint.at.isoformat()
    if (checkpoint.log, checkpoint.log_id) != (log, row["log_id"]):
        what = f"the checkpoint is of another log: {checkpoint.log} with the identity {checkpoint.log_id}"
        yield Deviation(position, position, what, at=at)
    elif row["position"] < position:
        what = (
            f"the checkpoint was made at {position}, and the log ends at {row['position']}: its end was removed, or a "
            "backup was restored"
        )
        yield Deviation(row["position"] + 1, position, what, at=at)
    elif row["at_checkpoint"] != checkpoint.hash:
        what = (
            "the hash there is not that of the checkpoint: something up to it was changed, and the hashes after "
            "it were made anew"
        )
        yield Deviation(row["chained_from"], position, what, at=at)
    elif (row["chained_from"], row["sealed"]) != (checkpoint.chained_from, checkpoint.sealed) and not (
        checkpoint.sealed is None and row["chained_from"] == checkpoint.chained_from
    ):
        what = (
            f"the chain began at {checkpoint.chained_from} when the checkpoint was made: its beginning, or what was "
            "sealed before it, was changed"
        )
        yield Deviation(1, checkpoint.chained_from, what, at=at)
