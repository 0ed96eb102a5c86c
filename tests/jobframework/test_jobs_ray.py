"""RayJobs and RayClusters: which of them get Workloads, and what KubeRay adds to their pods is counted."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.jobframework.set_events import SetHoldDecided
from controlplane.job_kinds.base import JobKind
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import Json, meta
from controlplane.log.event import Event
from tests.jobframework.every_kind import NAME, RAY_CLUSTER, RAY_JOB, made
from tests.jobframework.scene import NS, Scene


def test_the_cluster_of_a_ray_job_is_no_job_of_its_own() -> None:
    scene = Scene()
    scene.flavor()
    owner = scene.create(made(RAY_JOB), RAY_JOB.kind)
    scene.settle()
    cluster = made(RAY_CLUSTER, queue="")
    reference = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "name": NAME,
        "uid": meta(owner)["uid"],
        "controller": True,
    }
    meta(cluster)["ownerReferences"] = [reference]
    cluster["spec"]["suspend"] = False
    scene.create(cluster, RAY_CLUSTER.kind)
    scene.settle()
    assert len(scene.workloads()) == 1
    assert scene.job(NAME, RAY_CLUSTER.kind)["spec"]["suspend"] is True
    scene.admit()
    scene.settle()
    assert scene.job(NAME, RAY_JOB.kind)["spec"]["suspend"] is False
    assert len(scene.workloads()) == 1


def test_a_ray_job_on_a_cluster_that_is_there_is_left_alone() -> None:
    scene = Scene()
    job = made(RAY_JOB, clusterSelector={"ray.io/cluster": "c"})
    job["spec"] = {**job["spec"], "suspend": False}
    del job["spec"]["rayClusterSpec"]
    scene.create(job, RAY_JOB.kind)
    assert scene.settle() == []
    assert scene.workloads() == []


def test_the_pod_that_submits_a_ray_job_has_a_pod_set() -> None:
    scene = Scene()
    scene.flavor()
    scene.create(made(RAY_JOB, submissionMode="K8sJobMode"), RAY_JOB.kind)
    scene.settle()
    *_, submitter = scene.workload()["spec"]["podSets"]
    (container,) = submitter["template"]["spec"]["containers"]
    assert (submitter["name"], submitter["count"], container["image"]) == ("submitter", 1, "i")
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "200Mi"}
    scene.admit()
    scene.settle()
    template = scene.job(NAME, RAY_JOB.kind)["spec"]["submitterPodTemplate"]
    assert template["spec"]["nodeSelector"] == {"pool": "general"}
    scene.evict()
    scene.settle()
    template = scene.job(NAME, RAY_JOB.kind)["spec"].get("submitterPodTemplate") or {"spec": {}}
    assert "nodeSelector" not in template["spec"]
    assert len(scene.workloads()) == 1


def refuse(scene: Scene) -> list[Event]:
    """Have KubeRay refuse the job, and do nothing more; return what follows."""
    status = {"status": {"jobDeploymentStatus": "ValidationFailed"}}
    scene.store.patch(RAY_JOB.kind, NS, NAME, status, subresource="status")
    found = scene.decide()
    for write in scene.open_writes():
        scene.carry_out(write)
    return found


def test_a_ray_job_that_kuberay_refuses_gives_its_quota_back() -> None:
    scene = Scene()
    scene.flavor()
    scene.create(made(RAY_JOB), RAY_JOB.kind)
    scene.settle()
    scene.admit()
    scene.settle()
    assert [type(one) for one in refuse(scene)] == [SetHoldDecided]
    reserved, admitted = (condition(scene.workload(), one) for one in ("QuotaReserved", "Admitted"))
    assert reserved is not None
    assert (reserved["status"], reserved["reason"], reserved["message"]) == ("False", "OnHold", "Job is on hold")
    assert admitted is not None
    assert (admitted["status"], admitted["reason"]) == ("False", "NoReservation")
    assert "admission" not in scene.workload()["status"]
    assert not is_true(scene.workload(), "Finished")
    assert scene.job(NAME, RAY_JOB.kind)["spec"]["suspend"] is False
    assert scene.decide() == []


def test_a_ray_job_that_is_refused_before_it_has_a_workload_gets_none() -> None:
    scene = Scene()
    scene.create(made(RAY_JOB), RAY_JOB.kind)
    assert refuse(scene) == []
    assert scene.workloads() == []


def heads(kind: JobKind, annotations: Json | None = None, **spec: Any) -> list[Json]:
    job = made(kind, **spec)
    meta(job)["annotations"] = annotations or {}
    found: list[Json] = kind.workload_pod_sets(job)[0]["template"]["spec"]["containers"]
    return found


def test_what_kuberay_adds_to_a_head_is_counted() -> None:
    elastic = {"kueue.x-k8s.io/elastic-job": "true"}
    autoscaler = heads(RAY_CLUSTER, elastic, enableInTreeAutoscaling=True)[-1]
    assert autoscaler["resources"]["requests"] == {"cpu": "500m", "memory": "512Mi"}
    given = {"requests": {"cpu": "2000m"}}
    options = {"autoscalerOptions": {"resources": given}, "enableInTreeAutoscaling": True}
    assert heads(RAY_CLUSTER, elastic, **options)[-1]["resources"] == {"requests": {"cpu": "2"}}
    (head,) = heads(RAY_CLUSTER, {"ray.io/ft-enabled": "True"})
    assert head["resources"]["requests"] == {"cpu": "1", "memory": "256Mi"}
    (head,) = heads(RAY_CLUSTER, gcsFaultToleranceOptions={})
    assert head["resources"]["requests"] == {"cpu": "1", "memory": "256Mi"}
    assert [one["name"] for one in heads(RAY_JOB, submissionMode="SidecarMode")] == ["main", "ray-job-submitter"]
