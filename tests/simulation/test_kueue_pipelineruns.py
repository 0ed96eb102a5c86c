"""PipelineRuns under the simulated Kueue, as tekton-kueue has them: created pending, given a Workload, started, stopped
for good.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.job_kinds.pipelinerun import PENDING, STOPPED, PipelineRun
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import PIPELINE_RUNS, WORKLOADS, Json, meta
from controlplane.simulation.controllers.tekton import Tekton
from controlplane.simulation.kinds.own_cluster import LOCAL_KINDS
from controlplane.simulation.kueue.common import Gates
from controlplane.simulation.world import ClusterSpec, SimulatedCluster, World

QUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}
NS = "default"


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here may sleep")


@pytest.fixture
def world() -> World:
    spec = ClusterSpec(kinds=LOCAL_KINDS, gates=Gates(multikueue=True))
    found = World(spec, {"a": ClusterSpec(kinds=LOCAL_KINDS)}, clock=Clock())
    found.assemble()
    found.settle()
    return found


def run(cluster: SimulatedCluster, name: str = "build", **more: Any) -> Json:
    step = {"name": "s", "computeResources": {"requests": {"cpu": "2"}}}
    tasks = [{"name": "one", "taskSpec": {"steps": [step]}}, {"name": "two", "taskSpec": {"steps": [step]}}]
    tasks.append({"name": "last", "runAfter": ["one", "two"], "taskSpec": {"steps": [step]}})
    metadata = {"name": name, "namespace": NS, "labels": QUEUE, **more.pop("metadata", {})}
    spec = {"pipelineSpec": {"tasks": tasks}, **more}
    return cluster.store.create(PIPELINE_RUNS, {"metadata": metadata, "spec": spec})


def get(cluster: SimulatedCluster, name: str = "build") -> Json:
    return cluster.store.get(PIPELINE_RUNS, NS, name)


def workload(cluster: SimulatedCluster) -> Json:
    (found,) = cluster.store.list(WORKLOADS)[0]
    return found


def status(cluster: SimulatedCluster, **fields: Any) -> None:
    cluster.store.patch(PIPELINE_RUNS, NS, "build", {"status": fields}, subresource="status")


def test_a_run_with_a_queue_waits_for_its_workload_and_starts_with_it(world: World) -> None:
    worker = world.workers["a"]
    assert run(worker)["spec"]["status"] == PENDING
    world.settle()
    made = workload(worker)
    assert meta(made)["name"].startswith("pipelinerun-build-")
    assert [(one["name"], one["count"]) for one in made["spec"]["podSets"]] == [("one", 1), ("two", 1)]
    assert is_true(made, "Admitted")
    assert "status" not in get(worker)["spec"]
    status(worker, conditions=[{"type": "Succeeded", "status": "True", "message": "done"}])
    world.settle()
    assert is_true(workload(worker), "Finished")


def test_a_run_that_loses_its_quota_is_stopped_for_good(world: World) -> None:
    worker = world.workers["a"]
    run(worker)
    world.settle()
    status(worker, startTime="2026-01-01T00:00:00Z")
    assert worker.kueue.preempt(NS, meta(workload(worker))["name"])
    world.settle()
    assert get(worker)["spec"]["status"] == STOPPED
    assert is_true(workload(worker), "QuotaReserved"), "something of it may still run"
    assert get(worker)["status"]["startTime"], "Tekton's status is Tekton's"


def test_on_the_management_cluster_it_is_for_multikueue(world: World) -> None:
    made = run(world.management)
    assert made["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    world.settle()
    assert not is_true(workload(world.management), "Admitted")
    assert get(world.management)["spec"]["status"] == PENDING


def test_a_run_without_a_queue_is_nobodys(world: World) -> None:
    worker = world.workers["a"]
    made = run(worker, metadata={"labels": {}})
    world.settle()
    assert "status" not in made["spec"]
    assert worker.store.list(WORKLOADS)[0] == []


@pytest.mark.parametrize(
    ("mode", "count"), [("", 2), ("workspaces", 2), ("pipelineruns", 1), ("isolate-pipelinerun", 1), ("disabled", 0)]
)
def test_placeholders_are_a_pod_set_of_their_own(mode: str, count: int) -> None:
    claims = [{"name": one, "persistentVolumeClaim": {"claimName": "data"}} for one in ("x", "y")]
    spec = {"workspaces": [*claims, {"name": "z", "volumeClaimTemplate": {}}, {"name": "e", "emptyDir": {}}]}
    notes = {"controlplane/coschedule": mode} if mode else {}
    found = PipelineRun().pod_sets({"metadata": {"annotations": notes}, "spec": spec})
    assert [(one["name"], one["count"]) for one in found] == ([("placeholders", count)] if count else [])


@pytest.mark.parametrize("asked", ["PipelineRunPending", "StoppedRunFinally", "Cancelled"])
def test_tekton_starts_nothing_of_a_run_that_waits_and_ends_one_that_is_stopped(asked: str) -> None:
    found = World(ClusterSpec(kinds=LOCAL_KINDS), {}, clock=Clock())
    found.assemble()
    from tests.support.machinery import Machinery

    machinery = Machinery("home", found.management.store, Clock())
    machinery.view.start()
    tekton: Tekton = machinery.tekton
    run(found.management, metadata={"labels": {}}, status=asked)
    while tekton.drain():
        pass
    ended = (get(found.management).get("status") or {}).get("conditions") or []
    assert [one["status"] for one in ended] == ([] if asked == PENDING else ["False"])
