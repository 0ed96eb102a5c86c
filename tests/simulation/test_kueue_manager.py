"""What the management cluster's Kueue does, with the dispatching controller played by hand."""

from __future__ import annotations

import pytest

from controlplane.kube.kinds import CLUSTER_QUEUES, WORKLOAD_PRIORITY_CLASSES, meta
from controlplane.kube.kueue_names import JOB_UID_LABEL, MULTIKUEUE, RESOURCE_IN_USE
from controlplane.simulation.kueue.common import Gates, workload_name
from tests.simulation.kueue_cluster import JOBS, JOBSETS, RUNNING, WORKLOADS, Cluster, dispatch, is_true, says


def test_a_job_is_suspended_managed_and_gets_quota_and_a_pending_check(manager: Cluster) -> None:
    made = manager.submit("a", pods=2)
    assert made["spec"]["suspend"] is True
    assert made["spec"]["managedBy"] == MULTIKUEUE
    manager.settle()
    workload = manager.workload_of("a")
    assert meta(workload)["name"] == workload_name(JOBS, "a", meta(made)["uid"])
    assert meta(workload)["labels"] == {JOB_UID_LABEL: meta(made)["uid"]}
    assert meta(workload)["finalizers"] == [RESOURCE_IN_USE]
    assert meta(workload)["ownerReferences"][0]["controller"] is True
    assert workload["spec"]["queueName"] == "user-queue"
    assert [(p["name"], p["count"]) for p in workload["spec"]["podSets"]] == [("main", 2)]
    labels = workload["spec"]["podSets"][0]["template"]["metadata"]["labels"]
    assert labels == {"batch.kubernetes.io/job-name": "a"}
    assert is_true(workload, "QuotaReserved")
    assert not is_true(workload, "Admitted")
    (check,) = workload["status"]["admissionChecks"]
    assert (check["name"], check["state"]) == ("multikueue", "Pending")
    assert manager.job("a")["spec"]["suspend"] is True


def test_a_ready_check_admits_and_unsuspends_and_the_mirrored_end_finishes(manager: Cluster) -> None:
    manager.submit("a")
    manager.settle()
    name = dispatch(manager, "a")
    workload = manager.workload(name)
    assert says(workload, "Admitted") == ("True", "Admitted", "The workload is admitted")
    assert workload["status"]["clusterName"] == "worker-1"
    assert manager.job("a")["spec"]["suspend"] is False
    manager.move(3600)
    assert "active" not in manager.job("a").get("status", {}), "nobody runs it here"
    manager.mirror("a", RUNNING)
    manager.settle()
    done = {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "it is done"}
    manager.mirror("a", {"active": None, "succeeded": 1, "conditions": [done]})
    manager.settle()
    assert says(manager.workload(name), "Finished") == ("True", "Succeeded", "it is done")
    assert "finalizers" not in meta(manager.workload(name))


def test_retry_evicts_drains_releases_and_requeues(manager: Cluster) -> None:
    manager.submit("a")
    manager.settle()
    name = dispatch(manager, "a")
    manager.mirror("a", RUNNING)
    manager.settle()
    manager.clock.move(5)
    manager.check(name, "Retry", 'Admitting remote lost, Previously: "Ready"')
    manager.settle()

    draining = manager.workload(name)
    text = 'Evicted due to AdmissionCheck in Retry state: "multikueue" (Admitting remote lost, Previously: "Ready")'
    assert says(draining, "Evicted") == ("True", "AdmissionCheck", text)
    assert is_true(draining, "QuotaReserved"), "the mirrored status still says that it runs"
    (check,) = draining["status"]["admissionChecks"]
    assert check["state"] == "Pending"
    assert check["message"] == "Reset to Pending after eviction. Previously: Retry"
    assert check["retryCount"] == 1
    assert draining["status"]["schedulingStats"]["evictions"] == [
        {"reason": "AdmissionCheck", "underlyingCause": "", "count": 1}
    ]
    assert "clusterName" not in draining["status"]
    stopped = manager.job("a")
    assert stopped["spec"]["suspend"] is True
    assert stopped["status"]["active"] == 1
    assert "startTime" not in stopped["status"]

    seen: list[tuple[str, str]] = []
    manager.store.subscribe(
        lambda event: (
            seen.extend((c["type"], f"{c['status']} {c['reason']}") for c in event.object["status"]["conditions"])
            if event.kind == WORKLOADS
            else None
        )
    )
    manager.mirror("a", {"active": 0})
    manager.settle()
    again = manager.workload(name)
    assert ("QuotaReserved", "False Pending") in seen
    assert ("Requeued", "False AdmissionCheck") in seen
    assert says(again, "Requeued") == ("True", "BackoffFinished", "The workload backoff was finished")
    assert is_true(again, "QuotaReserved")
    assert says(again, "Evicted")[:2] == ("False", "QuotaReserved")
    assert again["status"]["admissionChecks"][0]["state"] == "Pending"
    assert not is_true(again, "Admitted")


