"""How fast a process that starts has its state again: read the log, decode, fold."""

from __future__ import annotations

import argparse
import statistics
import time

from benchmarks.fleet import ROLE
from benchmarks.machine import database, show
from benchmarks.recording import codec, new_fleet, record
from controlplane.log.connect import Database
from controlplane.log.postgres import PostgresLog


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    async with database(args.folder) as url:
        count = len(await record(url, args))
        reads, folds, alls = [], [], []
        for _ in range(args.repeat):
            read, fold = await _replay(url)
            reads.append(count / read)
            folds.append(count / fold)
            alls.append(count / (read + fold))
    rows = [
        ["read and decode", statistics.median(reads)],
        ["fold", statistics.median(folds)],
        ["all", statistics.median(alls)],
    ]
    show(f"replay: {count:,} events, median of {args.repeat}", ["", "events/s"], rows)


async def _replay(url: str) -> tuple[float, float]:
    """Replay the log once as a starting service does; return the seconds of reading and of folding."""
    states, position, read, fold = new_fleet(), 0, 0.0, 0.0
    async with PostgresLog(Database(url, ROLE), codec()) as log:
        await log.head()  # connected
        while True:
            started = time.perf_counter()
            events = await log.read(position, 2000)
            got = time.perf_counter()
            for recorded in events:
                states.fold(recorded)
            read, fold = read + got - started, fold + time.perf_counter() - got
            if not events:
                return read, fold
            position = events[-1].position
