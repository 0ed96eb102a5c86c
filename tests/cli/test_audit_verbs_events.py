"""`controlplane events`: the log as it is, and as it grows, also through a restart of the connection."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from controlplane.cli import cli
from tests.audit.database import with_stories
from tests.audit.script import Script, write
from tests.audit.stories import everything
from tests.cli.follower import Follower, follow
from tests.support import postgres
from tests.support.rows import each

__all__ = ["follow"]


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    yield from with_stories(postgres_server, migrated_template)


def events(url: str, *arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(
        cli, ["--database-url", url, "events", "-o", "json", *arguments], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def positions(url: str, *arguments: str) -> list[int]:
    return [event["position"] for event in events(url, *arguments)]


@each(
    ("arguments", "said"),
    [
        (
            ["--type", "workloadobserved"],
            'There is no type of event "workloadobserved"; did you mean WorkloadObserved?',
        ),
        (["--type", "Zzz"], 'There is no type of event "Zzz": docs/reference/events.md has them.'),
        (["--cluster", "management"], "The log main has no cluster management; did you mean @management?"),
        (["--cluster", "zzz"], "The log main has no cluster zzz: there are @management, east, north, west."),
        (["--stream", "cluster/nort"], "The log main has no stream cluster/nort; did you mean cluster/north?"),
        (["--stream", "zzz"], "The log main has no stream zzz."),
        (["--type", "ClusterLost", "--cluster", "west"], ""),
        (["--after", "9999999"], "The log main ends at "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_filter_that_nothing_can_fit_is_named(fleet_url: str, arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, ["--database-url", fleet_url, "events", "-o", "json", *arguments])
    assert (result.exit_code, json.loads(result.stdout)) == (0, [])
    assert result.stderr.startswith(said) if said else result.stderr == ""
    assert len(result.stderr.splitlines()) <= 1


def test_the_newest_events_are_shown_in_order(url: str) -> None:
    last = len(everything().recorded)
    assert positions(url, "--limit", "3") == [last - 2, last - 1, last]
    assert len(positions(url)) == 100


def test_from_a_position_the_first_ones_are_shown(url: str) -> None:
    assert positions(url, "--after", "10", "--limit", "2") == [11, 12]
    assert positions(url, "--after", "0", "--limit", "1") == [1]
    assert positions(url, "--after", "100000") == []


def test_the_filters(url: str) -> None:
    script = everything()

    def expected(test: Callable[[Any], bool]) -> list[int]:
        return [e.position for e in script.recorded if test(e)]

    assert positions(url, "--type", "WinnerChosen") == expected(lambda e: type(e.event).__name__ == "WinnerChosen")
    assert positions(url, "--type", "ClusterLost", "--type", "ClusterConnectFailed", "--cluster", "c") == expected(
        lambda e: type(e.event).__name__ in ("ClusterLost", "ClusterConnectFailed")
    )
    assert positions(url, "--stream", "workload/team-b/queued-0a1b2") == expected(
        lambda e: "team-b/queued-0a1b2" in e.stream
    )
    assert positions(url, "--cluster", "c") == expected(lambda e: e.cluster == "c")


def test_an_event_for_programs(url: str) -> None:
    (event,) = events(url, "--type", "WinnerChosen", "--stream", "workload/default/train-0a1b2")
    assert {key: event[key] for key in ("version", "schema", "reason", "cluster", "what")} == {
        "version": event["version"],
        "schema": 1,
        "reason": "FirstAdmitted",
        "cluster": "b",
        "what": "chosen (attempt 1)",
    }
    assert event["data"]["among"].keys() == {"a", "b"}
    (cause,) = [found for found in events(url, "--type", "CloneObserved") if found["position"] == event["caused_by"]]
    assert (cause["stream"], cause["cluster"]) == (event["stream"], "b")
    assert set(event) >= {"at", "stream", "trace", "observed_at"}


async def test_follow_goes_on_with_what_comes(database_url: str, follow: Callable[..., Follower]) -> None:
    script = Script("a")
    await write(database_url, script.appended)
    follower = follow(database_url, "events", "--follow", "-o", "json", "--limit", "1")
    follower.until(lambda: len(follower.out) == 1)
    known = len(script.appended)
    script.workload("w-0a1b2").job().seen()
    await write(database_url, script.appended[known:])
    follower.until(lambda: len(follower.out) == 3)
    assert follower.stop() == 130
    assert [json.loads(line)["position"] for line in follower.out] == [known, known + 1, known + 2]
    assert follower.err == []


async def test_follow_as_a_table_and_with_a_filter(database_url: str, follow: Callable[..., Follower]) -> None:
    script = Script("a")
    script.workload("w-0a1b2").job().seen()
    await write(database_url, script.appended)
    follower = follow(database_url, "events", "--follow", "--after", "0", "--type", "WorkloadObserved")
    follower.until(lambda: len(follower.out) == 2)
    follower.stop()
    assert follower.out[0].split()[0] == "POSITION"
    assert "workload/default/w-0a1b2" in follower.out[1]


async def test_follow_survives_a_database_that_goes_away(database_url: str, follow: Callable[..., Follower]) -> None:
    script = Script("a")
    await write(database_url, script.appended)
    follower = follow(database_url, "events", "--follow", "-o", "json", "--after", "0")
    known = len(script.appended)
    follower.until(lambda: len(follower.out) == known)
    with psycopg.connect(database_url, autocommit=True) as connection:
        gone = connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name = 'controlplane audit' AND datname = current_database()"
        ).fetchone()
    assert gone == (1,)
    script.workload("w-0a1b2").job().seen()
    await write(database_url, script.appended[known:])
    follower.until(lambda: len(follower.out) == known + 2)
    follower.stop()
    assert [json.loads(line)["position"] for line in follower.out] == list(range(1, known + 3))
    assert follower.err[0].startswith("The database is away")
    assert follower.err[-1] == "The database is back."
