"""Candidate pods on this machine: `python examples/candidates/run.py`.

Simulated clusters (a source, two targets with nodes), an embedded PostgreSQL or the one of `--database-url`, and real
processes: one `controlplane run` for the source, one `controlplane scheduler run` beside each target. It applies the
manifests beside this file, waits until the pods are where they can be, and shows it as kubectl and `controlplane why`
do. Exit code 1 if a pod is bound in more or fewer clusters than one."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from controlplane.clock import SystemClock
from controlplane.controllers.candidates.objects import (
    CANDIDATE_LABEL,
    CANDIDATE_SOURCES,
    CANDIDATE_TARGETS,
    CONFIG_MAPS,
    PODS,
)
from controlplane.kube.kinds import NODES, Json, meta
from controlplane.local.postgres import EmbeddedPostgres
from controlplane.local.replica import free_port
from controlplane.log import schema
from controlplane.simulation.controllers.behaviour import View
from controlplane.simulation.kinds.candidates import CANDIDATE_KINDS
from controlplane.simulation.world import MANAGEMENT, ClusterSpec, SimulatedCluster, World

HERE = Path(__file__).resolve().parent
KINDS = {kind.kind: kind for kind in (CANDIDATE_SOURCES, CANDIDATE_TARGETS, CONFIG_MAPS, PODS)}
TARGETS = ("east", "west")
WITHIN = 60.0


def apply(cluster: SimulatedCluster, manifest: str) -> None:
    """Create what a manifest holds."""
    for obj in yaml.safe_load_all((HERE / manifest).read_text()):
        cluster.store.create(KINDS[obj["kind"]], obj)


def add_nodes(cluster: SimulatedCluster) -> None:
    """Give a target two nodes, each in a zone of its own."""
    for number in (1, 2):
        name, zone = f"{cluster.name}-node-{number}", f"{cluster.name}-{number}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
        room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        cluster.store.create(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {}})
        cluster.store.patch(NODES, "", name, {"status": {"allocatable": room, "capacity": room}}, subresource="status")


@contextlib.asynccontextmanager
async def kubelets(cluster: SimulatedCluster) -> AsyncIterator[None]:
    """Let the nodes of a target start what is bound to them."""
    from controlplane.simulation.controllers.kubelet import Kubelet, Life

    view = View(cluster.store, [PODS, NODES])
    view.start()
    running = asyncio.create_task(Kubelet(f"kubelets of {cluster.name}", view, SystemClock(), Life()).run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        view.stop()


@contextlib.asynccontextmanager
async def process(url: str, folder: Path, cluster: str, *verb: str) -> AsyncIterator[None]:
    """Run one process of ours, its messages in a file."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CONTROLPLANE_")} | {
        "CONTROLPLANE_DATABASE_URL": url,
        "CONTROLPLANE_MANAGEMENT_KUBECONFIG": str(folder / f"{cluster}.kubeconfig"),
        "CONTROLPLANE_HTTP_ADDRESS": "127.0.0.1",
        "CONTROLPLANE_HTTP_PORT": str(free_port()),
        "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]),
    }
    with (folder / f"{cluster}.log").open("wb") as messages:
        started = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "controlplane", *verb, env=environment, stderr=messages, stdout=messages
        )
        try:
            yield
        finally:
            if started.returncode is None:
                started.terminate()
            await started.wait()


async def until(wanted: Callable[[], Any], what: str) -> None:
    """Wait for something; ends the program if it does not come."""
    end = time.monotonic() + WITHIN
    while not wanted():
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not within {WITHIN:g} s")
        await asyncio.sleep(0.1)


def condition(pod: Json) -> Json:
    """Return what a pod says of its placing."""
    found = pod.get("status", {}).get("conditions") or []
    return next((entry for entry in found if entry["type"] == "PodScheduled"), {})


def hint(pod: Json) -> str:
    """Return the cluster in which a source pod's delegate is."""
    return str((meta(pod).get("annotations") or {}).get("candidates.controlplane.dev/cluster", ""))


