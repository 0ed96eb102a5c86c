"""StatefulSets and LeaderWorkerSets: each group of their pods has a Workload from the set, and follows it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.names import name_of_workload
from controlplane.controllers.jobframework.set_events import PodJoinDecided, SetHoldDecided, SetWorkloadCreationDecided
from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.leaderworkerset import workload_name
from controlplane.job_kinds.pod import Pod
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import PODS, REPLICA_SETS, WORKLOADS, Json, meta
from tests.job_kinds.rows import ROWS, TEMPLATE
from tests.jobframework.scene import NS, QUEUE, SELECTOR, Scene
from tests.jobframework.test_pods_single import get, is_there, runs, stopped

STATEFUL_SET = JOB_KINDS["statefulset"]
GROUPS = JOB_KINDS["leaderworkerset.x-k8s.io/leaderworkerset"]
DEPLOYMENT = JOB_KINDS["deployment"]
NAME = "web"
sets = pytest.mark.parametrize("kind", [STATEFUL_SET, GROUPS], ids=["StatefulSet", "LeaderWorkerSet"])


def made(kind: JobKind, *, queue: str = QUEUE, labels: Json | None = None, **spec: Any) -> Json:
    """A set as the webhook has it created."""
    row = copy.deepcopy(ROWS[kind.integration].spec)
    found = {**({"kueue.x-k8s.io/queue-name": queue} if queue else {}), **(labels or {})}
    return kind.submitted({"metadata": {"namespace": NS, "name": NAME, "labels": found}, "spec": {**row, **spec}})


def pod_of(owner: Json, kind: JobKind, index: int = 0, number: int = 0) -> Json:
    """A pod that the set's own controller makes, as the webhook has it created. Of a LeaderWorkerSet the first is the leader."""
    spec, uid = owner["spec"], meta(owner)["uid"]
    reference = {
        "apiVersion": kind.kind.api_version,
        "kind": kind.kind.kind,
        "controller": True,
        "name": NAME,
        "uid": uid,
    }
    if kind is STATEFUL_SET:
        template, name, labels, notes = spec["template"], f"{NAME}-{number}", {}, {}
    else:
        inner = spec["leaderWorkerTemplate"]
        leader = inner.get("leaderTemplate") if number == 0 else None
        template, name = leader or inner["workerTemplate"], f"{NAME}-{index}" + (f"-{number}" if number else "")
        domain = "leaderworkerset.sigs.k8s.io"
        labels = {f"{domain}/name": NAME, f"{domain}/group-index": str(index), f"{domain}/worker-index": str(number)}
        notes = {f"{domain}/leader-name": f"{NAME}-{index}"} if number else {}
    metadata = {
        "namespace": NS,
        "name": name,
        "labels": {**meta(template).get("labels", {}), **labels},
        "annotations": {**meta(template).get("annotations", {}), **notes},
        "ownerReferences": [reference],
    }
    return Pod().submitted({"metadata": metadata, "spec": copy.deepcopy(template["spec"])})


def waiting(kind: JobKind, **more: Any) -> Scene:
    scene = Scene()
    scene.flavor()
    scene.create(made(kind, **more), kind.kind)
    scene.settle()
    return scene


def owner_of(scene: Scene, kind: JobKind) -> Json:
    return scene.store.get(kind.kind, NS, NAME)


def with_pods(scene: Scene, kind: JobKind, index: int = 0) -> list[str]:
    """Make the pods of a group, and return their names."""
    count = 2 if kind is STATEFUL_SET else 3
    pods = [pod_of(owner_of(scene, kind), kind, index, number) for number in range(count)]
    for one in pods:
        scene.create(one, PODS)
    scene.settle()
    return [meta(one)["name"] for one in pods]


def named(scene: Scene, kind: JobKind, index: int = 0) -> str:
    uid = meta(owner_of(scene, kind))["uid"]
    return workload_name(kind.kind, NAME, uid, index) if kind is GROUPS else name_of_workload(kind.kind, NAME, uid)


