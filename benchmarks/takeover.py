"""How long a process takes from nothing, from a snapshot, or from following, to leading a log with many live workloads
in it.

In: what the service recorded of some Jobs, copied over and over inside the database: first whole lives, until there are
as many events of workloads that are over as wanted, then lives up to the moment at which each job ran, until there are
as many live workloads as wanted. Before the last of them a snapshot is kept. Out: the events that were folded, seconds
and memory, each start in a process of its own: from nothing (read, decode, fold, keep the snapshot, take the lead, look
at every workload once), from the snapshot and what came after it, and warm (a follower that had everything folded
already). What comes on top is not measured here: the lease of a leader that died, and the lists of the clusters, before
which the look at the workloads decides nothing."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import psycopg

from benchmarks.fleet import ROLE
from benchmarks.machine import database, show
from benchmarks.recording import codec, record
from benchmarks.starting import Started
from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.observations import (
    CloneObserved,
    JobObserved,
    RemoteJobObserved,
    WorkloadObserved,
)
from controlplane.log.connect import Database
from controlplane.log.event import Append, NewEvent, Recorded
from controlplane.log.postgres import PostgresLog

# A copy of a stream: names and uids differ in a suffix, everything else is as it was recorded.
_ROOM = "SELECT controlplane.make_room((SELECT coalesce(max(position), 0) + %s FROM controlplane.events))"
_COPY = """
WITH live AS (
    SELECT stream, version, type, schema, data::text AS data, reason, cluster, trace, observed_at,
           recorded_at - %(ago)s::interval AS recorded_at,
           row_number() OVER (ORDER BY position) AS number
    FROM controlplane.events WHERE log = 'recorded' AND position = ANY(%(positions)s)
), copied AS (
    SELECT regexp_replace(stream, 'train-(\\d{6})', 'train-\\1' || %(mark)s) AS stream, version, type, schema, reason, cluster, trace,
           observed_at, recorded_at, number,
           regexp_replace(regexp_replace(data, 'train-(\\d{6})', 'train-\\1' || %(mark)s, 'g'),
                          '"([0-9a-f]{4})[0-9a-f]{4}(-[0-9a-f]{4}-4[0-9a-f]{3}-)', '"\\1' || %(mark)s || '\\2', 'g') AS data
    FROM live
), written AS (
    INSERT INTO controlplane.events (log, position, stream, version, type, schema, data, reason, cluster, trace, observed_at, recorded_at)
    SELECT 'main', h.position + number, c.stream, c.version, type, schema, data::json, reason, cluster, trace, observed_at, recorded_at
    FROM copied c, controlplane.log_head h WHERE h.log = 'main'
), versions AS (
    INSERT INTO controlplane.streams (log, stream, version) SELECT 'main', stream, max(version) FROM copied GROUP BY stream
    ON CONFLICT (log, stream) DO UPDATE SET version = excluded.version
)
, batch AS (
    INSERT INTO controlplane.batches (log, first, last, batch, epoch, recorded_at)
    SELECT 'main', h.position + 1, h.position + (SELECT count(*) FROM copied), gen_random_uuid(), 0, now()
    FROM controlplane.log_head h WHERE h.log = 'main'
)
UPDATE controlplane.log_head SET position = position + (SELECT count(*) FROM copied) WHERE log = 'main'"""
# So many events come after the snapshot: half of what lies between two.
_TAIL = 25_000
_GONE = {
    "WorkloadObserved": observations.WorkloadGone,
    "CloneObserved": observations.CloneGone,
    "JobObserved": observations.JobGone,
    "RemoteJobObserved": observations.RemoteJobGone,
}


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    async with database(args.folder) as url:
        recorded = await record(url, args)
        shared, own, whole = await _lives(url, recorded)
        tail = -(-_TAIL // len(own))
        copies, ended = -(-args.live // args.recorded), -(-args.history // len(whole))
        _put_aside(url)
        _copy(url, shared, ["0000"])
        _copy(url, whole, (f"{copy:04x}" for copy in range(copies, copies + ended)), ago="2 days")
        _copy(url, own, (f"{copy:04x}" for copy in range(tail, copies)))
        _analyze(url)
        kept = await _started(url, "nothing")
        _copy(url, own, (f"{copy:04x}" for copy in range(min(tail, copies))))
        found = {"from nothing": [kept]}
        for how in ("upgrade", "snapshot", "following"):
            found[how] = [await _started(url, how) for _ in range(args.repeat)]
    rows = [
        [name, *(statistics.median(getattr(one, key) for one in starts) for starts in found.values())]
        for name, key in (
            ("restore the snapshot", "restore"),
            ("read, decode and fold", "fold"),
            ("take the lead and say so", "lead"),
            ("look at every workload once", "look"),
            ("all", "total"),
            ("processor seconds", "processor"),
            ("events folded", "events"),
            ("MiB", "memory"),
        )
    ]
    speed = kept.events / kept.fold
    title = f"takeover: {args.live:,} live workloads, {kept.events:,} events, {speed:,.0f} events/s from nothing"
    names = ["from nothing", "after an upgrade", f"from a snapshot (of {args.repeat})", "warm"]
    show(title, ["seconds", *names], rows)
    print(
        f"the snapshot was kept in {kept.kept_in:.2f} s; the event loop waited {1000 * kept.longest_wait:.0f} ms at "
        "most"
    )


async def _started(url: str, how: str) -> Started:
    """Start a process of its own on the log."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.starting", url, how, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    return msgspec.json.decode(said.splitlines()[-1], type=Started)


