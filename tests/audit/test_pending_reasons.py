"""What a Workload waits for that is admitted without being dispatched: nothing, and what was kept of it before goes;
and what waits for a cluster that was lost."""

from __future__ import annotations

import psycopg

from controlplane.audit.standing import standing
from controlplane.controllers.multikueue.observations import CheckState
from tests.audit.database import keep
from tests.audit.script import Script, write
from tests.audit.test_views import query
from tests.docs.cookbook import PAGE, entries
from tests.log.migrating import migrate


def admitted_here(script: Script) -> None:
    """One Workload that no cluster is looked for, and one that waits for its job on another cluster."""
    script.workload("here-0a1b2").job().seen({"QuotaReserved": True, "Admitted": True}, checks=[])
    there = script.workload("there-0a1b2").offered("a")
    there.clone("a", {"QuotaReserved": True}).clone("a", {"Admitted": True}).decide()
    there.seen({"Admitted": True}, check="Ready", cluster_name="a", nominated=[])


WAITING = "SELECT name, waits_for FROM audit.pending_reasons WHERE cluster = '@management' AND until IS NULL"


async def test_what_is_admitted_without_dispatch_waits_for_nothing(database_url: str) -> None:
    script = Script("a")
    admitted_here(script)
    await write(database_url, script.appended)
    assert query(database_url, WAITING) == [{"name": "there-0a1b2", "waits_for": "a to start its job"}]


async def test_what_waits_for_a_cluster_that_was_lost(database_url: str) -> None:
    """The query of the cookbook has those that the list calls Lost, also after one was deleted or given up
    meanwhile."""
    script = Script("a", "b")
    names = ("deleted-0a1b2", "kept-0a1b2", "moved-0a1b2")
    deleted, _, moved = [script.workload(name).offered("a", "b").installed("b", "a", "b") for name in names]
    script.workload("other-0a1b2").offered("a", "b").installed("a", "a", "b")
    script.lose("b")
    deleted.gone()
    moved.seen(check="Retry")
    await write(database_url, script.appended)
    [asked] = [
        one.query for one in entries(PAGE.read_text()) if one.question.startswith("What waits now for a cluster")
    ]
    assert [(row["name"], row["cluster"]) for row in query(database_url, asked)] == [("kept-0a1b2", "b")]
    index = script.fleet.index
    words = {state.name: standing(state, index.context(state), script.now).word for state in index.workloads.values()}
    assert [name for name, word in words.items() if word == "Lost"] == ["kept-0a1b2"]


async def test_what_was_kept_of_it_before_is_not_said_after_the_migration(empty_database_url: str) -> None:
    """And what the version before says on the way back is what it said."""
    url = empty_database_url
    migrate(url, "0020")
    script = Script("a")
    script.workload("over-0a1b2").job().seen({"QuotaReserved": True, "Admitted": True}, checks=[]).seen(
        {"Finished": ("Succeeded", "")}
    )
    admitted_here(script)
    await write(url, script.appended)
    with psycopg.connect(url) as connection:
        connection.execute("SELECT controlplane.keep_read_models('main', 1000, interval '-1000 days')")
    before = query(url, "SELECT * FROM audit.pending_reasons ORDER BY name, position")
    wrong = "its other admission checks"
    assert {row["name"] for row in before if row["waits_for"] == wrong} == {"here-0a1b2", "over-0a1b2"}
    assert query(url, "SELECT name FROM read_models.pending_reasons WHERE waits_for = %s", wrong)
    migrate(url, "head")
    after = query(url, "SELECT * FROM audit.pending_reasons ORDER BY name, position")
    assert after == [row for row in before if row["waits_for"] != wrong]
    with psycopg.connect(url) as connection:
        connection.execute("SELECT controlplane.drop_read_models('main')")
    assert query(url, "SELECT * FROM audit.pending_reasons ORDER BY name, position") == after
    migrate(url, "0020", back=True)
    assert query(url, "SELECT * FROM audit.pending_reasons ORDER BY name, position") == before


ON_MANAGEMENT = (
    "SELECT since, until, waits_for, reason, message, position FROM audit.pending_reasons"
    " WHERE name = %s AND cluster = '@management' AND waits_for <> 'quota' ORDER BY position"
)


def of_check(state: str, message: str = "") -> CheckState:
    return CheckState(name="budget", state=state, message=message)


