"""Scenes of devices, templates of claims, and Workloads that ask for some."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.devices.model import (
    CounterSource,
    DeviceMapping,
    DeviceRules,
)
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind
from controlplane.log.event import NewEvent
from tests.quota.admission.placed import sees
from tests.quota.admission.scene import NS, Scene

TEMPLATES, CLASSES, SLICES = kinds.RESOURCE_CLAIM_TEMPLATES, kinds.DEVICE_CLASSES, kinds.RESOURCE_SLICES
WHOLE = DeviceMapping("gpus", ("gpu.example.com",))
MEMORY = DeviceMapping(
    "gpu.memory",
    ("mig.example.com",),
    (CounterSource("gpu.memory", "gpu.example.com", "memory", "device.driver == 'gpu.example.com'"),),
)
RULES = DeviceRules.of([WHOLE, MEMORY])


def with_devices(rules: DeviceRules = RULES, *seen: Kind, resource: str = "gpus", quota: str = "4") -> Scene:
    """A ClusterQueue of a resource that devices count as."""
    scene = sees(Scene(devices=rules), *(seen or (TEMPLATES, CLASSES, SLICES)))
    of = {
        "name": "default",
        "resources": [{"name": "cpu", "nominalQuota": "10"}, {"name": resource, "nominalQuota": quota}],
    }
    scene.queue("q", resourceGroups=[{"coveredResources": ["cpu", resource], "flavors": [of]}])
    return scene


def template(
    scene: Scene, name: str = "t", device_class: str = "gpu.example.com", count: int = 1, **asked: Any
) -> None:
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count, **asked}
    spec = {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    scene.put(TEMPLATES, name, NS, spec=spec)


def selecting(expression: str) -> Json:
    return {"selectors": [{"cel": {"expression": expression}}]}


def slice_of(scene: Scene, memory: str = "10Gi", name: str = "s", **pool: Any) -> None:
    device = {
        "name": "d0",
        "attributes": {"type": {"string": "mig"}},
        "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": memory}}}],
    }
    in_pool = {"name": "p", "generation": 1, "resourceSliceCount": 1, **pool}
    scene.put(SLICES, name, spec={"driver": "gpu.example.com", "pool": in_pool, "devices": [device]})


def submit(scene: Scene, name: str = "a", *templates: str, count: int = 1, asks: Json | None = None) -> None:
    claims = [{"name": one, "resourceClaimTemplateName": one} for one in templates or ("t",)]
    pod(scene, name, {"resourceClaims": claims}, count=count, asks=asks)


def pod(scene: Scene, name: str, spec: Json, count: int = 1, asks: Json | None = None) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "1", **(asks or {})}}}
    of = {"name": "main", "count": count, "template": {"spec": {"containers": [container], **spec}}}
    scene.workload(name, "q", podSets=[of])


def used(scene: Scene, name: str = "a") -> Json | None:
    found = scene.status(name).get("admission")
    return dict(found["podSetAssignments"][0]["resourceUsage"]) if found else None


def told(scene: Scene, name: str = "a") -> tuple[str, str]:
    found = scene.condition(name, "QuotaReserved")
    return found.get("reason", ""), found.get("message", "")


def turned_off(scene: Scene, *seen: Kind) -> Scene:
    """Kinds that the cluster does not serve."""
    for kind in seen:
        event = connectivity.KindOff(kind=kind.name, reason="NotServed", message=f"{kind.name} is not served there")
        scene.record(NewEvent(stream=connectivity.cluster_stream(MANAGEMENT), event=event, cluster=MANAGEMENT))
    return scene


def needs(scene: Scene) -> tuple[Kind, ...]:
    return scene.controller.index.followed
