"""How long a page takes: of a log with many Workloads of many clusters, each page asked as a browser asks it.

In: what the service recorded of some Jobs; of one of them the observations and the choice, copied inside the database,
over namespaces and clusters, most of them to the end and some up to the moment at which the job ran. Out: seconds and
memory until the pages are there, and milliseconds a page, and until it is painted where Chromium is."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import os
import statistics
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from benchmarks.machine import database, show
from benchmarks.painting import first_paints
from benchmarks.recording import record
from controlplane.pages.beside import beside

_TYPES = ["WorkloadObserved", "NominationDecided", "WinnerChosen", "RemoteJobObserved"]
_ROOM = "SELECT controlplane.make_room(%s)"
_CLUSTERS = """
INSERT INTO controlplane.events (log, position, stream, version, type, schema, data, reason, cluster, recorded_at)
SELECT e.log, %(after)s + row_number() OVER (ORDER BY n, e.position), 'cluster/site-' || n, e.version, e.type, e.schema,
       replace(e.data::text, %(worker)s, 'site-' || n)::json, e.reason, replace(e.cluster, %(worker)s, 'site-' || n), e.recorded_at
FROM generate_series(1, %(clusters)s) n JOIN controlplane.events e ON e.stream = 'cluster/' || %(worker)s"""
_WORKLOADS = """
WITH life AS (
    SELECT row_number() OVER (ORDER BY e.version) AS version, e.type, e.schema, e.data::text AS data, e.reason, e.cluster,
           e.recorded_at - first_value(e.recorded_at) OVER (ORDER BY e.version) AS later,
           e.type = 'WorkloadObserved' AND e.data::text LIKE '%%"type":"Finished","status":"True"%%' AS over
    FROM controlplane.events e WHERE e.stream = %(stream)s AND e.type = ANY(%(types)s)
), size AS (SELECT count(*) AS events FROM life)
INSERT INTO controlplane.events (log, position, stream, version, type, schema, data, reason, cluster, recorded_at)
SELECT 'main', %(after)s + row_number() OVER (ORDER BY n, l.version),
       'workload/team-' || n %% 50 || '/' || replace(%(name)s, %(job)s, 'run-' || n), l.version, l.type, l.schema,
       replace(replace(replace(l.data, %(job)s, 'run-' || n), '"default"', '"team-' || n %% 50 || '"'),
               %(worker)s, 'site-' || 1 + n %% %(clusters)s)::json,
       l.reason, replace(l.cluster, %(worker)s, 'site-' || 1 + n %% %(clusters)s),
       now() - interval '30 days' * (%(all)s - n) / %(all)s + l.later
