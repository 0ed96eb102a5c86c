"""What a log promises to who leads it, who led it before, and who waits for it to grow; whoever keeps it."""

from __future__ import annotations

import asyncio

import pytest

from controlplane.log.event import Fenced, LogHead, body_of
from tests.log.places import InMemory, InPostgres, InSmallBatches
from tests.log.words import Opener, Saw, everything, outcome, request, saw, shape
from tests.support.waiting import PATIENCE


class LeadContract:
    """The tests; a subclass gives `open_log(name, codec)`, which opens views of one and the same keeper."""

    # --- epochs ---

    async def test_nobody_appends_to_a_log_that_nobody_has_taken(self, open_log: Opener) -> None:
        log = open_log()
        with pytest.raises(Fenced):
            await log.append(request(saw("a")))
        assert await log.head() == LogHead(0, 0)

    async def test_an_old_writer_is_fenced(self, open_log: Opener) -> None:
        old, new = open_log(), open_log()
        await old.take_epoch("old")
        await old.append(request(saw("a", 1)))
        head = await new.take_epoch("new")
        assert (head.position, head.epoch) == (1, 2)
        body = body_of({"never": "seen"})
        for _ in range(2):  # once from the keeper, then because it knows
            got = await asyncio.gather(
                *(outcome(old, request(saw("a", 2, source="s", mark=9, bodies=(body,)))) for _ in range(3))
            )
            assert got == ["Fenced"] * 3
        assert await old.bodies([body.ref]) == {}
        assert await new.append(request(saw("a", 3, source="s", mark=9), a=1)) == 1
        # The old one may still read.
        assert shape(await everything(old)) == [(1, "a", 1, Saw(n=1)), (2, "a", 2, Saw(n=3))]

    async def test_epochs_only_grow(self, open_log: Opener) -> None:
        logs = [open_log() for _ in range(5)]
        heads = await asyncio.gather(*(log.take_epoch(f"p{n}") for n, log in enumerate(logs)))
        assert sorted(head.epoch for head in heads) == [1, 2, 3, 4, 5]
        got = await asyncio.gather(*(outcome(log, request(saw("a", n))) for n, log in enumerate(logs)))
        assert [got[n] for n, head in enumerate(heads) if head.epoch == 5] == [1]
        assert sorted(map(str, got)) == ["1"] + ["Fenced"] * 4

    async def test_the_lead_is_taken_only_from_a_holder_that_is_silent(self, open_log: Opener) -> None:
        one, other = open_log(), open_log()
        free = await other.heartbeat()
        assert free.free
        first = await one.lead("one", free)
        assert first is not None
        assert (first.position, first.epoch) == (0, 1)
        held = await other.heartbeat()
        assert not held.free
        assert held != free
        await one.renew()
        assert await other.heartbeat() != held
        assert await other.lead("other", held) is None
        assert await one.append(request(saw("a"))) == 1
        second = await other.lead("other", await other.heartbeat())
        assert second is not None
        assert (second.position, second.epoch) == (1, 2)
        with pytest.raises(Fenced):
            await one.renew()
        await other.renew(resign=True)
        assert (await one.heartbeat()).free

    async def test_who_takes_the_lead_learns_of_the_last_heartbeat(self, open_log: Opener) -> None:
        first, second, third = open_log(), open_log(), open_log()
        assert (await first.take_epoch("first")).heartbeat is None
        await first.append(request(saw("a", 1)))
        await first.renew()
        head = await second.take_epoch("second")
        (event,) = await everything(first)
        assert head.heartbeat is not None
        assert event.recorded_at <= head.heartbeat
        assert (await second.head()).heartbeat is None, "only who takes the lead asks"
        await second.renew(resign=True)
        assert (await third.take_epoch("third")).heartbeat is None, "who resigns leaves none behind"

    # --- waiting ---

    async def test_waiting_ends_when_the_log_grows(self, open_log: Opener) -> None:
        writer, reader = open_log(), open_log()
        await writer.take_epoch("one")
        await reader.wait(0, 0.2)  # whoever listens for the first time needs a moment to get there
        waiting = asyncio.create_task(reader.wait(0, 10 * PATIENCE))
        await asyncio.sleep(0.05)
        await writer.append(request(saw("a")))
        async with asyncio.timeout(PATIENCE):
            await waiting
        assert len(await reader.read(0)) == 1

    async def test_waiting_ends_though_nothing_happens(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        async with asyncio.timeout(PATIENCE):
            await log.wait(0, 0.05)
            await log.wait(0, 0.0)

    async def test_nobody_sleeps_through_an_append(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        async with asyncio.timeout(PATIENCE):
            for n in range(20):
                position = (await log.head()).position
                await log.append(request(saw("a", n)))
                # The bell rang before the wait began.
                await log.wait(position, 10 * PATIENCE)


class TestMemoryLog(InMemory, LeadContract):
    pass


class TestPostgresLog(InPostgres, LeadContract):
    pass


class TestPostgresLogInSmallBatches(InSmallBatches, LeadContract):
    pass
