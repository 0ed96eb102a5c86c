"""A group of pods whose Workload asks for something else than the group does: one that waits is written anew, one that
runs is stopped, and its Workload, whose quota counts, goes when nothing of the group runs any more. Source:
`FindMatchingWorkloads` (kubernetes-sigs/kueue pkg/controller/jobs/pod/pod_controller.go) and `ensureOneWorkload`
(pkg/controller/jobframework/reconciler.go), ff69552e."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.jobframework.events import JobWorkloadRemovalDecided, JobWorkloadUpdateDecided
from controlplane.controllers.jobframework.pod_events import PodDeletionDecided
from controlplane.kube.conditions import condition
from controlplane.kube.kinds import PODS, WORKLOADS, meta
from tests.jobframework.scene import NS, Scene
from tests.jobframework.single import get, is_there, runs
from tests.jobframework.test_pod_groups import TOTAL, group, member, names, running

LIMIT = "kueue.x-k8s.io/max-exec-time-seconds"


def limited(scene: Scene, *pods: str, seconds: str = "60") -> Scene:
    """Give pods another limit to their time than their Workload was made with."""
    for name in pods:
        scene.store.patch(PODS, NS, name, {"metadata": {"labels": {LIMIT: seconds}}})
    scene.settle()
    return scene


def limit_of(scene: Scene) -> Any:
    return scene.workload()["spec"].get("maximumExecutionTimeSeconds")


def ended(scene: Scene, *pods: str) -> None:
    """The kubelet ends pods that are being deleted, and the garbage collector waits for Kueue's finalizer."""
    for name in pods:
        runs(scene, name, phase="Failed")
    scene.settle()
    for name in pods:
        if is_there(scene, name):
            scene.store.delete(PODS, NS, name, grace=0)
    scene.settle()


def test_the_workload_of_a_group_that_waits_is_written_anew() -> None:
    scene = group("a", "b", labels={"team": "x"}, annotations={"note": "y"})
    before = scene.workload()
    scene = limited(scene, "a", "b")
    assert limit_of(scene) == 60
    assert len(scene.decided(JobWorkloadUpdateDecided)) == 1
    after = scene.workload()
    assert meta(after)["uid"] == meta(before)["uid"]
    assert meta(after)["ownerReferences"] == meta(before)["ownerReferences"]
    assert after["spec"]["podSets"] == before["spec"]["podSets"]
    assert scene.settle() == []
    scene.admit()
    scene.settle()
    assert all("schedulingGates" not in get(scene, name)["spec"] for name in "ab")


def test_it_keeps_the_labels_and_annotations_that_it_was_made_with() -> None:
    scene = Scene(label_keys=("team",), annotation_keys=("note",))
    scene.flavor()
    for name in "ab":
        scene.create(member(name, labels={"team": "x"}, annotations={"note": "y"}), PODS)
    scene.settle()
    limited(scene, "a", "b")
    assert limit_of(scene) == 60
    assert meta(scene.workload())["labels"] == {"team": "x"}
    assert meta(scene.workload())["annotations"]["note"] == "y"


def test_a_group_that_cannot_be_composed_now_keeps_its_workload() -> None:
    scene = group("a", "b")
    scene.store.patch(PODS, NS, "a", {"metadata": {"labels": {LIMIT: "60"}, "annotations": {TOTAL: "3"}}})
    scene.settle()
    assert limit_of(scene) is None
    assert scene.events()[-1] == ("ErrWorkloadCompose", "'g' group has fewer runnable pods than expected")
    assert scene.settle() == []


def test_a_group_that_runs_is_stopped_and_its_quota_counts_until_nothing_of_it_runs() -> None:
    scene = limited(running("a", "b"), "a", "b")
    assert [meta(get(scene, name)).get("deletionTimestamp") is not None for name in "ab"] == [True, True]
    assert len(scene.decided(PodDeletionDecided)) == 2
    assert condition(scene.workload(), "QuotaReserved") is not None, "its pods have time to end"
    ended(scene, "a")
    assert condition(scene.workload(), "QuotaReserved") is not None, "the other one runs still"
    ended(scene, "b")
    assert scene.workloads() == []
    assert names(scene) == []
    assert len(scene.decided(JobWorkloadRemovalDecided)) == 1


def test_its_next_pods_are_a_group_with_the_new_limit() -> None:
    scene = limited(running("a", "b"), "a", "b")
    ended(scene, "a", "b")
    for name in "cd":
        scene.create(member(name, labels={LIMIT: "60"}), PODS)
    scene.clock.move(60)
    scene.settle()
    assert limit_of(scene) == 60
    owners = [one["name"] for one in meta(scene.workload())["ownerReferences"]]
    assert owners == ["c", "d"]


def test_pods_that_do_not_say_that_they_have_ended_keep_the_quota_no_longer_than_their_grace() -> None:
    scene = limited(running("a", "b"), "a", "b")
    before = meta(scene.workload())["uid"]
    assert scene.wake is not None
    scene.clock.move((scene.wake - scene.clock.now()).total_seconds())
    scene.store.patch(PODS, NS, "a", {"metadata": {"labels": {"seen": "again"}}})
    scene.settle()
    assert [meta(one)["uid"] for one in scene.workloads()] != [before]
    assert len(scene.decided(JobWorkloadRemovalDecided)) == 1


def test_a_group_that_has_quota_and_does_not_run_yet_gets_another_workload() -> None:
    scene = group("a", "b")
    before = meta(scene.workload())["uid"]
    scene.admit()
    limited(scene, "a", "b")
    scene.clock.move(60)
    scene.settle()
    assert limit_of(scene) == 60
    assert meta(scene.workload())["uid"] != before
    assert names(scene) == ["a", "b"]


def test_half_of_a_group_that_runs_on_keeps_its_quota() -> None:
    """Kueue counts a group as suspended once one of its pods has succeeded, and does not stop the others."""
    scene = running("a", "b")
    runs(scene, "a", phase="Succeeded")
    scene.settle()
    limited(scene, "a", "b")
    assert meta(get(scene, "b")).get("deletionTimestamp") is None
    assert condition(scene.workload(), "QuotaReserved") is not None
    runs(scene, "b", phase="Succeeded")
    scene.settle()
    assert scene.workloads() == []
    assert all("finalizers" not in meta(get(scene, name)) for name in "ab")
    assert scene.settle() == []


def test_a_workload_that_is_deleted_by_another_and_made_anew_is_not_deleted_again() -> None:
    """The deletion names the UID: one of the same name that came meanwhile stays."""
    scene = limited(running("a", "b"), "a", "b")
    ended(scene, "a")
    old = meta(scene.workload())

    def replaced(_write: object, request: Any) -> None:
        if request.verb == "delete" and request.ref.kind == WORKLOADS:
            assert request.uid == old["uid"]
            scene.store.delete(WORKLOADS, NS, "g")
            scene.create({"metadata": {"namespace": NS, "name": "g"}, "spec": {"podSets": []}}, WORKLOADS)

    scene.before_write = replaced
    ended(scene, "b")
    assert meta(scene.workload())["uid"] != old["uid"]
