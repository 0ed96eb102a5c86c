"""`controlplane describe`: sections, ages, what happened at the end; for programs; and names that are none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from controlplane.__main__ import run
from controlplane.audit.past import GROUPS
from controlplane.cli import cli
from controlplane.cli import describe as verb
from controlplane.controllers.manifests import EVERY
from tests.audit.database import with_stories
from tests.support import postgres


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    yield from with_stories(postgres_server, migrated_template)


def said(url: str, *arguments: str) -> str:
    result: Result = CliRunner().invoke(cli, ["--database-url", url, "describe", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def plain(url: str, *arguments: str) -> Any:
    found = json.loads(said(url, *arguments, "-o", "json"))
    assert yaml.safe_load(said(url, *arguments, "-o", "yaml")) is not None
    return found


def fields(text: str) -> dict[str, str]:
    """Return what stands behind each label at the left edge."""
    lines = [line for line in text.splitlines() if line and not line.startswith(" ")]
    return {label: value.strip() for label, _, value in (line.partition(":") for line in lines)}


def test_a_workload_by_its_jobs_name(url: str) -> None:
    text = said(url, "workload", "default/etl")
    told = fields(text)
    assert (told["Name"], told["Namespace"], told["Job"]) == ("etl-0a1b2", "default", "Job/etl")
    assert (told["State"], told["Cluster"], told["Attempt"]) == ("Running", "b", "2")
    assert told["First Seen"].endswith(" ago)")
    assert told["Nominated Clusters"] == "<none>"
    assert told["Why"].startswith("It runs on b")
    head, rule, *events = text.partition("Events:\n")[2].splitlines()
    assert head.split() == ["Age", "Cluster", "What", "Why"]
    assert set(rule) == {" ", "-"}
    assert 0 < len(events) <= 25
    assert "Events" not in said(url, "workload", "default/etl", "--show-events=false")
    bare = said(url, "workload", "default/etl", "--no-headers").partition("Events:\n")[2].splitlines()
    assert [line.split()[1:] for line in bare] == [line.split()[1:] for line in events]


@pytest.mark.parametrize(
    "words",
    [
        ["wl", "default/etl-0a1b2"],
        ["job", "etl", "-n", "default"],
        ["job/default/etl"],
        ["jobs", "default/etl"],
        ["default/etl"],
    ],
    ids=" ".join,
)
def test_a_workload_by_other_words(url: str, words: list[str]) -> None:
    assert plain(url, *words) == plain(url, "workload", "default/etl")


def test_what_has_ended_says_what_became_of_it(url: str) -> None:
    text = said(url, "workload", "default/train")
    assert "What Became Of It:" in text
    assert fields(text)["State"] == "Succeeded"


def test_the_json_is_that_of_the_lists(url: str) -> None:
    listed = json.loads(CliRunner().invoke(cli, ["--database-url", url, "workloads", "-o", "json"]).stdout)
    (etl,) = [one for one in listed if one["job"] == "etl"]
    found = plain(url, "workload", "default/etl")
    assert {key: found[key] for key in etl} == etl
    assert found["sentence"].startswith("It runs on b")
    assert {"position", "at", "cluster", "what", "why", "reason", "type"} == found["events"][0].keys()


def test_a_cluster_has_its_workloads(url: str) -> None:
    text = said(url, "cluster", "b")
    assert fields(text)["State"] == "Connected"
    assert "  default/etl-0a1b2  etl  Running  b" in text
    assert plain(url, "cluster", "b")["workloads"] == ["default/etl-0a1b2"]
    assert plain(url, "cluster", "management")["name"] == "@management"


def test_all_of_a_kind(url: str) -> None:
    assert [one["name"] for one in plain(url, "clusters")] == ["@management", "a", "b", "c"]
    assert said(url, "clusters").count("\nServer Version:") == 4
    assert [one["name"] for one in plain(url, "cluster", "a", "c")] == ["a", "c"]
    assert {one["job"] for one in plain(url, "workloads", "-n", "default")} >= {"etl", "odd"}


def test_a_queue_is_told_as_it_is_though_the_clock_here_is_slow(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [plain(url, "queue", name) for name in ("default/lq", "cq")]
    monkeypatch.setattr("controlplane.clock.SystemClock.now", lambda _: datetime(2020, 1, 1, tzinfo=UTC))
    assert [plain(url, "queue", name) for name in ("default/lq", "cq")] == whole
    assert any(whole[0][group] for group in GROUPS)


def test_queues(url: str) -> None:
    local = fields(said(url, "queue", "default/lq"))
    assert (local["Name"], local["Namespace"], local["Kind"]) == ("lq", "default", "LocalQueue")
    assert int(local["Running Workloads"]) >= 1
    assert plain(url, "lq", "lq", "-n", "default") == plain(url, "queue", "default/lq")


def test_long_texts_are_wrapped_on_a_terminal(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for width in (80, 120, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        with monkeypatch.context() as patched:
            patched.setattr("sys.stdout.isatty", lambda: True)
            assert run(["--database-url", url, "describe", "workload", "default/train"]) == 0
        text = click.unstyle(capsys.readouterr().out)
        assert "\\x1b" not in text
        assert max(len(line) for line in text.splitlines()) <= width
    assert run(["--database-url", url, "describe", "workload", "default/train"]) == 0
    whole = capsys.readouterr().out
    assert len(whole.splitlines()) <= len(text.splitlines())


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["workload", "default/trian"], 5, "did you mean default/train"),
        (["cluster", "bb"], 5, "did you mean b?"),
        (["queue", "default/lqq"], 5, "did you mean default/lq?"),
        (["train"], 2, '"train" is without a namespace: did you mean default/train'),
        (["b"], 2, '"b" is a cluster, not a Workload or a job'),
        (["clutser", "b"], 2, 'there is no kind "clutser" to describe: did you mean cluster?'),
        (["queue"], 2, "say which queue"),
        (["candidate", "default/x"], 5, "there is no candidate default/x"),
        ([], 2, "Missing argument"),
    ],
)
def test_names_that_are_none(
    url: str, words: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--database-url", url, "describe", *words]) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert text in told.err


def test_every_kind_that_may_be_described_has_names_at_a_tab() -> None:
    from controlplane.cli.offered import streams_of

    recorded = {stream.partition("/")[0] for one in EVERY for stream in one.streams}
    assert [kind for kind in verb.KINDS.values() if not set(streams_of(f"{kind}s")) <= recorded] == []