def table(title: str, heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> None:
    """Print rows as kubectl does."""
    everything = [heads, *rows]
    widths = [max(len(row[column]) for row in everything) for column in range(len(heads))]
    print(f"\n{title}")
    for row in everything:
        print("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def pods_of(cluster: SimulatedCluster, *, delegates: bool) -> list[Json]:
    """Return the pods of a cluster: its own, or those made for candidates."""
    found = [record.obj for record in cluster.store.records(PODS)]
    return [pod for pod in found if (CANDIDATE_LABEL in (meta(pod).get("labels") or {})) == delegates]


def show(world: World) -> int:
    """Print the pods of every cluster; return how many are not bound in exactly one, or are where they cannot be."""
    source = pods_of(world.management, delegates=False)
    table(
        "$ kubectl --context campus get pods",
        ("NAME", "STATUS", "CLUSTER", "MESSAGE"),
        (
            (meta(p)["name"], p["status"]["phase"], hint(p) or "<none>", condition(p).get("message", "")[:100])
            for p in source
        ),
    )
    bound: dict[str, list[str]] = {meta(pod)["name"]: [] for pod in source}
    for name, cluster in world.workers.items():
        delegates = pods_of(cluster, delegates=True)
        table(
            f"$ kubectl --context {name} get pods -o wide",
            ("NAME", "STATUS", "NODE"),
            ((meta(p)["name"], p["status"]["phase"], p["spec"].get("nodeName", "<none>")) for p in delegates),
        )
        for pod in delegates:
            if pod["spec"].get("nodeName"):
                bound[meta(pod)["labels"]["app"]].append(name)
    return sum(len(where) != (0 if name == "huge" else 1) for name, where in bound.items())


async def tell(url: str, *verb: str) -> None:
    """Print what a verb of the command line says."""
    print(f"\n$ controlplane {' '.join(verb)}", flush=True)
    asked = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "controlplane", *verb, "--database-url", url, cwd=HERE.parents[1]
    )
    await asked.wait()


async def example(url: str, folder: Path) -> int:
    """Run everything; return the exit code."""
    from controlplane.simulation.kinds.nodes import NODE_KINDS

    spec = ClusterSpec(kinds=(*NODE_KINDS, *CANDIDATE_KINDS))
    world = World(spec, dict.fromkeys(TARGETS, spec), folder=folder)
    await world.start()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(world.stop)
        for name, cluster in world.workers.items():
            add_nodes(cluster)
            apply(cluster, "target.yaml")
            await stack.enter_async_context(kubelets(cluster))
            verb = ("scheduler", "run", "--log", f"scheduler-{name}")
            await stack.enter_async_context(process(url, folder, name, *verb))
        verb = ("run", "--config", str(HERE / "settings.yaml"))
        await stack.enter_async_context(process(url, folder, MANAGEMENT, *verb))
        apply(world.management, "source.yaml")

        def placed() -> bool:
            pods = {meta(pod)["name"]: pod for pod in pods_of(world.management, delegates=False)}
            running = all(pods[name]["status"]["phase"] == "Running" for name in ("small", "zonal"))
            left = sum(len(pods_of(cluster, delegates=True)) for cluster in world.workers.values())
            # Two delegates, and both clusters' candidates of the pod that fits nowhere.
            return running and bool(condition(pods["huge"])) and left == 2 + len(TARGETS)

        print("source campus, targets east and west; waiting for the pods", flush=True)
        await until(placed, "the pods placed")
        wrong = show(world)
        for name in ("zonal", "huge"):
            await tell(url, "why", f"pod/default/{name}")
        await tell(url, "timeline", "pod/default/small")
        # The same pods by the log of each scheduler: there they are candidates, with names of their own.
        for name, cluster in world.workers.items():
            for pod in pods_of(cluster, delegates=True):
                where = f"pod/default/{meta(pod)['name']}"
                await tell(url, "why", where, "--log", f"scheduler-{name}")
        return 1 if wrong else 0


async def main() -> int:
    """Read the options, and run with a database of our own if none is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--database-url", default="", help="a database with the schema; without it, an embedded PostgreSQL"
    )
    parser.add_argument("--data", type=Path, help="a folder to keep everything in; without it, a temporary one")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="candidates-")))
        folder.mkdir(parents=True, exist_ok=True)
        if not options.data:
            folder.chmod(0o711)  # PostgreSQL refuses root, and then runs as somebody who has to get through
        if options.database_url:
            return await example(options.database_url, folder)
        async with EmbeddedPostgres(folder / "postgres") as postgres:
            await asyncio.to_thread(schema.upgrade, postgres.url)
            return await example(postgres.url, folder)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
