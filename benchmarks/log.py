"""The price of the log's promises: appending real events with everything on, beside the same rows by plain COPY.

Everything: group commit of many small requests, epoch, expected versions, de-duplication, gapless positions, bodies, a
notification each commit. COPY: one connection, the finished rows, into a table of the same columns and indexes, a
commit for each batch. Both on the same durable server, one after the other, several times."""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import time
from collections.abc import Sequence
from typing import Any

import psycopg

from benchmarks.fleet import ROLE
from benchmarks.machine import database, show
from benchmarks.recording import bodies_of, codec, record, requests
from controlplane.log.connect import Database
from controlplane.log.event import Append
from controlplane.log.postgres import PostgresLog
from controlplane.log.schema import libpq_url

_COLUMNS = (
    "log, position, stream, version, type, schema, data, reason, cluster, caused_by, trace, observed_at, recorded_at"
)


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    async with database(args.folder) as url:
        events = await record(url, args)
        asked = requests(events, await bodies_of(url, events), args.events)
        gc.freeze()  # as the service does with what it has folded: the collector looks through what the appends make
        rows: list[list[object]] = []
        for batch in args.batches:
            ours, theirs = [], []
            for turn in range(args.repeat):
                name = f"bench-{batch}-{turn}"
                speed, size = await _append(url, name, asked, batch, args.submitters)
                ours.append(speed)
                theirs.append(_copy(url, name, batch))
            rows.append(
                [
                    batch,
                    size,
                    *map(statistics.median, (ours, theirs)),
                    statistics.median(ours) / statistics.median(theirs),
                ]
            )
    total = sum(len(request.events) for request in asked)
    header = ["most events of a commit", "events of one", "append, events/s", "COPY, events/s", "append / COPY"]
    show(f"log: {total:,} events in {len(asked):,} requests, median of {args.repeat}", header, rows)


async def _append(url: str, name: str, asked: Sequence[Append], batch: int, submitters: int) -> tuple[float, float]:
    """Append all requests to a new log; return events a second and events a commit."""
    async with PostgresLog(Database(url, ROLE), codec(), log=name, max_batch=batch) as log:
        await log.take_epoch("benchmark")
        ahead = iter(asked)

        async def submit() -> None:
            for request in ahead:
                await log.append(request)

        await log.wait(0, 0.1)  # whoever follows the log listens
        started = time.perf_counter()
        await asyncio.gather(*(submit() for _ in range(submitters)))
        seconds = time.perf_counter() - started
        stats = log.appender.stats
        lost = sum(len(request.events) for request in asked) - stats.events
        if lost:
            print(f"{lost} events were refused: {stats}", flush=True)
        return stats.events / seconds, stats.events / stats.batches


def _copy(url: str, name: str, batch: int) -> float:
    """COPY the rows of a log into a table like the log's; return events a second."""
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS copied")
        connection.execute("CREATE TABLE copied (LIKE controlplane.events_1 INCLUDING ALL)")
        rows: list[tuple[Any, ...]] = connection.execute(
            f"SELECT {_COLUMNS.replace('data', 'data::text')} FROM controlplane.events WHERE log = %s ORDER BY position",
            (name,),
        ).fetchall()
        started = time.perf_counter()
        for start in range(0, len(rows), batch):
            with connection.cursor().copy(f"COPY copied ({_COLUMNS}) FROM STDIN") as copy:
                for row in rows[start : start + batch]:
                    copy.write_row(row)
        return len(rows) / (time.perf_counter() - started)
