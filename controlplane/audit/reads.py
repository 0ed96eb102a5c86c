"""The questions that are asked of the views of the schema `audit`, over one read-only connection.

In: a database URL and the name of a log. Out: recorded events, in order, as the folds take them; names of streams. The
rights of `controlplane_reader` are enough for all of it. Every method raises psycopg's errors as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, LiteralString

import msgspec
import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from controlplane.controllers.manifests import EVERY
from controlplane.log.codec import Codec
from controlplane.log.event import Event, Recorded
from controlplane.log.schema import ENCODING, SESSION, libpq_url
from controlplane.values import Value

_COLUMNS: LiteralString = (
    "position, stream, version, type, schema, data::text, cluster,"
    " coalesce(caused_by, 0), trace, observed_at, recorded_at"
)
_ALL_AT_ONCE = 5000  # rows that are fetched from the server in one go

# Workload streams that something may still come of: the Workload is there and has not finished, or a copy is left, or a
# decision was the last event. A stream is asked for more than its newest events only if its Workload is gone or
# finished. A list shows another one of its name before it says that the one before is gone, which is then no end of it.
_LIVE: LiteralString = """
SELECT s.stream FROM audit.streams s
LEFT JOIN LATERAL (
    SELECT e.type, CASE WHEN e.type = 'WorkloadGone' THEN e.data ->> 'uid' END AS uid, CASE WHEN e.type = 'WorkloadObserved' THEN
               e.data @? '$.conditions[*] ? (@.type == "Finished" && @.status == "True")' END AS finished
    FROM audit.events e
    WHERE e.log = s.log AND e.stream = s.stream AND e.type IN ('WorkloadObserved', 'WorkloadGone')
    ORDER BY e.position DESC LIMIT 1
) w ON true
WHERE s.log = %(log)s AND s.kind = 'workload' AND (%(namespace)s::text IS NULL OR s.namespace = %(namespace)s)
  AND CASE
      WHEN w.type = 'WorkloadObserved' AND (%(finished)s OR NOT w.finished) THEN true
      WHEN w.type = 'WorkloadGone' AND (
          SELECT o.data ->> 'uid' <> w.uid AND (
                  %(finished)s OR NOT o.data @? '$.conditions[*] ? (@.type == "Finished" && @.status == "True")')
              AND NOT EXISTS (
                  SELECT FROM audit.events e WHERE e.log = s.log AND e.stream = s.stream AND e.type = 'WorkloadGone'
                    AND e.position > o.position AND e.data ->> 'uid' = o.data ->> 'uid')
          FROM (
              SELECT e.position, e.data FROM audit.events e
              WHERE e.log = s.log AND e.stream = s.stream AND e.type = 'WorkloadObserved' ORDER BY e.position DESC LIMIT 1
          ) o) THEN true
      ELSE (SELECT e.type LIKE '%%Decided' FROM audit.events e WHERE e.log = s.log AND e.stream = s.stream
            ORDER BY e.position DESC LIMIT 1)
        OR EXISTS (
            SELECT FROM audit.events e
            WHERE e.log = s.log AND e.stream = s.stream
              AND e.type IN ('CloneObserved', 'CloneGone', 'RemoteJobObserved', 'RemoteJobGone')
            GROUP BY e.cluster, e.type IN ('CloneObserved', 'CloneGone')
            HAVING max(e.position) FILTER (WHERE e.type LIKE '%%Observed')
                 > coalesce(max(e.position) FILTER (WHERE e.type LIKE '%%Gone'), 0))
      END"""

# Workloads by the job that owns them: the name is in their newest observation.
_OWNED: LiteralString = """
SELECT s.stream FROM audit.streams s
CROSS JOIN LATERAL (
    SELECT e.data -> 'owner' ->> 'name' AS job, e.position FROM audit.events e
    WHERE e.log = s.log AND e.stream = s.stream AND e.type = 'WorkloadObserved'
      AND (%(until)s::bigint IS NULL OR e.position <= %(until)s) ORDER BY e.position DESC LIMIT 1
) o
WHERE s.log = %(log)s AND s.kind = 'workload' AND s.namespace = %(namespace)s AND o.job = %(name)s
ORDER BY o.position DESC"""


READ: tuple[type[Event], ...] = tuple(dict.fromkeys(event for one in EVERY for event in one.events))
"""All that any log of ours may hold: the service's, and those of the schedulers beside target clusters."""

# The names of all logs, one step in the primary key each: `streams` may have millions of rows.
_LOGS: LiteralString = """
WITH RECURSIVE found (log) AS (
    (SELECT log FROM audit.streams ORDER BY log LIMIT 1)
    UNION ALL
    SELECT (SELECT s.log FROM audit.streams s WHERE s.log > found.log ORDER BY s.log LIMIT 1)
    FROM found WHERE found.log IS NOT NULL
) SELECT log FROM found WHERE log IS NOT NULL"""

