"""`--watch`: the rows that there are, and each one again when it says something else; through a restart of the
database's connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

from controlplane.__main__ import run
from controlplane.audit.reads import READ
from tests.audit.script import Script, write
from tests.candidates.told import Told
from tests.cli.follower import Follower, follow

__all__ = ["follow"]

NOWHERE = ["--database-url", "postgresql://u@127.0.0.1:1/d"]


class Log:
    """A log that is written piece by piece."""

    def __init__(self, url: str, script: Script) -> None:
        self._url, self._script, self._known = url, script, 0

    async def grow(self) -> None:
        await write(self._url, self._script.appended[self._known :])
        self._known = len(self._script.appended)


async def test_workloads(database_url: str, follow: Callable[..., Follower]) -> None:
    script = Script("a", "b")
    log, life = Log(database_url, script), script.workload("w-0a1b2").offered("a", "b")
    script.workload("x-0a1b2").job().seen()
    await log.grow()
    watching = follow(database_url, "workloads", "-w")
    watching.until(lambda: len(watching.out) == 3)
    assert watching.out[0].split()[:3] == ["NAMESPACE", "NAME", "JOB"]
    life.runs("a", "a", "b")
    await log.grow()
    watching.until(lambda: "Running" in watching.out[-1])
    life.remote_job("a", status="77", inactive=False)  # says nothing new
    life.finishes("a")
    await log.grow()
    watching.until(lambda: "Succeeded" in watching.out[-1])
    assert watching.stop() == 130
    assert [line for line in watching.err if "database" in line] == []
    assert [line.split()[1] for line in watching.out[3:]] == ["w-0a1b2"] * (len(watching.out) - 3)
    column = watching.out[1].index(watching.out[1].split()[2])
    assert {line[column - 1] for line in watching.out} == {" "}  # one column begins where it began


async def test_what_leaves_the_list_is_shown_a_last_time(database_url: str, follow: Callable[..., Follower]) -> None:
    script = Script("a")
    log, life = Log(database_url, script), script.workload("w-0a1b2").offered("a")
    await log.grow()
    watching = follow(database_url, "workloads", "--watch", "-o", "json", "--state", "Nominated", "--no-headers")
    watching.until(lambda: len(watching.out) == 1)
    life.runs("a", "a")
    await log.grow()
    watching.until(lambda: len(watching.out) == 2)
    watching.stop()
    assert [json.loads(line)["state"] for line in watching.out] == ["Nominated", "Running"]


async def test_pods_on_their_way_to_other_clusters(database_url: str, follow: Callable[..., Follower]) -> None:
    told, known = Told("a").asked("web", "other"), [0]

    async def grow() -> None:
        await write(database_url, told.rows[known[0] :], types=READ)
        known[0] = len(told.rows)

    await grow()
    watching = follow(database_url, "candidates", "list", "-w", "-o", "json")
    watching.until(lambda: len(watching.out) == 2)
    told.reserves("a", "web").settle().binds("a", "web").settle().status("a").settle()
    await grow()
    watching.until(lambda: json.loads(watching.out[-1])["state"] == "Running")
    told.pod_gone("web").settle().candidate_gone("a", "web").settle()
    await grow()
    watching.until(lambda: json.loads(watching.out[-1])["state"] == "Deleted")
    assert watching.stop() == 130
    assert {json.loads(line)["name"] for line in watching.out[2:]} == {"web"}


async def test_queues(database_url: str, follow: Callable[..., Follower]) -> None:
    script = Script("a")
    log, life = Log(database_url, script), script.workload("w-0a1b2").offered("a")
    script.workload("x-0a1b2", namespace="team-b").job().seen()
    await log.grow()
    watching = follow(database_url, "queues", "--watch", "-o", "json")
    watching.until(lambda: len(watching.out) == 2)
    life.runs("a", "a")
    await log.grow()
    watching.until(lambda: json.loads(watching.out[-1])["running"] == 1)
    assert watching.stop() == 130
    assert {json.loads(line)["namespace"] for line in watching.out[2:]} == {"default"}
    assert run([*NOWHERE, "queues", "--watch", "--sort-by", "queue"]) == 2


async def test_names_of_what_changes(database_url: str, follow: Callable[..., Follower]) -> None:
    script = Script("a")
    log, life = Log(database_url, script), script.workload("w-0a1b2").offered("a")
    script.workload("x-0a1b2").offered("a")
    await log.grow()
    watching = follow(database_url, "workloads", "-w", "-o", "name")
    clusters = follow(database_url, "clusters", "-w", "-o", "name")
    watching.until(lambda: len(watching.out) == 2)
    life.runs("a", "a")
    await log.grow()
    watching.until(lambda: len(watching.out) == 3)
    clusters.until(lambda: len(clusters.out) >= 2)
    watching.stop()
    clusters.stop()
    assert watching.out == [f"workload/default/{name}-0a1b2" for name in "wxw"]
    assert clusters.out[:2] == ["cluster/@management", "cluster/a"]


async def test_clusters_through_a_database_that_goes_away(database_url: str, follow: Callable[..., Follower]) -> None:
    script = Script("a", "b")
    log = Log(database_url, script)
    await log.grow()
    watching = follow(database_url, "clusters", "-w", "-o", "json")
    watching.until(lambda: len(watching.out) == 3)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'controlplane audit' AND datname = current_database()"
        )
    watching.until(lambda: "The database is back." in watching.err)
    script.lose("b")
    script.now += timedelta(minutes=1)
    await log.grow()
    watching.until(lambda: len(watching.out) >= 4)
    assert watching.stop() == 130
    lines = [json.loads(line) for line in watching.out]
    assert [one["name"] for one in lines[:3]] == ["@management", "a", "b"]
    assert (lines[-1]["name"], lines[-1]["state"]) == ("b", "Lost")
    away, back = (line for line in watching.err if "database" in line)
    assert away.startswith("The database is away")
    assert back == "The database is back."


@pytest.mark.parametrize("verb", ["why", pytest.param("timeline", marks=pytest.mark.deep)])
async def test_why_and_timeline(database_url: str, follow: Callable[..., Follower], verb: str) -> None:
    script = Script("a")
    log, life = Log(database_url, script), script.workload("w-0a1b2").offered("a")
    await log.grow()
    watching = follow(database_url, verb, "default/w", "-w", "-o", "json")
    watching.until(lambda: bool(watching.out))
    life.runs("a", "a")
    await log.grow()
    text = "It runs on a" if verb == "why" else "job runs"
    watching.until(lambda: any(text in line for line in watching.out))
    assert watching.stop() == 130
    lines = [json.loads(line) for line in watching.out]
    if verb == "why":
        assert [one["state"] for one in lines] == ["Nominated", "Running"]
    else:
        told = [(one["position"], one["what"]) for one in lines]
        assert len(told) == len(set(told))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["workloads", "-w", "--sort-by", "name"], "--sort-by needs all of it, and --watch has no end"),
        (["clusters", "-w", "-o", "csv"], "-o csv needs all of it"),
        (["timeline", "a/b", "-w", "-o", "svg"], "-o svg needs all of it"),
        (["timeline", "a/b", "-w", "--until", "1h"], "--until has an end"),
        (["events", "-w", "--until", "1h"], "--until has an end"),
        (["why", "a/b", "-w", "--at", "1h"], "--at is about the past"),
    ],
)
def test_what_has_an_end_is_not_watched(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*NOWHERE, *arguments]) == 2
    assert text in capsys.readouterr().err


def test_a_database_that_was_never_there_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*NOWHERE, "workloads", "--watch"]) == 4
    assert "the database cannot be used" in capsys.readouterr().err