def workload(scene: Scene, kind: JobKind, index: int = 0) -> Json:
    return scene.store.get(WORKLOADS, NS, named(scene, kind, index))


def gates(scene: Scene, name: str) -> list[str]:
    return [one["name"] for one in get(scene, name)["spec"].get("schedulingGates") or ()]


def change(scene: Scene, kind: JobKind, body: Json) -> None:
    scene.store.patch(kind.kind, NS, NAME, body, field_manager="user")
    scene.settle()


@sets
def test_each_group_has_a_workload_as_kueue_names_and_makes_it(kind: JobKind) -> None:
    scene = waiting(kind)
    uid = meta(owner_of(scene, kind))["uid"]
    expected = {named(scene, kind, index) for index in range(2 if kind is GROUPS else 1)}
    assert {meta(one)["name"] for one in scene.workloads()} == expected
    for index in range(len(expected)):
        found = workload(scene, kind, index)
        assert meta(found)["labels"] == {"kueue.x-k8s.io/job-uid": uid}
        assert meta(found)["ownerReferences"] == [
            {"apiVersion": kind.kind.api_version, "kind": kind.kind.kind, "name": NAME, "uid": uid}
        ]
        assert meta(found)["annotations"] == {
            "kueue.x-k8s.io/is-group-workload": "true",
            "kueue.x-k8s.io/job-owner-gvk": kind.kind.gvk,
            "kueue.x-k8s.io/job-owner-name": NAME,
            **({"kueue.x-k8s.io/component-workload-index": str(index)} if kind is GROUPS else {}),
        }
        sets_ = [(one["name"], one["count"]) for one in found["spec"]["podSets"]]
        assert sets_ == ([("leader", 1), ("worker", 2)] if kind is GROUPS else [("main", 2)])
        assert found["spec"]["queueName"] == QUEUE
    assert [reason for reason, _ in scene.events()] == ["CreatedWorkload"] * len(expected)


@sets
def test_its_pods_join_their_group_and_run_once_it_is_admitted(kind: JobKind) -> None:
    scene = waiting(kind)
    names = with_pods(scene, kind)
    group = named(scene, kind)
    for name in names:
        metadata = meta(get(scene, name))
        notes = metadata["annotations"]
        assert metadata["labels"]["kueue.x-k8s.io/managed"] == "true"
        assert notes["kueue.x-k8s.io/pod-group-name"] == notes["kueue.x-k8s.io/prebuilt-workload-name"] == group
        assert notes["kueue.x-k8s.io/pod-group-total-count"] == ("3" if kind is GROUPS else "2")
        assert notes["kueue.x-k8s.io/pod-group-serving"] == "true"
        assert "finalizers" not in metadata or "kueue.x-k8s.io/managed" not in metadata["finalizers"]
        assert gates(scene, name) == ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"]
    roles = [meta(get(scene, name))["annotations"]["kueue.x-k8s.io/role-hash"] for name in names]
    assert roles == (["leader", "worker", "worker"] if kind is GROUPS else ["main", "main"])
    owners = [one["kind"] for one in meta(workload(scene, kind))["ownerReferences"]]
    assert owners == [kind.kind.kind, *["Pod"] * len(names)]
    scene.admit(workload(scene, kind))
    scene.settle()
    for name in names:
        assert gates(scene, name) == []
        assert get(scene, name)["spec"]["nodeSelector"] == SELECTOR


@sets
def test_one_that_is_evicted_has_its_pods_deleted_and_waits_with_those_that_are_made_then(kind: JobKind) -> None:
    scene = waiting(kind)
    names = with_pods(scene, kind)
    scene.admit(workload(scene, kind))
    scene.settle()
    for name in names:
        runs(scene, name)
    scene.settle()
    scene.say(workload(scene, kind), Evicted=(True, "Preempted", "for another"))
    scene.settle()
    assert all("deletionTimestamp" in meta(get(scene, name)) for name in names if is_there(scene, name))
    for name in names:
        if is_there(scene, name):
            stopped(scene, name)
    scene.settle()
    assert not is_true(workload(scene, kind), "QuotaReserved")
    again = with_pods(scene, kind)
    assert all(gates(scene, name) for name in again)
    assert len(scene.workloads()) == (2 if kind is GROUPS else 1)


