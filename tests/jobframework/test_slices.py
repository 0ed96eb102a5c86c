"""An elastic job gets another Workload when it grows while it runs, and its pods run as far as one of them has quota,
as with Kueue's `EnsureWorkloadSlices` (pkg/workloadslicing/workloadslicing_test.go) and its ungater of elastic jobs."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.names import name_of_workload
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.job_kinds.ray import RayCluster
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import JOBS, WORKLOAD_PRIORITY_CLASSES, WORKLOADS, Json, meta
from controlplane.kube.kueue_names import MULTIKUEUE
from controlplane.kube.slices import ELASTIC_GATE, ELASTIC_JOB, REPLACEMENT_FOR, SLICE_NAME
from tests.jobframework.scene import NS, QUEUE, SELECTOR, Scene, job, pod_template


def elastic(size: int = 2, **more: Any) -> Json:
    made = job(parallelism=size, completions=100, **more)
    made["metadata"]["annotations"] = {ELASTIC_JOB: "true"}
    return made


def admitted(size: int = 2) -> Scene:
    scene = Scene()
    scene.flavor()
    scene.create(elastic(size))
    scene.settle()
    scene.admit()
    scene.settle()
    assert scene.job()["spec"]["suspend"] is False
    return scene


def resize(scene: Scene, size: int, name: str = "a") -> None:
    scene.store.patch(JOBS, NS, name, {"spec": {"parallelism": size}}, field_manager="user")
    scene.settle()


def replace(scene: Scene, old: Json, new: Json) -> None:
    """Admit a new slice, and end the old one, as whoever admits does."""
    scene.admit(new)
    uid = meta(new)["uid"]
    message = f"Replaced to accommodate a workload (UID: {uid}, JobUID: ) due to workload slice aggregation"
    scene.say(get(scene, old), Finished=(True, "WorkloadSliceReplaced", message))


def get(scene: Scene, workload: Json) -> Json:
    return scene.store.get(WORKLOADS, NS, meta(workload)["name"])


def by_age(scene: Scene) -> list[Json]:
    return sorted(scene.workloads(), key=lambda one: int(meta(one)["uid"].removeprefix("uid-")))


def sizes(scene: Scene) -> list[int]:
    return [one["spec"]["podSets"][0]["count"] for one in by_age(scene)]


def grown(scene: Scene, size: int) -> tuple[Json, Json]:
    resize(scene, size)
    old, new = by_age(scene)
    return old, new


def test_the_first_workload_of_an_elastic_job_is_named_by_its_generation() -> None:
    scene = Scene()
    made = scene.create(elastic())
    scene.settle()
    name = name_of_workload(JOBS, "a", meta(made)["uid"], "1")
    assert meta(scene.workload())["name"] == name
    assert meta(scene.workload())["annotations"] == {ELASTIC_JOB: "true", SLICE_NAME: name}


def test_its_pods_are_made_behind_the_gate_once_it_is_admitted() -> None:
    scene = admitted()
    template = scene.job()["spec"]["template"]
    assert template["spec"]["schedulingGates"] == [{"name": ELASTIC_GATE}]
    name = meta(scene.workload())["name"]
    assert template["metadata"]["annotations"] == {"kueue.x-k8s.io/workload": name, SLICE_NAME: name}


def test_a_job_that_grows_gets_a_slice_that_is_to_replace_the_one_with_quota() -> None:
    scene = admitted(2)
    old, new = grown(scene, 5)
    assert sizes(scene) == [2, 5]
    generation = meta(scene.job())["generation"]
    assert meta(new)["name"] == name_of_workload(JOBS, "a", meta(scene.job())["uid"], str(generation))
    assert meta(new)["annotations"] == {
        ELASTIC_JOB: "true",
        SLICE_NAME: meta(old)["name"],
        REPLACEMENT_FOR: f"{NS}/{meta(old)['name']}",
    }
    assert scene.job()["spec"]["suspend"] is False
    # What the admission put into the job's template is no part of what the new slice asks for; the chain of slices is
    # named, as with Kueue.
    had, has = (one["spec"]["podSets"][0]["template"] for one in (old, new))
    assert has["spec"] == had["spec"]
    assert meta(has) == {**meta(had), "annotations": {SLICE_NAME: meta(old)["name"]}}
    assert new["spec"]["queueName"] == old["spec"]["queueName"]
    assert scene.settle() == []


def test_a_template_that_names_an_older_slice_does_not_keep_its_job_from_starting() -> None:
    """Its Workload was deleted by hand, or Kueue's manager left the names there (kueue#12993)."""
    scene = Scene()
    scene.flavor()
    stale = pod_template()
    stale["metadata"] = {"annotations": {"kueue.x-k8s.io/workload": "older", SLICE_NAME: "oldest", "mine": "kept"}}
    scene.create(elastic(template=stale))
    scene.settle()
    scene.admit()
    scene.settle()
    assert not is_true(scene.workload(), "Finished")
    assert scene.job()["spec"]["suspend"] is False
    name = meta(scene.workload())["name"]
    notes = scene.job()["spec"]["template"]["metadata"]["annotations"]
    assert notes == {"kueue.x-k8s.io/workload": name, SLICE_NAME: name, "mine": "kept"}
    assert scene.settle() == []


