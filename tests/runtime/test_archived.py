"""A service whose old events left the log: it starts from its snapshot, and without one from what is left, and knows
what it knew. By the commands that an operator gives."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pytest
from click.testing import CliRunner, Result

from controlplane.__main__ import run as program
from controlplane.app.hosted import TYPES, HostedControllers
from controlplane.cli import cli
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append, NewEvent
from controlplane.log.postgres import PostgresLog
from controlplane.runtime.fold_version import fold_version
from tests.audit.test_read_models import looked_through
from tests.docs.snippets import ROOT, blocks, commands
from tests.log.migrating import partition_size
from tests.log.words import ROLE
from tests.runtime.test_snapshots import HINTS, SETTINGS, Replica, Stage, events_of
from tests.support import folded, postgres

FOLD = fold_version(SETTINGS, [one.name for one in HostedControllers(SETTINGS).router.registrations])
LEFT = "workload/default/"
PAGE = ROOT / "docs/howto/production/archive.md"
T = TypeVar("T")


@pytest.fixture
async def stage(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """The log of a service, with its snapshot and its read models, of which three quarters are in sealed partitions."""
    monkeypatch.setattr(MultiKueueController, "forgets_after", timedelta(0))
    partition_size(database_url, 100)
    async with PostgresLog(Database(database_url, ROLE), Codec(TYPES)) as log:
        await log.take_epoch("one")
        events: Any = events_of("workloads-23")
        for first in range(0, len(events), 10):
            some = events[first : first + 10]
            await log.append(Append([NewEvent(stream=e.stream, event=e.event, cluster=e.cluster) for e in some]))
    one = Stage(database_url)
    keeper = one.replica(fold=FOLD)
    await keeper.follow()
    await keeper.snapshots.keep()
    looked_through(database_url)
    yield one
    for replica in one.replicas:
        await replica.close()


def apart(call: Callable[..., T], *given: Any) -> T:
    """Call something in a thread: a command has an event loop of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call, *given).result()


def asked(stage: Stage, *arguments: str) -> Result:
    return apart(CliRunner().invoke, cli, ["--database-url", stage.url, *arguments])


