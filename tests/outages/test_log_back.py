"""The log under a running service: restored from a backup, refused by a clock that jumped, or answering with errors
instead of dying.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from controlplane.app.hosted import TYPES
from controlplane.controllers.connectivity.local_connection import service_stopped
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append
from controlplane.log.postgres import PostgresLog
from controlplane.log.schema import libpq_url
from controlplane.runtime.gate import Gate
from tests.log.test_log_replaced import _TABLES as TABLES
from tests.outages.stage import Replica, Stage, settings
from tests.outages.test_database import JOBS_, all_done, wired
from tests.support.deep import deep_after

__all__ = ["wired"]

Make = Callable[..., Awaitable[Stage]]

_APPENDS = (
    "DO $$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE proname IN ('append_batch', "
    "'known_to_log') AND pronamespace = 'controlplane'::regnamespace LOOP EXECUTE format('{}', f); END LOOP; END $$"
)
FAULTS = {
    "right revoked": (
        _APPENDS.format("REVOKE EXECUTE ON FUNCTION %%s FROM controlplane_service"),
        _APPENDS.format("GRANT EXECUTE ON FUNCTION %%s TO controlplane_service"),
    ),
    "table renamed": (
        "ALTER TABLE controlplane.sources RENAME TO sources_away",
        "ALTER TABLE controlplane.sources_away RENAME TO sources",
    ),
    "reads refused": (
        "REVOKE SELECT ON controlplane.events FROM controlplane_service",
        "GRANT SELECT ON controlplane.events TO controlplane_service",
    ),
}


@pytest.mark.parametrize("fault", deep_after(1, FAULTS))
async def test_an_answer_that_is_an_error_is_waited_for_and_nothing_is_passed_over(
    stage: Make, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was seen while the log refused it was logged, and lost for good: a third of the jobs never ended."""
    on = await stage("a", "b")
    began, ended = FAULTS[fault]
    health = on.replica.health
    refused: list[str] = []  # what ever spoke against acting: of a leader that reads once readiness may not tell
    told = Gate.set

    def note(gate: Gate, reason: str, ok: bool, detail: str = "") -> None:
        told(gate, reason, ok, detail)
        refused.extend([] if ok else [reason])

    monkeypatch.setattr(Gate, "set", note)
    for name in JOBS_[:2]:
        on.submit_for(name, "200ms")
    on.execute(began)
    if fault == "reads refused":  # what the leader appended itself it does not read
        async with PostgresLog(Database(on.url), Codec(TYPES)) as beside:
            await beside.assist()
            await beside.append(Append([service_stopped(0, "somebody beside it")]))
    for name in JOBS_[2:]:
        on.submit_for(name, "200ms")
    await on.until(lambda: refused, "the gate closed")
    await asyncio.sleep(1.0)
    # What the leader appends itself it need not read: with that alone it works on.
    assert fault == "reads refused" or not health.ready
    assert not on.replica.task.done()
    on.execute(ended)
    await on.until(lambda: health.ready, "ready again")
    await all_done(on)


@contextlib.contextmanager
def restored(on: Stage) -> Iterator[Callable[[], None]]:
    """A base backup of the log, and a function that restores it under the running service."""
    with psycopg.connect(libpq_url(on.url)) as connection:
        for name in TABLES:
            table = sql.Identifier(name)
            connection.execute(sql.SQL("CREATE TABLE public.{0} AS TABLE controlplane.{0}").format(table))

    def restore() -> None:
        with psycopg.connect(libpq_url(on.url)) as connection:
            for name in TABLES:
                table = sql.Identifier(name)
                connection.execute(sql.SQL("TRUNCATE controlplane.{0}").format(table))
                connection.execute(sql.SQL("INSERT INTO controlplane.{0} TABLE public.{0}").format(table))

    yield restore


