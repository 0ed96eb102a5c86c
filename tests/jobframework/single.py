"""A single pod with a queue, while it waits and while it runs."""

from __future__ import annotations

from typing import Any

from controlplane.job_kinds.pod import Pod
from controlplane.kube.kinds import PODS, Json, meta
from tests.jobframework.scene import NS, QUEUE, Scene, pod_template

GATE = "kueue.x-k8s.io/admission"
GATES = [{"name": GATE}, {"name": "kueue.x-k8s.io/topology"}]


def plain_pod(name: str = "a", *, labels: Json | None = None, annotations: Json | None = None, **spec: Any) -> Json:
    metadata = {"namespace": NS, "name": name, "labels": {"kueue.x-k8s.io/queue-name": QUEUE, **(labels or {})}}
    return {"metadata": {**metadata, "annotations": annotations or {}}, "spec": pod_template(**spec)["spec"]}


def pod(name: str = "a", **more: Any) -> Json:
    """A pod as the webhook has it created."""
    return Pod().submitted(plain_pod(name, **more))


def get(scene: Scene, name: str = "a") -> Json:
    return scene.store.get(PODS, NS, name)


def is_there(scene: Scene, name: str = "a") -> bool:
    return any(meta(one)["name"] == name for one in scene.store.list(PODS)[0])


def runs(scene: Scene, name: str = "a", phase: str = "Running", **status: Any) -> None:
    """What the scheduler and the kubelet do with a pod that has no gates."""
    found = get(scene, name)
    assert not found["spec"].get("schedulingGates")
    if "nodeName" not in found["spec"]:
        scene.store.patch(PODS, NS, name, {"spec": {"nodeName": "node-1"}})
    scene.store.patch(PODS, NS, name, {"status": {"phase": phase, **status}}, subresource="status")


def stopped(scene: Scene, name: str = "a") -> None:
    """The kubelet says that a pod that is being deleted has stopped."""
    scene.store.delete(PODS, NS, name, grace=0) if is_there(scene, name) else None


def admitted(**more: Any) -> Scene:
    scene = Scene()
    scene.flavor(**more)
    scene.create(pod(), PODS)
    scene.settle()
    scene.admit()
    scene.settle()
    runs(scene)
    scene.settle()
    return scene
