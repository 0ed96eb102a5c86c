"""An elastic RayJob or RayService that KubeRay makes larger and smaller: the sizes are those of its RayCluster, as with
Kueue's `UpdatePodSets` (pkg/controller/jobs/raycluster/common.go)."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.context import JobFrameworkPolicy
from controlplane.controllers.jobframework.names import name_of_workload
from controlplane.controllers.jobframework.observe import JobObserver
from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.base import JobKind
from controlplane.kube.kinds import PODS, Json, meta
from controlplane.kube.kueue_names import MULTIKUEUE
from controlplane.kube.slices import ELASTIC_GATE, ELASTIC_JOB, REPLACEMENT_FOR
from controlplane.runtime.controller import ObjectChange
from tests.jobframework.every_kind import RAY_CLUSTER, RAY_JOB
from tests.jobframework.scene import ADAPTERS, NS, QUEUE, Scene, pod_template
from tests.jobframework.test_slices import by_age, get, replace
from tests.jobframework.test_slices_pods import pod, waiting
from tests.support.rows import each

RAY_SERVICE = JOB_KINDS["ray.io/rayservice"]
CLUSTER = "ray-cluster"
NAMED: dict[JobKind, Json] = {
    RAY_JOB: {"jobDeploymentStatus": "Running", "rayClusterName": CLUSTER},
    RAY_SERVICE: {"activeServiceStatus": {"rayClusterName": CLUSTER}},
}


def ray(kind: JobKind, *, scales: bool = True, **spec: Any) -> Json:
    group = {"groupName": "small", "replicas": 1, "minReplicas": 0, "maxReplicas": 9, "template": pod_template()}
    cluster = {"headGroupSpec": {"rayStartParams": {}, "template": pod_template()}, "workerGroupSpecs": [group]}
    cluster |= {"enableInTreeAutoscaling": True} if scales else {}
    made = {"rayClusterSpec": cluster, "suspend": True, "shutdownAfterJobFinishes": True, "entrypoint": "x"}
    if kind is RAY_SERVICE:
        made = {"rayClusterConfig": {**cluster, "suspend": True}}
    labels = {"kueue.x-k8s.io/queue-name": QUEUE}
    metadata = {"namespace": NS, "name": "ray", "labels": labels, "annotations": {ELASTIC_JOB: "true"}}
    return {"metadata": metadata, "spec": {**made, **spec}}


def running(kind: JobKind = RAY_JOB, *, notes: bool = True, **options: bool) -> Scene:
    """A job that is admitted, and whose RayCluster KubeRay has made."""
    scene = Scene()
    scene.jobs.drain = lambda: 0  # type: ignore[method-assign]
    scene.flavor()
    scene.create(ray(kind, **options), kind.kind)
    scene.settle()
    scene.admit()
    scene.settle()
    with_cluster(scene, kind, {ELASTIC_JOB: "true"} if notes else {})
    return scene


def with_cluster(scene: Scene, kind: JobKind, notes: Json) -> None:
    """Have KubeRay make the RayCluster, and name it in the job's status."""
    owner = scene.job("ray", kind.kind)
    reference = {
        "apiVersion": "ray.io/v1",
        "kind": kind.kind.kind,
        "name": "ray",
        "uid": meta(owner)["uid"],
        "controller": True,
    }
    spec = owner["spec"]["rayClusterSpec"] if kind is RAY_JOB else owner["spec"]["rayClusterConfig"]
    metadata = {"namespace": NS, "name": CLUSTER, "annotations": notes, "ownerReferences": [reference]}
    scene.create({"metadata": metadata, "spec": {**spec, "suspend": False}}, RAY_CLUSTER.kind)
    scene.store.patch(kind.kind, NS, "ray", {"status": NAMED[kind]}, subresource="status", field_manager="kuberay")
    scene.settle()


def scale(scene: Scene, size: int) -> None:
    """Have the autoscaler give the group of workers of the RayCluster a size."""
    (group,) = scene.job(CLUSTER, RAY_CLUSTER.kind)["spec"]["workerGroupSpecs"]
    patch = {"spec": {"workerGroupSpecs": [{**group, "replicas": size}]}}
    scene.store.patch(RAY_CLUSTER.kind, NS, CLUSTER, patch, field_manager="autoscaler")
    scene.settle()


def sizes(scene: Scene) -> list[int]:
    return [one["count"] for each_ in by_age(scene) for one in each_["spec"]["podSets"] if one["name"] == "small"]


@each("kind", [RAY_JOB, RAY_SERVICE])
def test_it_gets_a_slice_when_its_cluster_grows(kind: JobKind) -> None:
    scene = running(kind)
    assert sizes(scene) == [1]
    scale(scene, 3)
    old, new = by_age(scene)
    assert sizes(scene) == [1, 3]
    assert meta(new)["annotations"][REPLACEMENT_FOR] == f"{NS}/{meta(old)['name']}"
    grown = meta(scene.job(CLUSTER, RAY_CLUSTER.kind))["generation"]
    owner = meta(scene.job("ray", kind.kind))
    assert meta(new)["name"] == name_of_workload(kind.kind, "ray", owner["uid"], f"{owner['generation']}_{grown}")
    assert kind.suspended(scene.job("ray", kind.kind)) is False
    assert RAY_CLUSTER.suspended(scene.job(CLUSTER, RAY_CLUSTER.kind)) is False


