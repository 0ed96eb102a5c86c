"""StatefulSets and LeaderWorkerSets under the simulated Kueue: Workloads for each, gates, copies that run as far as
their Workloads let them.
"""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.gated import HELD
from controlplane.job_kinds.leaderworkerset import LeaderWorkerSet
from controlplane.job_kinds.leaderworkerset import workload_name as component_name
from controlplane.job_kinds.statefulset import StatefulSet
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import WORKLOADS, Json, meta
from controlplane.kube.kueue_names import ORIGIN_LABEL, ORIGIN_UID
from controlplane.simulation.kinds.base import DEFAULT_KINDS, served
from controlplane.simulation.kueue.common import Gates, workload_name
from controlplane.simulation.kueue.sets import SETS
from controlplane.simulation.world import ClusterSpec, SimulatedCluster, World
from tests.simulation.test_kueue_pipelineruns import Clock

NS, UID = "default", "the-users"
AT = "2026-01-01T00:00:00Z"
QUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}
STATEFUL, LEADERS = StatefulSet(), LeaderWorkerSet()
POD: Json = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}


@pytest.fixture
def world() -> World:
    spec = ClusterSpec(kinds=(*DEFAULT_KINDS, *(served(one) for one in SETS)), sets=True, gates=Gates(multikueue=True))
    found = World(spec, {"a": spec}, clock=Clock())
    found.assemble()
    found.settle()
    return found


def made(cluster: SimulatedCluster, adapter: JobKind, *, held: bool = True, **metadata: Any) -> Json:
    gates = {"schedulingGates": [{"name": HELD}]} if held else {}
    template = {"spec": {**POD["spec"], **gates}}
    spec: Json = {"replicas": 2, "template": template}
    if adapter.composed:
        spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
    head = {"name": "serve", "namespace": NS, "labels": QUEUE, **metadata}
    return cluster.store.create(adapter.kind, {"metadata": head, "spec": spec})


def workloads(cluster: SimulatedCluster) -> dict[str, Json]:
    return {meta(one)["name"]: one for one in cluster.store.list(WORKLOADS)[0]}


def ready(cluster: SimulatedCluster, adapter: JobKind) -> int:
    found = cluster.store.get(adapter.kind, NS, "serve")
    return int((found.get("status") or {}).get("readyReplicas") or 0)


def names(adapter: JobKind, uid: str) -> list[str]:
    if not adapter.composed:
        return [workload_name(adapter.kind, "serve", uid)]
    return sorted(component_name(adapter.kind, "serve", uid, index) for index in range(2))


@pytest.mark.parametrize("adapter", [STATEFUL, LEADERS], ids=lambda one: one.kind.kind)
def test_a_set_of_the_management_cluster_has_workloads_and_does_not_run(world: World, adapter: JobKind) -> None:
    found = made(world.management, adapter)
    world.settle()
    assert adapter.suspended(found)
    there = workloads(world.management)
    assert sorted(there) == names(adapter, meta(found)["uid"])
    assert not any(is_true(one, "Admitted") for one in there.values())
    assert [sum(part["count"] for part in one["spec"]["podSets"]) for one in there.values()] == [2] * len(there)
    assert ready(world.management, adapter) == 0


@pytest.mark.parametrize("adapter", [STATEFUL, LEADERS], ids=lambda one: one.kind.kind)
def test_its_workloads_go_with_it(world: World, adapter: JobKind) -> None:
    made(world.management, adapter)
    world.settle()
    world.management.store.delete(adapter.kind, NS, "serve")
    world.settle()
    assert all(is_true(one, "Finished") for one in workloads(world.management).values())


@pytest.mark.parametrize("adapter", [STATEFUL, LEADERS], ids=lambda one: one.kind.kind)
def test_a_copy_runs_as_far_as_its_workloads_let_it(world: World, adapter: JobKind) -> None:
    worker = world.workers["a"]
    marks = {"labels": {**QUEUE, ORIGIN_LABEL: "o"}, "annotations": {ORIGIN_UID: UID}}
    found = made(worker, adapter, held=False, **marks)
    world.settle()
    assert adapter.suspended(found)
    assert (ready(worker, adapter), workloads(worker)) == (0, {})
    wanted = names(adapter, UID)
    for index, name in enumerate(wanted, start=1):
        spec = {"queueName": "user-queue", "active": True, "priority": 0, "podSets": adapter.pod_sets(found)}
        worker.store.create(WORKLOADS, {"metadata": {"name": name, "namespace": NS}, "spec": spec})
        world.settle()
        assert ready(worker, adapter) == (index if adapter.composed else 2)
    assert {meta(one)["ownerReferences"][0]["uid"] for one in workloads(worker).values()} == {meta(found)["uid"]}
    worker.kueue.deactivate(NS, wanted[0])
    world.settle()
    assert ready(worker, adapter) == (1 if adapter.composed else 0)
    assert not is_true(workloads(worker)[wanted[0]], "QuotaReserved"), "nothing of it runs: its quota is back"


def test_a_set_without_a_queue_is_nobodys(world: World) -> None:
    found = made(world.management, STATEFUL, held=False, labels={})
    world.settle()
    assert not STATEFUL.suspended(found)
    assert workloads(world.management) == {}


@pytest.mark.parametrize("adapter", [STATEFUL, LEADERS], ids=lambda one: one.kind.kind)
def test_where_no_kueue_acts_nobody_looks_after_the_workloads_of_a_set(adapter: JobKind) -> None:
    """Whoever decides on quota there does: two that write a Workload take back from each other what they wrote."""
    spec = ClusterSpec(kinds=(*DEFAULT_KINDS, *(served(one) for one in SETS)), sets=True, kueue=False)
    world = World(spec, {}, clock=Clock())
    world.assemble()
    world.settle()
    found = made(world.management, adapter, held=False)
    world.settle()
    assert not adapter.suspended(found)
    assert workloads(world.management) == {}
    assert ready(world.management, adapter) == 0
    evicted = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "", "lastTransitionTime": AT}
    reserved = {**evicted, "type": "QuotaReserved", "reason": "QuotaReserved"}
    body: Json = {"queueName": "user-queue", "active": True, "priority": 0, "podSets": adapter.pod_sets(found)}
    for name in names(adapter, meta(found)["uid"]):
        world.management.store.create(WORKLOADS, {"metadata": {"name": name, "namespace": NS}, "spec": body})
        given = [{"name": one["name"], "count": one["count"]} for one in body["podSets"]]
        admission = {"clusterQueue": "cluster-queue", "podSetAssignments": given}
        status: Json = {"conditions": [evicted, reserved], "admission": admission}
        world.management.store.patch(WORKLOADS, NS, name, {"status": status}, subresource="status")
    before = workloads(world.management)
    world.management.store.patch(adapter.kind, NS, "serve", {"metadata": {"annotations": {"looked": "at"}}})
    world.settle()
    world.management.store.delete(adapter.kind, NS, "serve")
    world.settle()
    assert workloads(world.management) == before
