"""The ledger of quota in SQL: what Workloads got and gave back, from the events of admission."""

from __future__ import annotations

import pytest

from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.log.event import Event, NewEvent
from tests.audit.script import write
from tests.audit.test_views import query
from tests.quota.admission.scene import NS, Scene


async def kept(url: str, scene: Scene) -> None:
    """Keep the log of a scene."""
    rows = [
        NewEvent(stream=one.stream, event=one.event, cluster=one.cluster, caused_by=one.caused_by)
        for one in scene.log
        if isinstance(one.event, Event)
    ]
    await write(url, rows, types=AdmissionController.types)


@pytest.fixture
def scene() -> Scene:
    found = Scene()
    found.queue("q", "2", cohortName="all")
    found.queue("other", "8", cohortName="all")
    found.workload("a", "q", "5")
    found.settle()
    found.workload("b", "other", "1")
    found.settle()
    found.finish("a")
    found.settle()
    return found


async def test_each_entry_has_its_amount_its_balance_and_what_is_borrowed(database_url: str, scene: Scene) -> None:
    await kept(database_url, scene)
    asked = (
        "SELECT name, entry, reason, cluster_queue, flavor, resource, amount::int AS amount, balance::int AS balance,"
        " borrowed::int AS borrowed FROM audit.quota_ledger WHERE namespace = %s ORDER BY position"
    )
    found = [tuple(row.values()) for row in query(database_url, asked, NS)]
    place = ("default", "cpu")
    assert found == [
        ("a", "QuotaReservationDecided", "QuotaFits", "q", *place, 5000, 5000, 3000),
        ("b", "QuotaReservationDecided", "QuotaFits", "other", *place, 1000, 1000, 0),
        ("a", "QuotaPosted", "WorkloadFinished", "q", *place, -5000, 0, 0),
    ]


async def test_what_is_over_adds_up_to_nothing_and_every_entry_rests_on_an_event(
    database_url: str, scene: Scene
) -> None:
    await kept(database_url, scene)
    sums = query(database_url, "SELECT name, sum(amount)::int AS left FROM audit.quota_ledger GROUP BY 1 ORDER BY 1")
    assert [tuple(row.values()) for row in sums] == [("a", 0), ("b", 1000)]
    causes = query(
        database_url,
        "SELECT count(*)::int AS n FROM audit.quota_ledger l JOIN audit.events e ON e.position = l.caused_by"
        " WHERE l.caused_by < l.position",
    )
    assert causes[0]["n"] == 3
