"""What a Workload waits for that is admitted without being dispatched: nothing, and what was kept of it before goes; and what waits
for a cluster that was lost."""

from __future__ import annotations

import psycopg

from controlplane.audit.standing import standing
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
    """The query of the cookbook has those that the list calls Lost, also after one was deleted or given up meanwhile."""
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