async def _lives(url: str, recorded: Sequence[Recorded]) -> tuple[list[int], list[int], list[int]]:
    """Return the positions of what all workloads share, of what each has until its job's copy is seen to end, and of
    all that each has until nothing is left of it, which is recorded here."""
    shared, own = _live(recorded)
    async with PostgresLog(Database(url, ROLE), codec()) as log:
        await log.take_epoch("benchmark")
        await log.append(Append(list(_ends_of(recorded))))
        position, whole = 0, []
        while events := await log.read(position, 5000):
            whole += [one.position for one in events if _is_own(one)]
            position = events[-1].position
    return shared, own, whole


def _ends_of(recorded: Sequence[Recorded]) -> Iterable[NewEvent]:
    """Yield the end of every object that is there in the end."""
    there: dict[tuple[str, str, str], Recorded] = {}
    for one in recorded:
        name = type(one.event).__name__
        if _is_own(one) and name in _GONE:
            there[one.stream, one.cluster, name] = one
    for one in there.values():
        event: Any = one.event
        gone = _GONE[type(event).__name__]
        fields = {name: getattr(event, name) for name in gone.__struct_fields__ if hasattr(event, name)}
        yield NewEvent(stream=one.stream, event=gone(**fields), cluster=one.cluster)


def _is_own(recorded: Recorded) -> bool:
    return recorded.stream.partition("/")[0] in ("workload", "job")


def _live(recorded: Sequence[Recorded]) -> tuple[list[int], list[int]]:
    """Return the positions of what all workloads share, and of what each has until its job's copy is seen to end."""
    shared, own, ended = [], [], set()
    for event in recorded:
        if not _is_own(event):
            shared.append(event.position)
            continue
        if _ends(event):
            ended.add(event.stream)
        if event.stream not in ended:
            own.append(event.position)
    return shared, own


def _ends(recorded: Recorded) -> bool:
    match recorded.event:
        case RemoteJobObserved() | JobObserved():
            return recorded.event.finished
        case CloneObserved() | WorkloadObserved():
            return recorded.event.is_true("Finished") or recorded.event.deleting
        case _:
            return False


def _put_aside(url: str) -> None:
    """Begin another log, beside what was recorded."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table in ("events", "streams", "log_head", "batches", "sources", "new_marks"):
            connection.execute(f"UPDATE controlplane.{table} SET log = 'recorded'")
        connection.execute("INSERT INTO controlplane.log_head (log) VALUES ('main')")


def _copy(url: str, positions: Sequence[int], marks: Iterable[str], ago: str = "0") -> None:
    """Append what was recorded at some positions, once for each mark, as if it had been so long ago."""
    with psycopg.connect(url, autocommit=True) as connection:
        for mark in marks:
            connection.execute(_ROOM, (len(positions),))
            connection.execute(_COPY, {"positions": list(positions), "mark": mark, "ago": ago})


def _analyze(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE controlplane.events")
