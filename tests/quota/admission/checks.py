"""A ClusterQueue with an admission check, and its answers."""

from __future__ import annotations

from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from controlplane.kube.requests import timestamp
from tests.quota.admission.scene import NS, Scene

CHECK = "prov"


def check(scene: Scene, name: str = CHECK, *, active: bool = True) -> None:
    status = {"conditions": [{"type": "Active", "status": "True" if active else "False"}]}
    scene.put(kinds.ADMISSION_CHECKS, name, spec={"controllerName": "example.com/check"}, status=status)


def checked(scene: Scene, name: str = "q", cpu: str = "10", **more: Json) -> None:
    check(scene)
    scene.queue(name, cpu, admissionChecksStrategy={"admissionChecks": [{"name": CHECK}]}, **more)


def answer(scene: Scene, name: str, state: str, **more: object) -> None:
    found = {"name": CHECK, "state": state, "message": "", "lastTransitionTime": timestamp(scene.now), **more}
    scene.put(kinds.WORKLOADS, name, NS, status={**scene.status(name), "admissionChecks": [found]})
    scene.settle()
