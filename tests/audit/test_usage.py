"""Hours of runs and resources: cut at midnight, from what the log has of what a job asks for."""

from __future__ import annotations

import json
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.audit.database import keep
from tests.audit.script import Life, Script
from tests.audit.test_views import query
from tests.support.rows import each

TEMPLATE = "ab" * 32
POD_SETS = [
    {
        "name": "main",
        "count": 3,
        "template": {
            "spec": {
                "containers": [
                    {"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "nvidia.com/gpu": "1"}}},
                    {"resources": {"requests": {"memory": "1Gi"}}},
                    {},
                ]
            }
        },
    }
]


@each(
    ("quantity", "number"),
    [
        ("1", "1"),
        ("500m", "0.5"),
        ("2Gi", str(2 * 2**30)),
        ("1.5k", "1500"),
        ("1e3", "1000"),
        ("12E", "12000000000000000000"),
        ("100n", "0.0000001"),
        (".5", "0.5"),
        ("-3", "-3"),
        ("", None),
        ("many", None),
        ("1Zi", None),
    ],
)
def test_quantities_are_those_of_kubernetes(stories_url: str, quantity: str, number: str | None) -> None:
    (row,) = query(stories_url, "SELECT audit.quantity(%s) AS number", quantity)
    assert row["number"] == (Decimal(number) if number is not None else None)


def over_midnight(**fields: Any) -> tuple[Script, Life]:
    script = Script("a")
    life = script.workload("w-0a1b2")
    life.local |= fields
    script.now += timedelta(hours=23)
    life.runs("a")
    script.now += timedelta(hours=2)
    return script, life.finishes("a")


def usage(url: str) -> list[dict[str, Any]]:
    return query(url, "SELECT day, runs, run_hours, resource_hours FROM audit.usage ORDER BY day")


async def test_a_run_is_cut_at_midnight(database_url: str) -> None:
    script, _ = over_midnight(requests={"main": {"cpu": "500m"}, "other": {"cpu": "1500m"}})
    await keep(database_url, script.recorded)
    (run,) = query(database_url, "SELECT since, until, resources FROM audit.runs")
    assert run["resources"] == {"cpu": 2}
    first, second = usage(database_url)
    assert (first["day"], second["day"]) == (date(2026, 1, 1), date(2026, 1, 2))
    assert first["runs"] == second["runs"] == 1
    whole = (run["until"] - run["since"]).total_seconds() / 3600
    assert float(first["run_hours"] + second["run_hours"]) == pytest.approx(whole, abs=0.001)
    assert float(first["run_hours"]) == pytest.approx(59.5 / 60, abs=0.01)
    assert first["resource_hours"]["cpu"] == pytest.approx(2 * float(first["run_hours"]), abs=0.001)


async def test_what_the_admission_does_not_say_is_read_from_the_spec(database_url: str) -> None:
    script, _ = over_midnight(kept={"template": TEMPLATE})
    await keep(database_url, script.recorded)
    assert [row["resource_hours"] for row in usage(database_url)] == [None, None]
    with psycopg.connect(database_url) as connection:
        body = json.dumps({"labels": {}, "spec": {"podSets": POD_SETS}})
        connection.execute("INSERT INTO controlplane.bodies VALUES (decode(%s, 'hex'), %s, now())", (TEMPLATE, body))
    (run,) = query(database_url, "SELECT resources FROM audit.runs")
    assert run["resources"] == {"cpu": 1.5, "nvidia.com/gpu": 3, "memory": 3 * 2**30}


async def test_what_runs_counts_as_far_as_the_log_goes(database_url: str) -> None:
    script = Script("a")
    script.workload("w-0a1b2").runs("a")
    script.now += timedelta(hours=5)
    script.workload("v-0a1b2").job()
    await keep(database_url, script.recorded)
    (row,) = usage(database_url)
    assert float(row["run_hours"]) == pytest.approx(5, abs=0.01)


async def test_a_slice_runs_until_another_one_takes_its_place(database_url: str) -> None:
    script = Script("a")
    life = script.workload("w-0a1b2").runs("a")
    life.seen({"Finished": ("WorkloadSliceReplaced", "")})
    await keep(database_url, script.recorded)
    (run,) = query(database_url, "SELECT until, outcome, last_position FROM audit.runs")
    assert (run["until"], run["outcome"], run["last_position"]) == (
        script.now,
        "WorkloadSliceReplaced",
        len(script.recorded),
    )


async def test_a_lost_run_ends_with_its_cluster(database_url: str) -> None:
    """And one that is not given up goes on, out of view."""
    script = Script("a", "b")
    given_up, kept = script.workload("w-0a1b2"), script.workload("v-0a1b2")
    given_up.runs("a", "a", "b")
    kept.job(execution_policy="never-twice")
    kept.runs("a", "a", "b")
    lost = script.now + timedelta(seconds=1)
    script.lose("a").now += timedelta(minutes=20)
    given_up.decide()
    kept.decide()
    await keep(database_url, script.recorded)
    rows = query(
        database_url, "SELECT name, until, outcome, unseen_since, unseen_until FROM audit.runs ORDER BY position"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("w-0a1b2", lost, "Lost", lost, None),
        ("v-0a1b2", None, None, lost, None),
    ]
    found = query(database_url, "SELECT name, phase FROM audit.as_of('main', %s) ORDER BY name", script.now)
    assert [tuple(row.values()) for row in found] == [("v-0a1b2", "Lost"), ("w-0a1b2", "Lost")]
    told = query(database_url, "SELECT name, became, until FROM audit.outage_workloads ORDER BY name")
    assert [tuple(row.values()) for row in told] == [("v-0a1b2", "Kept", None), ("w-0a1b2", "Requeued", None)]


async def test_two_logs_are_kept_apart(database_url: str) -> None:
    first, second = Script("a"), Script("a")
    first.workload("w-0a1b2").runs("a")
    second.workload("w-0a1b2").runs("a")
    await keep(database_url, first.recorded, "one")
    await keep(database_url, second.recorded, "two")
    rows = query(
        database_url, "SELECT log, count(*) AS n, bool_or(overlapped_unseen) AS o FROM audit.runs GROUP BY 1 ORDER BY 1"
    )
    assert [tuple(row.values()) for row in rows] == [("one", 1, False), ("two", 1, False)]


async def test_what_is_out_of_view_overlaps_only_perhaps(database_url: str) -> None:
    """The job was gone when its cluster came back: nobody knows since when."""
    script = Script("a", "b")
    life = script.workload("w-0a1b2").runs("a", "a", "b")
    script.lose("a").now += timedelta(minutes=1)
    life.remote_job("b", inactive=False)
    script.now += timedelta(minutes=1)
    life.remote_job_gone("a")
    script.connect("a")
    await keep(database_url, script.recorded)
    rows = query(database_url, "SELECT cluster, overlapped, overlapped_unseen, twice FROM audit.runs ORDER BY position")
    assert [tuple(row.values()) for row in rows] == [("a", False, True, timedelta()), ("b", False, True, timedelta())]
