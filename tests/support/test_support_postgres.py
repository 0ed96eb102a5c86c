"""Which server the suite takes, and that it cleans up after itself."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import psycopg
import pytest

from tests.support import postgres
from tests.support.rows import each

URL = {"CONTROLPLANE_TEST_DATABASE_URL": "postgresql://h/d"}


@each(
    ("env", "docker", "way"),
    [
        ({}, False, "embedded"),
        ({}, True, "docker"),
        (URL, True, "url"),
        ({**URL, "CONTROLPLANE_TEST_PG": "embedded"}, True, "embedded"),
        ({**URL, "CONTROLPLANE_TEST_PG": "docker"}, True, "docker"),
        ({**URL, "CONTROLPLANE_TEST_PG": "auto"}, False, "url"),
        ({"CONTROLPLANE_TEST_PG": ""}, False, "embedded"),
    ],
)
def test_the_first_that_there_is(env: dict[str, str], docker: bool, way: str) -> None:
    assert postgres.choose(env, lambda: docker) == way


@pytest.mark.parametrize(
    ("way", "reason"),
    [("url", "needs CONTROLPLANE_TEST_DATABASE_URL"), ("docker", "no Docker engine"), ("sqlite", "one of")],
)
def test_what_is_forced_and_not_there_is_said(way: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        postgres.choose({"CONTROLPLANE_TEST_PG": way}, lambda: False)


def test_each_test_has_a_migrated_database_of_its_own(database_url: str, empty_database_url: str) -> None:
    tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'controlplane'"
    with psycopg.connect(database_url) as connection:
        assert connection.execute(tables).fetchone() != (0,)
        connection.execute("CREATE TABLE mine ()")
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute(tables).fetchone() == (0,)


def test_a_database_is_dropped_under_open_connections(postgres_server: postgres.Server) -> None:
    url = postgres_server.create(postgres.new_name("busy"))
    connection = psycopg.connect(url, autocommit=True)
    postgres_server.drop(url.rpartition("/")[2].partition("?")[0])
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_only_abandoned_folders_are_swept(tmp_path: Path) -> None:
    folders = {name: tmp_path / f"controlplane-test-{name}" for name in ("old", "young", "held", "other")}
    for name, folder in folders.items():
        (folder / "pg").mkdir(parents=True)
        if name != "other":
            (folder / "pg" / "lock").touch()
        if name != "young":
            long_ago = time.time() - 7200
            os.utime(folder, (long_ago, long_ago))
    with (folders["held"] / "pg" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        postgres.sweep(tmp_path)
    assert {name for name, folder in folders.items() if folder.exists()} == {"young", "held", "other"}
