"""Attempts, Workloads of one name and queues in SQL, as people live through them; and the way back to the schema
before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import psycopg

from controlplane.audit.reads import READ
from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.events import NominationDecided
from controlplane.controllers.multikueue.observations import WorkloadGone
from controlplane.controllers.quota.admission import events as admission
from controlplane.controllers.quota.admission.reasons import AdmissionReason
from controlplane.log.event import NewEvent
from tests.audit.database import keep
from tests.audit.script import Life, Script
from tests.audit.test_views import query
from tests.log.migrating import goes_there_and_back
from tests.quota.admission.scene import Scene

NAME = "w-0a1b2"


def nominated(script: Script) -> tuple[Life, NominationDecided]:
    """Return a Workload that has quota, and its nomination, which is the last that is known."""
    life = script.workload(NAME).job().seen({"QuotaReserved": True})
    before = len(script.recorded)
    life.decide()
    found = next(one.event for one in script.recorded[before:] if isinstance(one.event, NominationDecided))
    return life, found


async def test_an_attempt_has_its_queue_before_the_workload_is_seen_again(database_url: str) -> None:
    script = Script("a", "b")
    nominated(script)
    await keep(database_url, script.recorded)
    asked = "SELECT attempt, queue, owner, until FROM audit.placements"
    assert query(database_url, asked) == [{"attempt": 1, "queue": "lq", "owner": "Job/w", "until": None}]


async def test_an_attempt_ends_when_the_next_one_begins(database_url: str) -> None:
    """That it was evicted was seen by nobody: the service was away."""
    script = Script("a", "b")
    life, first_one = nominated(script)
    script.now += timedelta(minutes=5)
    life.put(msgspec.structs.replace(first_one, attempt=2))
    await keep(database_url, script.recorded)
    first, second = query(database_url, "SELECT offered_at, until FROM audit.placements ORDER BY attempt")
    assert first["until"] == second["offered_at"]
    assert second["until"] is None


async def test_the_third_of_a_name_is_another_workload_too(database_url: str) -> None:
    """A list shows each new one before it says that the one before is gone."""
    script = Script("a")
    life, decided = nominated(script)
    for number in (1, 2):
        before, life.uid = life.uid, f"uid-{number}"
        script.now += timedelta(minutes=1)
        life.seen({"QuotaReserved": True})
        life.put(WorkloadGone(namespace=life.namespace, name=life.name, uid=before)).put(decided)
    await keep(database_url, script.recorded)
    rows = query(database_url, "SELECT submitted_at, until FROM audit.placements ORDER BY submitted_at")
    assert [row["until"] for row in rows] == [rows[1]["submitted_at"], rows[2]["submitted_at"], None]
    phases = query(database_url, "SELECT phase, attempt FROM audit.workload_phases WHERE until IS NULL")
    assert [row["attempt"] for row in phases] == [1]


async def test_what_queues_were_changed_to_is_told_where_this_service_reserves(database_url: str) -> None:
    scene = Scene()
    scene.queue("q", "4", cohortName="all")
    scene.queue("q", "6", cohortName="all")
    await keep(database_url, scene.log, types=READ)
    rows = query(
        database_url,
        "SELECT kind, field, new FROM audit.config_changes WHERE name = 'q' AND change = 'Changed' AND kind = 'ClusterQueue'",
    )
    assert [(row["kind"], row["field"]) for row in rows] == [("ClusterQueue", "spec.resourceGroups")]
    assert "6" in str(rows[0]["new"])


async def test_cohorts_and_flavors_are_told_of_by_the_fields_of_their_specs(database_url: str) -> None:
    script = Script("a")
    seen: dict[str, Any] = {"name": "q", "uid": "u", "resource_version": "1"}
    for word, number in (("cohort", 1), ("flavor", 2)):
        kinds = {
            "cohort": (admission.AdmissionCohortObserved, admission.AdmissionCohortGone),
            "flavor": (admission.AdmissionFlavorObserved, admission.AdmissionFlavorGone),
        }
        observed, gone = kinds[word]
        stream = f"admission/{word}/q"
        script.put(NewEvent(stream=stream, event=observed(**seen, spec={"n": number})))
        script.put(NewEvent(stream=stream, event=observed(**seen, spec={"n": number + 1})))
        script.put(NewEvent(stream=stream, event=gone(name="q", uid="u")))
    await keep(database_url, script.recorded, types=READ)
    rows = query(
        database_url,
        "SELECT kind, change, field, old, new FROM audit.config_changes WHERE name = 'q' ORDER BY position",
    )
    assert [tuple(row.values()) for row in rows] == [
        ("Cohort", "Created", "spec.n", None, 1),
        ("Cohort", "Changed", "spec.n", 1, 2),
        ("Cohort", "Deleted", "spec.n", 2, None),
        ("ResourceFlavor", "Created", "spec.n", None, 2),
        ("ResourceFlavor", "Changed", "spec.n", 2, 3),
        ("ResourceFlavor", "Deleted", "spec.n", 3, None),
    ]


async def test_what_a_workload_held_is_told_from_its_events_once(database_url: str) -> None:
    """However often it got and lost quota: what it was seen as is not read again for each time."""
    script = Script("a")
    life = script.workload(NAME).job()
    for number in range(3000):  # of others
        other = observations.MultiKueueClusterObserved(name="c", uid="u", resource_version=str(number))
        script.put(NewEvent(stream=f"cluster/{number % 50}", event=other))
    stream, uid = f"admission/workload/default/{NAME}", life.uid
    for number in range(60):
        life.seen({"QuotaReserved": bool(number % 2)})
        seen = admission.AdmissionWorkloadObserved(
            namespace="default", name=NAME, uid=uid, resource_version=str(number), queue="lq"
        )
        amount = {"spot": {"cpu": 1000 if number % 2 else -1000}} if number else {}
        posted = admission.QuotaPosted(
            reason=AdmissionReason.OBSERVED_RESERVATION, cluster_queue="cq", amounts=amount, borrowed={}
        )
        life.put(seen, stream=stream).put(posted, stream=stream)
    await keep(database_url, script.recorded, types=READ)
    with psycopg.connect(database_url) as connection:
        connection.execute("ANALYZE controlplane.events, controlplane.streams")
    (found,) = query(database_url, "EXPLAIN (ANALYZE, FORMAT JSON) SELECT * FROM audit.quota_usage")
    plans, read = [found["QUERY PLAN"][0]["Plan"]], 0.0
    while plans:
        plan = plans.pop()
        plans += plan.get("Plans", ())
        if plan.get("Relation Name", "").startswith("events_"):
            read += (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    assert len(query(database_url, "SELECT FROM audit.quota_usage")) == 30
    assert read < 1000  # it has 180 events


# --- the way back -----------------------------------------------------------------------------------------------------


def test_the_views_of_the_version_before_are_those_again(empty_database_url: str) -> None:
    goes_there_and_back(empty_database_url, "0027", "0028")
