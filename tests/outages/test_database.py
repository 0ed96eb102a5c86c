"""The database goes away, comes back, refuses to write, or loses a reply: the service waits, says so, and resumes by
itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controlplane.controllers.connectivity.local_connection import service_started
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.kube.kinds import LOCAL_QUEUES
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append, LogHead, LogUnavailable
from controlplane.log.postgres import PostgresLog
from controlplane.settings.model import WebhookSettings
from tests.outages.stage import ROLE, Replica, Stage, settings
from tests.outages.test_claimed import knows
from tests.outages.wire import Wire
from tests.support.deep import deep_after
from tests.support.waiting import PATIENCE

Make = Callable[..., Awaitable[Stage]]
LEADING = ("take_epoch(text, text, uuid, text)", "renew_epoch(text, bigint, uuid, boolean)")
JOBS_ = [f"train-{number}" for number in range(6)]


@pytest.fixture
async def wired(
    database_url: str, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., Awaitable[tuple[Stage, Wire]]]]:
    """A stage whose service reaches the database over a wire that can break."""
    made: list[tuple[Stage, Wire]] = []

    async def make(*workers: str, **more: Any) -> tuple[Stage, Wire]:
        wire = Wire(database_url)
        quick_lead = {"lease": 2.0, "renew": 0.4}
        stage = Stage(database_url, tmp_path, *workers, reach=await wire.start(), ports=quick_lead, **more)
        made.append((stage, wire))
        await stage.start()
        return stage, wire

    yield make
    for stage, wire in made:
        wire.set("whole")
        await stage.stop()
        await wire.stop()


async def all_done(on: Stage) -> None:
    for name in JOBS_:
        await on.done(name)
    assert on.left() == []
    assert all(len(on.witness.starts[name]) == 1 for name in JOBS_)


@pytest.mark.parametrize("how", deep_after(1, ["cut", "silent"]))
async def test_nothing_is_done_while_the_database_is_away(wired: Callable[..., Any], how: Any) -> None:
    """What cannot be remembered is not done: watches wait, effects stop, and everything goes on where it was."""
    served = WebhookSettings(certificate="server.crt", key="server.key")
    on, wire = await wired("a", "b", settings=msgspec.structs.replace(settings(), webhook=served))
    (queue,) = [one["metadata"]["name"] for one in on.manager.store.list(LOCAL_QUEUES)[0]]
    on.submit_for("train-0")
    winner = await on.running(name="train-0")
    await on.until(lambda: knows(on.replica, queue), "the queue to be known")
    health = on.replica.health
    wire.set(how)
    on.submit("train-1")
    await on.until(lambda: not health.ready, "not ready")
    assert not health.checks["database"].ok
    await asyncio.sleep(1.7)  # a lead without a heartbeat ends
    on.forget_counts()
    on.end(winner, name="train-0")
    await on.quiet(0.5)
    assert on.writes() == 0
    assert health.ready_without({"database"}), "the webhook goes on answering, by what was folded before"
    assert knows(on.replica, queue)
    assert not on.finished(name="train-0")
    assert not on.clones(name="train-1")
    assert not on.replica.task.done()  # alive, and not ready
    wire.set("whole")
    await on.until(lambda: health.ready, "ready again")
    await on.done("train-0")
    await on.running(name="train-1")


async def test_the_database_away_while_nothing_happens_is_noticed(wired: Callable[..., Any]) -> None:
    """A process that had nothing to write stayed ready with its database gone."""
    on, wire = await wired("a")
    await on.quiet(0.3)
    wire.set("cut")
    await on.until(lambda: not on.replica.health.ready, "not ready")
    wire.set("whole")
    await on.until(lambda: on.replica.health.ready, "ready again")
    assert on.query("SELECT epoch FROM controlplane.log_head") == [(1,)]  # nobody else wanted the lead


async def test_an_append_whose_reply_was_lost_is_not_repeated(wired: Callable[..., Any]) -> None:
    """Whether a commit had happened was unknown, and was taken for no (FoundationDB's commit_unknown_result)."""
    on, wire = await wired("a", "b")
    wire.replies_to_lose = 5
    for name in JOBS_:
        on.submit_for(name, "300ms")
    await all_done(on)
    assert wire.lost == 5


@pytest.mark.deep
async def test_broken_connections_are_opened_anew(stage: Make) -> None:
    """A pool or a listener that did not reconnect is the commonest fault of queues on PostgreSQL."""
    on = await stage("a", "b")
    for name in JOBS_:
        on.submit_for(name, "300ms")
        on.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
            "pg_backend_pid()"
        )
        await asyncio.sleep(0.1)
    await all_done(on)
    assert len(on.replica.database.opened) > 3


