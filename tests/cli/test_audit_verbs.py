"""The verbs that read the history, as they are typed: tables for people, documented shapes for programs, exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from controlplane.__main__ import run
from controlplane.cli import cli
from controlplane.cli.workloads import STATES
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.log.event import Event, NewEvent
from controlplane.runtime.explanation import WORDS
from tests.audit.database import with_stories
from tests.audit.script import Script, write
from tests.audit.stories import everything
from tests.support import postgres
from tests.support.rows import each


class QuotaLent(Event):
    """An event type that this version does not know."""

    to: str


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    yield from with_stories(postgres_server, migrated_template)


def invoke(url: str, *arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["--database-url", url, *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def asked(url: str, *arguments: str) -> Any:
    """What a program gets; JSON and YAML say the same."""
    value = json.loads(invoke(url, *arguments, "-o", "json").stdout)
    # YAML has times of its own; as text they are the same.
    assert json.loads(json.dumps(yaml.load(invoke(url, *arguments, "-o", "yaml").stdout, yaml.BaseLoader))) is not None
    return value


def fails(capsys: pytest.CaptureFixture[str], url: str, *arguments: str) -> tuple[int, str]:
    code = run(["--database-url", url, *arguments])
    told = capsys.readouterr()
    assert told.out == ""
    return code, told.err


def columns(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_workloads(url: str) -> None:
    rows = columns(invoke(url, "workloads").stdout)
    assert rows[0] == ["NAMESPACE", "NAME", "JOB", "STATE", "CLUSTER", "ATTEMPT", "AGE", "WAITS", "FOR"]
    assert [(row[0], row[2], row[3]) for row in rows[1:]] == [
        ("default", "etl", "Running"),
        ("default", "odd", "Rejected"),
        ("default", "sim", "Pending"),
        ("team-b", "queued", "Pending"),
    ]
    assert rows[1][4:6] == ["b", "2"]
    assert rows[3][-3:] == ["quota", "in", "lq"]


@each(
    ("arguments", "jobs"),
    [
        (["--all"], ["etl", "odd", "sim", "train", "queued"]),
        (["-n", "team-b"], ["queued"]),
        (["--state", "running"], ["etl"]),
        (["--state", "Finished"], ["train"]),
        (["--state", "Pending", "--state", "Rejected"], ["odd", "sim", "queued"]),
        (["-n", "nobody"], []),
    ],
)
def test_workloads_that_are_asked_for(url: str, arguments: list[str], jobs: list[str]) -> None:
    assert [one["job"] for one in asked(url, "workloads", *arguments)] == jobs


def test_workloads_for_programs(url: str) -> None:
    one = next(one for one in asked(url, "workloads") if one["job"] == "etl")
    assert one.pop("since").endswith("Z")
    assert one.pop("position") > 0
    assert one == {
        "namespace": "default",
        "name": "etl-0a1b2",
        "job": "etl",
        "kind": "Job",
        "state": "Running",
        "result": "",
        "cluster": "b",
        "attempt": 2,
        "waits_for": "",
        "queue": "lq",
        "nominated": [],
        "copies": ["b"],
    }


def test_the_states_in_the_help_are_those_there_are() -> None:
    assert STATES == WORDS


@pytest.mark.parametrize("name", ["default/train", "default/train-0a1b2"])
def test_timeline(url: str, name: str) -> None:
    lines = invoke(url, "timeline", name).stdout.splitlines()
    assert lines[0].split() == ["AT", "(UTC)", "AFTER", "CLUSTER", "WHAT", "WHY"]
    assert "management  job is suspended" in lines[1]
    assert "+0.0s" in lines[1]
    (chosen,) = [line for line in lines if "chosen (attempt 1)" in line]
    assert "b was the first of 2 to admit it" in chosen
    assert lines[-1].endswith("copy is gone")


def test_timeline_with_every_event(url: str) -> None:
    short, whole = asked(url, "timeline", "default/train"), asked(url, "timeline", "default/train", "--all")
    assert short["workload"] == "workload/default/train-0a1b2"
    assert short["jobs"] == ["job/jobs.batch/default/train"]
    assert [m for m in whole["moments"] if m["noteworthy"]] == short["moments"]
    script = everything()
    assert len(whole["moments"]) == sum(e.stream in (short["workload"], *short["jobs"]) for e in script.recorded)
    assert set(short["moments"][0]) == {
        "position",
        "at",
        "seconds",
        "cluster",
        "what",
        "why",
        "reason",
        "type",
        "noteworthy",
    }
    text = invoke(url, "timeline", "default/train", "--all").stdout
    assert text.splitlines()[0].split()[0] == "POSITION"
    assert "StatusRelayDecided" in text


def test_how_a_workload_finished(url: str) -> None:
    rows = columns(invoke(url, "workloads", "--all").stdout)
    assert ["default", "train", "Succeeded"] in [[row[0], row[2], row[3]] for row in rows[1:]]
    (train,) = asked(url, "workloads", "--state", "succeeded")
    assert (train["state"], train["result"]) == ("Finished", "Succeeded")
    assert asked(url, "workloads", "--state", "Failed") == []


def test_a_filter_that_matches_nothing_says_so(url: str) -> None:
    assert "No workloads found in namespace nope." in invoke(url, "workloads", "-n", "nope").stderr
    assert "No workloads found in namespace team. Did you mean team-b?" in invoke(url, "workloads", "-n", "team").stderr
    none = invoke(url, "workloads", "-n", "team-b", "--state", "Lost").stderr
    assert "No workloads found in namespace team-b in state Lost." in none
    assert "No workloads found" not in invoke(url, "workloads").stderr


def test_why(url: str) -> None:
    text = invoke(url, "why", "default/sim").stdout
    assert text.startswith(
        "Pending: It waits for quota again (Pending: requeued): it was taken back from c because c could"
    )
    rows = columns(text)[2:]
    assert rows[0][0] == "POSITION"
    assert [row[3] for row in rows[1:]] == [
        "CloneObserved",
        "WinnerChosen",
        "ClusterLost",
        "CheckStateDecided",
        "WorkloadObserved",
        "WorkloadObserved",
    ]


def test_why_for_programs(url: str) -> None:
    found = asked(url, "why", "default/etl-0a1b2")
    assert (found["workload"], found["state"], found["cluster"]) == ("workload/default/etl-0a1b2", "Running", "b")
    assert found["sentence"].startswith("It runs on b because")
    chosen = [event for event in found["events"] if event["type"] == "WinnerChosen"]
    assert [(event["reason"], event["data"]["attempt"]) for event in chosen] == [
        ("OnlyAdmitted", 1),
        ("OnlyAdmitted", 2),
    ]


def test_why_of_what_has_ended(url: str) -> None:
    text = invoke(url, "why", "default/train").stdout
    assert "PROVED BY" in text
    assert "it was never on two clusters at once" in text
    found = asked(url, "why", "default/train")
    assert [one["about"] for one in found["statements"]] == ["Offered", "Placed", "Ran", "Times", "AtOnce"]
    ran = found["statements"][2]
    assert (ran["cluster"], ran["seconds"]) == ("b", 0.0)  # the stories are in one commit
    began = next(e for e in asked(url, "events", "--after", str(ran["positions"][0] - 1), "--limit", "1"))
    assert (began["type"], began["cluster"]) == ("RemoteJobObserved", "b")
    assert asked(url, "why", "default/etl")["statements"] == []  # it still runs


async def test_why_of_a_workload_that_is_long_gone(database_url: str) -> None:
    script = Script("a")
    script.workload("w-0a1b2").runs("a").finishes("a").gone()
    await write(database_url, script.appended)
    assert asked(database_url, "why", "default/w")["state"] == "Deleted"


async def test_a_job_without_a_workload(database_url: str) -> None:
    script = Script("a")
    script.workload("w-0a1b2").job()
    await write(database_url, script.appended)
    assert asked(database_url, "why", "default/w")["sentence"].startswith("The job has no Workload")
    assert [m["what"] for m in asked(database_url, "timeline", "default/w")["moments"]] == ["job is suspended"]


async def test_older_workloads_of_a_job_are_mentioned(database_url: str) -> None:
    script = Script("a")
    script.workload("w-1", job="w").job().seen().gone()
    script.workload("w-2", job="w").job().seen()
    await write(database_url, script.appended)
    assert "there were others: default/w-1" in invoke(database_url, "timeline", "default/w").stderr


@pytest.mark.parametrize("verb", ["timeline", "why"])
def test_what_is_not_there(capsys: pytest.CaptureFixture[str], url: str, verb: str) -> None:
    code, told = fails(capsys, url, verb, "default/trian")
    assert code == 5
    assert "there is no Workload or job default/trian in the log main; did you mean default/train" in told
    assert told.count("\n") == 1
    code, told = fails(capsys, url, verb, "nowhere/nothing")
    assert (code, "did you mean" in told) == (5, False)


@pytest.mark.parametrize("verb", ["timeline", "why"])
@pytest.mark.parametrize("name", ["trian", "a/b/c", "/train", "default/"])
def test_a_name_that_is_none(capsys: pytest.CaptureFixture[str], url: str, verb: str, name: str) -> None:
    code, told = fails(capsys, url, verb, name)
    assert code == 2
    assert "write NAMESPACE/NAME" in told


@pytest.mark.parametrize("verb", ["timeline", "why"])
def test_a_name_without_a_namespace_is_found(capsys: pytest.CaptureFixture[str], url: str, verb: str) -> None:
    code, told = fails(capsys, url, verb, "train")
    assert (code, '"train" is without a namespace: did you mean default/train' in told) == (2, True)
    assert "write NAMESPACE/NAME" not in told


VERBS = [["clusters"], ["workloads"], ["timeline", "a/b"], ["why", "a/b"], ["events"], ["events", "--follow"]]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_database_that_is_away(capsys: pytest.CaptureFixture[str], verb: list[str]) -> None:
    code, told = fails(capsys, "postgresql://nobody:secret@127.0.0.1:1/none", *verb)
    assert code == 4
    assert "the database cannot be used" in told
    assert "secret" not in told


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_database_without_the_schema(
    capsys: pytest.CaptureFixture[str], empty_database_url: str, verb: list[str]
) -> None:
    code, told = fails(capsys, empty_database_url, *verb)
    assert code == 4
    assert "run `controlplane db upgrade`" in told


@pytest.mark.parametrize("verb", [["workloads"], ["events"]], ids=" ".join)
def test_an_empty_log_is_no_failure(database_url: str, verb: list[str]) -> None:
    assert len(invoke(database_url, *verb).stdout.splitlines()) == 1
    assert asked(database_url, *verb) == []


def test_an_empty_log_has_no_clusters_and_says_so(database_url: str) -> None:
    shown = invoke(database_url, "clusters")
    assert "The log main is empty." in shown.stderr.splitlines()


async def test_the_readers_rights_are_enough(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await write(database_url, everything().appended)
    monkeypatch.setenv("CONTROLPLANE_DATABASE_ROLE", "controlplane_reader")
    for verb in (["clusters"], ["workloads"], ["timeline", "default/train"], ["why", "default/train"], ["events"]):
        assert invoke(database_url, *verb).stdout


async def test_the_log_of_the_settings_is_read(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script("a")
    script.workload("w-0a1b2").job().seen()
    await write(database_url, script.appended, log="second")
    assert asked(database_url, "workloads") == []
    monkeypatch.setenv("CONTROLPLANE_DATABASE_LOG", "second")
    assert [one["name"] for one in asked(database_url, "workloads")] == ["w-0a1b2"]


async def test_an_unknown_event_is_shown_by_every_verb(database_url: str) -> None:
    script = Script("a")
    life = script.workload("w-0a1b2").job().seen()
    lent = NewEvent(stream=life.stream, event=QuotaLent(to="b"), cluster="a")
    await write(database_url, [*script.appended, lent], types=[*MultiKueueController.types, QuotaLent])
    assert asked(database_url, "events", "--type", "QuotaLent")[0]["data"] == {"to": "b"}
    assert "QuotaLent" in invoke(database_url, "timeline", "default/w").stdout
    assert [one["state"] for one in asked(database_url, "workloads")] == ["Pending"]
    assert "It waits for quota" in invoke(database_url, "why", "default/w").stdout
