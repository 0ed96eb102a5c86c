"""What dispatching costs between real API servers, and how much of a workload's wait is ours.

In: a management cluster and three workers out of `KUBEBUILDER_ASSETS`, the service in a process of its own, and a
process that plays Kueue's core on each. Out: requests by verb and cluster out of the API servers' audit logs; processor
time of the service and of PostgreSQL; commits; how long it is from a Job's creation to its admission check Ready, and
which part of that is the service's. `KUEUE_REFERENCE` names another program that does the same work, measured after the
service with the same Jobs: Kueue's own controllers as a process of their own."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import yaml

from benchmarks.api_servers import ApiServers, api_servers, missing
from benchmarks.costs import COUNTED, Cost, cost_of
from benchmarks.fleet import ROLE
from benchmarks.kueue_core import CHECK, MANAGEMENT
from benchmarks.machine import database, show
from benchmarks.processes import answers, process
from benchmarks.waits import Waits, counts, waits
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from controlplane.local.replica import free_port

REFERENCE = "KUEUE_REFERENCE"
_PARTS = (0.5, 0.95, 0.99)
_SETTLES = 10.0  # seconds
_PATIENCE = 60.0  # without a finished workload


@dataclass(frozen=True, slots=True)
class Measured:
    """One series of Jobs: how many, how long it took, what it cost and what each waited for."""

    name: str
    workloads: int
    seconds: float
    cost: Cost
    requests: dict[tuple[str, str], dict[str, int]]
    waits: list[Waits]


async def run(args: argparse.Namespace) -> None:
    """Measure and print; without API servers it says what is missing."""
    if why := missing():
        print(f"real: left out, since {why}", flush=True)
        return
    names = (MANAGEMENT, *(f"worker-{number + 1}" for number in range(args.workers)))
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(database(args.folder))
        servers = await stack.enter_async_context(api_servers(names))
        ways = await stack.enter_async_context(_distant(servers, args.latency))
        await _set_up(servers, ways)
        core = await stack.enter_async_context(_core(servers, args.runs_for))
        series = Series(servers, core, url, args)
        measured = []
        async with _service(ways[MANAGEMENT], url, args.qps) as pid:
            measured += await series.both("ours", pid)
            if args.quiet:
                await _print_quiet(series, pid, args.quiet)
        if reference := os.environ.get(REFERENCE):
            async with _reference(ways[MANAGEMENT], reference) as pid:
                measured += await series.both("reference", pid)
    for one in measured:
        _print_requests(one, names)
    _print(measured)


class Series:
    """Series of Jobs, one after the other, each Job with a number of its own."""

    def __init__(self, servers: ApiServers, core: Child, url: str, args: argparse.Namespace) -> None:
        self._servers, self._core, self.url, self._args = servers, core, url, args
        self._next = 0

    async def both(self, who: str, pid: int) -> list[Measured]:
        """Return a paced series and a burst."""
        await self._measure("", pid, self._args.warm, 0)
        found = [await self._measure(f"{who}, {self._args.rate:g}/s", pid, self._args.paced, self._args.rate)]
        if self._args.burst:
            found.append(await self._measure(f"{who}, all at once", pid, self._args.burst, 0))
        return found

    async def _measure(self, name: str, pid: int, count: int, rate: float) -> Measured:
        first, self._next = self._next, self._next + count
        begun, before, clock = time.time(), self.cost(pid), time.perf_counter()
        await self._core.ask("submit", first=first, count=count, rate=rate)
        await self._until_done()
        seconds, cost = time.perf_counter() - clock, self.cost(pid) - before
        asked = self._servers.asked(begun, time.time())
        return Measured(name, count, seconds, cost, counts(asked), waits(asked))

    async def _until_done(self) -> None:
        """Wait until all that was ever submitted has finished and nothing is left on the workers."""
        last: Json = {}
        moved = time.perf_counter()
        while True:
            state = await self._core.ask("state")
            if state == {"finished": self._next, "left": 0}:
                return
            if state != last:
                last, moved = state, time.perf_counter()
            elif time.perf_counter() - moved > _PATIENCE:
                raise RuntimeError(f"nothing has moved for a while: {state}, {self._next} submitted")
            await asyncio.sleep(0.1)

    def cost(self, pid: int) -> Cost:
        """Return what was used up until now."""
        return cost_of(self.url, pid)

    async def quiet(self, pid: int, seconds: float) -> tuple[Cost, dict[str, int]]:
        """Do nothing for a while; return what it cost, and the requests by what they were."""
        await asyncio.sleep(COUNTED)
        begun, before = time.time(), self.cost(pid)
        await asyncio.sleep(seconds)
        cost = self.cost(pid) - before
        asked = counts(self._servers.asked(begun, time.time()))
        return cost, {" ".join(what): sum(by_cluster.values()) for what, by_cluster in sorted(asked.items())}


class Child:
    """The process that plays Kueue's core."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def tell(self, message: Json) -> Json:
        """Send one line and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(orjson.dumps(message) + b"\n")
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process that plays Kueue's core has died; it said why above")
        answer: Json = orjson.loads(line)
        return answer

    async def ask(self, do: str, **arguments: object) -> Json:
        """Send a command and return the answer."""
        return await self.tell({"do": do, **arguments})


@asynccontextmanager
async def _core(servers: ApiServers, runs_for: float) -> AsyncIterator[Child]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.kueue_core", stdin=pipe, stdout=pipe, limit=2**24
    )
    try:
        child = Child(process)
        await child.tell(
            {"kubeconfigs": {name: servers.text(name) for name in servers.kubeconfigs}, "runs_for": runs_for}
        )
        yield child
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


@asynccontextmanager
async def _distant(servers: ApiServers, latency: float) -> AsyncIterator[dict[str, Path]]:
    """Have kubeconfigs by which the clusters are `latency` milliseconds away, there and back."""
    if not latency:
        yield servers.kubeconfigs
        return
    urls = {name: _url(servers.text(name)) for name in servers.kubeconfigs}
    ports = [url.rpartition(":")[2] for url in urls.values()]
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "benchmarks.latency", str(latency / 2), *ports)
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        found = orjson.loads(await process.stdout.readline())
        ways = {}
        for port, (name, url) in zip(found, urls.items(), strict=True):
            ways[name] = servers.kubeconfigs[name].with_name("distant")
            ways[name].write_text(servers.text(name).replace(url, f"https://127.0.0.1:{port}"))
        yield ways
    finally:
        process.stdin.close()
        await process.wait()


def _url(kubeconfig: str) -> str:
    return str(yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]["server"])


async def _set_up(servers: ApiServers, ways: dict[str, Path]) -> None:
    """Create what an administrator creates: each worker's kubeconfig, the configuration and the admission check."""
    home = servers.transport(MANAGEMENT, "benchmark")
    workers = [name for name in servers.kubeconfigs if name != MANAGEMENT]
    await home.create(kinds.NAMESPACES, "", {"metadata": {"name": "kueue-system"}})
    for name in workers:
        secret = {"metadata": {"name": name}, "stringData": {"kubeconfig": ways[name].read_text()}}
        await home.create(kinds.SECRETS, "kueue-system", secret)
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    made = [
        *(
            (
                kinds.MULTIKUEUE_CLUSTERS,
                name,
                {"clusterSource": {"kubeConfig": {"location": name, "locationType": "Secret"}}},
            )
            for name in workers
        ),
        (kinds.MULTIKUEUE_CONFIGS, "all", {"clusters": workers}),
        (kinds.ADMISSION_CHECKS, CHECK, {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}),
    ]
    for kind, name, spec in made:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
        await home.create(kind, "", body)
    await home.close()


