"""How a group of pods is named and told from others, what survives the end of a process, and what its pods are as one
job."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.groups import counted
from controlplane.controllers.jobframework.pod_events import PodDeletionDecided, PodStartDecided, QueuedPodObserved
from controlplane.controllers.jobframework.pods import FINALIZER, as_job, runs_until
from controlplane.job_kinds.pod import ROLE_HASH
from controlplane.kube.conditions import condition
from controlplane.kube.kinds import PODS, WORKLOADS, Request, meta
from controlplane.runtime.controller import OpenWrite
from tests.jobframework.scene import NS, QUEUE, Scene
from tests.jobframework.single import get, is_there, plain_pod, pod, runs, stopped
from tests.jobframework.test_pod_groups import GROUP, TOTAL, member, names, running


def test_a_group_may_name_its_workload() -> None:
    scene = Scene()
    scene.flavor()
    named = {"kueue.x-k8s.io/prebuilt-workload-name": "g"}
    scene.create(member("a", annotations=named), PODS)
    scene.settle()
    assert scene.workloads() == []
    role = meta(get(scene))["annotations"][ROLE_HASH]
    head = {"namespace": NS, "name": "g", "annotations": {"kueue.x-k8s.io/is-group-workload": "true"}}
    sets = [{"name": role, "count": 2, "template": {"spec": get(scene)["spec"]}}]
    scene.store.create(WORKLOADS, {"metadata": head, "spec": {"queueName": QUEUE, "podSets": sets}})
    scene.settle()
    scene.admit()
    scene.settle()
    assert "schedulingGates" not in get(scene)["spec"]
    scene.create(member("b", annotations=named), PODS)
    scene.settle()
    assert "schedulingGates" not in get(scene, "b")["spec"]
    assert [one["name"] for one in meta(scene.workload())["ownerReferences"]] == ["a", "b"]
    scene.create(member("c", annotations=named), PODS)
    scene.settle()
    finished = condition(scene.workload(), "Finished")
    assert finished is not None
    assert finished["reason"] == "OutOfSync"


def test_a_group_that_names_another_workload_is_told() -> None:
    scene = Scene()
    head = {"namespace": NS, "name": "other", "annotations": {"kueue.x-k8s.io/is-group-workload": "true"}}
    scene.store.create(WORKLOADS, {"metadata": head, "spec": {}})
    scene.create(member("a", 1, annotations={"kueue.x-k8s.io/prebuilt-workload-name": "other"}), PODS)
    scene.settle()
    assert ("ErrWorkloadCompose", "prebuilt workload and pod group should be equal") in scene.events()


def test_the_name_of_a_group_is_read_from_its_annotation_first() -> None:
    scene = Scene()
    for name in "ab":
        made = pod(name, annotations={GROUP: "long", TOTAL: "2"})
        scene.create(made, PODS)
    scene.settle()
    assert meta(scene.workload())["name"] == "long"


def test_a_single_pod_and_a_group_of_one_name_are_two_jobs() -> None:
    scene = Scene()
    scene.create(pod("g"), PODS)
    scene.create(member("a", 1), PODS)
    scene.settle()
    assert len(scene.workloads()) == 2
    assert sorted(one for one in scene.controller.index.states) == [
        "jobframework/job/podgroups/default/g",
        "jobframework/job/pods/default/g",
    ]


def test_every_step_survives_the_end_of_the_process() -> None:
    for lost in (False, True):
        scene = Scene()
        scene.flavor()
        for name in "abc":
            scene.create(member(name, 2), PODS)
        scene.settle_through_crashes(lost=lost)
        assert len(names(scene)) == 2
        scene.admit()
        scene.settle_through_crashes(lost=lost)
        left = names(scene)
        for name in left:
            runs(scene, name)
        scene.settle_through_crashes(lost=lost)
        assert len(scene.decided(PodStartDecided)) == 2
        scene.evict()
        scene.settle_through_crashes(lost=lost)
        for name in left:
            runs(scene, name, phase="Failed")
            scene.store.delete(PODS, NS, name, grace=0)
        scene.settle_through_crashes(lost=lost)
        reserved = condition(scene.workload(), "QuotaReserved")
        assert reserved is not None
        assert reserved["status"] == "False"
        assert len([one for one in scene.decided(PodDeletionDecided) if not one.excess]) == 2
        assert scene.replayed().index.states == scene.controller.index.states


def test_only_pods_of_the_group_are_written_and_each_as_the_one_that_was_seen() -> None:
    scene = Scene()
    scene.flavor()
    strange = plain_pod("strange", labels={GROUP: "g"}, annotations={TOTAL: "2"})
    scene.create(strange, PODS)
    runs(scene, "strange")

    def check(write: OpenWrite, request: Request) -> None:
        assert request.ref.name != "strange" or request.verb == "create"
        assert request.ref.kind != PODS or request.uid

    scene.before_write = check
    for name in "ab":
        scene.create(member(name), PODS)
    scene.settle()
    scene.admit()
    scene.settle()
    scene.evict()
    scene.settle()
    assert is_there(scene, "strange")
    assert "PodNotManaged" in dict(scene.events())
    for recorded in scene.log:
        if isinstance(recorded.event, events.JobDecision):
            assert 0 < recorded.caused_by < recorded.position


def seen(name: str, **more: Any) -> QueuedPodObserved:
    facts = events.PodSetFacts(name="main", count=1, containers="x")
    base: dict[str, Any] = {"kind": "pods", "queue": "q", "group": "g", "managed": True, "total": "2", "role": "r"}
    return QueuedPodObserved(
        namespace=NS, name=name, uid=name, resource_version="1", **{**base, "pod_set": [facts], **more}
    )


def of(*pods: QueuedPodObserved) -> dict[str, QueuedPodObserved]:
    return {one.uid: one for one in pods}


def test_what_pods_are_as_a_job() -> None:
    assert as_job({}) is None
    assert as_job(of(seen("a", managed=False))) is None
    waits = as_job(of(seen("b", gated=True), seen("a", phase="Running")))
    assert waits is not None
    assert (waits.name, waits.suspended, waits.end) == ("a", True, None)
    assert [(one.name, one.count) for one in waits.pod_sets] == [("r", 2)]
    failed = as_job(of(seen("a", phase="Failed"), seen("b", phase="Succeeded")))
    assert failed is not None
    assert (failed.end, failed.reclaimable) == (None, {"r": 1})
    alone = as_job(of(seen("a", group="", phase="Failed", message="no", total=None)))
    assert alone is not None
    assert alone.end == events.JobEnding(success=False, message="no")
    assert (alone.suspended, alone.reclaimable) == (True, {})


def test_which_pods_of_a_group_are_kept() -> None:
    workload = events.JobWorkloadObserved(
        name="g",
        uid="w",
        resource_version="1",
        pod_sets=[events.PodSetFacts(name="r", count=2, containers="x")],
    )
    held = [FINALIZER]
    found = counted(
        workload,
        [
            seen("a", phase="Failed", finalizers=held, failed_at="2026-01-01T00:00:01Z"),
            seen("b", phase="Failed", finalizers=held, failed_at="2026-01-01T00:00:02Z"),
            seen("c", phase="Running", finalizers=held, created="2"),
        ],
    )
    assert [one.name for one in found.kept] == ["c", "b"]
    assert [one.name for one in found.replaced] == ["a"]
    assert (found.absent, found.excess) == (1, [])
    more = [
        seen("d", gated=True, created="1"),
        seen("e", phase="Running", created="3"),
        seen("f", gated=True, finalizers=held),
    ]
    found = counted(workload, more)
    assert [one.name for one in found.kept] == ["f", "e"]
    assert [one.name for one in found.excess] == ["d"]


def test_until_when_a_group_runs() -> None:
    scene = Scene()
    now = scene.clock.now()
    assert runs_until([seen("a", phase="Running", group="")], now) == (False, None)
    assert runs_until([seen("a", phase="Running")], now) == (True, None)
    later = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    active, until = runs_until([seen("a", phase="Running", deleted_at=later, grace=30)], now)
    assert active
    assert until is not None
    assert until > now
    scene.clock.move(31)
    assert runs_until([seen("a", phase="Running", deleted_at=later, grace=30)], scene.clock.now()) == (False, None)


def test_the_quota_of_a_group_whose_workload_is_deleted_counts_while_a_pod_runs() -> None:
    scene = running("a", "b")
    scene.store.delete(WORKLOADS, NS, "g")
    scene.settle()
    assert len(scene.decided(PodDeletionDecided)) == 2
    assert (names(scene), [meta(one)["name"] for one in scene.workloads()]) == (["a", "b"], ["g"])  # within their grace
    stopped(scene, "a")
    scene.settle()
    assert (names(scene), len(scene.workloads())) == (["b"], 1)
    stopped(scene, "b")
    scene.settle()
    assert (names(scene), scene.workloads()) == ([], [])


def test_a_grace_that_ends_after_the_last_moment() -> None:
    now = Scene().clock.now()
    active, until = runs_until([seen("a", phase="Running", deleted_at="2026-01-01T00:00:00Z", grace=2**62)], now)
    assert active
    assert until is not None
    assert until > now
