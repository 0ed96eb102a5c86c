"""Jobs that run where they were submitted, on the management cluster: runs of it, from their admission to their end,
and counted once."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from controlplane.audit import past
from controlplane.audit.reads import LogReader
from controlplane.cli import cli
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.events import AttemptBegun
from controlplane.controllers.multikueue.reasons import WorkloadReason
from tests.audit.database import keep
from tests.audit.script import Life, Script
from tests.audit.test_views import query
from tests.log.migrating import migrate

RUNS = (
    "SELECT name, queue, owner, cluster, attempt, since, until, outcome, reason, overlapped, overlapped_unseen, "
    "resources, job_uid FROM audit.runs ORDER BY position"
)
ADMITTED = {"QuotaReserved": True, "Admitted": True}


def admitted(script: Script, name: str = "here-0a1b2", **fields: Any) -> Life:
    """A job of a queue without dispatch: its Workload waits a minute, and is admitted."""
    life = script.workload(name).job().seen({"QuotaReserved": ("Pending", "the queue is full")}, checks=[], **fields)
    script.now += timedelta(minutes=1)
    return life.seen(ADMITTED, checks=[], **fields)


def finished(life: Life, reason: str = "Succeeded") -> Life:
    life.script.now += timedelta(hours=2)
    return life.seen({"Finished": (reason, "")}, checks=[])


async def runs(url: str, script: Script) -> list[dict[str, Any]]:
    await keep(url, script.recorded)
    return query(url, RUNS)


async def test_it_runs_from_its_admission_to_its_end(database_url: str) -> None:
    script = Script("a")
    life = admitted(script, requests={"main": {"cpu": "500m"}})
    since = script.now
    finished(life)
    (run,) = await runs(database_url, script)
    assert run == {
        "name": "here-0a1b2", "queue": "lq", "owner": "Job/here", "cluster": MANAGEMENT, "attempt": 0, "since": since,
        "until": script.now, "outcome": "Succeeded", "reason": "", "overlapped": False, "overlapped_unseen": False,
        "resources": {"cpu": 0.5}, "job_uid": "uid-here",
    }  # fmt: skip


async def test_what_was_admitted_is_counted_and_not_what_the_spec_asks_for(database_url: str) -> None:
    script, applied = Script("a"), "cd" * 32
    admitted(script, applied=applied, kept={"template": "ab" * 32})
    await keep(database_url, script.recorded)
    admission = (
        '{"admission": {"podSetAssignments": [{"name": "main", "count": 2, "resourceUsage": {"cpu": "3"}}, '
        '{"name": "none"}]}}'
    )
    spec = (
        '{"spec": {"podSets": [{"count": 9, "template": {"spec": {"containers": [{"resources": {"requests": '
        '{"cpu": "1"}}}]}}}]}}'
    )
    with psycopg.connect(database_url) as connection:
        for digest, body in ((applied, admission), ("ab" * 32, spec)):
            connection.execute("INSERT INTO controlplane.bodies VALUES (decode(%s, 'hex'), %s, now())", (digest, body))
    assert [run["resources"] for run in query(database_url, RUNS)] == [{"cpu": 3}]
    with psycopg.connect(database_url) as connection:
        connection.execute("DELETE FROM controlplane.bodies WHERE hash = decode(%s, 'hex')", (applied,))
    assert [run["resources"] for run in query(database_url, RUNS)] == [{"cpu": 9}]


async def test_an_eviction_ends_a_run_and_another_admission_begins_one(database_url: str) -> None:
    script = Script("a")
    life = admitted(script)
    life.seen({"Evicted": ("Preempted", "for another")}, checks=[])
    evicted = script.now
    life.seen({"Admitted": False, "QuotaReserved": ("Pending", "requeued")}, checks=[])
    life.seen({"QuotaReserved": True, "Evicted": False, "Admitted": True}, checks=[])
    again = script.now
    found = await runs(database_url, script)
    assert [(run["outcome"], run["reason"], run["until"]) for run in found] == [
        ("Evicted", "Preempted", evicted),
        (None, "", None),
    ]
    assert found[1]["since"] == again


async def test_how_a_run_ends(database_url: str) -> None:
    script = Script("a")
    finished(admitted(script, "failed-0a1b2"), "Failed")
    admitted(script, "gone-0a1b2").gone()
    admitted(script, "sliced-0a1b2").seen({"Finished": ("WorkloadSliceReplaced", "")}, checks=[])
    admitted(script, "taken-0a1b2").seen({"Admitted": False}, checks=[])
    found = await runs(database_url, script)
    assert {run["name"].removesuffix("-0a1b2"): run["outcome"] for run in found} == {
        "failed": "Failed", "gone": "Removed", "sliced": "WorkloadSliceReplaced", "taken": "Suspended",
    }  # fmt: skip


async def test_another_workload_of_the_name_has_runs_of_its_own(database_url: str) -> None:
    script = Script("a")
    life = finished(admitted(script))
    life.gone()
    life.conditions.clear()
    admitted(script)
    found = await runs(database_url, script)
    assert [run["outcome"] for run in found] == ["Succeeded", None]


async def test_what_is_dispatched_has_its_runs_on_workers_alone(database_url: str) -> None:
    """Also while somebody has taken its cluster's name from it, and after it came back for another attempt."""
    script = Script("a", "b")
    script.workload("w-0a1b2").runs("a", "a", "b").seen(cluster_name="")
    script.workload("v-0a1b2").runs("b", "a", "b").finishes("b")
    found = await runs(database_url, script)
    assert {(run["name"], run["cluster"]) for run in found} == {("w-0a1b2", "a"), ("v-0a1b2", "b")}
    assert len(found) == 2


