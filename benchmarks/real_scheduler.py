"""What scheduling costs on a real API server: `controlplane scheduler run` beside kube-scheduler.

In: kube-apiserver, etcd and, to compare, kube-scheduler out of `KUBEBUILDER_ASSETS`. Each scheduler gets an API server
of its own, with the same nodes and the same pods, one after the other. Out: how long it is from the start of the
process to the first binding; for pods at a pace, and all at once, how long each waited; for a backlog of pods that are
spread, how many are bound a second; for all of it processor time of the scheduler and of PostgreSQL, requests out of
the API server's audit log, and commits. Processor time says more than seconds: API server, schedulers and load share
the machine."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import yaml

from benchmarks.api_servers import ApiServers, Asked, api_servers
from benchmarks.costs import COUNTED, Cost, cost_of, cpu
from benchmarks.fleet import ROLE
from benchmarks.machine import database, show
from benchmarks.processes import process
from benchmarks.scheduler_load import AuditTail, Load, waits_of
from controlplane.local.replica import free_port
from tests.simulation.contract import realserver

_NAME, _BENCHMARK = "cluster", "benchmark"
_FLAGS = ("--disable-admission-plugins=TaintNodesByCondition",)  # nobody would take the taint of a new node away
_WARM = 20  # pods before the others, which are not measured
_RESTS = 1.0  # seconds after the last binding, for what follows it
_PROBES = ("/readyz", "/livez", "/version")


class Contender(Protocol):
    """A scheduler that can be started and stopped; `scheduler` is what pods name."""

    name: str
    scheduler: str
    agent: str

    def running(self) -> AbstractAsyncContextManager[int]:
        """Run its process."""

    def cost(self, pid: int) -> Cost:
        """Return what it has used."""


@dataclass(frozen=True, slots=True)
class Start:
    """From the start of a process to its first binding: seconds, processor seconds, and requests by what they are."""

    seconds: float
    processor: float
    requests: Counter[str]


@dataclass(frozen=True, slots=True)
class Measured:
    """One series of pods: how long it took, what it cost for `pods` of them, what the scheduler asked for all, and how
    long each waited."""

    name: str
    pods: int
    seconds: float
    cost: Cost
    requests: Counter[str]
    waits: list[float]


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of one scheduler: its starts, with one pod and with a backlog, and its series."""

    name: str
    starts: list[Start]
    series: list[Measured]


async def run(args: argparse.Namespace) -> None:
    """Measure and print; without an API server it says what is missing."""
    if why := realserver.missing():
        print(f"real-scheduler: left out, since {why}", flush=True)
        return
    results = []
    async with database(args.folder) as url:
        results.append(await _measure(lambda path: Ours(path, url, args.qps), args))
    reference = Path(os.environ["KUBEBUILDER_ASSETS"]) / "kube-scheduler"
    if os.access(reference, os.X_OK):
        results.append(await _measure(lambda path: KubeScheduler(path, reference, args.qps), args))
    else:
        print(f"kube-scheduler is left out, since {reference} is no program", flush=True)
    _print(results, args)


class Ours:
    """`controlplane scheduler run` with its default profile."""

    name, scheduler, agent = "controlplane", "controlplane", "controlplane/"

    def __init__(self, kubeconfig: Path, url: str, qps: int) -> None:
        self._kubeconfig, self._url, self._qps = kubeconfig, url, qps

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        """Run its process."""
        settings = {
            "DATABASE_URL": self._url,
            "DATABASE_ROLE": ROLE,
            "MANAGEMENT_KUBECONFIG": str(self._kubeconfig),
            "HTTP_ADDRESS": "127.0.0.1",
            "HTTP_PORT": str(free_port()),
            "LOG_LEVEL": "error",
        }
        if self._qps:
            settings |= {"BUDGETS_MANAGEMENT_QPS": str(self._qps), "BUDGETS_MANAGEMENT_BURST": str(self._qps)}
        environment = {f"CONTROLPLANE_{name}": value for name, value in settings.items()}
        command = (sys.executable, "-m", "controlplane", "scheduler", "run")
        async with process(lambda: True, *command, **environment) as pid:
            yield pid

    def cost(self, pid: int) -> Cost:
        """Return what it and its database have used."""
        return cost_of(self._url, pid)


class KubeScheduler:
    """kube-scheduler with its defaults, the limit of its requests apart."""

    name, scheduler, agent = "kube-scheduler", "default-scheduler", "kube-scheduler"

    def __init__(self, kubeconfig: Path, program: Path, qps: int) -> None:
        self._program = program
        self._config = kubeconfig.with_name("kube-scheduler.yaml")
        connection = {"kubeconfig": str(kubeconfig)} | ({"qps": qps, "burst": qps} if qps else {})
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection,
        }
        self._config.write_text(yaml.safe_dump(configuration))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        """Run its process."""
        async with process(lambda: True, str(self._program), f"--config={self._config}", "--secure-port=0") as pid:
            yield pid

    def cost(self, pid: int) -> Cost:
        """Return what it has used; it has no database."""
        return Cost(cpu(pid), 0.0, 0, 0, 0, 0)


async def _measure(made: Callable[[Path], Contender], args: argparse.Namespace) -> Result:
    """Measure one scheduler on an API server of its own."""
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(api_servers([_NAME], *_FLAGS, kueue=False))
        contender = made(servers.kubeconfigs[_NAME])
        server = servers.transport(_NAME, _BENCHMARK)
        stack.push_async_callback(server.close)
        bench = Bench(servers, contender, Load(server, contender.scheduler), args)
        print(f"{contender.name}: creating {args.real_nodes:,} nodes", flush=True)
        await bench.load.nodes(args.real_nodes)
        return await bench.measure()


