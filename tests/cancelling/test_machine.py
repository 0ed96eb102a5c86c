"""What runs on one machine: the embedded PostgreSQL, the clusters, a replica as a process.

Interrupted anywhere, and again while they end, they leave no process, no lock, no socket and no listener.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controlplane.local.environment import LocalEnvironment
from controlplane.local.folder import DataFolder
from controlplane.local.postgres import EmbeddedPostgres
from controlplane.local.replica import LocalReplica, free_port, variables
from controlplane.log.connect import Database
from tests.support import postgres as support
from tests.support.cancelling import Stage, cancelled_at_every_await
from tests.support.deep import deep_after
from tests.support.waiting import PATIENCE

TIMES = pytest.mark.parametrize("times", deep_after(1, [1, 2]))


def children() -> set[int]:
    """The processes that are ours now; one that has ended and is not waited for yet is none."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.add(int(status.parent.name))
    return found


async def gone_but(before: set[int]) -> bool:
    """Whether no other process is ours than before: one that was killed goes a moment later."""
    deadline = time.monotonic() + PATIENCE
    while children() != before and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    return children() == before


def free(folder: Path) -> bool:
    """Whether nobody holds the folder."""
    lock = folder / "lock"
    if not lock.exists():
        return True
    with lock.open("r+b") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@TIMES
def test_the_embedded_database_is_gone_wherever_it_is_interrupted(times: int) -> None:
    with support.folder() as folder:
        server = EmbeddedPostgres(folder, durable=False)
        server.launch()  # the data is made once
        server.shutdown()

        @asynccontextmanager
        async def scene() -> Stage:
            before = children()

            async def work() -> None:
                async with EmbeddedPostgres(folder, durable=False):
                    pass

            yield work()
            assert await gone_but(before)
            assert free(folder)
            assert not (folder / "socket").exists()
            assert not list(folder.glob("pgdata.new")) + list(folder.glob("*.password"))

        assert cancelled_at_every_await(scene, over_sockets=True, times=times) > 2


@TIMES
def test_a_first_start_that_is_interrupted_leaves_a_folder_that_starts(times: int) -> None:
    with support.folder() as folder:
        before = children()

        @asynccontextmanager
        async def scene() -> Stage:
            yield EmbeddedPostgres(folder, durable=False).start()
            assert await gone_but(before)
            assert free(folder)

        cancelled_at_every_await(scene, over_sockets=True, times=times, most=2)
        server = EmbeddedPostgres(folder, durable=False)
        server.launch()
        server.shutdown()


@TIMES
def test_a_local_fleet_listens_nowhere_wherever_it_is_interrupted(
    times: int, database_url: str, tmp_path: Path
) -> None:
    ports = [free_port(), free_port()]

    @asynccontextmanager
    async def scene() -> Stage:
        before = children()

        async def work() -> None:
            with DataFolder(tmp_path / "data") as folder:
                fleet = folder.fleet({"workers": 1, "management_port": ports[0], "cluster_ports": ports[1]})
                async with LocalEnvironment(folder, fleet, database_url=database_url, durable=False):
                    pass

        yield work()
        assert await gone_but(before)
        assert free(tmp_path / "data")
        for port in ports:
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0

    assert cancelled_at_every_await(scene, over_sockets=True, times=times) > 4


@TIMES
def test_a_replica_is_gone_wherever_it_is_interrupted(times: int, tmp_path: Path) -> None:
    url = "postgresql://u@127.0.0.1:1/d"
    environment = variables(Database(url, "controlplane_service"), "main", tmp_path / "none", free_port())

    @asynccontextmanager
    async def scene() -> Stage:
        before = children()

        async def work() -> None:
            replica = LocalReplica(environment, tmp_path / "messages")
            try:
                await replica.start()
                await replica.stop()
            except BaseException:
                await replica.kill()
                raise

        yield work()
        assert await gone_but(before)

    assert cancelled_at_every_await(scene, over_sockets=True, times=times) > 2
