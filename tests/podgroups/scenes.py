"""Short spellings for the objects that the tests of this room are made of."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.podgroups.objects import OwnerFacts, OwnerReference, PodFacts
from controlplane.controllers.podgroups.ownership import Known, OwnerAnswer
from controlplane.controllers.podgroups.rules import OwnerRule, Rules
from controlplane.kube.kinds import Json

NS = "team-a"
VERSIONS = {
    "Pod": "v1",
    "Node": "v1",
    "ReplicaSet": "apps/v1",
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "Workflow": "argoproj.io/v1alpha1",
    "Widget": "example.com/v1",
}


def ref(kind: str, name: str, uid: str = "") -> OwnerReference:
    """A reference; the UID is made of the name if none is given."""
    return OwnerReference(api_version=VERSIONS[kind], kind=kind, name=name, uid=uid or f"uid-{name}")


def rules(*entries: tuple[str, int]) -> Rules:
    """Rules by kind and level."""
    return Rules(tuple(OwnerRule(api_version=VERSIONS[kind], kind=kind, adjust_level=level) for kind, level in entries))


DEFAULT = rules(("Deployment", 0), ("Job", 0), ("Workflow", -1))


def pod(controller: OwnerReference | None = None, name: str = "p", **more: Any) -> PodFacts:
    """A pod of ours."""
    fields = {"namespace": NS, "uid": f"uid-{name}", "scheduler_name": "volcano"} | more
    return PodFacts(name=name, controller=controller, **fields)


def found(
    owner: OwnerReference, controller: OwnerReference | None = None, min_member: str | None = None
) -> OwnerAnswer:
    """An owner that was read."""
    return OwnerAnswer(outcome="Found", facts=OwnerFacts(uid=owner.uid, controller=controller, min_member=min_member))


def knowing(*answers: tuple[OwnerReference, OwnerAnswer]) -> Known:
    """What is known: everything else is not there."""
    by_uid = {reference.uid: answer for reference, answer in answers}
    return lambda namespace, reference: by_uid.get(reference.uid, OwnerAnswer(outcome="NotFound"))


def chain_of(*owners: OwnerReference, min_members: dict[str, str] | None = None) -> Known:
    """A chain of owners, the pod's own first, the root last."""
    notes = min_members or {}
    above = [*owners[1:], None]
    return knowing(*((one, found(one, up, notes.get(one.name))) for one, up in zip(owners, above, strict=True)))


def owner_references(controller: OwnerReference | None, *others: OwnerReference) -> list[Json]:
    """`metadata.ownerReferences`: the controlling one, and some that are not."""
    listed = [(controller, True)] if controller else []
    return [
        {"apiVersion": one.api_version, "kind": one.kind, "name": one.name, "uid": one.uid}
        | ({"controller": True} if flag else {})
        for one, flag in [*((other, False) for other in others), *listed]
    ]


def manifest(
    reference: OwnerReference, controller: OwnerReference | None = None, *others: OwnerReference, **more: Any
) -> Json:
    """An object as an API server shows it; `notes` are annotations, the rest goes to the object."""
    notes, namespace = more.pop("notes", None), more.pop("namespace", NS)
    metadata: Json = {"name": reference.name, "uid": reference.uid, **({"namespace": namespace} if namespace else {})}
    if notes:
        metadata["annotations"] = notes
    if listed := owner_references(controller, *others):
        metadata["ownerReferences"] = listed
    metadata |= more.pop("metadata", {})
    return {"apiVersion": reference.api_version, "kind": reference.kind, "metadata": metadata, **more}


def pod_manifest(controller: OwnerReference | None = None, name: str = "p", cpu: str = "500m", **more: Any) -> Json:
    """A pod with one container, for the scheduler volcano."""
    spec = {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    spec |= more.pop("spec", {})
    return manifest(ref("Pod", name), controller, spec=spec, **more)
