"""How long nobody leads when the leader is killed while many Jobs run: until the follower leads, sees everything, and
places a new Job.

In: a fleet of simulated clusters, a leader in a process of its own, a warm follower in this one. Out: seconds from
SIGKILL, and what the follower asked of the API servers to get there. Unlike `takeover`, the lease and the lists of the
clusters are in it, and the clusters' own time, which share the machine."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from benchmarks.fleet import MANAGEMENT, ROLE, Fleet, fleet, service
from benchmarks.machine import database, show
from controlplane.app.service import Service
from controlplane.settings import Settings
from controlplane.settings.model import Budget, Budgets
from controlplane.web.health import Health

WORKERS = ("east", "north", "west")
_QPS = 100_000
_AT_ONCE = 250  # Jobs that are created together, so that the clusters are not kept from answering


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    async with database(args.folder) as url, fleet(WORKERS, runs_for=86_400.0) as clusters:
        budget = Budget(qps=_QPS, burst=_QPS, concurrency=64)
        settings = Settings(budgets=Budgets(management=budget, worker=budget))
        health, stop = Health(), asyncio.Event()
        async with _leader(url, clusters) as leader:
            await clusters.management.ask("jobs", count=1)
            await _running(clusters, 1)
            replica = service(url, clusters, settings, health)
            follower = asyncio.create_task(replica.run(stop))
            try:
                for first in range(1, args.running, _AT_ONCE):
                    await clusters.management.ask("jobs", count=min(_AT_ONCE, args.running - first), first=first)
                    await _running(clusters, min(first + _AT_ONCE, args.running), every=1.0)
                await asyncio.sleep(3.0)
                for child in (clusters.management, *clusters.workers.values()):
                    await child.ask("reset")
                leader.kill()
                await _measure(clusters, replica, health, args.running)
            finally:
                stop.set()
                await follower


async def _measure(clusters: Fleet, replica: Service, health: Health, running: int) -> None:
    killed, at, cpu = time.perf_counter(), datetime.now(UTC), time.process_time()
    await _until(lambda: _said(health, "leader", "leads"))
    leads = time.perf_counter() - killed
    await _until(lambda: _sees(replica, at))
    ready, cpu = time.perf_counter() - killed, time.process_time() - cpu
    created = time.perf_counter()
    await clusters.management.ask("jobs", count=1, first=running)
    await _until(lambda: _placed(replica, running), every=0.01)
    placed = time.perf_counter() - created
    states = await clusters.states()
    asked = Counter[str]()
    for name, state in states.items():
        for verb, resource, _, count in state["requests"]:
            asked[f"{verb} {resource.partition('.')[0]} on {name if name == MANAGEMENT else 'workers'}"] += count
    rows: list[list[object]] = [
        ["the follower leads", leads],
        ["it has listed every cluster", ready],
        ["from then on: a Job that is created has its copy on a worker", placed],
        ["processor seconds of the follower until it had listed them", cpu],
        ["processor seconds of the simulated clusters, all in all", sum(float(one["cpu"]) for one in states.values())],
    ]
    show(
        f"failover: {running:,} Jobs running on {len(WORKERS)} workers; seconds after SIGKILL",
        ["until", "seconds"],
        rows,
    )
    table: list[list[object]] = [[what, count] for what, count in sorted(asked.items()) if not what.startswith("get")]
    show("requests until then", ["", "requests"], table)


@asynccontextmanager
async def _leader(url: str, clusters: Fleet) -> AsyncIterator[asyncio.subprocess.Process]:
    """Have `controlplane run` in a process of its own."""
    environment = os.environ | {
        "CONTROLPLANE_DATABASE_URL": url,
        "CONTROLPLANE_DATABASE_ROLE": ROLE,
        "CONTROLPLANE_MANAGEMENT_KUBECONFIG": str(clusters.kubeconfig),
        "CONTROLPLANE_HTTP_ADDRESS": "127.0.0.1",
        "CONTROLPLANE_HTTP_PORT": "0",
        "CONTROLPLANE_LOG_LEVEL": "error",
        "CONTROLPLANE_BUDGETS_WORKER_QPS": str(_QPS),
        "CONTROLPLANE_BUDGETS_WORKER_BURST": str(_QPS),
        "CONTROLPLANE_BUDGETS_MANAGEMENT_QPS": str(_QPS),
        "CONTROLPLANE_BUDGETS_MANAGEMENT_BURST": str(_QPS),
    }
    command = (sys.executable, "-m", "controlplane", "run")
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=quiet)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _running(clusters: Fleet, wanted: int, every: float = 0.05) -> None:
    """Wait until each Job has one copy, with its Workload, and nothing else is on the workers."""

    async def there() -> bool:
        states = [await child.ask("state") for child in clusters.workers.values()]
        return sum(int(state["objects"]) for state in states) == 2 * wanted

    await _until(there, every)


async def _until(condition: Callable[[], Awaitable[bool]], every: float = 0.05) -> None:
    for _ in itertools.count():
        if await condition():
            return
        await asyncio.sleep(every)


async def _sees(replica: Service, since: datetime) -> bool:
    """Whether every cluster has been connected anew, which it is when everything that is watched there is listed."""
    connections = replica.fleet.index.connections.values() if replica.fleet is not None else ()
    return len(connections) == 1 + len(WORKERS) and all(
        one.phase == "Connected" and one.since is not None and one.since > since for one in connections
    )


async def _placed(replica: Service, number: int) -> bool:
    """Whether a Job is known to have its copy on the cluster that was chosen for it, as the replica sees it."""
    found = replica.fleet.index.workloads.items() if replica.fleet is not None else ()
    return any(
        f"{number:06}" in stream and state.local is not None and state.remote(state.local.cluster_name).job is not None
        for stream, state in found
    )


async def _said(health: Health, check: str, word: str) -> bool:
    found = health.checks.get(check)
    return found is not None and found.detail.startswith(word)
