"""What follows from events is committed with them: the same tests for PostgreSQL's log and for the one in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from controlplane.log.event import Append, NewEvent, Recorded, VersionConflict
from controlplane.log.port import FOLLOWED, FollowUp, Log, nobody_anticipates
from tests.log.places import InMemory, InPostgres
from tests.log.words import Chose, Opener, Saw, everything, request, saw, shape, until


def chosen(stream: str, version: int, caused_by: int = 0) -> Append:
    return Append([NewEvent(stream=stream, event=Chose(cluster="east"), caused_by=caused_by)], {stream: version})


def each(events: Sequence[Recorded]) -> FollowUp:
    """A choice for each thing that was seen."""
    return FollowUp([chosen(one.stream, one.version, one.position) for one in events if isinstance(one.event, Saw)])


async def led(open_log: Opener) -> Log:
    log = open_log()
    await log.take_epoch("one")
    return log


class Contract:
    """The tests; a subclass gives `open_log(name, codec)`, which opens views of one and the same keeper."""

    async def test_what_follows_comes_after_what_it_follows_from(self, open_log: Opener) -> None:
        log = await led(open_log)
        log.follow_with(each)
        assert await log.append(request(saw("a", 1), saw("b", 2))) == 2
        chose = Chose(cluster="east")
        expected = [(1, "a", 1, Saw(n=1)), (2, "b", 1, Saw(n=2)), (3, "a", 2, chose), (4, "b", 2, chose)]
        assert shape(await everything(log)) == shape(await everything(open_log())) == expected
        assert [one.caused_by for one in await everything(open_log())] == [0, 0, 1, 2]

    async def test_what_is_asked_has_the_places_and_traces_that_are_read(self, open_log: Opener) -> None:
        log, asked = await led(open_log), list[Recorded]()
        await log.append(request(saw("a")))
        await everything(log)

        def ask(events: Sequence[Recorded]) -> FollowUp:
            asked.extend(events)
            return each(events)

        log.follow_with(ask)
        await log.append(request(saw("a", 7, source="x", mark=3, cluster="east")))
        one, following = await everything(log, after=1)
        assert [(seen.position, seen.stream, seen.version, seen.event, seen.cluster) for seen in asked] == [
            (one.position, one.stream, one.version, one.event, one.cluster)
        ]
        assert asked[0].trace == one.trace == following.trace != ""

    async def test_a_fault_of_who_is_asked_is_told_and_stops_no_other_append(self, open_log: Opener) -> None:
        log = await led(open_log)

        def ask(events: Sequence[Recorded]) -> FollowUp:
            if any(one.stream == "bad" for one in events):
                raise RuntimeError("a fault")
            return FollowUp()

        log.follow_with(ask)
        with pytest.raises(RuntimeError, match="a fault"):
            await asyncio.wait_for(log.append(request(saw("bad"))), 5)
        assert await asyncio.wait_for(log.append(request(saw("a"))), 5) == 1

    async def test_what_is_known_already_leads_to_nothing(self, open_log: Opener) -> None:
        log = await led(open_log)
        await log.append(request(saw("a", 1, source="x", mark=3)))
        log.follow_with(each)
        assert await log.append(request(saw("a", 1, source="x", mark=3))) == 0
        assert len(await everything(log)) == 1

    async def test_what_was_overtaken_is_left_out_and_the_rest_goes_in(self, open_log: Opener) -> None:
        log = await led(open_log)
        log.follow_with(lambda events: FollowUp([chosen("a", 7), *each(events).requests]))
        assert await log.append(request(saw("a", 1))) == 1
        assert [one.stream for one in await everything(log)] == ["a", "a"]

    async def test_what_rests_on_a_stream_that_is_not_there_is_left_out(self, open_log: Opener) -> None:
        log = await led(open_log)
        choice = [NewEvent(stream="a", event=Chose(cluster="east"))]
        log.follow_with(lambda events: FollowUp([Append(choice, {"a": 1, one: 1}) for one in ("other", "else")]))
        assert await log.append(request(saw("a", 1))) == 1
        assert len(await everything(log)) == 1

    async def test_what_cannot_be_written_is_left_out(self, open_log: Opener) -> None:
        log = await led(open_log)

        class Alien(Saw):
            pass

        log.follow_with(
            lambda events: FollowUp([Append([NewEvent(stream="a", event=Alien())]), *each(events).requests])
        )
        assert await log.append(request(saw("a", 1))) == 1
        assert [type(one.event) for one in await everything(log)] == [Saw, Chose]

    async def test_of_many_nobody_is_asked(self, open_log: Opener) -> None:
        log = await led(open_log)
        log.follow_with(each)
        assert await log.append(Append([saw("a", n) for n in range(FOLLOWED + 1)])) == FOLLOWED + 1
        assert len(await everything(log)) == FOLLOWED + 1

    async def test_after_it_is_taken_back_nobody_is_asked(self, open_log: Opener) -> None:
        log = await led(open_log)
        log.follow_with(each)
        log.follow_with(nobody_anticipates)
        await log.append(request(saw("a", 1)))
        assert len(await everything(log)) == 1

    async def test_a_decision_on_the_version_before_is_a_conflict(self, open_log: Opener) -> None:
        log = await led(open_log)
        log.follow_with(each)
        await log.append(request(saw("a", 1)))
        with pytest.raises(VersionConflict):
            await log.append(chosen("a", 1))
        assert len(await everything(log)) == 2


class TestMemoryLog(InMemory, Contract):
    pass


class TestPostgresLog(InPostgres, Contract):
    async def test_whoever_appends_in_between_has_it_asked_again(self, open_log: Opener) -> None:
        log, beside = await led(open_log), open_log()
        await log.append(request(saw("a", 1)))
        assert await beside.assist()  # type: ignore[attr-defined]
        await beside.append(request(saw("b", 5)))
        asked: list[tuple[int, str]] = []

        def ask(events: Sequence[Recorded]) -> FollowUp:
            asked.extend((one.position, one.stream) for one in events)
            return each(events)

        log.follow_with(ask)
        await log.append(request(saw("a", 2)))
        assert asked == [(2, "a"), (3, "a")]
        found = await everything(open_log())
        assert [(one.position, one.stream, one.caused_by) for one in found[2:]] == [(3, "a", 0), (4, "a", 3)]

    async def test_they_are_one_commit(self, open_log: Opener) -> None:
        log = await led(open_log)
        log.follow_with(each)
        await asyncio.gather(log.append(request(saw("a", 1))), log.append(request(saw("b", 1))))
        appender = log.appender  # type: ignore[attr-defined]
        assert (appender.stats.batches, appender.stats.events) == (1, 4)
        assert len({one.recorded_at for one in await everything(log)}) == 1

    async def test_what_the_database_refuses_of_it_is_left_out_and_the_rest_goes_in(self, open_log: Opener) -> None:
        log = await led(open_log)
        refused = NewEvent(stream="a", event=Chose(cluster="east"), cluster="no text in PostgreSQL: \x00")
        log.follow_with(lambda events: FollowUp([Append([refused], {"a": 1})]))
        assert await asyncio.gather(log.append(request(saw("a", 1))), log.append(request(saw("b", 1)))) == [1, 1]
        assert [(one.stream, one.event) for one in await everything(log)] == [("a", Saw(n=1)), ("b", Saw(n=1))]

    async def test_what_leads_to_nothing_waits_for_what_comes_next(self, open_log: Opener) -> None:
        log = await led(open_log)
        appender = log.appender  # type: ignore[attr-defined]
        appender.patience = 3600.0
        log.follow_with(lambda events: FollowUp(whole=True))
        first = asyncio.create_task(log.append(request(saw("a", 1))))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(log.append(request(saw("b", 1))))
        await asyncio.sleep(0.05)
        assert not first.done()
        assert not second.done()
        await log.append(Append([NewEvent(stream="c", event=Chose(cluster="east"))], {"c": 0}))
        assert (await first, await second) == (1, 1)
        assert [one.stream for one in await everything(log)] == ["a", "b", "c"]
        assert appender.stats.batches == 1

    async def test_what_waits_may_be_taken_back_and_brought_again_with_more(self, open_log: Opener) -> None:
        log = await led(open_log)
        appender = log.appender  # type: ignore[attr-defined]
        appender.patience = 3600.0
        log.follow_with(lambda events: FollowUp(whole=True))
        one, two = saw("a", 1, source="x", mark=1), saw("a", 2, source="x", mark=2)
        other = asyncio.create_task(log.append(request(saw("b", 1))))
        first = asyncio.create_task(log.append(request(one)))
        await until(appender.patient.is_set)
        first.cancel()
        await asyncio.sleep(0.05)
        assert appender.patient.is_set(), "the other one waits on"
        both = asyncio.create_task(log.append(request(one, two)))
        await asyncio.sleep(0.05)
        await log.append(Append([NewEvent(stream="c", event=Chose(cluster="east"))], {"c": 0}))
        assert (await other, await both) == (1, 2)
        assert first.cancelled()
        assert [one.stream for one in await everything(log)] == ["b", "a", "a", "c"]
        assert appender.stats.batches == 1
        assert not appender.patient.is_set()

    async def test_what_is_taken_back_when_it_is_on_its_way_is_known(self, open_log: Opener) -> None:
        log = await led(open_log)
        one, two = saw("a", 1, source="x", mark=1), saw("a", 2, source="x", mark=2)
        first = asyncio.create_task(log.append(request(one)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        await log.append(request(one, two))
        assert [one.event for one in await everything(open_log())] == [Saw(n=1), Saw(n=2)]

    async def test_of_what_was_all_taken_back_nothing_is_written(self, open_log: Opener) -> None:
        log = await led(open_log)
        appender = log.appender  # type: ignore[attr-defined]
        appender.patience = 0.05
        log.follow_with(lambda events: FollowUp(whole=True))
        first = asyncio.create_task(log.append(request(saw("a", 1))))
        await asyncio.sleep(0.02)
        first.cancel()
        await asyncio.sleep(0.1)
        assert await everything(open_log()) == []
        assert await log.append(request(saw("b", 1))) == 1

    async def test_what_may_lead_to_something_waits_for_nobody(self, open_log: Opener) -> None:
        log = await led(open_log)
        log.appender.patience = 3600.0  # type: ignore[attr-defined]
        found = [FollowUp(), each([]), FollowUp([chosen("a", 3)], whole=True), FollowUp([chosen("a", 9)])]
        log.follow_with(lambda events: found.pop(0))
        for n in range(4):
            assert await log.append(request(saw("a", n))) == 1
        assert not found
        assert len(await everything(log)) == 5

    async def test_a_decision_that_joins_is_judged_by_what_comes_before_it(self, open_log: Opener) -> None:
        log, beside = await led(open_log), open_log()
        await log.append(request(saw("a", 1)))
        log.appender.patience = 3600.0  # type: ignore[attr-defined]
        log.follow_with(lambda events: FollowUp(whole=True))
        waiting = asyncio.create_task(log.append(request(saw("a", 2))))
        await asyncio.sleep(0.05)
        assert await beside.assist()  # type: ignore[attr-defined]
        await beside.append(request(saw("b", 1)))
        with pytest.raises(VersionConflict):
            await log.append(chosen("a", 1))
        assert await waiting == 1
        assert [one.stream for one in await everything(open_log())] == ["a", "b", "a"]
