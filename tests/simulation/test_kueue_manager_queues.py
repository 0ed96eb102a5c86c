"""Who gets quota from the management cluster's queues, who waits, and who has to give it back."""

from __future__ import annotations

import pytest

from controlplane.kube.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES
from controlplane.kube.kueue_names import MULTIKUEUE
from tests.simulation.kueue_cluster import RUNNING, Cluster, dispatch, is_true, says


def test_quota_is_given_by_priority_then_age_and_the_rest_waits(manager: Cluster) -> None:
    manager.store.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
    for name in ("a", "b", "c"):
        manager.submit(name, cpu="2")
        manager.move(1)
    manager.submit("urgent", cpu="2", labels={"kueue.x-k8s.io/priority-class": "high"})
    manager.submit("small", cpu="3")
    manager.settle()
    reserved = {
        name for name in ("a", "b", "c", "urgent", "small") if is_true(manager.workload_of(name), "QuotaReserved")
    }
    assert reserved == {"a", "b"}, "they were there first and nothing is preempted by itself"
    text = (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default-flavor, 2 "
        "more needed"
    )
    assert says(manager.workload_of("c"), "QuotaReserved") == ("False", "Pending", text)
    urgent = manager.workload_of("urgent")
    assert urgent["spec"]["priority"] == 100
    assert urgent["spec"]["priorityClassRef"]["name"] == "high"

    def finish(name: str) -> None:
        done = {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": ""}
        manager.mirror(name, {"conditions": [done]})
        manager.settle()

    finish("a")
    assert is_true(manager.workload_of("urgent"), "QuotaReserved")
    assert not is_true(manager.workload_of("c"), "QuotaReserved")
    finish("b")
    assert is_true(manager.workload_of("c"), "QuotaReserved")
    finish("urgent")
    assert not is_true(manager.workload_of("small"), "QuotaReserved"), "3 do not fit into 2"
    finish("c")
    assert is_true(manager.workload_of("small"), "QuotaReserved")


@pytest.mark.parametrize(("strategy", "overtakes"), [("BestEffortFIFO", True), ("StrictFIFO", False)])
def test_whether_a_small_one_overtakes_is_the_queues_strategy(strategy: str, overtakes: bool) -> None:
    manager = Cluster(manager=True)
    manager.queues(queueingStrategy=strategy)
    for name, cpu in (("first", "3"), ("big", "2"), ("small", "1")):
        manager.submit(name, cpu=cpu)
        manager.clock.move(1)
        manager.settle()
    assert is_true(manager.workload_of("small"), "QuotaReserved") is overtakes


def test_what_can_never_fit_is_told_so(manager: Cluster) -> None:
    manager.submit("a", cpu="3", pods=2)
    manager.settle()
    text = (
        "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default-flavor, previously "
        "considered podsets requests (0) + current podset request (6) > maximum capacity (4)"
    )
    assert says(manager.workload_of("a"), "QuotaReserved") == ("False", "Pending", text)


def test_a_resource_that_no_group_covers_is_told(manager: Cluster) -> None:
    body = {"requests": {"nvidia.com/gpu": "1"}}
    container = {"name": "c", "image": "pause", "resources": body}
    manager.submit("a", template={"spec": {"restartPolicy": "Never", "containers": [container]}})
    manager.settle()
    text = "couldn't assign flavors to pod set main: resource nvidia.com/gpu unavailable in ClusterQueue"
    assert says(manager.workload_of("a"), "QuotaReserved")[2] == text


def test_an_inactive_check_holds_the_cluster_queue() -> None:
    manager = Cluster(manager=True)
    manager.queues(checks=("multikueue",), active=False)
    queue = manager.store.get(CLUSTER_QUEUES, "", "cluster-queue")
    text = "Can't admit new workloads: references inactive AdmissionCheck(s): multikueue."
    assert says(queue, "Active") == ("False", "AdmissionCheckInactive", text)
    local = manager.store.get(LOCAL_QUEUES, "default", "user-queue")
    assert says(local, "Active")[:2] == ("False", "ClusterQueueIsInactive")
    manager.submit("a")
    manager.settle()
    waiting = manager.workload_of("a")
    assert says(waiting, "QuotaReserved") == ("False", "Inadmissible", "ClusterQueue cluster-queue is inactive")
    manager.activate("multikueue")
    manager.settle()
    assert says(manager.store.get(CLUSTER_QUEUES, "", "cluster-queue"), "Active")[:2] == ("True", "Ready")
    assert is_true(manager.workload_of("a"), "QuotaReserved")
    manager.activate("multikueue", active=False)
    manager.submit("b")
    manager.settle()
    assert not is_true(manager.workload_of("b"), "QuotaReserved")


def test_two_multikueue_checks_are_too_many(manager: Cluster) -> None:
    manager.store.create(ADMISSION_CHECKS, {"metadata": {"name": "second"}, "spec": {"controllerName": MULTIKUEUE}})
    manager.activate("second")
    checks = [{"name": "multikueue"}, {"name": "second"}]
    manager.store.patch(
        CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"admissionChecksStrategy": {"admissionChecks": checks}}}
    )
    manager.settle()
    assert (
        says(manager.store.get(CLUSTER_QUEUES, "", "cluster-queue"), "Active")[1] == "MultipleMultiKueueAdmissionChecks"
    )


def test_a_queue_that_drains_evicts_and_takes_back_later(manager: Cluster) -> None:
    manager.submit("a")
    manager.settle()
    name = dispatch(manager, "a")
    manager.store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"stopPolicy": "HoldAndDrain"}})
    manager.settle()
    evicted = manager.workload(name)
    assert says(evicted, "Evicted") == ("True", "ClusterQueueStopped", "The ClusterQueue is stopped")
    assert not is_true(evicted, "QuotaReserved")
    manager.store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"stopPolicy": "None"}})
    manager.settle()
    assert says(manager.workload(name), "Requeued")[:2] == ("True", "ClusterQueueRestarted")
    assert is_true(manager.workload(name), "QuotaReserved")


def test_preemption_drains_and_requeues_at_once(manager: Cluster) -> None:
    manager.submit("a")
    manager.settle()
    name = dispatch(manager, "a")
    manager.mirror("a", RUNNING)
    manager.settle()
    manager.kueue.preempt("default", name)
    manager.settle()
    draining = manager.workload(name)
    assert says(draining, "Evicted")[:2] == ("True", "Preempted")
    assert is_true(draining, "QuotaReserved")
    manager.mirror("a", {"active": 0})
    manager.settle()
    assert says(manager.workload(name), "Requeued")[:2] == ("True", "Preempted")
    assert is_true(manager.workload(name), "QuotaReserved")


def test_queue_statuses_count(manager: Cluster) -> None:
    for name in ("a", "b", "c"):
        manager.submit(name, cpu="2")
    manager.settle()
    dispatch(manager, "a")
    manager.move(2)
    status = manager.store.get(CLUSTER_QUEUES, "", "cluster-queue")["status"]
    assert (status["pendingWorkloads"], status["reservingWorkloads"], status["admittedWorkloads"]) == (1, 2, 1)
    used = {r["name"]: r["total"] for r in status["flavorsUsage"][0]["resources"]}
    held = {r["name"]: r["total"] for r in status["flavorsReservation"][0]["resources"]}
    assert used == {"cpu": "2", "memory": "1Gi"}
    assert held == {"cpu": "4", "memory": "2Gi"}
    local = manager.store.get(LOCAL_QUEUES, "default", "user-queue")["status"]
    assert (local["pendingWorkloads"], local["reservingWorkloads"], local["admittedWorkloads"]) == (1, 2, 1)
