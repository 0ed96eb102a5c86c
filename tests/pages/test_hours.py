"""Hours that are kept run by run are those that `audit.usage` adds up, whatever came and was taken back."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.audit.past import usage
from controlplane.audit.reads import READ, LogReader
from controlplane.pages.follower import Follower
from controlplane.pages.hours import Hours, Run
from controlplane.pages.readers import connector
from controlplane.settings import Settings
from tests.audit.script import Script, write
from tests.docs.fleet_story import story
from tests.pages.serving import served, until_ready, wait_for_hours

NEWEST = datetime(2026, 1, 5, 7, 30, tzinfo=UTC)
FIRST, LAST = date(2025, 12, 1), date(2026, 2, 1)

times = st.integers(0, 4 * 24 * 3600 * 4).map(
    lambda quarter: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=quarter / 4)
)
resources = st.sampled_from([None, "{}", '{"cpu": 0.5}', '{"cpu": 4, "memory": 68719476736}'])


@st.composite
def runs(draw: st.DrawFn) -> Run:
    since = draw(times)
    until = draw(st.none() | times.filter(lambda at: at >= since) | st.just(since))
    queue, cluster = draw(st.sampled_from([None, "q", "r"])), draw(st.sampled_from(["east", "west"]))
    return Run(queue, cluster, since, until, draw(resources))


names = st.tuples(st.sampled_from(["team-a", "team-b"]), st.sampled_from(["one", "two", "three"]))


def expected(known: dict[tuple[str, str], list[Run]]) -> dict[Any, Any]:
    """Add up in fractions, day by day."""
    found: dict[Any, Any] = defaultdict(lambda: [0, Fraction(0), {}])
    for (namespace, _), each in known.items():
        for run in each:
            until, day = run.until or NEWEST, run.since.date()
            while day <= until.date():
                begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
                part = min(until, begin + timedelta(days=1)) - max(run.since, begin)
                if part > timedelta() or run.since == until:
                    cell = found[day, namespace, run.queue, run.cluster]
                    hours = Fraction(part // timedelta(microseconds=1), 3_600_000_000)
                    cell[0], cell[1] = cell[0] + 1, cell[1] + hours
                    for name, amount in msgspec.json.decode(run.resources or "{}", type=dict[str, Decimal]).items():
                        cell[2][name] = cell[2].get(name, 0) + Fraction(amount) * hours
                day += timedelta(days=1)
    return found


@given(st.lists(st.tuples(names, st.lists(runs(), max_size=3)), max_size=8))
def test_what_is_put_anew_takes_the_place_of_what_was(steps: list[tuple[tuple[str, str], list[Run]]]) -> None:
    hours, known = Hours(), dict[tuple[str, str], list[Run]]()
    for name, each in steps:
        fits = [run for run in each if run.until is not None or run.since <= NEWEST]
        hours.put([(*name, fits)])
        known[name] = fits
    shown = {
        (row["day"], row["namespace"], row["queue"], row["cluster"]): row
        for row in hours.rows(FIRST, LAST, None, NEWEST)
    }
    wanted = expected(known)
    assert shown.keys() == wanted.keys()
    for place, (count, time, amounts) in wanted.items():
        assert shown[place]["runs"] == count
        assert abs(Fraction(shown[place]["run_hours"]) - time) <= Fraction(1, 20_000)
        for name, amount in amounts.items():
            assert abs(Fraction(shown[place]["resource_hours"][name]) - amount) <= Fraction(1, 20_000)
    hours.put([(*name, []) for name in known])
    assert list(hours.rows(FIRST, LAST, None, NEWEST)) == []
    hours.close()


def test_only_what_was_asked_for_is_added_up() -> None:
    hours, day = Hours(), datetime(2026, 1, 2, tzinfo=UTC)
    for namespace, later in (("team-a", 0), ("team-b", 0), ("team-a", 1)):
        since = day + timedelta(days=later)
        hours.put([(namespace, f"run-{later}", [Run("q", "east", since, since + timedelta(hours=2), '{"cpu": 2}')])])
    (row,) = hours.rows(date(2026, 1, 2), date(2026, 1, 3), ["team-a"], NEWEST)
    assert (row["namespace"], row["runs"], row["run_hours"]) == ("team-a", 1, Decimal(2))
    assert row["resource_hours"] == {"cpu": Decimal(4)}
    assert len(list(hours.rows(date(2026, 1, 1), date(2026, 1, 4), None, NEWEST))) == 3
    hours.close()


def test_an_amount_that_no_run_says_is_unknown() -> None:
    hours = Hours()
    hours.put([("team-a", "one", [Run("q", "east", NEWEST - timedelta(hours=1), NEWEST, None)])])
    (row,) = hours.rows(FIRST, LAST, None, NEWEST)
    assert row["resource_hours"] is None
    hours.close()


def test_a_run_that_began_after_the_newest_event_that_is_known_has_its_row() -> None:
    """The database is asked for runs, and may be ahead of what was followed."""
    hours = Hours()
    hours.put([("team-a", "one", [Run("q", "east", NEWEST + timedelta(seconds=1), None, '{"cpu": 1}')])])
    (row,) = hours.rows(FIRST, LAST, None, NEWEST)
    assert (row["runs"], row["run_hours"]) == (1, 0)
    hours.close()


def by_place(rows: Any) -> dict[Any, Any]:
    def plain(row: Any) -> Any:
        hours = row["resource_hours"]
        return row["runs"], row["run_hours"], hours and {name: Decimal(str(amount)) for name, amount in hours.items()}

    return {(row["day"], row["namespace"], row["queue"], row["cluster"]): plain(row) for row in rows}


async def test_followed_hours_are_those_of_the_view(database_url: str) -> None:
    """From half of a log on, with all that happens in the other half: outages, runs that end, runs on two clusters."""
    events = [msgspec.structs.replace(one, caused_by=0) for one in story().appended]
    await write(database_url, events[:200], types=READ)
    with served(database_url) as pages:
        follower = pages.app.state.site.follower  # type: ignore[attr-defined]
        for upto in (240, 300, len(events)):
            await write(database_url, events[follower.position : upto], types=READ)
            while follower.position < upto:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(wait_for_hours, follower)
            with LogReader.connect(database_url) as reader:
                said = by_place(reader.rows("SELECT * FROM audit.usage WHERE log = %(log)s"))
            assert by_place(follower.usage.found(date(1970, 1, 1), date(2100, 1, 1), None).rows) == said != {}


async def test_nobody_sees_a_position_before_the_hours_up_to_it_are_incomplete(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [msgspec.structs.replace(one, caused_by=0) for one in story().appended]
    await write(database_url, events[:200], types=READ)
    with served(database_url) as pages:
        follower = pages.app.state.site.follower  # type: ignore[attr-defined]
        before, told = follower.usage.changed, list[int]()

        def changed(names: Any, newest: datetime) -> None:
            told.append(follower.position)
            before(names, newest)

        monkeypatch.setattr(follower.usage, "changed", changed)
        await write(database_url, events[200:], types=READ)
        while follower.position < len(events):
            await asyncio.sleep(0.01)
        assert told[0] == 200
        assert len(events) not in told


async def test_hours_that_are_not_all_there_say_so(database_url: str) -> None:
    await write(database_url, [msgspec.structs.replace(one, caused_by=0) for one in story().appended], types=READ)
    with served(database_url) as pages:
        assert pages.get("/api/v1/usage?days=3660").json()["complete"] is True
        keeper = pages.app.state.site.follower.usage  # type: ignore[attr-defined]
        keeper._walk.over, keeper._walk.reached = False, None
        keeper._step = lambda _reader: False
        assert pages.get("/api/v1/usage?days=3660").json()["complete"] is False
        assert "What is shown is not all yet" in pages.get("/usage?days=3660").text


async def test_an_amount_that_is_no_quantity_is_left_out(database_url: str) -> None:
    script = Script("a")
    for name, requests in (("odd-0a1b2", {"cpu": "2", "example.com/odd": "abc"}), ("even-0a1b2", {"cpu": "3"})):
        life = script.workload(name)
        life.local = {"requests": {"main": requests}, "size": {"main": 1}}
        life.runs("a").finishes("a")
    await write(database_url, script.appended, types=READ)
    with LogReader.connect(database_url) as reader:
        (told,) = usage(reader, ["namespace"], None, None)
    assert set(told["resource_hours"]) == {"cpu"}
    with served(database_url) as client:
        (row,) = client.get("/api/v1/usage").json()["rows"]
        assert set(row["resource_hours"]) == {"cpu"}


async def test_what_cannot_be_added_up_is_not_said_to_be(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the rest goes on once it can be."""
    await write(database_url, Script("a").workload("train-0a1b2").runs("a").script.appended, types=READ)
    put, broken = Hours.put, [True]

    def failing(self: Hours, found: Any) -> None:
        if broken[0]:
            raise ValueError("whatever a run holds")
        put(self, found)

    monkeypatch.setattr(Hours, "put", failing)
    monkeypatch.setattr("controlplane.pages.usage_keeper._PAUSE", 0.05)
    settings = Settings()
    follower = Follower(connector(settings, database_url), settings)
    follower.start()
    try:
        until_ready(follower)
        await asyncio.sleep(0.5)
        assert not follower.usage.found(FIRST, LAST, None).complete
        broken[0] = False
        wait_for_hours(follower)
    finally:
        follower.stop()