FROM generate_series(%(first)s::bigint, %(last)s) n CROSS JOIN life l
WHERE n <= %(all)s - %(live)s OR l.version < (SELECT min(version) FROM life WHERE over)"""
_STREAMS = """
INSERT INTO controlplane.streams (log, stream, version)
SELECT e.log, e.stream, 1 FROM controlplane.events e WHERE e.version = 1 ON CONFLICT DO NOTHING"""
_HEAD = """
UPDATE controlplane.log_head h SET position = (SELECT e.position FROM controlplane.events e ORDER BY e.position DESC LIMIT 1)
WHERE log = 'main'"""
_PIECE = 100_000


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    async with made(args) as url:
        with psycopg.connect(url) as connection:
            events, one = _last(connection), _one(connection)
        async with beside(
            "127.0.0.1", 0, {"CONTROLPLANE_DATABASE_URL": url, "CONTROLPLANE_LOG_LEVEL": "error"}
        ) as address:
            began = time.perf_counter()
            await asyncio.to_thread(_until_ready, address)
            ready, memory = time.perf_counter() - began, _memory()
            paths = _paths(one, url)
            rows = [await asyncio.to_thread(_measured, address, path, args.repeat) for path in paths]
            paints = await asyncio.to_thread(
                first_paints, address, [path for path in paths if "/api/" not in path], args.repeat
            )
            hours = await asyncio.to_thread(_until_complete, address, began)
            whole = _memory()
    title = (
        f"web: {args.web_workloads:,} Workloads ({args.web_live:,} live) on {args.web_clusters} clusters, "
        f"{events:,} events"
    )
    told = [[*row, paints.get(str(row[0]), "")] for row in rows]
    show(title, ["", "status", "first, ms", "median, ms", "kB", "first paint, ms"], told)
    print(f"the pages were there after {ready:.1f} s, with {memory:,.0f} MiB", flush=True)
    print(f"the hours of seven days were added up after {hours:.1f} s, with {whole:,.0f} MiB", flush=True)


@contextlib.asynccontextmanager
async def made(args: argparse.Namespace) -> AsyncIterator[str]:
    """Have a database with such a log: that of `--web-database`, or a new one."""
    if args.web_database:
        yield args.web_database
        return
    async with database(args.folder) as url:
        await record(url, args)
        with psycopg.connect(url, autocommit=True) as connection:
            _make(connection, args.web_workloads, args.web_live, args.web_clusters)
        yield url


def _make(connection: psycopg.Connection, workloads: int, live: int, clusters: int) -> int:
    """Copy the first Workload; return how many events there are then."""
    found = connection.execute(
        "SELECT e.stream, e.data -> 'owner' ->> 'name', e.data ->> 'cluster_name' FROM audit.events e"
        " WHERE e.type = 'WorkloadObserved' AND e.data ->> 'cluster_name' <> '' ORDER BY e.position DESC LIMIT 1"
    ).fetchone()
    assert found is not None
    stream, job, worker = found
    given = {"stream": stream, "name": stream.rpartition("/")[2], "job": job, "worker": worker, "types": _TYPES}
    given |= {"clusters": clusters, "all": workloads, "live": live}
    connection.execute("SET max_parallel_workers_per_gather = 0")
    after = _last(connection)
    connection.execute(_ROOM, [after + 100 * clusters + 20 * workloads])
    connection.execute(_CLUSTERS, {**given, "after": after})
    for first in range(1, workloads + 1, _PIECE):
        last = min(first + _PIECE - 1, workloads)
        connection.execute(_WORKLOADS, {**given, "after": _last(connection), "first": first, "last": last})
    connection.execute(_STREAMS)
    connection.execute(_HEAD)
    connection.execute("VACUUM ANALYZE controlplane.events, controlplane.streams")
    return _last(connection)


def _last(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT position FROM controlplane.events ORDER BY position DESC LIMIT 1").fetchone()
    assert row is not None
    return int(row[0])


def _one(connection: psycopg.Connection) -> str:
    """Return the namespace and name of a Workload that is over."""
    row = connection.execute(
        "SELECT s.namespace || '/' || s.name FROM audit.streams s WHERE s.stream > 'workload/team-1/' ORDER BY "
        "s.stream LIMIT 1"
    ).fetchone()
    assert row is not None
    return str(row[0])


def _paths(one: str, url: str) -> list[str]:
    """Return what is asked: each page, and the list as people filter, sort and page it."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT e.position FROM audit.events e WHERE e.stream = %s ORDER BY version LIMIT 1", [f"workload/{one}"]
        ).fetchone()
    position = row[0] if row is not None else 1
    return [
        "/", "/workloads", "/workloads?state=Running", "/workloads?state=active&sort=since",
        "/workloads?namespace=team-7&sort=name", "/workloads?cluster=site-7&state=Failed", "/workloads?text=run-99",
        f"/workloads/{one}", f"/events/{position}", f"/events/{position}?at=1h", "/clusters/site-7", "/outages", "/queues", "/pods",
        "/usage?namespace=team-7", "/usage",
        "/usage?by=day,cluster&days=30",
        f"/workloads/{one}?at=1h", "/?at=1h", "/workloads?at=1h", "/workloads?at=1h&namespace=team-7", "/queues?at=1h", "/api/v1/workloads",
    ]  # fmt: skip


def _until_ready(address: str) -> None:
    while _asked(address, "/workloads")[0] != 200:
        time.sleep(0.2)


def _until_complete(address: str, began: float) -> float:
    """Return the seconds from the start until the hours of the days that the page shows are all there."""
    while b'"complete":true' not in _body(address, "/api/v1/usage"):
        time.sleep(1)
    return time.perf_counter() - began


def _body(address: str, path: str) -> bytes:
    with urllib.request.urlopen(address.rstrip("/") + path, timeout=120) as answer:
        return bytes(answer.read())


def _asked(address: str, path: str) -> tuple[int, float, int]:
    """Return the status of a page, the seconds until all of it was there, and its size."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=120)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
    except OSError:
        return 0, 0.0, 0
    finally:
        connection.close()
    return answer.status, time.perf_counter() - began, len(body)


def _measured(address: str, path: str, repeat: int) -> list[object]:
    asked = [_asked(address, path) for _ in range(max(repeat, 2))]
    times = [1000 * seconds for _, seconds, _ in asked]
    return [path, asked[0][0], times[0], statistics.median(times[1:]), asked[0][2] / 1000]


def _memory() -> float:
    """Return the MiB that the process of the pages holds: it is the only child that serves."""
    mine = os.getpid()
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text, command = status.read_text(), status.with_name("cmdline").read_text()
        except OSError:
            continue
        if f"\nPPid:\t{mine}\n" in text and "--listening" in command and sys.executable in command:
            return int(text.partition("VmRSS:")[2].split()[0]) / 1024
    return 0.0
