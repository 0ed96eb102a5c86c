"""Old events as Parquet files and back: how fast they are archived, verified, dropped and restored, and how large they
are.

The log is filled with what the service really recorded, in as many copies as are wanted, some at a time, and cut into
four partitions. Copies are alike and compress better than life: what was recorded is archived once without them too.
Every stream counts as over when it is dropped: that is the most that can leave."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from benchmarks.fleet import ROLE
from benchmarks.machine import database, show
from benchmarks.recording import bodies_of, codec, record, requests
from controlplane.log.archive.checking import check_archives
from controlplane.log.archive.dropping import drop
from controlplane.log.archive.manifest import archives_of
from controlplane.log.archive.restoring import restore
from controlplane.log.archive.writing import write_archives, write_events
from controlplane.log.connect import Database
from controlplane.log.ended import Ended
from controlplane.log.event import Append
from controlplane.log.postgres import PostgresLog
from controlplane.log.schema import libpq_url
from controlplane.log.stats import stats

_LOG, _PARTITIONS = "bench-archive", 4
_SUBMITTERS, _TOGETHER = 2000, 32
T = TypeVar("T")


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    async with database(args.folder) as url:
        events = await record(url, args)
        asked = _some_at_a_time(
            requests(events, await bodies_of(url, events), args.archived), len(events), args.archived
        )
        total = sum(len(one.events) for one in asked)
        _partitions(url, total // _PARTITIONS)
        async with PostgresLog(Database(url, ROLE), codec(), log=_LOG) as log:
            await log.take_epoch("benchmark")
            ahead = iter(asked)

            async def submit() -> None:
                for request in ahead:
                    await log.append(request)

            await asyncio.gather(*(submit() for _ in range(_SUBMITTERS)))
        del asked
        with tempfile.TemporaryDirectory(dir=args.folder) as folder, owners_connection(url) as connection:
            rows = [_once(connection, Path(folder)), *_measure(connection, Path(folder))]
    show(f"archive: {total:,} events in the log", ["", "events", "seconds", "events/s", "bytes an event"], rows)


def _some_at_a_time(asked: list[Append], events: int, count: int) -> list[Append]:
    """Return requests, of which each has its copies one after the other, so that the first copies end before the next
    begin."""
    copies = -(-count // events)
    groups = [asked[first : first + copies] for first in range(0, len(asked), copies)]
    return [
        one for first in range(0, copies, _TOGETHER) for group in groups for one in group[first : first + _TOGETHER]
    ]


def _once(connection: psycopg.Connection[Any], folder: Path) -> list[object]:
    """Archive what was recorded, as it was."""
    path = folder / "once.parquet"
    row = connection.execute("SELECT position FROM controlplane.log_head WHERE log = 'main'").fetchone()
    assert row is not None
    with connection.transaction():
        write_events(connection, path, "main", 1, row[0])
    return ["events.parquet of what was recorded", row[0], "", "", path.stat().st_size / row[0]]


def _partitions(url: str, size: int) -> None:
    """Let partitions hold so many positions from now on."""
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        connection.execute(
            sql.SQL(
                "CREATE OR REPLACE FUNCTION controlplane.partition_size() RETURNS bigint LANGUAGE sql IMMUTABLE "
                "RETURN {}"
            ).format(sql.Literal(size))
        )
        with connection.transaction():
            connection.execute("ALTER TABLE controlplane.events DETACH PARTITION controlplane.events_1")
            connection.execute(
                sql.SQL(
                    "ALTER TABLE controlplane.events ATTACH PARTITION controlplane.events_1 FOR VALUES FROM "
                    "(MINVALUE) TO ({})"
                ).format(sql.Literal(size + 1))
            )
            connection.execute("UPDATE controlplane.log_head SET room = 0")


def owners_connection(url: str) -> psycopg.Connection[Any]:
    """Return a connection with the owner's rights."""
    return psycopg.connect(libpq_url(url), autocommit=True, client_encoding="utf-8")


def _measure(connection: psycopg.Connection[Any], folder: Path) -> list[list[object]]:
    before = stats(connection, _LOG)
    partitions = [one for one in before.partitions if one.last < before.log.last]
    table = sum(one.bytes for one in partitions) / sum(one.last - one.first + 1 for one in partitions)
    _, wrote = _timed(lambda: list(write_archives(connection, _LOG, folder)))
    archives = archives_of(folder, _LOG)
    count = archives[-1].manifest.last
    size = sum(one.manifest.files["events.parquet"].bytes for one in archives) / count
    whole = sum(entry.bytes for one in archives for entry in one.manifest.files.values()) / count
    _, checked = _timed(lambda: check_archives(archives))
    everything = Ended(count, frozenset({"workload", "job"}), lambda stream: True)
    dropped, took = _timed(lambda: drop(connection, _LOG, folder, everything, read_models=False))
    restored, back = _timed(lambda: restore(connection, _LOG, folder))
    return [
        ["in the table, with its indexes", count, "", "", table],
        ["archived", count, wrote, count / wrote, whole],
        ["  of that events.parquet", count, "", "", size],
        ["verified, without the database", count, checked, count / checked, ""],
        ["dropped, all checks included", dropped.events, took, dropped.events / took, ""],
        ["restored, all checks included", restored.events, back, restored.events / back, ""],
    ]


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    found = call()
    return found, time.perf_counter() - started
