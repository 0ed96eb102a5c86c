"""StatefulSets and LeaderWorkerSets with their pods."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controlplane.controllers.jobframework.names import name_of_workload
from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.leaderworkerset import workload_name
from controlplane.job_kinds.pod import Pod
from controlplane.kube.kinds import PODS, WORKLOADS, Json, meta
from tests.job_kinds.rows import ROWS
from tests.jobframework.scene import NS, QUEUE, Scene
from tests.jobframework.single import get

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
    """A pod that the set's own controller makes, as the webhook has it created. Of a LeaderWorkerSet the first is the
    leader."""
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
