"""Who may do what: people read the views and nothing else; the service appends through one function and changes
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from controlplane.audit.reads import READ
from controlplane.controllers.candidates.source.events import CandidateRequested
from controlplane.controllers.candidates.source.observations import CandidateReserved
from controlplane.controllers.connectivity.events import PolicyInForce
from controlplane.controllers.quota.admission.events import QuotaPosted
from controlplane.controllers.quota.admission.reasons import AdmissionReason
from controlplane.log import schema
from controlplane.log.event import NewEvent
from tests.audit.database import VIEWS
from tests.audit.samples import sample
from tests.audit.script import Script, write
from tests.support import postgres
from tests.support.rows import each

READER, SERVICE = "controlplane_reader", "controlplane_service"
TABLES = ("events", "streams", "sources", "new_marks", "log_head", "bodies", "batches", "snapshots", "archives")
INSERT = (
    "INSERT INTO controlplane.events (log, position, stream, version, type, schema, data, recorded_at)"
    " VALUES ('main', 1000, 's', 1, 'T', 1, '{}', now())"
)
APPEND = (
    "SELECT * FROM controlplane.append_events('main', %s, %s::uuid, NULL, gen_random_uuid(), ARRAY[0], ARRAY['s'], "
    "ARRAY[''], ARRAY[0::bigint], ARRAY['T'], ARRAY[1], ARRAY['{}'], ARRAY[''], ARRAY[''], ARRAY[0::bigint], "
    "ARRAY[''], ARRAY[now()], ARRAY[]::int[], ARRAY[]::text[], ARRAY[]::bigint[], ARRAY[]::bytea[], ARRAY[]::text[])"
)

APPEND_BATCH = (
    "SELECT * FROM controlplane.append_batch('main', %s, %s::uuid, NULL, gen_random_uuid(), %s, ARRAY['s'], "
    "ARRAY[1::bigint], ARRAY['T'], ARRAY[1], ARRAY['{}'], ARRAY[''], ARRAY[''], ARRAY[0::bigint], ARRAY[''], "
    "ARRAY[now()], ARRAY[]::text[], ARRAY[]::bigint[], ARRAY[]::text[], ARRAY[]::text[], ARRAY[]::bytea[], "
    "ARRAY[]::text[])"
)
NONCE = "3f0c1a56-4c31-4c5c-9f3e-6a1d5b8e7a01"


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    """A log that nobody may change."""
    name = postgres.new_name("rights")
    url = postgres_server.create(name, migrated_template)
    asyncio.run(fill(url))
    yield url
    postgres_server.drop(name)


@pytest.fixture
async def own_url(database_url: str) -> str:
    """The same, of a test's own."""
    await fill(database_url)
    return database_url


@pytest.fixture(scope="module")
def upgraded_url(postgres_server: postgres.Server) -> Iterator[str]:
    """A database that was migrated itself: the rights on a database are not copied from a template."""
    name = postgres.new_name("upgraded")
    url = postgres_server.create(name)
    schema.upgrade(url)
    yield url
    postgres_server.drop(name)


async def fill(database_url: str) -> None:
    script = Script("a")
    script.workload("w-0a1b2").runs("a")
    script.lose("a").put(NewEvent(stream="service", event=sample(PolicyInForce)))
    said = [
        NewEvent(stream="sourcepod/default/web", event=sample(kind), cluster="a")
        for kind in (CandidateRequested, CandidateReserved)
    ]
    amounts = {"default": {"cpu": 1000}}
    entry = QuotaPosted(reason=AdmissionReason.OBSERVED_RESERVATION, cluster_queue="q", amounts=amounts)
    said.append(NewEvent(stream="admission/workload/default/w", event=entry))
    await write(database_url, [*script.appended, *said], types=READ)
    with psycopg.connect(schema.libpq_url(database_url)) as owner:
        owner.execute(
            "INSERT INTO controlplane.archives (log, first, last, since, until, directory, hash)"
            " VALUES ('main', 1, 2, now(), now(), '/archives', '')"
        )


