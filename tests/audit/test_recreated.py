"""Another object of the same name: a new list shows it before it says that the one before is gone, and that is no end
of it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from controlplane.audit.runs_seen import runs
from controlplane.audit.standing import standing
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.events import AttemptBegun
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.log.event import NewEvent
from tests.audit.database import keep
from tests.audit.script import POLICY, Life, Script
from tests.audit.test_read_models import kept, looked_through, same
from tests.audit.test_views import query
from tests.log.migrating import migrate

NAME = "w-0a1b2"


def another(script: Script, uid: str) -> Life:
    """A Workload that has the name of one before."""
    life = script.workload(NAME)
    life.uid = uid
    return life


def gone(life: Life, uid: str) -> Life:
    return life.put(observations.WorkloadGone(namespace="default", name=NAME, uid=uid))


def recreated(*, listed: bool) -> tuple[Script, Life]:
    """A Workload that waits for clusters; the one before of its name was placed. `listed`: as a list tells it, not a
    watch."""
    script = Script("a")
    script.workload(NAME).runs("a")
    again = another(script, "second")
    if not listed:
        gone(again, f"uid-{NAME}")
    again.seen({"QuotaReserved": True})
    if listed:
        gone(again, f"uid-{NAME}")
    again.put(AttemptBegun(attempt=2, reason=WorkloadReason.AVAILABLE_CLUSTERS, clusters=["a"]))
    return script, again


async def told(url: str, script: Script, columns: str, view: str) -> list[dict[str, Any]]:
    await keep(url, script.recorded)
    return query(url, f"SELECT {columns} FROM audit.{view} WHERE name = '{NAME}' ORDER BY position")


@pytest.mark.parametrize("listed", [False, True])
async def test_it_is_not_deleted(database_url: str, listed: bool) -> None:
    script, again = recreated(listed=listed)
    rows = await told(database_url, script, "phase, attempt, cluster, until", "workload_phases")
    state = script.fleet.index.workloads[again.stream]
    assert standing(state, script.fleet.index.context(state), script.now).word == "Nominated"
    assert rows[-2:] == [
        {"phase": "Reserved", "attempt": 0, "cluster": None, "until": script.now},
        {"phase": "Nominated", "attempt": 2, "cluster": None, "until": None},
    ]
    found = query(database_url, "SELECT phase FROM audit.as_of('main', %s) WHERE name = %s", script.now, NAME)
    assert found == [{"phase": "Nominated"}]


@pytest.mark.parametrize("listed", [False, True])
async def test_it_waits(database_url: str, listed: bool) -> None:
    script, _ = recreated(listed=listed)
    rows = await told(database_url, script, "waits_for, attempt", "pending_reasons")
    await_of_itself = query(
        database_url,
        "SELECT waits_for, attempt FROM audit.pending_reasons WHERE cluster = '@management' AND until IS NULL",
    )
    assert await_of_itself == [{"waits_for": "a cluster to admit it", "attempt": 2}]
    assert rows


@pytest.mark.parametrize("listed", [False, True])
async def test_its_attempt_has_its_own_times(database_url: str, listed: bool) -> None:
    script, again = recreated(listed=listed)
    rows = await told(database_url, script, "attempt, submitted_at, reserved_at, until", "placements")
    seen = next(
        one.recorded_at
        for one in script.recorded
        if one.stream == again.stream
        and isinstance(one.event, observations.WorkloadObserved)
        and one.event.uid == "second"
    )
    # of the first there is a choice, which comes first in the order of positions; the second has none yet
    second = next(row for row in rows if row["attempt"] == 2)
    assert second == {"attempt": 2, "submitted_at": seen, "reserved_at": seen, "until": None}
    first = next(row for row in rows if row["attempt"] == 1)
    assert first["until"] is not None


async def test_a_run_ends_when_another_job_of_the_name_is_seen_on_its_cluster(database_url: str) -> None:
    """On one cluster there is one object of a name at a time."""
    script = Script("a")
    life = script.workload(NAME).runs("a")
    first = script.now
    uid = life.job_uid
    life.job_uid = "uid-next"
    life.remote_job("a", status="11", inactive=False)
    replaced = script.now
    life.job_uid = uid
    life.remote_job_gone("a")
    rows = await told(database_url, script, "job_uid, since, until, outcome", "runs")
    pure = [
        (run.uid, run.ended.recorded_at if run.ended else None)
        for run in runs(POLICY, script.recorded, life.stream, f"uid-{NAME}")
    ]
    assert [(row["job_uid"], row["until"]) for row in rows] == pure
    assert [(row["job_uid"], row["until"], row["outcome"]) for row in rows] == [
        ("uid-w-a", replaced, "Removed"),
        ("uid-next-a", None, None),
    ]
    assert rows[0]["since"] < first < rows[1]["since"] == replaced


async def test_a_copy_of_the_name_goes_on_to_wait(database_url: str) -> None:
    script = Script("a")
    life = script.workload(NAME).offered("a")
    since = script.now
    life.put(
        observations.CloneObserved(namespace="default", name=NAME, uid="other", resource_version="99", spec_key="s"),
        "a",
    )
    life.clone_gone("a")
    await keep(database_url, script.recorded)
    rows = query(database_url, "SELECT since, until, waits_for FROM audit.pending_reasons WHERE cluster = 'a'")
    assert rows == [{"since": since, "until": None, "waits_for": "quota for its copy"}]


async def test_it_holds_its_quota(database_url: str) -> None:
    script = Script("a")
    script.workload(NAME).job().seen({"QuotaReserved": True}, requests={"main": {"cpu": "2"}})
    again = another(script, "second").seen({"QuotaReserved": True}, requests={"main": {"cpu": "3"}})
    since = script.now
    gone(again, f"uid-{NAME}")
    rows = await told(database_url, script, "amount, since, until", "quota_usage")
    assert [(int(row["amount"]), row["until"]) for row in rows] == [(2, since), (3, None)]
    assert rows[1]["since"] == since


async def test_a_configuration_that_was_made_again_is_there(database_url: str) -> None:
    script = Script("a")
    identity = {"name": "config", "resource_version": "9"}
    script.put(
        NewEvent(
            stream="multikueueconfig/config",
            event=observations.MultiKueueConfigObserved(**identity, uid="new", clusters=["a", "b"]),
        )
    )
    script.put(
        NewEvent(stream="multikueueconfig/config", event=observations.MultiKueueConfigGone(name="config", uid="cf"))
    )
    await keep(database_url, script.recorded)
    rows = query(
        database_url, "SELECT change, old, new, until FROM audit.config_changes WHERE name = 'config' ORDER BY position"
    )
    assert [(row["change"], row["new"]) for row in rows] == [("Created", ["a"]), ("Changed", ["a", "b"])]
    assert rows[-1]["until"] is None
    (fleet,) = query(database_url, "SELECT configs FROM audit.fleet_at('main', %s) WHERE cluster = 'a'", script.now)
    assert fleet == {"configs": ["config"]}


async def test_a_cluster_that_was_made_again_has_its_location_and_labels(database_url: str) -> None:
    script = Script("a")
    again = observations.MultiKueueClusterObserved(
        name="a", uid="second", resource_version="9", location="elsewhere", labels={"zone": "z"}
    )
    gone = [observations.MultiKueueClusterGone(name="a", uid=uid) for uid in ("c-a", "second")]
    times = []
    for event in (again, *gone):
        script.put(NewEvent(stream="cluster/a", event=event, cluster=MANAGEMENT))
        times.append(script.now)
    await keep(database_url, script.recorded)
    asked = "SELECT location, labels FROM audit.fleet_at('main', %s) WHERE cluster = 'a'"
    there = [{"location": "elsewhere", "labels": {"zone": "z"}}]
    assert [query(database_url, asked, at) for at in times[:2]] == [there, there]
    assert query(database_url, asked, times[2]) in ([{"location": None, "labels": {}}], [])


async def test_what_goes_on_is_not_kept(database_url: str) -> None:
    """The last that was recorded of its name is that it is gone, and it was another one."""
    script = Script("a")
    life = script.workload(NAME).runs("a").finishes("a")
    again = another(script, "second").seen(
        {"QuotaReserved": ("Pending", "the queue is full"), "Finished": False, "Admitted": False}
    )
    gone(again, f"uid-{NAME}")
    script.workload("over-0a1b2").runs("a").finishes("a")
    await keep(database_url, script.recorded)
    looked_through(database_url)
    assert kept(database_url) == ["over-0a1b2"]
    assert same(database_url) > 0
    assert life.name == again.name


async def test_what_was_kept_before_is_told_of_its_events(empty_database_url: str) -> None:
    url, phases = empty_database_url, "SELECT phase FROM audit.workload_phases WHERE name = %s ORDER BY position"
    migrate(url, "0022")
    script = Script("a")
    script.workload(NAME).job().seen({"QuotaReserved": ("Pending", "the queue is full")})
    again = another(script, "second").seen({"QuotaReserved": ("Pending", "the queue is still full")})
    gone(again, f"uid-{NAME}")
    script.workload("over-0a1b2").runs("a").finishes("a").gone()
    await keep(url, script.recorded)
    with psycopg.connect(url) as connection:
        connection.execute("SELECT controlplane.keep_read_models('main', 1000, interval '-1000 days')")
    assert kept(url) == ["over-0a1b2", NAME]
    assert [row["phase"] for row in query(url, phases, NAME)] == ["Pending", "Pending", "Deleted"]
    migrate(url, "head")
    assert kept(url) == ["over-0a1b2"]
    assert [row["phase"] for row in query(url, phases, NAME)] == ["Pending", "Pending"]
    assert same(url) > 0
    migrate(url, "0022", back=True)
    assert [row["phase"] for row in query(url, phases, NAME)] == ["Pending", "Pending", "Deleted"]
