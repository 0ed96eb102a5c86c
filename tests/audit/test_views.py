"""The views tell what the log holds: the same story as the pure code, attempts, intervals."""

from __future__ import annotations

import dataclasses
import itertools
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from controlplane.audit.timeline import moments
from controlplane.controllers.connectivity.events import (
    ClusterConnected,
    ClusterConnectFailed,
    ClusterDisconnected,
    ClusterLost,
    ClusterRecovered,
    ClusterStandby,
    ClusterSuspected,
)
from controlplane.controllers.connectivity.local_connection import service_started
from controlplane.controllers.connectivity.state import Connection, fold, restarted
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.events import EffectFailed
from controlplane.log import schema
from controlplane.log.event import Event, NewEvent
from tests.audit.database import VIEWS
from tests.audit.samples import sample
from tests.audit.script import Script, at, write
from tests.audit.stories import everything


def query(url: str, text: str, *parameters: Any) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as connection:
        return connection.execute(text.encode(), parameters).fetchall()


class QuotaLent(Event):
    """An event type that this version does not know."""

    to: str


def test_every_view_and_column_says_what_it_is(stories_url: str) -> None:
    rows = query(
        stories_url,
        "SELECT c.relname, a.attname, col_description(c.oid, a.attnum) AS said, obj_description(c.oid) AS view_said "
        "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 WHERE c.relnamespace = "
        "'audit'::regnamespace",
    )
    assert {row["relname"] for row in rows} == set(VIEWS)
    assert [(row["relname"], row["attname"]) for row in rows if not row["said"] or not row["view_said"]] == []
    kinds = query(
        stories_url, "SELECT DISTINCT relkind::text AS kind FROM pg_class WHERE relnamespace = 'audit'::regnamespace"
    )
    assert kinds == [{"kind": "v"}]


def test_events_hold_every_event(stories_url: str) -> None:
    script = everything()
    rows = query(stories_url, "SELECT * FROM audit.events ORDER BY position")
    assert [(row["position"], row["type"], row["cluster"]) for row in rows] == [
        (e.position, type(e.event).__name__, e.cluster) for e in script.recorded
    ]
    placed = {row["stream"]: (row["namespace"], row["name"]) for row in rows}
    assert placed["workload/default/train-0a1b2"] == ("default", "train-0a1b2")
    assert placed["job/jobs.batch/default/train"] == ("default", "train")
    assert placed["cluster/a"] == (None, "a")
    assert placed["service"] == (None, None)
    chosen = next(row for row in rows if row["type"] == "WinnerChosen")
    assert chosen["data"]["among"].keys() == {"a", "b"}
    assert chosen["reason"] == "FirstAdmitted"
    assert rows[chosen["caused_by"] - 1]["type"] == "CloneObserved"


def test_the_timeline_is_the_story_of_the_pure_code(stories_url: str) -> None:
    script = everything()
    names = sorted({e.stream.split("/", 1)[1] for e in script.recorded if e.stream.startswith("workload/")})
    assert len(names) == 5
    for name in names:
        namespace, workload = name.split("/")
        job = workload.removesuffix("-0a1b2")
        rows = query(
            stories_url,
            "SELECT * FROM audit.workload_timeline WHERE namespace = %s AND workload = %s ORDER BY position",
            namespace,
            workload,
        )
        events = [e for e in script.recorded if e.stream in (f"workload/{name}", f"job/jobs.batch/{namespace}/{job}")]
        expected = [(m.position, m.cluster, m.what, m.reason, m.type) for m in moments(events) if m.noteworthy]
        assert [(r["position"], r["cluster"], r["what"], r["reason"], r["type"]) for r in rows] == expected
        assert {row["job"] for row in rows} == {job}


