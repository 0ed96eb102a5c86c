"""Each statement that a log's writer, reader, lead, snapshots and read models send fails once, in every way: whoever
asked goes on, and the log ends as if nothing had been."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from controlplane.clock import SystemClock
from controlplane.log import insistent_line
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Recorded, body_of
from controlplane.log.postgres import PostgresLog
from controlplane.log.read_models import PostgresReadModels
from controlplane.log.snapshots import Contents, PostgresSnapshots, compressed
from controlplane.log.verify import verify
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from tests.log.archived import connected
from tests.log.faults import AFTER, BEFORE, HOWS, Faults, failing
from tests.log.followers import again
from tests.log.words import ROLE, TYPES, Saw, everything, request, saw
from tests.support import postgres
from tests.support.deep import deep_but
from tests.support.waiting import PATIENCE


class Scenario:
    """A log with a leader, a follower, somebody beside them, snapshots and read models. `told` has what each append was
    told, `folded` what each reader read."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, name
        self.database = Database(url, ROLE)
        self.told: list[int] = []
        self.folded: dict[str, list[Recorded]] = defaultdict(list)
        self._open = AsyncExitStack()

    def log(self) -> PostgresLog:
        made = PostgresLog(self.database, Codec(TYPES), log=self.name, max_batch=4, linger=0.0)
        self._open.push_async_callback(made.close)
        return made

    async def read(self, who: str, log: PostgresLog) -> None:
        folded = self.folded[who]

        def page() -> Awaitable[Sequence[Recorded]]:
            return log.read(folded[-1].position if folded else 0, 5)

        while events := await again(page):
            folded += events

    async def lead(self, log: PostgresLog, name: str) -> Leader:
        leader = Leader(log, name, SystemClock(), Gate(), lease=0.1, renew=0.02)
        await leader.acquire()
        return leader

    async def play(self) -> None:
        async with self._open, asyncio.timeout(PATIENCE):
            await self._play()

    async def _play(self) -> None:
        one, two = self.log(), self.log()
        first = await self.lead(one, "one")
        await self.read("two", two)
        for n in range(3):
            body = body_of({"n": n})
            self.told.append(
                await one.append(request(saw("a", n, source="x", mark=n, bodies=(body,)), saw(f"b/{n}", n)))
            )
        self.told.append(await one.append(request(saw("a", 3), a=3)))
        await again(one.renew)
        await self.read("one", one)
        # So many at once that a full batch is sent on top of the one in flight.
        self.told += await asyncio.gather(*(one.append(request(saw(f"c/{n}", n), saw("d", n))) for n in range(12)))
        await self._beside(one)
        await self.read("one", one)
        await two.wait(self.folded["two"][-1].position if self.folded["two"] else 0, 0.0)
        await self.read("two", two)
        await self._derived(one)
        assert await again(lambda: one.bodies([body.ref])) == {body.ref: body.text.encode()}
        await first.release()
        await self.lead(two, "two")
        await self.read("two", two)
        self.told.append(await two.append(request(saw("a", 4, source="x", mark=4), saw("a", 0, source="x", mark=0))))
        await self.read("two", two)

    async def _beside(self, one: PostgresLog) -> None:
        operator = self.log()
        await again(operator.assist)
        self.told.append(await operator.append(request(saw("e", 1))))
        self.told.append(await one.append(request(saw("e", 2))))
        await again(one.renew)

    async def _derived(self, one: PostgresLog) -> None:
        models = PostgresReadModels(self.database, self.name)
        self._open.push_async_callback(models.close)
        end = self.folded["one"][-1].position
        # On Citus nothing is kept, and there is nothing to wait for.
        while await again(lambda: models.keep(10, timedelta(0))) < end and postgres.chosen() != "citus":
            pass
        snapshots = PostgresSnapshots(self.database, one)
        self._open.push_async_callback(snapshots.close)
        place = await again(snapshots.place)
        assert place is not None
        contents = Contents({"p": 2}, self.folded["one"][-1].recorded_at)
        pieces = [b"one", b"two"]
        await again(lambda: snapshots.keep("fold", place, contents, [("p", compressed(one)) for one in pieces]))
        found = await again(lambda: snapshots.found("fold"))
        assert found is not None, "the snapshot is there, whatever was answered"
        assert found.place == place

        async def chunks() -> list[bytes]:
            return [data async for _, data in snapshots.chunks(found)]

        assert await again(chunks) == pieces


