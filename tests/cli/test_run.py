"""`controlplane run`: what keeps it from starting is one sentence and a code; what it runs ends when it is told to."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import psycopg
import pytest

from controlplane.local.replica import LocalReplica, free_port, variables
from controlplane.log.connect import Database
from controlplane.simulation.world import ClusterSpec, World
from tests.cli.conftest import Here
from tests.cli.processes import finished
from tests.support.deep import deep_after
from tests.support.waiting import PATIENCE

Refused = Callable[..., str]


def sentence_of(done: subprocess.CompletedProcess[str], code: int) -> str:
    """Expect the service to have ended with the code and one sentence, and return that."""
    assert done.returncode == code, done.stderr
    sentence = done.stderr.splitlines()[-1]
    assert sentence.startswith("Error: ")
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
    return sentence


@pytest.fixture
def refused(here: Here) -> Refused:
    """Run the service in this process, expect it to end with the code and one sentence, and return that."""
    return lambda code, *arguments, **settings: sentence_of(here("run", *arguments, **settings), code)


@pytest.fixture
def at(database_url: str) -> list[str]:
    return ["--database-url", database_url]


def test_bad_settings(refused: Refused) -> None:
    assert "no database is set" in sentence_of(finished("run"), 3)
    assert "http.port must be" in refused(3, "--database-url", "postgresql://h/d", http_port="x")


def test_a_database_out_of_reach(refused: Refused) -> None:
    said = refused(4, "--database-url", "postgresql://u:hunter2@127.0.0.1:1/d")
    assert "cannot reach the database postgresql://u:***@127.0.0.1:1/d" in said


def test_an_empty_database_is_to_be_migrated(refused: Refused, empty_database_url: str) -> None:
    assert refused(4, "--database-url", empty_database_url).endswith("run `controlplane db upgrade`")


def test_an_older_schema_is_to_be_migrated(refused: Refused, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE controlplane.alembic_version SET version_num = '0001'")
    assert "the schema is at 0001, this version needs" in refused(4, "--database-url", database_url)


def test_a_role_that_is_not_there(refused: Refused, at: list[str]) -> None:
    assert 'database.role: there is no role "nobody-here"' in refused(4, *at, database_role="nobody-here")


def test_a_port_in_use(refused: Refused, at: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(7, *at, http_address="127.0.0.1", http_port=str(port))
    assert f"listens on 127.0.0.1:{port} already" in said


def test_a_certificate_of_the_webhook_that_is_not_there(refused: Refused, at: list[str], tmp_path: Path) -> None:
    wanted = {"run_controllers": "coscheduling", "coscheduling_image": "nop"}
    missing = str(tmp_path / "tls.crt")
    said = refused(3, *at, coscheduling_webhook_certificate=missing, **wanted)
    assert f"coscheduling.webhookCertificate: {missing} cannot be read" in said
    (tmp_path / "tls.crt").write_text("no certificate")
    said = refused(3, *at, coscheduling_webhook_certificate=missing, **wanted)
    assert "both must be PEM and belong together" in said
    assert "coscheduling.image must be set" in refused(3, *at, run_controllers="coscheduling")


def test_no_management_cluster(refused: Refused, at: list[str], tmp_path: Path) -> None:
    local = {"http_address": "127.0.0.1", "http_port": "0"}
    assert "there is no management cluster" in refused(3, *at, **local)
    missing = str(tmp_path / "none")
    said = refused(3, *at, management_kubeconfig=missing, **local)
    assert said.splitlines() == [f"Error: management.kubeconfig: there is no file {missing}"]
    broken = tmp_path / "broken"
    broken.write_text("clusters: [")
    assert f"{broken} cannot be used" in refused(3, *at, management_kubeconfig=str(broken), **local)
    said = refused(3, *at, management_kubeconfig=str(broken), management_context="east", **local)
    assert said.endswith('is "east" (management.context) one of its contexts?')


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(ClusterSpec(), {"worker-1": ClusterSpec()}, folder=tmp_path)
    await world.start()
    yield world
    await world.stop()


@pytest.fixture
async def replica(world: World, database_url: str, tmp_path: Path) -> AsyncIterator[LocalReplica]:
    database = Database(database_url, "controlplane_service")
    environment = variables(database, "main", tmp_path / "management.kubeconfig", free_port())
    replica = LocalReplica(environment, tmp_path / "messages")
    yield replica
    await replica.kill()


async def checks(replica: LocalReplica) -> dict[str, bool]:
    port = port_of(replica)
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/readyz") as answer:
        body = await answer.json()
    return {name: check["ok"] for name, check in body["checks"].items()}


def port_of(replica: LocalReplica) -> int:
    """Return the port that the process says it serves on."""
    lines = [json.loads(line) for line in replica.messages.read_text().splitlines()]
    return int(next(line["port"] for line in lines if line["event"] == "serving"))


def holders(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        query = "SELECT data ->> 'holder' FROM audit.events WHERE type = 'ServiceStarted' ORDER BY position"
        return [holder for (holder,) in connection.execute(query)]


async def led(url: str, times: int) -> list[str]:
    """Wait until the log has had so many leaders, and return them."""
    async with asyncio.timeout(PATIENCE):
        while len(found := holders(url)) < times:
            await asyncio.sleep(0.1)
    return found


def locks(url: str) -> int:
    with psycopg.connect(url) as connection:
        query = (
            "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
            " WHERE l.locktype = 'advisory' AND d.datname = current_database()"
        )
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("number", deep_after(1, [signal.SIGTERM, signal.SIGINT]))
async def test_a_signal_drains(replica: LocalReplica, database_url: str, number: signal.Signals) -> None:
    await replica.start()
    await led(database_url, 1)
    async with asyncio.timeout(PATIENCE):
        while await checks(replica) != dict.fromkeys(("schema", "database", "leader", "caches", "clusters"), True):
            await asyncio.sleep(0.05)
    assert await replica.stop(number) == 0, replica.messages.read_text()
    assert locks(database_url) == 0
    assert "Traceback" not in replica.messages.read_text()


@pytest.mark.deep
async def test_a_killed_one_is_followed_by_the_next(replica: LocalReplica, database_url: str) -> None:
    await replica.start()
    await led(database_url, 1)
    await replica.kill()
    assert not replica.running
    await replica.start()
    await replica.ready(PATIENCE)
    first, second = await led(database_url, 2)
    assert first != second
    assert await replica.stop() == 0


@pytest.mark.deep
async def test_a_second_replica_follows(replica: LocalReplica, world: World, database_url: str, tmp_path: Path) -> None:
    await replica.start()
    await led(database_url, 1)
    database = Database(database_url, "controlplane_service")
    environment = variables(database, "main", tmp_path / "management.kubeconfig", free_port())
    second = LocalReplica(environment, tmp_path / "messages-of-the-second")
    try:
        await second.start()
        await second.ready(PATIENCE)
        assert len(holders(database_url)) == 1
        assert await replica.stop() == 0
        await led(database_url, 2)
        assert await second.stop() == 0
    finally:
        await second.kill()
