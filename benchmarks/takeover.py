"""How long a process takes from nothing, or from following, to leading a log with many live workloads in it.

In: what the service recorded of some Jobs, up to the moment at which each ran, copied over and over inside the database
until there are as many as wanted. Out: the events that were folded, and seconds: cold (read, decode, fold, take the
lead, look at every workload once) and warm (the same for a follower that had everything folded already). What comes on
top is not measured here: the lease of a leader that died, and the lists of the clusters, before which the look at the
workloads decides nothing."""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from benchmarks.fleet import ROLE
from benchmarks.machine import database, show
from benchmarks.recording import codec, new_fleet, record
from controlplane.clock import SystemClock
from controlplane.controllers.connectivity.local_connection import service_started
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.observations import (
    CloneObserved,
    JobObserved,
    RemoteJobObserved,
    WorkloadObserved,
)
from controlplane.log.connect import Database
from controlplane.log.event import Append, Recorded
from controlplane.log.postgres import PostgresLog
from controlplane.runtime.bodies import Bodies
from controlplane.runtime.effects import Effects
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from controlplane.runtime.runner import Runner

# A copy of a stream: names and uids differ in a suffix, everything else is as it was recorded.
_COPY = """
WITH live AS (
    SELECT stream, version, type, schema, data::text AS data, reason, cluster, trace, observed_at, recorded_at,
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
UPDATE controlplane.log_head SET position = position + (SELECT count(*) FROM copied) WHERE log = 'main'"""


@dataclass(frozen=True, slots=True)
class Seconds:
    """What one takeover took."""

    fold: float
    lead: float
    look: float

    @property
    def total(self) -> float:
        """From the first read to the end of the first look at every workload."""
        return self.fold + self.lead + self.look


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    async with database(args.folder) as url:
        recorded = await record(url, args)
        shared, own = _live(recorded)
        copies = -(-args.live // args.recorded)
        _fill(url, shared, own, copies)
        cold, warm, count, live = [], [], 0, 0
        for _ in range(args.repeat):
            seconds, count, live = await _takeover(url)
            cold.append(seconds)
            warm.append(await _from_following(url))
    rows = [
        [name, *(statistics.median(getattr(seconds, key) for seconds in found) for found in (cold, warm))]
        for name, key in (
            ("read, decode and fold", "fold"),
            ("take the lead and say so", "lead"),
            ("look at every workload once", "look"),
            ("all", "total"),
        )
    ]
    title = f"takeover: {live:,} live workloads, {count:,} events folded cold, median of {args.repeat}"
    show(title, ["seconds", "cold", "warm"], rows)


def _live(recorded: Sequence[Recorded]) -> tuple[list[int], list[int]]:
    """Return the positions of what all workloads share, and of what each has until its job's copy is seen to end."""
    shared, own, ended = [], [], set()
    for event in recorded:
        room = event.stream.partition("/")[0]
        if room not in ("workload", "job"):
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


def _fill(url: str, shared: Sequence[int], own: Sequence[int], copies: int) -> None:
    """Put what was recorded aside, and into the log: what is shared once, every workload as often as wanted."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table in ("events", "streams", "log_head", "batches", "sources"):
            connection.execute(f"UPDATE controlplane.{table} SET log = 'recorded'")
        connection.execute("INSERT INTO controlplane.log_head (log) VALUES ('main')")
        connection.execute(_COPY, {"positions": list(shared), "mark": "0000"})
        for copy in range(copies):
            connection.execute(_COPY, {"positions": list(own), "mark": f"{copy:04x}"})
        connection.execute("ANALYZE controlplane.events")


def _runner(log: PostgresLog, states: MultiKueueController) -> tuple[Runner, Effects]:
    clock, gate = SystemClock(), Gate()
    chance = random.Random()
    effects = Effects(log, states, Bodies(log), clock, gate, lambda cluster: None, rng=chance)
    return Runner(log, states, effects, gate, clock), effects


async def _takeover(url: str) -> tuple[Seconds, int, int]:
    """Take over as a process that has just started."""
    states = new_fleet()
    async with PostgresLog(Database(url, ROLE), codec()) as log:
        runner, effects = _runner(log, states)
        started = time.perf_counter()
        await runner.follow()
        folded = time.perf_counter() - started
        count = runner.position
        lead, look = await _lead(log, states, runner)
        await effects.close()
    return Seconds(folded, lead, look), count, len(states.index.workloads)


async def _from_following(url: str) -> Seconds:
    """Take over as a process that followed until now."""
    states = new_fleet()
    async with PostgresLog(Database(url, ROLE), codec()) as log:
        runner, effects = _runner(log, states)
        await runner.follow()
        states.take_dirty()
        started = time.perf_counter()
        await runner.follow()
        folded = time.perf_counter() - started
        lead, look = await _lead(log, states, runner)
        await effects.close()
    return Seconds(folded, lead, look)


async def _lead(log: PostgresLog, states: MultiKueueController, runner: Runner) -> tuple[float, float]:
    """Return the seconds of taking the lead, and of the first look at everything that it makes worth a look."""
    clock = SystemClock()
    started = time.perf_counter()
    head = await Leader(log, "benchmark", clock, Gate(), lease=0.0).acquire()
    await runner.catch_up(head.position)
    await log.append(Append([service_started(head.epoch, "benchmark", "benchmark")]))
    led = time.perf_counter()
    await runner.follow()
    for stream in states.take_dirty():
        states.decide(stream, clock.now())
    return led - started, time.perf_counter() - led
