"""A process that starts on a log: `python -m benchmarks.starting URL HOW`, in a process of its own, so that its memory
is its own.

In: the URL of a database, and how to begin: `nothing` reads the whole log and keeps a snapshot, `snapshot` begins
with the newest one, `upgrade` with what another version's says is left, `following` has folded everything before it is
measured. Out: a line of JSON: seconds, events, workloads, and the largest resident set in MiB."""

from __future__ import annotations

import asyncio
import random
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.fleet import ROLE
from controlplane import telemetry
from controlplane.app.hosted import TYPES, HostedControllers
from controlplane.clock import SystemClock
from controlplane.controllers.connectivity.local_connection import service_started
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append, Recorded
from controlplane.log.postgres import PostgresLog
from controlplane.log.snapshots import PostgresSnapshots
from controlplane.runtime.bodies import Bodies
from controlplane.runtime.effects import Effects
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from controlplane.runtime.runner import Runner
from controlplane.runtime.snapshots import Snapshots
from controlplane.settings import Settings


class Started(msgspec.Struct):
    """What a start took: seconds of restoring a snapshot, of reading, decoding and folding, of taking the lead, and of
    the first look at every Workload; how many events were folded; how many workloads there are; MiB; processor seconds
    of all of it; and in how many seconds a snapshot was kept, and the longest for which the event loop waited
    meanwhile."""

    restore: float = 0
    fold: float = 0
    lead: float = 0
    look: float = 0
    events: int = 0
    workloads: int = 0
    memory: float = 0
    processor: float = 0
    kept_in: float = 0
    longest_wait: float = 0

    @property
    def total(self) -> float:
        """From the first read to the end of the first look at every workload."""
        return self.restore + self.fold + self.lead + self.look


async def start(url: str, how: str) -> Started:
    """Start as a process does."""
    hosted, found = HostedControllers(Settings()), Started()
    database = Database(url, ROLE, statement_timeout=600)
    async with PostgresLog(database, Codec(TYPES)) as log:
        clock, gate = SystemClock(), Gate()
        fold = "another version" if how == "upgrade" else "benchmark"
        snapshots = Snapshots(PostgresSnapshots(database, log), hosted.router, log.traces, fold, clock, 50_000)
        effects = Effects(log, hosted.router, Bodies(log), clock, gate, lambda cluster: None, rng=random.Random())

        def heard(events: Sequence[Recorded]) -> None:
            found.events += len(events)
            snapshots.folded(events)

        runner = Runner(log, hosted.router, effects, gate, clock, on_folded=heard)
        await log.head()  # connected
        began, processor = time.perf_counter(), time.process_time()
        if how in ("snapshot", "following"):
            restored = await snapshots.restore()
            assert restored is not None, "there is no snapshot"
            runner.position = restored.position
        found.restore = time.perf_counter() - began
        began = time.perf_counter()
        if how == "upgrade":
            found.events += await _begin_with_what_is_left(snapshots, runner)
        await runner.follow()
        found.fold = time.perf_counter() - began
        if how == "nothing":
            await _keep(snapshots, found)
        if how == "following":
            found.restore, found.events, began, processor = 0, 0, time.perf_counter(), time.process_time()
            await runner.follow()
            found.fold = time.perf_counter() - began
        await _lead(log, hosted, runner, found)
        found.processor = time.process_time() - processor
        await effects.close()
        await snapshots.end(orderly=False)
    found.workloads = len(hosted.fleet.index.workloads)
    found.memory = _largest()
    return found


async def _begin_with_what_is_left(snapshots: Snapshots, runner: Runner) -> int:
    """Return how many events that was."""
    assert await snapshots.left() is not None, "there is no snapshot"
    count = 0
    while (page := await snapshots.next_left(runner.position)) is not None:
        runner.begin_with(page.events, page.looked_to)
        count += len(page.events)
    return count


async def _keep(snapshots: Snapshots, found: Started) -> None:
    """Keep a snapshot, and note for how long nothing else had a turn."""
    keeping, began = asyncio.create_task(snapshots.keep()), time.perf_counter()
    while not keeping.done():
        before = time.perf_counter()
        await asyncio.sleep(0)
        found.longest_wait = max(found.longest_wait, time.perf_counter() - before)
    await keeping
    found.kept_in = time.perf_counter() - began


async def _lead(log: PostgresLog, hosted: HostedControllers, runner: Runner, found: Started) -> None:
    clock = SystemClock()
    began = time.perf_counter()
    head = await Leader(log, "benchmark", clock, Gate(), lease=0.0).acquire()
    await runner.catch_up(head.position)
    await log.append(Append([service_started(head.epoch, "benchmark", "benchmark")]))
    led = time.perf_counter()
    await runner.follow()
    for stream in hosted.router.take_dirty():
        hosted.router.decide(stream, clock.now())
    found.lead, found.look = led - began, time.perf_counter() - led


def _largest() -> float:
    """Return the largest resident set in MiB. What `getrusage` says begins with that of whoever started us."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def main() -> None:
    """Start once, and say what it took."""
    telemetry.configure("error", "console")
    url, how = sys.argv[1:]
    sys.stdout.write(msgspec.json.encode(asyncio.run(start(url, how))).decode() + "\n")


if __name__ == "__main__":
    main()
