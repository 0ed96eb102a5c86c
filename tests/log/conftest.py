"""Logs in one database, which ask again at once where an answer is lost; and a log of 75 events, written once for all
tests that begin with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from controlplane.log import insistent_line
from tests.log.archived import written
from tests.log.flights import Open
from tests.log.words import postgres_opener
from tests.support import postgres


@pytest.fixture(scope="session")
def written_template(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    """The name of a database with the log that `written` writes, made once a session."""
    name = postgres.new_name("written")
    asyncio.run(written(postgres_server.create(name, migrated_template)))
    postgres_server.seal(name)
    yield name
    postgres_server.drop(name)


@pytest.fixture
def database_url(
    request: pytest.FixtureRequest, postgres_server: postgres.Server, migrated_template: str
) -> Iterator[str]:
    """The URL of a database of this test's own, with nothing in it but what `written_url` says."""
    name = postgres.new_name("test")
    copied = "written_url" in request.fixturenames and postgres.chosen() != "citus"
    yield postgres_server.create(name, request.getfixturevalue("written_template") if copied else migrated_template)
    postgres_server.drop(name)


@pytest.fixture
async def written_url(database_url: str) -> str:
    """The same URL; the database has the log that `written` writes. On Citus no database is a copy of another one."""
    if postgres.chosen() == "citus":
        await written(database_url)
    return database_url


@pytest.fixture
async def opener(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    monkeypatch.setattr(insistent_line, "AGAIN", 0.0)
    async with postgres_opener(database_url) as open_:
        yield open_
