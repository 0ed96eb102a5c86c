"""A management cluster and workers as child processes, and the service running against them in this one.

In: the names of the workers, a database, a number of Jobs. Out: how long they took, what they cost, and the log in the
database."""

from __future__ import annotations

import asyncio
import math
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from controlplane.app.ports import ports_of
from controlplane.app.service import Service
from controlplane.clusters.management_access import from_kubeconfig
from controlplane.kube.kinds import Json
from controlplane.log.connect import Database
from controlplane.settings import Settings
from controlplane.settings.model import Budget, Budgets
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

ROLE = "controlplane_service"
MANAGEMENT = "management"
# Long enough that every Workload is admitted before its Job ends, however slow the machine: a shorter path costs fewer
# requests.
RUNS_FOR = 20.0
# How many clusters a MultiKueueConfig lists at most, by Kueue's API.
CLUSTERS_OF_A_CONFIG = 20


class Child:
    """A simulated cluster in another process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def hear(self) -> Json:
        """Return its next answer."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("a simulated cluster has died; it said why above")
        answer: Json = orjson.loads(line)
        return answer

    async def ask(self, do: str, **arguments: object) -> Json:
        """Send a command and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps({"do": do, **arguments}) + b"\n")
        return await self.hear()


@asynccontextmanager
async def _child(name: str, role: str, runs_for: float, configs: int) -> AsyncIterator[Child]:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "benchmarks.cluster", role, name, str(runs_for), str(configs))
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=2**24)
    try:
        yield Child(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


class Fleet:
    """The clusters, and the kubeconfig of the one that manages."""

    def __init__(self, management: Child, workers: dict[str, Child], kubeconfig: Path) -> None:
        self.management, self.workers, self.kubeconfig = management, workers, kubeconfig

    async def states(self) -> dict[str, Json]:
        """Return every cluster's state by name."""
        children = {MANAGEMENT: self.management, **self.workers}
        answers = await asyncio.gather(*(child.ask("state") for child in children.values()))
        return dict(zip(children, answers, strict=True))


@asynccontextmanager
async def fleet(workers: Sequence[str], runs_for: float = RUNS_FOR) -> AsyncIterator[Fleet]:
    """Have a fleet of simulated clusters, set up and with nothing to do. Their Jobs run for `runs_for` seconds. Of more
    clusters than a MultiKueueConfig may list, each of several lists a part, and has a queue of its own.
    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        configs = max(1, math.ceil(len(workers) / CLUSTERS_OF_A_CONFIG))
        management = await stack.enter_async_context(_child(MANAGEMENT, "management", runs_for, configs))
        children = {
            name: await stack.enter_async_context(_child(name, "worker", runs_for, configs)) for name in workers
        }
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(str((await management.hear())["kubeconfig"]))
        ways = {name: (await child.hear())["kubeconfig"] for name, child in children.items()}
        await management.ask("workers", kubeconfigs=ways)
        yield Fleet(management, children, kubeconfig)


@dataclass(frozen=True, slots=True)
class Run:
    """What dispatching some Jobs took: seconds, this process's processor seconds, and the clusters' states at the
    end.
    """

    workloads: int
    seconds: float
    cpu: float
    states: dict[str, Json]


def service(url: str, clusters: Fleet, settings: Settings, health: Health) -> Service:
    """Return a replica of the service for the fleet; it is not running yet."""
    path = str(clusters.kubeconfig)
    return Service(
        settings,
        ports_of(Database(url, ROLE)),
        lambda: from_kubeconfig("@management", path),
        metrics=Metrics(),
        health=health,
    )


async def dispatch(url: str, clusters: Fleet, workloads: int, qps: int) -> Run:
    """Run the service until all Jobs have run and nothing is left on the workers; RuntimeError if they do not get
    there.
    """
    budget = Budget(qps=qps, burst=qps, concurrency=64)
    settings = Settings(budgets=Budgets(management=budget, worker=budget) if qps else Budgets())
    health, stop = Health(), asyncio.Event()
    running = asyncio.create_task(service(url, clusters, settings, health).run(stop))
    try:
        await until_ready(health, running)
        for worker in clusters.workers.values():
            await worker.ask("reset")
        started, cpu = time.perf_counter(), time.process_time()
        await clusters.management.ask("jobs", count=workloads)
        states = await _until_done(clusters, running, workloads)
        return Run(workloads, time.perf_counter() - started, time.process_time() - cpu, states)
    finally:
        stop.set()
        await running


async def until_ready(health: Health, running: asyncio.Task[None]) -> None:
    async with asyncio.timeout(60):
        while not health.ready or health.checks["leader"].detail == "follows":
            await asyncio.sleep(0.05)
            if running.done():
                running.result()


async def _until_done(clusters: Fleet, running: asyncio.Task[None], workloads: int) -> dict[str, Json]:
    before, moved = None, time.perf_counter()
    while True:
        await asyncio.sleep(0.25)
        if running.done():
            running.result()
        states = await clusters.states()
        left = sum(states[name]["objects"] for name in clusters.workers)
        if states[MANAGEMENT]["finished"] == workloads and left == 0:
            return states
        now = [state["requests"] for state in states.values()]
        if now != before:
            before, moved = now, time.perf_counter()
        elif time.perf_counter() - moved > 60:
            raise RuntimeError(
                f"nothing has moved for a minute: {states[MANAGEMENT]['finished']} of {workloads} finished"
            )