_DISTINCT_LOGS: LiteralString = "SELECT DISTINCT log FROM audit.streams ORDER BY log"


class Filter(Value):
    """Which events to read: all that fit every field that is not empty. Positions are exclusive below and inclusive
    above, times of recording the other way round.
    """

    after: int = 0
    until: int | None = None
    streams: Sequence[str] | None = None
    types: Sequence[str] | None = None
    positions: Sequence[int] | None = None
    cluster: str = ""
    begin: datetime | None = None
    end: datetime | None = None

    def where(self) -> tuple[sql.Composable, dict[str, Any]]:
        """Return the conditions in SQL with their parameters."""
        parts, given = [sql.SQL("log = %(log)s AND position > %(after)s")], {"after": self.after}
        asked: list[tuple[LiteralString, str, Any]] = [
            ("position <= %(until)s", "until", self.until),
            ("stream = ANY(%(streams)s)", "streams", None if self.streams is None else list(self.streams)),
            ("type = ANY(%(types)s)", "types", None if self.types is None else list(self.types)),
            ("position = ANY(%(positions)s)", "positions", None if self.positions is None else list(self.positions)),
            ("cluster = %(cluster)s", "cluster", self.cluster or None),
            ("recorded_at >= %(begin)s", "begin", self.begin),
            ("recorded_at < %(end)s", "end", self.end),
        ]
        for condition, name, value in asked:
            if value is not None:
                parts.append(sql.SQL(condition))
                given[name] = value
        return sql.SQL(" AND ").join(parts), given


_BEGAN: LiteralString = (
    " AND (%(until)s::bigint IS NULL OR (SELECT e.position FROM audit.events e WHERE e.log = s.log"
    " AND e.stream = s.stream ORDER BY e.version LIMIT 1) <= %(until)s) ORDER BY s.stream"
)
_STREAMS_OF_OBJECTS: LiteralString = (
    "SELECT stream FROM audit.streams s WHERE log = %(log)s AND kind = ANY(%(kinds)s)"
    " AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s)"
    " AND (%(name)s::text IS NULL OR name = %(name)s)"
)
# A range of streams for each kind: so the index finds the hundred of the clusters among the million of the Workloads.
_STREAMS_OF_KINDS: LiteralString = (
    "SELECT s.stream FROM (SELECT DISTINCT kind FROM unnest(%(kinds)s::text[]) AS kind) k CROSS JOIN LATERAL ("
    "SELECT log, stream FROM audit.streams WHERE log = %(log)s AND stream = k.kind UNION ALL"
    " SELECT log, stream FROM audit.streams WHERE log = %(log)s AND stream > k.kind || '/' AND stream < k.kind || '0'"
    ") s WHERE true"
)