@sets
def test_the_process_may_end_after_every_step(kind: JobKind) -> None:
    for lost in (False, True):
        scene = Scene()
        scene.flavor()
        scene.create(made(kind), kind.kind)
        scene.settle_through_crashes(lost=lost)
        names = []
        for number in range(2 if kind is STATEFUL_SET else 3):
            pod = pod_of(owner_of(scene, kind), kind, 0, number)
            scene.create(pod, PODS)
            names.append(meta(pod)["name"])
        scene.settle_through_crashes(lost=lost)
        scene.admit(workload(scene, kind))
        scene.settle_through_crashes(lost=lost)
        assert all(gates(scene, name) == [] for name in names)
        assert len(scene.workloads()) == (2 if kind is GROUPS else 1)
        created = [one.name for one in scene.decided(SetWorkloadCreationDecided)]
        assert len(created) == len(set(created))


@sets
def test_the_queue_and_the_gates_of_one_that_waits_are_followed(kind: JobKind) -> None:
    scene = waiting(kind)
    names = with_pods(scene, kind)
    metadata = {
        "labels": {"kueue.x-k8s.io/queue-name": "other"},
        "annotations": {"kueue.x-k8s.io/admission-gated-by": "example.com/a"},
    }
    change(scene, kind, {"metadata": metadata})
    found = workload(scene, kind)
    assert found["spec"]["queueName"] == "other"
    assert meta(found)["annotations"]["kueue.x-k8s.io/admission-gated-by"] == "example.com/a"
    if kind is STATEFUL_SET:
        assert {meta(get(scene, name))["labels"]["kueue.x-k8s.io/queue-name"] for name in names} == {"other"}


@sets
def test_one_that_is_deleted_lets_its_workloads_go(kind: JobKind) -> None:
    scene = waiting(kind)
    names = with_pods(scene, kind)
    left = {meta(one)["name"] for one in scene.workloads()}
    scene.store.delete(kind.kind, NS, NAME)
    for name in names:
        stopped(scene, name)
    scene.settle()
    for name in left:
        if any(meta(one)["name"] == name for one in scene.workloads()):
            assert "finalizers" not in meta(scene.store.get(WORKLOADS, NS, name))
    assert not scene.controller.index.sets.seen


@sets
def test_a_workload_that_is_deleted_goes_and_is_made_anew(kind: JobKind) -> None:
    scene = waiting(kind)
    before = meta(workload(scene, kind))["uid"]
    scene.store.delete(WORKLOADS, NS, named(scene, kind))
    scene.settle()
    assert meta(workload(scene, kind))["uid"] != before


@sets
def test_what_is_not_the_sets_is_left_alone(kind: JobKind) -> None:
    scene = waiting(kind, queue="")
    assert scene.workloads() == []
    other = made(kind)
    meta(other)["name"] = "copy"
    meta(other)["labels"]["kueue.x-k8s.io/multikueue-origin"] = "there"
    scene.create(other, kind.kind)
    scene.settle()
    assert scene.workloads() == []


@sets
def test_while_its_kind_may_not_be_seen_nothing_of_it_is_let_go(kind: JobKind) -> None:
    scene = waiting(kind)
    scene.begin_anew(kind.kind)
    scene.settle()
    assert all("finalizers" in meta(one) for one in scene.workloads())
    assert len(scene.workloads()) == (2 if kind is GROUPS else 1)


@sets
def test_the_same_log_gives_the_same_state(kind: JobKind) -> None:
    scene = waiting(kind)
    with_pods(scene, kind)
    scene.admit(workload(scene, kind))
    scene.settle()
    again = scene.replayed()
    assert again.index.states == scene.controller.index.states
    assert again.index.sets.seen == scene.controller.index.sets.seen


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