def test_a_check_may_ask_for_a_pause_which_core_spends_before_it_evicts(manager: Cluster) -> None:
    manager.submit("a")
    manager.settle()
    name = dispatch(manager, "a")
    entry = {**manager.workload(name)["status"]["admissionChecks"][0], "state": "Retry", "requeueAfterSeconds": 30}
    manager.status(name, {"admissionChecks": [{**entry, "lastTransitionTime": manager.stamp()}]})
    manager.settle()
    waiting = manager.workload(name)
    assert waiting["status"]["requeueState"]["requeueAt"] == "2026-01-01T00:00:30Z"
    manager.move(29)
    assert not any(c["type"] == "Evicted" for c in manager.workload(name)["status"]["conditions"])
    manager.move(1)
    again = manager.workload(name)
    assert says(again, "Evicted")[:2] == ("False", "QuotaReserved")
    assert says(again, "Requeued")[:2] == ("True", "BackoffFinished")
    assert again["status"]["admissionChecks"][0]["state"] == "Pending"
    assert is_true(again, "QuotaReserved")


def test_rejected_deactivates(manager: Cluster) -> None:
    manager.submit("a")
    manager.settle()
    name = str(meta(manager.workload_of("a"))["name"])
    manager.check(name, "Rejected", "No multikueue adapter found")
    manager.settle()
    found = manager.workload(name)
    assert found["spec"]["active"] is False
    text = (
        'The workload is deactivated due to AdmissionCheck in Rejected state: "multikueue" (No multikueue adapter '
        "found)"
    )
    assert says(found, "Evicted") == ("True", "DeactivatedDueToAdmissionCheck", text)
    assert not is_true(found, "QuotaReserved")
    assert "admission" not in found["status"]
    (check,) = found["status"]["admissionChecks"]
    assert check["state"] == "Pending"
    assert check["message"] == "Reset to Pending after eviction. Previously: Rejected"
    assert "retryCount" not in check
    assert manager.job("a")["spec"]["suspend"] is True


@pytest.mark.parametrize("state", ["Rejected", "Retry"])
def test_a_failed_check_keeps_a_waiting_workload_from_quota(manager: Cluster, state: str) -> None:
    """Kueue's scheduler passes over it ("The workload has failed admission checks", pkg/scheduler/scheduler.go)."""
    manager.store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"stopPolicy": "Hold"}})
    manager.submit("a")
    manager.settle()
    name = str(meta(manager.workload_of("a"))["name"])
    manager.check(name, state)
    manager.settle()
    manager.store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"stopPolicy": "None"}})
    manager.settle()
    waits = manager.workload(name)
    assert not is_true(waits, "QuotaReserved")
    assert (waits["spec"]["active"], is_true(waits, "Evicted")) == (True, False), (
        "core looks at checks of who has quota"
    )
    manager.check(name, "Pending")
    manager.settle()
    assert not is_true(manager.workload(name), "QuotaReserved"), "a check that changes moves nobody who is set aside"
    for policy in ("Hold", "None"):
        manager.store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"stopPolicy": policy}})
        manager.settle()
    assert is_true(manager.workload(name), "QuotaReserved"), "a change of its ClusterQueue does"


def test_deactivation_by_a_user_and_back(manager: Cluster) -> None:
    manager.submit("a")
    manager.settle()
    name = dispatch(manager, "a")
    manager.kueue.deactivate("default", name)
    manager.settle()
    idle = manager.workload(name)
    assert says(idle, "Evicted") == ("True", "Deactivated", "The workload is deactivated")
    assert says(idle, "Requeued")[0] == "False"
    assert not is_true(idle, "QuotaReserved")
    manager.store.patch(WORKLOADS, "default", name, {"spec": {"active": True}})
    manager.settle()
    assert says(manager.workload(name), "Requeued") == ("True", "Reactivated", "The workload was reactivated")
    assert is_true(manager.workload(name), "QuotaReserved")


