"""How long a month of the fleet takes to be played again as it was and with a cluster less, and how long it takes to
ask for all of its decisions again; and a month of a fleet where this service decides about quota.

In: what the service recorded of some Jobs, copied over a month inside the database, each copy with names and UIDs of
its own. Out: seconds, processor seconds and memory of each command, which is a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time

import orjson
import psycopg

from benchmarks.machine import database, show
from benchmarks.recording import record

_COPY = """
INSERT INTO controlplane.events (log, position, stream, version, type, schema, data, reason, cluster, observed_at, recorded_at)
SELECT e.log, l.last + row_number() OVER (ORDER BY k, e.position),
       regexp_replace(e.stream, '{names}', '\\1' || lpad(to_hex(k), 4, '0'), 'g'), e.version, e.type, e.schema,
       regexp_replace(
           regexp_replace(e.data::text, '{names}', '\\1' || lpad(to_hex(k), 4, '0'), 'g'),
           '"([0-9a-f]{4})[0-9a-f]{4}(-[0-9a-f]{4}-4[0-9a-f]{3}-)', '"\\1' || lpad(to_hex(k), 4, '0') || '\\2', 'g')::json,
       e.reason, e.cluster, e.observed_at, l.at + k * (interval '30 days' / {copies}) + (e.recorded_at - l.began)
FROM generate_series(1, {copies}) k
CROSS JOIN (SELECT max(position) AS last, max(recorded_at) AS at, min(recorded_at) AS began FROM controlplane.events) l
JOIN controlplane.events e ON e.position <= l.last AND e.stream ~ '{streams}'
"""
_AFTER = """
INSERT INTO controlplane.streams (log, stream, version)
SELECT e.log, e.stream, max(e.version) FROM controlplane.events e GROUP BY 1, 2 ON CONFLICT DO NOTHING;
UPDATE controlplane.log_head SET position = (SELECT max(position) FROM controlplane.events)
"""


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    async with database(args.folder) as url:
        await record(url, args)
        events = _copied(url, args.month, "(train-\\d{6})", "^(workload|job)/")
        rows = [await _measured(url, *command) for command in _COMMANDS]
    show(f"whatif: {events:,} events of a month", _COLUMNS, rows)
    async with database(args.folder) as url:
        command = (sys.executable, "-m", "benchmarks.quota_recording", url, str(_JOBS))
        assert await (await asyncio.create_subprocess_exec(*command)).wait() == 0
        events = _copied(url, args.month, "((?:job|once)-\\d+)(?=-)", _OF_QUOTA)
        rows = [await _measured(url, *command) for command in (("whatif",), ("whatif", "--without", "w2"))]
    show(f"whatif: {events:,} events of a month, with quota that the engine decides about", _COLUMNS, rows)


def _copied(url: str, month: int, names: str, streams: str) -> int:
    """Copy what is recorded over a month, until it has so many events; return how many there are then."""
    with psycopg.connect(url, autocommit=True) as connection:
        counted = "SELECT count(*) FILTER (WHERE stream ~ %s), count(*) FROM controlplane.events"
        row = connection.execute(counted, (streams,)).fetchone()
        assert row is not None
        copies = max(1, month // row[0])
        copy = _COPY.replace("{copies}", str(copies)).replace("{names}", names).replace("{streams}", streams)
        connection.execute(copy.encode())
        connection.execute(_AFTER)
        connection.execute("VACUUM ANALYZE controlplane.events, controlplane.streams")
        row = connection.execute(counted, (streams,)).fetchone()
    assert row is not None
    return int(row[1])


_COLUMNS = ["", "seconds", "processor s", "MiB", "of how many", "agree"]
_JOBS = 20
_OF_QUOTA = "^(workload|job|admission/workload|jobframework/job|jobframework/workload)/"
_COMMANDS = (("whatif",), ("whatif", "--without", "east"), ("diff-decisions",))


async def _measured(url: str, *command: str) -> list[object]:
    """Run a command; return what it took and what it found."""
    started, before = time.perf_counter(), os.times()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _CHILD, *command, "--database-url", url, "-o", "json", stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    text, _, memory = said.rstrip().rpartition(b"\n")
    after, found = os.times(), orjson.loads(text)
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    placed = found.get("placements", {})
    shown = (placed["recorded"], placed["agree"]) if placed else (found["decisions"], found["agree"])
    return [" ".join(command), time.perf_counter() - started, processor, float(memory) / 1024, *shown]


_CHILD = """
import resource, sys
from controlplane.__main__ import run
run(sys.argv[1:])
sys.stdout.flush()
print()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