async def test_what_ran_here_before_it_was_offered_stays_counted(database_url: str) -> None:
    script = Script("a")
    life = admitted(script)
    life.seen({"Evicted": ("AdmissionCheck", "")}, checks=[])
    until = script.now
    life.seen({"Admitted": False, "QuotaReserved": ("Pending", ""), "Evicted": False}, checks=[])
    life.local.pop("checks")
    life.runs("a")
    found = await runs(database_url, script)
    assert [(run["cluster"], run["until"]) for run in found] == [(MANAGEMENT, until), ("a", None)]


async def test_it_counts_in_the_hours_that_were_used(database_url: str) -> None:
    script = Script("a")
    finished(admitted(script, requests={"main": {"cpu": "2"}}))
    script.workload("there-0a1b2").runs("a")
    await keep(database_url, script.recorded)
    reader = LogReader.connect(database_url)
    with reader:
        rows = past.usage(reader, ("cluster",), None, None)
        (here,) = past.usage(reader, ("namespace",), None, None, cluster=MANAGEMENT)
    hours = {row["cluster"]: (float(row["run_hours"]), row["resource_hours"]) for row in rows}
    assert hours.keys() == {MANAGEMENT, "a"}
    assert hours[MANAGEMENT][0] == pytest.approx(2, abs=0.001)
    assert float(hours[MANAGEMENT][1]["cpu"]) == pytest.approx(4, abs=0.001)
    assert float(here["run_hours"]) == hours[MANAGEMENT][0]


async def test_the_management_cluster_out_of_view(database_url: str) -> None:
    """Its jobs run on as far as anybody knows; the end was seen after that."""
    script = Script("a")
    life = admitted(script)
    script.lose(MANAGEMENT)
    await keep(database_url, script.recorded)
    (run,) = query(database_url, "SELECT * FROM audit.runs")
    assert (run["until"], run["outcome"], run["unseen_until"]) == (None, None, None)
    assert run["unseen_since"] == script.now - timedelta(seconds=1)
    (lost,) = query(database_url, "SELECT cluster, name, became, ran_on FROM audit.outage_workloads")
    assert lost == {"cluster": MANAGEMENT, "name": life.name, "became": "Kept", "ran_on": False}


