"""A log that is not the one that was read: restored from a backup, promoted without its last commits, or another one
altogether.

Everything that was folded of it is void. Whoever read it is told by the next heartbeat, whoever wrote it by the next
append.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from controlplane.log.codec import Codec
from controlplane.log.event import Fenced, LogReplaced
from controlplane.log.memory import MemoryLog, MemoryStore
from controlplane.log.schema import libpq_url
from tests.log import words
from tests.log.words import TYPES, everything, request, saw

Backup = Callable[[], Awaitable[Callable[[], Awaitable[None]]]]


class Contract:
    """The tests; a subclass gives `open_log()` and `backup()`, which returns what restores it."""

    async def test_a_reader_that_is_ahead_of_the_log_is_told(self, open_log: Any, backup: Backup) -> None:
        writer, reader = open_log(), open_log()
        await writer.take_epoch("one")
        await writer.append(request(saw("a", 1)))
        restore = await backup()
        await writer.append(request(saw("a", 2), saw("a", 3)))
        await everything(reader)
        await reader.heartbeat()
        await restore()
        with pytest.raises(LogReplaced) as told:
            await reader.heartbeat()
        assert (told.value.read_to, told.value.ends_at) == (3, 1)
        with pytest.raises(LogReplaced):
            await reader.head()

    async def test_a_reader_is_told_of_another_event_at_its_position(self, open_log: Any, backup: Backup) -> None:
        writer, reader = open_log(), open_log()
        await writer.take_epoch("one")
        await writer.append(request(saw("a", 1)))
        restore = await backup()
        await writer.append(request(saw("a", 2)))
        await everything(reader)
        await restore()
        again = open_log()
        await again.take_epoch("two")
        await again.append(request(saw("a", 7), saw("a", 8), saw("a", 9)))
        with pytest.raises(LogReplaced):
            await reader.heartbeat()
        with pytest.raises(LogReplaced):
            await reader.take_epoch("three")

    async def test_a_writer_appends_nothing_to_a_log_that_lost_its_last_commit(
        self, open_log: Any, backup: Backup
    ) -> None:
        """The epoch is the same, since the backup has it: what was decided rests on what is no longer there."""
        writer = open_log()
        await writer.take_epoch("one")
        await writer.append(request(saw("a", 1)))
        restore = await backup()
        await writer.append(request(saw("a", 2)))
        await restore()
        for _ in range(2):
            with pytest.raises(LogReplaced):
                await writer.append(request(saw("b", 3)))
        assert [found.event.n for found in await everything(open_log())] == [1]

    async def test_a_backup_that_lacks_nothing_changes_nothing(self, open_log: Any, backup: Backup) -> None:
        writer = open_log()
        await writer.take_epoch("one")
        await writer.append(request(saw("a", 1)))
        await everything(writer)
        await (await backup())()
        await writer.renew()
        assert await writer.append(request(saw("a", 2), a=1)) == 1

    async def test_two_holders_of_one_epoch_are_told_apart(self, open_log: Any, backup: Backup) -> None:
        """The commit of an epoch was lost with its server: the next holder gets the same number."""
        first, second = open_log(), open_log()
        await open_log().take_epoch("before")
        restore = await backup()
        assert (await first.take_epoch("first")).epoch == 2
        await restore()
        assert (await second.take_epoch("second")).epoch == 2
        with pytest.raises(Fenced):
            await first.append(request(saw("a", 1)))
        with pytest.raises(Fenced):
            await first.renew()
        assert await second.append(request(saw("a", 2))) == 1
        await second.renew()

    async def test_a_holder_whose_lead_itself_was_lost_is_told_what_it_had_read(
        self, open_log: Any, backup: Backup
    ) -> None:
        """Nobody else took its place: what it wrote since it took the lead is gone, and so is the lead."""
        await open_log().take_epoch("before")
        restore = await backup()
        for ask in ("renew", "append"):
            holder = open_log()
            await holder.take_epoch("holder")
            await holder.append(request(saw("a", 1), saw("a", 2)))
            await everything(holder)
            await restore()
            asked = (holder.renew() if ask == "renew" else holder.append(request(saw("a", 3))) for _ in range(3))
            for told in await asyncio.gather(*asked, return_exceptions=True):
                assert isinstance(told, LogReplaced)
                assert (told.read_to, told.ends_at) == (2, 0)


class TestMemoryLog(Contract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    @pytest.fixture
    def open_log(self, store: MemoryStore) -> Any:
        return lambda: MemoryLog(store, Codec(TYPES), lambda: datetime.now(UTC))

    @pytest.fixture
    def backup(self, store: MemoryStore) -> Backup:
        async def take() -> Callable[[], Awaitable[None]]:
            put_back = store.backup()

            async def restore() -> None:
                put_back()

            return restore

        return take


_TABLES = ("log_head", "streams", "sources", "new_marks", "events", "bodies", "batches", "snapshots")


class TestPostgresLog(Contract):
    @pytest.fixture
    async def open_log(self, database_url: str) -> AsyncIterator[Any]:
        async with words.postgres_opener(database_url) as opener:
            yield opener

    @pytest.fixture
    def backup(self, database_url: str) -> Backup:
        """Copies of the tables, put back in one transaction: what a restore leaves behind, without the restart."""

        async def run(*statements: str) -> None:
            async with await psycopg.AsyncConnection.connect(libpq_url(database_url)) as connection:
                for statement in statements:
                    await connection.execute(statement)  # type: ignore[arg-type]

        async def take() -> Callable[[], Awaitable[None]]:
            await run(*(f"CREATE TABLE public.{name} AS TABLE controlplane.{name}" for name in _TABLES))

            async def restore() -> None:
                emptied = (f"DELETE FROM controlplane.{name}" for name in _TABLES)
                filled = (f"INSERT INTO controlplane.{name} TABLE public.{name}" for name in _TABLES)
                await run(*emptied, *filled)

            return restore

        return take

    async def test_another_log_under_the_same_name_is_told(self, open_log: Any, database_url: str) -> None:
        """The database was made anew: its log has nothing yet that could differ, but for who it is."""
        reader = open_log()
        await reader.take_epoch("one")
        async with await psycopg.AsyncConnection.connect(libpq_url(database_url)) as connection:
            await connection.execute("DELETE FROM controlplane.log_head")
        other = open_log()
        await other.take_epoch("two")
        with pytest.raises(LogReplaced, match="another one"):
            await reader.heartbeat()

    @pytest.mark.undistributed("nobody appends with a version before that knows no Citus")
    async def test_the_version_before_is_fenced_by_a_holder_with_a_nonce(
        self, open_log: Any, database_url: str
    ) -> None:
        """Both run for the length of a rollout. Its calls are as they were, and so is what it may do."""
        old_append = (
            "SELECT * FROM controlplane.append('main', %s, gen_random_uuid(), '{1}', '{a}', '{\"\"}', '{0}', '{Saw}', "
            "'{1}', '{\"{}\"}', '{\"\"}', '{\"\"}', '{0}', '{\"\"}', '{NULL}', '{}', '{}', '{}', '{}', '{}')"
        )
        async with await psycopg.AsyncConnection.connect(libpq_url(database_url), autocommit=True) as old:
            taken = await (await old.execute("SELECT * FROM controlplane.take_epoch('main', 'old', '3 s')")).fetchall()
            assert taken == [(0, 1)]
            assert await (await old.execute(old_append, (1,))).fetchall() == [(1, "new")]
            await old.execute("SELECT controlplane.renew_epoch('main', 1, false)")
            new = open_log()
            assert (await new.take_epoch("new")).epoch == 2
            for statement, parameters in ((old_append, (2,)), ("SELECT controlplane.renew_epoch('main', %s)", (2,))):
                with pytest.raises(psycopg.Error) as refused:
                    await old.execute(statement, parameters)
                assert refused.value.sqlstate == "CP001"
            assert (
                await (await old.execute("SELECT * FROM controlplane.take_epoch('main', 'old', '1 h')")).fetchall()
                == []
            )
            assert await new.append(request(saw("a", 1), a=1)) == 1
