"""`why --at`: the answer of that time, and times as they are typed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.cli import times
from controlplane.cli.errors import CommandFailure, Exit
from tests.audit.test_actors import told
from tests.candidates.told import Told
from tests.cli.conftest import Here
from tests.cli.test_audit_verbs import asked, fails, invoke
from tests.support.rows import each

NOW = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)


@each(
    ("text", "expected"),
    [
        ("2026-01-01T13:00:00Z", datetime(2026, 1, 1, 13, tzinfo=UTC)),
        ("2026-01-01T13:00:00.25+02:00", datetime(2026, 1, 1, 11, 0, 0, 250_000, tzinfo=UTC)),
        ("2026-01-01 13:00", datetime(2026, 1, 1, 13, tzinfo=UTC)),
        ("2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
        ("now", NOW),
        ("90m", NOW - timedelta(minutes=90)),
        ("7d", NOW - timedelta(days=7)),
        ("0", NOW),
    ],
)
def test_times_that_are_understood(text: str, expected: datetime) -> None:
    assert times.moment(text, "--at", NOW) == expected


@each(
    "text",
    [
        "",
        "yesterday",
        "2026-13-01",
        "2026-02-30",
        "20260101",
        "13:00",
        "2026-01-01T25:00Z",
        "-2h",
        "999999d",
        "1h2",
        "2026-W01-1",
    ],
)
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(CommandFailure, match="is not a time: write") as failed:
        times.moment(text, "--at", NOW)
    assert failed.value.code == Exit.USAGE
    assert "\n" not in str(failed.value)


@each(
    ("name", "at", "state", "cluster"),
    [
        ("team-a/train", "2026-01-01 08:05", "Nominated", ""),
        ("team-b/sim", "2026-01-01 12:00", "Running", "north"),
        ("team-b/sim", "2026-01-01T13:00:00Z", "Lost", "north"),
        ("team-b/sim", "2026-01-01T15:00:00+02:00", "Lost", "north"),
        ("team-b/sim", "2026-01-01 14:00", "Running", "west"),
        ("team-b/sim", "2026-01-02 12:00", "Finished", "west"),
        ("team-a/job-safe-0a1b2", "2026-01-01 13:00", "Lost", "north"),
    ],
)
def test_where_it_was(fleet_url: str, name: str, at: str, state: str, cluster: str) -> None:
    found = asked(fleet_url, "why", name, "--at", at)
    assert (found["state"], found["cluster"]) == (state, cluster)
    bound = times.moment(at, "--at")
    assert all(datetime.fromisoformat(event["at"]) <= bound for event in found["events"])


def test_it_rests_on_the_settings_of_that_time(fleet_url: str) -> None:
    text = invoke(fleet_url, "why", "team-b/sim", "--at", "2026-01-01 13:00").stdout
    assert "if it does not come back, the Workload is taken back at 2026-01-01 13:04:24 UTC" in text


def test_what_was_not_there_yet(capsys: pytest.CaptureFixture[str], fleet_url: str) -> None:
    code, told = fails(capsys, fleet_url, "why", "team-b/sim", "--at", "2026-01-01 09:00")
    assert code == 5
    assert "team-b/sim was not there at 2026-01-01 09:00:00 UTC: it was first seen at 2026-01-01 11:48:" in told
    code, told = fails(capsys, fleet_url, "why", "team-b/sam", "--at", "2026-01-01 13:00")
    assert (code, "did you mean team-b/sim" in told) == (5, True)


def test_times_that_the_log_does_not_have(
    capsys: pytest.CaptureFixture[str], fleet_url: str, database_url: str
) -> None:
    code, told = fails(capsys, fleet_url, "why", "team-b/sim", "--at", "2025-12-31")
    assert (code, "the log main has nothing of 2025-12-31 00:00:00 UTC: it begins at 2026-01-01" in told) == (5, True)
    code, told = fails(capsys, fleet_url, "why", "team-b/sim", "--at", "2999-01-01")
    assert (code, "2999-01-01 00:00:00 UTC is to come" in told) == (2, True)
    code, told = fails(capsys, database_url, "why", "team-b/sim", "--at", "2026-01-01")
    assert (code, "the log main is empty" in told) == (5, True)


async def test_a_placed_pod_then_and_when_it_is_gone(database_url: str) -> None:
    story = Told("a", "b").asked().reserves("a").settle().binds("a").settle()
    there = len(story.rows)
    story.pod_gone().settle().candidate_gone("a").settle()
    await told(database_url, story)
    at = story.process.now + timedelta(seconds=there)
    then = asked(database_url, "why", "pod/team/web", "--at", at.isoformat())
    assert (then["state"], then["cluster"], then["waits_for"]) == ("Pending", "a", "its delegate to start")
    now = asked(database_url, "why", "pod/team/web")
    assert (now["state"], "What was known of it last: It is on node n of cluster a" in now["sentence"]) == (
        "Deleted",
        True,
    )
    assert {event["type"] for event in then["events"]} <= {event["type"] for event in now["events"]}


def test_the_program_says_it_in_one_sentence(here: Here, fleet_url: str) -> None:
    ended = here("why", "team-b/sim", "--at", "noon", database_url=fleet_url)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith('Error: --at: "noon" is not a time: write')
    assert ended.stderr.count("\n") == 1
