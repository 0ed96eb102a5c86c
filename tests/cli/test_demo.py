"""`controlplane demo`: it ends by itself, with a code that says whether what it showed was right."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from controlplane.__main__ import run
from controlplane.local.check import Evidence
from controlplane.local.demo import Demo, DemoResult
from tests.cli.processes import PROGRAM, environment, finished, stopped
from tests.support import postgres
from tests.support.waiting import PATIENCE


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the embedded server's user can reach."""
    with postgres.folder() as folder:
        yield folder


def test_it_shows_what_is_right(folder: Path) -> None:
    """The whole performance, as a newcomer has it: an embedded database, a killed service, and the history of it
    all.
    """
    done = finished("demo", "--data", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    out = done.stdout
    assert "The service is killed (SIGKILL, process " in out
    assert "Another process goes on with the log" in out
    # A job that was started in the moment of the kill may end before its Workload says where it is.
    assert re.search(r"train-13 is failed( on worker-\d)?$", out, re.MULTILINE)
    assert len(re.findall(r"train-\d\d is finished", out)) == 19
    assert "$ controlplane timeline default/train-" in out
    assert "$ controlplane why default/train-" in out
    assert "FROM audit.placements" in out
    answer = [line.split() for line in out.splitlines() if line.startswith("worker-")]
    assert [row[0] for row in answer] == sorted(row[0] for row in answer)
    assert (sum(int(row[1]) for row in answer), sum(int(row[2]) for row in answer)) == (20, 1)
    assert "All is as it should be: 20 jobs in " in out
    assert f"controlplane up --data {folder}" in out
    assert (folder / "fleet.json").exists()
    again = finished("demo", "--data", str(folder))
    assert again.returncode == 1
    assert "needs a new or empty folder" in again.stderr


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the performance find that a job ran twice."""

    async def play(_self: Demo) -> DemoResult:
        return DemoResult(
            evidence=Evidence(
                asked={"train-00": "Complete"},
                ended={"train-00": "Complete"},
                starts={"train-00": ["worker-1", "worker-2"]},
                left=[],
                workloads={},
                placements=[],
                services=["a", "b"],
            ),
            told="train-00",
            seconds=1.0,
        )

    monkeypatch.setattr(Demo, "play", play)
    monkeypatch.setattr("controlplane.telemetry.configure", lambda *_: None)


@pytest.mark.usefixtures("wrong")
def test_what_is_wrong_is_said_and_is_a_failure(
    empty_database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run(["demo", "--database-url", empty_database_url, "-o", "json"]) == 1
    captured = capsys.readouterr()
    assert "what was shown is not right:\n  train-00 ran 2 times: on worker-1, worker-2" in captured.err
    assert "train-00 ran 2 times: on worker-1, worker-2" in json.loads(captured.out)["problems"]
    assert list(tmp_path.iterdir()) == [], "a temporary folder is removed"


@pytest.mark.deep
def test_an_interruption_leaves_nothing_behind(empty_database_url: str, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    arguments = ["env", f"TMPDIR={temporary}", *PROGRAM, "demo", "--database-url", empty_database_url]
    with subprocess.Popen(
        arguments, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        shown = ""
        while "jobs are submitted" not in shown:
            shown += demo.stdout.readline()
        found = re.search(r"The service runs: process (\d+)", shown)
        assert found is not None
        assert stopped(demo, signal.SIGINT) == 130
        assert demo.stderr.read() == "Interrupted.\n"
    assert list(temporary.iterdir()) == []
    assert not Path(f"/proc/{found[1]}").exists()


@pytest.mark.deep
def test_it_stays_to_be_looked_at(empty_database_url: str, tmp_path: Path) -> None:
    arguments = ["env", f"TMPDIR={tmp_path}", *PROGRAM, "demo", "--stay", "--database-url", empty_database_url]
    with subprocess.Popen(
        arguments, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        shown = ""
        while "until Ctrl-C" not in shown:
            shown = demo.stdout.readline()
            assert shown, "it ended before"
        story = shown.split()[-1]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/workloads/default/train-\d\d", story)
        began = time.monotonic()
        while not (found := _answer(story)):
            assert time.monotonic() - began < PATIENCE
            time.sleep(0.1)
        assert "What became of it" in found
        assert stopped(demo, signal.SIGINT) == 0
    assert list(tmp_path.iterdir()) == []


def _answer(address: str) -> str:
    """Return a page; "" while it is not there yet."""
    try:
        with urllib.request.urlopen(address) as answer:
            return str(answer.read().decode())
    except urllib.error.URLError:
        return ""


def test_staying_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--stay", "-o", "json"]) == 2
    assert "--stay is for people" in capsys.readouterr().err


def test_a_log_with_a_history_is_left_alone(database_url: str, tmp_path: Path) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO controlplane.events (log, position, stream, version, type, schema, data, reason, cluster, "
            "trace, recorded_at) VALUES ('main', 1, 'service', 1, 'ServiceStarted', 1, '{}', '', '', '', now())"
        )
    done = finished("demo", "--database-url", database_url, "--data", str(tmp_path / "data"))
    assert done.returncode == 1
    assert 'the log "main" of that database has events already' in done.stderr


def test_no_temporary_folder_is_one_sentence() -> None:
    """As on a read-only root file system, or a full one: nothing can be written where temporary files go."""
    unwritable = ["sh", "-c", 'ulimit -f 0 && exec "$@"', "sh", *PROGRAM, "demo"]
    done = subprocess.run(unwritable, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: no temporary folder can be made (No usable temporary directory found in [")
    assert done.stderr.endswith("): name one that can be written to with TMPDIR, or play in one with --data\n")
