"""A single pod that came without the gate or the label of Kueue's webhook, or with an annotation that says nothing."""

from __future__ import annotations

from controlplane.controllers.jobframework.pod_events import QueuedPodObserved
from controlplane.job_kinds.pod import MANAGED
from controlplane.kube.conditions import condition
from controlplane.kube.kinds import PODS, meta
from tests.jobframework.scene import Scene, job
from tests.jobframework.single import GATE, get, is_there, plain_pod, pod, runs, stopped


def test_a_pod_without_gate_and_label_is_left_alone_and_told() -> None:
    scene = Scene()
    scene.create(plain_pod(), PODS)
    runs(scene)
    before = get(scene)
    scene.settle()
    assert get(scene) == before
    assert scene.workloads() == []
    ((reason, note),) = scene.events()
    assert reason == "PodNotManaged"
    assert "kueue.x-k8s.io/admission" in note
    (seen,) = scene.decided(QueuedPodObserved)
    assert not seen.managed
    runs(scene, phase="Succeeded")
    assert scene.settle() == []


def test_the_pod_of_a_job_that_says_the_queue_too_is_not_told_of() -> None:
    scene = Scene()
    owner = meta(scene.create(job()))
    made = plain_pod("a-0")
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": owner["uid"], "controller": True}
    ]
    scene.create(made, PODS)
    scene.settle()
    assert "PodNotManaged" not in dict(scene.events())


def test_a_pod_with_gate_and_label_needs_no_webhook() -> None:
    scene = Scene()
    scene.flavor()
    scene.create(plain_pod(labels={MANAGED: "true"}, schedulingGates=[{"name": GATE}]), PODS)
    scene.settle()
    scene.admit()
    scene.settle()
    runs(scene)
    scene.evict()
    scene.settle()
    stopped(scene)
    scene.settle()
    assert not is_there(scene)
    assert scene.workloads() == []


def test_one_that_runs_with_the_label_and_no_workload_is_stopped_as_by_kueue() -> None:
    scene = Scene()
    scene.create(plain_pod(labels={MANAGED: "true"}), PODS)
    runs(scene)
    scene.settle()
    said = condition(get(scene), "TerminationTarget")
    assert said is not None
    assert said["reason"] == "NoMatchingWorkload"
    assert meta(get(scene))["deletionTimestamp"]


def test_an_annotation_that_says_nothing_is_told() -> None:
    scene = Scene()
    scene.create(pod(annotations={"kueue.x-k8s.io/podset-unconstrained-topology": "perhaps"}), PODS)
    scene.settle()
    assert [reason for reason, _ in scene.events()] == ["ErrWorkloadCompose"]
    assert scene.workloads() == []