def test_its_cluster_need_not_say_that_it_is_elastic() -> None:
    scene = running(notes=False)
    scale(scene, 3)
    assert sizes(scene) == [1, 3]


def test_what_followed_rests_on_what_was_seen_of_the_cluster() -> None:
    scene = running()
    scale(scene, 3)
    _, made = [one for one in scene.log if isinstance(one.event, events.JobWorkloadCreationDecided)]
    seen = [one for one in scene.log if one.stream.endswith(CLUSTER)]
    assert made.caused_by == seen[-1].position


def test_its_pods_run_as_far_as_a_slice_has_room() -> None:
    scene = running()
    head = scene.job("ray", RAY_JOB.kind)["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]
    assert head["schedulingGates"] == [{"name": ELASTIC_GATE}]
    (first,) = by_age(scene)
    name = meta(first)["name"]
    for number in range(3):
        scene.create(pod(f"p{number}", name, pod_set="small"), PODS)
    scene.settle()
    assert waiting(scene) == ["p1", "p2"]
    scale(scene, 2)
    replace(scene, *by_age(scene))
    scene.settle()
    assert waiting(scene) == ["p2"]


def test_it_gives_quota_back_when_its_cluster_shrinks() -> None:
    scene = running()
    scale(scene, 3)
    old, new = by_age(scene)
    replace(scene, old, new)
    scene.settle()
    scale(scene, 2)
    assert get(scene, new)["spec"]["podSets"][1]["count"] == 2


def test_it_has_its_own_size_when_it_waits_again() -> None:
    scene = running()
    scale(scene, 3)
    old, new = by_age(scene)
    replace(scene, old, new)
    scene.settle()
    scene.say(get(scene, new), Evicted=(True, "Preempted", "somebody else"))
    scene.settle()
    assert RAY_JOB.suspended(scene.job("ray", RAY_JOB.kind))
    scene.store.patch(RAY_JOB.kind, NS, "ray", {"status": {"jobDeploymentStatus": "Suspended"}}, subresource="status")
    scene.settle()
    assert get(scene, new)["spec"]["podSets"][1]["count"] == 1, "a cluster is made of its own spec then"


def test_a_cluster_of_somebody_else_says_nothing() -> None:
    scene = running()
    scene.store.delete(RAY_CLUSTER.kind, NS, CLUSTER)
    metadata = {"namespace": NS, "name": CLUSTER, "labels": {"kueue.x-k8s.io/queue-name": QUEUE}}
    spec = scene.job("ray", RAY_JOB.kind)["spec"]["rayClusterSpec"]
    group = {**spec["workerGroupSpecs"][0], "replicas": 7}
    other = {**spec, "suspend": True, "workerGroupSpecs": [group], "enableInTreeAutoscaling": False}
    scene.create({"metadata": metadata, "spec": other}, RAY_CLUSTER.kind)
    scene.settle()
    assert sorted(sizes(scene)) == [1, 7], "that of the job, and that of the other cluster"


def test_a_restart_goes_on_with_the_sizes_that_were_seen() -> None:
    scene = running()
    scale(scene, 3)
    state = scene.replayed().index.state("jobframework/job/rayjobs.ray.io/default/ray")
    assert state.job is not None
    sized = scene.replayed().index.sized(state.job)
    assert {one.name: one.count for one in sized.pod_sets} == {"head": 1, "small": 3}
    scene.crash()
    scene.settle()
    assert sizes(scene) == [1, 3]


def test_without_autoscaling_its_own_sizes_count() -> None:
    scene = running(scales=False)
    scale(scene, 3)
    assert sizes(scene) == [1]


def seen(job: Json, adapters: Any = ADAPTERS) -> events.QueuedJobObserved:
    whole = {**job, "metadata": {**job["metadata"], "uid": "u", "resourceVersion": "1", "generation": 1}}
    change = ObjectChange(MANAGEMENT, "i", RAY_JOB.kind, whole, "1", gone=False)
    built = JobObserver(JobFrameworkPolicy(adapters=adapters)).seen(change, {})
    assert built is not None
    assert isinstance(built[1], events.QueuedJobObserved)
    return built[1]


def test_one_whose_clusters_are_not_seen_is_told_so() -> None:
    found = seen(ray(RAY_JOB), {kind: one for kind, one in ADAPTERS.items() if kind != RAY_CLUSTER.kind})
    assert found.pod_sets == []
    assert "rayclusters.ray.io are not looked after" in found.problem
    assert seen(ray(RAY_JOB)).problem == ""


def test_one_that_runs_on_workers_has_one_workload() -> None:
    assert not seen(ray(RAY_JOB, managedBy=MULTIKUEUE)).elastic
    assert seen(ray(RAY_JOB)).elastic


def test_one_that_a_ray_cron_job_makes_says_itself_that_it_is_elastic() -> None:
    job = ray(RAY_JOB)
    cron = {"apiVersion": "ray.io/v1", "kind": "RayCronJob", "name": "nightly", "uid": "c", "controller": True}
    job["metadata"]["ownerReferences"] = [cron]
    assert seen(job).problem == ""
    del job["metadata"]["annotations"]
    assert "enableInTreeAutoscaling" in seen(job).problem
