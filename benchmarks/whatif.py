"""How long a month of the fleet takes to be played again as it was and with a cluster less, and how long it takes to ask
for all of its decisions again.

In: what the service recorded of some Jobs, copied over a month inside the database, each copy with names and UIDs of its
own. Out: seconds, processor seconds and memory of each command, which is a process of its own."""

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
       regexp_replace(e.stream, 'train-(\\d{6})', 'train-\\1' || lpad(to_hex(k), 4, '0')), e.version, e.type, e.schema,
       regexp_replace(
           regexp_replace(e.data::text, 'train-(\\d{6})', 'train-\\1' || lpad(to_hex(k), 4, '0'), 'g'),
           '"([0-9a-f]{4})[0-9a-f]{4}(-[0-9a-f]{4}-4[0-9a-f]{3}-)', '"\\1' || lpad(to_hex(k), 4, '0') || '\\2', 'g')::json,
       e.reason, e.cluster, e.observed_at, l.at + k * (interval '30 days' / {copies}) + (e.recorded_at - l.began)
FROM generate_series(1, {copies}) k
CROSS JOIN (SELECT max(position) AS last, max(recorded_at) AS at, min(recorded_at) AS began FROM controlplane.events) l
JOIN controlplane.events e ON e.position <= l.last AND e.stream ~ '^(workload|job)/'
"""
_AFTER = """
INSERT INTO controlplane.streams (log, stream, version)
SELECT e.log, e.stream, max(e.version) FROM controlplane.events e GROUP BY 1, 2 ON CONFLICT DO NOTHING;
UPDATE controlplane.log_head SET position = (SELECT max(position) FROM controlplane.events)
"""


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    async with database(args.folder) as url:
        count = len(await record(url, args))
        with psycopg.connect(url, autocommit=True) as connection:
            copies = max(1, args.month // count)
            connection.execute(_COPY.replace("{copies}", str(copies)).encode())
            connection.execute(_AFTER)
            connection.execute("VACUUM ANALYZE controlplane.events, controlplane.streams")
            events = connection.execute("SELECT count(*) FROM controlplane.events").fetchone()
        rows = [await _measured(url, *command) for command in _COMMANDS]
    assert events is not None
    show(
        f"whatif: {events[0]:,} events of a month", ["", "seconds", "processor s", "MiB", "of how many", "agree"], rows
    )


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
