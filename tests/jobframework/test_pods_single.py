"""A single pod with a queue gets its Workload, runs while that is admitted, and is deleted where it has to stop, as
with Kueue's pod integration."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.pod_events import PodDeletionDecided, PodStartDecided, PodTerminationDecided
from controlplane.job_kinds.pod import MANAGED, ROLE_HASH, Pod
from controlplane.kube.conditions import condition
from controlplane.kube.kinds import PODS, WORKLOADS, Request, meta
from controlplane.runtime.controller import OpenWrite
from controlplane.simulation.apiserver.errors import ApiRefusal
from tests.jobframework.scene import NS, QUEUE, SELECTOR, Scene
from tests.jobframework.single import GATES, admitted, get, is_there, plain_pod, pod, runs, stopped


def test_a_pod_gets_the_workload_that_kueue_gives_it() -> None:
    scene = Scene()
    made = scene.create(pod(labels={"kueue.x-k8s.io/max-exec-time-seconds": "60"}), PODS)
    scene.settle()
    workload = scene.workload()
    assert meta(workload)["name"].startswith("pod-a-")
    assert meta(workload)["labels"] == {"kueue.x-k8s.io/job-uid": meta(made)["uid"]}
    assert meta(workload)["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
    (owner,) = meta(workload)["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["name"], owner["controller"]) == ("v1", "Pod", "a", True)
    assert (workload["spec"]["queueName"], workload["spec"]["maximumExecutionTimeSeconds"]) == (QUEUE, 60)
    (pod_set,) = workload["spec"]["podSets"]
    assert (pod_set["name"], pod_set["count"]) == ("main", 1)
    assert pod_set["template"]["spec"]["schedulingGates"] == GATES
    assert pod_set["topologyRequest"] == {"podIndexLabel": "kueue.x-k8s.io/pod-group-pod-index"}
    assert get(scene) == made, "it waits, and nothing is written to it"
    assert scene.events() == [("CreatedWorkload", f"Created Workload: {NS}/{meta(workload)['name']}")]
    assert scene.settle() == []


def test_it_is_let_run_with_what_its_flavor_asks_for() -> None:
    scene = Scene()
    scene.flavor(tolerations=[{"key": "spot", "operator": "Exists"}])
    scene.create(pod(nodeSelector={"arch": "arm"}, tolerations=[{"key": "mine"}]), PODS)
    scene.settle()
    scene.admit()
    scene.settle()
    found = get(scene)
    assert "schedulingGates" not in found["spec"]
    assert found["spec"]["nodeSelector"] == {"arch": "arm", **SELECTOR}
    assert found["spec"]["tolerations"] == [{"key": "mine"}, {"key": "spot", "operator": "Exists"}]
    labels, notes = meta(found)["labels"], meta(found)["annotations"]
    assert labels["kueue.x-k8s.io/podset"] == "main"
    assert labels["kueue.x-k8s.io/cluster-queue-name"] == "cq"
    assert labels["kueue.x-k8s.io/local-queue-name"] == QUEUE
    assert notes["kueue.x-k8s.io/workload"] == meta(scene.workload())["name"]
    assert scene.events()[-1] == ("Started", "Admitted by clusterQueue cq")
    assert scene.settle() == []


def test_a_gate_of_somebody_else_stays() -> None:
    scene = Scene()
    scene.flavor()
    scene.create(pod(schedulingGates=[{"name": "controlplane/dispatched"}, {"name": "kueue.x-k8s.io/topology"}]), PODS)
    scene.settle()
    scene.admit()
    scene.settle()
    assert get(scene)["spec"]["schedulingGates"] == [{"name": "controlplane/dispatched"}]
    assert len(scene.decided(PodStartDecided)) == 1


@pytest.mark.parametrize(("phase", "reason"), [("Succeeded", "Succeeded"), ("Failed", "Failed")])
def test_its_end_finishes_the_workload_and_lets_both_go(phase: str, reason: str) -> None:
    scene = admitted()
    runs(scene, phase=phase, message="that was it")
    scene.settle()
    finished = condition(scene.workload(), "Finished")
    assert finished is not None
    assert (finished["reason"], finished["message"]) == (reason, "that was it")
    assert "finalizers" not in meta(scene.workload())
    assert "finalizers" not in meta(get(scene))
    assert scene.decided(PodDeletionDecided) == []
    assert scene.settle() == []


def test_an_evicted_pod_is_told_why_and_deleted_once() -> None:
    scene = admitted()
    uid = meta(get(scene))["uid"]
    scene.evict()
    scene.settle()
    found = get(scene)
    assert meta(found)["deletionTimestamp"]
    said = condition(found, "TerminationTarget")
    assert said is not None
    assert (said["status"], said["reason"]) == ("True", "WorkloadEvictedDueToPreempted")
    assert said["message"] == "Preempted to accommodate a workload"
    deletions = [one for one in scene.requests if one.verb == "delete"]
    assert [(one.ref.kind, one.ref.name, one.uid) for one in deletions] == [(PODS, "a", uid)]
    reserved, requeued = condition(scene.workload(), "QuotaReserved"), condition(scene.workload(), "Requeued")
    assert reserved is not None
    assert requeued is not None
    assert (reserved["status"], requeued["status"], requeued["reason"]) == ("False", "False", "Preempted")
    stopped(scene)
    scene.settle()
    assert not is_there(scene)
    assert scene.workloads() == []
    assert len(scene.decided(PodDeletionDecided)) == len(scene.decided(PodTerminationDecided)) == 1
    assert ("Stopped", "Preempted to accommodate a workload") in scene.events()


def test_one_that_waits_is_not_deleted_and_is_queued_again() -> None:
    scene = Scene()
    scene.create(pod(), PODS)
    scene.settle()
    scene.say(scene.workload(), QuotaReserved=(True, "QuotaReserved", "reserved"))
    scene.settle()
    scene.evict()
    scene.settle()
    requeued = condition(scene.workload(), "Requeued")
    assert requeued is not None
    assert requeued["status"] == "True"
    assert get(scene)["spec"]["schedulingGates"] == GATES
    assert scene.decided(PodDeletionDecided) == []


def test_its_user_deletes_it_while_it_waits() -> None:
    scene = Scene()
    scene.create(pod(), PODS)
    scene.settle()
    scene.store.delete(PODS, NS, "a")
    scene.settle()
    assert not is_there(scene)
    assert scene.workloads() == []
    assert [one.finish_reason for one in scene.decided(events.JobWorkloadFinishDecided)] == ["OwnerNotFound"]
    assert scene.decided(PodDeletionDecided) == []


def test_its_user_deletes_it_while_it_is_being_stopped() -> None:
    scene = admitted()
    scene.evict()
    scene.decide()
    scene.store.delete(PODS, NS, "a", grace=0)  # between decision and effect
    scene.settle()
    assert not is_there(scene)
    assert scene.decided(PodDeletionDecided) == []
    assert scene.workloads() == []


def test_another_pod_of_the_name_is_not_the_one_that_was_to_be_deleted() -> None:
    scene = admitted()
    scene.evict()
    while not scene.decided(PodDeletionDecided):
        scene.decide()
        for write in scene.open_writes():
            if not scene.decided(PodDeletionDecided):
                scene.carry_out(write)
    (write,) = [one for one in scene.open_writes() if one.target.startswith("Pod/")]
    scene.store.patch(PODS, NS, "a", {"metadata": {"finalizers": None}})
    scene.store.delete(PODS, NS, "a", grace=0)
    again = scene.create(pod(), PODS)
    scene.carry_out(write)
    assert get(scene) == again
    scene.settle()
    assert meta(get(scene))["uid"] == meta(again)["uid"]
    assert "deletionTimestamp" not in meta(get(scene))


def test_every_step_survives_the_end_of_the_process() -> None:
    """Between any decision and its effect, and between an effect and its answer, another process takes over."""
    for lost in (False, True):
        scene = Scene()
        scene.flavor()
        scene.create(pod(), PODS)
        scene.settle_through_crashes(lost=lost, rounds=30)
        assert len(scene.workloads()) == 1
        scene.admit()
        scene.settle_through_crashes(lost=lost, rounds=30)
        runs(scene)
        scene.settle_through_crashes(lost=lost, rounds=30)
        scene.evict()
        scene.settle_through_crashes(lost=lost, rounds=30)
        assert meta(get(scene))["deletionTimestamp"]
        stopped(scene)
        scene.settle_through_crashes(lost=lost, rounds=30)
        assert not is_there(scene)
        assert len(scene.decided(PodStartDecided)) == len(scene.decided(PodDeletionDecided)) == 1


def test_the_end_of_its_workload_is_its_own_end() -> None:
    scene = admitted()
    scene.store.delete(WORKLOADS, NS, meta(scene.workload())["name"])
    scene.settle()
    said = condition(get(scene), "TerminationTarget")
    assert said is not None
    assert said["reason"] == "WorkloadDeleted"
    stopped(scene)
    scene.settle()
    assert not is_there(scene)
    assert scene.workloads() == []


def test_a_class_that_is_missing_is_told_and_others_go_on() -> None:
    scene = Scene()
    scene.create(pod("a", labels={"kueue.x-k8s.io/priority-class": "none"}), PODS)
    scene.create(pod("b"), PODS)
    scene.settle()
    assert ("WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "none" not found') in scene.events()
    assert meta(scene.workload())["ownerReferences"][0]["name"] == "b"


def test_a_flavor_that_contradicts_it_ends_the_workload_and_leaves_it_gated() -> None:
    scene = Scene()
    scene.flavor()
    scene.create(pod(nodeSelector={"pool": "other"}), PODS)
    scene.settle()
    scene.admit()
    scene.settle()
    finished = condition(scene.workload(), "Finished")
    assert finished is not None
    assert finished["reason"] == "FailedToStart"
    assert get(scene)["spec"]["schedulingGates"] == GATES
    assert "finalizers" not in meta(get(scene))


def test_what_is_not_ours_is_never_written() -> None:
    scene = Scene()
    scene.flavor()
    other = plain_pod("other")
    del other["metadata"]["labels"]
    scene.create(other, PODS)
    runs(scene, "other")

    def check(write: OpenWrite, request: Request) -> None:
        assert request.ref.name != "other"
        assert request.ref.kind != PODS or request.uid

    scene.before_write = check
    scene.create(pod(), PODS)
    scene.settle()
    scene.admit()
    scene.settle()
    scene.evict()
    scene.settle()
    assert [one.ref.name for one in scene.requests if one.verb == "delete"] == ["a"]
    assert not is_there(scene)


def test_the_queue_and_the_class_of_one_that_waits_are_followed() -> None:
    scene = Scene()
    scene.create(pod(), PODS)
    scene.settle()
    scene.store.patch(PODS, NS, "a", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}})
    scene.settle()
    assert scene.workload()["spec"]["queueName"] == "other"


def test_the_log_gives_the_same_again() -> None:
    scene = admitted()
    scene.evict()
    scene.settle()
    assert scene.replayed().index.states == scene.controller.index.states
    for recorded in scene.log:
        if isinstance(recorded.event, events.JobDecision):
            assert 0 < recorded.caused_by < recorded.position


def test_the_hash_of_a_role_is_kueues() -> None:
    """The value is that of Kueue's own tests of its webhook."""
    made = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {}, "limits": {}}}]}
    found = Pod().submitted({"metadata": {}, "spec": made})
    assert meta(found)["annotations"][ROLE_HASH] == "a9f06f3a"
    assert meta(found)["labels"] == {MANAGED: "true"}
    assert meta(found)["finalizers"] == [MANAGED]
    assert found["spec"]["schedulingGates"] == GATES
    assert Pod().submitted(found) == found


def test_a_refusal_of_the_api_server_is_recorded_and_tried_again() -> None:
    scene = admitted()
    scene.evict()
    real = scene.store.delete

    def delete(*args: Any, **options: Any) -> Any:
        raise ApiRefusal(403, "Forbidden", "no right")

    scene.store.delete = delete  # type: ignore[method-assign]
    scene.decide()
    for _ in range(6):
        for write in scene.open_writes():
            scene.carry_out(write)
        scene.decide()
    assert scene.decided(events.JobWriteFailed)
    scene.store.delete = real  # type: ignore[method-assign]
    scene.clock.move(10)
    scene.decide()
    scene.controller.index._enqueue(scene.controller.index.states)
    scene.settle()
    assert meta(get(scene))["deletionTimestamp"]
