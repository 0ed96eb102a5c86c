"""The hours of a run whose cluster is lost: what-if has those that `audit.usage` has of the same log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from controlplane.whatif.measure import Figures, Measures
from tests.audit.database import keep
from tests.audit.script import Life, Script
from tests.audit.test_views import query


def measured(script: Script) -> Figures:
    events = script.recorded
    measures = Measures(events[0].recorded_at - timedelta(seconds=1), events[-1].recorded_at, {})
    for one in events:
        measures.take(one)
    return measures.result({})


def lost(script: Script, *, policy: str = "") -> Life:
    """A job runs on a for an hour, which is lost then; nobody decides yet."""
    life = script.workload("w-0a1b2")
    if policy:
        life.job(execution_policy=policy)
    life.runs("a", "a", "b")
    script.now += timedelta(hours=1)
    script.lose("a").now += timedelta(minutes=20)
    return life


def goes_on(script: Script) -> None:
    """Time passes, and something else is seen."""
    script.now += timedelta(hours=5)
    script.workload("v-0a1b2").job()


def given_up(script: Script) -> None:
    lost(script).decide()
    goes_on(script)


def kept(script: Script) -> None:
    lost(script, policy="never-twice").decide()
    goes_on(script)


def starts_elsewhere(script: Script) -> None:
    life = lost(script).decide().drained().again()
    script.now += timedelta(minutes=30)
    life.clone("b", {"QuotaReserved": True, "Admitted": True}).decide()
    life.remote_job("b", suspended=True).decide().remote_job("b", status="11", inactive=False)
    goes_on(script)


def comes_back_running(script: Script) -> None:
    """It was given up, and ran all the time."""
    life = lost(script).decide()
    script.now += timedelta(hours=2)
    life.clone("a", {"Admitted": True}).remote_job("a", status="12", inactive=False)
    script.connect("a")
    script.now += timedelta(hours=1)
    life.remote_job_gone("a").clone_gone("a")
    goes_on(script)


def comes_back_without(script: Script) -> None:
    """It was given up, and was gone when the cluster was listed."""
    life = lost(script).decide()
    script.now += timedelta(hours=2)
    life.remote_job_gone("a").clone_gone("a")
    script.connect("a")
    goes_on(script)


def comes_back_and_is_lost_again(script: Script) -> None:
    life = lost(script).decide()
    script.now += timedelta(hours=2)
    life.remote_job("a", status="12", inactive=False)
    script.connect("a").now += timedelta(hours=1)
    script.lose("a")
    goes_on(script)


@pytest.mark.parametrize(
    ("happens", "hours", "in_vain"),
    [
        (given_up, 1, 1),
        (kept, 6 + 1 / 3, 0),
        (starts_elsewhere, 1 + 5, 1),
        (comes_back_running, 1 + 1 / 3 + 3, 1 + 1 / 3 + 3),
        (comes_back_without, 1, 1),
        (comes_back_and_is_lost_again, 1 + 1 / 3 + 3 + 5, 0),
    ],
)
async def test_a_lost_run_counts_as_in_usage(
    database_url: str, happens: Callable[[Script], None], hours: float, in_vain: float
) -> None:
    """One that was given up counted to the end where its job never started elsewhere."""
    script = Script("a", "b")
    happens(script)
    await keep(database_url, script.recorded)
    (row,) = query(database_url, "SELECT sum(run_hours) AS hours FROM audit.usage")
    found = measured(script)
    assert found.run_hours == pytest.approx(float(row["hours"]), abs=0.001)
    assert (found.run_hours, found.lost_hours) == pytest.approx((hours, in_vain), abs=0.02)
