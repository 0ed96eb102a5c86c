"""StatefulSets and LeaderWorkerSets: each group of their pods has a Workload from the set, and follows it."""

from __future__ import annotations

from controlplane.controllers.jobframework.set_events import SetWorkloadCreationDecided
from controlplane.job_kinds.base import JobKind
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import PODS, WORKLOADS, Json, meta
from tests.jobframework.scene import NS, QUEUE, SELECTOR, Scene
from tests.jobframework.set_scene import (
    GROUPS,
    NAME,
    STATEFUL_SET,
    change,
    gates,
    made,
    named,
    owner_of,
    pod_of,
    sets,
    waiting,
    with_pods,
    workload,
)
from tests.jobframework.single import get, is_there, runs, stopped


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


def started(kind: JobKind) -> tuple[Scene, list[str]]:
    """Return a set of which a group is admitted, and its pods."""
    scene = waiting(kind)
    names = with_pods(scene, kind)
    scene.admit(workload(scene, kind))
    scene.settle()
    return scene, names


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
    scene, names = started(kind)
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


@sets
def test_one_that_cannot_be_read_any_more_keeps_what_runs(kind: JobKind) -> None:
    """Its webhook refuses such a change, where one is asked."""
    scene, names = started(kind)
    unfit = {"podset-required-topology": "a", "podset-slice-required-topology": "b", "podset-slice-size": "x"}
    notes = {f"kueue.x-k8s.io/{name}": value for name, value in unfit.items()}
    template: Json = {"metadata": {"annotations": notes}}
    spec = {"leaderWorkerTemplate": {"workerTemplate": template}} if kind is GROUPS else {"template": template}
    before = [meta(one)["uid"] for one in scene.workloads()]
    change(scene, kind, {"spec": spec})
    (owner,) = scene.controller.index.sets.seen.values()
    assert owner.problem
    assert [meta(one)["uid"] for one in scene.workloads()] == before
    assert is_true(workload(scene, kind), "QuotaReserved")
    assert all("deletionTimestamp" not in meta(get(scene, name)) for name in names)
    template["metadata"]["annotations"] = dict.fromkeys(notes)
    change(scene, kind, {"spec": spec})
    (owner,) = scene.controller.index.sets.seen.values()
    assert not owner.problem
    assert [meta(one)["uid"] for one in scene.workloads()] == before


@sets
def test_what_changes_in_the_status_of_a_set_alone_is_no_news(kind: JobKind) -> None:
    scene = waiting(kind)
    known = len(scene.log)
    scene.store.patch(kind.kind, NS, NAME, {"status": {"readyReplicas": 1}}, subresource="status", field_manager="sets")
    scene.settle()
    assert len(scene.log) == known
    change(scene, kind, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "another"}}})
    assert all(one["spec"]["queueName"] == "another" for one in scene.workloads())