@asynccontextmanager
async def _service(kubeconfig: Path, url: str, qps: int) -> AsyncIterator[int]:
    port = free_port()
    settings = {
        "DATABASE_URL": url,
        "DATABASE_ROLE": ROLE,
        "MANAGEMENT_KUBECONFIG": str(kubeconfig),
        "HTTP_ADDRESS": "127.0.0.1",
        "HTTP_PORT": str(port),
        "LOG_LEVEL": "error",
    }
    for cluster in ("WORKER", "MANAGEMENT") if qps else ():
        settings |= {f"BUDGETS_{cluster}_QPS": str(qps), f"BUDGETS_{cluster}_BURST": str(qps)}
    environment = {f"CONTROLPLANE_{name}": value for name, value in settings.items()}
    command = (sys.executable, "-m", "controlplane", "run")
    async with process(lambda: answers(port), *command, **environment) as pid:
        yield pid


@asynccontextmanager
async def _reference(management: Path, program: str) -> AsyncIterator[int]:
    """Have the other program, by the environment that Kueue's external suite gives it."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready"
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(yaml.safe_load(await asyncio.to_thread(management.read_text))))
        environment = {
            "MANAGER_KUBECONFIG": str(kubeconfig),
            "KUEUE_READY_FILE": str(ready),
            "KUEUE_FEATURE_GATES_FILE": str(Path(folder) / "gates"),
            "KUEUE_FEATURE_GATES": "MultiKueue=true",
            "KUEUE_CONFIG_NAMESPACE": "kueue-system",
            "KUEUE_GC_INTERVAL": "60s",
            "KUEUE_WORKER_LOST_TIMEOUT": "15m",
            "KUEUE_EVENTS_BATCH_PERIOD": "1s",
            "KUEUE_ORIGIN": "multikueue",
            "KUEUE_ADAPTERS": "Job.v1.batch",
            "KUEUE_DISPATCHER": "kueue.x-k8s.io/multikueue-dispatcher-all-at-once",
        }
        async with process(ready.exists, program, **environment) as pid:
            await asyncio.sleep(_SETTLES)  # it says that it is ready before it has connected to the workers
            yield pid


# --- what is printed -----------------------------------------------------------------------------------------------


def _print_requests(measured: Measured, names: tuple[str, ...]) -> None:
    rows: list[list[object]] = []
    for (verb, resource), by_cluster in sorted(measured.requests.items()):
        each = [by_cluster.get(name, 0) / measured.workloads for name in names]
        rows.append([f"{verb} {resource}", *each, sum(each)])
    sums = [sum(float(str(row[place])) for row in rows) for place in range(1, len(names) + 2)]
    show(
        f"requests a workload, {measured.name} ({measured.workloads:,} workloads)",
        ["", *names, "sum"],
        [*rows, ["all", *sums]],
    )


def _print(measured: list[Measured]) -> None:
    rows: list[list[object]] = []

    def row(what: str, figure: Callable[[Measured], float]) -> None:
        rows.append([what, *(figure(one) for one in measured)])

    row("workloads", lambda one: one.workloads)
    row("seconds for all", lambda one: one.seconds)
    row("requests a workload", lambda one: sum(sum(t.values()) for t in one.requests.values()) / one.workloads)
    row("processor ms a workload: dispatching", lambda one: 1000 * one.cost.service / one.workloads)
    row("processor ms a workload: PostgreSQL", lambda one: 1000 * one.cost.postgres / one.workloads)
    row("appends a workload", lambda one: one.cost.appends / one.workloads)
    row("events a workload", lambda one: one.cost.events / one.workloads)
    row("transactions of the database a workload", lambda one: one.cost.transactions / one.workloads)
    for name in Waits.NAMES:
        for part in _PARTS:
            row(f"{name}, p{part * 100:.0f}, ms", lambda one, name=name, part=part: _quantile(one, name, part))  # type: ignore[misc]
    show("what it costs, and how long it takes", ["", *(one.name for one in measured)], rows)


def _quantile(measured: Measured, name: str, part: float) -> float:
    values = sorted(1000 * one.of(name) for one in measured.waits)
    return values[min(len(values) - 1, int(part * len(values)))] if values else 0.0


async def _print_quiet(series: Series, pid: int, seconds: float) -> None:
    cost, requests = await series.quiet(pid, seconds)
    rows: list[list[object]] = [
        ["requests, without probes", sum(requests.values())],
        *([f"of them {what}", count] for what, count in requests.items()),
        ["events", cost.events],
        ["appends, heartbeats among them", cost.appends],
        ["transactions of the database", cost.transactions],
        ["processor ms a second: dispatching", 1000 * cost.service / seconds],
        ["processor ms a second: PostgreSQL", 1000 * cost.postgres / seconds],
    ]
    show(f"nothing happens for {seconds:g} s", ["", "figure"], rows)