async def test_a_check_that_was_rejected_before_there_is_quota(database_url: str) -> None:
    """It is not tried for quota, and nobody deactivates it: somebody has to reset the check."""
    script = Script("a")
    life = script.workload("w-0a1b2").job().seen({"QuotaReserved": ("Pending", "full")}, checks=[of_check("Pending")])
    life.seen(checks=[of_check("Rejected", "over budget")])
    since = script.now
    life.seen(checks=[of_check("Rejected", "over budget"), CheckState(name="mk")])
    life.seen(checks=[of_check("Pending")])
    until = script.now
    life.seen({"QuotaReserved": True})
    await keep(database_url, script.recorded)
    rows = query(
        database_url, "SELECT waits_for, reason, message, since, until FROM audit.pending_reasons ORDER BY position"
    )
    assert [row["waits_for"] for row in rows] == [
        "quota", "its admission check, which is Rejected, to be reset", "quota", "its nomination",
    ]  # fmt: skip
    assert [*rows[1].values()][1:] == ["budget", "over budget", since, until]
    assert [one["phase"] for one in query(database_url, "SELECT phase FROM audit.workload_phases ORDER BY position")] == [
        "Pending", "Reserved",
    ]  # fmt: skip


async def test_a_workload_whose_cluster_is_lost_waits_for_it(database_url: str) -> None:
    script = Script("a", "b")
    life = script.workload("w-0a1b2").runs("a", "a", "b")
    script.lose("a")
    lost = script.recorded[-2]
    script.connect("a")
    back = script.now
    script.lose("a")
    again = script.recorded[-2]
    life.seen(check="Retry")
    await keep(database_url, script.recorded)
    found = [row for row in query(database_url, ON_MANAGEMENT, "w-0a1b2") if row["waits_for"] == "a to come back"]
    assert [(row["since"], row["until"], row["reason"], row["message"], row["position"]) for row in found] == [
        (lost.recorded_at, back, "ProbeFailed", "no route to host", lost.position),
        (again.recorded_at, script.now, "ProbeFailed", "no route to host", again.position),
    ]


async def test_it_waits_for_one_thing_at_a_time(database_url: str) -> None:
    """Lost before its job had started there: for the cluster, and then again for the job."""
    script = Script("a")
    life = script.workload("w-0a1b2").offered("a")
    life.clone("a", {"QuotaReserved": True}).clone("a", {"Admitted": True}).decide()
    life.seen({"Admitted": True}, check="Ready", cluster_name="a", nominated=[])
    script.lose("a")
    script.connect("a")
    life.remote_job("a", status="11", inactive=False)
    await keep(database_url, script.recorded)
    found = query(database_url, ON_MANAGEMENT, "w-0a1b2")
    assert [row["waits_for"] for row in found][-3:] == ["a to start its job", "a to come back", "a to start its job"]
    assert [one["until"] for one in found][:-1] == [one["since"] for one in found][1:]


async def test_what_is_kept_says_the_same_before_and_after_the_migration(empty_database_url: str) -> None:
    url = empty_database_url
    migrate(url, "0021")
    script = Script("a")
    life = script.workload("w-0a1b2").offered("a")
    life.clone("a", {"QuotaReserved": True}).clone("a", {"Admitted": True}).decide()
    life.seen({"Admitted": True}, check="Ready", cluster_name="a", nominated=[]).decide()
    script.lose("a")
    script.connect("a")
    life.decide().remote_job("a", status="11", inactive=False)
    script.lose("a")
    script.connect("a")
    life.finishes("a").gone()
    await keep(url, script.recorded)
    with psycopg.connect(url) as connection:
        connection.execute("SELECT controlplane.keep_read_models('main', 1000, interval '-1000 days')")
    every = "SELECT * FROM audit.pending_reasons ORDER BY cluster, position"
    before = query(url, every)
    assert query(url, "SELECT stream FROM read_models.streams")
    migrate(url, "head")
    after = query(url, every)
    assert [row["waits_for"] for row in after].count("a to come back") == 2
    with psycopg.connect(url) as connection:
        connection.execute("SELECT controlplane.drop_read_models('main')")
    assert query(url, every) == after
    with psycopg.connect(url) as connection:
        connection.execute("SELECT controlplane.keep_read_models('main', 1000, interval '-1000 days')")
    migrate(url, "0021", back=True)
    assert query(url, every) == before


async def test_what_is_lost_at_a_time_is_so_since_its_cluster_is(database_url: str) -> None:
    script = Script("a", "b")
    script.workload("w-0a1b2").runs("a", "a", "b")
    script.workload("v-0a1b2").runs("b", "a", "b")
    script.lose("a")
    lost = script.recorded[-2].recorded_at
    await keep(database_url, script.recorded)
    rows = query(
        database_url, "SELECT name, phase, cluster, since, reason, message FROM audit.as_of('main', %s)", script.now
    )
    assert [row for row in rows if row["phase"] == "Lost"] == [
        {
            "name": "w-0a1b2",
            "phase": "Lost",
            "cluster": "a",
            "since": lost,
            "reason": "ProbeFailed",
            "message": "no route to host",
        }
    ]
    assert [(row["name"], row["phase"]) for row in rows if row["phase"] != "Lost"] == [("v-0a1b2", "Running")]
