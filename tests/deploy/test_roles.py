"""deploy/postgres/roles.sql, on a server of its own: the owner can migrate, the service can append, and nobody can rewrite history."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import InsufficientPrivilege

from controlplane.embedded import EmbeddedPostgres
from controlplane.log import schema
from tests.deploy.manifests import ROOT

TABLES = ("log_head", "streams", "sources", "events", "bodies", "batches")


def at(url: str, *, role: str = "", database: str = "") -> str:
    """Return the URL with another user or database; the server trusts everybody on its socket."""
    parts = urlsplit(url)
    place = f"{role or parts.username}@"
    return urlunsplit(parts._replace(netloc=place, path=f"/{database or parts.path[1:]}"))


@pytest.fixture(scope="module")
def installed() -> Iterator[str]:
    """A server on which an administrator ran roles.sql and the owner migrated; yields the URL of the database."""
    with tempfile.TemporaryDirectory(prefix="controlplane-roles-") as folder:
        Path(folder).chmod(0o711)  # as root, the server runs as another user, who has to pass through
        server = EmbeddedPostgres(Path(folder) / "server", durable=False)
        yield from serve(server)


def serve(server: EmbeddedPostgres) -> Iterator[str]:
    try:
        url = server.launch()
        with psycopg.connect(at(url, database="postgres"), autocommit=True) as administrator:
            administrator.execute("DROP DATABASE controlplane")
            text = (ROOT / "deploy/postgres/roles.sql").read_text()
            lines = [line for line in text.splitlines() if not line.startswith("--")]
            for statement in " ".join(lines).split(";")[:-1]:
                administrator.execute(statement.encode())
        schema.upgrade(at(url, role="controlplane_owner", database="controlplane"))
        yield at(url, database="controlplane")
    finally:
        server.shutdown()


def test_the_service_reads_and_takes_an_epoch(installed: str) -> None:
    service = at(installed, role="controlplane_service")
    assert schema.check(service)
    with psycopg.connect(service) as connection:
        assert connection.execute("SELECT log_epoch FROM controlplane.take_epoch('main', 'test')").fetchone() == (1,)
        for table in TABLES:
            connection.execute(sql.SQL("SELECT * FROM controlplane.{}").format(sql.Identifier(table)))


@pytest.mark.parametrize("role", ["controlplane_service", "controlplane_reader"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("verb", ["INSERT INTO {} DEFAULT VALUES", "DELETE FROM {}", "TRUNCATE {}", "DROP TABLE {}"])
def test_nobody_but_the_owner_writes(installed: str, role: str, table: str, verb: str) -> None:
    with psycopg.connect(installed) as connection:
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        with pytest.raises(InsufficientPrivilege):
            connection.execute(sql.SQL(verb).format(sql.Identifier("controlplane", table)))


def test_the_service_changes_no_event_and_no_schema(installed: str) -> None:
    for statement in (
        "UPDATE controlplane.events SET reason = 'nothing happened'",
        "UPDATE controlplane.log_head SET epoch = 0",
        "CREATE TABLE controlplane.mine (x int)",
        "CREATE SCHEMA mine",
    ):
        with (
            psycopg.connect(at(installed, role="controlplane_service")) as connection,
            pytest.raises(InsufficientPrivilege),
        ):
            connection.execute(statement.encode())


def test_a_stranger_cannot_even_connect(installed: str) -> None:
    with psycopg.connect(installed, autocommit=True) as administrator:
        administrator.execute("CREATE ROLE stranger LOGIN")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(at(installed, role="stranger"))
