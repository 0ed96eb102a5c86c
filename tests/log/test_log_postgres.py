"""What only PostgreSQL can get wrong: rights, a lost reply, a server that goes away, plans, and the schema's own
sentences.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import structlog
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from controlplane.local.postgres import EmbeddedPostgres
from controlplane.log import arrays, schema
from controlplane.log.appender import _APPEND
from controlplane.log.batch import Batch, encoded
from controlplane.log.codec import Codec
from controlplane.log.connect import Database, RoleMissing, unacceptable
from controlplane.log.event import Event, Fenced, LogError, LogUnavailable, NewEvent, body_of
from controlplane.log.postgres import PostgresLog
from controlplane.log.tables import metadata
from controlplane.log.writer_cache import WriterCache
from tests.log.words import ROLE, TYPES, everything, request, saw, until
from tests.support import postgres
from tests.support.rows import each
from tests.support.waiting import PATIENCE


def log_of(url: str, **more: object) -> PostgresLog:
    return PostgresLog(Database(url, ROLE), Codec(TYPES), **more)  # type: ignore[arg-type]


async def test_the_tables_are_those_of_the_migrations(database_url: str) -> None:
    # A user called like our schema would make it the default one, which Alembic does not name.
    engine = create_engine(schema.sqlalchemy_url(database_url), connect_args={"options": "-c search_path=public"})
    with engine.connect() as connection:
        options = {
            "include_schemas": True,
            "include_name": lambda name, kind, _: kind != "schema" or name == schema.SCHEMA,
            "version_table_schema": schema.SCHEMA,
            "include_object": lambda _, name, kind, reflected, compared: (
                kind != "index" and not (kind == "table" and re.fullmatch(r"events_\d+", name))
            ),
        }
        context = MigrationContext.configure(connection, opts=options)
        found = [
            change
            for change in compare_metadata(context, metadata)
            if change[0] not in ("remove_constraint", "add_constraint")
        ]
    engine.dispose()
    assert found == []


async def test_a_batch_that_is_sent_twice_is_in_once(database_url: str) -> None:
    """The reply of a commit was lost: the same batch comes again under its id, and finds itself."""
    async with log_of(database_url) as log:
        head = await log.take_epoch("one")
        cache = WriterCache()
        cache.answered(0, {"a": 0, "b": 0}, {}, merged=True)
        asked = encoded(request(saw("a", 1), saw("b", 2)), Codec(TYPES))
        batch, other = Batch(cache), Batch(cache)
        batch.add(asked)
        other.add(asked)
        async with await Database(database_url, ROLE).connect("test") as connection:
            arrays.register(connection.adapters)
            sent = (log.name, head.epoch, log.appender.nonce, None, batch.id, *batch.parameters)
            first = await (await connection.execute(_APPEND, sent, binary=True)).fetchone()
            again = await (await connection.execute(_APPEND, sent, binary=True)).fetchone()
            sent = (log.name, head.epoch, log.appender.nonce, None, other.id, *other.parameters)
            late = await (await connection.execute(_APPEND, sent, binary=True)).fetchone()
        assert first is not None
        assert again is not None
        assert late is not None
        assert (first[0], again, late[0]) == ("new", ("known", first[1]), "moved")
        assert len(await everything(log)) == 2


async def test_a_role_that_is_missing_says_nothing_of_what_is_appended(database_url: str) -> None:
    """A database was restored without its roles: what was to be appended waits for them."""
    with pytest.raises(RoleMissing, match="no_such_role") as said:
        await Database(database_url, "no_such_role").connect("test")
    assert not unacceptable(said.value)


async def last_asked(url: str, otherwise: int | None = None) -> int:
    """Return when the log's reader asked last, in microseconds, as the server knows it; `otherwise` if it never did."""
    async with await psycopg.AsyncConnection.connect(schema.libpq_url(url), autocommit=True) as other:
        query = "SELECT query_start FROM pg_stat_activity WHERE application_name = 'controlplane reader'"
        rows = await (await other.execute(query)).fetchall()
    if not rows and otherwise is not None:
        return otherwise
    assert len(rows) == 1
    return int(rows[0][0].timestamp() * 1e6)


async def test_the_end_of_the_log_is_not_asked_for_twice(database_url: str) -> None:
    async with log_of(database_url) as log, log_of(database_url) as other:
        await other.take_epoch("one")
        await log.wait(0, 0.0)
        await until(lambda: log._rung.is_set())  # it listens
        await other.append(request(saw("a", 1), saw("a", 2)))
        async with asyncio.timeout(PATIENCE):
            while log._heard < 2:  # both the listening and the append
                await log.wait(0, PATIENCE)
        assert len(await log.read(0, 1)) == 1  # a full page: there may be more
        assert len(await log.read(1)) == 1
        asked = await last_asked(database_url)
        assert await log.read(2) == []
        assert await last_asked(database_url) == asked
        assert await log.read(2) == []  # asked again without having waited: that is a question
        assert await last_asked(database_url) != asked


