"""Traces: one id from a watch line to the request that follows, and back, whoever keeps the log."""

from __future__ import annotations

import pytest

from controlplane.log.event import Append, NewEvent
from controlplane.log.traces import Traces
from tests.log.places import InMemory, InPostgres
from tests.log.words import Chose, Opener, everything, request, saw


class Contract:
    """The tests; a subclass gives `open_log()`."""

    async def test_what_follows_from_something_seen_has_its_trace(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        await log.append(
            request(saw("a", 1, source="east/+0/jobs/u1", mark=5), saw("b", 2, source="east/+0/jobs/u2", mark=5))
        )
        first, second = await everything(log)
        assert len(first.trace) == 16
        assert first.trace != second.trace
        decided = NewEvent(stream="a", event=Chose(cluster="east"), caused_by=first.position)
        await log.append(Append([decided]))
        (decision,) = await log.read(2)
        assert decision.trace == first.trace
        log.traces.expect("u9", 7, log.traces.of(decision.position))
        await log.append(
            request(saw("a", 3, source="west/+0/jobs/u9", mark=7), saw("a", 4, source="west/+0/jobs/u9", mark=8))
        )
        back, later = await log.read(3)
        assert back.trace == first.trace, "what the request made, as the watch shows it"
        assert later.trace not in ("", first.trace)

    async def test_another_process_that_reads_the_log_goes_on_with_its_traces(self, open_log: Opener) -> None:
        one, other = open_log(), open_log()
        await one.take_epoch("one")
        await one.append(request(saw("a", 1, source="east/+0/jobs/u1", mark=5)))
        await everything(other)
        await other.take_epoch("other")
        await other.append(Append([NewEvent(stream="a", event=Chose(cluster="east"), caused_by=1)]))
        seen, decided = await everything(other)
        assert seen.trace == decided.trace != ""

    async def test_what_nobody_saw_has_none_and_what_was_given_stays(self, open_log: Opener) -> None:
        log = open_log()
        await log.take_epoch("one")
        await log.append(request(saw("a"), saw("b", trace="mine", source="s/u", mark=1), saw("c", caused_by=1)))
        assert [found.trace for found in await everything(log)] == ["", "mine", ""]


class TestMemoryLog(InMemory, Contract):
    pass


class TestPostgresLog(InPostgres, Contract):
    pass


def test_the_same_line_begins_the_same_trace() -> None:
    (one,), (other,) = (Traces().given(request(saw("a", source="east/+0/jobs/u1", mark=5))).events for _ in range(2))
    assert one.trace == other.trace


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.log.traces._EXPECTED", 2)
    traces = Traces()
    for number in range(4):
        traces.expect(f"u{number}", 1, "t")
    found = traces.given(request(*[saw("a", source=f"x/u{number}", mark=1) for number in range(4)])).events
    assert [event.trace == "t" for event in found] == [False, False, True, True]