class LogReader:
    """One log of one database, for reading.

    After `read_at` it is the log as it was at a time: `at`, with its last position `until`."""

    def __init__(self, connection: psycopg.Connection[Any], log: str) -> None:
        self.connection, self.log = connection, log
        self.at: datetime | None = None
        self.until: int | None = None
        self._codec = Codec(READ)
        self._deaf: bool | None = None

    @classmethod
    def connect(cls, url: str, *, log: str = "main", role: str = "", timeout: int = 5) -> LogReader:
        """Open a connection that cannot write; `role` is taken with SET ROLE after the login, if it is not empty."""
        connection = psycopg.connect(
            libpq_url(url),
            autocommit=True,
            client_encoding=ENCODING,
            connect_timeout=timeout,
            application_name="controlplane audit",
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
            tcp_user_timeout=10_000,
        )
        try:
            # Not an option of the connection: a URL that asks for a server which takes writes would refuse every one.
            connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
            connection.execute(SESSION)
            if role:
                connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        except BaseException:
            connection.close()
            raise
        return cls(connection, log)

    def __enter__(self) -> LogReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def read_at(self, at: datetime) -> int:
        """Read the log as it was at a time from now on: its events, streams, and Workloads of a job; return its last
        position then, 0 if it had none.
        """
        self.at, self.until = at, self.position_at(at)
        return self.until

    def position_at(self, at: datetime) -> int:
        """Return the last position that the log had at a time, 0 if it had none."""
        row = self.connection.execute("SELECT audit.position_at(%s, %s)", [self.log, at]).fetchone()
        return int(row[0] or 0) if row else 0

    def clock(self) -> datetime:
        """Return the time by the database's clock, which is that of the events."""
        row = self.connection.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        now: datetime = row[0]
        return now

    def head(self) -> int:
        """Return the last position of the log; 0 if there is nothing in it."""
        # Not max(): over a view with a join the planner would read the whole log for it.
        row = self.connection.execute(
            "SELECT position FROM audit.events WHERE log = %s ORDER BY position DESC LIMIT 1", [self.log]
        ).fetchone()
        return int(row[0]) if row else 0

    def events(self, wanted: Filter, *, limit: int | None = None, newest: bool = False) -> Iterator[Recorded]:
        """Yield events by position, at most `limit`: the first ones, or with `newest` the last ones."""
        if self.until is not None:
            until = self.until if wanted.until is None else min(self.until, wanted.until)
            wanted = msgspec.structs.replace(wanted, until=until)
        where, given = wanted.where()
        query = sql.SQL("SELECT {} FROM audit.events WHERE {} ORDER BY position").format(sql.SQL(_COLUMNS), where)
        if limit is not None:
            query = query + sql.SQL(" DESC LIMIT %(limit)s" if newest else " LIMIT %(limit)s")
            given = {**given, "limit": limit}
        if newest and limit is not None:
            query = sql.SQL("SELECT * FROM ({}) newest ORDER BY position").format(query)
        yield from self._read(query, {"log": self.log, **given})

    def of(self, *streams: str, after: int = 0, kind: str = "", newest: bool = False) -> list[Recorded]:
        """Return the events after a position, by position: of some streams, or of one type; with `newest` the last
        alone."""
        wanted = Filter(after=after, streams=streams or None, types=[kind] if kind else None)
        return list(self.events(wanted, limit=1 if newest else None, newest=newest))

    def _read(self, query: sql.Composed, parameters: dict[str, Any]) -> Iterator[Recorded]:
        # A cursor on the server, so that a log of any size passes through in pieces; it is open in a transaction.
        with self.connection.transaction(), self.connection.cursor("audit", binary=True) as cursor:
            cursor.itersize = _ALL_AT_ONCE
            cursor.execute(query, parameters)
            for position, stream, version, name, schema, data, cluster, caused_by, trace, observed, recorded in cursor:
                yield Recorded(
                    position=position,
                    stream=stream,
                    version=version,
                    event=self._codec.decode(name, schema, data),
                    cluster=cluster,
                    caused_by=caused_by,
                    trace=trace,
                    observed_at=observed,
                    recorded_at=recorded,
                )

    def streams(self, *kinds: str, namespace: str | None = None, name: str | None = None) -> list[str]:
        """Return the streams of some kinds, by name; of a namespace or of an object if given."""
        query = _STREAMS_OF_OBJECTS if namespace is not None or name is not None else _STREAMS_OF_KINDS
        given = {"log": self.log, "kinds": list(kinds), "namespace": namespace, "name": name, "until": self.until}
        rows = self.connection.execute(query + _BEGAN, given)
        return [stream for (stream,) in rows]

    def logs(self, *streams: str) -> list[str]:
        """Return the names of all logs of the database, or of those that have one of some streams."""
        if not streams:
            try:
                return [log for (log,) in self.connection.execute(_LOGS)]
            except psycopg.errors.FeatureNotSupported:  # by Citus, where logs are on several nodes
                return [log for (log,) in self.connection.execute(_DISTINCT_LOGS)]
        query = "SELECT DISTINCT log FROM audit.streams WHERE log = ANY(%s) AND stream = ANY(%s) ORDER BY log"
        return [log for (log,) in self.connection.execute(query, [self.logs(), list(streams)])]

    def live_workloads(self, namespace: str | None = None, *, finished: bool = False) -> list[str]:
        """Return the streams of Workloads that something may still come of; with `finished` also those that finished
        and are there.
        """
        rows = self.connection.execute(_LIVE, {"log": self.log, "namespace": namespace, "finished": finished})
        return [stream for (stream,) in rows]

    def workloads_of(self, namespace: str, job: str) -> list[str]:
        """Return the streams of the Workloads that a job of this name owns or owned, the newest first."""
        rows = self.connection.execute(
            _OWNED, {"log": self.log, "namespace": namespace, "name": job, "until": self.until}
        )
        return [stream for (stream,) in rows]

    def rows(self, query: LiteralString, **given: Any) -> list[dict[str, Any]]:
        """Return the rows of a question to the views, by column; `log` in it is this log."""
        with self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(sql.SQL(query), {"log": self.log, **given}).fetchall()

    def first_seen(self, streams: Sequence[str]) -> dict[str, datetime]:
        """Return when each of some streams began."""
        rows = self.connection.execute(
            "SELECT s.stream, e.recorded_at FROM unnest(%(streams)s::text[]) s (stream) CROSS JOIN LATERAL ("
            " SELECT recorded_at FROM audit.events WHERE log = %(log)s AND stream = s.stream"
            " ORDER BY position LIMIT 1) e",
            {"log": self.log, "streams": list(streams)},
        )
        return dict(rows.fetchall())

    def wait(self, seconds: float) -> None:
        """Return when a log of the database may have grown, or after so many seconds."""
        if self._deaf is None:
            try:
                self.connection.execute("LISTEN controlplane")
                self._deaf = False
            except psycopg.errors.ReadOnlySqlTransaction:
                self._deaf = True  # a standby: it has the events, and no notifications
        if self._deaf:
            time.sleep(seconds)
            return
        for _ in self.connection.notifies(timeout=seconds, stop_after=1):
            return
