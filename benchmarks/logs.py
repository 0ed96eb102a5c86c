"""Several logs at once: what they append together in one PostgreSQL, with a PostgreSQL for each, and distributed by
Citus.

In: real events, as in `log`. Out: events a second of all logs together. Each log has a writer in a process of its own,
as services have; all begin together. Distributed is measured in a database that was distributed before
(`controlplane db distribute`), on a coordinator that `--distributed` names: what it holds stays there, under logs of
new names."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from multiprocessing import get_context

import psycopg
from sqlalchemy.engine import make_url

from benchmarks.fleet import ROLE
from benchmarks.machine import database, show
from benchmarks.recording import bodies_of, codec, record, requests
from controlplane.log.connect import Database
from controlplane.log.event import Append
from controlplane.log.postgres import PostgresLog
from controlplane.log.schema import libpq_url

_PLACES = """
SELECT count(DISTINCT s.nodeport) FROM unnest(%s::text[]) l (log)
JOIN pg_dist_placement p ON p.shardid = get_shard_id_for_distribution_column('controlplane.log_head', l.log)
JOIN pg_dist_node s ON s.groupid = p.groupid"""

_NODE = """
SELECT s.nodename, s.nodeport FROM pg_dist_placement p JOIN pg_dist_node s ON s.groupid = p.groupid
WHERE p.shardid = get_shard_id_for_distribution_column('controlplane.log_head', %s::text)"""


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    rows: list[list[object]] = []
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(database(args.folder)) for _ in range(max(args.logs))]
        events = await record(urls[0], args)
        asked = requests(events, await bodies_of(urls[0], events), args.events)
        for count in args.logs:
            ways = {"one": [urls[0]] * count, "each": urls[:count], "distributed": [args.distributed] * count}
            ways["node"] = ways["distributed"]
            with _writers(count) as pool:
                medians = [
                    statistics.median(_speed(pool, where, way, asked, args) for _ in range(args.repeat))
                    for way, where in ways.items()
                    if where[0]
                ]
            rows.append([count, *medians])
    header = ["logs", "one PostgreSQL, events/s", "a PostgreSQL for each, events/s"]
    if args.distributed:
        header.append(f"distributed over {_most(args.distributed)} nodes, by the coordinator, events/s")
        header.append("by the node that has the log, events/s")
    total = sum(len(request.events) for request in asked)
    show(
        f"logs: {total:,} events in each log, {args.batches[-1]:,} at most in a commit, median of {args.repeat}",
        header,
        rows,
    )


@contextmanager
def _writers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Have so many processes, each with everything imported."""
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        list(pool.map(time.sleep, [1.0] * count))
        yield pool


def _named(count: int, distributed: str) -> list[str]:
    """Return names of logs. Which node has a log follows from its name, so that two may share one: names are taken that
    do not, as long as there are nodes without any."""
    names: list[str] = []
    while len(names) < count:
        name = f"bench-{uuid.uuid4().hex[:8]}"
        spread = _nodes(distributed, [*names, name])
        if not spread or spread[0] > min(len(names), _most(distributed) - 1):
            names.append(name)
    return names


def _nodes(distributed: str, names: Sequence[str]) -> list[int]:
    """Return on how many nodes logs of these names are; nothing if none is distributed."""
    if not distributed:
        return []
    with psycopg.connect(libpq_url(distributed)) as connection:
        row = connection.execute(_PLACES, (list(names),)).fetchone()
    assert row is not None
    return [row[0]]


def _at_its_node(distributed: str, name: str) -> str:
    """Return the URL of the node that has a log."""
    with psycopg.connect(libpq_url(distributed)) as connection:
        host, port = connection.execute(_NODE, (name,)).fetchone() or ("", 0)
    return make_url(distributed).set(host=host, port=port).render_as_string(hide_password=False)


def _most(distributed: str) -> int:
    with psycopg.connect(libpq_url(distributed)) as connection:
        row = connection.execute("SELECT count(*) FROM pg_dist_node WHERE groupid <> 0 AND shouldhaveshards").fetchone()
    assert row is not None
    return int(row[0])


def _speed(
    pool: ProcessPoolExecutor, urls: Sequence[str], way: str, asked: Sequence[Append], args: argparse.Namespace
) -> float:
    """Append all requests to new logs, one at each URL, all at once; return events a second of all together."""
    names = _named(len(urls), args.distributed if way in ("distributed", "node") else "")
    if way == "node":
        urls = [_at_its_node(args.distributed, name) for name in names]
    begin = time.time() + 1.0
    how = {"batch": args.batches[-1], "submitters": args.submitters, "begin": begin}
    done = [pool.submit(_append, url, name, asked, how) for url, name in zip(urls, names, strict=True)]
    ended = [one.result() for one in done]
    return sum(count for count, _ in ended) / (max(at for _, at in ended) - begin)


def _append(url: str, name: str, asked: Sequence[Append], how: Mapping[str, float]) -> tuple[int, float]:
    """Append to one log from `begin` on, in a process of its own; return how many events there were, and when it was
    done."""

    async def work() -> tuple[int, float]:
        async with PostgresLog(Database(url, ROLE), codec(), log=name, max_batch=int(how["batch"])) as log:
            await log.take_epoch("benchmark")
            ahead = iter(asked)

            async def submit() -> None:
                for request in ahead:
                    await log.append(request)

            await asyncio.sleep(max(0.0, how["begin"] - time.time()))
            await asyncio.gather(*(submit() for _ in range(int(how["submitters"]))))
            return log.appender.stats.events, time.time()

    return asyncio.run(work())