async def test_a_look_at_the_head_spares_the_poll(database_url: str) -> None:
    async with log_of(database_url) as log:
        await log.take_epoch("one")
        await log.append(request(saw("a", 1)))
        assert len(await log.read(0)) == 1
        for looks, asks in ((True, False), (False, True)):
            waiting = asyncio.create_task(log.wait(1, 0.2))
            await asyncio.sleep(0.05)
            if looks:
                await log.renew()
            await waiting
            asked = await last_asked(database_url, otherwise=0)
            assert await log.read(1) == []
            assert (await last_asked(database_url, otherwise=0) != asked) is asks


@pytest.mark.parametrize("by", ["a heartbeat", "an append"])
async def test_the_holder_hears_of_others_by_what_it_says_itself(database_url: str, by: str) -> None:
    """Nobody wakes it for its own appends, and it misses nobody's."""
    async with log_of(database_url) as log, log_of(database_url) as other:
        await log.take_epoch("one")
        await log.wait(0, 0.0)
        await log.append(request(saw("a", 1)))
        await log.wait(0, PATIENCE)
        found = [*await log.read(0), *await log.read(1)]
        assert log._listener is None
        await other.assist()
        await other.append(request(saw("b", 2)))
        waiting = asyncio.create_task(log.wait(1, PATIENCE))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await (log.renew() if by == "a heartbeat" else log.append(request(saw("a", 3))))
        await waiting
        found += await everything(log, after=1)
        assert [one.stream for one in found] == (["a", "b"] if by == "a heartbeat" else ["a", "b", "a"])


async def test_who_lost_the_log_hears_of_the_one_who_took_it(database_url: str) -> None:
    async with log_of(database_url) as log, log_of(database_url) as other:
        await log.take_epoch("one")
        await log.append(request(saw("a", 1)))
        await log.wait(0, 0.0)
        assert len(await log.read(0)) == 1
        await other.take_epoch("other")
        await other.append(request(saw("b", 1)))
        with pytest.raises(Fenced):
            await log.renew()
        await log.wait(1, PATIENCE)
        assert [one.stream for one in await log.read(1)] == ["b"]
        await log.wait(2, 0.0)
        await until(lambda: log._rung.is_set())  # it listens
        assert await log.read(2) == []
        waiting = asyncio.create_task(log.wait(2, PATIENCE))
        await other.append(request(saw("b", 2)))
        await waiting


async def test_killed_connections_are_made_anew(database_url: str) -> None:
    async with log_of(database_url) as log:
        await log.take_epoch("one")
        await log.append(request(saw("a", 1)))
        waiting = asyncio.create_task(log.wait(1, 10))
        await asyncio.sleep(0.05)
        async with await psycopg.AsyncConnection.connect(schema.libpq_url(database_url), autocommit=True) as other:
            await other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert await log.append(request(saw("a", 2))) == 1
        assert len(await everything(log)) == 2
        await waiting


@pytest.fixture
def own_folder() -> Iterator[Path]:
    """Not one of pytest's: another run of it closes them to the user that the server runs as."""
    with postgres.folder() as folder:
        yield folder


async def test_appends_wait_for_a_server_that_restarts(own_folder: Path) -> None:
    states: list[bool] = []
    server = EmbeddedPostgres(own_folder, durable=False)
    url = await server.start()
    try:
        await asyncio.to_thread(schema.upgrade, url)
        async with log_of(url, on_state=lambda ok, detail: states.append(ok)) as log:
            await log.take_epoch("one")
            await log.append(request(saw("a", 1)))
            await server.stop()
            assert len(await log.read(0)) == 1  # committed by this process
            with pytest.raises(LogUnavailable):
                await log.read(1)
            appending = [asyncio.create_task(log.append(request(saw("a", n)))) for n in range(2, 12)]
            await until(lambda: False in states)
            assert not any(task.done() for task in appending)
            assert await server.start() == url
            assert sum(await asyncio.gather(*appending)) == 10
            assert [found.position for found in await everything(log)] == list(range(1, 12))
            assert states[-1] is True
    finally:
        await server.stop()


