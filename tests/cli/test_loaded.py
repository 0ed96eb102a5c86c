"""What a command loads: a service that hosts MultiKueue alone starts without the libraries and controllers that it
never needs. Counted, not timed: what is loaded is what a start costs.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from controlplane.local.replica import free_port, variables
from controlplane.log.connect import Database
from controlplane.simulation.world import ClusterSpec, World
from tests.cli.processes import environment
from tests.support.deep import deep_after
from tests.support.waiting import PATIENCE

LIBRARIES = {
    "alembic",
    "hypothesis",
    "jinja2",
    "kubernetes_asyncio",
    "mako",
    "numpy",
    "opentelemetry",
    "pydantic",
    "pytest",
    "sqlalchemy",
    "starlette",
    "uvicorn",
}
CONTROLLERS = {
    f"controlplane.controllers.{name}"
    for name in (
        "candidates.references.controller",
        "candidates.source.controller",
        "coscheduling.controller",
        "coscheduling.feasibility.controller",
        "podgroups.controller",
        "quota.controller",
        "scheduling.framework",
        "scheduling.plugins",
    )
}
ELSEWHERE = {"controlplane.audit.reads", "controlplane.dst", "controlplane.local", "controlplane.simulation"}
PROGRAM = """
import sys, controlplane.__main__ as program
codes = [program.run(arguments.split()) for arguments in sys.argv[1:]]
print(*codes, *sys.modules, file=sys.stderr)
"""
READERS = ("why default/nobody", "workloads", "clusters", "timeline default/nobody", "events")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(ClusterSpec(), {"worker-1": ClusterSpec()}, folder=tmp_path)
    await world.start()
    yield world
    await world.stop()


async def ready(port: int) -> None:
    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)


async def test_a_service_of_multikueue_loads_what_it_needs(world: World, database_url: str, tmp_path: Path) -> None:
    port = free_port()
    database = Database(database_url, "controlplane_service")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, "run"),
        env=variables(database, "main", tmp_path / "management.kubeconfig", port),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        await ready(port)
        process.send_signal(signal.SIGTERM)
        _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    code, *loaded = said.decode().splitlines()[-1].split()
    assert code == "0"
    assert "controlplane.controllers.multikueue.controller" in loaded
    assert set(loaded) & (LIBRARIES | CONTROLLERS | ELSEWHERE) == set()


@pytest.mark.parametrize("commands", [READERS, *deep_after(0, [[one] for one in READERS])], ids=" ".join)
def test_a_reader_of_the_log_loads_no_service(commands: tuple[str, ...], database_url: str) -> None:
    """Of all of them in one process nothing is loaded that none of them needs."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *commands],
        env=environment(database_url=database_url),
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    said = done.stderr.splitlines()[-1].split()
    codes, loaded = said[: len(commands)], said[len(commands) :]
    assert set(codes) <= {"0", "5"}, done.stderr.splitlines()[:-1]
    assert "psycopg" in loaded
    assert set(loaded) & (LIBRARIES | {"aiohttp", "controlplane.app.service", "prometheus_client"}) == set()
