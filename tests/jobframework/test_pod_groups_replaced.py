"""What a group of pods shows is what the pods show that its Workload counts: one that was replaced and stays as an
object does not count, nor does one that is too many. Source: `FindMatchingWorkloads`, after which Kueue knows the pods
that are kept alone (kubernetes-sigs/kueue pkg/controller/jobs/pod/pod_controller.go, ff69552e)."""

from __future__ import annotations

from controlplane.controllers.jobframework.pod_events import PodDeletionDecided
from controlplane.kube.conditions import condition
from controlplane.kube.kinds import PODS
from tests.jobframework.scene import NS, Scene
from tests.jobframework.single import is_there, runs
from tests.jobframework.test_pod_groups import member

READY = [{"type": "Ready", "status": "True"}]


def ready(scene: Scene, *names: str) -> None:
    for name in names:
        runs(scene, name, conditions=READY)
    scene.settle()


def whole() -> Scene:
    """A group of two pods that are ready."""
    scene = Scene(pods_ready=True)
    scene.flavor()
    for name in "ab":
        scene.create(member(name), PODS)
    scene.settle()
    scene.admit()
    scene.settle()
    ready(scene, "a", "b")
    return scene


def said(scene: Scene) -> tuple[str, str]:
    found = condition(scene.workload(), "PodsReady")
    assert found is not None
    return found["status"], found["reason"]


def test_a_group_is_ready_again_once_the_pod_that_failed_is_replaced() -> None:
    scene = whole()
    assert said(scene) == ("True", "Started")
    runs(scene, "a", phase="Failed", conditions=[])
    scene.settle()
    assert said(scene) == ("False", "WaitForRecovery")
    scene.create(member("c"), PODS)
    scene.settle()
    ready(scene, "c")
    assert is_there(scene, "a"), "it is kept as an object, which nobody has deleted"
    assert said(scene) == ("True", "Recovered")
    assert scene.settle() == []


def test_a_pod_that_is_too_many_does_not_make_a_group_unready() -> None:
    scene = whole()
    scene.create(member("z"), PODS)
    scene.settle()
    assert not is_there(scene, "z")
    assert len(scene.decided(PodDeletionDecided)) == 1
    assert said(scene) == ("True", "Started")


def test_a_group_whose_pod_was_replaced_ends_with_those_that_count() -> None:
    """The one that says that it is not tried again was replaced by another that says nothing."""
    scene = whole()
    scene.store.patch(PODS, NS, "a", {"metadata": {"annotations": {"kueue.x-k8s.io/retriable-in-group": "false"}}})
    runs(scene, "a", phase="Failed", conditions=[])
    scene.settle()
    scene.create(member("c"), PODS)
    scene.settle()
    ready(scene, "c")
    for name in "bc":
        runs(scene, name, phase="Failed", conditions=[])
    scene.settle()
    assert condition(scene.workload(), "Finished") is None
