"""Texts are in UTF-8, in the database and on the way to it, whatever the environment or a role says."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from controlplane.audit.reads import LogReader
from controlplane.log import schema
from controlplane.log.connect import Database
from tests.log.words import postgres_opener, request, saw
from tests.support import postgres

pytestmark = pytest.mark.skipif(postgres.chosen() == "citus", reason="databases are made otherwise there")
NAME = "größte-Schlange-日本-✓"


@pytest.fixture(params=["LATIN1", "SQL_ASCII"])
def encoded_otherwise(request: pytest.FixtureRequest, postgres_server: postgres.Server) -> Iterator[tuple[str, str]]:
    """The URL of an empty database with another encoding, and the encoding."""
    name, statement = (
        postgres.new_name("encoding"),
        "CREATE DATABASE {} TEMPLATE template0 ENCODING {} LOCALE 'C' LOCALE_PROVIDER libc",
    )
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(name), sql.Literal(request.param)))
    yield postgres_server.url_of(name), request.param
    postgres_server.drop(name)


def test_a_database_with_another_encoding_is_refused_and_left_as_it_is(encoded_otherwise: tuple[str, str]) -> None:
    url, encoding = encoded_otherwise
    for use in (schema.upgrade, schema.check):
        with pytest.raises(schema.SchemaError, match=f"has the encoding {encoding}: Controlplane needs UTF8"):
            use(url)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regnamespace('controlplane')").fetchone() in ((None,), (b"",))


@pytest.mark.parametrize("said", ["LATIN1", "SQL_ASCII"])
async def test_what_the_environment_says_of_encodings_changes_nothing(
    postgres_server: postgres.Server, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    name = postgres.new_name("encoding")
    url = postgres_server.create(name)
    monkeypatch.setenv("PGCLIENTENCODING", said)
    schema.upgrade(url)
    assert schema.check(url) == schema.revisions()[-1]
    async with postgres_opener(url) as opener:
        log = opener()
        await log.take_epoch("one")
        await log.append(request(saw(NAME, 1)))
        assert [one.stream for one in await log.read(0, 10)] == [saw(NAME, 1).stream]
    connection = await Database(url).connect("test")
    assert await (await connection.execute("SHOW client_encoding")).fetchone() == ("UTF8",)
    await connection.close()
    with LogReader.connect(url) as reader:
        assert reader.of(saw(NAME, 1).stream)
    postgres_server.drop(name)