def test_the_workload_of_a_larger_slice_can_be_deleted_and_another_chain_begins() -> None:
    scene = admitted(2)
    old, new = grown(scene, 5)
    replace(scene, old, new)
    scene.settle()
    scene.store.delete(WORKLOADS, NS, meta(new)["name"])
    scene.settle()
    third = next(one for one in by_age(scene) if not is_true(one, "Finished"))
    assert meta(third)["annotations"] == {ELASTIC_JOB: "true", SLICE_NAME: meta(third)["name"]}
    scene.admit(third)
    scene.settle()
    assert scene.job()["spec"]["suspend"] is False
    assert scene.job()["spec"]["template"]["metadata"]["annotations"][SLICE_NAME] == meta(third)["name"]
    assert not is_true(get(scene, third), "Finished")


def test_the_slice_that_waits_follows_the_job_in_place() -> None:
    scene = admitted(2)
    old, new = grown(scene, 5)
    resize(scene, 8)
    assert sizes(scene) == [2, 8]
    resize(scene, 3)
    assert sizes(scene) == [2, 3]
    assert [meta(one)["name"] for one in by_age(scene)] == [meta(old)["name"], meta(new)["name"]]


def test_a_job_that_shrinks_keeps_its_workload() -> None:
    scene = admitted(4)
    resize(scene, 1)
    assert sizes(scene) == [1]
    assert is_true(scene.workload(), "Admitted")
    assert scene.job()["spec"]["suspend"] is False
    (update,) = scene.decided(events.JobWorkloadUpdateDecided)
    assert (update.what, update.pods, update.reason) == ("counts", {"main": 1}, JobReason.JOB_RESIZED)


def test_a_job_that_waits_is_resized_in_place() -> None:
    scene = Scene()
    scene.create(elastic(2))
    scene.settle()
    resize(scene, 6)
    assert sizes(scene) == [6]


def test_the_replaced_slice_is_let_go_and_the_job_runs_on() -> None:
    scene = admitted(2)
    old, new = grown(scene, 5)
    replace(scene, old, new)
    scene.settle()
    assert "finalizers" not in meta(get(scene, old))
    assert not is_true(get(scene, new), "Finished")
    assert scene.job()["spec"]["suspend"] is False
    resize(scene, 7)
    third = by_age(scene)[2]
    assert meta(third)["annotations"][REPLACEMENT_FOR] == f"{NS}/{meta(new)['name']}"
    assert meta(third)["annotations"][SLICE_NAME] == meta(old)["name"]
    assert sizes(scene) == [2, 5, 7]


def test_a_slice_that_waits_for_its_checks_does_not_stop_the_job() -> None:
    scene = admitted(2)
    old, new = grown(scene, 5)
    scene.say(get(scene, new), QuotaReserved=(True, "QuotaReserved", ""), Admitted=(False, "UnsatisfiedChecks", ""))
    scene.say(get(scene, old), Finished=(True, "WorkloadSliceReplaced", ""))
    scene.settle()
    assert scene.job()["spec"]["suspend"] is False


