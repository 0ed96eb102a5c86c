"""A process starts from the newest snapshot that is sound, and reads the rest; it keeps one now and then, and never
holds the event loop for long."""

from __future__ import annotations

import asyncio
import gc
import re
import tomllib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from structlog.testing import capture_logs

from controlplane.app.hosted import TYPES, HostedControllers
from controlplane.clock import SystemClock
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.log import snapshots as pages
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append, LogArchived, NewEvent, Recorded
from controlplane.log.postgres import PostgresLog
from controlplane.log.schema import libpq_url
from controlplane.log.snapshots import PostgresSnapshots
from controlplane.runtime import ended
from controlplane.runtime import fold_version as versions
from controlplane.runtime.fold_version import fold_version
from controlplane.runtime.router import ControllerRouter
from controlplane.runtime.snapshots import Snapshots, Start
from controlplane.settings import Settings
from controlplane.tasks import end
from tests.interface.logs import recorded, written
from tests.log.words import ROLE, until
from tests.support import folded
from tests.support.deep import deep_after

SETTINGS = Settings()
HINTS = ("newest._gone", "_dirty", "_answers._answers", "index._rested")  # see tests/dst/test_ended_streams.py
ROOT = Path(__file__).parents[2]


def events_of(name: str) -> list[Recorded]:
    codec = Codec(TYPES)
    return [recorded(line, codec) for line in written(name)]


class Replica:
    """One process: its log, its controllers, its snapshots."""

    def __init__(self, url: str, every: int = 100, fold: str = "f1") -> None:
        self.log = PostgresLog(Database(url, ROLE), Codec(TYPES))
        self.store = PostgresSnapshots(Database(url, ROLE), self.log)
        self.router: ControllerRouter = HostedControllers(SETTINGS).router
        self.snapshots = Snapshots(self.store, self.router, self.log.traces, fold, SystemClock(), every)
        self.position = 0

    async def start(self, **more: Any) -> Start | None:
        start = await self.snapshots.restore(**more)
        self.position = start.position if start is not None else 0
        return start

    async def start_with_what_is_left(self) -> int:
        """Return how many events were read."""
        assert await self.snapshots.restore() is None
        if await self.snapshots.left() is None:
            return 0
        count = 0
        while (page := await self.snapshots.next_left(self.position)) is not None:
            folded.folded(self.router, page.events)
            self.position, count = page.looked_to, count + len(page.events)
        return count

    async def follow(self, upto: int = 1 << 40) -> None:
        while self.position < upto and (events := await self.log.read(self.position, min(50, upto - self.position))):
            folded.folded(self.router, events)
            self.position = events[-1].position
            self.snapshots.folded(events)

    async def close(self) -> None:
        await self.snapshots.end(orderly=False)
        await self.log.close()


