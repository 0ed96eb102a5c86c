"""A job of any kind that is looked after, while it waits and while it runs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.train_runtime import KUEUES_PATCH
from controlplane.kube.kinds import Json, meta
from tests.job_kinds.rows import ROWS, RUNTIME
from tests.jobframework.scene import NS, QUEUE, Scene
from tests.support.rows import each

NAME = "train"
KINDS = [
    pytest.param(one, id=one.integration)
    for one in JOB_KINDS.values()
    if one.reconciled and not one.ends_by_deletion and not one.stops_by_steps
]
every = each("kind", KINDS)
RAY_JOB, RAY_CLUSTER = JOB_KINDS["ray.io/rayjob"], JOB_KINDS["ray.io/raycluster"]
APP_WRAPPER = JOB_KINDS["workload.codeflare.dev/appwrapper"]


def made(kind: JobKind, *, queue: str = QUEUE, **spec: Any) -> Json:
    """A job of the kind's row, in a queue and suspended."""
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    job = {**ROWS[kind.integration].job(), "metadata": {"namespace": NS, "name": NAME, "labels": labels}}
    return copy.deepcopy(kind.submitted({**job, "spec": {**job["spec"], **spec}}))


def with_runtime(scene: Scene, kind: JobKind) -> None:
    """The runtime that a job of the kind's row names."""
    for runtime in kind.runtimes[:1]:
        scene.create({"metadata": {"name": "plain"}, "spec": RUNTIME}, runtime)


def waiting(kind: JobKind, *, played: bool = True, **options: Any) -> Scene:
    """`played`: its own controller does what it does."""
    scene = Scene(**options)
    if not played:
        scene.jobs.drain = lambda: 0  # type: ignore[method-assign]
    scene.flavor(tolerations=[{"key": "gpu", "operator": "Exists"}])
    with_runtime(scene, kind)
    scene.create(made(kind), kind.kind)
    scene.settle()
    return scene


def running(kind: JobKind, **options: Any) -> Scene:
    scene = waiting(kind, **options)
    scene.admit()
    scene.settle()
    assert not kind.suspended(scene.job(NAME, kind.kind))
    return scene


def shows(scene: Scene, kind: JobKind, status: Json) -> None:
    scene.store.patch(kind.kind, NS, NAME, {"status": status}, subresource="status", field_manager="its controller")


def injected(kind: JobKind, job: Json) -> list[Json]:
    """What the pods of each pod set were given: in their templates, or beside them."""
    if kind is APP_WRAPPER:
        return [one for component in job["spec"]["components"] for one in component.get("podSetInfos", ())]
    if kind.runtimes:
        (patch,) = [one for one in job["spec"]["runtimePatches"] if one["manager"] == KUEUES_PATCH]
        jobs = patch["trainingRuntimeSpec"]["template"]["spec"].get("replicatedJobs", ())
        pods = [one["template"]["spec"]["template"] for one in jobs]
        return [{**one["spec"], "labels": one["metadata"]["labels"]} for one in pods]
    return [
        {
            "labels": meta(one).get("labels") or {},
            "nodeSelector": one["spec"].get("nodeSelector") or {},
            "tolerations": one["spec"].get("tolerations") or [],
        }
        for one in kind.templates(job)
    ]