@contextlib.contextmanager
def refusing(on: Stage, state: str) -> Any:
    """Let every append fail with a SQLSTATE."""
    on.execute(
        "CREATE FUNCTION controlplane.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" RAISE EXCEPTION 'simulated' USING ERRCODE = '{state}'; END $$"
    )
    on.execute("CREATE TRIGGER refuse BEFORE INSERT ON controlplane.events EXECUTE FUNCTION controlplane.refuse()")
    try:
        yield
    finally:
        on.execute("DROP FUNCTION controlplane.refuse() CASCADE")


@pytest.mark.parametrize("state", deep_after(1, ["25006", "53100", "57P03"]))
async def test_a_database_that_cannot_write_is_waited_for(stage: Make, state: str) -> None:
    """A server that was failed over (read-only), is out of disk or still recovers refuses appends, and answers reads
    all the while.
    """
    on = await stage("a", "b")
    health = on.replica.health
    await on.quiet(0.5)
    with refusing(on, state):
        for name in JOBS_:
            on.submit_for(name, "200ms")
        await on.until(lambda: not health.ready, "not ready")
        for _ in range(20):
            await asyncio.sleep(0.05)
            assert not health.ready
        assert on.written() == {}
    await on.until(lambda: health.ready, "ready again")
    await all_done(on)


async def test_a_lead_that_the_database_refuses_is_told_by_whoever_leads_and_whoever_follows(
    stage: Make, tmp_path: Path
) -> None:
    """The right to the functions is missing (a migration on its way, a restored schema without its grants), while reads
    are answered."""
    on = await stage("a")
    follower = Replica(on.url, tmp_path / "management.kubeconfig", settings(), "follower")
    on.replicas.insert(0, follower)  # the last one is the process that leads
    await on.until(lambda: follower.health.ready, "it follows")
    for name in LEADING:
        on.execute(f"REVOKE EXECUTE ON FUNCTION controlplane.{name} FROM controlplane_service, PUBLIC")
    for health, check in ((on.replica.health, "database"), (follower.health, "leader")):
        await on.until(lambda h=health, c=check: "permission denied" in h.checks[c].detail, f"what is said of {check}")
        assert not health.ready
    for name in LEADING:
        on.execute(f"GRANT EXECUTE ON FUNCTION controlplane.{name} TO controlplane_service")
    await on.until(lambda: on.replica.health.ready and follower.health.ready, "both are ready again")


async def test_a_database_that_goes_away_during_a_takeover_ends_no_process(
    stage: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between taking the lead and having read the log up to it, the database does not answer: the process follows
    again.
    """
    on = await stage("a", "b")
    await on.kill()
    lead, read = PostgresLog.lead, PostgresLog.read
    strikes = ["once"]

    async def take(log: PostgresLog, holder: str, lease: float) -> LogHead | None:
        if strikes:
            monkeypatch.setattr(PostgresLog, "read", nothing)
            async with PostgresLog(Database(on.url, ROLE), Codec(MultiKueueController.types)) as other:
                await other.assist()
                await other.append(Append([service_started(1, "somebody", "1")]))  # so that there is something to read
        head = await lead(log, holder, lease)
        if head is not None and strikes:
            strikes.clear()
            monkeypatch.setattr(PostgresLog, "read", fail)
            on.submit("train-0")
        return head

    async def nothing(log: PostgresLog, after: int, limit: int = 2000) -> Any:
        return []

    async def fail(log: PostgresLog, after: int, limit: int = 2000) -> Any:
        monkeypatch.setattr(PostgresLog, "read", read)
        raise LogUnavailable("the database does not answer: simulated")

    monkeypatch.setattr(PostgresLog, "lead", take)
    await on.up(ready=False)
    await on.until(lambda: not strikes, "the fault")
    on.execute("UPDATE controlplane.log_head SET renewed_at = '-infinity'")
    await on.running(name="train-0")


async def test_a_service_can_be_stopped_while_the_database_is_away(wired: Callable[..., Any]) -> None:
    """Stopping waits for nothing that will not come."""
    on, wire = await wired("a", settings=settings())
    wire.set("cut")
    on.submit("train-0")
    await on.until(lambda: not on.replica.health.ready, "not ready")
    async with asyncio.timeout(PATIENCE):
        await on.replica.stop()
