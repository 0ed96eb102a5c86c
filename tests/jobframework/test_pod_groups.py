"""A group of pods is one job: one Workload of all its pods, which wait, run and end together, as with Kueue's pod
integration."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.jobframework.pod_events import PodDeletionDecided, PodStartDecided
from controlplane.controllers.jobframework.pods import FINALIZER
from controlplane.job_kinds.pod import ROLE_HASH, Pod
from controlplane.kube.conditions import condition
from controlplane.kube.kinds import PODS, WORKLOADS, Json, meta
from tests.jobframework.scene import NS, QUEUE, SELECTOR, Scene
from tests.jobframework.single import GATE, get, is_there, plain_pod, pod, runs
from tests.support.rows import each

GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"


def member(name: str, total: int | str | None = 2, *, cpu: str = "1", group: str = "g", **more: Any) -> Json:
    notes = {**({TOTAL: str(total)} if total is not None else {}), **more.pop("annotations", {})}
    labels = {GROUP: group, **more.pop("labels", {})}
    made = pod(name, labels=labels, annotations=notes, **more)
    if cpu != "1":
        made = Pod().submitted(plain_pod(name, labels=labels, annotations=notes, cpu=cpu, **more))
    return made


def group(*names: str, total: int | None = None, **more: Any) -> Scene:
    scene = Scene()
    scene.flavor()
    for name in names:
        scene.create(member(name, len(names) if total is None else total, **more), PODS)
    scene.settle()
    return scene


def running(*names: str, **more: Any) -> Scene:
    scene = group(*names, **more)
    scene.admit()
    scene.settle()
    for name in names:
        runs(scene, name)
    scene.settle()
    return scene


def names(scene: Scene) -> list[str]:
    return sorted(meta(one)["name"] for one in scene.store.list(PODS)[0])


def test_the_workload_is_made_when_the_group_is_whole() -> None:
    scene = group("a", total=2)
    assert scene.workloads() == []
    assert scene.events() == [("ErrWorkloadCompose", "'g' group has fewer runnable pods than expected")]
    scene.create(member("b"), PODS)
    scene.settle()
    workload = scene.workload()
    assert meta(workload)["name"] == "g"
    assert meta(workload)["annotations"] == {"kueue.x-k8s.io/is-group-workload": "true"}
    assert "labels" not in meta(workload)
    assert meta(workload)["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
    owners = meta(workload)["ownerReferences"]
    assert [(one["kind"], one["name"], one.get("controller", False)) for one in owners] == [
        ("Pod", "a", False),
        ("Pod", "b", False),
    ]
    role = meta(get(scene))["annotations"][ROLE_HASH]
    assert [(one["name"], one["count"]) for one in workload["spec"]["podSets"]] == [(role, 2)]
    assert workload["spec"]["queueName"] == QUEUE
    assert scene.settle() == []


def test_pods_that_ask_for_different_things_are_different_pod_sets() -> None:
    scene = Scene()
    scene.flavor()
    for one in (member("a", 3), member("b", 3), member("c", 3, cpu="2")):
        scene.create(one, PODS)
    scene.settle()
    roles = {name: meta(get(scene, name))["annotations"][ROLE_HASH] for name in "abc"}
    assert roles["a"] == roles["b"] != roles["c"]
    found = {one["name"]: one for one in scene.workload()["spec"]["podSets"]}
    assert {name: one["count"] for name, one in found.items()} == {roles["a"]: 2, roles["c"]: 1}
    assert list(found) == sorted(found)
    requests = found[roles["c"]]["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "2"}
    scene.admit()
    scene.settle()
    for name in "abc":
        assert "schedulingGates" not in get(scene, name)["spec"]
        assert get(scene, name)["spec"]["nodeSelector"] == SELECTOR
        assert meta(get(scene, name))["labels"]["kueue.x-k8s.io/podset"] == roles[name]
    assert scene.settle() == []


def test_a_group_without_the_webhook_keeps_its_roles_when_it_runs() -> None:
    scene = Scene()
    scene.flavor()
    more = {"labels": {GROUP: "g", FINALIZER: "true"}, "annotations": {TOTAL: "2"}}
    for name in "ab":
        scene.create(plain_pod(name, **more, schedulingGates=[{"name": GATE}]), PODS)
    scene.settle()
    scene.admit()
    scene.settle()
    for name in "ab":
        runs(scene, name)
    scene.settle()
    assert meta(get(scene))["annotations"][ROLE_HASH] == scene.workload()["spec"]["podSets"][0]["name"]
    assert scene.decided(PodDeletionDecided) == []
    assert len(scene.decided(PodStartDecided)) == 2


def test_a_group_that_has_succeeded_ends_its_workload() -> None:
    scene = running("a", "b")
    runs(scene, "a", phase="Succeeded")
    scene.settle()
    role = scene.workload()["spec"]["podSets"][0]["name"]
    assert scene.workload()["status"]["reclaimablePods"] == [{"name": role, "count": 1}]
    assert FINALIZER in meta(get(scene, "a"))["finalizers"]
    runs(scene, "b", phase="Succeeded")
    scene.settle()
    finished = condition(scene.workload(), "Finished")
    assert finished is not None
    assert (finished["reason"], finished["message"]) == ("Succeeded", "Pods succeeded: 2/2.")
    assert "finalizers" not in meta(scene.workload())
    assert all("finalizers" not in meta(get(scene, name)) for name in "ab")
    assert scene.settle() == []


def test_a_pod_that_failed_is_replaced() -> None:
    scene = running("a", "b")
    runs(scene, "a", phase="Failed")
    scene.settle()
    said = condition(scene.workload(), "WaitingForReplacementPods")
    assert said is not None
    assert (said["status"], said["reason"]) == ("True", "PodsFailed")
    assert said["message"] == "Some Failed pods need replacement"
    assert FINALIZER in meta(get(scene, "a"))["finalizers"]
    scene.create(member("c"), PODS)
    scene.settle()
    assert "finalizers" not in meta(get(scene, "a"))
    assert "schedulingGates" not in get(scene, "c")["spec"]
    assert [one["name"] for one in meta(scene.workload())["ownerReferences"]] == ["a", "b", "c"]
    said = condition(scene.workload(), "WaitingForReplacementPods")
    assert said is not None
    assert (said["status"], said["message"]) == ("False", "No pods need replacement")
    for name in "bc":
        runs(scene, name, phase="Succeeded")
    scene.settle()
    finished = condition(scene.workload(), "Finished")
    assert finished is not None
    assert finished["message"] == "Pods succeeded: 2/2."


def test_a_group_that_is_not_tried_again_ends_when_all_have_ended() -> None:
    scene = running("a", "b", annotations={"kueue.x-k8s.io/retriable-in-group": "false"})
    runs(scene, "a", phase="Failed")
    scene.settle()
    assert condition(scene.workload(), "Finished") is None
    runs(scene, "b", phase="Succeeded")
    scene.settle()
    finished = condition(scene.workload(), "Finished")
    assert finished is not None
    assert (finished["reason"], finished["message"]) == ("Succeeded", "Pods succeeded: 1/2.")


def test_an_evicted_group_is_deleted_and_waits_for_other_pods() -> None:
    scene = running("a", "b")
    scene.evict()
    scene.settle()
    assert len(scene.decided(PodDeletionDecided)) == 2
    assert condition(get(scene), "TerminationTarget") is not None
    reserved = condition(scene.workload(), "QuotaReserved")
    assert reserved is not None
    assert reserved["status"] == "True", "they still run"
    for name in "ab":
        runs(scene, name, phase="Failed")
        scene.store.delete(PODS, NS, name, grace=0)
    scene.settle()
    reserved, requeued = condition(scene.workload(), "QuotaReserved"), condition(scene.workload(), "Requeued")
    assert reserved is not None
    assert requeued is not None
    assert (reserved["status"], requeued["status"]) == ("False", "True")
    said = condition(scene.workload(), "WaitingForReplacementPods")
    assert said is not None
    assert (said["status"], said["reason"]) == ("True", "Preempted")
    assert names(scene) == ["a", "b"], "they are kept until others take their place"
    for name in "cd":
        scene.create(member(name), PODS)
    scene.settle()
    assert names(scene) == ["c", "d"]
    scene.say(scene.workload(), Evicted=(False, "QuotaReserved", ""))
    scene.admit()
    scene.settle()
    assert "schedulingGates" not in get(scene, "c")["spec"]
    assert len(scene.decided(PodDeletionDecided)) == 2


def test_quota_is_given_back_when_the_grace_of_a_lost_pod_is_over() -> None:
    scene = running("a")
    scene.evict()
    scene.settle()
    decided = scene.controller.decide("jobframework/job/podgroups/default/g", scene.clock.now())
    assert decided.wake is not None
    scene.clock.move((decided.wake - scene.clock.now()).total_seconds())
    scene.controller.index._enqueue(scene.controller.index.states)
    scene.settle()
    reserved = condition(scene.workload(), "QuotaReserved")
    assert reserved is not None
    assert reserved["status"] == "False"


def test_pods_that_are_too_many_go() -> None:
    scene = group("a", "b", total=2)
    scene.clock.move(5)
    scene.create(member("c"), PODS)
    scene.settle()
    assert names(scene) == ["a", "b"]
    assert ("ExcessPodDeleted", "Excess pod deleted") in scene.events()
    deleted = [one for one in scene.requests if one.verb == "delete"]
    assert len(deleted) == 1
    assert deleted[0].uid
    again = group("a", "b", "c", total=2)
    assert len(names(again)) == 2
    assert [one["count"] for one in again.workload()["spec"]["podSets"]] == [2]


def test_the_end_of_the_workload_ends_the_group() -> None:
    scene = running("a", "b")
    scene.store.delete(WORKLOADS, NS, "g")
    scene.settle()
    for name in "ab":
        if is_there(scene, name):
            scene.store.delete(PODS, NS, name, grace=0)
    scene.settle()
    assert names(scene) == []
    assert scene.workloads() == []


def test_its_user_deletes_all_pods_that_wait_one_by_one() -> None:
    scene = group("a", "b")
    scene.store.delete(PODS, NS, "a")
    scene.settle()
    assert names(scene) == ["a", "b"], "as with Kueue a pod stays until it is replaced, or the Workload goes"
    scene.create(member("c"), PODS)
    scene.settle()
    assert names(scene) == ["b", "c"]
    scene.store.delete(WORKLOADS, NS, "g")
    scene.settle()
    assert names(scene) == []
    assert scene.workloads() == []


def test_all_pods_of_a_finished_group_go_and_so_does_its_workload() -> None:
    scene = running("a", "b")
    for name in "ab":
        runs(scene, name, phase="Succeeded")
    scene.settle()
    for name in "ab":
        scene.store.delete(PODS, NS, name, grace=0)
    scene.settle()
    assert scene.workloads() == []
    assert not [one for one in scene.controller.index.states if "podgroups" in one]


@each(
    ("first", "second", "note"),
    [
        ({"total": 2}, {"total": 3}, f"pods 'a' and 'b' has different '{TOTAL}' values: 2!=3"),
        ({"total": None}, {"total": 2}, f"failed to extract '{TOTAL}' annotation"),
        ({"total": 2}, {"total": None}, f"failed to extract '{TOTAL}' annotation from the pod 'b'"),
        ({"total": "two"}, {"total": "two"}, "invalid syntax"),
        ({"total": 0}, {"total": 0}, "group total count should be greater than zero"),
        (
            {"total": 2},
            {"total": 2, "labels": {"kueue.x-k8s.io/queue-name": "other"}},
            "pods 'a' and 'b' has different queue names: user-queue!=other",
        ),
        (
            {"total": 2, "labels": {"kueue.x-k8s.io/pod-group-pod-index": "2"}},
            {"total": 2},
            "value should be less than 2",
        ),
    ],
)
def test_a_group_that_does_not_agree_is_told_and_others_go_on(first: Json, second: Json, note: str) -> None:
    scene = Scene()
    scene.create(member("a", **first), PODS)
    scene.create(member("b", **second), PODS)
    for name in ("x", "y"):
        scene.create(member(name, group="other"), PODS)
    scene.settle()
    assert any(reason == "ErrWorkloadCompose" and note in said for reason, said in scene.events()), scene.events()
    assert meta(scene.workload())["name"] == "other"


def test_a_class_that_is_missing_is_told() -> None:
    scene = group("a", "b", labels={"kueue.x-k8s.io/priority-class": "none"})
    assert ("WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "none" not found') in scene.events()
    assert scene.workloads() == []


def test_a_workload_of_somebody_else_with_the_name_is_not_taken() -> None:
    scene = Scene()
    scene.store.create(WORKLOADS, {"metadata": {"namespace": NS, "name": "g", "finalizers": ["x.io/y"]}, "spec": {}})
    foreign = scene.store.get(WORKLOADS, NS, "g")
    for name in "ab":
        scene.create(member(name), PODS)
    scene.settle()
    assert "WorkloadNameConflict" in dict(scene.events())
    assert scene.store.get(WORKLOADS, NS, "g") == foreign
    scene.store.patch(WORKLOADS, NS, "g", {"metadata": {"finalizers": None}})
    scene.store.delete(WORKLOADS, NS, "g")
    scene.settle()
    assert meta(scene.workload())["annotations"] == {"kueue.x-k8s.io/is-group-workload": "true"}


def test_a_group_that_is_admitted_fast_needs_one_pod_of_it() -> None:
    scene = group("a", total=3, annotations={"kueue.x-k8s.io/pod-group-fast-admission": "true"})
    assert [one["count"] for one in scene.workload()["spec"]["podSets"]] == [3]
    scene.admit()
    scene.settle()
    assert "schedulingGates" not in get(scene)["spec"]
    assert condition(scene.workload(), "WaitingForReplacementPods") is None
    more = {"kueue.x-k8s.io/pod-group-fast-admission": "true"}
    scene.create(member("b", 3, annotations=more), PODS)
    scene.settle()
    assert "schedulingGates" not in get(scene, "b")["spec"]


def test_a_group_that_serves_does_not_end_and_gives_nothing_back() -> None:
    scene = running("a", "b", annotations={"kueue.x-k8s.io/pod-group-serving": "true"})
    for name in "ab":
        runs(scene, name, phase="Succeeded")
    scene.settle()
    assert condition(scene.workload(), "Finished") is None
    assert "reclaimablePods" not in scene.workload()["status"]
