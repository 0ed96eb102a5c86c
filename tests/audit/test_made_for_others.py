"""What a worker has of a Workload's name that was made for another management cluster is none of the Workload's: no
run, no hours, no phase, no bar, and nothing that is waited for; and whoever looks is told whose it is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.audit.answer import answer
from controlplane.audit.find import find
from controlplane.audit.lanes import workload_lanes
from controlplane.audit.reads import LogReader
from controlplane.audit.timeline import moments
from controlplane.controllers.multikueue import observations
from controlplane.kube.kinds import JOBS
from tests.audit.database import keep
from tests.audit.script import POLICY, Life, Script
from tests.audit.test_read_models import kept, looked_through
from tests.audit.test_views import query

OTHER = "1d0b6ad9-0000-4000-8000-000000000000"
THEIRS: dict[str, Any] = {"unmarked": True, "made_for": OTHER, "resource_version": "7", "namespace": "default"}
WHOSE = ", made for another management cluster"


def theirs(life: Life, cluster: str, name: str = "theirs", **job: Any) -> Life:
    """Another management cluster runs a job of the Workload's name on a cluster."""
    clone = observations.CloneObserved(**THEIRS, name=life.name, uid=f"{name}-clone", spec_key="spec")
    found = {"suspended": False, "inactive": False, "status": "11", **job}
    remote = observations.RemoteJobObserved(
        **THEIRS, name=life.job_name, uid=f"{name}-job", kind=JOBS.name, prebuilt=life.name, **found
    )
    return life.put(clone, cluster).put(remote, cluster)


def theirs_gone(life: Life, cluster: str, name: str = "theirs") -> Life:
    of: dict[str, Any] = {"namespace": "default"}
    life.put(observations.RemoteJobGone(**of, name=life.job_name, uid=f"{name}-job", kind=JOBS.name), cluster)
    return life.put(observations.CloneGone(**of, name=life.name, uid=f"{name}-clone"), cluster)


def beside() -> tuple[Script, Life]:
    """Theirs runs on a for three hours; ours waits for it, runs on b for two hours, and theirs comes to a again and
    to b once ours has finished."""
    script = Script("a", "b")
    life = script.workload("w-0a1b2")
    theirs(life, "a")
    life.job().seen({"QuotaReserved": ("Pending", "the queue is full")}).seen({"QuotaReserved": True}).decide()
    script.now += timedelta(hours=3)
    theirs_gone(life, "a").decide()
    life.runs("b")
    script.now += timedelta(hours=1)
    theirs(life, "a", "next")
    script.now += timedelta(hours=1)
    life.finishes("b")
    theirs(life, "b", "last")
    script.now += timedelta(hours=1)
    theirs(life, "b", "last", finished=True, inactive=True)
    return script, life


async def test_no_run_and_no_hours_are_theirs(database_url: str) -> None:
    script, life = beside()
    await keep(database_url, script.recorded)
    (run,) = query(database_url, "SELECT cluster, job_uid, outcome, overlapped, overlapped_unseen FROM audit.runs")
    assert (run["cluster"], run["job_uid"], run["outcome"]) == ("b", f"{life.job_uid}-b", "Succeeded")
    assert (run["overlapped"], run["overlapped_unseen"]) == (False, False)
    (hours,) = query(database_url, "SELECT cluster, runs, run_hours FROM audit.usage")
    assert (hours["cluster"], hours["runs"]) == ("b", 1)
    assert float(hours["run_hours"]) == pytest.approx(2, abs=0.01)


async def test_nothing_of_ours_waits_where_theirs_is(database_url: str) -> None:
    """A copy without quota waits for some; theirs does so for somebody else."""
    script, _ = beside()
    await keep(database_url, script.recorded)
    rows = query(database_url, "SELECT DISTINCT cluster FROM audit.pending_reasons ORDER BY 1")
    assert [row["cluster"] for row in rows] == ["@management", "b"]


@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_workload_does_not_run_because_theirs_does(database_url: str, is_kept: bool) -> None:
    """Its own job was deleted on its cluster, and theirs took the name there. What is kept of it says the same."""
    script = Script("a")
    life = script.workload("w-0a1b2").runs("a")
    life.remote_job_gone("a").clone_gone("a")
    theirs(life, "a")
    script.now += timedelta(hours=1)
    life.seen({"Admitted": True})
    theirs_gone(life, "a").gone()
    await keep(database_url, script.recorded)
    if is_kept:
        looked_through(database_url)
        assert kept(database_url) == [life.name]
    phases = query(database_url, "SELECT phase FROM audit.workload_phases ORDER BY position DESC LIMIT 3")
    assert [row["phase"] for row in phases] == ["Deleted", "Admitted", "Running"]
    (run,) = query(database_url, "SELECT outcome, until - since AS ran FROM audit.runs")
    assert (run["outcome"], run["ran"] < timedelta(minutes=1)) == ("Removed", True)


async def test_the_timeline_says_whose_it_is(database_url: str) -> None:
    script, life = beside()
    await keep(database_url, script.recorded)
    own = [one for one in script.recorded if one.stream == life.stream]
    said = {one.what for one in moments(own) if one.cluster == "a"}
    assert said >= {f"copy waits for quota{WHOSE}", f"job's copy runs{WHOSE}", "copy is gone"}
    rows = query(
        database_url,
        "SELECT position, what FROM audit.workload_timeline WHERE type IN ('CloneObserved', 'RemoteJobObserved')",
    )
    told = {one.position: one.what for one in moments(own)}
    assert {row["position"]: row["what"] for row in rows} == {row["position"]: told[row["position"]] for row in rows}
    foreign = {
        one.position
        for one in own
        if isinstance(one.event, observations.CloneObserved | observations.RemoteJobObserved) and one.event.made_for
    }
    assert {row["position"] for row in rows if row["what"].endswith(WHOSE)} == foreign & {
        row["position"] for row in rows
    }


def test_no_bar_is_theirs() -> None:
    script, life = beside()
    lanes = {one.name: [bar.word for bar in one.bars] for one in workload_lanes(script.recorded, life.stream)}
    assert set(lanes["a"]) == {"offered"}
    assert "running" in lanes["b"]
    assert lanes["b"][-1] == "finished"


async def test_why_counts_its_own_runs(database_url: str) -> None:
    script, life = beside()
    await keep(database_url, script.recorded)
    with LogReader.connect(database_url) as reader:
        found = find(reader, life.namespace, life.name)
        assert found is not None
        said = answer(reader, POLICY, found, script.now)
    ran = [one for one in said.statements if one.about == "Ran"]
    assert [one.cluster for one in ran] == ["b"]
    assert ran[0].seconds == pytest.approx(7200, abs=60)