async def test_every_event_type_has_the_same_words_in_sql(database_url: str) -> None:
    """One event of every type on one Workload's stream, whether it belongs there or not."""
    stream = "workload/default/w"
    known = [NewEvent(stream=stream, event=sample(kind), cluster="a") for kind in MultiKueueController.types]
    failed = [
        sample(EffectFailed, code=code, error=error)
        for code, error in ((403, "Forbidden"), (409, "Conflict"), (500, ""))
    ]
    await write(database_url, [*known, *(NewEvent(stream=stream, event=event, cluster="a") for event in failed)])
    rows = query(database_url, "SELECT type, what FROM audit.workload_timeline ORDER BY position")
    script = Script()
    start = len(script.recorded)
    recorded = []
    for new in [*known, *(NewEvent(stream=stream, event=event, cluster="a") for event in failed)]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(script.fleet, "fold", lambda recorded: None)
            script.put(new)
        recorded.append(script.recorded[-1])
    assert start < len(script.recorded)
    # About other objects than a Workload and its job the view has nothing but the type's name.
    about_workloads = {row["type"] for row in rows if row["what"] != row["type"]}
    expected = [(m.type, m.what if m.type in about_workloads else m.type) for m in moments(recorded) if m.noteworthy]
    assert [(row["type"], row["what"]) for row in rows] == expected
    others = {kind.__name__ for kind in MultiKueueController.types} - about_workloads
    assert not {
        name for name in others if name.startswith(("Workload", "Clone", "Job", "RemoteJob", "Winner", "Nomination"))
    }


EMPTY = ("runs", "usage", "outage_workloads", "candidates", "quota_usage", "quota_ledger", "reservations", "archives")
"""Views that need more than one event, another controller's, or none."""


def ours(kind: type[Event]) -> dict[str, str]:
    """Return the fields by which a copy was not made for another management cluster."""
    return {"made_for": ""} if "made_for" in kind.__struct_fields__ else {}


async def test_no_event_breaks_a_view_wherever_it_is(database_url: str) -> None:
    """One event of every type on a stream of every sort."""
    streams = (
        "workload/default/w",
        "job/jobs.batch/default/w",
        "cluster/a",
        "multikueueconfig/c",
        "admissioncheck/c",
        "service",
    )
    known = MultiKueueController.types
    await write(
        database_url,
        [
            NewEvent(stream=stream, event=sample(kind, **ours(kind)), cluster="a")
            for stream in streams
            for kind in known
        ],
        types=known,
    )
    for view in VIEWS:
        assert query(database_url, f"SELECT * FROM audit.{view}") or view in EMPTY, view
    for function in ("as_of('main', now())", "fleet_at('main', now())", "causes('main', 1)"):
        query(database_url, f"SELECT * FROM audit.{function}")


def test_the_views_of_the_version_before_can_be_had_again(empty_database_url: str) -> None:
    """And with this version's, once more."""
    schema.upgrade(empty_database_url)
    config = Config()
    config.set_main_option("script_location", str(schema.migrations()))
    with create_engine(schema.sqlalchemy_url(empty_database_url), poolclass=NullPool).begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0009-1")
    views = "SELECT relname FROM pg_class WHERE relnamespace = 'audit'::regnamespace AND relkind = 'v'"
    before = {row["relname"] for row in query(empty_database_url, views)}
    assert before == {"cluster_connectivity", "events", "placements", "streams", "workload_timeline"}
    schema.upgrade(empty_database_url)
    assert {row["relname"] for row in query(empty_database_url, views)} == set(VIEWS)


async def test_who_refused_is_in_what_is_waited_for(database_url: str) -> None:
    script = Script("a", "b")
    life = script.workload("w-0a1b2").offered("a", "b")
    life.clone("a", {"Evicted": ("Deactivated", "")}, active=False).decide()
    await write(database_url, script.appended)
    (row,) = query(
        database_url, "SELECT message FROM audit.pending_reasons WHERE cluster = '@management' AND until IS NULL"
    )
    assert row["message"] == "offered to a, b; refused by a (RejectedByWorker)"


