"""What happened to the connection of a cluster before and after a Workload is not read for it, and absences are not
compared with each other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from tests.audit.database import keep
from tests.audit.script import Script
from tests.audit.test_plans import plan_of
from tests.audit.test_views import query
from tests.support import postgres
from tests.support.rows import each

LOSSES = 150
OF_ONE = ("pending_reasons", "runs", "outage_workloads", "workload_phases")


@pytest.fixture(scope="module")
def lossy_url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    """A database in which a cluster was lost many times before a Workload ran there, once meanwhile, and many times
    after it."""
    name = postgres.new_name("losses")
    url = postgres_server.create(name, migrated_template)
    script = Script("a", "b")
    for _ in range(LOSSES):
        script.lose("a").connect("a")
    life = script.workload("w-0a1b2").runs("a", "a", "b")
    script.lose("a").connect("a")
    life.finishes("a")
    for _ in range(LOSSES):
        script.lose("a").connect("a")
    asyncio.run(keep(url, script.recorded))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE controlplane.events, controlplane.streams")
    yield url
    postgres_server.drop(name)


def read(url: str, statement: str) -> float:
    """Return how many events a statement reads, also those that it then leaves out."""
    found = [node for node in plan_of(url, statement) if node.get("Relation Name") == "events"]
    return sum((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in found)


@each("view", OF_ONE)
def test_of_one_workload_only_its_own_time_is_read(lossy_url: str, view: str) -> None:
    statement = f"SELECT * FROM audit.{view} WHERE namespace = 'default' AND name = 'w-0a1b2'"
    assert query(lossy_url, statement)
    assert read(lossy_url, statement) < LOSSES


def test_absences_are_not_compared_with_each_other(lossy_url: str) -> None:
    statement = "SELECT * FROM audit.outages"
    assert [row["affected"] for row in query(lossy_url, statement) if row["affected"]] == [1]
    kinds = ("Rows Removed by Join Filter", "Rows Removed by Filter")
    removed = [
        sum(node.get(kind, 0) for kind in kinds) * node["Actual Loops"]
        for node in plan_of(lossy_url, statement)
        if "Relation Name" not in node
    ]
    assert max(removed) < 2 * LOSSES
