"""`export` and `verify-export`, as they are typed, over a real log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from controlplane.controllers.multikueue.observations import JobObserved
from controlplane.log.event import NewEvent, body_of
from tests.audit.script import Script, write
from tests.audit.test_views import query
from tests.cli.conftest import Here
from tests.cli.processes import PROGRAM, environment
from tests.cli.test_audit_verbs import fails, invoke


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def exported(here: Here, url: str, path: Path, name: str, **settings: str) -> list[dict[str, Any]]:
    ended = here("export", name, "-o", str(path), database_url=url, **settings)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    return read(path)


def test_a_workload_is_there_with_what_it_rests_on(here: Here, fleet_url: str, tmp_path: Path) -> None:
    rows = exported(here, fleet_url, tmp_path / "sim.jsonl", "team-b/sim")
    header, events = rows[0], [row for row in rows if row["kind"] == "event"]
    assert header["workload"] == "workload/team-b/job-sim-0a1b2"
    assert set(header["streams"]) == {"workload/team-b/job-sim-0a1b2", "job/jobs.batch/team-b/sim"}
    (log,) = query(fleet_url, "SELECT id::text FROM controlplane.log_head")
    assert (header["bodies"], header["batches"]) == ("included", "included")
    assert header["inclusion_proof"] == {"log_id": log["id"], "since": 1}
    own = query(
        fleet_url,
        "SELECT position, type, data, caused_by FROM audit.events WHERE stream = ANY(%s) ORDER BY position",
        list(header["streams"]),
    )
    found = {event["position"]: event for event in events}
    assert {row["position"] for row in own} <= found.keys()
    assert all(found[row["position"]]["data"] == row["data"] for row in own)
    assert "ClusterLost" in {event["type"] for event in events}  # a cause, of another stream
    assert all(event["caused_by"] in found for event in events if event["caused_by"])
    (batch,) = query(fleet_url, "SELECT batch::text FROM controlplane.batches")
    assert {event["batch"] for event in events} == {batch["batch"]}
    assert rows[-1]["lines"] == len(rows) - 1
    ended = here("verify-export", str(tmp_path / "sim.jsonl"))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"{len(events)} events" in ended.stdout
    (batch,) = query(fleet_url, "SELECT batch::text, encode(hash, 'hex') AS hash FROM controlplane.batches")
    machine = here("verify-export", str(tmp_path / "sim.jsonl"), "-o", "json")
    assert json.loads(machine.stdout)["batches"] == {batch["batch"]: batch["hash"]}


def test_every_workload_of_the_log_can_be_exported_and_checked(fleet_url: str, tmp_path: Path) -> None:
    for number, row in enumerate(query(fleet_url, "SELECT namespace, name FROM audit.streams WHERE kind = 'workload'")):
        path = tmp_path / f"{number}.jsonl"
        invoke(fleet_url, "export", f"{row['namespace']}/{row['name']}", "-o", str(path))
        assert "Every line is as it was written." in invoke(fleet_url, "verify-export", str(path)).stdout


async def test_bodies_are_there_and_their_hashes_are_checked(here: Here, database_url: str, tmp_path: Path) -> None:
    body, script = body_of({"spec": {"suspend": True}, "labels": {}}), Script("a")
    seen = JobObserved(
        namespace="default",
        name="w",
        uid="uid-w",
        resource_version="1",
        kind="jobs.batch",
        template=body.ref,
        status="",
    )
    new = NewEvent(stream="job/jobs.batch/default/w", event=seen, cluster="@management", bodies=(body,))
    await write(database_url, [*script.appended, new])
    path = tmp_path / "w.jsonl"
    rows = exported(here, database_url, path, "default/w")
    (kept,) = [row for row in rows if row["kind"] == "body"]
    assert (kept["hash"], kept["body"], kept["redacted"]) == (
        body.ref,
        {"spec": {"suspend": True}, "labels": {}},
        False,
    )
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE controlplane.bodies SET body = '{}'")
    exported(here, database_url, tmp_path / "bad.jsonl", "default/w")
    ended = here("verify-export", str(tmp_path / "bad.jsonl"))
    assert (ended.returncode, "the body is not the one that has the hash" in ended.stderr) == (1, True)


def test_a_reader_gets_the_events_alone(here: Here, fleet_url: str, tmp_path: Path) -> None:
    path = tmp_path / "sim.jsonl"
    ended = here("export", "team-b/sim", "-o", str(path), database_url=fleet_url, database_role="controlplane_reader")
    assert ended.returncode == 0
    assert "bodies and batches are left out, because the role may not read them" in ended.stderr
    header, first = read(path)[:2]
    assert (header["bodies"], first["batch"]) == ("left out: the role may not read them", None)
    assert header["inclusion_proof"] is None
    assert here("verify-export", str(path)).returncode == 0


async def test_an_event_that_was_changed_in_the_log_has_no_proof(here: Here, database_url: str, tmp_path: Path) -> None:
    """Whoever changed it exports what is there now; the hash that the log has of its batch does not follow from it."""
    script = Script("a")
    seen = JobObserved(
        namespace="default", name="w", uid="u", resource_version="1", kind="jobs.batch", template="", status="\0\u2028"
    )
    event = NewEvent(stream="job/jobs.batch/default/w", event=seen, cluster="@management")
    await write(database_url, [*script.appended, event])
    exported(here, database_url, tmp_path / "w.jsonl", "default/w")
    assert here("verify-export", str(tmp_path / "w.jsonl")).returncode == 0
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE controlplane.events SET cluster = 'b' WHERE stream LIKE 'job/%'")
    exported(here, database_url, tmp_path / "bad.jsonl", "default/w")
    ended = here("verify-export", str(tmp_path / "bad.jsonl"))
    assert (ended.returncode, "is not that of its rows" in ended.stderr) == (1, True)


def test_the_wrong_lines_are_told(
    here: Here, fleet_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sim.jsonl"
    invoke(fleet_url, "export", "team-b/sim", "-o", str(path))
    lines = path.read_bytes().split(b"\n")
    lines[6] = lines[6].replace(b"recorded_at", b"recorded_By")
    path.write_bytes(b"\n".join(lines))
    ended = here("verify-export", str(path))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"Error: {path} is not as it was written:\n  line 7: ")
    machine = here("verify-export", str(path), "-o", "json")
    assert (machine.returncode, json.loads(machine.stdout)["problems"][0]["line"]) == (1, 7)
    path.write_bytes(b"\n".join(lines[:30]) + b"\n")
    assert "the file ends before its end" in here("verify-export", str(path)).stderr


def test_standard_output_and_files_that_are_there(
    here: Here, fleet_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import subprocess

    piped = subprocess.run(
        [*PROGRAM, "export", "team-b/sim", "-o", "-"],
        env=environment(database_url=fleet_url),
        capture_output=True,
        check=True,
    )
    path = tmp_path / "sim.jsonl"
    path.write_bytes(piped.stdout)
    assert here("verify-export", str(path)).returncode == 0
    code, told = fails(capsys, fleet_url, "export", "team-b/sim", "-o", str(path))
    assert (code, "is there already" in told) == (2, True)
    assert path.read_bytes() == piped.stdout


def test_bad_input(
    fleet_url: str, database_url: str, empty_database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "x.jsonl")
    code, told = fails(capsys, fleet_url, "export", "team-b/sam", "-o", path)
    assert (code, "did you mean team-b/sim?" in told) == (5, True)
    code, told = fails(capsys, fleet_url, "export", "sim", "-o", path)
    assert (code, "did you mean team-b/sim?" in told) == (2, True)
    code, told = fails(capsys, fleet_url, "export", "sam", "-o", path)
    assert (code, "write NAMESPACE/NAME" in told) == (2, True)
    code, told = fails(capsys, fleet_url, "export", "team-b/sim", "-o", "json")
    assert (code, "-o names the file to write here" in told, Path("json").exists()) == (2, True, False)
    code, told = fails(capsys, database_url, "export", "team-b/sim", "-o", path)
    assert (code, "the log main is empty" in told) == (5, True)
    code, told = fails(capsys, empty_database_url, "export", "team-b/sim", "-o", path)
    assert (code, "run `controlplane db upgrade`" in told) == (4, True)
    code, told = fails(capsys, fleet_url, "export", "team-b/sim", "-o", str(tmp_path / "no" / "x"))
    assert (code, "No such file or directory" in told) == (1, True)
    assert not Path(path).exists()
    for content in ("", "{}\n", "no\n"):
        Path(path).write_text(content)
        code, told = fails(capsys, fleet_url, "verify-export", path)
        assert (code, "is no file of `controlplane export`" in told) == (2, True)
    assert fails(capsys, fleet_url, "verify-export", str(tmp_path / "nothing"))[0] == 2