async def test_an_event_of_an_unknown_type_is_shown(database_url: str) -> None:
    script = Script("a")
    life = script.workload("w-0a1b2").job().seen()
    lent = NewEvent(stream=life.stream, event=QuotaLent(to="b"), cluster="a")
    await write(database_url, [*script.appended, lent, lent], types=[*MultiKueueController.types, QuotaLent])
    rows = query(
        database_url, "SELECT what, type FROM audit.workload_timeline WHERE workload = 'w-0a1b2' ORDER BY position"
    )
    assert [row["what"] for row in rows] == ["job is suspended", "Workload waits for quota", "QuotaLent", "QuotaLent"]


async def test_text_that_jsonb_cannot_hold_breaks_no_view(database_url: str) -> None:
    script = Script("a")
    life = script.workload("w-0a1b2").job().seen({"QuotaReserved": ("Pending", "no\x00room")})
    await write(database_url, script.appended)
    for view in VIEWS:
        query(database_url, f"SELECT * FROM audit.{view}")
    (row,) = query(database_url, "SELECT data FROM audit.events WHERE stream = %s", life.stream)
    assert row["data"]["conditions"][0]["message"] == "no\ufffdroom"


async def test_a_job_that_had_the_name_before_is_not_in_the_story(database_url: str) -> None:
    script = Script("a")
    old = script.workload("w-1", job="w")
    old.job_uid = "uid-old"
    old.job().seen().job_gone()
    script.workload("w-2", job="w").job().seen()
    await write(database_url, script.appended)
    text = "SELECT what FROM audit.workload_timeline WHERE namespace = 'default' AND workload = %s ORDER BY position"
    assert [row["what"] for row in query(database_url, text, "w-1")] == [
        "job is suspended",
        "Workload waits for quota",
        "job is gone",
    ]
    assert [row["what"] for row in query(database_url, text, "w-2")] == ["job is suspended", "Workload waits for quota"]


def placements(url: str, workload: str) -> list[dict[str, Any]]:
    return query(url, "SELECT * FROM audit.placements WHERE workload = %s ORDER BY offered_at, attempt", workload)


def test_placements_of_a_job_that_runs_through(stories_url: str) -> None:
    (row,) = placements(stories_url, "train-0a1b2")
    assert (row["attempt"], row["clusters_offered"], row["clusters_refused"]) == (1, ["a", "b", "c"], [])
    assert (row["cluster"], row["reason"], row["finish_reason"]) == ("b", "FirstAdmitted", "Succeeded")
    assert (row["released_reason"], row["retry_reason"], row["evicted_reason"]) == (None, None, None)
    assert row["offered_at"] <= row["chosen_at"] <= row["ready_at"] <= row["finished_at"]
    (choice,) = query(stories_url, "SELECT type, cluster FROM audit.events WHERE position = %s", row["position"])
    assert choice == {"type": "WinnerChosen", "cluster": "b"}


def test_placements_of_one_that_was_taken_back(stories_url: str) -> None:
    first, second = placements(stories_url, "etl-0a1b2")
    assert (first["attempt"], first["cluster"], first["retry_reason"], first["evicted_reason"]) == (
        1,
        "a",
        "RemoteEvicted",
        "AdmissionCheck",
    )
    assert (second["attempt"], second["cluster"], second["retry_reason"], second["evicted_reason"]) == (
        2,
        "b",
        None,
        None,
    )
    assert first["finished_at"] is second["finished_at"] is None
    assert [row["retry_reason"] for row in placements(stories_url, "sim-0a1b2")] == ["RemoteLost"]


def test_there_is_no_placement_without_an_offer(stories_url: str) -> None:
    assert placements(stories_url, "odd-0a1b2") == placements(stories_url, "queued-0a1b2") == []


async def test_a_choice_that_was_taken_back_and_a_cluster_that_refused(database_url: str) -> None:
    script = Script("a", "b", "c")
    life = script.workload("w-0a1b2").offered("a", "b", "c")
    life.clone("a", {"Evicted": ("Deactivated", "")}, active=False).clone("b", {"Admitted": True}).decide()
    life.clone_gone("c").clone("b", {"Admitted": False, "Evicted": ("Preempted", "")})
    life.remote_job("b", suspended=True).decide().decide()
    life.clone("c", {"Admitted": True}).decide()
    await write(database_url, script.appended)
    (row,) = placements(database_url, "w-0a1b2")
    assert (row["cluster"], row["released_reason"], row["clusters_refused"]) == ("c", "EvictedBeforeReady", ["a"])