def attempt(url: str, role: str, statement: str, *parameters: Any) -> list[Any]:
    with psycopg.connect(url) as connection:
        connection.execute(f"SET ROLE {role}".encode())
        cursor = connection.execute(statement.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []


@each("view", VIEWS)
@each("role", [READER, SERVICE])
def test_the_views_can_be_read(url: str, role: str, view: str) -> None:
    assert attempt(url, role, f"SELECT * FROM audit.{view}")


@each("table", TABLES)
def test_a_reader_cannot_read_the_tables(url: str, table: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        attempt(url, READER, f"SELECT * FROM controlplane.{table}")


@each(
    "statement",
    [
        INSERT,
        "UPDATE controlplane.events SET reason = ''",
        "DELETE FROM controlplane.events",
        "UPDATE audit.events SET reason = ''",
        "UPDATE audit.streams SET stream = ''",
        "DELETE FROM audit.streams",
        "INSERT INTO audit.streams (log, stream) VALUES ('main', 's')",
        "SELECT controlplane.take_epoch('main', 'me')",
        "CREATE VIEW audit.mine AS SELECT 1",
        "CREATE TABLE controlplane.mine ()",
        "TRUNCATE controlplane.events",
    ],
)
def test_a_reader_cannot_write_anything(url: str, statement: str) -> None:
    # A view over a join is no table to write to, whoever asks.
    with pytest.raises((errors.InsufficientPrivilege, errors.ObjectNotInPrerequisiteState)):
        attempt(url, READER, statement)


@each("role", [READER, SERVICE])
@each("statement", ["CREATE TEMP TABLE mine (x int)", "SELECT lo_create(0)", "SELECT lo_from_bytea(0, 'x')"])
def test_nobody_keeps_anything_else_in_the_database(upgraded_url: str, role: str, statement: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        attempt(upgraded_url, role, statement)


def test_a_reader_has_select_and_nothing_else(url: str) -> None:
    rows = attempt(
        url,
        READER,
        "SELECT table_schema, privilege_type FROM information_schema.role_table_grants WHERE grantee = %s",
        READER,
    )
    assert set(rows) == {("audit", "SELECT")}
    assert len(rows) == len(VIEWS)


def test_a_reader_cannot_append(url: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        attempt(url, READER, APPEND, 1, NONCE)


@each(
    "statement",
    [
        INSERT,
        "UPDATE controlplane.events SET reason = 'nothing happened'",
        "DELETE FROM controlplane.events",
        "TRUNCATE controlplane.events",
        "UPDATE controlplane.log_head SET epoch = 0",
        "DELETE FROM controlplane.streams",
        "INSERT INTO controlplane.bodies VALUES ('', '{}', now())",
    ],
)
def test_the_service_cannot_change_the_history(url: str, statement: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        attempt(url, SERVICE, statement)


def test_the_service_appends_after_the_end_with_its_epoch_and_no_other(own_url: str) -> None:
    ((first, end),) = attempt(own_url, SERVICE, "SELECT nonce, position FROM controlplane.log_head WHERE log = 'main'")
    assert attempt(own_url, SERVICE, APPEND_BATCH, 1, first, end - 1)[0][0] == "moved"
    assert attempt(own_url, SERVICE, APPEND_BATCH, 1, first, end)[0][0] == "new"
    attempt(own_url, SERVICE, "SELECT * FROM controlplane.take_epoch('main', 'another', %s::uuid, NULL)", NONCE)
    for stale in ((1, first), (2, first), (1, NONCE)):
        with pytest.raises(psycopg.Error) as refused:
            attempt(own_url, SERVICE, APPEND_BATCH, *stale, end + 1)
        assert refused.value.sqlstate == "CP001"
    with pytest.raises(errors.UniqueViolation):  # a version that the stream has
        attempt(own_url, SERVICE, APPEND_BATCH, 2, NONCE, end + 1)


@pytest.mark.parametrize("function", ["append_events", "append"])
def test_the_service_appends_with_its_epoch_and_no_other(own_url: str, function: str) -> None:
    """Also as the version before it does."""
    append = APPEND.replace("append_events", function)
    ((first,),) = attempt(own_url, SERVICE, "SELECT nonce FROM controlplane.log_head WHERE log = 'main'")
    assert [row[:2] for row in attempt(own_url, SERVICE, append, 1, first)] == [(0, "new")]
    ((_, epoch),) = attempt(
        own_url, SERVICE, "SELECT * FROM controlplane.take_epoch('main', 'another', %s::uuid, NULL)", NONCE
    )
    assert epoch == 2
    for stale in ((1, first), (2, first), (1, NONCE)):
        with pytest.raises(psycopg.Error) as refused:
            attempt(own_url, SERVICE, append, *stale)
        assert refused.value.sqlstate == "CP001"
    assert [row[:2] for row in attempt(own_url, SERVICE, append, 2, NONCE)] == [(0, "new")]


@each("role", [READER, SERVICE])
@each(
    "call",
    [
        "audit.as_of('main', now())",
        "audit.fleet_at('main', now())",
        "audit.causes('main', 1)",
        "audit.position_at('main', now())",
        "audit.quantity('1')",
    ],
)
def test_the_functions_can_be_called(url: str, role: str, call: str) -> None:
    assert attempt(url, role, f"SELECT * FROM {call}")


def test_nobody_else_can_call_the_functions(url: str) -> None:
    rows = attempt(
        url,
        SERVICE,
        "SELECT proname::text FROM pg_proc WHERE pronamespace = 'audit'::regnamespace AND "
        "has_function_privilege('public', oid, 'EXECUTE')",
    )
    assert rows == []
