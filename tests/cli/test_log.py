"""`controlplane log rebind`: what it says before it does anything, and what it then says in the log."""

from __future__ import annotations

import asyncio
import json

import psycopg
import pytest
from click.testing import CliRunner

from controlplane.__main__ import run
from controlplane.app import operate
from controlplane.app.hosted import TYPES
from controlplane.cli import cli
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected
from controlplane.controllers.connectivity.local_connection import connectivity_event
from controlplane.log.schema import libpq_url
from tests.audit.script import write


def fails(capsys: pytest.CaptureFixture[str], url: str, *arguments: str) -> tuple[int, str]:
    code = run(["--database-url", url, "log", "rebind", *arguments])
    told = capsys.readouterr()
    assert told.out == ""
    return code, told.err


def bind(url: str, incarnation: str) -> None:
    asyncio.run(write(url, [connectivity_event(MANAGEMENT, ClusterConnected(incarnation=incarnation))], types=TYPES))


def test_a_log_of_no_cluster_cannot_be_moved(capsys: pytest.CaptureFixture[str], database_url: str) -> None:
    code, told = fails(capsys, database_url)
    assert code == 1
    assert "belongs to no cluster yet" in told


def test_a_database_that_takes_no_writes_is_not_waited_for_for_ever(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    bind(database_url, "0f0e")
    monkeypatch.setattr(operate, "_PATIENCE", 0.5)
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=on")
    code, told = fails(capsys, database_url, "--i-know")
    assert code == 4
    assert "took nothing for 0.5 s (cannot execute" in told
    assert "read-only transaction): see that database.url names the primary" in told
    assert len(told.splitlines()) == 1
    monkeypatch.delenv("PGOPTIONS")
    assert CliRunner().invoke(cli, ["--database-url", database_url, "log", "rebind", "--i-know"]).exit_code == 0


def test_it_says_what_it_would_do_and_does_it_once_it_is_told_to(
    capsys: pytest.CaptureFixture[str], database_url: str
) -> None:
    bind(database_url, "0f0e")
    code, told = fails(capsys, database_url)
    assert code == 2
    assert "nothing was done" in told
    assert "0f0e" in told
    done = CliRunner().invoke(
        cli, ["--database-url", database_url, "log", "rebind", "--i-know", "--by", "jane", "-o", "json"]
    )
    assert json.loads(done.stdout) == {"log": "main", "workloads": 0}
    with psycopg.connect(libpq_url(database_url)) as connection:
        found = connection.execute("SELECT stream, data FROM controlplane.events WHERE type = 'LogRebound'").fetchall()
    assert found == [("cluster/@management", {"by": "jane"})]
    code, told = fails(capsys, database_url, "--i-know")
    assert code == 1
    assert "already" in told
    bind(database_url, "0f0e")
    assert fails(capsys, database_url)[0] == 2, "bound again"
