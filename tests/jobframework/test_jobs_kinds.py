"""Every kind that is looked after, by its row: it waits with a Workload as Kueue makes it, starts with what it was
admitted with, stops and is as it was, ends and goes."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.jobframework.names import name_of_workload
from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.generic_job import RUNTIME as READ_WITH
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import WORKLOADS, Json, meta
from tests.job_kinds.rows import ROWS, RUNTIME, TEMPLATE
from tests.jobframework.every_kind import (
    APP_WRAPPER,
    NAME,
    RAY_CLUSTER,
    RAY_JOB,
    every,
    injected,
    made,
    running,
    shows,
    waiting,
    with_runtime,
)
from tests.jobframework.scene import NS, QUEUE, Scene
from tests.support.rows import each


@every
def test_it_waits_with_a_workload_as_kueue_names_and_makes_it(kind: JobKind) -> None:
    scene = waiting(kind)
    workload, job = scene.workload(), scene.job(NAME, kind.kind)
    assert meta(workload)["name"] == name_of_workload(kind.kind, NAME, meta(job)["uid"])
    assert meta(workload)["labels"] == {"kueue.x-k8s.io/job-uid": meta(job)["uid"]}
    (owner,) = meta(workload)["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == (kind.kind.kind, NAME, True)
    sets = [(one["name"], one["count"]) for one in workload["spec"]["podSets"]]
    assert sets == [(name.lower(), count) for name, count in ROWS[kind.integration].pods]
    assert workload["spec"]["queueName"] == QUEUE
    assert kind.suspended(job)


@every
def test_it_starts_with_what_it_was_admitted_with_and_is_as_it_was_when_it_stops(kind: JobKind) -> None:
    scene = waiting(kind)
    before = scene.job(NAME, kind.kind)["spec"]
    scene.admit()
    scene.settle()
    job = scene.job(NAME, kind.kind)
    assert not kind.suspended(job)
    names = [one["name"] for one in scene.workload()["spec"]["podSets"]]
    given = injected(kind, job)
    assert [one["labels"]["kueue.x-k8s.io/podset"] for one in given] == names
    assert all(one["nodeSelector"] == {"pool": "general"} for one in given)
    assert all(one["tolerations"] == [{"key": "gpu", "operator": "Exists"}] for one in given)
    scene.evict()
    scene.settle()
    after = scene.job(NAME, kind.kind)["spec"]
    read = {**job, **({READ_WITH: RUNTIME} if kind.runtimes else {})}
    assert after == before | kind.stopped({"spec": before}) or kind.workload_pod_sets(
        {**read, "spec": after}
    ) == kind.workload_pod_sets({**read, "spec": before})
    assert not any(one["nodeSelector"] for one in injected(kind, {**job, "spec": after}))
    assert not is_true(scene.workload(), "QuotaReserved")
    assert len(scene.workloads()) == 1


@every
def test_the_process_may_end_after_every_step(kind: JobKind) -> None:
    for lost in (False, True):
        scene = Scene()
        scene.flavor()
        with_runtime(scene, kind)
        scene.create(made(kind), kind.kind)
        scene.settle_through_crashes(lost=lost)
        scene.admit()
        scene.settle_through_crashes(lost=lost)
        assert not kind.suspended(scene.job(NAME, kind.kind))
        scene.evict()
        scene.settle_through_crashes(lost=lost)
        assert kind.suspended(scene.job(NAME, kind.kind))
        assert not is_true(scene.workload(), "QuotaReserved")
        assert len(scene.workloads()) == 1


@every
@pytest.mark.parametrize("success", [True, False])
def test_its_end_is_that_of_its_workload(kind: JobKind, success: bool) -> None:
    row = ROWS[kind.integration]
    status = row.succeeded if success else row.failed
    if status is None:
        pytest.skip("it does not end")
    scene = running(kind)
    shows(scene, kind, status)
    scene.settle()
    finished, outcome = condition(scene.workload(), "Finished"), kind.outcome(status)
    assert finished is not None
    assert outcome is not None
    assert (finished["reason"], finished["message"]) == ("Succeeded" if success else "Failed", outcome.message)


@every
def test_what_runs_of_it_keeps_its_quota(kind: JobKind) -> None:
    scene = running(kind, played=False)
    shows(scene, kind, ROWS[kind.integration].running)
    scene.settle()
    scene.evict()
    scene.settle()
    assert kind.suspended(scene.job(NAME, kind.kind))
    if kind.active(ROWS[kind.integration].running):
        assert is_true(scene.workload(), "QuotaReserved")
        shows(scene, kind, kind.drained(scene.job(NAME, kind.kind)["status"]))
        scene.settle()
    assert not is_true(scene.workload(), "QuotaReserved")


READY = {
    "ray.io/rayjob": {"rayClusterStatus": {"state": "ready"}},
    "trainer.kubeflow.org/trainjob": {"jobsStatus": [{"name": "node", "ready": 1}]},
    "sparkoperator.k8s.io/sparkapplication": {
        "applicationState": {"state": "RUNNING"},
        "executorState": {"a": "RUNNING", "b": "COMPLETED"},
    },
    "ray.io/raycluster": {"state": "ready"},
    "ray.io/rayservice": {"conditions": [{"type": "Ready", "status": "True"}]},
    "workload.codeflare.dev/appwrapper": {"conditions": [{"type": "PodsReady", "status": "True"}]},
}


@each("integration", READY)
def test_it_is_ready_by_its_own_word(integration: str) -> None:
    kind = JOB_KINDS[integration]
    scene = running(kind, played=False, pods_ready=True)
    assert not is_true(scene.workload(), "PodsReady")
    shows(scene, kind, READY[integration])
    scene.settle()
    assert is_true(scene.workload(), "PodsReady")


@every
def test_one_that_goes_lets_its_workload_go(kind: JobKind) -> None:
    scene = waiting(kind)
    scene.store.delete(kind.kind, NS, NAME)
    scene.settle()
    assert scene.workloads() == []


@every
def test_it_takes_the_workload_that_it_names(kind: JobKind) -> None:
    like = waiting(kind).workload()
    scene = Scene()
    scene.flavor()
    with_runtime(scene, kind)
    job = made(kind)
    meta(job)["annotations"] = {"kueue.x-k8s.io/prebuilt-workload-name": "ready-made"}
    scene.create(job, kind.kind)
    scene.store.create(WORKLOADS, {"metadata": {"namespace": NS, "name": "ready-made"}, "spec": like["spec"]})
    scene.settle()
    scene.admit()
    scene.settle()
    assert not kind.suspended(scene.job(NAME, kind.kind))


GROUP = {"groupName": "g", "template": TEMPLATE}
NOWHERE = {"template": {"apiVersion": "e/v1", "kind": "E"}, "podSets": [{"path": "template.none"}]}
_ELASTIC_ONLY = "a kueue-managed RayCluster can use autoscaling only as an elastic job"


@each(
    ("kind", "spec", "said"),
    [
        (
            APP_WRAPPER,
            {"components": [NOWHERE]},
            'spec.components[0].podSets[].path: "template.none" leads to no template',
        ),
        (RAY_JOB, {"rayClusterSpec": None}, "rayClusterSpec is required for Kueue-managed jobs"),
        (RAY_JOB, {"shutdownAfterJobFinishes": False}, "a kueue managed job should delete the cluster after finishing"),
        (RAY_CLUSTER, {"enableInTreeAutoscaling": True}, _ELASTIC_ONLY),
        (RAY_CLUSTER, {"workerGroupSpecs": [GROUP] * 18}, "must have at most 18 items"),
        (RAY_CLUSTER, {"workerGroupSpecs": [{**GROUP, "groupName": "head"}]}, '"head" is reserved for the head group'),
    ],
)
def test_what_kueues_webhook_refuses_gets_no_workload_and_is_told_so(kind: JobKind, spec: Json, said: str) -> None:
    scene = Scene()
    job = made(kind, **spec)
    job["spec"]["suspend"] = False
    scene.create(job, kind.kind)
    scene.settle()
    assert scene.workloads() == []
    assert scene.job(NAME, kind.kind)["spec"]["suspend"] is True
    (note,) = [note for reason, note in scene.events() if reason == "ErrWorkloadCompose"]
    assert said in note


# --- AppWrapper ---


def wrapped(api_version: str, kind: str, **spec: Any) -> Json:
    return {"template": {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}}


INDEX = "batch.kubernetes.io/job-completion-index"
RAY = {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [{"replicas": 3, "template": TEMPLATE}]}


@each(
    ("component", "counts", "topology"),
    [
        (wrapped("v1", "Pod", **TEMPLATE["spec"]), [1], None),
        (wrapped("apps/v1", "Deployment", replicas=4, template=TEMPLATE), [4], None),
        (wrapped("apps/v1", "StatefulSet", template=TEMPLATE), [1], None),
        (wrapped("batch/v1", "Job", parallelism=4, completions=2, template=TEMPLATE), [2], {"podIndexLabel": INDEX}),
        (
            wrapped(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                replicatedJobs=[{"replicas": 2, "template": {"spec": {"parallelism": 3, "template": TEMPLATE}}}],
            ),
            [6],
            {"podIndexLabel": INDEX, "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index", "subGroupCount": 2},
        ),
        (
            wrapped(
                "kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs={"Worker": {"replicas": 2, "template": TEMPLATE}}
            ),
            [2],
            {"podIndexLabel": "training.kubeflow.org/replica-index"},
        ),
        (wrapped("ray.io/v1", "RayCluster", **RAY), [1, 3], None),
        (wrapped("ray.io/v1", "RayJob", rayClusterSpec=RAY), [1, 3], None),
        (wrapped("v1", "ConfigMap"), [], None),
        (
            {**wrapped("e/v1", "E", jobs=[{}, {"t": TEMPLATE}]), "podSets": [{"path": "template.spec.jobs[1].t"}]},
            [1],
            None,
        ),
    ],
)
def test_the_pods_of_a_component_are_declared_or_known_of_its_kind(
    component: Json, counts: list[int], topology: Json | None
) -> None:
    found = APP_WRAPPER.workload_pod_sets(made(APP_WRAPPER, components=[wrapped("v1", "Secret"), component]))
    assert [(one["name"], one["count"]) for one in found] == [
        (f"{NAME}-{at}", count) for at, count in enumerate(counts)
    ]
    assert all(one.get("topologyRequest") == topology for one in found)


@each(
    ("image", "policy"),
    [
        ("", "IfNotPresent"), ("i", "Always"), ("i:latest", "Always"), ("i:v1", "IfNotPresent"), ("r:5000/i", "Always"),
        ("r:5000/i:v1", "IfNotPresent"), (f"i@sha256:{'0' * 64}", "IfNotPresent"),
    ],
)  # fmt: skip
def test_a_template_has_the_defaults_of_an_api_server(image: str, policy: str) -> None:
    pod = {
        "containers": [{"name": "c", "image": image, "env": [{"name": "x"}], "resources": {"limits": {"cpu": "500u"}}}]
    }
    (one,) = APP_WRAPPER.workload_pod_sets(made(APP_WRAPPER, components=[wrapped("v1", "Pod", **pod)]))
    (container,) = one["template"]["spec"].pop("containers")
    assert container == {
        "name": "c",
        **({"image": image} if image else {}),
        "imagePullPolicy": policy,
        "resources": {"limits": {"cpu": "1m"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    assert one["template"]["spec"] == {
        "dnsPolicy": "ClusterFirst",
        "preemptionPolicy": "PreemptLowerPriority",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
