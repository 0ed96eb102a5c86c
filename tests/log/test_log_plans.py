"""What sessions are set to, and what a server plans for the statements of the service: PostgreSQL compiles a statement
whose estimated cost is above `jit_above_cost`, for seconds, and does so again for each execution."""

from __future__ import annotations

import json

import psycopg
import pytest

from controlplane.audit.reads import LogReader
from controlplane.log import schema
from controlplane.log.connect import Database
from controlplane.log.page import READ
from tests.support import postgres

pytestmark = pytest.mark.skipif(postgres.chosen() == "citus", reason="the plans of one server")

# What PostgreSQL's documentation gives as the default of `jit_above_cost`.
ABOVE = 100_000
EVENTS = 60_000
SEED = f"""
SELECT controlplane.make_room({EVENTS});
INSERT INTO controlplane.log_head (log, position, epoch) VALUES ('main', {EVENTS}, 1);
INSERT INTO controlplane.events (log, position, stream, version, type, schema, data, reason, cluster, recorded_at)
SELECT 'main', n, 'workload/ns/job-' || n % 5000, 1 + n / 5000, 'WorkloadObserved', 1, '{{}}', '', 'a', now()
FROM generate_series(1, {EVENTS}) n;
INSERT INTO controlplane.batches (log, first, last, batch, epoch, recorded_at)
SELECT 'main', n, n + 99, gen_random_uuid(), 1, now() FROM generate_series(1, {EVENTS}, 100) n;
ANALYZE controlplane.events; ANALYZE controlplane.batches; ANALYZE controlplane.log_head"""


SET = {"jit": "off", "default_transaction_isolation": "read committed", "idle_session_timeout": "0"}
OTHERWISE = {"jit": "on", "default_transaction_isolation": "serializable", "idle_session_timeout": "1s"}


@pytest.fixture
def url_with_other_defaults(database_url: str) -> str:
    """The URL of a database that sets for its sessions what ours do not have."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for name, value in OTHERWISE.items():
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET {name} = '{value}'".encode())
    return database_url


async def test_sessions_of_the_service_are_as_its_statements_need_them(url_with_other_defaults: str) -> None:
    connection = await Database(url_with_other_defaults).connect("test")
    try:
        found = {name: await (await connection.execute(f"SHOW {name}".encode())).fetchone() for name in SET}
    finally:
        await connection.close()
    assert found == {name: (value,) for name, value in SET.items()}


def test_sessions_of_commands_and_pages_are_so_too(url_with_other_defaults: str) -> None:
    with LogReader.connect(url_with_other_defaults) as reader:
        found = {name: reader.connection.execute(f"SHOW {name}".encode()).fetchone() for name in SET}
    assert found == {name: (value,) for name, value in SET.items()}


@pytest.mark.parametrize("chosen", ["", "on"])
def test_people_have_no_statement_compiled_unless_they_chose_it(postgres_server: postgres.Server, chosen: str) -> None:
    name = postgres.new_name("jit")
    url = postgres_server.create(name)
    if chosen:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} SET jit = {chosen}".encode())
    schema.upgrade(url)
    with psycopg.connect(url) as connection:
        asked = "SELECT setting, source FROM pg_settings WHERE name = 'jit'"
        assert connection.execute(asked).fetchone() == (chosen or "off", "database")
    postgres_server.drop(name)


def test_a_login_that_does_not_own_the_database_upgrades_it_all_the_same(postgres_server: postgres.Server) -> None:
    name = postgres.new_name("jit")
    url = postgres_server.create(name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN CREATEROLE PASSWORD 'x'".encode())
        connection.execute(f"GRANT CREATE ON DATABASE {name} TO {name}".encode())
    with psycopg.connect(url) as connection:
        connection.execute(f"SET SESSION AUTHORIZATION {name}".encode())
        connection.execute(schema._UNCOMPILED)
        assert connection.info.transaction_status.name == "INTRANS"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())
    postgres_server.drop(name)


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("after", [0, EVENTS - 3, EVENTS])
def test_a_page_of_a_long_log_is_planned_as_one_page(database_url: str, mode: str, after: int) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        for statement in SEED.split(";\n"):
            connection.execute(statement.encode())
        connection.execute(f"SET plan_cache_mode = {mode}".encode())
        values = {"log": "main", "after": after, "limit": 2000}
        statement = psycopg.ClientCursor(connection).mogrify(READ, values)
        if mode == "force_generic_plan":
            numbered = READ.replace("%(log)s", "$1").replace("%(after)s", "$2").replace("%(limit)s", "$3")
            connection.execute(f"PREPARE page (text, bigint, bigint) AS {numbered}".encode())
            statement = f"EXECUTE page ('main', {after}, 2000)"
        row = connection.execute(f"EXPLAIN (FORMAT JSON) {statement}".encode()).fetchone()
    assert row is not None
    plan = row[0] if isinstance(row[0], list) else json.loads(row[0])
    assert plan[0]["Plan"]["Total Cost"] < ABOVE / 5, plan
