"""deploy/postgres/roles.sql, on a server of its own: the owner can migrate, the service can append, and nobody can
rewrite history.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import InsufficientPrivilege

from controlplane.local.postgres import EmbeddedPostgres
from controlplane.log import schema
from tests.deploy.manifests import ROOT
from tests.support.rows import each

FILLING = (
    "CREATE TEMP TABLE mine (x int)",
    "SELECT lo_create(0)",
    "SELECT lo_creat(-1)",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT lo_put(1, 0, 'x')",
    "SELECT lo_import('/etc/hostname')",
    "SELECT lo_export(1, '/tmp/x')",
)
TABLES = ("log_head", "streams", "sources", "new_marks", "events", "bodies", "batches", "snapshots")


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


def statements(name: str) -> list[bytes]:
    text = (ROOT / f"deploy/postgres/{name}.sql").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    return [statement.encode() for statement in " ".join(lines).split(";")[:-1]]


def serve(server: EmbeddedPostgres) -> Iterator[str]:
    try:
        url = server.launch()
        with psycopg.connect(at(url, database="postgres"), autocommit=True) as administrator:
            administrator.execute("DROP DATABASE controlplane")
            for statement in statements("roles"):
                administrator.execute(statement)
        with psycopg.connect(at(url, database="controlplane"), autocommit=True) as administrator:
            for statement in statements("rights"):
                administrator.execute(statement)
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


@each("role", ["controlplane_service", "controlplane_reader"])
@each("table", TABLES)
@each("verb", ["INSERT INTO {} DEFAULT VALUES", "DELETE FROM {}", "TRUNCATE {}", "DROP TABLE {}"])
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


RIGHTS = """
SELECT 'schema', nspname::text, nspacl::text FROM pg_namespace WHERE nspname IN ('controlplane', 'audit', 'read_models')
UNION ALL SELECT 'relation', oid::regclass::text, relacl::text FROM pg_class
WHERE relnamespace::regnamespace::text IN ('controlplane', 'audit', 'read_models') AND relkind IN ('r', 'p', 'v')
UNION ALL SELECT 'function', oid::regprocedure::text, proacl::text FROM pg_proc
WHERE pronamespace::regnamespace::text IN ('controlplane', 'audit', 'read_models')"""
LOST = (
    "REVOKE ALL ON SCHEMA controlplane, audit, read_models FROM controlplane_service, controlplane_reader",
    "REVOKE ALL ON ALL TABLES IN SCHEMA controlplane, audit, read_models FROM controlplane_service, controlplane_reader",
    "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA controlplane, audit FROM controlplane_service, controlplane_reader",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA controlplane, audit TO PUBLIC",
)


def rights(url: str) -> dict[tuple[str, str], frozenset[str]]:
    """Return which rights others than the owner have to what, of functions PUBLIC too."""
    with psycopg.connect(url) as connection:
        found = connection.execute(RIGHTS).fetchall()
    return {
        (kind, name): frozenset(
            one for one in (given or "").strip("{}").split(",") if one and not one.startswith("controlplane_owner=")
        )
        for kind, name, given in found
    }


def test_an_upgrade_gives_back_the_rights_that_a_dump_was_restored_without(installed: str) -> None:
    before = rights(installed)
    with psycopg.connect(at(installed, role="controlplane_owner"), autocommit=True) as owner:
        for statement in LOST:
            owner.execute(statement.encode())
    assert rights(installed) != before
    newest = schema.upgrade(at(installed, role="controlplane_owner"))
    assert newest[0] == newest[1]
    assert rights(installed) == before


@each("role", ["controlplane_service", "controlplane_reader"])
@each("statement", FILLING)
def test_nobody_fills_the_disk(installed: str, role: str, statement: str) -> None:
    with psycopg.connect(installed) as connection:
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        with pytest.raises(InsufficientPrivilege):
            connection.execute(statement.encode())


def test_every_function_that_makes_large_objects_is_closed(installed: str) -> None:
    """Where a PostgreSQL has another one, it is named here."""
    with psycopg.connect(installed) as connection:
        rows = connection.execute(
            "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace"
            " AND (proname LIKE 'lo\\_%' OR proname IN ('lowrite', 'loread'))"
            " AND has_function_privilege('controlplane_service', oid, 'EXECUTE') ORDER BY 1"
        ).fetchall()
    harmless = {"lo_close", "lo_get", "lo_lseek", "lo_lseek64", "lo_tell", "lo_tell64", "loread"}
    assert {row[0].partition("(")[0] for row in rows} <= harmless


@pytest.mark.deep
def test_the_owner_migrates_where_nobody_took_the_large_objects_away() -> None:
    with tempfile.TemporaryDirectory(prefix="controlplane-roles-") as folder:
        Path(folder).chmod(0o711)
        server = EmbeddedPostgres(Path(folder) / "server", durable=False)
        try:
            url = server.launch()
            with psycopg.connect(at(url, database="postgres"), autocommit=True) as administrator:
                administrator.execute("CREATE ROLE plain LOGIN CREATEROLE")
                administrator.execute("CREATE DATABASE shared")
                administrator.execute("GRANT CREATE ON DATABASE shared TO plain")
            schema.upgrade(at(url, role="plain", database="shared"))
            assert schema.check(at(url, role="plain", database="shared"))
        finally:
            server.shutdown()


def test_a_stranger_cannot_even_connect(installed: str) -> None:
    with psycopg.connect(installed, autocommit=True) as administrator:
        administrator.execute("CREATE ROLE stranger LOGIN")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(at(installed, role="stranger"))
