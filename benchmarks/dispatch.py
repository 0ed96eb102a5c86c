"""How many workloads a second the whole service dispatches, and how many requests each costs, by cluster and verb.

The ordinary path alone: Jobs are created on the management cluster, dispatched to the workers, one wins, its Job
runs, its status comes back, everything is cleaned up. The clusters are simulated, in processes of their own: theirs is
the larger part of the work."""

from __future__ import annotations

import argparse
from collections import Counter

import psycopg
from psycopg import sql

from benchmarks.fleet import MANAGEMENT, Run, dispatch, fleet
from benchmarks.machine import database, show
from controlplane.log.schema import libpq_url

WORKERS = ("east", "north", "west")
_SHOWN = 1 + len(WORKERS)  # columns of clusters that a table has at most
# Quoted, not measured here: what the existing controller (Kueue's MultiKueue) was reported to send for one workload.
QUOTED_REQUESTS, QUOTED_GETS = 50, "two thirds"


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    workers = [*WORKERS, *(f"worker-{number + 1}" for number in range(args.clusters - len(WORKERS)))][: args.clusters]
    async with database(args.folder) as url, fleet(workers) as clusters:
        measured = await dispatch(url, clusters, args.workloads, args.qps)
        volume = _volume(url)
    _print_speed(measured)
    _print_requests(measured)
    _print_volume(measured, volume)


def _volume(url: str) -> list[tuple[str, int, int]]:
    """Return the rows and bytes of what was written: columns as they are stored, without the pages around them."""
    found = []
    with psycopg.connect(libpq_url(url)) as connection:
        for table in ("events", "bodies"):
            row = connection.execute(
                sql.SQL("SELECT count(*), coalesce(sum(pg_column_size(t.*)), 0)::bigint FROM controlplane.{} t").format(
                    sql.Identifier(table)
                )
            ).fetchone()
            assert row is not None
            found.append((table, int(row[0]), int(row[1])))
    return found


def _print_volume(measured: Run, volume: list[tuple[str, int, int]]) -> None:
    rows: list[list[object]] = [
        [f"controlplane.{table}", count / measured.workloads, size / measured.workloads]
        for table, count, size in volume
    ]
    show("the log, a workload", ["table", "rows", "bytes"], rows)


def _print_speed(measured: Run) -> None:
    count = measured.workloads
    rows = [
        ["workloads a second", count / measured.seconds],
        ["seconds for all, 20 of them the Jobs' own", measured.seconds],
        ["service: processor ms a workload", 1000 * measured.cpu / count],
        ["workloads a second and core, by that", count / measured.cpu],
    ]
    shown = list(measured.states.items())
    for name, state in shown[:_SHOWN]:
        rows.append([f"simulated {name}: processor ms a workload", 1000 * state["cpu"] / count])
    show(f"dispatch: {count:,} workloads, {len(shown) - 1} workers", ["", "figure"], rows)


def _print_requests(measured: Run) -> None:
    names = list(measured.states)
    table: dict[tuple[str, str], Counter[str]] = {}
    for name, state in measured.states.items():
        for verb, resource, subresource, count in state["requests"]:
            what = resource.partition(".")[0] + (f"/{subresource}" if subresource else "")
            table.setdefault((verb, what), Counter())[name] += count
    rows: list[list[object]] = []
    shown = names[:_SHOWN]
    for (verb, what), counts in sorted(table.items()):
        each = [counts[name] / measured.workloads for name in shown]
        rows.append([f"{verb} {what}", *each, sum(counts.values()) / measured.workloads])
    total = sum(sum(counts.values()) for counts in table.values()) / measured.workloads
    gets = sum(sum(counts.values()) for (verb, _), counts in table.items() if verb == "get")
    rows.append(["all", *(sum(c[n] for c in table.values()) / measured.workloads for n in shown), total])
    show(
        "requests a workload, from the creation of its Job until nothing is left on the workers",
        ["", *shown, "sum of all"],
        rows,
    )
    watches = sum(state["watches"] for state in measured.states.values())
    print(f"GETs in the run: {gets:,} ({gets / measured.workloads:.2f} a workload). Watches opened in it: {watches}.")
    print(
        f"For comparison, quoted and not measured here: the existing controller sends about {QUOTED_REQUESTS} requests "
        f"a workload, {QUOTED_GETS} of them GETs.",
        flush=True,
    )
    assert MANAGEMENT in names
