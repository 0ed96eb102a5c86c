"""What only a StatefulSet, only a LeaderWorkerSet, or only a Deployment does."""

from __future__ import annotations

import copy

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.set_events import PodJoinDecided, SetHoldDecided
from controlplane.job_kinds.pod import Pod
from controlplane.kube.conditions import condition
from controlplane.kube.kinds import PODS, REPLICA_SETS, meta
from tests.job_kinds.rows import TEMPLATE
from tests.jobframework.scene import NS, QUEUE, Scene
from tests.jobframework.set_scene import (
    DEPLOYMENT,
    GROUPS,
    NAME,
    STATEFUL_SET,
    change,
    gates,
    made,
    named,
    owner_of,
    pod_of,
    waiting,
    with_pods,
    workload,
)
from tests.jobframework.single import get, is_there, stopped

# --- StatefulSets ---


def test_a_stateful_set_of_no_pods_gives_its_quota_back_and_keeps_its_workload_on_hold() -> None:
    scene = waiting(STATEFUL_SET)
    names = with_pods(scene, STATEFUL_SET)
    scene.admit(workload(scene, STATEFUL_SET))
    scene.settle()
    change(scene, STATEFUL_SET, {"spec": {"replicas": 0}})
    for name in names:
        stopped(scene, name)
    scene.settle()
    found = workload(scene, STATEFUL_SET)
    held = condition(found, "QuotaReserved")
    assert held is not None
    assert (held["status"], held["reason"], held["message"]) == (
        "False",
        "OnHold",
        "StatefulSet scaled to zero; workload on hold",
    )
    assert "admission" not in found["status"]
    assert meta(found)["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
    change(scene, STATEFUL_SET, {"spec": {"replicas": 2}})
    again = condition(workload(scene, STATEFUL_SET), "QuotaReserved")
    assert again is not None
    assert (again["reason"], again["message"]) == (
        "PendingEvaluation",
        "Workload no longer on hold; waiting for quota reservation",
    )
    assert [one.hold for one in scene.decided(SetHoldDecided)] == [True, False]


def test_a_stateful_set_that_begins_without_pods_gets_its_workload_when_it_has_some() -> None:
    scene = waiting(STATEFUL_SET, replicas=0)
    assert scene.workloads() == []
    change(scene, STATEFUL_SET, {"spec": {"replicas": 1}})
    assert len(scene.workloads()) == 1


def test_a_stateful_set_that_is_made_for_a_leader_worker_set_is_left_alone() -> None:
    scene = Scene()
    found = made(STATEFUL_SET)
    notes = meta(found["spec"]["template"])["annotations"]
    notes["kueue.x-k8s.io/pod-suspending-parent"] = GROUPS.integration
    assert STATEFUL_SET.skipped(found)
    scene.create(found, STATEFUL_SET.kind)
    assert scene.settle() == []


def test_a_pod_of_an_earlier_stateful_set_of_the_name_joins_no_group() -> None:
    scene = waiting(STATEFUL_SET)
    pod = pod_of(owner_of(scene, STATEFUL_SET), STATEFUL_SET)
    before = scene.create({"metadata": {"namespace": NS, "name": NAME}, "spec": {}}, REPLICA_SETS)
    meta(pod)["ownerReferences"][0]["uid"] = meta(before)["uid"]
    scene.create(pod, PODS)
    scene.settle()
    assert is_there(scene, f"{NAME}-0")
    assert scene.decided(PodJoinDecided) == []


# --- LeaderWorkerSets ---


def test_a_group_more_or_less_is_a_workload_more_or_less() -> None:
    scene = waiting(GROUPS)
    change(scene, GROUPS, {"spec": {"replicas": 3}})
    assert {meta(one)["name"] for one in scene.workloads()} == {named(scene, GROUPS, at) for at in range(3)}
    change(scene, GROUPS, {"spec": {"replicas": 1}})
    assert {meta(one)["name"] for one in scene.workloads()} == {named(scene, GROUPS)}
    change(scene, GROUPS, {"spec": {"replicas": 2}})
    assert len(scene.workloads()) == 2


def test_the_groups_of_a_rolling_update_have_workloads_too() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxSurge": 1, "maxUnavailable": 0}}
    scene = waiting(GROUPS, rolloutStrategy=strategy)
    status = {"replicas": 3, "updatedReplicas": 1}
    scene.store.patch(GROUPS.kind, NS, NAME, {"status": status}, subresource="status", field_manager="lws")
    scene.settle()
    assert len(scene.workloads()) == 3
    scene.store.patch(
        GROUPS.kind, NS, NAME, {"status": {"updatedReplicas": 2}}, subresource="status", field_manager="lws"
    )
    scene.settle()
    assert len(scene.workloads()) == 2


def test_without_leaders_a_group_has_one_pod_set_and_its_pods_one_role() -> None:
    template = {"size": 3, "workerTemplate": TEMPLATE}
    scene = waiting(GROUPS, leaderWorkerTemplate=template, replicas=1)
    (one,) = scene.workload()["spec"]["podSets"]
    assert (one["name"], one["count"]) == ("main", 3)
    names = with_pods(scene, GROUPS)
    roles = {meta(get(scene, name))["annotations"]["kueue.x-k8s.io/role-hash"] for name in names}
    assert roles == {"main"}
    scene.admit()
    scene.settle()
    assert all(gates(scene, name) == [] for name in names)


def test_more_replicas_than_kueue_takes_are_told_and_get_no_workload() -> None:
    scene = waiting(GROUPS, replicas=1_000_001)
    assert scene.workloads() == []
    assert scene.controller.index.sets.seen


# --- Deployments ---


def test_each_pod_of_a_deployment_waits_with_a_workload_of_its_own() -> None:
    scene = Scene()
    scene.flavor()
    deployment = made(DEPLOYMENT, labels={"kueue.x-k8s.io/priority-class": "high"})
    template = deployment["spec"]["template"]
    assert meta(template) == {
        "labels": {
            "kueue.x-k8s.io/managed": "true",
            "kueue.x-k8s.io/queue-name": QUEUE,
            "kueue.x-k8s.io/priority-class": "high",
        },
        "annotations": {"kueue.x-k8s.io/pod-suspending-parent": "deployment"},
    }
    deployment = made(DEPLOYMENT)
    replicas = scene.create({"metadata": {"namespace": NS, "name": "web-1"}, "spec": {}}, REPLICA_SETS)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True, "name": "web-1"}
    owner["uid"] = meta(replicas)["uid"]
    for name in ("a", "b"):
        metadata = {**copy.deepcopy(meta(deployment["spec"]["template"])), "namespace": NS, "name": name}
        pod = {"metadata": {**metadata, "ownerReferences": [owner]}, "spec": copy.deepcopy(TEMPLATE["spec"])}
        scene.create(Pod().submitted(pod), PODS)
    scene.settle()
    assert len(scene.workloads()) == 2
    first = next(one for one in scene.workloads() if meta(one)["ownerReferences"][0]["name"] == "a")
    scene.admit(first)
    scene.settle()
    assert (gates(scene, "a"), bool(gates(scene, "b"))) == ([], True)
    scene.store.delete(PODS, NS, "a")
    scene.settle()
    assert [meta(one)["ownerReferences"][0]["name"] for one in scene.workloads()] == ["b"]
    assert scene.decided(events.JobStartDecided) == []