def test_what_another_manager_owns_survives_an_eviction_by_apply_only() -> None:
    """Kueue's field-manager trap: core removes by leaving out, and what somebody else owns stays."""
    for ssa in (True, False):
        manager = Cluster(manager=True, gates=Gates(multikueue=True, ssa=ssa))
        manager.queues(checks=("multikueue",))
        manager.submit("a")
        manager.settle()
        name = str(meta(manager.workload_of("a"))["name"])
        manager.status(name, {"nominatedClusterNames": ["worker-1"]}, manager="dispatcher")
        manager.check(name, "Ready", clusterName="worker-1", nominatedClusterNames=None)
        manager.settle()
        manager.check(name, "Retry")
        manager.settle()
        assert ("clusterName" in manager.workload(name)["status"]) is ssa


def test_a_deleted_job_takes_its_workload_along_and_frees_the_quota(manager: Cluster) -> None:
    manager.submit("a", cpu="4")
    manager.submit("b", cpu="4")
    manager.settle()
    manager.store.delete(JOBS, "default", "a")
    manager.settle()
    assert is_true(manager.workload_of("b"), "QuotaReserved")
    assert len(manager.store.list(WORKLOADS)[0]) == 1


def test_a_delayed_topology_holds_admission_back(manager: Cluster) -> None:
    manager.submit("a")
    manager.settle()
    name = str(meta(manager.workload_of("a"))["name"])
    admission = manager.workload(name)["status"]["admission"]
    assignments = [{**entry, "delayedTopologyRequest": "Pending"} for entry in admission["podSetAssignments"]]
    manager.status(name, {"admission": {**admission, "podSetAssignments": assignments}})
    manager.check(name, "Ready")
    manager.settle()
    assert not is_true(manager.workload(name), "Admitted")
    assignments = [{**entry, "delayedTopologyRequest": "Ready"} for entry in assignments]
    manager.status(name, {"admission": {**admission, "podSetAssignments": assignments}})
    manager.settle()
    assert is_true(manager.workload(name), "Admitted")


@pytest.mark.parametrize("kind", [JOBS, JOBSETS])
def test_without_the_gate_nobody_is_managed_by_multikueue(kind: object) -> None:
    manager = Cluster(manager=True, gates=Gates(multikueue=False))
    manager.queues(checks=("multikueue",))
    made = manager.submit("a", kind=kind)  # type: ignore[arg-type]
    assert made["spec"]["suspend"] is True
    assert "managedBy" not in made["spec"]


def test_managed_by_is_defaulted_for_job_sets_too_and_only_for_queues_with_the_check(manager: Cluster) -> None:
    assert manager.submit("s", kind=JOBSETS)["spec"]["managedBy"] == MULTIKUEUE
    assert "managedBy" not in manager.submit("a", queue="elsewhere")["spec"]
    assert manager.submit("b", managedBy="example.com/other")["spec"]["managedBy"] == "example.com/other"
    free = manager.submit("free", queue="")
    assert free["spec"]["suspend"] is False
    manager.settle()
    assert [meta(w)["ownerReferences"][0]["name"] for w in manager.store.list(WORKLOADS)[0]] == ["a", "b", "s"]


def test_queue_and_priority_of_a_waiting_job_can_change(manager: Cluster) -> None:
    manager.store.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 7})
    manager.submit("a", queue="elsewhere")
    manager.settle()
    labels = {"kueue.x-k8s.io/queue-name": "user-queue", "kueue.x-k8s.io/priority-class": "high"}
    manager.store.patch(JOBS, "default", "a", {"metadata": {"labels": labels}})
    manager.settle()
    workload = manager.workload_of("a")
    assert workload["spec"]["queueName"] == "user-queue"
    assert workload["spec"]["priority"] == 7
    assert is_true(workload, "QuotaReserved")


def test_coming_to_rest_means_writing_nothing(manager: Cluster) -> None:
    for name in ("a", "b", "c"):
        manager.submit(name, cpu="2")
    manager.settle()
    manager.move(2)
    before = manager.store.version
    for workload in manager.store.list(WORKLOADS)[0]:
        manager.kueue.enqueue(("workload", "default", meta(workload)["name"]))
    for name in ("a", "b", "c"):
        manager.kueue.enqueue(("job", JOBS.name, "default", name))
    manager.kueue.enqueue(("clusterqueue", "cluster-queue"))
    manager.move(5)
    assert manager.store.version == before