def archived(stage: Stage, folder: Path) -> dict[str, Any]:
    said = asked(stage, "log", "archive", "--to", str(folder), "--drop", "-o", "json")
    assert said.exit_code == 0, said.output
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def refused(stage: Stage, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert apart(program, ["--database-url", stage.url, *arguments]) != 0
    return capsys.readouterr().err


def gone(stage: Stage) -> list[str]:
    query = (
        "SELECT stream FROM audit.streams s WHERE archived_to IS NOT NULL AND NOT EXISTS ("
        "SELECT FROM audit.events e WHERE e.stream = s.stream) ORDER BY 1"
    )
    return [stream for (stream,) in stage.run(query)]


async def unlike(stage: Stage, one: Replica) -> dict[str, Any]:
    """What a replica holds that another one does not which read the log as it was."""
    found = folded.unlike(stage.replicas[0].router, one.router)
    return {path: pair for of in found.values() for path, pair in of.items() if not path.endswith(HINTS)}


async def test_a_service_starts_from_its_snapshot_and_a_new_version_from_what_is_left(
    stage: Stage, tmp_path: Path
) -> None:
    said = archived(stage, tmp_path)
    assert [(one["first"], one["last"]) for one in said["archives"]] == [(1, 100), (101, 200), (201, 300)]
    assert (said["dropped"]["upto"], said["dropped"]["why"]) == (300, "")
    assert said["dropped"]["events"] > 0
    assert gone(stage)
    same, other = stage.replica(fold=FOLD), stage.replica(fold="of another version")
    start = await same.start()
    assert start is not None
    assert start.position == stage.replicas[0].position
    assert await other.start() is None
    await other.follow()
    assert other.position == start.position
    assert await unlike(stage, same) == {}
    assert await unlike(stage, other) == {}
    assert folded.asked(stage.replicas[0].router) == folded.asked(other.router)


async def test_what_is_archived_is_told_with_its_place(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archived(stage, tmp_path)
    capsys.readouterr()
    stream = next(one for one in gone(stage) if one.startswith(LEFT))
    name, place = stream.removeprefix("workload/"), f"archived in {tmp_path} (positions "
    for verb in ("why", "timeline"):
        said = refused(stage, capsys, verb, name)
        assert f"{name} is over and {place}" in said
        assert f"`controlplane log restore --from {tmp_path}` brings it back" in said
    assert place in refused(stage, capsys, "events", "--stream", stream)
    missing = stage.run(
        "SELECT min(n) FROM generate_series(1, 300) n WHERE NOT EXISTS (SELECT FROM audit.events e WHERE e.position = "
        "n)"
    )
    assert place in refused(stage, capsys, "inspect", str(missing[0][0]))
    ((next_at,),) = stage.run(
        f"SELECT recorded_at FROM audit.events WHERE position > {missing[0][0]} ORDER BY position LIMIT 1"
    )
    assert place in refused(stage, capsys, "as-of", next_at.isoformat(), "workloads")
    assert "has nothing of 2026-01-01" in refused(stage, capsys, "as-of", "2026-01-01T00:00:00Z", "workloads")
    assert place in refused(stage, capsys, "diff-decisions", "--from", "1")
    assert "or ask with --from 301" in refused(stage, capsys, "diff-decisions", "--from", "1")


async def test_what_is_left_is_answered_as_before(stage: Stage, tmp_path: Path) -> None:
    views = ("workload_phases", "runs", "placements", "effects", "pending_reasons", "cluster_connectivity", "fleet")
    there = {view: stage.run(f"SELECT * FROM audit.{view} ORDER BY 1, 2, 3") for view in views if view != "fleet"}
    kept = [
        stream.removeprefix("workload/")
        for (stream,) in stage.run("SELECT stream FROM audit.streams WHERE kind = 'workload' AND namespace <> ''")
    ]
    said = {
        (verb, name): asked(stage, verb, name, "-o", "json").stdout for verb in ("why", "timeline") for name in kept
    }
    archived(stage, tmp_path)
    left = {stream.removeprefix("workload/") for stream in gone(stage)}
    for (verb, name), before in said.items():
        if name not in left:
            assert asked(stage, verb, name, "-o", "json").stdout == before, (verb, name)
    for view, rows in there.items():
        now = stage.run(f"SELECT * FROM audit.{view} ORDER BY 1, 2, 3")
        assert [row for row in rows if row not in now] == [], view
        assert len(now) == len(rows), view


async def test_the_commands_verify_and_restore(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = stage.run("SELECT * FROM controlplane.batches ORDER BY last")
    archived(stage, tmp_path)
    said = asked(stage, "log", "verify").output
    assert (
        f"What is up to position 300 is in archives in {tmp_path}: `controlplane log verify --archive DIR` verifies it."
        in said
    )
    assert "positions 301 to 392" in said
    said = asked(stage, "log", "verify", "--archive", str(tmp_path)).output
    assert "The archives of the log main are as they were written: positions 1 to 300, 300 events in 30 batches" in said
    assert "goes on where they end" in said
    alone = program(
        [
            "--database-url",
            "postgresql://nobody@127.0.0.1:1/none",
            "log",
            "verify",
            "--archive",
            str(tmp_path),
            "--offline",
        ]
    )
    assert alone == 0
    capsys.readouterr()
    assert "would leave a gap up to 300" in refused(
        stage, capsys, "log", "restore", "--from", str(tmp_path), "--positions", "1..100"
    )
    said = asked(stage, "log", "restore", "--from", str(tmp_path)).output
    assert "has all events from position 1 on again" in said
    assert gone(stage) == []
    assert stage.run("SELECT * FROM controlplane.batches ORDER BY last") == before
    assert "Nothing has left the log main" in asked(stage, "log", "restore", "--from", str(tmp_path)).output


@pytest.mark.deep
async def test_a_workload_that_leaves_is_told_of_by_the_read_models(stage: Stage, tmp_path: Path) -> None:
    views = ("workload_phases", "runs", "placements", "effects", "pending_reasons")
    stage.run("DELETE FROM read_models.streams")
    for view in views:
        stage.run(f"DELETE FROM read_models.{view}")
    there = {view: stage.run(f"SELECT * FROM audit.{view} ORDER BY 1, 2, 3, position") for view in views}
    archived(stage, tmp_path)
    assert [one for one in gone(stage) if one.startswith("workload/")]
    for view, rows in there.items():
        assert stage.run(f"SELECT * FROM audit.{view} ORDER BY 1, 2, 3, position") == rows, view


@pytest.mark.deep
async def test_the_page_can_be_followed(
    stage: Stage,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    postgres_server: postgres.Server,
    migrated_template: str,
) -> None:
    """Each command of the page, one after the other, with another folder and another database."""
    name = postgres.new_name("auditor")
    auditor = postgres_server.create(name, migrated_template)
    settings = tmp_path / "settings.yaml"
    (example,) = (one.text for one in blocks(PAGE) if one.language == "yaml")
    settings.write_text(example.replace("/archives", str(tmp_path)).replace("2160h", "1ms"))
    last, done, refusals = "1..300", [], []
    for snippet in (one for one in blocks(PAGE) if one.language == "console"):
        for words in commands(snippet):
            if words[0] == "duckdb":
                assert duckdb.sql(words[2].replace("/archives", str(tmp_path))).fetchall()
            if words[0] != "controlplane":
                continue
            exchanged = {
                "/archives": str(tmp_path),
                "30000001..50000000": last,
                "postgresql://auditor@localhost/audit": auditor,
            }
            arguments = [exchanged.get(word, word) for word in words[1:]]
            code = apart(program, ["--config", str(settings), "--database-url", stage.url, *arguments])
            done.append(" ".join(words[1:3]))
            refusals += [(words, capsys.readouterr().err)] if code else []
    postgres_server.drop(name)
    assert refusals == []
    assert set(done) == {f"log {verb}" for verb in ("stats", "archive", "verify", "restore", "retention")}


async def test_without_a_snapshot_of_this_version_nothing_leaves(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.run("UPDATE controlplane.snapshots SET fold_version = 'another'")
    said = refused(stage, capsys, "log", "archive", "--to", str(tmp_path), "--drop")
    assert "the log main has no snapshot of this version and these settings" in said
    assert gone(stage) == []


async def test_wrong_input_is_one_sentence(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path)
    for arguments, told in (
        (
            ("archive", "--to", folder, "--before", "yesterdayish"),
            '--before: "yesterdayish" is neither a time nor a position',
        ),
        (
            ("restore", "--from", folder, "--positions", "5"),
            '--positions: "5" is no range of positions, such as 1..10000000',
        ),
        (("restore", "--from", folder), f"{folder} has no archive of the log main"),
        (("verify", "--offline"), "--offline is for archives: name their folder with --archive"),
        (("archive", "--to", folder, "--log", "other"), "the database has no log other; there are main"),
    ):
        assert told in refused(stage, capsys, "log", *arguments)


async def test_without_pyarrow_it_says_what_to_install(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert "pip install 'controlplane[archive]'" in refused(stage, capsys, "log", "archive", "--to", str(tmp_path))
