"""How long a question in SQL takes on a month of the fleet: of one Workload, and of all."""

from __future__ import annotations

import argparse
import time

import psycopg

from benchmarks.machine import database, show
from benchmarks.recording import record

# Each copy of the Workloads has its share of the month's losses of connection, spread over the time of the copy.
_COPY = """
WITH l AS (
    SELECT max(position) AS last, max(recorded_at) AS at, min(recorded_at) AS began FROM controlplane.events
), copied AS (
    SELECT k, e.recorded_at - l.began AS after, e.position AS rank, e.log, e.stream || '-' || k AS stream, e.version, e.type, e.schema,
           regexp_replace(e.data::text, '"name":"([^"]+)"', '"name":"\\1-' || k || '"', 'g')::json AS data,
           e.reason, e.cluster, e.observed_at
    FROM generate_series(1, %(copies)s) k CROSS JOIN l
    JOIN controlplane.events e ON e.position <= l.last AND e.stream ~ '^(workload|job)/'
    UNION ALL
    SELECT k, (l.at - l.began) * ((2 * n - back) / (2.0 * %(each)s + 1)), 0, c.log, c.stream,
           c.version + 2 * ((k - 1) * %(each)s + n) - back, CASE back WHEN 1 THEN 'ClusterLost' ELSE 'ClusterConnected' END, c.schema,
           CASE back WHEN 1 THEN '{"reason":"ProbeFailed","message":"no route to host"}' ELSE c.data END,
           CASE back WHEN 1 THEN 'ProbeFailed' ELSE '' END, c.cluster, c.observed_at
    FROM generate_series(1, %(copies)s) k CROSS JOIN l CROSS JOIN generate_series(1, %(each)s) n CROSS JOIN generate_series(0, 1) back
    CROSS JOIN (SELECT DISTINCT ON (e.stream) e.log, e.stream, e.schema, e.data, e.cluster, e.observed_at,
                       (SELECT max(n.version) FROM controlplane.events n WHERE n.log = e.log AND n.stream = e.stream) AS version
                FROM controlplane.events e WHERE e.type = 'ClusterConnected' AND e.cluster <> '@management') c
)
INSERT INTO controlplane.events (log, position, stream, version, type, schema, data, reason, cluster, caused_by, observed_at, recorded_at)
SELECT e.log, l.last + row_number() OVER (ORDER BY k, e.after, e.rank), e.stream, e.version, e.type, e.schema, e.data, e.reason, e.cluster,
       NULL, e.observed_at, l.at + k * (interval '30 days' / %(copies)s) + e.after
FROM copied e CROSS JOIN l
"""
_STREAMS = """
INSERT INTO controlplane.streams (log, stream, version)
SELECT e.log, e.stream, max(e.version) FROM controlplane.events e GROUP BY 1, 2 ON CONFLICT DO NOTHING
"""
_VIEWS = ("runs", "workload_phases", "pending_reasons", "placements", "effects", "outage_workloads", "usage")


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    async with database(args.folder) as url:
        count = len(await record(url, args))
        with psycopg.connect(url, autocommit=True) as connection:
            copies = max(1, args.month // count)
            each = -(-args.losses // copies)
            connection.execute("SELECT controlplane.make_room(%s)", ((copies + 1) * (count + 100 * each),))
            connection.execute(_COPY.replace("%(copies)s", str(copies)).replace("%(each)s", str(each)).encode())
            connection.execute(_STREAMS)
            connection.execute("VACUUM ANALYZE controlplane.events, controlplane.streams")
            events, workloads, one = _sizes(connection)
            before = [_measured(connection, view, one) for view in (*_VIEWS, "as_of")]
            kept = _kept(connection)
            after = [_measured(connection, view, one) for view in (*_VIEWS, "as_of")]
    rows = [[view, *old, *new] for view, old, new in zip((*_VIEWS, "as_of"), before, after, strict=True)]
    columns = ["", "one Workload, ms", "all, s", "one, read models, ms", "all, read models, s"]
    show(f"audit: {events:,} events, {workloads:,} Workloads", columns, rows)
    print(f"the read models were made in {kept:.0f} s", flush=True)


def _kept(connection: psycopg.Connection) -> float:
    """Keep the read models of the whole log; return how many seconds it took."""
    started, before, after = time.perf_counter(), -1, 0
    connection.execute(
        "UPDATE controlplane.log_head h SET position = (SELECT max(e.position) FROM controlplane.events e WHERE e.log "
        "= h.log)"
    )
    while after > before:
        row = connection.execute(
            "SELECT controlplane.keep_read_models('main', 20000, interval '-1000 days')"
        ).fetchone()
        assert row is not None
        before, after = after, row[0]
    connection.execute("VACUUM ANALYZE read_models.runs, read_models.streams, read_models.workload_phases")
    return time.perf_counter() - started


def _sizes(connection: psycopg.Connection) -> tuple[int, int, str]:
    """Return how many events and Workloads there are, and the name of one."""
    row = connection.execute(
        "SELECT (SELECT count(*) FROM controlplane.events), count(*), max(name) FROM audit.streams WHERE kind = "
        "'workload'"
    ).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


def _measured(connection: psycopg.Connection, view: str, one: str) -> tuple[object, object]:
    if view == "as_of":
        return "", _seconds(connection, "SELECT count(*) FROM audit.as_of('main', now() + interval '15 days')")
    every = f"SELECT * FROM audit.{view}"
    named = (
        ""
        if view == "usage"
        else 1000 * _seconds(connection, f"{every} WHERE namespace = 'default' AND name = '{one}'")
    )
    return named, _seconds(connection, every)


def _seconds(connection: psycopg.Connection, query: str) -> float:
    started = time.perf_counter()
    connection.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {query}".encode())
    return time.perf_counter() - started
