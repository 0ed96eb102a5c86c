"""What the owner of the database may do to bodies: leave values out of those that are there, and remove the old ones.
Events stay.

In: the URL of a login with the owner's rights, which the service does not have. Out: how many bodies were changed or
removed. Nothing that runs needs a stored body: what copies are made of is read where it is live."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg import errors

from controlplane.log.event import Body
from controlplane.log.redaction import Redaction
from controlplane.log.schema import ENCODING, SESSION, libpq_url

_BATCH = 500
_TRIES, _PAUSE = 40, 0.25

_NEXT = """
SELECT hash, body::text FROM controlplane.bodies
WHERE hash > %s AND (redacted IS NULL OR (%s AND NOT redacted)) ORDER BY hash LIMIT %s"""
_CHANGE = "UPDATE controlplane.bodies SET body = %s::text::json, redacted = true WHERE hash = %s"
_LOOKED_AT = "UPDATE controlplane.bodies SET redacted = false WHERE hash = ANY(%b) AND redacted IS NULL"

# Whatever looks like a hash in an event names a body, or nothing.
_NAMED = """
CREATE TEMP TABLE {} ON COMMIT PRESERVE ROWS AS
SELECT DISTINCT decode(m.found[1], 'hex') AS hash
FROM controlplane.events e, regexp_matches(e.data::text, '"([0-9a-f]{{64}})"', 'g') AS m (found)
WHERE {}"""
_OLD = """
CREATE TEMP TABLE old ON COMMIT PRESERVE ROWS AS
SELECT b.hash FROM controlplane.bodies b
WHERE b.recorded_at < %(before)s AND NOT EXISTS (SELECT FROM recent r WHERE r.hash = b.hash)
  AND (%(namespace)s::text IS NULL OR EXISTS (SELECT FROM theirs t WHERE t.hash = b.hash))
  AND NOT EXISTS (SELECT FROM others o WHERE o.hash = b.hash)"""
_SIZE = """
SELECT count(*), coalesce(sum(octet_length(b.body::text)), 0)::bigint FROM old o JOIN controlplane.bodies b ON b.hash = o.hash"""
_TAKE = "DELETE FROM old WHERE hash IN (SELECT hash FROM old LIMIT %s) RETURNING hash"
_HEADS = "SELECT h.log, h.position, h.archived_to FROM controlplane.log_head h"
_NAMED_SINCE = """
SELECT DISTINCT decode(m.found[1], 'hex')
FROM controlplane.events e, regexp_matches(e.data::text, '"([0-9a-f]{64})"', 'g') AS m (found)
WHERE e.log = %s AND e.position > %s AND e.position <= %s"""
# What waits for a lock has others wait behind it. Citus takes it on other nodes too, where `lock_timeout` is not set.
_BRIEFLY = "SET LOCAL lock_timeout = '200ms'; SET LOCAL statement_timeout = '2s'"
_REMOVE = "DELETE FROM controlplane.bodies WHERE hash = ANY(%b) RETURNING octet_length(body::text)"


class PurgeError(Exception):
    """Bodies were not removed; the message says why, and how many had been before."""


class Purged(NamedTuple):
    """How many bodies were removed, and how many bytes of JSON they had."""

    bodies: int
    size: int


def redact(url: str, redaction: Redaction, *, everything: bool = False) -> int:
    """Leave out of stored bodies what is not stored any more; return of how many. Each batch is a commit, and may be
    the last for now.

    Bodies that nobody has looked at yet, or `everything`: those too that were stored, or looked at, under other
    settings or by a version that stored all. The hash stays what it was, so what names it still does; it is not the
    content's any more."""
    count, last = 0, b""
    with psycopg.connect(libpq_url(url), autocommit=True, client_encoding=ENCODING) as connection:
        connection.execute(SESSION)
        while rows := connection.execute(_NEXT, (last, everything, _BATCH)).fetchall():
            last = rows[-1][0]
            changes = [(text, hash_) for hash_, stored in rows if (text := _left(redaction, hash_, stored)) is not None]
            with connection.transaction():
                with connection.cursor() as cursor:
                    cursor.executemany(_CHANGE, changes)
                connection.execute(_LOOKED_AT, ([hash_ for hash_, _ in rows],))
            count += len(changes)
    return count


def _left(redaction: Redaction, hash_: bytes, stored: str) -> str | None:
    """Return what is left of a body, None if that is all of it. Of one that is too large there is its size."""
    found = redaction.of(Body(hash_, stored))
    if isinstance(found, int):
        return f'{{"size":{found}}}'
    return found.text if found.text != stored else None


