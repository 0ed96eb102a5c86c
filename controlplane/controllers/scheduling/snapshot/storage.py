"""Reads volumes, claims and storage classes as VolumeBinding and VolumeZone look at them.

In: Kubernetes objects as dicts. Out: `PersistentVolume`, `VolumeClaim`, `StorageClass`; a wrong type is a `PodMisfit`
that names the field. The old annotation of a class is read as kube-scheduler reads it: it goes before the field."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.controllers.scheduling.snapshot.volume_sources import NOTHING_COUNTED, VolumeSource, read_source
from controlplane.kube.pod_fields import (
    Obj,
    PodMisfit,
    flag,
    items,
    section,
    string_map,
    strings,
    text,
)
from controlplane.kube.quantities import nanos
from controlplane.kube.selectors import EVERYTHING, NOTHING, InvalidSelector, LabelSelector, NodeTerm, label_selector
from controlplane.kube.selectors import node_terms as parse_terms
from controlplane.kube.well_known import BIND_COMPLETED

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """The claim that a volume is for; an empty `uid` means any claim of that name."""

    namespace: str
    name: str
    uid: str

    @property
    def by_name(self) -> ClaimReference:
        """The same without a UID, as people write it."""
        return ClaimReference(self.namespace, self.name, "")

    def means(self, claim: VolumeClaim) -> bool:
        """Return whether it names a claim."""
        return (self.namespace, self.name) == (claim.namespace, claim.name) and self.uid in ("", claim.uid)


@dataclass(frozen=True, slots=True)
class PersistentVolume:
    """A PersistentVolume; `terms` None: reachable from every node. `capacity` in billionths of a byte."""

    name: str
    labels: dict[str, str]
    terms: tuple[NodeTerm, ...] | None
    storage_class: str
    attributes_class: str
    capacity: int
    modes: frozenset[str]
    volume_mode: str
    claim: ClaimReference | None
    phase: str
    terminating: bool
    uid: str = ""
    resource_version: str = ""
    source: VolumeSource = NOTHING_COUNTED

    def reachable(self, labels: dict[str, str]) -> bool:
        """Return whether a node with these labels reaches it. Only labels are looked at: kube-scheduler leaves
        `matchFields` out here.
        """
        if self.terms is None:
            return True
        return any(not term.error and all(one.matches(labels) for one in term.labels) for term in self.terms)


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim. `fully_bound` once the binding is complete; `selected_node` once it is to be provisioned
    for one node.

    `owner` is the UID of the object that controls it, "" if none does.
    """

    namespace: str
    name: str
    uid: str
    volume: str
    fully_bound: bool
    selected_node: str | None
    storage_class: str
    attributes_class: str
    request: int
    modes: frozenset[str]
    volume_mode: str
    selector: LabelSelector
    lost: bool
    terminating: bool
    owner: str
    resource_version: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A StorageClass: who provisions, when it binds, and on which nodes (none given: all)."""

    name: str
    provisioner: str
    mode: str
    topologies: tuple[tuple[tuple[str, frozenset[str]], ...], ...]

    @property
    def waits(self) -> bool:
        """Whether a claim is bound only when a pod needs it."""
        return self.mode == "WaitForFirstConsumer"


def read_volume(obj: Obj, where: str) -> PersistentVolume:
    """Return a PersistentVolume; `PodMisfit` names the field."""
    meta, spec = section(obj, "metadata", where), section(obj, "spec", where)
    inside = f"{where}.spec"
    affinity = section(spec, "nodeAffinity", inside)
    required = section(affinity, "required", f"{inside}.nodeAffinity")
    listed = items(required, "nodeSelectorTerms", f"{inside}.nodeAffinity.required")
    claim = section(spec, "claimRef", inside)
    at = f"{inside}.claimRef"
    reference = ClaimReference(text(claim, "namespace", at), text(claim, "name", at), text(claim, "uid", at))
    labels = string_map(meta, "labels", where)
    return PersistentVolume(
        name=text(meta, "name", where),
        labels=labels,
        terms=None if affinity.get("required") is None else parse_terms(listed, inside),
        storage_class=_class_of(meta, spec, where),
        attributes_class=text(spec, "volumeAttributesClassName", inside),
        capacity=_storage(section(spec, "capacity", inside), f"{inside}.capacity"),
        modes=frozenset(strings(spec, "accessModes", inside)),
        volume_mode=text(spec, "volumeMode", inside) or "Filesystem",
        claim=reference if claim else None,
        phase=text(section(obj, "status", where), "phase", f"{where}.status"),
        terminating=bool(text(meta, "deletionTimestamp", where)),
        uid=text(meta, "uid", f"{where}.metadata"),
        resource_version=text(meta, "resourceVersion", f"{where}.metadata"),
        source=read_source(spec, labels, inside),
    )


def read_claim(obj: Obj, where: str) -> VolumeClaim:
    """Return a PersistentVolumeClaim; `PodMisfit` names the field."""
    meta, spec = section(obj, "metadata", where), section(obj, "spec", where)
    inside, annotations = f"{where}.spec", section(meta, "annotations", where)
    asked = section(section(spec, "resources", inside), "requests", f"{inside}.resources")
    volume = text(spec, "volumeName", inside)
    owners = items(meta, "ownerReferences", where)
    controlling = (text(o, "uid", f"{where}.ownerReferences") for o in owners if flag(o, "controller", where))
    return VolumeClaim(
        namespace=text(meta, "namespace", f"{where}.metadata"),
        name=text(meta, "name", f"{where}.metadata"),
        uid=text(meta, "uid", f"{where}.metadata"),
        volume=volume,
        fully_bound=bool(volume) and BIND_COMPLETED in annotations,
        selected_node=text(annotations, SELECTED_NODE, where) if SELECTED_NODE in annotations else None,
        storage_class=_class_of(meta, spec, where),
        attributes_class=text(spec, "volumeAttributesClassName", inside),
        request=_storage(asked, f"{inside}.resources.requests"),
        modes=frozenset(strings(spec, "accessModes", inside)),
        volume_mode=text(spec, "volumeMode", inside) or "Filesystem",
        selector=_selector(spec, inside),
        lost=text(section(obj, "status", where), "phase", f"{where}.status") == "Lost",
        terminating=bool(text(meta, "deletionTimestamp", where)),
        owner=next(controlling, ""),
        resource_version=text(meta, "resourceVersion", f"{where}.metadata"),
    )


def read_class(obj: Obj, where: str) -> StorageClass:
    """Return a StorageClass; `PodMisfit` names the field."""
    topologies = []
    for at, term in enumerate(items(obj, "allowedTopologies", where)):
        inside = f"{where}.allowedTopologies[{at}]"
        labels = items(term, "matchLabelExpressions", inside)
        topologies.append(tuple((text(e, "key", inside), frozenset(strings(e, "values", inside))) for e in labels))
    name = text(section(obj, "metadata", where), "name", f"{where}.metadata")
    mode = text(obj, "volumeBindingMode", where)
    return StorageClass(name, text(obj, "provisioner", where), mode, tuple(topologies))


def _class_of(meta: Obj, spec: Obj, where: str) -> str:
    annotations = section(meta, "annotations", where)
    if OLD_CLASS in annotations:
        return text(annotations, OLD_CLASS, f"{where}.metadata.annotations")
    return text(spec, "storageClassName", f"{where}.spec")


def _selector(spec: Obj, where: str) -> LabelSelector:
    if spec.get("selector") is None:
        return EVERYTHING
    try:
        return label_selector(section(spec, "selector", where), f"{where}.selector")
    except InvalidSelector:
        return NOTHING


def _storage(amounts: Obj, where: str) -> int:
    found = amounts.get("storage")
    if found is None:
        return 0
    try:
        return nanos(found)
    except ValueError as error:
        raise PodMisfit(f"{where}.storage", str(error)) from error