class Stage:
    def __init__(self, url: str) -> None:
        self.url = url
        self.replicas: list[Replica] = []

    def replica(self, **more: Any) -> Replica:
        self.replicas.append(Replica(self.url, **more))
        return self.replicas[-1]

    def run(self, statement: str) -> list[Any]:
        with psycopg.connect(libpq_url(self.url), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def there(self) -> list[int]:
        return [row[0] for row in self.run("SELECT DISTINCT position FROM controlplane.snapshots ORDER BY 1")]


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    """A log that a service wrote, and nobody who has read it."""
    async with PostgresLog(Database(database_url, ROLE), Codec(TYPES)) as log:
        await log.take_epoch("one")
        events: Any = events_of("workloads-5")
        for first in range(0, len(events), 10):  # each ten a batch
            some = events[first : first + 10]
            await log.append(
                Append(
                    [NewEvent(stream=e.stream, event=e.event, cluster=e.cluster, trace=f"{e.position:x}") for e in some]
                )
            )
    one = Stage(database_url)
    yield one
    for replica in one.replicas:
        await replica.close()


async def whole(stage: Stage) -> Replica:
    replica = stage.replica()
    await replica.follow()
    return replica


async def test_who_starts_from_a_snapshot_is_where_whoever_reads_it_all_is(stage: Stage) -> None:
    first = stage.replica()
    await first.follow(200)
    await first.snapshots.keep()
    assert stage.there() == [200]
    started = await whole(stage)
    replica = stage.replica()
    at = datetime.now(UTC)
    start = await replica.start()
    assert start is not None
    assert start.position == 200
    assert start.recorded_at <= at
    await replica.follow()
    assert replica.position == started.position > 200
    assert folded.unlike(started.router, replica.router) == {}
    assert folded.asked(started.router) == folded.asked(replica.router)
    last = replica.position
    assert [replica.log.traces.of(n) for n in (1, 199, last)] == [started.log.traces.of(n) for n in (1, 199, last)]
    assert replica.log.traces.of(199)


async def test_nothing_is_kept_before_the_end_of_the_log_was_reached(stage: Stage) -> None:
    replica = stage.replica(every=50)
    running = asyncio.create_task(replica.snapshots.run())
    await replica.follow()
    await asyncio.sleep(0.4)
    assert stage.there() == []
    replica.snapshots.reached_end()
    await until(lambda: bool(stage.there()))
    assert stage.there() == [replica.position]
    await end(running)


async def test_of_two_replicas_one_keeps_it(stage: Stage) -> None:
    one, other = await whole(stage), await whole(stage)
    await one.snapshots.keep()
    written_at = stage.run("SELECT max(written_at) FROM controlplane.snapshots")
    await other.snapshots.keep()
    assert stage.run("SELECT max(written_at) FROM controlplane.snapshots") == written_at


async def test_the_last_one_is_kept_at_an_orderly_end(stage: Stage) -> None:
    for orderly, kept in ((False, 0), (True, 1)):
        replica = await whole(stage)
        replica.snapshots.reached_end()
        await replica.snapshots.end(orderly=orderly)
        assert len(stage.there()) == kept


@pytest.mark.parametrize(
    "damage",
    deep_after(
        1,
        [
            "UPDATE controlplane.snapshots SET data = 'x' WHERE position = 300 AND part = 'multikueue'",
            "DELETE FROM controlplane.snapshots WHERE position = 300 AND part = '@router'",
            "UPDATE controlplane.snapshots SET part = 'quota' WHERE position = 300 AND part = 'multikueue'",
        ],
    ),
)
async def test_a_damaged_one_is_passed_over_and_nothing_of_it_stays(stage: Stage, damage: str) -> None:
    replica = stage.replica(every=10)
    for position in (200, 300):
        await replica.follow(position)
        await replica.snapshots.keep()
    stage.run(damage)
    after = stage.replica()
    with capture_logs() as said:
        start = await after.start()
    assert start is not None
    assert start.position == 200
    assert [one["position"] for one in said if one["event"] == "a snapshot is not used"] == [300]
    await after.follow()
    assert folded.unlike((await whole(stage)).router, after.router) == {}


async def test_one_of_another_fold_is_not_used(stage: Stage) -> None:
    replica = await whole(stage)
    await replica.snapshots.keep()
    other = stage.replica(fold="f2")
    assert await other.start() is None
    assert folded.unlike(HostedControllers(SETTINGS).router, other.router) == {}


async def over_and_over(url: str) -> list[Recorded]:
    """Append a log in which much is over, and later events of a cluster, by which the time of the log goes on."""
    events = events_of("workloads-23")
    beat = next(one for one in events if one.stream.startswith("cluster/"))
    async with PostgresLog(Database(url, ROLE), Codec(TYPES)) as log:
        await log.take_epoch("one")
        for one in [*events, *[beat] * 3]:
            await log.append(Append([NewEvent(stream=one.stream, event=one.event, cluster=one.cluster)]))
    return events


async def test_another_version_reads_no_stream_that_is_over(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events = await over_and_over(database_url)
    monkeypatch.setattr(MultiKueueController, "forgets_after", timedelta(0))
    stage = Stage(database_url)
    first = await whole(stage)
    await first.snapshots.keep()
    other = stage.replica(fold="f2", every=10)
    with capture_logs() as said:
        count = await other.start_with_what_is_left()
    assert [one["event"] for one in said][-1] == "starting without the streams that are over"
    assert 0 < count < len(events) - 50
    assert other.position == first.position
    for one, two in zip(first.router.registrations, other.router.registrations, strict=True):
        differs = folded.difference(one.controller, two.controller)
        assert {path for path in differs if not path.endswith(HINTS)} == set()
    # It goes on, keeps one of its own, from which it starts next, and says the same of the streams.
    await other.follow()
    await other.snapshots.keep()
    again = stage.replica(fold="f2")
    assert await again.start() is not None
    third = stage.replica(fold="f3")
    assert await third.start_with_what_is_left() == count
    for replica in stage.replicas:
        await replica.close()


async def test_events_that_leave_the_log_meanwhile_end_such_a_start(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await over_and_over(database_url)
    monkeypatch.setattr(pages, "_NEEDED_AT_ONCE", 50)
    stage = Stage(database_url)
    await (await whole(stage)).snapshots.keep()
    other = stage.replica(fold="f2")
    assert await other.snapshots.left() is not None
    page = await other.snapshots.next_left(0)
    assert page is not None
    assert len(page.events) == 50
    stage.run("UPDATE controlplane.log_head SET archived_to = 60")
    with pytest.raises(LogArchived):
        await other.snapshots.next_left(page.looked_to)
    for replica in stage.replicas:
        await replica.close()


async def test_what_is_left_is_not_believed_of_other_rules(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await over_and_over(database_url)
    stage = Stage(database_url)
    first = await whole(stage)
    await first.snapshots.keep()
    with monkeypatch.context() as other_rules:
        other_rules.setattr(ended, "RULES", ended.RULES + 1)
        assert await stage.replica(fold="f2").start_with_what_is_left() == 0
    with monkeypatch.context() as longer:
        longer.setattr(MultiKueueController, "forgets_after", timedelta(days=700))
        assert await stage.replica(fold="f2").start_with_what_is_left() == 0
    stage.run("UPDATE controlplane.snapshots SET data = 'x' WHERE part = '@streams'")
    assert await stage.replica(fold="f2").start_with_what_is_left() == 0
    for replica in stage.replicas:
        await replica.close()


async def test_where_the_log_went_back_what_was_lost_is_no_start(stage: Stage) -> None:
    replica = stage.replica(every=10)
    for position in (200, 300):
        await replica.follow(position)
        await replica.snapshots.keep()
    start = await stage.replica().start(upto=250)
    assert start is not None
    assert start.position == 200


async def test_a_database_that_refuses_stops_nobody(stage: Stage) -> None:
    replica = await whole(stage)
    stage.run("DROP FUNCTION controlplane.keep_snapshot")
    with capture_logs() as said:
        await replica.snapshots.keep()
    assert [one["event"] for one in said] == ["no snapshot was kept"]


async def test_what_cannot_be_kept_stops_nobody(stage: Stage) -> None:
    replica = await whole(stage)
    fleet: Any = replica.router.registrations[0].controller
    fleet.index.position = object()
    with capture_logs() as said:
        await replica.snapshots.keep()
    assert [one["event"] for one in said] == ["no snapshot was kept"]
    assert stage.there() == []


async def test_the_collector_is_as_it_was(stage: Stage) -> None:
    replica = await whole(stage)
    await replica.snapshots.keep()
    assert gc.isenabled()
    await stage.replica().start()
    assert gc.isenabled()


async def test_a_leader_asks_about_what_it_had_asked_about_before(stage: Stage) -> None:
    """Whose timers are gone with the process that had set them."""
    leader = await whole(stage)
    first = folded.asked(leader.router)
    assert leader.router.take_dirty() == []
    await leader.snapshots.keep()
    replica = stage.replica()
    await replica.start()
    assert folded.asked(replica.router) == first != []
    assert replica.router.take_dirty() == []


# --- which fold it is -------------------------------------------------------------------------------------------------


def test_settings_that_a_fold_may_ask_make_another_fold() -> None:
    one = fold_version(SETTINGS, ["multikueue"])
    kinds = msgspec.structs.replace(SETTINGS.multikueue, kinds=("batch/job",))
    assert fold_version(msgspec.structs.replace(SETTINGS, multikueue=kinds), ["multikueue"]) != one
    assert fold_version(SETTINGS, ["multikueue", "quota"]) != one


def test_two_replicas_have_one_fold() -> None:
    leader = msgspec.structs.replace(SETTINGS.leader, identity="another")
    http = msgspec.structs.replace(SETTINGS.http, port=9)
    web = msgspec.structs.replace(SETTINGS.web, serve="yes", port=9)  # one may serve the pages, and the other not
    tracing = msgspec.structs.replace(SETTINGS.tracing, endpoint="http://collector:4318")
    other = msgspec.structs.replace(SETTINGS, leader=leader, http=http, web=web, tracing=tracing)
    assert fold_version(other, ["multikueue"]) == fold_version(SETTINGS, ["multikueue"])


def test_other_source_is_another_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    one = fold_version(SETTINGS, ["multikueue"])
    monkeypatch.setattr(versions, "source_digest", lambda: "other")
    assert fold_version(SETTINGS, ["multikueue"]) != one


def test_what_a_fold_cannot_ask_is_no_part_of_it() -> None:
    """All that may be imported by a controller is: the contracts have these folders above them."""
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    controllers = next(at for at, layer in enumerate(layers) if "controlplane.controllers." in layer)
    above = {name.split(".")[1] for layer in layers[:controllers] for name in re.split(r" [|:] ", layer)}
    below = {name.split(".")[1] for layer in layers[controllers:] for name in re.split(r" [|:] ", layer)}
    assert above - below >= versions._ABOVE
