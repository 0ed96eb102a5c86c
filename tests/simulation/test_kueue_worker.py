"""What a worker's Kueue does with clones and the jobs that come for them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.job_kinds import INTEGRATIONS
from controlplane.kube.conditions import set_condition
from controlplane.kube.kinds import meta
from controlplane.kube.kueue_names import JOB_UID_LABEL, RESOURCE_IN_USE
from controlplane.simulation.controllers.jobs import JobPace
from controlplane.simulation.kueue.common import Gates
from tests.simulation.kueue_cluster import JOBS, JOBSETS, WORKLOADS, Cluster, clone, is_true, job_set, says


@pytest.fixture(params=[True, False], ids=["ssa", "merge-patch"])
def worker(request: pytest.FixtureRequest) -> Cluster:
    cluster = Cluster(gates=Gates(ssa=request.param))
    cluster.queues()
    return cluster


def deactivation_target(cluster: Cluster, name: str) -> None:
    status = dict(cluster.workload(name)["status"])
    text = "Evicted on manager: Preempted to accommodate a workload"
    set_condition(status, "DeactivationTarget", True, "EvictedOnManagerCluster", text, at=cluster.stamp())
    cluster.apply_status(name, status)


def test_a_clone_is_admitted_runs_its_job_and_finishes(worker: Cluster) -> None:
    worker.store.create(WORKLOADS, clone("job-a-12345"))
    worker.settle()
    admitted = worker.workload("job-a-12345")
    assert says(admitted, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cluster-queue")
    assert says(admitted, "Admitted") == ("True", "Admitted", "The workload is admitted")
    assert admitted["status"]["admission"] == {
        "clusterQueue": "cluster-queue",
        "podSetAssignments": [
            {
                "name": "main",
                "count": 1,
                "flavors": {"cpu": "default-flavor", "memory": "default-flavor"},
                "resourceUsage": {"cpu": "1", "memory": "1Gi"},
            }
        ],
    }
    assert "ownerReferences" not in meta(admitted)

    worker.submit("a", prebuilt="job-a-12345")
    worker.settle()
    running, bound = worker.job("a"), worker.workload("job-a-12345")
    assert running["spec"]["suspend"] is False
    assert running["status"]["active"] == 1
    assert running["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "general"}
    assert running["spec"]["template"]["metadata"]["labels"]["kueue.x-k8s.io/multikueue-worker-workload-pod"] == "true"
    assert meta(bound)["labels"][JOB_UID_LABEL] == meta(running)["uid"]
    assert [owner["uid"] for owner in meta(bound)["ownerReferences"]] == [meta(running)["uid"]]
    assert meta(bound)["finalizers"] == [RESOURCE_IN_USE]
    assert not is_true(bound, "Finished")

    worker.move(10)
    done = worker.workload("job-a-12345")
    assert says(done, "Finished") == ("True", "Succeeded", "Reached expected number of succeeded pods")
    assert "finalizers" not in meta(done)
    assert worker.job("a")["status"]["succeeded"] == 1


def test_a_failing_job_fails_its_workload(worker: Cluster) -> None:
    worker.store.create(WORKLOADS, clone("wl"))
    worker.submit("a", prebuilt="wl", annotations={"simulation.controlplane/outcome": "fail"})
    worker.settle()
    worker.move(10)
    assert says(worker.workload("wl"), "Finished") == (
        "True",
        "Failed",
        "Job has reached the specified backoff limit",
    )


def test_a_job_set_is_bound_to_its_clone(worker: Cluster) -> None:
    body = job_set("s")
    pod_sets = INTEGRATIONS[JOBSETS].pod_sets(body)
    wanted = clone("wl")
    wanted["spec"]["podSets"] = pod_sets
    worker.store.create(WORKLOADS, wanted)
    meta(body)["annotations"] = {"kueue.x-k8s.io/prebuilt-workload-name": "wl"}
    worker.store.create(JOBSETS, body)
    worker.settle()
    assert worker.job("s", JOBSETS)["spec"]["suspend"] is False
    worker.move(10)
    assert says(worker.workload("wl"), "Finished") == ("True", "Succeeded", "jobset completed successfully")


def test_a_job_waits_suspended_for_a_workload_that_is_not_there(worker: Cluster) -> None:
    worker.submit("a", prebuilt="wl")
    worker.settle()
    assert worker.job("a")["spec"]["suspend"] is True
    assert worker.store.list(WORKLOADS)[0] == []
    worker.store.create(WORKLOADS, clone("wl"))
    worker.settle()
    assert worker.job("a")["spec"]["suspend"] is False


@pytest.mark.parametrize("gate", [True, False])
def test_which_prebuilt_name_counts_is_a_gate(gate: bool) -> None:
    worker = Cluster(gates=Gates(identifier_annotations=gate))
    worker.queues()
    for name in ("from-annotation", "from-label"):
        worker.store.create(WORKLOADS, clone(name))
    worker.submit("a", prebuilt="from-annotation", labels={"kueue.x-k8s.io/prebuilt-workload-name": "from-label"})
    worker.settle()
    bound, other = ("from-annotation", "from-label") if gate else ("from-label", "from-annotation")
    assert "ownerReferences" in meta(worker.workload(bound))
    assert "ownerReferences" not in meta(worker.workload(other))


def test_a_workload_of_another_job_is_not_taken_over(worker: Cluster) -> None:
    worker.store.create(WORKLOADS, clone("wl"))
    first = worker.submit("a", prebuilt="wl")
    worker.settle()
    worker.submit("b", prebuilt="wl")
    worker.settle()
    assert worker.job("b")["spec"]["suspend"] is True
    assert [owner["uid"] for owner in meta(worker.workload("wl"))["ownerReferences"]] == [meta(first)["uid"]]
    assert not is_true(worker.workload("wl"), "Finished")


def test_different_pod_sets_are_out_of_sync(worker: Cluster) -> None:
    worker.store.create(WORKLOADS, clone("wl", cpu="2"))
    worker.submit("a", prebuilt="wl", cpu="1")
    worker.settle()
    finished = worker.workload("wl")
    text = "The prebuilt workload is out of sync with its user job"
    assert says(finished, "Finished") == ("True", "OutOfSync", text)
    assert worker.job("a")["spec"]["suspend"] is True
    worker.store.create(WORKLOADS, clone("next", cpu="4"))
    worker.settle()
    assert is_true(worker.workload("next"), "Admitted"), "a finished Workload holds no quota"


def test_a_deactivation_target_stops_the_job_and_frees_the_quota(worker: Cluster) -> None:
    worker.store.create(WORKLOADS, clone("wl", cpu="4"))
    worker.submit("a", prebuilt="wl", cpu="4")
    worker.settle()
    assert worker.job("a")["status"]["active"] == 1
    deactivation_target(worker, "wl")
    worker.settle()
    evicted = worker.workload("wl")
    text = "The workload is deactivated due to Evicted on manager: Preempted to accommodate a workload"
    assert evicted["spec"]["active"] is False
    assert says(evicted, "Evicted") == ("True", "DeactivatedDueToEvictedOnManagerCluster", text)
    assert says(evicted, "QuotaReserved")[:2] == ("False", "Pending")
    assert not is_true(evicted, "Admitted")
    assert "admission" not in evicted["status"]
    stopped = worker.job("a")
    assert stopped["spec"]["suspend"] is True
    assert "active" not in stopped["status"]
    assert "startTime" not in stopped["status"]
    assert "nodeSelector" not in stopped["spec"]["template"]["spec"]
    worker.store.create(WORKLOADS, clone("next", cpu="4"))
    worker.settle()
    assert is_true(worker.workload("next"), "Admitted")
    assert not is_true(worker.workload("wl"), "QuotaReserved"), "inactive for good"


def test_a_condition_that_is_patched_in_takes_nothing_from_core_and_does_what_it_is_for() -> None:
    """A merge patch of the whole list of conditions, at the version that was seen: as the copy is stopped from
    outside."""
    worker = Cluster()
    worker.queues()
    worker.store.create(WORKLOADS, clone("wl", cpu="4"))
    worker.submit("a", prebuilt="wl", cpu="4")
    worker.settle()
    worker.status("wl", {"reclaimablePods": [{"name": "main", "count": 0}]}, manager="somebody")
    before = worker.workload("wl")
    held = {entry["manager"]: entry["fieldsV1"] for entry in meta(before)["managedFields"]}
    target = {"type": "DeactivationTarget", "status": "True", "reason": "EvictedOnManagerCluster", "message": "m"}
    conditions = [*before["status"]["conditions"], {**target, "lastTransitionTime": worker.stamp()}]
    worker.status("wl", {"conditions": conditions}, manager="controlplane")
    after = worker.workload("wl")
    owned = {entry["manager"]: entry["fieldsV1"] for entry in meta(after)["managedFields"]}
    ours = owned.pop("controlplane")
    assert owned == held
    assert list(ours["f:status"]["f:conditions"]) == ['k:{"type":"DeactivationTarget"}']
    worker.settle()
    stopped = worker.workload("wl")
    assert says(stopped, "Evicted")[:2] == ("True", "DeactivatedDueToEvictedOnManagerCluster")
    assert not is_true(stopped, "QuotaReserved")
    assert is_true(stopped, "DeactivationTarget"), "core lets go of it, and we hold it still"
    assert stopped["status"]["reclaimablePods"] == before["status"]["reclaimablePods"]
    assert worker.job("a")["spec"]["suspend"] is True


def test_a_preempted_workload_is_requeued_here(worker: Cluster) -> None:
    worker.store.create(WORKLOADS, clone("wl"))
    worker.submit("a", prebuilt="wl")
    worker.settle()
    seen: list[str] = []
    worker.store.subscribe(
        lambda event: (
            seen.extend(c["type"] for c in event.object["status"]["conditions"] if c["status"] == "True")
            if event.kind == WORKLOADS
            else None
        )
    )
    assert worker.kueue.preempt("default", "wl")
    assert not worker.kueue.preempt("default", "wl"), "it is evicted already"
    worker.settle()
    again = worker.workload("wl")
    assert "Evicted" in seen
    assert "Preempted" in seen
    assert says(again, "Evicted")[:2] == ("False", "QuotaReserved")
    assert says(again, "Requeued")[:2] == ("True", "Preempted")
    assert is_true(again, "Admitted")
    assert worker.job("a")["status"]["active"] == 1
    assert again["status"]["schedulingStats"]["evictions"] == [
        {"reason": "Preempted", "underlyingCause": "", "count": 1}
    ]


@pytest.mark.parametrize(
    ("granular", "reasons"), [(False, ("Inadmissible",) * 2), (True, ("Misconfigured", "Misconfigured"))]
)
def test_missing_queues_are_named_and_waited_for(granular: bool, reasons: tuple[str, str]) -> None:
    worker = Cluster(gates=Gates(granular_reasons=granular))
    worker.store.create(WORKLOADS, clone("wl", queue="nowhere"))
    worker.settle()
    assert says(worker.workload("wl"), "QuotaReserved") == ("False", reasons[0], "LocalQueue nowhere doesn't exist")
    worker.local_queue("nowhere", "missing")
    worker.settle()
    assert says(worker.workload("wl"), "QuotaReserved") == ("False", reasons[1], "ClusterQueue missing doesn't exist")
    worker.queues()
    worker.store.create(WORKLOADS, clone("other"))
    worker.settle()
    assert is_true(worker.workload("other"), "Admitted")


def test_a_missing_local_queue_that_appears_admits(worker: Cluster) -> None:
    worker.store.create(WORKLOADS, clone("wl", queue="later"))
    worker.settle()
    assert not is_true(worker.workload("wl"), "QuotaReserved")
    worker.local_queue("later")
    worker.settle()
    assert is_true(worker.workload("wl"), "Admitted")


def test_a_job_that_is_deleted_takes_its_workload_along(worker: Cluster) -> None:
    worker.store.create(WORKLOADS, clone("wl"))
    worker.submit("a", prebuilt="wl")
    worker.settle()
    worker.store.delete(JOBS, "default", "a")
    worker.settle()
    assert worker.store.list(WORKLOADS)[0] == []


@pytest.mark.parametrize("gate", [True, False])
def test_an_orphaned_workload_is_finished_by_gate(gate: bool) -> None:
    worker = Cluster(gates=Gates(finish_orphans=gate))
    worker.queues()
    worker.store.create(WORKLOADS, clone("wl"))
    worker.submit("a", prebuilt="wl")
    worker.settle()
    worker.store.delete(JOBS, "default", "a", propagation="Orphan")
    worker.settle()
    found = worker.workload("wl")
    assert is_true(found, "Finished") is gate
    if gate:
        assert says(found, "Finished")[1:] == ("OwnerNotFound", "The workload's owner no longer exists")
        assert "finalizers" not in meta(found)


def test_a_bound_clone_that_is_deleted_stops_its_job_first(worker: Cluster) -> None:
    worker.store.create(WORKLOADS, clone("wl"))
    worker.submit("a", prebuilt="wl")
    worker.settle()
    held = worker.store.delete(WORKLOADS, "default", "wl")
    assert meta(held)["deletionTimestamp"]
    worker.settle()
    assert worker.store.list(WORKLOADS)[0] == []
    assert worker.job("a")["spec"]["suspend"] is True


def test_running_too_long_deactivates() -> None:
    worker = Cluster(pace=JobPace(duration=timedelta(hours=1)))
    worker.queues()
    worker.store.create(WORKLOADS, clone("wl", maximumExecutionTimeSeconds=60))
    worker.submit("a", prebuilt="wl", labels={"kueue.x-k8s.io/max-exec-time-seconds": "60"})
    worker.settle()
    worker.move(59)
    assert is_true(worker.workload("wl"), "Admitted")
    worker.move(1)
    reason = "DeactivatedDueToMaximumExecutionTimeExceeded"
    text = "The workload is deactivated due to exceeding the maximum execution time"
    assert says(worker.workload("wl"), "Evicted") == ("True", reason, text)
    assert worker.job("a")["spec"]["suspend"] is True


def test_a_job_that_is_content_with_fewer_pods_runs_with_as_many_as_it_got(worker: Cluster) -> None:
    """Of six pods the queue has room for four; when it stops it asks for six again."""
    wanted = clone("wl", count=6)
    wanted["spec"]["podSets"][0]["minCount"] = 2
    worker.store.create(WORKLOADS, wanted)
    worker.submit("a", prebuilt="wl", pods=6, annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})
    worker.settle()
    assert worker.workload("wl")["status"]["admission"]["podSetAssignments"][0]["count"] == 4
    running = worker.job("a")["spec"]
    assert (running["suspend"], running["parallelism"]) == (False, 4)
    worker.move(1)
    assert not is_true(worker.workload("wl"), "Finished")
    worker.store.patch(WORKLOADS, "default", "wl", {"spec": {"active": False}})
    worker.settle()
    stopped = worker.job("a")["spec"]
    assert (stopped["suspend"], stopped["parallelism"]) == (True, 6)