def test_an_evicted_slice_stops_the_job_before_its_quota_is_free_and_the_one_that_waits_stays() -> None:
    """Kueue ends the evicted slice at once, and its pods run on without quota."""
    scene = admitted(2)
    old, new = grown(scene, 5)
    scene.say(get(scene, old), Evicted=(True, "Preempted", "Preempted to accommodate a workload"))
    scene.settle()
    assert scene.job()["spec"]["suspend"] is True
    assert not is_true(get(scene, old), "QuotaReserved")
    ended = condition(get(scene, old), "Finished")
    assert ended is not None
    assert ended["reason"] == "WorkloadSliceReplaced"
    assert not is_true(get(scene, new), "Finished")
    stopped = [one.event for one in scene.log if isinstance(one.event, events.JobStopDecided)]
    released = [one.position for one in scene.log if isinstance(one.event, events.JobQuotaReleaseDecided)]
    assert stopped
    assert len(released) == 1
    assert all(one.position < released[0] for one in scene.log if isinstance(one.event, events.JobStopDecided))
    scene.admit(get(scene, new))
    scene.settle()
    assert scene.job()["spec"]["suspend"] is False
    assert scene.job()["spec"]["template"]["spec"]["nodeSelector"] == SELECTOR


def test_a_job_whose_only_slice_is_evicted_is_stopped_like_any_other() -> None:
    scene = admitted(2)
    before = scene.job()["spec"]["template"]["spec"]
    scene.evict()
    scene.settle()
    assert scene.job()["spec"]["suspend"] is True
    assert "schedulingGates" not in scene.job()["spec"]["template"]["spec"]
    scene.say(scene.workload(), Evicted=(False, "QuotaReserved", "Previously: Preempted"))
    scene.admit()
    scene.settle()
    assert scene.job()["spec"]["template"]["spec"] == before