class Bench:
    """One scheduler on one API server, and all that is measured of it."""

    def __init__(self, servers: ApiServers, contender: Contender, load: Load, args: argparse.Namespace) -> None:
        self._servers, self._contender, self.load, self._args = servers, contender, load, args
        self._tail = AuditTail(servers.audit_log(_NAME))

    async def measure(self) -> Result:
        """Start the process, have pods at a pace and all at once, and start it again on a backlog."""
        pods, rate = self._args.real_pods, self._args.real_rate
        await self.load.pods("first", "plain", 1)
        async with self._started("first") as (pid, start, _):
            await self._series("warm", pid, _WARM, 0)
            paced = await self._series("paced", pid, pods, rate)
            burst = await self._series("burst", pid, pods, 0)
        await self.load.pods("backlog", "spread", pods)
        already = self._tail.look()
        async with self._started("backlog") as (pid, again, before):
            left = max(1, already + pods - self._tail.look())
            await self._tail.until(already + pods)
            backlog = await self._ended("backlog", pid, left, before)
        return Result(self._contender.name, [start, again], [paced, burst, backlog])

    @asynccontextmanager
    async def _started(self, series: str) -> AsyncIterator[tuple[int, Start, Cost]]:
        """Run the scheduler; yields once it has bound the first pod of a series: its process, how it started, and what
        was used until then."""
        already, begun = self._tail.look(), time.time()
        async with self._contender.running() as pid:
            await self._tail.until(already + 1)
            used, asked = cpu(pid), self._asked()
            first = min(wait.bound for wait in waits_of(asked, series))
            start = Start(first - begun, used, self._counts(asked, begun, first))
            yield pid, start, self._contender.cost(pid)

    async def _series(self, name: str, pid: int, pods: int, rate: float) -> Measured:
        """Create pods while the scheduler runs, and wait until all of them are bound."""
        already, before = self._tail.look(), self._contender.cost(pid)
        await self.load.pods(name, "plain", pods, rate)
        await self._tail.until(already + pods)
        return await self._ended(name, pid, pods, before)

    async def _ended(self, name: str, pid: int, pods: int, before: Cost) -> Measured:
        """Return what a series of pods that are bound has cost. Statistics of the database come later than they
        count."""
        await asyncio.sleep(_RESTS)
        cost = self._contender.cost(pid)
        if cost.events:
            await asyncio.sleep(COUNTED)
            cost = replace(cost, transactions=self._contender.cost(pid).transactions)
        asked = self._asked()
        waits = waits_of(asked, name)
        begun = min(wait.bound if name == "backlog" else wait.created for wait in waits)
        ended = max(wait.bound for wait in waits)
        requests = self._counts(asked, begun, ended + _RESTS)
        return Measured(name, pods, ended - begun, cost - before, requests, [one.bound - one.created for one in waits])

    def _asked(self) -> list[Asked]:
        return self._servers.asked(0, time.time())

    def _counts(self, asked: Iterable[Asked], since: float, until: float) -> Counter[str]:
        return Counter(
            f"{one.verb} {one.resource}"
            for one in asked
            if one.agent.startswith(self._contender.agent)
            and f"({_BENCHMARK})" not in one.agent
            and since <= one.done <= until
            and one.resource not in _PROBES
        )


# --- what is printed -----------------------------------------------------------------------------------------------


def _print(results: list[Result], args: argparse.Namespace) -> None:
    _print_table(results, args)
    for result in results:
        series = result.series
        names = sorted({name for one in series for name in one.requests})
        rows = [[name, *(one.requests[name] / len(one.waits) for one in series)] for name in names]
        show(f"requests a pod, {result.name}", ["", *(one.name for one in series)], rows)
    verbs = [_by_verb(start.requests) for result in results for start in result.starts[:1]]
    rows = [[verb, *(one[verb] for one in verbs)] for verb in sorted({verb for one in verbs for verb in one})]
    show("requests from the start to the first binding", ["", *(one.name for one in results)], rows)


def _by_verb(requests: Counter[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, count in requests.items():
        found[name.partition(" ")[0]] += count
    return found


def _print_table(results: list[Result], args: argparse.Namespace) -> None:
    rows: list[list[object]] = []
    for place, what in enumerate(("start to first bind", "start on a backlog to first bind")):
        starts = [one.starts[place] for one in results]
        rows.append([f"{what}, s", *(one.seconds for one in starts)])
        rows.append([f"{what}, processor s", *(one.processor for one in starts)])
    names = (f"plain, {args.real_rate:g}/s", "plain, all at once", "spread, backlog")
    for place, name in enumerate(names):
        series = [one.series[place] for one in results]
        rows += [[f"{name}: {what}", *map(figure, series)] for what, figure in _FIGURES.items()]
    title = f"schedulers on {args.real_nodes:,} nodes, {args.real_pods:,} pods in each series"
    show(title, ["", *(one.name for one in results)], rows)


def _quantile(values: Iterable[float], part: float) -> float:
    found = sorted(values)
    return found[min(len(found) - 1, int(part * len(found)))]


_FIGURES: dict[str, Callable[[Measured], float]] = {
    "pods/s": lambda one: len(one.waits) / one.seconds if one.seconds else 0.0,
    "processor ms a pod": lambda one: 1000 * one.cost.service / one.pods,
    "processor ms a pod, PostgreSQL": lambda one: 1000 * one.cost.postgres / one.pods,
    "created to bound, p50, ms": lambda one: 1000 * _quantile(one.waits, 0.5),
    "created to bound, p99, ms": lambda one: 1000 * _quantile(one.waits, 0.99),
    "commits a pod": lambda one: one.cost.batches / one.pods,
    "transactions a pod": lambda one: one.cost.transactions / one.pods,
    "events a pod": lambda one: one.cost.events / one.pods,
}
