"""Reads what a node can have attached, and what is: CSINodes and VolumeAttachments.

In: Kubernetes objects as dicts. Out: `CSINode` and `VolumeAttachment`; a wrong type is a `PodMisfit` that names the
field."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.kube.pod_fields import Obj, items, number, section, text


@dataclass(frozen=True, slots=True)
class CSINode:
    """The drivers of a node: `limits` says how many volumes each can attach, of those that say so."""

    name: str
    limits: dict[str, int]


@dataclass(frozen=True, slots=True)
class VolumeAttachment:
    """A volume that is attached to a node, or is to be. `volume` is a PersistentVolume's name, "" if there is none."""

    name: str
    node: str
    attacher: str
    volume: str


def read_csi_node(obj: Obj, where: str) -> CSINode:
    """Return a CSINode; `PodMisfit` names the field."""
    spec = section(obj, "spec", where)
    limits: dict[str, int] = {}
    for at, driver in enumerate(items(spec, "drivers", f"{where}.spec")):
        inside = f"{where}.spec.drivers[{at}]"
        allocatable = section(driver, "allocatable", inside)
        if allocatable.get("count") is not None:
            limits[text(driver, "name", inside)] = number(allocatable, "count", f"{inside}.allocatable")
    return CSINode(text(section(obj, "metadata", where), "name", f"{where}.metadata"), limits)


def read_attachment(obj: Obj, where: str) -> VolumeAttachment:
    """Return a VolumeAttachment; `PodMisfit` names the field."""
    spec, inside = section(obj, "spec", where), f"{where}.spec"
    source = section(spec, "source", inside)
    return VolumeAttachment(
        name=text(section(obj, "metadata", where), "name", f"{where}.metadata"),
        node=text(spec, "nodeName", inside),
        attacher=text(spec, "attacher", inside),
        volume=text(source, "persistentVolumeName", f"{inside}.source"),
    )
