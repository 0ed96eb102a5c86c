"""`inspect`: an event with the state before and after it, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.audit import states
from controlplane.audit.inspect import inspect
from controlplane.audit.reads import READ, LogReader
from controlplane.audit.states import FOLDS, INDEXED, changes, plain
from controlplane.controllers.candidates.source import observations as seen
from controlplane.controllers.candidates.source.events import CandidateDropped, CandidateRequested, PermitGranted
from controlplane.controllers.manifests import EVERY
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.log.event import NewEvent
from tests.audit.database import keep
from tests.audit.samples import sample
from tests.audit.scheduled import log
from tests.audit.script import POLICY, Script, write
from tests.audit.test_actors import told
from tests.audit.test_views import query
from tests.candidates.told import Told
from tests.cli.processes import finished
from tests.cli.test_audit_verbs import QuotaLent, asked, fails, invoke
from tests.docs.fleet_story import story
from tests.support.rows import each


@pytest.fixture
def reader(fleet_url: str) -> Iterator[LogReader]:
    with LogReader.connect(fleet_url) as opened:
        yield opened


def position(url: str, condition: str) -> int:
    (row,) = query(url, f"SELECT min(position) AS position FROM audit.events WHERE {condition}")
    return int(row["position"])


# --- pure: what changed -----------------------------------------------------------------------------------------------


@each(
    ("before", "after", "paths"),
    [
        ({}, {}, []),
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a"]),
        ({"a": 1}, {}, ["a"]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3, "d": 4}}, ["a.c", "a.d"]),
        ({"a": [1, 2]}, {"a": [1, 3]}, ["a"]),
        ({"a": [{"type": "X", "v": 1}]}, {"a": [{"type": "X", "v": 2}]}, ["a[X].v"]),
        ({"a": [{"type": "X", "v": 1}]}, {"a": [{"type": "X", "v": 1}, {"type": "Y"}]}, ["a[Y]"]),
        ({"a": [{"type": "X"}, {"type": "X"}]}, {"a": [{"type": "X"}]}, ["a"]),
        ({"a": {"b": 1}}, {"a": None}, ["a"]),
        (
            {"version": 1, "position": 3, "positions": {"w": 1}},
            {"version": 2, "position": 9, "positions": {"w": 9}},
            [],
        ),
    ],
)
def test_what_changed(before: dict[str, Any], after: dict[str, Any], paths: list[str]) -> None:
    assert [change.path for change in changes(before, after)] == paths
    assert [change.path for change in changes(after, before)] == paths


def test_every_fold_is_of_a_stream_that_there_is() -> None:
    words = {pattern.replace(",", "/").split("/")[0] for manifest in EVERY for pattern in manifest.streams}
    assert {word.partition("/")[0] for word in (*FOLDS, *INDEXED)} - words <= {"podgroup-rules"}
    assert not FOLDS.keys() & INDEXED.keys()


@each("word", sorted({*FOLDS, "job"}))
def test_any_state_can_be_shown(word: str) -> None:
    """After one event of any type that may stand at the begin of the stream."""
    stream, shown = word if word == "podgroup-rules" else f"{word}/default/w", 0
    for kind in READ:
        (recorded,) = log(sample(kind), stream=stream)
        replay = states.replay_of(stream, POLICY)
        try:
            replay.fold(recorded)
        except (KeyError, AttributeError):
            continue  # it means something that is not there yet
        assert isinstance(plain(replay.state()), dict)
        shown += 1
    assert shown > len(READ) // 2


# --- over the real log ------------------------------------------------------------------------------------------------


def test_the_states_are_those_that_the_service_had(reader: LogReader) -> None:
    """At every event of a Workload, a cluster and the fleet: what the controller held when it was recorded."""
    script, live = story(), MultiKueueController(POLICY, "test").index
    compared = 0
    for recorded in script.recorded:
        of_index = INDEXED.get(recorded.stream.partition("/")[0])
        if of_index is None:
            live.fold(recorded)
            continue
        before = plain(of_index(live, recorded.stream))
        live.fold(recorded)
        if recorded.position % 5:
            continue
        found = inspect(reader, POLICY, recorded.position)
        assert found is not None
        assert (found.before, found.after, found.left_alone) == (before, plain(of_index(live, recorded.stream)), "")
        compared += 1
    assert compared > 40


def test_a_cluster_that_was_lost(fleet_url: str) -> None:
    lost = position(fleet_url, "type = 'ClusterLost'")
    found = asked(fleet_url, "inspect", str(lost), "--diff")
    assert found["event"]["type"] == "ClusterLost"
    assert {"path": "phase", "before": "Connected", "after": "Lost"} in found["changes"]
    assert "before" not in found
    assert [one["type"] for one in found["followed"]] == ["CheckStateDecided"]
    assert [(one["action"], one["outcome"]) for one in found["requests"]] == [("CheckStateDecided", "done")]
    decided = asked(fleet_url, "inspect", str(found["followed"][0]["position"]))
    assert [one["position"] for one in decided["causes"]] == [lost]
    assert decided["before"]["version"] + 1 == decided["after"]["version"]


def test_what_followed_an_offer(fleet_url: str) -> None:
    quota = position(fleet_url, "type = 'NominationDecided' AND name = 'job-train-0a1b2'") - 1
    found = asked(fleet_url, "inspect", str(quota))
    assert [one["type"] for one in found["followed"]] == ["NominationDecided", *["CloneDecided"] * 3]
    effects = query(
        fleet_url, "SELECT position, outcome, last_position FROM audit.effects WHERE name = 'job-train-0a1b2'"
    )
    known = {row["position"]: (row["outcome"], row["last_position"]) for row in effects}
    assert len(found["requests"]) == 4
    for one in found["requests"]:
        assert (one["outcome"], one["settled_by"]) == known[one["position"]]


def test_a_write_that_was_refused(fleet_url: str) -> None:
    refused = position(fleet_url, "type = 'JobCreationDecided' AND name = 'job-fit-0a1b2'")
    (request,) = [one for one in asked(fleet_url, "inspect", str(refused))["requests"] if one["position"] == refused]
    assert (request["outcome"], request["error"]) == ("refused", "403 Forbidden: jobs.batch is forbidden")
    assert "refused" in invoke(fleet_url, "inspect", str(refused)).stdout


def test_people_see_it_in_parts(fleet_url: str) -> None:
    lost = position(fleet_url, "type = 'ClusterLost'")
    text = invoke(fleet_url, "inspect", str(lost)).stdout
    for part in ("State before it", "State after it", "Changed", "Decided on it, or caused by it", "Requests"):
        assert f"\n{part}\n" in text
    short = invoke(fleet_url, "inspect", str(lost), "--diff").stdout
    assert "State before" not in short
    assert '  phase: "Connected" -> "Lost"' in short.splitlines()


async def test_writes_of_other_controllers(database_url: str) -> None:
    placed = Told("a", "b").asked().reserves("a").settle().binds("a").settle().candidate_gone("b").settle()
    await told(database_url, placed)
    outcomes = {}
    for number, row in enumerate(placed.rows, 1):
        if isinstance(row.event, CandidateRequested | PermitGranted | CandidateDropped):
            (request,) = [r for r in asked(database_url, "inspect", str(number))["requests"] if r["position"] == number]
            outcomes[type(row.event).__name__, row.cluster] = request["outcome"]
            assert request["settled_by"] > number
    assert outcomes == {
        ("CandidateRequested", "a"): "done",
        ("CandidateRequested", "b"): "done",
        ("PermitGranted", "a"): "done",
        ("CandidateDropped", "b"): "done",
    }


async def test_a_write_without_an_end(database_url: str) -> None:
    story_ = Told("a")
    story_.pod().settle()
    await told(database_url, story_)
    number = next(n for n, row in enumerate(story_.rows, 1) if isinstance(row.event, CandidateRequested))
    found = asked(database_url, "inspect", str(number))
    assert [(one["outcome"], one["settled_by"]) for one in found["requests"]] == [("open", None)]
    story_.says(seen.CandidateWaiting, "a")


async def test_what_cannot_be_folded_says_where(database_url: str) -> None:
    script = Script("a")
    new = [*script.appended, NewEvent(stream="workload/odd", event=QuotaLent(to="b"))]
    await write(database_url, new, types=[*MultiKueueController.types, QuotaLent])
    found = asked(database_url, "inspect", str(len(new)))
    assert f"position {len(new)} (QuotaLent)" in found["left_alone"]
    assert (found["before"], found["after"]) == ({}, {})
    assert "Its stream cannot be folded up to it" in invoke(database_url, "inspect", str(len(new))).stdout


async def test_what_no_controller_folds_shows_what_was_seen_last(database_url: str) -> None:
    script = Script("a")
    script.workload("w-0a1b2").job().job(suspended=False).job_gone()
    await keep(database_url, script.recorded)
    last = len(script.recorded)
    assert asked(database_url, "inspect", str(last - 1))["after"]["@management/Job"]["uid"] == "uid-w"
    assert asked(database_url, "inspect", str(last))["after"] == {}


def test_positions_that_there_are_not(
    capsys: pytest.CaptureFixture[str], fleet_url: str, database_url: str, empty_database_url: str
) -> None:
    assert fails(capsys, fleet_url, "inspect", "0")[0] == 2
    assert fails(capsys, fleet_url, "inspect", "many")[0] == 2
    code, said = fails(capsys, fleet_url, "inspect", "99999")
    assert (code, "there is no position 99999 in the log main, which ends at" in said) == (5, True)
    code, said = fails(capsys, database_url, "inspect", "1")
    assert (code, "the log main is empty" in said) == (5, True)
    code, said = fails(capsys, empty_database_url, "inspect", "1")
    assert (code, "run `controlplane db upgrade`" in said) == (4, True)


def test_the_program_itself(fleet_url: str) -> None:
    """A reader's rights are enough."""
    ended = finished("inspect", "202", "--diff", database_url=fleet_url, database_role="controlplane_reader")
    assert ended.returncode == 0
    assert ended.stdout.startswith(
        "202  2026-01-01 12:49:24  cluster/north, version 4\nClusterLost (Unreachable) on north"
    )
