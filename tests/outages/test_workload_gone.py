"""A Workload goes under its job: its finalizer is removed by hand first, so that nobody is asked before it is gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from controlplane.kube.kinds import WORKLOADS, meta
from tests.outages.stage import NS, Stage
from tests.outages.test_jobframework import without_kueue

Make = Callable[..., Awaitable[Stage]]


def take_away(on: Stage) -> str:
    """Remove the Workload as `kubectl patch … finalizers` and `kubectl delete` do; return its UID."""
    found = on.workload()
    assert found is not None
    name, store = meta(found)["name"], on.manager.store
    store.patch(WORKLOADS, NS, name, {"metadata": {"finalizers": None}})
    store.delete(WORKLOADS, NS, name)
    return str(meta(found)["uid"])


def replaced(on: Stage, uid: str) -> bool:
    found = on.workload()
    return found is not None and meta(found)["uid"] != uid


@pytest.mark.parametrize("mode", ["builtin", "kueue"])
async def test_a_job_that_runs_gets_another_and_runs_again(stage: Make, mode: str) -> None:
    on = await (without_kueue(stage, "a", "b", roomy=("a",)) if mode == "builtin" else stage("a", "b", roomy=("a",)))
    on.submit()
    await on.running("a")
    await on.until(lambda: (on.job() or {}).get("status", {}).get("active"), "its status is copied")
    before = on.uid("a")
    uid = take_away(on)
    await on.until(lambda: replaced(on, uid), "another Workload")
    await on.until(lambda: on.running_on() == "a" and on.uid("a") != before, "it runs again")
    on.end("a")
    await on.done()
    assert on.witness.starts["train"] == ["a", "a"]


@pytest.mark.parametrize("mode", ["builtin", "kueue"])
async def test_a_job_that_waits_gets_another_and_runs(stage: Make, mode: str) -> None:
    on = await (without_kueue(stage, "a", "b", roomy=()) if mode == "builtin" else stage("a", "b", roomy=()))
    on.submit()
    await on.until(on.clones, "offered")
    uid = take_away(on)
    await on.until(lambda: replaced(on, uid), "another Workload")
    on.make_room("b")
    await on.running("b")
    on.end("b")
    await on.done()
