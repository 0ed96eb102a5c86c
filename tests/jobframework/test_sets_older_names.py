"""A StatefulSet whose Workload has the name that older versions of Kueue gave it, without the set's UID, keeps that
one."""

from __future__ import annotations

from controlplane.controllers.jobframework.names import name_of_workload
from controlplane.controllers.jobframework.set_events import SetWorkloadCreationDecided
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import PODS, WORKLOADS, Json, meta
from tests.jobframework.scene import NS, QUEUE, Scene, pod_template
from tests.jobframework.set_scene import NAME, STATEFUL_SET, made, pod_of
from tests.jobframework.single import get

OLDER = name_of_workload(STATEFUL_SET.kind, NAME, "")


def older(scene: Scene, *owners: Json) -> Json:
    """Make a Workload as an older Kueue did."""
    template = {"metadata": {}, **pod_template()}
    pod_set = {"name": "main", "count": 1, "template": template}
    metadata = {"namespace": NS, "name": OLDER, "annotations": {"kueue.x-k8s.io/is-group-workload": "true"}}
    if owners:
        metadata["ownerReferences"] = list(owners)
    return scene.create({"metadata": metadata, "spec": {"queueName": QUEUE, "podSets": [pod_set]}}, WORKLOADS)


def reference(owner: Json) -> Json:
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": NAME, "uid": meta(owner)["uid"]}


def stateful_set(scene: Scene, **spec: object) -> Json:
    return scene.create(made(STATEFUL_SET, **spec), STATEFUL_SET.kind)


def test_the_set_owns_the_one_that_is_there_and_gets_no_other() -> None:
    scene = Scene()
    older(scene)
    owner = stateful_set(scene)
    scene.settle()
    (workload,) = scene.workloads()
    assert (meta(workload)["name"], meta(workload)["ownerReferences"]) == (OLDER, [reference(owner)])
    assert scene.decided(SetWorkloadCreationDecided) == []
    assert scene.settle() == []


def test_its_pods_join_that_one_and_run_with_it() -> None:
    scene = Scene()
    scene.flavor()
    owner = stateful_set(scene, replicas=1)
    older(scene, reference(owner))
    scene.settle()
    pod = meta(scene.create(pod_of(owner, STATEFUL_SET), PODS))["name"]
    scene.settle()
    assert meta(get(scene, pod))["annotations"]["kueue.x-k8s.io/pod-group-name"] == OLDER
    scene.admit(scene.workload())
    scene.settle()
    assert not get(scene, pod)["spec"].get("schedulingGates")


def test_it_is_let_go_with_the_set_and_when_it_is_deleted_the_next_one_has_the_name_of_today() -> None:
    scene = Scene()
    owner = stateful_set(scene)
    older(scene, reference(owner))
    scene.settle()
    scene.store.delete(WORKLOADS, NS, OLDER)
    scene.settle()
    assert [meta(one)["name"] for one in scene.workloads()] == [
        name_of_workload(STATEFUL_SET.kind, NAME, meta(owner)["uid"])
    ]
    scene.store.delete(STATEFUL_SET.kind, NS, NAME)
    scene.settle()
    assert all(is_true(one, "Finished") for one in scene.workloads())


def test_one_that_another_set_has_is_left_alone() -> None:
    scene = Scene()
    other = made(STATEFUL_SET)
    meta(other)["name"] = "other"
    foreign = {**reference(scene.create(other, STATEFUL_SET.kind)), "name": "other"}
    older(scene, foreign)
    owner = stateful_set(scene)
    scene.settle()
    names = {meta(one)["name"] for one in scene.workloads()}
    assert {OLDER, name_of_workload(STATEFUL_SET.kind, NAME, meta(owner)["uid"])} <= names
    assert meta(scene.store.get(WORKLOADS, NS, OLDER))["ownerReferences"] == [foreign]
