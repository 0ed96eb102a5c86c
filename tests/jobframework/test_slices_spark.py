"""An elastic SparkApplication: its executors run as far as there is quota for them, however many Spark asks for."""

from __future__ import annotations

from controlplane.job_kinds import JOB_KINDS
from controlplane.kube.kinds import PODS, meta
from controlplane.kube.slices import ELASTIC_GATE, ELASTIC_JOB
from tests.jobframework.every_kind import NAME, made
from tests.jobframework.scene import NS, Scene
from tests.jobframework.test_slices import by_age, replace
from tests.jobframework.test_slices_pods import pod, waiting

SPARK = JOB_KINDS["sparkoperator.k8s.io/sparkapplication"]


def running(executors: int = 2) -> Scene:
    scene = Scene()
    scene.jobs.drain = lambda: 0  # type: ignore[method-assign]
    scene.flavor()
    job = made(SPARK, mode="cluster", dynamicAllocation={"enabled": True})
    job["spec"]["executor"]["instances"] = executors
    meta(job)["annotations"] = {ELASTIC_JOB: "true"}
    scene.create(job, SPARK.kind)
    scene.settle()
    scene.admit()
    scene.settle()
    return scene


def test_executors_beyond_its_quota_wait_behind_the_gate() -> None:
    scene = running()
    spec = scene.job(NAME, SPARK.kind)["spec"]
    assert spec["suspend"] is False
    assert spec["executor"]["template"]["spec"]["schedulingGates"] == [{"name": ELASTIC_GATE}]
    (first,) = by_age(scene)
    for number in range(3):
        scene.create(pod(f"p{number}", meta(first)["name"], pod_set="executor"), PODS)
    scene.settle()
    assert waiting(scene) == ["p2"]


def test_more_run_once_a_slice_has_room_for_them() -> None:
    scene = running(1)
    (first,) = by_age(scene)
    for number in range(2):
        scene.create(pod(f"p{number}", meta(first)["name"], pod_set="executor"), PODS)
    scene.settle()
    assert waiting(scene) == ["p1"]
    scene.store.patch(SPARK.kind, NS, NAME, {"spec": {"executor": {"instances": 2}}}, field_manager="user")
    scene.settle()
    replace(scene, *by_age(scene))
    scene.settle()
    assert waiting(scene) == []
