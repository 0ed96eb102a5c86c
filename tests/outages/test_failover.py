"""PostgreSQL with streaming replication: the primary dies, and a standby is promoted that lacks the last commits."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from controlplane.local.postgres import EmbeddedPostgres, binaries, owner
from controlplane.log import schema
from tests.outages.stage import Replica, Stage, settings
from tests.outages.wire import Wire
from tests.support import postgres


class Pair:
    """A primary and its standby, two embedded servers in folders of one test."""

    def __init__(self, folder: Path) -> None:
        self.primary = EmbeddedPostgres(folder / "primary", durable=False)
        self.standby = EmbeddedPostgres(folder / "standby", durable=False)

    def start(self) -> None:
        """Start the primary, copy it, and let the copy follow it."""
        self.primary.launch()
        schema.upgrade(self.primary.url)
        query = parse_qs(urlsplit(self.primary.url).query)
        (host,), (port,) = query["host"], query["port"]
        data = self.standby._folder.pgdata
        self.standby._folder.lock()  # makes the folder one of ours
        self.standby._folder.unlock()
        user = owner.choose(self.primary._folder.pgdata)
        program = binaries.find(os.environ, user).program("pg_basebackup")
        way = ["-h", host, "-p", port, "-U", "controlplane"]
        subprocess.run([program, *way, "-D", str(data), "-X", "stream", "--checkpoint=fast", "--no-sync"], check=True)
        (data / "standby.signal").touch()
        self._conninfo = f"host={host} port={port} user=controlplane"
        with (data / "postgresql.auto.conf").open("a") as file:
            file.write(f"primary_conninfo = '{self._conninfo}'\n")
        stat = self.primary._folder.pgdata.stat()
        for path in (data, *data.rglob("*")):
            os.chown(path, stat.st_uid, stat.st_gid, follow_symlinks=False)
        self.standby.launch()

    def part(self) -> None:
        """Let the standby follow no longer: what is committed from now on, it lacks."""
        with (self.standby._folder.pgdata / "postgresql.auto.conf").open("a") as file:
            file.write("primary_conninfo = ''\n")
        with psycopg.connect(self.standby.url, autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")

    def fail_over(self) -> str:
        """Stop the primary for good and promote the standby; return its URL."""
        self.primary.shutdown()
        with psycopg.connect(self.standby.url, autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")
        return self.standby.url

    def caught_up(self) -> bool:
        """Whether the standby has all that the primary has committed."""
        with psycopg.connect(self.primary.url) as one, psycopg.connect(self.standby.url) as other:
            sent = one.execute("SELECT pg_current_wal_lsn()").fetchone()
            assert sent is not None
            return other.execute("SELECT pg_last_wal_replay_lsn() >= %s", sent).fetchone() == (True,)


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    with postgres.folder() as below:
        made = Pair(below.parent)
        try:
            await asyncio.to_thread(made.start)
            yield made
        finally:
            await asyncio.to_thread(made.standby.shutdown)
            await asyncio.to_thread(made.primary.shutdown)


def read_to(replica: Replica) -> float:
    """The position up to which a process has read."""
    return replica.metrics.registry.get_sample_value("controlplane_log_position") or 0.0


async def test_a_standby_that_lacks_the_last_commits_is_noticed_and_nothing_runs_twice(
    pair: Pair, tmp_path: Path, quick: None
) -> None:
    wire = Wire(pair.primary.url)
    on = Stage(pair.primary.url, tmp_path, "a", "b", settings=settings(lost=30.0), reach=await wire.start())
    await on.start()
    follower = await on.up(ready=False)
    on.submit_for("train-0")
    first = await on.running(name="train-0")
    await on.until(pair.caught_up, "a standby that has it all")
    pair.part()
    for name in ("train-1", "train-2", "train-3"):
        on.submit_for(name, "300ms")
    for name in ("train-1", "train-2", "train-3"):
        await on.done(name)
    on.submit_for("train-4")
    second = await on.running(name="train-4")
    known = on.position
    # Whoever leads next has read what the standby lacks: one that had not would have nothing to notice.
    await on.until(lambda: read_to(follower) >= known, "a follower that has read it")
    wire.set("cut")
    on.url = wire._target = await asyncio.to_thread(pair.fail_over)
    kept = on.position
    assert kept < known
    wire.set("whole")
    await on.until(lambda: on.said("LogWentBack"), "the break in the log")
    await on.until(lambda: any(one.leads and one.health.ready for one in on.replicas), "a leader that is ready")
    assert [one["ends_at"] for one in on.said("LogWentBack")] == [kept]
    on.submit_for("train-5", "200ms")
    await on.done("train-5")
    for name, where in (("train-0", first), ("train-4", second)):
        assert await on.running(name=name) == where
        on.end(where, name=name)
        await on.done(name)
    assert all(len(on.witness.starts[f"train-{number}"]) == 1 for number in range(6))
    await on.until(lambda: on.left() == [], "nothing left on the workers")
    assert not follower.task.done()
    await on.stop()
    await wire.stop()
