"""Ourselves: two processes on one log, one killed, paused, or asked to go, again and again, while jobs run."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controlplane.kube.kinds import JOBS, WORKLOADS
from controlplane.local.postgres import EmbeddedPostgres
from controlplane.local.replica import LocalReplica as Process
from controlplane.local.replica import free_port, variables
from controlplane.log import schema
from controlplane.log.connect import Database
from controlplane.runtime import bound
from tests.outages.stage import ROLE, Replica, Stage, settings
from tests.support import postgres
from tests.support.deep import examples
from tests.support.waiting import PATIENCE

Make = Callable[..., Awaitable[Stage]]
QUICK = {
    "CONTROLPLANE_CLUSTERS_PROBE_INTERVAL": "1s",
    "CONTROLPLANE_MULTIKUEUE_STATUS_INTERVAL": "200ms",
    "CONTROLPLANE_MULTIKUEUE_GC_INTERVAL": "1s",
    "CONTROLPLANE_LOG_LEVEL": "warning",
}


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Callable[[Stage], Process]]:
    """Make real processes of the service beside a stage."""
    made: list[Process] = []

    def make(on: Stage) -> Process:
        kubeconfig, place = tmp_path / "management.kubeconfig", Database(on.reach, ROLE)
        said = tmp_path / f"messages-{len(made)}"
        made.append(Process(variables(place, "main", kubeconfig, free_port()) | QUICK, said))
        return made[-1]

    yield make
    for process in made:
        if process.running:
            os.kill(process.pid, signal.SIGCONT)
        await process.kill()


def _follows(replica: Replica) -> bool:
    check = replica.health.checks.get("caches")
    return check is not None and check.detail == "follows"


async def test_when_the_leader_is_killed_the_other_leads(stage: Make) -> None:
    """One leads and the other follows warm; a lead that nobody renews ends by itself."""
    on = await stage("a", "b")
    first, second = on.replica, await on.up(ready=False)
    await on.until(lambda: _follows(second), "a follower")
    on.submit("train-0")
    winner = await on.running(name="train-0")
    assert (first.leads, second.leads) == (True, False)
    killed = time.monotonic()
    await first.kill()
    await on.until(lambda: second.leads, "the other leads")
    print(f"took over after {time.monotonic() - killed:.2f} s, of which the lease is 3")
    on.end(winner, name="train-0")
    await on.done("train-0")
    assert [data["holder"] for data in on.said("ServiceStarted")] == ["replica-1", "replica-2"]


async def test_a_leader_that_goes_by_itself_is_followed_at_once(stage: Make) -> None:
    """What is under way ends, the lead is handed over, and nobody waits for a lease."""
    on = await stage("a", "b")
    first, second = on.replica, await on.up(ready=False)
    await on.until(lambda: _follows(second), "a follower")
    for number in range(5):
        on.submit_for(f"train-{number}", "200ms")
    await first.stop()
    assert on.query("SELECT renewed_at = '-infinity' OR epoch = 2 FROM controlplane.log_head") == [(True,)]
    for number in range(5):
        await on.done(f"train-{number}")
    assert second.leads


async def test_a_service_that_is_cancelled_leaves_no_task_behind(stage: Make) -> None:
    """Cancelling whoever runs the service ends all of it, and it is followed like one that was asked to go."""
    on = await stage("a")
    on._task = None
    on.replica.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await on.replica.task
    assert [task for task in on.replica.tasks if not task.done()] == []
    await on.up()


def _objects(on: Stage) -> set[tuple[str, str, int]]:
    """Every Workload and Job there is, with its version."""
    return {
        (cluster, record.uid, record.version)
        for cluster, simulated in on.world.clusters.items()
        for kind in (WORKLOADS, JOBS)
        for record in simulated.store.records(kind)
    }


async def test_a_paused_leader_that_wakes_does_nothing(stage: Make, processes: Callable[[Stage], Process]) -> None:
    """A leader that had been stopped for longer than its lease went on writing when it woke."""
    on = await stage("a", "b", "c")
    await on.replica.stop()
    on._task = None
    paused = processes(on)
    await paused.start()
    await on.until(lambda: len(on.said("ServiceStarted")) == 2, "the process leads")
    await on.until(lambda: on.active("a"), "connected")
    for number in range(15):
        on.submit_for(f"train-{number}", "300ms")
    await on.until(lambda: len(on.said("JobCreationDecided")) >= 3, "in the middle of it")
    os.kill(paused.pid, signal.SIGSTOP)
    epoch = on.query("SELECT epoch FROM controlplane.log_head")[0][0]
    await on.up()
    for number in range(15):
        await on.done(f"train-{number}")
    await on.quiet(0.5)
    before = _objects(on)
    os.kill(paused.pid, signal.SIGCONT)
    await on.until(lambda: "another replica leads" in paused.messages.read_text(), "the paused one follows")
    await on.quiet(0.5)
    assert _objects(on) == before
    batches = [entry for (entry,) in on.query("SELECT epoch FROM controlplane.batches ORDER BY last")]
    assert batches == sorted(batches)
    assert batches[-1] == epoch + 1
    assert all(len(on.witness.starts[f"train-{number}"]) == 1 for number in range(15))
    assert on.left() == []


@pytest.mark.deep
@pytest.mark.generated
async def test_kill_after_kill_every_job_runs_exactly_once(stage: Make, processes: Callable[[Stage], Process]) -> None:
    """SIGKILL at random moments lost or doubled work in every second queue that was tried."""
    on = await stage("a", "b", "c")
    await on.replica.stop()
    on._task = None
    chance = random.Random(11)
    kills = examples(4, 8)
    jobs = [f"train-{number:02}" for number in range(min(kills * 4, 30))]
    process = processes(on)
    for kill in range(kills):
        await process.start()
        batch = jobs[kill * 4 : kill * 4 + 4]
        started = len(on.said("ServiceStarted"))
        if kill % 4:
            await on.until(lambda: len(on.said("ServiceStarted")) > started, "a leader")  # noqa: B023
        for name in batch:
            on.submit_for(name, f"{chance.randrange(100, 2500)}ms")
        await asyncio.sleep(chance.uniform(0.05, 1.2))
        await process.kill()
        on.execute("UPDATE controlplane.log_head SET renewed_at = '-infinity'")  # the lease runs out
    await process.start()
    for name in jobs:
        await on.done(name)
    assert {name: len(on.witness.starts[name]) for name in jobs} == dict.fromkeys(jobs, 1)
    assert on.left() == []
    assert await process.stop() == 0
    assert len(on.said("ServiceStarted")) >= kills - 1
    ends = on.query("SELECT stream, count(*) FROM controlplane.events WHERE type = 'JobCreationDecided' GROUP BY 1")
    assert {count for _, count in ends} == {1}


async def status(process: Process, path: str) -> tuple[int, Any]:
    port = process._environment["CONTROLPLANE_HTTP_PORT"]
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        body = await answer.text()
        return answer.status, json.loads(body) if body.startswith("{") else body


@pytest.mark.deep
async def test_postgresql_restarts_under_a_running_service(
    tmp_path: Path, quick: None, processes: Callable[[Stage], Process]
) -> None:
    """Alive and not ready while its server is away, and back at work when it is there again, with nobody's help."""
    with postgres.folder() as folder:
        server = EmbeddedPostgres(folder, durable=False, port=0)
        await server.start()
        schema.upgrade(server.tcp_url)
        on = Stage(server.tcp_url, tmp_path, "a", "b")
        try:
            await on.start()
            await on.replica.stop()
            on._task = None
            process = processes(on)
            await process.start()
            await process.ready(PATIENCE)
            for number in range(4):
                on.submit_for(f"train-{number}", "2s")
            await on.running(name="train-0")
            await server.stop()
            async with asyncio.timeout(PATIENCE):
                # The lead may be the first to notice: it asks the server more often than the loop does.
                while (said := await status(process, "/readyz"))[1]["checks"]["database"]["ok"]:
                    await asyncio.sleep(0.05)
            assert said[0] == 503
            assert (await status(process, "/healthz"))[0] == 200
            await server.start()
            await process.ready(PATIENCE)
            for number in range(4):
                await on.done(f"train-{number}")
            assert all(len(on.witness.starts[f"train-{number}"]) == 1 for number in range(4))
            assert await process.stop() == 0
        finally:
            if server._process is None:
                await server.start()
            await on.stop()
            await server.stop()


async def test_a_follower_whom_the_management_cluster_does_not_answer_is_not_ready(
    stage: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollout of a kubeconfig that leads nowhere would otherwise go on until no process is left that can lead."""
    monkeypatch.setattr(bound, "_AGAIN", 0.1)
    on = await stage("a")
    right, wrong = (tmp_path / "management.kubeconfig").read_text(), tmp_path / "wrong.kubeconfig"
    wrong.write_text(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{free_port()}", right))
    follower = Replica(on.url, wrong, settings(), "follower")
    on.replicas.insert(0, follower)  # the last one is the process that leads
    said = "follows, and the management cluster does not answer this process: "

    def told() -> str:
        check = follower.health.checks.get("leader")
        return check.detail if check is not None else ""

    await on.until(lambda: told().startswith(said), "what is wrong")
    assert not follower.health.ready
    assert on.replica.health.ready
    wrong.write_text(right)
    await on.until(lambda: follower.health.ready, "it is ready once it is answered")
    assert told() == "follows"
