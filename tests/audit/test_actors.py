"""Who held which quota, who did what, and what became of candidates: the views `quota_usage`, `actors`,
`candidates`."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from controlplane.audit.reads import READ
from controlplane.controllers.candidates.source import observations as seen
from controlplane.controllers.connectivity.events import (
    MANAGEMENT,
    ClusterForgotten,
    ClusterLost,
    LogRebound,
    MassOutageAccepted,
)
from controlplane.controllers.connectivity.local_connection import service_started
from controlplane.log.event import NewEvent, Recorded
from tests.audit.database import keep
from tests.audit.samples import sample
from tests.audit.script import Script, at, write
from tests.audit.test_usage import POD_SETS, TEMPLATE
from tests.audit.test_views import query
from tests.candidates.told import Told

HELD = "SELECT cluster_queue, flavor, resource, amount::float AS amount, since, until FROM audit.quota_usage"


def held(url: str) -> list[dict[str, Any]]:
    return query(url, f"{HELD} ORDER BY position, flavor, resource")


def assigned(*pod_sets: dict[str, Any]) -> dict[str, Any]:
    return {"assignments": list(pod_sets)}


A100 = {
    "name": "main",
    "flavors": {"cpu": "spot", "gpu": "a100"},
    "resourceUsage": {"cpu": "500m", "gpu": "2"},
    "count": 2,
}
DRIVER = {"name": "driver", "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "1"}}


async def test_quota_by_flavor_from_the_admission(database_url: str) -> None:
    script = Script("a")
    life = script.workload("w-0a1b2")
    life.job().seen({"QuotaReserved": ("Pending", "full")}).seen({"QuotaReserved": True}, **assigned(A100, DRIVER))
    since = script.now
    script.now += timedelta(hours=1)
    life.seen(priority=sample_priority())  # what is not quota changes nothing
    script.now += timedelta(hours=1)
    life.seen({"QuotaReserved": ("Pending", "evicted")}, assignments=[])
    until = script.now
    await keep(database_url, script.recorded)
    assert [tuple(row.values()) for row in held(database_url)] == [
        ("cq", "a100", "gpu", 2.0, since, until),
        ("cq", "spot", "cpu", 1.5, since, until),
    ]


def sample_priority() -> Any:
    from controlplane.controllers.multikueue.observations import Priority

    return Priority(value=7)


async def test_quota_without_flavors(database_url: str) -> None:
    """From what the admission takes, and where the log has neither, from the spec."""
    script = Script("a")
    by_requests, by_spec, unknown = (script.workload(f"{name}-0a1b2") for name in ("r", "s", "u"))
    by_requests.seen({"QuotaReserved": True}, requests={"main": {"cpu": "2"}, "other": {"cpu": "500m"}})
    by_spec.seen({"QuotaReserved": True}, kept={"template": TEMPLATE})
    unknown.seen({"QuotaReserved": True})
    await keep(database_url, script.recorded)
    with psycopg.connect(database_url) as connection:
        body = json.dumps({"labels": {}, "spec": {"podSets": POD_SETS}})
        connection.execute("INSERT INTO controlplane.bodies VALUES (decode(%s, 'hex'), %s, now())", (TEMPLATE, body))
    rows = query(
        database_url,
        "SELECT name, flavor, resource, amount::float AS amount FROM audit.quota_usage ORDER BY name, resource",
    )
    texts = query(database_url, "SELECT amount::text FROM audit.quota_usage WHERE resource = 'cpu' ORDER BY name")
    assert [row["amount"] for row in texts] == ["2.5", "1.5"]
    assert [tuple(row.values()) for row in rows] == [
        ("r-0a1b2", None, "cpu", 2.5),
        ("s-0a1b2", None, "cpu", 1.5),
        ("s-0a1b2", None, "memory", 3 * 2.0**30),
        ("s-0a1b2", None, "nvidia.com/gpu", 3.0),
        ("u-0a1b2", None, None, None),
    ]


async def test_quota_ends_with_the_workload(database_url: str) -> None:
    """Finished, or deleted; and what is held again is another interval."""
    script = Script("a")
    script.workload("done-0a1b2").seen({"QuotaReserved": True}).seen({"Finished": ("Succeeded", "")}).seen()
    script.workload("gone-0a1b2").seen({"QuotaReserved": True}).gone()
    twice = script.workload("twice-0a1b2").seen({"QuotaReserved": True}).seen({"QuotaReserved": ("Pending", "")})
    twice.seen({"QuotaReserved": True})
    await keep(database_url, script.recorded)
    rows = query(
        database_url,
        "SELECT name, count(*) AS n, count(until) AS ended FROM audit.quota_usage GROUP BY 1 ORDER BY 1",
    )
    assert [tuple(row.values()) for row in rows] == [("done-0a1b2", 1, 1), ("gone-0a1b2", 1, 1), ("twice-0a1b2", 2, 1)]


async def test_who_did_it(database_url: str) -> None:
    script = Script("a")
    script.put(at("a", ClusterLost(reason="Unreachable", message="", seen_by="replica-1")))
    script.put(at("a", ClusterForgotten(by="jane")))
    script.put(NewEvent(stream="fleet", event=MassOutageAccepted(by="joe\0")))
    script.put(service_started(2, "replica-2", "1.0"))
    script.put(at(MANAGEMENT, LogRebound(by="ann")))
    life = script.workload("w-0a1b2")
    life.job().job(suspended=False).job(managed_by="example.com/other")
    await keep(database_url, script.recorded)
    rows = query(
        database_url, "SELECT role, actor, action, cluster, namespace, name FROM audit.actors ORDER BY position"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("replica", "test", "ServiceStarted", None, None, None),
        ("controller", "kueue.x-k8s.io/multikueue", "AdmissionCheckObserved", None, None, "mk"),
        ("replica", "replica-1", "ClusterLost", "a", None, None),
        ("operator", "jane", "ClusterForgotten", "a", None, None),
        ("operator", "joe\ufffd", "MassOutageAccepted", None, None, None),
        ("replica", "replica-2", "ServiceStarted", None, None, None),
        ("operator", "ann", "LogRebound", MANAGEMENT, None, None),
        ("controller", "kueue.x-k8s.io/multikueue", "JobObserved", MANAGEMENT, "default", "w"),
        ("controller", "example.com/other", "JobObserved", MANAGEMENT, "default", "w"),
    ]


async def told(url: str, story: Told) -> None:
    """Keep the log of a story, an event a second."""
    rows = [
        Recorded(
            position=number,
            stream=row.stream,
            version=0,
            event=row.event,
            cluster=row.cluster,
            caused_by=row.caused_by,
            recorded_at=story.process.now + timedelta(seconds=number),
        )
        for number, row in enumerate(story.rows, 1)
    ]
    await keep(url, rows, types=READ)


CANDIDATES = (
    "SELECT cluster, epoch, outcome, reason, node, permit_reason, permits, dropped_reason, waiting_seconds IS NULL AS "
    "unanswered, bound_at IS NOT NULL AS bound, refused_at IS NOT NULL AS refused, gone_at IS NOT NULL AS gone FROM "
    "audit.candidates ORDER BY position"
)


async def test_what_became_of_candidates(database_url: str) -> None:
    story = Told("a", "b", "c").asked()
    story.says(seen.CandidateRefused, "b", why="NotInvited", message="no rights here")
    story.reserves("a").settle().binds("a").settle().candidate_gone("b").settle()
    await told(database_url, story)
    found = {row.pop("cluster"): row for row in query(database_url, CANDIDATES)}
    same = {"epoch": 1, "permits": 0, "permit_reason": "", "node": None, "bound": False}
    assert found["a"] == {
        **same,
        "outcome": "Bound",
        "reason": "",
        "node": "n",
        "permit_reason": found["a"]["permit_reason"],
        "permits": 1,
        "dropped_reason": "",
        "unanswered": False,
        "bound": True,
        "refused": False,
        "gone": False,
    }
    assert found["a"]["permit_reason"] in {"FirstReady", "BestScore", "OnlyReady", "WindowClosed"}
    assert (found["b"]["outcome"], found["b"]["reason"]) == ("Refused", "NotInvited")
    assert (found["b"]["refused"], found["b"]["gone"], found["b"]["unanswered"]) == (True, True, False)
    assert (found["c"]["outcome"], found["c"]["unanswered"], found["c"]["dropped_reason"]) == (
        "Waiting",
        True,
        "AnotherTargetWon",
    )


async def test_how_long_a_target_let_wait(database_url: str) -> None:
    story = Told("a").asked().reserves("a").settle()
    await told(database_url, story)
    (row,) = query(
        database_url,
        "SELECT waiting_seconds::float AS seconds, extract(epoch FROM reserved_at - offered_at)::float AS reserved "
        "FROM audit.candidates",
    )
    assert row["seconds"] == row["reserved"] > 0


async def test_no_event_breaks_them_wherever_it_is(database_url: str) -> None:
    streams = ("sourcepod/default/w", "workload/default/w", "job/jobs.batch/default/w", "cluster/a", "service")
    new = [NewEvent(stream=stream, event=sample(kind), cluster="a") for stream in streams for kind in READ]
    await write(database_url, new, types=READ)
    assert query(database_url, "SELECT * FROM audit.candidates")
    assert query(database_url, "SELECT * FROM audit.reservations")
    assert query(database_url, "SELECT * FROM audit.actors")
    query(database_url, "SELECT * FROM audit.quota_usage")


@pytest.mark.parametrize("view", ["quota_usage", "actors", "candidates", "reservations", "job_labels"])
async def test_a_name_is_answered_from_an_index(database_url: str, view: str) -> None:
    script = Script("a")
    for number in range(300):
        script.workload(f"w{number}-0a1b2").job().seen({"QuotaReserved": True})
    await write(database_url, script.appended)
    with psycopg.connect(database_url) as connection:
        connection.execute("ANALYZE controlplane.events")
        connection.execute("ANALYZE controlplane.streams")
        rows = connection.execute(
            f"EXPLAIN SELECT * FROM audit.{view} WHERE namespace = 'default' AND name = 'w7-0a1b2'".encode()
        )
        plan = "\n".join(text for (text,) in rows)
    assert "Seq Scan on events" not in plan, plan
