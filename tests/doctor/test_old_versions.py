"""Who keeps old versions of the log's head, as a real server has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from controlplane.doctor.old_versions import old_versions
from controlplane.log.connect import Database
from tests.log.words import postgres_opener
from tests.support import postgres
from tests.support.waiting import PATIENCE

BEATS = 40


@pytest.fixture
async def head(database_url: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """A connection of the owner to a database whose log has a head."""
    async with postgres_opener(database_url) as opener:
        await opener("main").take_epoch("one")
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as owner:
        yield owner


async def beat(owner: psycopg.AsyncConnection) -> None:
    for _ in range(BEATS):
        await owner.execute("UPDATE controlplane.log_head SET beat = beat + 1")
    await owner.execute("SELECT pg_stat_force_next_flush()")


async def test_a_transaction_in_another_database_keeps_nothing_here(
    head: psycopg.AsyncConnection, postgres_server: postgres.Server
) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_server.url) as elsewhere:
        await elsewhere.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await elsewhere.execute("SELECT 1 FROM pg_class")
        found = await old_versions(head)
    assert (found.holder, found.seconds) == ("", 0.0)


async def test_a_transaction_that_keeps_them_is_named_to_whom_it_may_be_shown(
    head: psycopg.AsyncConnection, database_url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database_url, application_name="a forgotten one") as forgotten:
        await forgotten.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await forgotten.execute("SELECT 1 FROM controlplane.log_head")
        await beat(head)
        async with asyncio.timeout(PATIENCE):
            while (found := await old_versions(head)).count < BEATS or not found.holder:
                await asyncio.sleep(0.05)
        assert found.holder.endswith(f", process {forgotten.info.backend_pid} (a forgotten one)")
        assert found.seconds > 0
        service = await Database(database_url, "controlplane_service").connect("test")
        seen = await old_versions(service)
        await service.close()
        assert (seen.count, seen.holder) == (found.count, ""), "the number is shown to any login"
