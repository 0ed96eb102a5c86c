"""TrainJobs, whose pods are those of a runtime: it comes late, changes and goes; what the log has of both."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.runtime_events import JobRuntimeObserved
from controlplane.job_kinds import JOB_KINDS
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import Json, meta
from tests.job_kinds.rows import RUNTIME
from tests.jobframework.every_kind import NAME, injected, made, running, shows, waiting, with_runtime
from tests.jobframework.scene import NS, Scene

TRAIN = JOB_KINDS["trainer.kubeflow.org/trainjob"]
CLUSTER_RUNTIME, OWN_RUNTIME = TRAIN.runtimes


def of(scene: Scene, **more: Any) -> tuple[str, int, Json]:
    """Name and count of the one pod set, and its container."""
    (one,) = scene.workload()["spec"]["podSets"]
    (container,) = one["template"]["spec"]["containers"]
    return one["name"], one["count"], container


def runtime(**container: Any) -> Json:
    made_: Json = copy.deepcopy(RUNTIME)
    (job,) = made_["template"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["spec"]["containers"][0] |= container
    return made_


def change(scene: Scene, spec: Json) -> None:
    scene.store.patch(CLUSTER_RUNTIME, "", "plain", {"spec": spec}, field_manager="admin")


def test_a_runtime_that_comes_after_its_job_is_waited_for_and_its_absence_told() -> None:
    scene = Scene()
    scene.flavor()
    scene.create(made(TRAIN), TRAIN.kind)
    scene.settle()
    assert scene.workloads() == []
    assert [note for reason, note in scene.events() if reason == "ErrWorkloadCompose"] == [
        "spec.runtimeRef: runtime 'plain' not found"
    ]
    with_runtime(scene, TRAIN)
    scene.settle()
    assert of(scene)[:2] == ("node", 3)
    creation, seen = (
        next(one for one in scene.log if isinstance(one.event, kind))
        for kind in (events.JobWorkloadCreationDecided, JobRuntimeObserved)
    )
    assert creation.caused_by == seen.position


def test_a_process_that_ends_between_job_and_runtime_makes_the_workload_all_the_same() -> None:
    scene = Scene()
    scene.flavor()
    scene.create(made(TRAIN), TRAIN.kind)
    scene.settle()
    scene.crash()
    with_runtime(scene, TRAIN)
    scene.look()
    scene.crash()
    scene.settle()
    assert of(scene)[:2] == ("node", 3)


def test_one_that_names_a_runtime_of_its_namespace_gets_that() -> None:
    scene = Scene()
    scene.flavor()
    with_runtime(scene, TRAIN)
    mine = runtime(resources={"requests": {"memory": "1Gi"}})
    scene.create({"metadata": {"namespace": NS, "name": "plain"}, "spec": mine}, OWN_RUNTIME)
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "plain"}
    scene.create(made(TRAIN, runtimeRef=reference), TRAIN.kind)
    scene.settle()
    assert of(scene)[2]["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}}


def test_a_runtime_that_asks_for_something_else_changes_workloads_that_wait() -> None:
    scene = waiting(TRAIN)
    change(scene, runtime(resources={"limits": {"nvidia.com/gpu": "1"}}))
    scene.settle()
    assert of(scene)[2]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert len(scene.workloads()) == 1


def test_a_job_that_runs_is_left_alone_while_its_runtime_is_gone() -> None:
    scene = running(TRAIN)
    scene.store.delete(CLUSTER_RUNTIME, "", "plain")
    scene.settle()
    assert not TRAIN.suspended(scene.job(NAME, TRAIN.kind))
    assert is_true(scene.workload(), "Admitted")


def test_it_starts_in_two_steps_and_is_told_once() -> None:
    scene = running(TRAIN)
    steps = [one.step for one in scene.decided(events.JobStartDecided)]
    assert steps == ["prepare", ""]
    assert [reason for reason, _ in scene.events()].count("Started") == 1
    prepared, started = [one.body["spec"] for one in scene.requests if one.ref.kind == TRAIN.kind]
    assert prepared.keys() == {"runtimePatches"}
    assert started == {"suspend": False}


def test_what_it_was_admitted_with_is_taken_away_once_nothing_of_it_runs() -> None:
    scene = running(TRAIN, played=False)
    shows(scene, TRAIN, {"jobsStatus": [{"name": "node", "active": 1}]})
    scene.settle()
    scene.evict()
    scene.settle()
    job = scene.job(NAME, TRAIN.kind)
    assert TRAIN.suspended(job)
    assert injected(TRAIN, job)
    assert is_true(scene.workload(), "QuotaReserved")
    shows(scene, TRAIN, {"jobsStatus": [{"name": "node", "active": 0}]})
    scene.settle()
    assert not injected(TRAIN, scene.job(NAME, TRAIN.kind))
    assert not is_true(scene.workload(), "QuotaReserved")
    patches = scene.job(NAME, TRAIN.kind)["spec"]["runtimePatches"]
    assert [one["manager"] for one in patches] == ["kueue.x-k8s.io/manager", "me"]


def test_one_that_is_created_without_kueues_patch_gets_it_when_it_starts() -> None:
    scene = Scene()
    scene.flavor()
    with_runtime(scene, TRAIN)
    job = made(TRAIN)
    del job["spec"]["runtimePatches"]
    scene.create(job, TRAIN.kind)
    scene.settle()
    scene.admit()
    scene.settle()
    assert [one["nodeSelector"] for one in injected(TRAIN, scene.job(NAME, TRAIN.kind))] == [{"pool": "general"}]


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (
            {"kind": "Other", "apiGroup": "trainer.kubeflow.org", "name": "a"},
            "unsupported runtime: Other.trainer.kubeflow.org",
        ),
        ({"kind": "TrainingRuntime", "apiGroup": "e.com", "name": "a"}, "unsupported runtime: TrainingRuntime.e.com"),
    ],
)
def test_a_runtime_of_another_kind_is_told(reference: Json, said: str) -> None:
    scene = Scene()
    scene.create(made(TRAIN, runtimeRef=reference), TRAIN.kind)
    scene.settle()
    assert [note for _, note in scene.events()] == [f"spec.runtimeRef: {said}"]


def test_the_log_has_no_value_of_a_variable_and_no_argument_in_its_events() -> None:
    private = "the-secret"
    scene = Scene()
    spec = runtime(env=[{"name": "A", "value": private}], args=[private], command=[private])
    scene.create({"metadata": {"name": "plain"}, "spec": spec}, CLUSTER_RUNTIME)
    trainer = {"numNodes": 1, "env": [{"name": "B", "value": private}], "args": [private], "command": [private]}
    dataset = {"storageUri": private, "env": [{"name": "C", "value": private}]}
    scene.create(made(TRAIN, trainer=trainer, initializer={"dataset": dataset}), TRAIN.kind)
    scene.settle()
    assert of(scene)[2]["args"] == [private]
    assert all(private not in str(one.event) for one in scene.log)


def test_the_job_set_of_a_train_job_is_no_job_of_its_own() -> None:
    scene = waiting(TRAIN)
    owner = scene.job(NAME, TRAIN.kind)
    job_set = JOB_KINDS["jobset.x-k8s.io/jobset"]
    child = made(job_set, queue="")
    reference = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "controller": True}
    meta(child)["ownerReferences"] = [{**reference, "name": NAME, "uid": meta(owner)["uid"]}]
    child["spec"]["suspend"] = False
    scene.create(child, job_set.kind)
    scene.settle()
    assert len(scene.workloads()) == 1
    assert scene.job(NAME, job_set.kind)["spec"]["suspend"] is True


def test_the_same_log_gives_the_same_state() -> None:
    scene = running(TRAIN)
    again = scene.replayed()
    assert again.index.states == scene.controller.index.states
    assert again.index.runtimes.seen == scene.controller.index.runtimes.seen


def test_one_that_ends_while_its_runtime_is_gone_gives_its_quota_back() -> None:
    scene = running(TRAIN)
    scene.store.delete(CLUSTER_RUNTIME, "", "plain")
    scene.settle()
    done = {"type": "Complete", "status": "True", "reason": "JobsCompleted", "message": "done"}
    at = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    scene.store.patch(TRAIN.kind, NS, NAME, {"status": {"conditions": [{**done, **at}]}}, subresource="status")
    scene.settle()
    assert is_true(scene.workload(), "Finished")


def test_one_that_is_evicted_while_its_runtime_is_gone_is_stopped_and_gives_its_quota_back() -> None:
    scene = running(TRAIN)
    scene.store.delete(CLUSTER_RUNTIME, "", "plain")
    scene.settle()
    scene.evict()
    scene.settle()
    assert TRAIN.suspended(scene.job(NAME, TRAIN.kind))
    assert not is_true(scene.workload(), "QuotaReserved")
    scene.admit()
    scene.settle()
    assert TRAIN.suspended(scene.job(NAME, TRAIN.kind))  # it cannot start before its runtime is back
    assert not is_true(scene.workload(), "Finished")
