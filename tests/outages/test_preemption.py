"""Orchestrated preemption with a real process between simulated clusters: one worker after the other preempts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from controlplane.kube.kinds import JOBS, WORKLOAD_PRIORITY_CLASSES, WORKLOADS, Json
from controlplane.kube.kueue_names import PRIORITY_CLASS
from controlplane.simulation.kueue.common import Gates
from tests.multikueue.kep693.rig import user_job
from tests.outages.stage import Stage, condition, settings

GATE = "kueue.x-k8s.io/multikueue"
SMALL: Any = {"quota": {"cpu": "1"}, "preempts": True, "gates": Gates(orchestrated_preemption=True)}


async def filled(stage: Callable[..., Awaitable[Stage]]) -> Stage:
    """Two workers, each filled by a job of low priority."""
    on = await stage("a", "b", settings=settings(orchestrated_preemption="yes"), workers_are=SMALL)
    on.manager.store.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
    on.submit("low-1")
    await on.running(name="low-1")
    on.submit("low-2")
    await on.running(name="low-2")
    return on


def submit_high(on: Stage) -> None:
    job = user_job("high")
    job["metadata"]["labels"][PRIORITY_CLASS] = "high"
    on.manager.store.create(JOBS, job)


def gate(on: Stage, cluster: str) -> str:
    (found,) = (on.workload(on.worker(cluster), name="high") or {}).get("status", {})["preemptionGates"]
    return str(found["position"])


def preempted(on: Stage, cluster: str) -> int:
    """How many Workloads a worker's Kueue has preempted."""
    evictions: list[Json] = []
    for one in on.worker(cluster).store.list(WORKLOADS)[0]:
        evictions += ((one.get("status") or {}).get("schedulingStats") or {}).get("evictions") or []
    return sum(one["count"] for one in evictions if one["reason"] == "Preempted")


async def test_one_worker_preempts_and_the_other_does_not(stage: Callable[..., Awaitable[Stage]]) -> None:
    on = await filled(stage)
    lows = {on.running_on(name=name) for name in ("low-1", "low-2")}
    assert lows == {"a", "b"}
    submit_high(on)
    winner = await on.running(name="high")
    (other,) = lows - {winner}
    assert gate(on, winner) == "Open"
    (opening,) = on.said("GateOpeningDecided")
    assert opening["cluster"] == winner
    assert opening["reason"] == "BlockedOnPreemptionGates"
    assert other in {on.running_on(name=name) for name in ("low-1", "low-2")}, "it runs on where nobody was let preempt"
    assert preempted(on, other) == 0
    (said,) = on.query("SELECT what, reason FROM audit.workload_timeline WHERE type = 'GateOpeningDecided'")
    assert said == ("GateOpeningDecided", "BlockedOnPreemptionGates")


async def test_a_worker_that_is_cut_off_after_its_gate_was_opened_keeps_its_time(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    """Its Kueue preempts and admits, unseen; a process that starts meanwhile lets nobody else preempt as well."""
    on = await filled(stage)
    submit_high(on)
    await on.until(lambda: on.said("GateOpeningDecided"), "a gate to be opened")
    first = str(on.said("GateOpeningDecided")[0]["cluster"])
    await on.until(lambda: gate(on, first) == "Open", "an open gate")
    on.cut(first)
    await on.kill()
    await on.up(ready=False)
    (other,) = {"a", "b"} - {first}
    await on.until(lambda: on.lost(first), "the first worker lost")
    await on.until(lambda: condition(on.workload(on.worker(other), name="high"), "BlockedOnPreemptionGates"), "blocked")
    on.submit("later")
    await on.until(lambda: on.workload(on.worker(other), name="later"), "a later job to be offered")
    assert len(on.said("GateOpeningDecided")) == 1
    on.heal(first)
    assert await on.running(name="high") == first
    assert len(on.said("GateOpeningDecided")) == 1
    assert preempted(on, other) == 0