def purge(
    url: str, older_than: timedelta, namespace: str | None = None, *, but: Sequence[str] = (), dry_run: bool = False
) -> Purged:
    """Remove bodies that were stored so long ago, and that no newer event names; of one namespace, those that an event
    of it names; and none that an event of the namespaces `but` names. With `dry_run` only say which would be.

    In batches, each a commit. What is named meanwhile stays. Raises `PurgeError` if others write bodies all the time.
    """
    with psycopg.connect(libpq_url(url), autocommit=True, client_encoding=ENCODING) as connection:
        connection.execute(SESSION)
        since = _NamedSince(connection)
        (before,) = connection.execute("SELECT clock_timestamp() - %s::interval", (older_than,)).fetchone() or (None,)
        _name(connection, "recent", "e.recorded_at >= %(before)s", {"before": before})
        of_it = (
            "(substring(e.stream FROM '/([^/]+)/[^/]+$') = ANY(%(these)s) OR e.data ->> 'namespace' = ANY(%(these)s))"
        )
        _name(connection, "theirs", of_it, {"these": [namespace] if namespace is not None else []})
        _name(connection, "others", of_it, {"these": list(but)})
        _execute(connection, _OLD, {"before": before, "namespace": namespace})
        if dry_run:
            return Purged(*(_execute(connection, _SIZE, {}).fetchone() or (0, 0)))
        purged = Purged(0, 0)
        while taken := [hash_ for (hash_,) in connection.execute(_TAKE, (_BATCH,))]:
            sizes = _remove(connection, since, taken)
            if sizes is None:
                raise PurgeError(
                    f"another session writes to controlplane.bodies for long: {purged.bodies} bodies were removed, with "
                    f"{purged.size} bytes of JSON, and no more; pg_locks and pg_stat_activity show it, then try again"
                )
            purged = Purged(purged.bodies + len(sizes), purged.size + sum(sizes))
        return purged


class _NamedSince:
    """The bodies that events name which were committed, or brought back from archives, since this was made."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection, self._found = connection, set[bytes]()
        self._seen = {log: (position, archived_to) for log, position, archived_to in connection.execute(_HEADS)}

    def among(self, hashes: Sequence[bytes]) -> set[bytes]:
        """Look at the events since the last time, and return which of some bodies they, or those before, name."""
        for log, position, archived_to in self._connection.execute(_HEADS).fetchall():
            after, was_archived_to = self._seen.get(log, (0, 0))
            if archived_to < was_archived_to:
                after = 0
            if after < position:
                named = self._connection.execute(_NAMED_SINCE, (log, after, position))
                self._found.update(hash_ for (hash_,) in named)
            self._seen[log] = position, archived_to
        return self._found.intersection(hashes)


def _remove(connection: psycopg.Connection[Any], since: _NamedSince, hashes: Sequence[bytes]) -> list[int] | None:
    """Remove bodies but those that are named since; return their sizes, None if no lock could be had.

    An append that comes with a body stores it if it is not there. From then on it holds a lock on the table until its
    events are committed. So whoever excludes that lock sees all events whose bodies were found there, and who appends
    afterwards finds that a body is gone. Appends wait for one batch, and while this waits for those before them."""
    for left in reversed(range(_TRIES)):
        since.among(())  # most of them before anybody has to wait
        locked = False
        try:
            with connection.transaction():
                connection.execute(_BRIEFLY)
                connection.execute("LOCK TABLE controlplane.bodies IN SHARE ROW EXCLUSIVE MODE")
                locked = True
                connection.execute("SET LOCAL statement_timeout TO DEFAULT")
                gone = list(set(hashes) - since.among(hashes))
                return [size for (size,) in connection.execute(_REMOVE, (gone,))] if gone else []
        except (errors.LockNotAvailable, errors.DeadlockDetected, errors.QueryCanceled) as error:
            if locked and isinstance(error, errors.QueryCanceled):
                raise
            if left:
                time.sleep(_PAUSE)
    return None


def _name(
    connection: psycopg.Connection[Any], table: LiteralString, where: LiteralString, values: dict[str, Any]
) -> None:
    """Make a table of the bodies that events name."""
    _execute(connection, _NAMED.format(table, where), values)


def _execute(connection: psycopg.Connection[Any], statement: LiteralString, values: Any) -> psycopg.Cursor[Any]:
    # Bound by the client: a statement that makes a table takes no parameters of the server's.
    return psycopg.ClientCursor(connection).execute(statement, values)