def content(events: Sequence[Recorded]) -> dict[str, list[tuple[int, int]]]:
    """The events of each stream: what was appended at once has its order within its streams alone."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in events:
        assert isinstance(one.event, Saw)
        found[one.stream].append((one.version, one.event.n if one.stream != "d" else -1))
    return found


async def held(url: str, scenario: Scenario) -> dict[str, list[tuple[int, int]]]:
    """What the log has, once it was checked that everybody read it, and that it is as it was appended."""
    async with PostgresLog(Database(url, ROLE), Codec(TYPES), log=scenario.name) as log:
        events = await everything(log)
    assert [one.position for one in events] == list(range(1, len(events) + 1))
    assert scenario.folded["two"] == events
    assert scenario.folded["one"] == events[: len(scenario.folded["one"])]
    assert sorted(one.event.n for one in events if one.stream == "d" and isinstance(one.event, Saw)) == list(range(12))
    with connected(url) as owner:
        found = verify(owner, scenario.name)
    assert (found.wrong, found.bad_bodies) == ([], [])
    return content(events)


async def expected(url: str) -> tuple[dict[str, list[tuple[int, int]]], list[int], list[str]]:
    faults, whole = Faults(BEFORE), Scenario(url, "whole")
    with failing(faults):
        await whole.play()
    return await held(url, whole), whole.told, faults.statements


@pytest.mark.parametrize("how", deep_but({}, HOWS))
async def test_whichever_statement_fails_the_log_is_the_same(
    database_url: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insistent_line, "AGAIN", 0.0)
    log, told, statements = await expected(database_url)
    for at in itertools.count(1):
        faults, scenario = Faults(how, at), Scenario(database_url, f"{how} {at}")
        try:
            with failing(faults):
                await scenario.play()
            assert await held(database_url, scenario) == log
            assert scenario.told == told
        except Exception as error:
            raise AssertionError(f"statement {at}, {faults.failed}: {error!r}") from error
        if not faults.failed:
            assert at > len(statements) * 0.8
            break


@pytest.mark.parametrize("how", [AFTER, BEFORE, "53100"])
async def test_a_statement_of_each_kind_fails_and_the_log_is_the_same(
    database_url: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of each kind, all in one run: `whichever_statement` tries each of all of them alone, in all ways."""
    monkeypatch.setattr(insistent_line, "AGAIN", 0.0)
    log, told, statements = await expected(database_url)
    faults, scenario = Faults(how, kinds=True), Scenario(database_url, how)
    with failing(faults):
        await scenario.play()
    # Two may not come to it: where a snapshot is in the chain is not said if its answer was lost, and nobody has to
    # listen.
    assert len(set(statements) - set(faults.failed)) <= 2
    assert await held(database_url, scenario) == log
    assert scenario.told == told


@pytest.mark.deep
@pytest.mark.parametrize("every", [11, 7, 6])
@pytest.mark.parametrize("how", [AFTER, BEFORE, "40001"])
async def test_many_statements_fail_and_the_log_is_the_same(
    database_url: str, how: str, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every so many of them, also of those by which whoever asked tries again: a connection takes three."""
    monkeypatch.setattr(insistent_line, "AGAIN", 0.0)
    log, told, _ = await expected(database_url)
    for at in range(1, every + 1):
        faults, scenario = Faults(how, at, every), Scenario(database_url, f"{how} {at}")
        with failing(faults):
            await scenario.play()
        assert len(faults.failed) > 5
        assert await held(database_url, scenario) == log
        assert scenario.told == told