async def test_a_log_that_went_back_is_noticed_and_what_it_lost_is_recorded_anew(stage: Make) -> None:
    """A reader that was ahead of the restored log waited for ever, and was ready all the while."""
    on = await stage("a", "b", settings=settings(lost=30.0))
    on.submit_for("train-0")
    before = await on.running(name="train-0")
    with restored(on) as restore:
        position = on.position
        for name in JOBS_[1:4]:
            on.submit_for(name, "300ms")
        for name in JOBS_[1:4]:
            await on.done(name)
        on.submit_for("train-4")
        await on.running(name="train-4")
        restore()
        await on.until(lambda: bool(on.said("LogWentBack")), "the break in the log")
    (said,) = on.said("LogWentBack")
    assert said["ends_at"] == position
    assert said["read_to"] > position
    on.submit_for("train-5", "200ms")
    await on.done("train-5")
    on.end(before, name="train-0")
    await on.done("train-0")
    on.end(await on.running(name="train-4"), name="train-4")
    await on.done("train-4")
    assert all(len(on.witness.starts[name]) == 1 for name in JOBS_)
    await on.until(lambda: on.left() == [], "nothing left on the workers")
    assert on.replica.health.ready


@pytest.mark.deep
async def test_a_follower_notices_too_and_says_it_when_it_leads(stage: Make) -> None:
    on = await stage("a")
    leader = on.replica
    follower = await on.up(ready=False)
    with restored(on) as restore:
        on.submit_for("train-0", "200ms")
        await on.done("train-0")
        await on.until(
            lambda: follower.service.fleet is not None and bool(follower.service.fleet.index.workloads), "warm"
        )
        await leader.kill()
        restore()
        await on.until(lambda: follower.leads and follower.health.ready, "the follower leads")
    assert [said["seen_by"] for said in on.said("LogWentBack")] == [follower.name]


@pytest.mark.parametrize("jump", deep_after(1, ["1 hour", "-1 hour"]))
async def test_a_jump_of_the_database_s_clock_keeps_nobody_from_the_lead(stage: Make, jump: str) -> None:
    """The last sign of a leader that died lay an hour ahead: there was none for as long."""
    on = await stage("a")
    await on.up(ready=False)
    await on.replicas[0].kill()
    on.execute("UPDATE controlplane.log_head SET renewed_at = clock_timestamp() + %s::interval", jump)
    await on.until(lambda: on.replica.leads and on.replica.health.ready, "a leader")


def folded(replica: Replica) -> int:
    """Up to where a process has folded the log."""
    return replica.service.fleet.index.position if replica.service.fleet is not None else 0


@pytest.mark.deep
async def test_a_follower_that_cannot_read_is_not_ready(wired: Callable[..., Any]) -> None:
    """With the server's processes stopped, a read had no limit: the follower hung, and stayed ready."""
    on, wire = await wired("a")
    follower = await on.up(ready=False)
    await on.until(lambda: folded(follower) >= on.position, "a follower that has read the log")
    await asyncio.sleep(1.5)  # it has its connections by now
    assert follower.health.ready
    wire.set("silent")
    await on.until(lambda: not follower.health.ready, "not ready")
    await on.until(lambda: not on.replicas[0].health.ready, "not ready")
    wire.set("whole")
    await on.until(lambda: follower.health.ready and on.replicas[0].health.ready, "both ready again")
    on.submit_for("train-0", "200ms")
    await on.done("train-0")


async def test_an_event_that_nobody_can_fold_stops_nobody(stage: Make) -> None:
    on = await stage("a")
    on.execute(
        "WITH head AS (UPDATE controlplane.log_head SET position = position + 1 RETURNING position), batch AS ("
        " INSERT INTO controlplane.batches (log, first, last, batch, epoch, recorded_at)"
        " SELECT 'main', position, position, gen_random_uuid(), 1, now() FROM head)"
        " INSERT INTO controlplane.events (log, position, stream, version, type, schema, data, recorded_at)"
        " SELECT 'main', position, 'workload/x', 1, 'Nobody', 1, '{}', now() FROM head"
    )
    on.submit_for("train-0", "200ms")
    await on.done("train-0")
    await on.kill()
    await on.up()
    on.submit_for("train-1", "200ms")
    await on.done("train-1")
    assert on.replica.metrics.registry.get_sample_value("controlplane_log_streams_left_alone") == 1.0
