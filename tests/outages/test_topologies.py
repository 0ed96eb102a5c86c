"""Pods of a job are placed by topology, by the whole service on a cluster where no Kueue is; the process is killed on
the way."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    Json,
    meta,
)
from controlplane.kube.topologies import TOPOLOGY_GATE
from tests.outages.stage import NS, Stage
from tests.outages.test_jobframework import own, own_queue, without_kueue

Make = Callable[..., Awaitable[Stage]]
RACK, HOST = "example.com/rack", "kubernetes.io/hostname"
INDEX = "batch.kubernetes.io/job-completion-index"


def queue_with_topology(on: Stage, *nodes: str, cpu: str = "2") -> None:
    store = on.manager.store
    store.create(
        TOPOLOGIES, {"metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]}}
    )
    flavor = {"nodeLabels": {"pool": "gpu"}, "topologyName": "racks"}
    store.create(RESOURCE_FLAVORS, {"metadata": {"name": "gpu"}, "spec": flavor})
    quota = {"name": "gpu", "resources": [{"name": "cpu", "nominalQuota": "100"}]}
    spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}], "namespaceSelector": {}}
    store.create(CLUSTER_QUEUES, {"metadata": {"name": "own"}, "spec": spec})
    store.create(LOCAL_QUEUES, {"metadata": {"namespace": NS, "name": "own"}, "spec": {"clusterQueue": "own"}})
    for name in nodes:
        make_node(on, name, cpu)


def make_node(on: Stage, name: str, cpu: str) -> None:
    store, labels = on.manager.store, {RACK: "r1", HOST: name, "pool": "gpu"}
    store.create(NODES, {"metadata": {"name": name, "labels": labels}})
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": cpu, "pods": "10"}}
    store.patch(NODES, "", name, {"status": ready}, subresource="status")


def submit(on: Stage, name: str, pods: int) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": RACK}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    own(on, name, parallelism=pods, completions=pods, template=template, suspend=True)


def make_pod(on: Stage, name: str, index: int, pod: str = "") -> None:
    """What the Job controller does: a pod of the template that the job has now."""
    job = on.job(name=name)
    assert job is not None
    template: Json = copy.deepcopy(job["spec"]["template"])
    metadata = {**template["metadata"], "namespace": NS, "name": pod or f"{name}-{index}"}
    metadata["labels"] = {**metadata["labels"], INDEX: str(index)}
    on.manager.store.create(PODS, {"metadata": metadata, "spec": template["spec"]})


def places(on: Stage) -> dict[str, str]:
    found = on.manager.store.list(PODS)[0]
    return {
        meta(one)["name"]: "" if one["spec"].get("schedulingGates") else one["spec"]["nodeSelector"][HOST]
        for one in found
    }


def started(on: Stage, name: str) -> bool:
    job = on.job(name=name)
    return job is not None and job["spec"].get("suspend") is False


@pytest.mark.deep
async def test_a_process_that_is_killed_again_and_again_lets_each_pod_run_once_where_its_rank_says(stage: Make) -> None:
    on = await without_kueue(stage)
    queue_with_topology(on, "n1", "n2", cpu="2")
    submit(on, "train", 4)
    await on.until(lambda: started(on, "train"), "it is admitted")
    job = on.job(name="train")
    assert job is not None
    assert job["spec"]["template"]["spec"]["schedulingGates"] == [{"name": TOPOLOGY_GATE}]
    for index in range(4):
        make_pod(on, "train", index)
        await on.kill()
        await on.up()
    await on.until(lambda: all(places(on).values()), "all have their domain")
    assert places(on) == {"train-0": "n1", "train-1": "n1", "train-2": "n2", "train-3": "n2"}
    assert len(on.said("PodUngateDecided")) == 4


async def test_two_jobs_share_the_nodes_and_none_has_too_many(stage: Make) -> None:
    on = await without_kueue(stage)
    queue_with_topology(on, "n1", "n2", cpu="2")
    submit(on, "a", 3)
    await on.until(lambda: started(on, "a"), "the first is admitted")
    submit(on, "b", 2)
    await on.until(lambda: on.workload(name="b") is not None, "the second waits")
    for index in range(3):
        make_pod(on, "a", index)
    await on.until(lambda: all(places(on).values()), "all have their domain")
    assert sorted(Counter(places(on).values()).values()) == [1, 2]
    assert not started(on, "b")
    ready = {"allocatable": {"cpu": "4", "pods": "10"}}
    on.manager.store.patch(NODES, "", "n2", {"status": ready}, subresource="status")
    await on.until(lambda: started(on, "b"), "there is room now")


async def test_where_no_flavor_names_a_topology_neither_nodes_nor_pods_are_read(stage: Make) -> None:
    on = await without_kueue(stage)
    own_queue(on)
    own(on, "plain", suspend=True)
    await on.until(lambda: started(on, "plain"), "it runs")
    assert on.count("management", "list", NODES) == on.count("management", "list", TOPOLOGIES) == 0
    assert all(is_true(one, "Admitted") for one in on.manager.store.list(WORKLOADS)[0])


async def test_what_is_dispatched_is_placed_on_its_worker_and_nothing_of_it_here(stage: Make) -> None:
    on = await without_kueue(stage, "a", "b", roomy=("b",))
    store = on.manager.store
    store.create(TOPOLOGIES, {"metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": HOST}]}})
    for one in store.list(RESOURCE_FLAVORS)[0]:
        store.patch(RESOURCE_FLAVORS, "", meta(one)["name"], {"spec": {"topologyName": "racks"}})
    on.submit()
    await on.until(lambda: _copies(on), "it is admitted on its worker")
    waits = condition(_local(on), "Admitted")
    assert waits is not None
    assert waits["reason"] in ("UnsatisfiedAdmissionChecks", "PendingDelayedTopologyRequests")
    (copy_,) = _copies(on)
    admission = copy.deepcopy(copy_["status"]["admission"])
    for one in admission["podSetAssignments"]:  # as a worker's Kueue does, which has topologies
        values = [{"universal": "n1"}]
        slices = [{"domainCount": 1, "valuesPerLevel": values, "podCounts": {"universal": one["count"]}}]
        one["topologyAssignment"] = {"levels": [HOST], "slices": slices}
    status = {"status": {"admission": admission}}
    on.worker("b").store.patch(WORKLOADS, NS, meta(copy_)["name"], status, subresource="status")
    await on.until(lambda: started(on, "train"), "it is admitted here too")
    job = on.job()
    assert job is not None
    assert "schedulingGates" not in job["spec"]["template"]["spec"]
    given = _local(on)["status"]["admission"]["podSetAssignments"][0]
    assert given["delayedTopologyRequest"] == "Ready"
    assert "topologyAssignment" not in given
    assert on.count("management", "list", NODES) == 0


def _local(on: Stage) -> Json:
    found = on.workload()
    assert found is not None
    return dict(found)


def _copies(on: Stage) -> list[Json]:
    return [one for one in on.worker("b").store.list(WORKLOADS)[0] if is_true(one, "Admitted")]
