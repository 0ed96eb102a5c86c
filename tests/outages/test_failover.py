"""The service on PostgreSQL with streaming replication: the primary is killed, and a standby is promoted that has every
commit, or lacks the last ones. The URL names all members."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from controlplane.kube.kinds import JOBS
from controlplane.local.replica import LocalReplica, free_port, variables
from controlplane.local.witness import Witness, ending
from controlplane.log.connect import Database
from controlplane.simulation.world import ClusterSpec, World
from tests.cli.processes import finished
from tests.multikueue.kep693.rig import user_job
from tests.outages.stage import Replica, Stage, settings
from tests.support.deep import deep_after
from tests.support.replication import FIRST, Replication, replicated
from tests.support.waiting import PATIENCE

ANY = "ANY 1 (two, three)"
QUICK = tuple(f"train-{number}" for number in range(1, 4))


@pytest.fixture
def pair() -> Iterator[Replication]:
    with replicated("two") as made:
        yield made


@pytest.fixture
def three() -> Iterator[Replication]:
    with replicated("two", "three", synchronous=ANY) as made:
        yield made


def read_to(replica: Replica) -> float:
    """The position up to which a process has read."""
    return replica.metrics.registry.get_sample_value("controlplane_log_position") or 0.0


def verified(url: str) -> str:
    """What `controlplane log verify` says of a log in which nothing is wrong."""
    done = finished("log", "verify", "--database-url", url)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@asynccontextmanager
async def staged(members: Replication, folder: Path) -> AsyncIterator[Stage]:
    on = Stage(members.url, folder, "a", "b", settings=settings(lost=30.0))
    await on.start()
    yield on
    await on.until(lambda: on.left() == [], "nothing left on the workers")
    await on.stop()


async def ready(on: Stage) -> None:
    await on.until(lambda: any(one.leads and one.health.ready for one in on.replicas), "a leader that is ready")


async def test_a_standby_that_lacks_the_last_commits_is_noticed_and_nothing_runs_twice(
    pair: Replication, tmp_path: Path, quick: None
) -> None:
    async with staged(pair, tmp_path) as on:
        follower = await on.up(ready=False)
        on.submit_for("train-0")
        first = await on.running(name="train-0")
        await on.until(pair.caught_up, "a standby that has it all")
        await asyncio.to_thread(pair.part, "two")
        for name in QUICK:
            on.submit_for(name, "300ms")
        for name in QUICK:
            await on.done(name)
        on.submit_for("train-4")
        second = await on.running(name="train-4")
        known = on.position
        # Whoever leads next has read what the standby lacks: one that had not would have nothing to notice.
        await on.until(lambda: read_to(follower) >= known, "a follower that has read it")
        await asyncio.to_thread(pair.kill)
        kept = pair.ask("two", "SELECT max(position) FROM controlplane.events")
        assert kept < known
        await asyncio.to_thread(pair.promote, "two")
        await on.until(lambda: on.said("LogWentBack"), "the break in the log")
        await ready(on)
        assert [one["ends_at"] for one in on.said("LogWentBack")] == [kept]
        on.submit_for("train-5", "200ms")
        await on.done("train-5")
        for name, where in (("train-0", first), ("train-4", second)):
            assert await on.running(name=name) == where
            on.end(where, name=name)
            await on.done(name)
        assert all(len(on.witness.starts[f"train-{number}"]) == 1 for number in range(6))
        assert not follower.task.done()
        verified(on.url)


@pytest.mark.deep
@pytest.mark.parametrize("way", deep_after(1, [signal.SIGKILL, signal.SIGQUIT]))
async def test_with_a_synchronous_standby_the_leader_goes_on_and_nothing_is_lost(
    three: Replication, tmp_path: Path, quick: None, way: signal.Signals
) -> None:
    """Jobs are submitted, run and end while nobody answers; the old primary comes back as a second one, and is passed
    over."""
    async with staged(three, tmp_path) as on:
        await on.up(ready=False)
        on.submit_for("train-0")
        first = await on.running(name="train-0")
        for name in QUICK:
            on.submit_for(name, "300ms")
        known = on.query("SELECT position, batch::text FROM controlplane.log_head")
        before = on.query("SELECT last, batch::text FROM controlplane.batches WHERE last <= %s", known[0][0])
        await asyncio.to_thread(three.kill, way)
        on.submit_for("train-4", "300ms")
        await asyncio.to_thread(three.promote, three.most_advanced())
        for name in (*QUICK, "train-4"):
            await on.done(name)
        await asyncio.to_thread(three.revive, FIRST)
        on.submit_for("train-5", "300ms")
        await on.done("train-5")
        assert await on.running(name="train-0") == first
        on.end(first, name="train-0")
        await on.done("train-0")
        await ready(on)
        new = three.members[three.primary].url
        with psycopg.connect(new) as connection:
            assert set(connection.execute("SELECT last, batch::text FROM controlplane.batches").fetchall()) >= set(
                before
            )
        assert all(len(on.witness.starts[f"train-{number}"]) == 1 for number in range(6))
        on.url = new
        assert on.said("LogWentBack") == []
        verified(new)


@pytest.mark.deep
async def test_a_process_of_its_own_goes_on_too_and_the_next_one_passes_the_old_primary_over(
    three: Replication, tmp_path: Path
) -> None:
    """`controlplane run`, as it is installed: it stays the same process. The next one knows nothing of the failover,
    and finds the old primary first in its URL, taking writes and waiting for no standby."""
    folder = tmp_path / "world"
    world = World(ClusterSpec(), {"worker-1": ClusterSpec(), "worker-2": ClusterSpec()}, folder=folder)
    witness = Witness(world)
    await world.start()
    database = Database(three.url, "controlplane_service")
    environment = variables(database, "main", folder / "management.kubeconfig", free_port())
    replica = LocalReplica(environment, tmp_path / "messages")
    jobs = world.management.store

    async def finish(*names: str) -> None:
        for name in names:
            jobs.create(JOBS, user_job(name, "default", **{"simulation.controlplane/duration": "200ms"}))
        async with asyncio.timeout(PATIENCE):
            while not all(ending(jobs.get(JOBS, "default", name)) for name in names):
                await asyncio.sleep(0.1)

    try:
        await replica.start()
        await replica.ready(PATIENCE)
        await finish("train-0", "train-1")
        three.kill()
        await asyncio.to_thread(three.promote, three.most_advanced())
        await finish("train-2", "train-3")
        await replica.ready(PATIENCE)
        assert replica.running
        await asyncio.to_thread(three.revive, FIRST)
        await asyncio.to_thread(three.set, FIRST, "synchronous_standby_names", "")
        old = three.ask(FIRST, "SELECT position FROM controlplane.log_head")
        assert await replica.stop() == 0, replica.messages.read_text()
        await replica.start()
        await replica.ready(PATIENCE)
        await finish("train-4")
        assert await replica.stop() == 0, replica.messages.read_text()
        assert three.ask(FIRST, "SELECT position FROM controlplane.log_head") == old
        assert {name: len(starts) for name, starts in witness.starts.items()} == {f"train-{n}": 1 for n in range(5)}
        assert "Traceback" not in replica.messages.read_text()
        verified(three.members[three.primary].url)
    finally:
        await replica.kill()
        await world.stop()