async def test_appending_reads_by_index_even_when_the_tables_grew_after_the_plan_was_made(database_url: str) -> None:
    async with log_of(database_url) as log:
        await log.take_epoch("one")
        for start in range(0, 3000, 500):
            await log.append(request(*[saw(f"s{n}", n, source=f"o{n}", mark=1) for n in range(start, start + 500)]))
        async with await psycopg.AsyncConnection.connect(schema.libpq_url(database_url), autocommit=True) as other:
            await other.execute("SELECT pg_stat_force_next_flush()")

            async def scans() -> int:
                rows = await other.execute(
                    "SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables WHERE relname IN ('streams', "
                    "'sources')"
                )
                found = await rows.fetchone()
                assert found is not None
                return int(found[0])

            before = await scans()
            for n in range(20):
                await log.append(request(saw(f"s{n}", n, source=f"o{n}", mark=2)))
            await asyncio.sleep(1.1)  # statistics are sent at most once a second
            await log.append(request(saw("s0", 1)))
            assert await scans() - before < 3000


async def test_bodies_are_stored_once(database_url: str) -> None:
    async with log_of(database_url) as log:
        await log.take_epoch("one")
        body = body_of({"spec": {"é": 1}})
        for n in range(3):
            await log.append(request(saw("a", n, bodies=(body,))))
        assert await log.bodies([body.ref, "00" * 32]) == {body.ref: body.text.encode()}


def test_a_schema_is_upgraded_once_whoever_asks(empty_database_url: str) -> None:
    with pytest.raises(schema.SchemaError, match="is not there yet: run `controlplane db upgrade`"):
        schema.check(empty_database_url)
    before, after = schema.upgrade(empty_database_url)
    assert (before, bool(after)) == ("", True)
    assert schema.upgrade(empty_database_url) == (after, after)
    assert schema.check(empty_database_url) == after


def test_a_newer_schema_is_refused(empty_database_url: str) -> None:
    schema.upgrade(empty_database_url)
    with psycopg.connect(schema.libpq_url(empty_database_url), autocommit=True) as connection:
        connection.execute("UPDATE controlplane.alembic_version SET version_num = '9999'")
    for asked in (schema.check, schema.upgrade):
        with pytest.raises(schema.SchemaError, match="the schema 9999 is newer than this version knows"):
            asked(empty_database_url)


def test_the_revisions_are_those_that_alembic_finds() -> None:
    """The service reads them itself, since loading Alembic takes longer than all the rest of a start."""
    found = ScriptDirectory(str(schema.migrations())).walk_revisions()
    assert schema.revisions() == [script.revision for script in reversed(list(found))]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://u:geheim@127.0.0.1:1/x", "cannot reach the database"),
        ("postgresql://u:geheim@h:port/x", "cannot"),
        ("postgresql://u:geheim%zz@h/x", "cannot be read"),
        ("mysql://u:geheim@h/x", "is for mysql"),
        ("not a url", "cannot be read"),
    ],
)
def test_a_url_that_cannot_be_used_is_one_sentence_without_the_password(url: str, words: str) -> None:
    with pytest.raises(schema.SchemaError) as error:
        schema.check(url)
    assert words in str(error.value)
    assert "geheim" not in str(error.value)
    assert "\n" not in str(error.value)


@each(
    ("state", "refused"),
    [
        *(
            (waits, False)
            for waits in ("57P01", "53100", "25006", "42501", "42883", "0A000", "XX000", "25P03", "23505", "55P03")
        ),
        *((refuses, True) for refuses in ("54000", "54001", "22P05", "22021")),
    ],
)
def test_only_the_content_of_a_statement_is_its_own_fault(state: str, refused: bool) -> None:
    """A revoked right or a function that is missing for the length of a rollout heals: what was seen meanwhile must
    wait, not go.
    """
    assert unacceptable(psycopg.errors.lookup(state)("said the server")) is refused


def test_what_the_driver_cannot_send_is_the_content_s_fault() -> None:
    assert unacceptable(psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"))
    assert unacceptable(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"))
    assert not unacceptable(psycopg.OperationalError("the connection is lost"))
    assert not unacceptable(psycopg.InterfaceError("the connection is closed"))


async def test_an_event_that_cannot_be_encoded_fails_alone_and_its_stream_is_named(database_url: str) -> None:
    class Undeclared(Event):
        pass

    async with log_of(database_url) as log:
        await log.take_epoch("one")
        bad = request(NewEvent(stream="workload/default/x", event=Undeclared()))
        with structlog.testing.capture_logs() as said:
            answers = await asyncio.gather(log.append(bad), log.append(request(saw("a", 1))), return_exceptions=True)
        assert [type(answer) for answer in answers] == [LogError, int]
        assert [one["streams"] for one in said if one["event"] == "append refused"] == [["workload/default/x"]]
