"""PipelineRuns and what stands around them, with the shortest way to say each."""

from __future__ import annotations

import copy
from typing import Any

from controlplane.controllers.coscheduling.objects import PipelineRun, read_run
from controlplane.controllers.coscheduling.placement.objects_by_kind import ObjectsByKind
from controlplane.controllers.coscheduling.placement.plan import PlacementPlan, PlannedCluster, plan

Json = dict[str, Any]
UID = "11111111-2222-3333-4444-555555555555"
NS = "ci"
STORAGE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def template(name: str, base: str = "", **more: Any) -> Json:
    body: Json = {"spec": copy.deepcopy(STORAGE)}
    if base:
        body["metadata"] = {"name": base}
    return {"name": name, "volumeClaimTemplate": body, **more}


def claim(name: str, existing: str, **more: Any) -> Json:
    return {"name": name, "persistentVolumeClaim": {"claimName": existing}, **more}


def empty(name: str) -> Json:
    return {"name": name, "emptyDir": {}}


def task(name: str, *uses: str | Json, **more: Any) -> Json:
    listed = [{"name": use} if isinstance(use, str) else use for use in uses]
    return {"name": name, "taskRef": {"name": name}, **({"workspaces": listed} if listed else {}), **more}


def run(
    *workspaces: Json,
    tasks: list[Json] | None = None,
    name: str = "my-pipelinerun",
    uid: str = UID,
    labels: Json | None = None,
    annotations: Json | None = None,
    status: Json | None = None,
    final: list[Json] | None = None,
    **spec: Any,
) -> Json:
    pipeline: Json = {"tasks": tasks or [task("only")]}
    if final:
        pipeline["finally"] = final
    found: Json = {
        "apiVersion": "tekton.dev/v1",
        "kind": "PipelineRun",
        "metadata": {"name": name, "namespace": NS, "uid": uid},
        "spec": {"pipelineSpec": pipeline, "workspaces": list(workspaces), **spec},
    }
    if labels:
        found["metadata"]["labels"] = labels
    if annotations:
        found["metadata"]["annotations"] = annotations
    if status is not None:
        found["status"] = status
    return found


DONE = {"conditions": [{"type": "Succeeded", "status": "True"}]}


def read(obj: Json) -> PipelineRun:
    return read_run(obj)


def planned(obj: Json, mode: str = "workspaces", *around: Json, **more: Any) -> PlacementPlan:
    flags = {"coschedule": mode, **more.pop("flags", {})}
    return plan(obj, ObjectsByKind([obj, *around]), PlannedCluster(flags=flags, **more))


def owner(uid: str = UID, name: str = "my-pipelinerun", kind: str = "PipelineRun") -> Json:
    return {"apiVersion": "tekton.dev/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def stateful_set(name: str, uid: str = "sts-1", owner_uid: str = UID, ready: bool = True) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": uid,
            "resourceVersion": "10",
            "labels": {
                "app.kubernetes.io/component": "affinity-assistant",
                "app.kubernetes.io/instance": name,
                "tekton.dev/pipelineRun": "my-pipelinerun",
            },
            "ownerReferences": [owner(owner_uid)],
        },
        "spec": {"template": {"spec": {}}},
        "status": {"readyReplicas": 1} if ready else {},
    }


def pod(name: str, node: str, uid: str = "pod-1", owner_uid: str = "sts-1", **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": uid,
            "resourceVersion": "11",
            "labels": {
                "app.kubernetes.io/component": "affinity-assistant",
                "app.kubernetes.io/instance": name.removesuffix("-0"),
                "tekton.dev/pipelineRun": "my-pipelinerun",
            },
            "ownerReferences": [{"kind": "StatefulSet", "uid": owner_uid, "controller": True}],
        },
        "spec": {"nodeName": node, **spec},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def task_pod(name: str, placeholder: str, node: str = "", complaint: str = "", phase: str = "Pending") -> Json:
    conditions = [{"type": "PodScheduled", "status": "False", "message": complaint}] if complaint else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": f"uid-{name}",
            "resourceVersion": "12",
            "labels": {"tekton.dev/pipelineRun": "my-pipelinerun"},
            "annotations": {"pipeline.tekton.dev/affinity-assistant": placeholder},
        },
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "conditions": conditions},
    }


def node(name: str, cordoned: bool = False, taints: list[Json] | None = None) -> Json:
    spec: Json = {"unschedulable": True} if cordoned else {}
    if taints:
        spec["taints"] = taints
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec}


def volume_claim(name: str, uid: str = "pvc-1", owner_uid: str | None = UID) -> Json:
    metadata: Json = {"name": name, "namespace": NS, "uid": uid, "finalizers": ["kubernetes.io/pvc-protection"]}
    if owner_uid is not None:
        metadata["ownerReferences"] = [owner(owner_uid)]
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": STORAGE}


def names(objects: list[Json]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]
