"""A job gets its Workload, runs while that is admitted, and ends it, step by step as with Kueue's job framework."""

from __future__ import annotations

from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import JOBS, meta
from tests.jobframework.scene import NS, SELECTOR, Scene, job


def test_a_job_with_a_queue_gets_its_workload() -> None:
    scene = Scene()
    made = scene.create(job(labels={"kueue.x-k8s.io/max-exec-time-seconds": "60"}))
    scene.settle()
    workload = scene.workload()
    assert meta(workload)["labels"] == {"kueue.x-k8s.io/job-uid": meta(made)["uid"]}
    assert meta(workload)["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
    (owner,) = meta(workload)["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("Job", "a", meta(made)["uid"], True)
    spec = workload["spec"]
    assert (spec["queueName"], spec["priority"], spec["maximumExecutionTimeSeconds"]) == ("user-queue", 0, 60)
    assert [(one["name"], one["count"]) for one in spec["podSets"]] == [("main", 2)]
    assert scene.events() == [("CreatedWorkload", f"Created Workload: {NS}/{meta(workload)['name']}")]
    assert scene.settle() == []


def test_it_starts_when_it_is_admitted_and_its_end_finishes_the_workload() -> None:
    scene = Scene()
    scene.flavor(tolerations=[{"key": "spot", "operator": "Exists"}])
    scene.create(job())
    scene.settle()
    scene.admit()
    scene.settle()
    spec = scene.job()["spec"]
    assert spec["suspend"] is False
    assert spec["template"]["spec"]["nodeSelector"] == SELECTOR
    assert spec["template"]["spec"]["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    labels = spec["template"]["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/podset"] == "main"
    assert labels["kueue.x-k8s.io/cluster-queue-name"] == "cq"
    assert labels["kueue.x-k8s.io/local-queue-name"] == "user-queue"
    name = meta(scene.workload())["name"]
    assert spec["template"]["metadata"]["annotations"] == {"kueue.x-k8s.io/workload": name}
    assert scene.events()[-1] == ("Started", "Admitted by clusterQueue cq")
    done = [{"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "all done"}]
    scene.store.patch(JOBS, NS, "a", {"status": {"conditions": done}}, subresource="status")
    scene.settle()
    finished = condition(scene.workload(), "Finished")
    assert finished is not None
    assert (finished["reason"], finished["message"]) == ("Succeeded", "all done")
    assert is_true(scene.workload(), "Admitted")
    assert "finalizers" not in meta(scene.workload())


def test_a_job_that_runs_without_being_admitted_is_suspended() -> None:
    scene = Scene()
    scene.create(job(suspend=False))
    scene.settle()
    assert scene.job()["spec"]["suspend"] is True
    assert scene.events()[0] == ("Stopped", "Missing Workload; unable to restore pod templates")
    assert len(scene.workloads()) == 1


def test_an_evicted_job_is_stopped_restored_and_gives_its_quota_back() -> None:
    scene = Scene()
    scene.flavor()
    before = scene.create(job())["spec"]["template"]
    scene.settle()
    scene.admit()
    scene.settle()
    scene.clock.move(7)
    scene.evict()
    scene.settle()
    found, workload = scene.job(), scene.workload()
    assert found["spec"]["suspend"] is True
    assert "startTime" not in found["status"]
    assert found["spec"]["template"]["spec"] == before["spec"]
    assert "kueue.x-k8s.io/stopping" not in meta(found).get("annotations", {})
    reserved, requeued = condition(workload, "QuotaReserved"), condition(workload, "Requeued")
    assert reserved is not None
    assert requeued is not None
    assert (reserved["status"], reserved["reason"]) == ("False", "PendingEvaluation")
    assert (requeued["status"], requeued["reason"]) == ("True", "Preempted")
    assert "admission" not in workload["status"]
    assert not is_true(workload, "Admitted")
    assert workload["status"]["accumulatedPastExecutionTimeSeconds"] == 7
    assert ("Stopped", "Preempted to accommodate a workload") in scene.events()
