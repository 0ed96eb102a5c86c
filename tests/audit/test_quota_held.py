"""Who held which quota where the service reserves it: `audit.quota_usage` against the ledger's sums, entry by entry."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.kube.kinds import WORKLOADS
from tests.audit.database import keep
from tests.audit.test_views import query
from tests.quota.admission.scene import NS, Scene

HELD = (
    "SELECT name, queue, cluster_queue, flavor, resource, amount::float AS amount, since, until FROM audit.quota_usage"
    " ORDER BY position, flavor, resource"
)


async def kept(url: str, scene: Scene) -> None:
    """Record what admission recorded, at the same times."""
    await keep(url, scene.log, types=AdmissionController.types)


async def test_from_the_reservation_to_its_release(database_url: str) -> None:
    scene = Scene()
    scene.queue("q", "10")
    scene.workload("a", "q", "500m", count=3)
    scene.settle()
    since = scene.now
    scene.pass_time(60)
    scene.finish("a")
    scene.settle()
    await kept(database_url, scene)
    (row,) = query(database_url, HELD)
    assert row == {
        "name": "a", "queue": "q", "cluster_queue": "q", "flavor": "default", "resource": "cpu", "amount": 1.5,
        "since": since, "until": since + timedelta(seconds=60),
    }  # fmt: skip


async def test_whose_job_it_is(database_url: str) -> None:
    scene = Scene()
    scene.queue("q", "10")
    scene.workload("a", "q", "1")
    scene.settle()
    await kept(database_url, scene)
    assert query(database_url, "SELECT DISTINCT name, owner FROM audit.quota_usage") == [
        {"name": "a", "owner": "Job/a"}
    ]


async def test_an_amount_has_no_zeros_behind_it(database_url: str) -> None:
    scene = Scene()
    scene.queue("q", "10")
    scene.workload("a", "q", "2", count=2)
    scene.workload("b", "q", "500m", count=3)
    scene.settle()
    await kept(database_url, scene)
    rows = query(database_url, "SELECT amount::text FROM audit.quota_usage ORDER BY name")
    assert [row["amount"] for row in rows] == ["4", "1.5"]


async def test_pods_that_need_it_no_more_begin_another_interval(database_url: str) -> None:
    scene = Scene()
    scene.queue("q", "10")
    scene.workload("a", "q", "2", count=3)
    scene.settle()
    scene.pass_time(60)
    status = {**scene.status("a"), "reclaimablePods": [{"name": "main", "count": 2}]}
    scene.put(WORKLOADS, "a", NS, status=status)
    scene.settle()
    await kept(database_url, scene)
    assert [(row["amount"], row["until"] is None) for row in query(database_url, HELD)] == [(6.0, False), (2.0, True)]


async def test_at_every_moment_it_is_what_the_ledger_says(database_url: str) -> None:
    choose = random.Random(7)
    scene = Scene()
    for name in ("q", "r"):
        scene.queue(name, "4", cohortName="all", preemption={"reclaimWithinCohort": "Any"})
    for number in range(30):
        scene.pass_time(choose.randrange(1, 60))
        scene.workload(f"w{number}", choose.choice("qr"), str(choose.randrange(1, 4)), priority=choose.randrange(3))
        scene.settle()
        has = [key.partition("/")[2] for key in scene.controller.index.engine.snapshot.workloads]
        if has and choose.random() < 0.6:
            scene.finish(choose.choice(has))
            scene.settle()
        for name in has:
            if scene.is_true(name, "Evicted") and scene.is_true(name, "QuotaReserved"):
                scene.release(name)
                scene.settle()
    await kept(database_url, scene)
    rows = query(database_url, HELD)
    assert len(rows) > 10
    ledger: dict[tuple[str, str, str, str], float] = {}
    entries = [
        (one.recorded_at, one.stream.rpartition("/")[2], one.event)
        for one in scene.log
        if isinstance(one.event, events.QuotaReservationDecided | events.QuotaPosted)
    ]
    for _, name, event in entries:
        for flavor, of in event.amounts.items():
            for resource, amount in of.items():
                place = (name, event.cluster_queue, flavor, resource)
                ledger[place] = ledger.get(place, 0) + amount / 1000
    now = {
        (row["name"], row["cluster_queue"], row["flavor"], row["resource"]): row["amount"]
        for row in rows
        if row["until"] is None
    }
    assert now == {place: amount for place, amount in ledger.items() if amount}
    spent = sum(row["amount"] * ((row["until"] or scene.now) - row["since"]).total_seconds() for row in rows)
    assert spent == area(entries, scene.now)


def area(entries: list[tuple[Any, str, Any]], now: Any) -> float:
    """Cores held, times seconds: from each entry on what it added."""
    return sum(
        amount / 1000 * (now - at).total_seconds()
        for at, _, event in entries
        for of in event.amounts.values()
        for amount in of.values()
    )
