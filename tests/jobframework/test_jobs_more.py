"""The branches of the job framework: what changes, what is doubled, what goes."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.names import name_of_workload
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import (
    JOBS,
    PRIORITY_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
    Json,
    Kind,
    meta,
)
from tests.jobframework.scene import NS, Scene, job, pod_template

COMPLETE = [{"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "done"}]
FAILED = [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}]


def waiting(**options: Any) -> Scene:
    """A job that waits with its Workload."""
    scene = Scene()
    scene.flavor()
    scene.create(job(**options))
    scene.settle()
    return scene


def running(**options: Any) -> Scene:
    """A job that runs."""
    scene = waiting(**options)
    scene.admit()
    scene.settle()
    assert scene.job()["spec"]["suspend"] is False
    return scene


def patch(scene: Scene, body: Json, kind: Kind = JOBS, name: str = "a", **options: Any) -> None:
    scene.store.patch(kind, NS, name, body, field_manager="user", **options)


def reasons(scene: Scene) -> list[str]:
    return [reason for reason, _ in scene.events()]


# --- names ---


@pytest.mark.parametrize("name", ["a", "a" * 246, "a" * 253])
def test_a_workload_is_named_as_kueue_names_it(name: str) -> None:
    digest = hashlib.sha1(f"Job\nbatch\n{name}\nuid-1".encode()).hexdigest()
    found = name_of_workload(JOBS, name, "uid-1")
    assert found == f"{f'job-{name}'[:247]}-{digest[:5]}"
    assert len(found) <= 253
    assert name_of_workload(JOBS, name, "uid-1", "2") != found


# --- changes of a job that waits ---


def test_a_job_that_waits_takes_its_workload_to_another_queue() -> None:
    scene = waiting()
    patch(scene, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}})
    scene.settle()
    assert scene.workload()["spec"]["queueName"] == "other"
    assert reasons(scene) == ["CreatedWorkload"]


def test_the_workload_of_a_job_that_waits_asks_for_what_the_job_does_now() -> None:
    scene = waiting()
    uid = meta(scene.workload())["uid"]
    patch(scene, {"spec": {"parallelism": 1}})
    scene.settle()
    assert scene.workload()["spec"]["podSets"][0]["count"] == 1
    assert meta(scene.workload())["uid"] == uid
    assert scene.events()[-1][0] == "UpdatedWorkload"


def test_a_change_with_quota_makes_another_workload() -> None:
    scene = waiting()
    before = scene.workload()
    scene.say(before, QuotaReserved=(True, "QuotaReserved", "reserved"))
    patch(scene, {"spec": {"parallelism": 1}})
    scene.settle()
    assert meta(scene.workload())["uid"] != meta(before)["uid"]
    assert scene.workload()["spec"]["podSets"][0]["count"] == 1
    assert reasons(scene) == ["CreatedWorkload", "DeletedWorkload", "CreatedWorkload"]


def test_a_job_that_runs_and_is_changed_is_stopped_first() -> None:
    scene = running()
    before = meta(scene.workload())["uid"]
    patch(scene, {"spec": {"parallelism": 1}})
    scene.settle()
    assert scene.job()["spec"]["suspend"] is True
    assert "nodeSelector" not in scene.job()["spec"]["template"]["spec"]
    assert meta(scene.workload())["uid"] != before
    note = "No matching Workload; restoring pod templates according to existent Workload"
    assert ("Stopped", note) in scene.events()
    stops = [one for one in scene.decided(events.JobStopDecided) if one.step == "suspend"]
    deletions = scene.decided(events.JobWorkloadRemovalDecided)
    assert len(stops) == len(deletions) == 1


def test_priority_comes_from_the_workloads_class_and_follows_the_label() -> None:
    scene = Scene()
    for name, value in (("high", 100), ("low", 1)):
        scene.store.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    scene.create(job(labels={"kueue.x-k8s.io/priority-class": "high"}))
    scene.settle()
    reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
    spec = scene.workload()["spec"]
    assert (spec["priority"], spec["priorityClassRef"]) == (100, reference)
    patch(scene, {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "low"}}})
    scene.settle()
    spec = scene.workload()["spec"]
    assert (spec["priority"], spec["priorityClassRef"]) == (1, {**reference, "name": "low"})
    assert "Updated workload priority class" in scene.events()[-1][1]


@pytest.mark.parametrize(
    ("named", "default", "expected"), [("gold", False, (7, "gold")), ("", True, (7, "gold")), ("", False, (0, ""))]
)
def test_priority_comes_from_a_pods_class_or_the_default_one(
    named: str, default: bool, expected: tuple[int, str]
) -> None:
    scene = Scene()
    scene.store.create(PRIORITY_CLASSES, {"metadata": {"name": "gold"}, "value": 7, "globalDefault": default})
    scene.create(job(template=pod_template(**({"priorityClassName": named} if named else {}))))
    scene.settle()
    spec = scene.workload()["spec"]
    assert (spec["priority"], (spec.get("priorityClassRef") or {}).get("name", "")) == expected


def test_a_missing_class_is_told_and_waited_for_while_others_go_on() -> None:
    scene = Scene()
    scene.create(job(labels={"kueue.x-k8s.io/priority-class": "none"}))
    scene.create(job("b"))
    scene.settle()
    scene.settle()
    assert [one["metadata"]["ownerReferences"][0]["name"] for one in scene.workloads()] == ["b"]
    told = ("WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "none" not found')
    assert scene.events().count(told) == 1
    scene.store.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "none"}, "value": 3})
    scene.settle()
    assert len(scene.workloads()) == 2


def test_admission_gates_go_to_the_workload_and_leave_it() -> None:
    gate = "kueue.x-k8s.io/admission-gated-by"
    scene = Scene()
    made = job()
    made["metadata"]["annotations"] = {gate: "example.com/x", "provreq.kueue.x-k8s.io/a": "b", "other": "c"}
    scene.create(made)
    scene.settle()
    assert meta(scene.workload())["annotations"] == {gate: "example.com/x", "provreq.kueue.x-k8s.io/a": "b"}
    patch(scene, {"metadata": {"annotations": {gate: None}}})
    scene.settle()
    assert meta(scene.workload())["annotations"] == {"provreq.kueue.x-k8s.io/a": "b"}


# --- starting ---


def test_a_flavor_that_is_not_there_is_waited_for() -> None:
    scene = Scene()
    scene.create(job())
    scene.settle()
    scene.admit()
    scene.settle()
    assert scene.job()["spec"]["suspend"] is True
    scene.flavor()
    scene.settle()
    assert scene.job()["spec"]["suspend"] is False


def test_what_can_never_start_is_finished() -> None:
    scene = Scene()
    scene.flavor(labels={"pool": "general"})
    scene.create(job(template=pod_template(nodeSelector={"pool": "special"})))
    scene.settle()
    scene.admit()
    scene.settle()
    assert scene.job()["spec"]["suspend"] is True
    finished = condition(scene.workload(), "Finished")
    assert finished is not None
    said = "invalid admission check PodSetUpdate: conflict for nodeSelector: "
    said += "conflict for key=pool, value1=special, value2=general"
    assert (finished["reason"], finished["message"]) == ("FailedToStart", said)


def test_what_checks_add_to_pods_is_put_in() -> None:
    scene = waiting()
    update = {
        "name": "main",
        "labels": {"l": "1"},
        "annotations": {"n": "2"},
        "nodeSelector": {"zone": "z"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
    }
    check = {"name": "c", "state": "Ready", "message": "", "podSetUpdates": [update]}
    scene.status(scene.workload(), admissionChecks=[{**check, "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    scene.admit()
    scene.settle()
    template = scene.job()["spec"]["template"]
    assert template["metadata"]["labels"]["l"] == "1"
    assert template["metadata"]["annotations"]["n"] == "2"
    assert template["spec"]["nodeSelector"] == {"pool": "general", "zone": "z"}
    assert template["spec"]["tolerations"] == [{"key": "k", "operator": "Exists"}]


def test_checks_that_wait_are_told() -> None:
    scene = waiting()
    scene.say(scene.workload(), QuotaReserved=(True, "QuotaReserved", "reserved"))
    at = "2026-01-01T00:00:00Z"
    checks = [
        {"name": "one", "state": "Pending", "message": "wait", "lastTransitionTime": at},
        {"name": "two", "state": "Ready", "message": "fine", "lastTransitionTime": at},
    ]
    scene.status(scene.workload(), admissionChecks=checks)
    scene.settle()
    assert ("UpdatedAdmissionCheck", "one: wait") in scene.events()
    assert scene.job()["spec"]["suspend"] is True


def test_a_job_that_is_content_with_less_gets_less_and_its_wish_back() -> None:
    scene = Scene()
    scene.flavor()
    made = job(parallelism=4, completions=4)
    made["metadata"]["annotations"] = {
        "kueue.x-k8s.io/job-min-parallelism": "2",
        "kueue.x-k8s.io/job-completions-equal-parallelism": "true",
    }
    scene.create(made)
    scene.settle()
    assert scene.workload()["spec"]["podSets"][0]["minCount"] == 2
    scene.admit(main=3)
    scene.settle()
    spec = scene.job()["spec"]
    assert (spec["suspend"], spec["parallelism"], spec["completions"]) == (False, 3, 3)
    assert len(scene.workloads()) == 1
    scene.evict()
    scene.settle()
    spec = scene.job()["spec"]
    assert (spec["suspend"], spec["parallelism"], spec["completions"]) == (True, 4, 4)
    assert not is_true(scene.workload(), "QuotaReserved")


def test_a_job_that_got_less_and_asks_for_more_meanwhile_is_stopped_and_asks_anew() -> None:
    """What it asks for now is what its Workload asked for: that is no reason to leave it half stopped, nor to give it
    less again."""
    scene = Scene()
    scene.flavor()
    made = job(parallelism=3, completions=3)
    made["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    template = scene.create(made)["spec"]["template"]["spec"]
    scene.settle()
    before = meta(scene.workload())["uid"]
    scene.admit(main=2)
    scene.settle()
    patch(scene, {"status": {"active": 2, "ready": 2}}, subresource="status")
    patch(scene, {"spec": {"parallelism": 3}})
    scene.settle()
    assert scene.job()["spec"]["suspend"] is True
    patch(scene, {"status": {"active": None, "ready": None}}, subresource="status")
    scene.settle()
    found, workload = scene.job(), scene.workload()
    assert "kueue.x-k8s.io/stopping" not in meta(found).get("annotations", {})
    assert (found["spec"]["suspend"], found["spec"]["parallelism"]) == (True, 3)
    assert found["spec"]["template"]["spec"] == template
    assert meta(workload)["uid"] != before
    assert not is_true(workload, "QuotaReserved")
    assert [reason for reason, _ in scene.events() if reason == "DeletedWorkload"]
    scene.admit(main=3)
    scene.settle()
    assert (scene.job()["spec"]["suspend"], scene.job()["spec"]["parallelism"]) == (False, 3)


# --- ends ---


@pytest.mark.parametrize(
    ("conditions", "reason", "message"), [(COMPLETE, "Succeeded", "done"), (FAILED, "Failed", "too often")]
)
def test_the_end_of_a_job_is_its_workloads(conditions: list[Json], reason: str, message: str) -> None:
    scene = running()
    patch(scene, {"status": {"conditions": conditions}}, subresource="status")
    scene.settle()
    finished = condition(scene.workload(), "Finished")
    assert finished is not None
    assert (finished["reason"], finished["message"]) == (reason, message)
    assert scene.events()[-1][0] == "FinishedWorkload"
    scene.clock.move(1)
    assert scene.settle() == []


def test_a_job_that_ended_without_a_workload_gets_none() -> None:
    scene = Scene(view=False)
    scene.create(job(suspend=False))
    patch(scene, {"status": {"conditions": COMPLETE}}, subresource="status")
    scene.connect()
    scene.settle()
    assert scene.workloads() == []


def test_pods_that_ended_give_their_quota_back() -> None:
    scene = running(parallelism=3, completions=3)
    patch(scene, {"status": {"succeeded": 2}}, subresource="status")
    scene.settle()
    assert scene.workload()["status"]["reclaimablePods"] == [{"name": "main", "count": 2}]
    assert is_true(scene.workload(), "Admitted")


def test_readiness_is_shown_where_it_is_waited_for() -> None:
    scene = Scene(pods_ready=True)
    scene.flavor()
    scene.create(job())
    scene.settle()
    ready = condition(scene.workload(), "PodsReady")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("False", "WaitForStart")
    scene.admit()
    scene.settle()
    scene.jobs.drain = lambda: 0  # what its controller would say of the pods is said here
    for count, expected in ((1, ("False", "WaitForRecovery")), (2, ("True", "Recovered"))):
        patch(scene, {"status": {"ready": count}}, subresource="status")
        scene.settle()
        ready = condition(scene.workload(), "PodsReady")
        assert ready is not None
        assert (ready["status"], ready["reason"]) == expected