async def test_what_was_kept_before_the_migration(empty_database_url: str) -> None:
    url = empty_database_url
    migrate(url, "0021")
    script = Script("a")
    finished(admitted(script, "over-0a1b2"))
    script.workload("there-0a1b2").runs("a").finishes("a")
    await keep(url, script.recorded)
    with psycopg.connect(url) as connection:
        connection.execute("SELECT controlplane.keep_read_models('main', 1000, interval '-1000 days')")
    before = query(url, "SELECT * FROM audit.runs ORDER BY position")
    assert [run["name"] for run in before] == ["there-0a1b2"]
    migrate(url, "head")
    after = query(url, "SELECT * FROM audit.runs ORDER BY position")
    assert [run["name"] for run in after] == ["over-0a1b2", "there-0a1b2"]
    assert after[1:] == before
    assert query(url, "SELECT name FROM read_models.runs ORDER BY name") == [
        {"name": "over-0a1b2"},
        {"name": "there-0a1b2"},
    ]
    migrate(url, "0021", back=True)
    assert query(url, "SELECT * FROM audit.runs ORDER BY position") == before
    assert query(url, "SELECT name FROM read_models.runs") == [{"name": "there-0a1b2"}]


async def test_the_table_of_hours_calls_the_management_cluster_as_other_tables_do(database_url: str) -> None:
    script = Script("a")
    finished(admitted(script, requests={"main": {"cpu": "2"}}))
    await keep(database_url, script.recorded)

    def said(*words: str) -> list[str]:
        done = CliRunner().invoke(cli, ["--database-url", database_url, "usage", "--by", "cluster", *words])
        assert done.exit_code == 0, done.output
        return done.stdout.split()

    assert said("--no-headers")[:2] == ["management", "2.00"]
    assert f'"{MANAGEMENT}",' in said("-o", "json")
    assert said("--cluster", MANAGEMENT) == said()
    assert said("--cluster", "a")[0] != "management"


async def test_the_clusters_count_it_where_it_runs(database_url: str) -> None:
    script = Script("a")
    admitted(script)
    finished(admitted(script, "over-0a1b2"))
    admitted(script, "out-0a1b2").seen({"Evicted": ("Preempted", "")}, checks=[])
    script.workload("there-0a1b2").runs("a")
    await keep(database_url, script.recorded)
    done = CliRunner().invoke(cli, ["--database-url", database_url, "clusters", "-o", "json"])
    assert done.exit_code == 0, done.output
    running = {one["name"]: one["running"] for one in json.loads(done.stdout)["clusters"]}
    assert running == {MANAGEMENT: 1, "a": 1}


def another(script: Script, uid: str) -> Life:
    """A Workload that has the name of one before."""
    life = script.workload("here-0a1b2")
    life.uid = uid
    return life


async def test_what_is_offered_later_was_not_removed(database_url: str) -> None:
    script = Script("a")
    admitted(script).put(AttemptBegun(attempt=1, reason=WorkloadReason.AVAILABLE_CLUSTERS, clusters=["a"]))
    (run,) = await runs(database_url, script)
    assert (run["outcome"], run["until"]) == ("Suspended", script.now)


async def test_a_list_that_shows_the_next_of_its_name_before_it_says_that_the_first_is_gone(database_url: str) -> None:
    script = Script("a")
    admitted(script)
    again = another(script, "second").seen(ADMITTED, checks=[])
    replaced = script.now
    again.put(observations.WorkloadGone(namespace="default", name=again.name, uid="uid-here-0a1b2"))
    first, second = await runs(database_url, script)
    assert (first["outcome"], first["until"]) == ("Removed", replaced)
    assert (second["outcome"], second["since"]) == (None, replaced)


async def test_one_that_was_dispatched_says_nothing_of_the_next_of_its_name(database_url: str) -> None:
    script = Script("a")
    script.workload("here-0a1b2").job().seen({"QuotaReserved": True}).put(
        AttemptBegun(attempt=1, reason=WorkloadReason.AVAILABLE_CLUSTERS, clusters=["a"])
    )
    another(script, "second").seen(ADMITTED, checks=[])
    (run,) = await runs(database_url, script)
    assert (run["cluster"], run["since"]) == (MANAGEMENT, script.now)
