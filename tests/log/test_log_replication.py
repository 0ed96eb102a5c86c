"""The log on PostgreSQL with streaming replication: a primary dies, a standby is promoted, an old primary comes
back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from controlplane.log.connect import Database
from controlplane.log.event import Append, LogReplaced, LogUnavailable
from controlplane.log.postgres import PostgresLog
from tests.cli.processes import finished
from tests.log.words import everything, postgres_opener, request, saw, until
from tests.support.deep import deep_after
from tests.support.replication import FIRST, Replication, replicated

ANY = "ANY 1 (two, three)"


class Writer:
    """Appends without end, several requests at a time, and keeps what was acknowledged."""

    def __init__(self, log: PostgresLog) -> None:
        self.log = log
        self.acknowledged: list[int] = []
        self._next = 0

    async def run(self) -> None:
        await asyncio.gather(*(self._submit(f"stream-{n}") for n in range(4)))

    async def _submit(self, stream: str) -> None:
        while True:
            self._next += 1
            n = self._next
            asked: Append = request(saw(stream, n, source=f"{stream}/s", mark=n), saw(f"{stream}/again", n))
            assert await self.log.append(asked) == 2
            self.acknowledged.append(n)


@asynccontextmanager
async def writing(log: PostgresLog) -> AsyncIterator[Writer]:
    writer = Writer(log)
    task = asyncio.create_task(writer.run())
    try:
        yield writer
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextmanager
def pair(synchronous: str = "") -> Iterator[Replication]:
    with replicated("two", synchronous=synchronous) as made:
        yield made


def terminate(on: Replication, application: str) -> None:
    """Cut the connection that a process has for something, as a network does."""
    for name in on.members:
        if name not in on._down:
            on.ask(
                name,
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = %s",
                f"controlplane {application}",
            )


async def waiting_for_its_standby(on: Replication, log: PostgresLog) -> asyncio.Task[int]:
    """Append once; then cut the standby off, and append what waits for it."""
    await log.take_epoch("one")
    await log.append(request(saw("a", 1)))
    await asyncio.to_thread(on.part, "two")
    waits = asyncio.create_task(log.append(request(saw("a", 2))))
    stuck = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    await asyncio.to_thread(on.until, lambda: on.ask(FIRST, stuck), "a commit that waits for the standby")
    return waits


@pytest.mark.parametrize("way", deep_after(1, [signal.SIGKILL, signal.SIGQUIT]))
async def test_nothing_that_was_acknowledged_is_lost_with_a_synchronous_primary(way: signal.Signals) -> None:
    """The writer goes on by itself on the new primary, under the epoch that it has; the third member follows that
    one."""
    with replicated("two", "three", synchronous=ANY) as on:
        async with postgres_opener(on.url) as opener:
            log = opener("main")
            head = await log.take_epoch("one")
            async with writing(log) as writer:
                await until(lambda: len(writer.acknowledged) > 100)
                await asyncio.to_thread(on.kill, way)
                known = len(writer.acknowledged)
                await asyncio.to_thread(on.promote, on.most_advanced())
                await until(lambda: len(writer.acknowledged) > known + 100)
                await log.renew()
            assert (await log.head()).epoch == head.epoch
            events = await everything(opener("main"))
        assert [one.position for one in events] == list(range(1, len(events) + 1))
        numbers = [one.event.n for one in events if one.stream.endswith("/again")]
        assert len(numbers) == len(set(numbers))
        assert set(writer.acknowledged) <= set(numbers)
        for stream in {one.stream for one in events}:
            versions = [one.version for one in events if one.stream == stream]
            assert versions == list(range(1, len(versions) + 1))
        done = finished("log", "verify", "--database-url", on.url)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.deep
async def test_a_commit_that_no_standby_has_is_not_acknowledged_and_is_not_in_the_log_of_the_next_primary() -> None:
    """The standby is cut off: the append waits for it, nobody sees it, and it is appended anew after the failover."""
    with pair("two") as on:
        async with postgres_opener(on.url) as opener:
            log, reader = opener("main"), opener("main")
            waits = await waiting_for_its_standby(on, log)
            assert [one.event.n for one in await everything(reader)] == [1]
            assert not waits.done()
            on.kill()
            await asyncio.to_thread(on.set, "two", "synchronous_standby_names", "")
            await asyncio.to_thread(on.promote, "two")
            assert await waits == 1
            assert [one.event.n for one in await everything(opener("main"))] == [1, 2]


async def test_a_process_that_ends_lets_nobody_see_a_commit_that_no_standby_has() -> None:
    """To be asked to cancel a commit that waits for its standby, the server takes for leave not to wait."""
    with pair("two") as on:
        async with postgres_opener(on.url) as opener:
            log = opener("main")
            waits = await waiting_for_its_standby(on, log)
            await log.close()
            await asyncio.gather(waits, return_exceptions=True)
            assert [one.event.n for one in await everything(opener("main"))] == [1]
            on.kill()
            await asyncio.to_thread(on.set, "two", "synchronous_standby_names", "")
            await asyncio.to_thread(on.promote, "two")
            assert [one.event.n for one in await everything(opener("main"))] == [1]


@pytest.mark.deep
async def test_a_standby_that_lacks_the_last_commits_is_told_by_the_next_append_and_the_next_sign() -> None:
    with pair() as on:
        async with postgres_opener(on.url) as opener:
            log, follower = opener("main"), opener("main")
            await log.take_epoch("one")
            await log.append(request(saw("a", 1)))
            await asyncio.to_thread(on.until, on.caught_up, "a standby that has it all")
            await asyncio.to_thread(on.part, "two")
            await log.append(request(saw("a", 2)))
            await everything(follower)
            on.kill()
            await asyncio.to_thread(on.promote, "two")
            with pytest.raises(LogReplaced, match="without batch"):
                await log.append(request(saw("a", 3)))
            with pytest.raises(LogReplaced, match="ends at position 1, and had been read up to 2"):
                await _answered(follower.heartbeat)


async def _answered(ask: Callable[[], object]) -> object:
    while True:
        try:
            return await ask()  # type: ignore[misc]
        except LogUnavailable:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("cut", deep_after(1, ["appender", "leader", "reader"]))
async def test_an_old_primary_that_comes_back_is_passed_over(cut: str) -> None:
    """It is the first that the URL names, and takes writes: whoever lost its connection wrote to it, where nobody read
    it."""
    with pair() as on:
        async with postgres_opener(on.url) as opener:
            log = opener("main")
            await log.take_epoch("one")
            await log.append(request(saw("a", 1)))
            await asyncio.to_thread(on.until, on.caught_up, "a standby that has it all")
            on.kill()
            await asyncio.to_thread(on.promote, "two")
            await _answered(log.renew)
            await everything(log)
            await asyncio.to_thread(on.revive, FIRST)
            await asyncio.to_thread(terminate, on, cut)
            assert await log.append(request(saw("a", 2))) == 1
            await log.renew()
            other = opener("main")
            assert [one.event.n for one in await everything(other)] == [1, 2]
        assert on.ask(FIRST, "SELECT max(position) FROM controlplane.events") == 1
        assert on.ask("two", "SELECT max(position) FROM controlplane.events") == 2


@pytest.mark.deep
async def test_a_process_that_meets_the_new_primary_lets_go_of_the_old_one() -> None:
    """The old primary never died: it was cut off from who promotes, and not from the service."""
    with pair() as on:
        async with postgres_opener(on.url) as opener:
            log = opener("main")
            await log.take_epoch("one")
            await log.append(request(saw("a", 1)))
            await asyncio.to_thread(on.until, on.caught_up, "a standby that has it all")
            await asyncio.to_thread(on.promote, "two")
            await Database(on.url).survey()
            assert await log.append(request(saw("a", 2))) == 1
        assert on.ask(FIRST, "SELECT max(position) FROM controlplane.events") == 1
        assert on.ask("two", "SELECT max(position) FROM controlplane.events") == 2


async def test_an_old_primary_alone_is_waited_for_and_the_reason_is_said() -> None:
    said: list[str] = []
    with pair() as on:
        async with postgres_opener(on.url) as opener:
            log = opener("main", on_state=lambda ok, detail: said.append(detail))
            await log.take_epoch("one")
            await asyncio.to_thread(on.until, on.caught_up, "a standby that has it all")
            on.kill()
            await asyncio.to_thread(on.promote, "two")
            await _answered(log.renew)
            on.kill()
            await asyncio.to_thread(on.revive, FIRST)
            waits = asyncio.create_task(log.append(request(saw("a", 1))))
            await until(lambda: any("an old primary that came back" in one for one in said))
            with pytest.raises(LogUnavailable, match="takes writes on timeline 1, and timeline 2 was seen"):
                await log.heartbeat()
            assert not waits.done()
            await asyncio.to_thread(on.revive, "two")
            assert await waits == 1
        assert on.ask(FIRST, "SELECT count(*) FROM controlplane.events") == 0


@pytest.mark.deep
async def test_a_synchronous_old_primary_takes_no_commit_from_a_process_that_knows_of_no_other() -> None:
    """Its standby was promoted and follows it no longer: whoever writes to it waits."""
    with pair("two") as on:
        async with postgres_opener(on.url) as opener:
            await opener("main").take_epoch("one")
        await asyncio.to_thread(on.promote, "two")
        alone = on.members[FIRST].url
        database = Database(alone, statement_timeout=0.5)
        log = PostgresLog(database, opener("main").codec)
        with pytest.raises(LogUnavailable):
            await log.take_epoch("two")
        await log.close()
        assert on.ask(FIRST, "SELECT epoch FROM controlplane.log_head") == 1
