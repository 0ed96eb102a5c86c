"""What a log promises, whoever keeps it: the same tests for PostgreSQL's and for the one in memory."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.log.codec import Codec
from controlplane.log.event import Append, Event, Fenced, LogError, LogHead, NewEvent, Unknown, VersionConflict, body_of
from controlplane.log.port import Log
from tests.log import words
from tests.log.places import InMemory, InPostgres
from tests.log.requests import STREAMS, requests
from tests.log.words import TYPES, Chose, Opener, Saw, everything, outcome, request, saw, shape
from tests.support.deep import examples
from tests.support.waiting import PATIENCE


class Contract:
    """The tests; a subclass gives `open_log(name, codec)`, which opens views of one and the same keeper."""

    # --- order ---

    async def test_an_empty_log_has_nothing(self, open_log: Opener) -> None:
        log = open_log()
        assert await log.head() == LogHead(0, 0)
        assert await log.read(0) == []
        assert await log.take_epoch("one") == LogHead(0, 1)
        assert await log.head() == LogHead(0, 1)

    async def test_an_event_comes_back_as_it_went_in(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        seen_at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
        before = datetime.now(UTC) - timedelta(seconds=5)
        event = Saw(n=7, text='"quotes", ünïcode, \x00 and \n')
        assert await log.append(request(saw("b"))) == 1
        assert await log.append(
            request(NewEvent(stream="a", event=event, cluster="east", caused_by=1, trace="t", observed_at=seen_at))
        )
        found = (await log.read(1))[0]
        assert (found.position, found.stream, found.version, found.event) == (2, "a", 1, event)
        assert (found.cluster, found.caused_by, found.trace, found.observed_at) == ("east", 1, "t", seen_at)
        assert before < found.recorded_at < datetime.now(UTC) + timedelta(seconds=5)
        plain = (await log.read(0, 1))[0]
        assert (plain.cluster, plain.caused_by, plain.trace, plain.observed_at) == ("", 0, "", None)

    @pytest.mark.parametrize("field", ["stream", "source", "cluster", "trace", "reason", "expected"])
    @pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"], ids=["NUL", "surrogate"])
    async def test_what_no_text_can_hold_is_refused_alone(self, open_log: Opener, field: str, text: str) -> None:
        log = open_log()
        await log.take_epoch("one")
        event = Chose(cluster="east", reason=text) if field == "reason" else Saw()
        named = {"stream": "a"} | {name: text for name in (field,) if name in ("stream", "source", "cluster", "trace")}
        bad = Append([NewEvent(event=event, **named)], {text: 0} if field == "expected" else None)
        got = await asyncio.gather(outcome(log, request(saw("b"))), outcome(log, bad), outcome(log, request(saw("c"))))
        assert got == [1, "LogError", 1]
        assert shape(await everything(log)) == [(1, "b", 1, Saw()), (2, "c", 1, Saw())]

    async def test_positions_have_no_holes_under_many_appenders(self, open_log: Opener) -> None:
        log, reader = open_log(), open_log()
        await log.take_epoch("one")
        dice = random.Random(1)

        async def append(number: int) -> None:
            for turn in range(10):
                await asyncio.sleep(dice.random() / 500)
                await log.append(request(*[saw(f"s{(number + i) % 7}", turn) for i in range(1 + number % 3)]))

        async def follow() -> list[int]:
            positions: list[int] = []
            async with asyncio.timeout(PATIENCE):
                while len(positions) < 200 * 2 - 10:
                    # What a reader has seen is never joined by anything before it.
                    positions += [e.position for e in await reader.read(positions[-1] if positions else 0, 50)]
                    await reader.wait(len(positions), 0.05)
            return positions

        following = asyncio.create_task(follow())
        await asyncio.gather(*(append(number) for number in range(20)))
        events = await everything(log)
        assert [found.position for found in events] == list(range(1, len(events) + 1))
        assert len(events) == sum(10 * (1 + number % 3) for number in range(20)) == 390
        assert await following == list(range(1, 391))
        for stream in {found.stream for found in events}:
            versions = [found.version for found in events if found.stream == stream]
            assert versions == list(range(1, len(versions) + 1))
        assert await log.head() == LogHead(390, 1)

    async def test_a_request_is_in_one_piece_and_in_its_order(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        await asyncio.gather(*(log.append(request(*[saw(f"s{i}", i * 10 + n) for n in range(5)])) for i in range(30)))
        numbers = [found.event.n for found in await everything(log) if isinstance(found.event, Saw)]
        assert sorted(numbers) == sorted(i * 10 + n for i in range(30) for n in range(5))
        for start in range(0, 150, 5):
            assert numbers[start : start + 5] == list(range(numbers[start], numbers[start] + 5))

    async def test_reading_goes_page_by_page(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        await log.append(request(*[saw("a", n) for n in range(25)]))
        assert [found.position for found in await log.read(0, 10)] == list(range(1, 11))
        assert [found.position for found in await log.read(20, 10)] == list(range(21, 26))
        assert await log.read(25, 10) == []
        assert len(await everything(log, 7)) == 25

    async def test_a_request_without_events_is_nothing(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        assert await log.append(Append([])) == 0
        assert await log.head() == LogHead(0, 1)

    async def test_logs_do_not_see_each_other(self, open_log: Opener) -> None:
        one, other = open_log("one"), open_log("other")
        await one.take_epoch("x")
        await other.take_epoch("y")
        assert await one.append(request(saw("a", 1, source="s", mark=5), a=0)) == 1
        assert await other.append(request(saw("a", 2, source="s", mark=5), a=0)) == 1
        assert shape(await everything(one)) == [(1, "a", 1, Saw(n=1))]
        assert shape(await everything(other)) == [(1, "a", 1, Saw(n=2))]

    # --- expected versions ---

    async def test_a_conflict_writes_nothing_of_its_request(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        assert await log.append(request(saw("a"), a=0)) == 1
        with pytest.raises(VersionConflict, match="a"):
            await log.append(request(saw("a", 1), saw("b", 1), a=0))
        with pytest.raises(VersionConflict):
            await log.append(request(saw("a", 1), a=2))
        assert await log.append(request(saw("a", 2), a=1)) == 1
        assert shape(await everything(log)) == [(1, "a", 1, Saw()), (2, "a", 2, Saw(n=2))]

    async def test_an_expectation_holds_for_streams_without_events_too(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        await log.append(request(saw("a")))
        with pytest.raises(VersionConflict):
            await log.append(request(saw("b"), a=0))
        assert await log.append(request(saw("b"), a=1)) == 1

    async def test_in_one_batch_a_conflict_is_its_own(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        await log.append(request(saw("a")))
        asked = [
            request(saw("a", 1), a=1),
            request(saw("a", 2), a=1),
            request(saw("b", 3), b=0),
            request(saw("c", 4), b=0),
            request(saw("a", 5)),
            request(saw("a", 6), a=3),
            request(saw("a", 7), a=2),
        ]
        got = await asyncio.gather(*(outcome(log, one) for one in asked))
        assert got == [1, "VersionConflict", 1, "VersionConflict", 1, 1, "VersionConflict"]
        assert shape(await everything(log))[1:] == [
            (2, "a", 2, Saw(n=1)),
            (3, "b", 1, Saw(n=3)),
            (4, "a", 3, Saw(n=5)),
            (5, "a", 4, Saw(n=6)),
        ]

    async def test_one_of_many_that_expect_the_same_wins(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        got = await asyncio.gather(*(outcome(log, request(saw("a", n), a=0)) for n in range(20)))
        assert sorted(map(str, got)) == ["1"] + ["VersionConflict"] * 19
        assert len(await everything(log)) == 1

    # --- sources and marks ---

    async def test_an_observation_is_recorded_once(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        assert await log.append(request(saw("a", 1, source="s", mark=5))) == 1
        assert await log.append(request(saw("a", 2, source="s", mark=5))) == 0
        assert await log.append(request(saw("a", 3, source="s", mark=4))) == 0
        assert await log.append(request(saw("a", 4, source="t", mark=4), saw("a", 5, source="s", mark=6))) == 2
        assert await log.append(request(saw("a", 6), saw("a", 6))) == 2
        assert [e.event.n for e in await everything(log) if isinstance(e.event, Saw)] == [1, 4, 5, 6, 6]
        assert [e.version for e in await everything(log)] == [1, 2, 3, 4, 5]

    async def test_an_observation_is_recorded_once_within_a_batch(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        marks = [3, 3, 2, 5, 4, 5, 6]
        got = await asyncio.gather(*(log.append(request(saw("a", m, source="s", mark=m))) for m in marks))
        assert got == [1, 0, 0, 1, 0, 0, 1]
        assert await log.append(request(*[saw("b", m, source="t", mark=m) for m in marks])) == 3
        events = await everything(log)
        assert shape(events[:3]) == [(1, "a", 1, Saw(n=3)), (2, "a", 2, Saw(n=5)), (3, "a", 3, Saw(n=6))]
        assert [e.event.n for e in events[3:] if isinstance(e.event, Saw)] == [3, 5, 6]

    async def test_what_a_conflict_refused_is_not_known(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        asked = [request(saw("a", 1, source="s", mark=5), a=9), request(saw("a", 2, source="s", mark=5))]
        assert await asyncio.gather(*(outcome(log, one) for one in asked)) == ["VersionConflict", 1]
        assert shape(await everything(log)) == [(1, "a", 1, Saw(n=2))]

    @pytest.mark.generated
    @settings(
        max_examples=examples(12, 40),
        deadline=None,
        # The contract is one class for every keeper, and each example opens a log of its own.
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(asked=st.lists(requests(), min_size=1, max_size=12))
    async def test_any_requests_end_as_if_one_came_after_the_other(self, open_log: Opener, asked: list[Append]) -> None:
        """Whatever is grouped into one commit: outcomes and history are those of the simplest log there is."""
        log = open_log(uuid.uuid4().hex)
        close = getattr(log, "close", None)
        try:
            await self._as_the_model(log, asked)
        finally:
            if close is not None:
                await close()

    async def _as_the_model(self, log: Log, asked: list[Append]) -> None:
        model = words.memory_opener(lambda: datetime.now(UTC))()
        await log.take_epoch("one")
        await model.take_epoch("one")
        got = await asyncio.gather(*(outcome(log, one) for one in asked))
        assert got == [await outcome(model, one) for one in asked]
        events = await everything(log, 5)
        assert shape(events) == shape(await everything(model))
        assert [e.position for e in events] == list(range(1, len(events) + 1))
        for stream in STREAMS:
            versions = [e.version for e in events if e.stream == stream]
            assert versions == list(range(1, len(versions) + 1))

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

    # --- bodies ---

    async def test_a_body_is_kept_once_by_its_hash(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        one, two = body_of({"b": 1, "a": [None, "x\x00"]}), body_of([2])
        assert one.ref == body_of({"a": [None, "x\x00"], "b": 1}).ref != two.ref
        await asyncio.gather(*(log.append(request(saw("a", n, bodies=(one, two)))) for n in range(5)))
        await log.append(request(saw("b", bodies=(one,))))
        missing = body_of("missing").ref
        assert await log.bodies([one.ref, two.ref, missing, one.ref]) == {
            one.ref: one.text.encode(),
            two.ref: two.text.encode(),
        }
        assert await log.bodies([]) == {}

    # --- types and schemas ---

    async def test_what_this_version_does_not_know_is_kept_and_passed_over(self, open_log: Opener) -> None:
        class Later(Event):
            n: int

        newer = _newer_saw()
        future = open_log(codec=Codec([newer, Later]))
        await future.take_epoch("future")
        old = saw("a", 1)
        await future.append(
            request(NewEvent(stream="a", event=newer(n=1, colour="red")), NewEvent(stream="a", event=Later(n=2)))
        )
        present = open_log()
        await present.take_epoch("present")
        await present.append(request(old))
        first, second, third = await everything(present)
        assert isinstance(first.event, Unknown)
        assert (first.event.type, first.event.schema, first.event.error) == ("Saw", 2, "schema 2 is newer than 1")
        assert isinstance(second.event, Unknown)
        assert (second.event.type, bytes(str(second.event.data), "ascii") and second.version) == ("Later", 2)
        assert (third.position, third.version, third.event) == (3, 3, old.event)

    async def test_an_older_schema_is_brought_up(self, open_log: Opener) -> None:
        past = open_log()
        await past.take_epoch("past")
        await past.append(request(saw("a", 1), saw("a", 2)))
        newer = _newer_saw()
        log = open_log(codec=Codec([newer], {("Saw", 1): lambda old: {**old, "colour": f"grey{old['n']}"}}))
        assert [e.event for e in await everything(log)] == [newer(n=1, colour="grey1"), newer(n=2, colour="grey2")]

    async def test_a_request_that_cannot_be_written_fails_alone(self, open_log: Opener) -> None:
        class Stranger(Event):
            n: int

        log = open_log()
        await log.take_epoch("one")
        poison = [NewEvent(stream="a", event=Stranger(n=1)), saw("a", 2)]
        got = await asyncio.gather(
            outcome(log, request(saw("a", 1))), outcome(log, request(*poison)), outcome(log, request(saw("b", 3)))
        )
        assert [got[0], got[2]] == [1, 1]
        assert isinstance(got[1], str)
        assert shape(await everything(log)) == [(1, "a", 1, Saw(n=1)), (2, "b", 1, Saw(n=3))]
        with pytest.raises(LogError):
            await log.append(request(*poison))

    async def test_a_reason_is_an_event_s_own(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        await log.append(request(NewEvent(stream="a", event=Chose(cluster="east"))))
        assert (await everything(log))[0].event == Chose(cluster="east", reason="Fits")


def _newer_saw() -> Any:
    class Saw(Event):
        SCHEMA = 2
        n: int = 0
        text: str = ""
        colour: str = ""

    return Saw


class TestMemoryLog(InMemory, Contract):
    pass


class TestPostgresLog(InPostgres, Contract):
    pass


class TestPostgresLogInSmallBatches(Contract):
    """The same with a limit on batches that every test runs into."""

    @pytest.fixture
    async def open_log(self, database_url: str) -> AsyncIterator[Opener]:
        async with words.postgres_opener(database_url) as opener:
            yield lambda name="main", codec=None: opener(name, codec or Codec(TYPES), max_batch=3)
