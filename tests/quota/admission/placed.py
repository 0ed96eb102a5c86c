"""Scenes of nodes, pods and Workloads that are placed on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind
from controlplane.kube.topologies import domains_of
from controlplane.log.event import NewEvent
from tests.quota.admission.scene import NS, Scene, quota

RACK, HOST = "example.com/rack", "kubernetes.io/hostname"
ALL = (kinds.TOPOLOGIES, kinds.NODES, kinds.PODS_OF_TOPOLOGIES)
IN_USE = "kueue.x-k8s.io/resource-in-use"


def sees(scene: Scene, *seen: Kind) -> Scene:
    """Have kinds in view besides."""
    for kind in seen or ALL:
        event = connectivity.KindSynced(kind=kind.name, count=0, resource_version="1")
        scene.record(NewEvent(stream=connectivity.cluster_stream(MANAGEMENT), event=event, cluster=MANAGEMENT))
    return scene


def node(scene: Scene, name: str, rack: str = "r1", cpu: str = "4", *, ready: bool = True, **spec: Any) -> Json:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"allocatable": {"cpu": cpu, "pods": "10"}, "conditions": conditions}
    labels = {RACK: rack, HOST: name, "pool": "gpu"}
    return scene.put(kinds.NODES, name, metadata={"labels": labels}, spec=spec, status=status)


def pod(scene: Scene, name: str, on: str = "n1", cpu: str = "1", phase: str = "Running", **notes: str) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": on} if on else {})}
    return scene.put(
        kinds.PODS_OF_TOPOLOGIES, name, NS, metadata={"annotations": notes}, spec=spec, status={"phase": phase}
    )


def with_topology(*nodes: tuple[str, str, str], flavor: str = "gpu", cpu: str = "100", **queue: Any) -> Scene:
    """A ClusterQueue of a flavor with racks and nodes."""
    return have_topology(Scene(), *nodes, flavor=flavor, cpu=cpu, **queue)


def have_topology(
    scene: Scene, *nodes: tuple[str, str, str], flavor: str = "gpu", cpu: str = "100", **queue: Any
) -> Scene:
    sees(scene)
    scene.put(kinds.TOPOLOGIES, "racks", spec={"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]})
    scene.put(kinds.RESOURCE_FLAVORS, flavor, spec={"nodeLabels": {"pool": "gpu"}, "topologyName": "racks"})
    scene.queue("q", **{"resourceGroups": [quota(cpu, flavor)], **queue})
    for name, rack, of_cpu in nodes:
        node(scene, name, rack, of_cpu)
    scene.settle()
    return scene


def submit(scene: Scene, name: str, count: int = 2, cpu: str = "1", **request: Any) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    one = {"name": "main", "count": count, "template": {"spec": {"containers": [container]}}}
    scene.workload(name, "q", podSets=[{**one, "topologyRequest": request or {"required": RACK}}])


def given(scene: Scene, name: str) -> Json:
    (found,) = scene.status(name)["admission"]["podSetAssignments"]
    return dict(found)


def places(scene: Scene, name: str) -> dict[str, int]:
    return {values[-1]: count for values, count in domains_of(given(scene, name)["topologyAssignment"])}


def wanted(scene: Scene) -> Sequence[Kind]:
    return scene.controller.index.needs