def test_the_end_of_the_job_ends_both_slices() -> None:
    scene = admitted(2)
    grown(scene, 5)
    done = [{"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "all done"}]
    scene.store.patch(JOBS, NS, "a", {"status": {"conditions": done}}, subresource="status")
    scene.settle()
    assert [condition(one, "Finished")["reason"] for one in scene.workloads()] == ["Succeeded", "Succeeded"]  # type: ignore[index]
    assert all("finalizers" not in meta(one) for one in scene.workloads())
    assert scene.settle() == []


def test_a_job_that_is_deleted_leaves_no_slice() -> None:
    scene = admitted(2)
    grown(scene, 5)
    scene.store.delete(JOBS, NS, "a")
    scene.settle()
    assert all(is_true(one, "Finished") for one in scene.workloads())


def test_an_elastic_job_that_was_created_unsuspended_is_stopped_first() -> None:
    scene = Scene()
    scene.create(elastic(suspend=False))
    scene.settle()
    assert scene.job()["spec"]["suspend"] is True
    assert len(scene.workloads()) == 1


def test_a_job_whose_pods_would_not_wait_is_stopped_once_when_it_grows() -> None:
    """It was started by a version that knew no slices: its template has no gate, and cannot get one while it runs."""
    scene = admitted(2)
    scene.store.patch(JOBS, NS, "a", {"spec": {"template": {"spec": {"schedulingGates": None}}}}, field_manager="user")
    resize(scene, 5)
    assert [one.step for one in scene.decided(events.JobStopDecided)] == ["suspend", "restore"]
    assert sizes(scene) == [2, 5]
    assert scene.job()["spec"]["suspend"] is False
    assert scene.job()["spec"]["template"]["spec"]["schedulingGates"] == [{"name": ELASTIC_GATE}]


def test_a_job_that_is_dispatched_has_its_gate_from_the_worker() -> None:
    scene = Scene()
    scene.flavor()
    scene.create(elastic(2, managedBy=MULTIKUEUE))
    scene.settle()
    scene.admit()
    scene.settle()
    assert "schedulingGates" not in scene.job()["spec"]["template"]["spec"]
    grown(scene, 5)
    assert scene.job()["spec"]["suspend"] is False


def test_a_job_that_grows_before_it_was_started_is_started_with_what_it_has() -> None:
    scene = Scene()
    scene.flavor()
    scene.create(elastic(2))
    scene.settle()
    scene.admit()
    grown(scene, 5)
    assert sizes(scene) == [2, 5]
    assert scene.job()["spec"]["suspend"] is False
    name = meta(by_age(scene)[0])["name"]
    assert scene.job()["spec"]["template"]["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == name


def test_both_slices_follow_the_priority_class_of_the_job() -> None:
    """The one with the quota is preempted by its priority as well, while the other one waits."""
    scene = Scene()
    scene.flavor()
    for name, value in (("low", 1), ("high", 9)):
        scene.store.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    scene.create(elastic(2, labels={"kueue.x-k8s.io/priority-class": "low"}))
    scene.settle()
    scene.admit()
    scene.settle()
    grown(scene, 5)
    label = {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "high"}}}
    scene.store.patch(JOBS, NS, "a", label, field_manager="user")
    scene.settle()
    assert [one["spec"]["priority"] for one in by_age(scene)] == [9, 9]


def test_a_ray_cluster_grows_too() -> None:
    scene = Scene()
    scene.flavor()
    group = {"groupName": "small", "replicas": 1, "minReplicas": 0, "maxReplicas": 9, "template": pod_template()}
    head = {"rayStartParams": {}, "template": pod_template()}
    notes = {
        "namespace": NS,
        "name": "ray",
        "labels": {"kueue.x-k8s.io/queue-name": QUEUE},
        "annotations": {ELASTIC_JOB: "true"},
    }
    spec = {"suspend": True, "headGroupSpec": head, "workerGroupSpecs": [group]}
    scene.create({"metadata": notes, "spec": spec}, RayCluster.kind)
    scene.settle()
    scene.admit()
    scene.settle()
    found = scene.job("ray", RayCluster.kind)["spec"]
    assert found["suspend"] is False
    gates = [found["headGroupSpec"]["template"]["spec"]["schedulingGates"]]
    gates.append(found["workerGroupSpecs"][0]["template"]["spec"]["schedulingGates"])
    assert gates == [[{"name": ELASTIC_GATE}]] * 2
    larger = [{**found["workerGroupSpecs"][0], "replicas": 3}]
    scene.store.patch(RayCluster.kind, NS, "ray", {"spec": {"workerGroupSpecs": larger}}, field_manager="user")
    scene.settle()
    old, new = by_age(scene)
    counts = [{one["name"]: one["count"] for one in each["spec"]["podSets"]} for each in (old, new)]
    assert counts == [{"head": 1, "small": 1}, {"head": 1, "small": 3}]
    assert meta(new)["annotations"][REPLACEMENT_FOR] == f"{NS}/{meta(old)['name']}"
    assert scene.job("ray", RayCluster.kind)["spec"]["suspend"] is False


def test_a_job_without_the_annotation_is_stopped_when_it_grows() -> None:
    scene = Scene()
    scene.flavor()
    scene.create(job(parallelism=2, completions=100))
    scene.settle()
    scene.admit()
    scene.settle()
    resize(scene, 5)
    assert scene.job()["spec"]["suspend"] is True
    assert REPLACEMENT_FOR not in meta(scene.workload()).get("annotations", {})


@pytest.mark.parametrize(
    ("notes", "template", "why"),
    [
        ({"kueue.x-k8s.io/job-min-parallelism": "1"}, {}, "partial admission and elastic job cannot be used together"),
        (
            {},
            {"kueue.x-k8s.io/podset-required-topology": "rack"},
            "required topology is not supported with elastic jobs",
        ),
        (
            {},
            {"kueue.x-k8s.io/podset-preferred-topology": "rack"},
            "preferred topology is not supported with elastic jobs",
        ),
    ],
)
def test_what_kueue_refuses_of_an_elastic_job_gets_no_workload(notes: Json, template: Json, why: str) -> None:
    scene = Scene()
    made = elastic(template={**pod_template(), "metadata": {"annotations": template}})
    made["metadata"]["annotations"] |= notes
    scene.create(made)
    scene.settle()
    assert scene.workloads() == []
    assert scene.events() == [("ErrWorkloadCompose", why)]


@pytest.mark.parametrize("lost", [False, True])
def test_a_process_that_dies_all_the_time_makes_one_slice(*, lost: bool) -> None:
    scene = admitted(2)
    scene.store.patch(JOBS, NS, "a", {"spec": {"parallelism": 5}}, field_manager="user")
    scene.settle_through_crashes(lost=lost)
    assert sizes(scene) == [2, 5]
    old, new = by_age(scene)
    replace(scene, old, new)
    scene.store.patch(JOBS, NS, "a", {"spec": {"parallelism": 1}}, field_manager="user")
    scene.settle_through_crashes(lost=lost)
    assert sizes(scene) == [2, 1]
    assert scene.job()["spec"]["suspend"] is False