async def test_a_workload_that_was_deleted_and_made_again_starts_anew(database_url: str) -> None:
    script = Script("a")
    life = script.workload("w-0a1b2").runs("a").gone().decide()
    life.remote_job_gone("a").clone_gone("a").job_gone()
    life.local, life.local_job = {}, {"suspended": True, "status": "00"}
    life.conditions = {}
    life.runs("a")
    await write(database_url, script.appended)
    assert [row["attempt"] for row in placements(database_url, "w-0a1b2")] == [1, 1]
    assert len({row["position"] for row in placements(database_url, "w-0a1b2")}) == 2


@dataclasses.dataclass
class Steps:
    """What happens to one cluster, folded as the service folds it: an interval for each change of the phase."""

    appended: list[NewEvent] = dataclasses.field(default_factory=list)
    connection: Connection = dataclasses.field(default_factory=lambda: Connection(name="a"))
    phases: list[str] = dataclasses.field(default_factory=list)

    def take(self, new: NewEvent) -> None:
        script = Script()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(script.fleet, "fold", lambda recorded: None)
            script.put(new)
        change = restarted if new.stream == "service" else fold
        self.connection = change(self.connection, script.recorded[-1])
        self.appended.append(new)
        if self.connection.phase != (self.phases[-1] if self.phases else "Unknown"):
            self.phases.append(self.connection.phase)


def steps(letters: str) -> Steps:
    events: dict[str, NewEvent] = {
        "C": at("a", ClusterConnected(incarnation="i-1", server_version="v1")),
        "f": at("a", ClusterConnectFailed(reason="Refused", message="connection refused", attempt=1)),
        "l": at("a", ClusterLost(reason="ProbeFailed", message="no answer")),
        "s": at("a", ClusterSuspected(message="late")),
        "r": at("a", ClusterRecovered()),
        "x": at("a", ClusterDisconnected(reason="Removed")),
        "b": at("a", ClusterStandby(behind="c", incarnation="i-1", message="another name")),
        "S": service_started(1, "test", "1"),
    }
    found = Steps()
    for letter in letters:
        found.take(events[letter])
    return found


@pytest.mark.parametrize(
    "letters",
    [
        "C",
        "ffC",
        "Clff",
        "CllfC",
        "CS",
        "CSC",
        "ClSf",
        "ClSC",
        "ffSf",
        "SSCS",
        "CsrslC",
        "CsSC",
        "Cxf",
        "CfC",
        "b",
        "bC",
        "bSb",
        "CbC",
        "fbxb",
        "blC",
    ],
)
async def test_connectivity_has_the_phases_of_the_fold(database_url: str, letters: str) -> None:
    expected = steps(letters)
    await write(database_url, expected.appended)
    rows = query(database_url, "SELECT * FROM audit.cluster_connectivity WHERE cluster = 'a' ORDER BY since, until")
    assert [row["phase"] for row in rows] == expected.phases
    for before, after in itertools.pairwise(rows):
        assert before["until"] == after["since"]
    assert rows[-1]["until"] is None


def test_an_interval_says_what_began_it(stories_url: str) -> None:
    rows = query(stories_url, "SELECT * FROM audit.cluster_connectivity WHERE cluster = 'c' AND phase = 'Lost'")
    assert [(row["reason"], row["message"], row["incarnation"]) for row in rows] == [
        ("ProbeFailed", "no route to host", "i-c")
    ]
    clusters = query(stories_url, "SELECT DISTINCT cluster FROM audit.cluster_connectivity ORDER BY 1")
    assert [row["cluster"] for row in clusters] == ["@management", "a", "b", "c"]


def test_the_stories_take_time() -> None:
    """Or the tests above would compare nothing."""
    script = everything()
    assert script.now - script.recorded[0].recorded_at > timedelta(minutes=20)
