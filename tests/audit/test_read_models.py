"""What is kept of Workloads that are over is what the views say of them without it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import errors

from controlplane.audit.reads import READ
from controlplane.dst.play import plan_of
from controlplane.log.connect import Database
from controlplane.log.event import LogUnavailable
from controlplane.log.read_models import PostgresReadModels
from controlplane.runtime.read_models import keep_read_models
from tests.audit.database import keep
from tests.audit.script import Life, Script, write
from tests.clusters.clocks import ManualClock
from tests.docs.cookbook import PAGE, Entry, answer, entries, with_fleet
from tests.log.words import ROLE
from tests.support import postgres
from tests.support.deep import deep_after, examples
from tests.support.played import log_of
from tests.support.rows import each

VIEWS = ("workload_phases", "runs", "placements", "pending_reasons", "effects")
EVER = timedelta(days=-10_000)


def asked(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(query.encode()).fetchall()


def looked_through(url: str, events: int = 1_000_000) -> int:
    """Keep what there is to keep, whatever its age; return up to where."""
    with psycopg.connect(url) as connection:
        connection.execute(f"SET ROLE {ROLE}".encode())
        row = connection.execute("SELECT controlplane.keep_read_models('main', %s, %s)", (events, EVER)).fetchone()
    assert row is not None
    return int(row[0])


def kept(url: str) -> list[str]:
    return [name for (name,) in asked(url, "SELECT split_part(stream, '/', 3) FROM read_models.streams ORDER BY 1")]


def same(url: str) -> int:
    """Compare each view with what it says without read models; return how many rows were kept."""
    count = 0
    for view in VIEWS:
        told, live = f"SELECT * FROM audit.{view}", f"SELECT * FROM read_models.live_{view}"
        for one, other in ((told, live), (live, told)):
            assert asked(url, f"SELECT count(*) FROM ({one} EXCEPT ALL {other}) x") == [(0,)], view
        count += asked(url, f"SELECT count(*) FROM read_models.{view}")[0][0]
    return count


# --- the cookbook
# ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept_fleet_url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    for url in with_fleet(postgres_server, migrated_template):
        looked_through(url)
        yield url


@each("entry", entries(PAGE.read_text()), ids=lambda entry: entry.question)
def test_the_cookbook_is_answered_as_without(kept_fleet_url: str, entry: Entry) -> None:
    assert answer(kept_fleet_url, entry.query) == entry.answer


def test_every_view_is_as_without_and_most_of_what_is_over_is_kept(kept_fleet_url: str) -> None:
    assert same(kept_fleet_url) > 50
    over = "SELECT DISTINCT name FROM audit.workload_phases WHERE phase IN ('Finished', 'Deleted') AND until IS NULL"
    assert set(kept(kept_fleet_url)) <= {name for (name,) in asked(kept_fleet_url, over)}


def test_the_columns_that_are_kept_are_those_of_the_views(database_url: str) -> None:
    columns = (
        "SELECT attname, atttypid::regtype::text FROM pg_attribute"
        " WHERE attrelid = '{}.{}'::regclass AND attnum > 0 ORDER BY attnum"
    )
    for view in VIEWS:
        of_view, of_table = (asked(database_url, columns.format(schema, view)) for schema in ("audit", "read_models"))
        assert of_view == of_table


# --- what is kept, and for how long -----------------------------------------------------------------------------------


def over(script: Script, name: str) -> Life:
    return script.workload(name).runs("a").finishes("a")


async def test_what_goes_on_is_not_kept_and_what_is_over_is(database_url: str) -> None:
    script = Script("a")
    script.workload("runs").runs("a")
    over(script, "over")
    await write(database_url, script.appended, types=READ)
    assert looked_through(database_url) == len(script.appended)
    assert kept(database_url) == ["over"]
    assert same(database_url) > 0


async def test_rows_of_a_stream_that_went_on_are_not_shown_and_are_made_anew(database_url: str) -> None:
    script = Script("a")
    ended = over(script, "over")
    await write(database_url, script.appended, types=READ)
    looked_through(database_url)
    before = asked(database_url, "SELECT * FROM audit.workload_phases ORDER BY position")
    ended.gone()
    await write(database_url, script.appended[-1:], types=READ)
    after = asked(database_url, "SELECT phase FROM audit.workload_phases ORDER BY position")
    assert len(after) == len(before) + 1
    assert after[-1] == ("Deleted",)
    same(database_url)
    looked_through(database_url)
    assert asked(database_url, "SELECT phase FROM read_models.workload_phases ORDER BY position") == after
    same(database_url)


@pytest.mark.generated
async def test_little_by_little_and_by_age(database_url: str) -> None:
    script, workloads = Script("a"), range(examples(1, 6))
    for number in workloads:
        over(script, f"w-{number}")
    await write(database_url, script.appended, types=READ)
    assert asked(database_url, "SELECT controlplane.keep_read_models('main', 1000, interval '1 hour')") == [(0,)]
    reached, steps = 0, 0
    while reached < len(script.appended):
        reached, steps = looked_through(database_url, 7), steps + 1
        same(database_url)
    assert steps == -(-len(script.appended) // 7)
    assert kept(database_url) == [f"w-{number}" for number in workloads]


async def runs_of_one_that_is_kept(url: str) -> list[tuple[Any, ...]]:
    script = Script("a")
    over(script, "over")
    await write(url, script.appended, types=READ)
    looked_through(url)
    return asked(url, "SELECT * FROM audit.runs")


async def test_what_is_kept_outlives_the_events(database_url: str) -> None:
    told = await runs_of_one_that_is_kept(database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute("DELETE FROM controlplane.events WHERE stream LIKE 'workload/%'")
    assert asked(database_url, "SELECT * FROM audit.runs") == told != []


async def test_whoever_drops_them_loses_nothing(database_url: str) -> None:
    told = await runs_of_one_that_is_kept(database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute("SELECT controlplane.drop_read_models('main')")
    assert kept(database_url) == []
    assert same(database_url) == 0
    assert asked(database_url, "SELECT * FROM audit.runs") == told
    looked_through(database_url)
    assert kept(database_url) == ["over"]


@pytest.mark.parametrize("role", ["controlplane_reader", ROLE])
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM read_models.runs",
        "INSERT INTO read_models.streams VALUES ('main', 's', 1)",
        "UPDATE read_models.progress SET position = 9",
        "SELECT controlplane.drop_read_models('main')",
    ],
)
def test_nobody_but_the_owner_writes_them(database_url: str, role: str, statement: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(f"SET ROLE {role}".encode())
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute(statement.encode())


# --- whatever happens -------------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("seed", deep_after(1, list(range(1, 30))))
def test_what_is_kept_of_a_log_is_what_its_events_say_whatever_happens(database_url: str, seed: int) -> None:
    events = log_of(plan_of(seed))
    step = len(events) // 4
    for start in range(0, len(events), step):
        asyncio.run(keep(database_url, events[start : start + step], types=READ))
        looked_through(database_url)
        same(database_url)


# --- who keeps them ---------------------------------------------------------------------------------------------------


class Ended(Exception):  # noqa: N818 - nothing went wrong
    pass


class Away:
    """Read models whose database answers as it is told; an int is how far it came."""

    def __init__(self, *answers: int | None) -> None:
        self.answers, self.asked, self.closed = list(answers), list[int](), False

    async def keep(self, events: int, age: timedelta) -> int:
        self.asked.append(events)
        if not self.answers:
            raise Ended
        if (reached := self.answers.pop(0)) is None:
            raise LogUnavailable("the database does not answer")
        return reached

    async def close(self) -> None:
        self.closed = True


async def test_a_database_that_cannot_do_so_much_is_asked_for_less() -> None:
    clock, models = ManualClock(), Away(None, None, None, 300, 900, 900)
    with suppress(Ended):
        await keep_read_models(models, timedelta(minutes=1), clock)
    assert models.asked == [2000, 1000, 500, 250, 500, 1000, 2000]
    assert models.closed
    assert clock.sleeps == [15.0, 15.0, 15.0, 0.0, 0.0, 15.0]


async def test_the_service_keeps_them_by_its_own_rights(database_url: str) -> None:
    script = Script("a")
    over(script, "over")
    await write(database_url, script.appended, types=READ)
    models = PostgresReadModels(Database(database_url, ROLE), "main")
    assert await models.keep(1000, EVER) == len(script.appended)
    await models.close()
    assert kept(database_url) == ["over"]
