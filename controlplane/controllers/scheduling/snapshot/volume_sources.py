"""Reads where the data of a volume is: a disk that a pod names itself, and what stands behind a PersistentVolume.

In: volumes of pods and of the API as dicts. Out: `InlineVolume`s, and the `VolumeSource` of a PersistentVolume. The
volumes of cloud providers that were part of Kubernetes are served by CSI drivers; under which driver and handle one
counts there is `DRIVERS` and `_handle` (kubernetes/csi-translation-lib, v0.36)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from controlplane.kube.kinds import Json
from controlplane.kube.pod_fields import Obj, flag, section, strings, text

DRIVERS = {
    "awsElasticBlockStore": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    "gcePersistentDisk": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    "cinder": ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    "azureDisk": ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    "azureFile": ("kubernetes.io/azure-file", "file.csi.azure.com"),
    "vsphereVolume": ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
    "portworxVolume": ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
}
"""For each field of a volume that a CSI driver serves today: the plugin that did before, and the driver."""

_MIGRATED = frozenset({"awsElasticBlockStore", "gcePersistentDisk", "cinder", "azureDisk", "portworxVolume"})
# Where the driver is asked on a node that has a CSINode; the two others are never counted there.
_BY_PLUGIN = {plugin: (field, driver) for field, (plugin, driver) in DRIVERS.items()}
_NAMED_BY = {
    "awsElasticBlockStore": "volumeID",
    "gcePersistentDisk": "pdName",
    "cinder": "volumeID",
    "azureDisk": "diskURI",
    "portworxVolume": "volumeID",
}
_ANYWHERE = "UNSPECIFIED"
_ZONES = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_EBS_VOLUME = re.compile("^vol-[^/]*$")


class ClaimName(NamedTuple):
    """A claim that a pod mounts; `ephemeral`: it is made for the pod, and named after it."""

    name: str
    ephemeral: bool


class CountedVolume(NamedTuple):
    """A volume as a CSI driver counts it."""

    driver: str
    handle: str


@dataclass(frozen=True, slots=True)
class InlineVolume:
    """A disk that a pod names in its spec, without a claim.

    `disk` is what makes two of one `source` the same; of RBD images also that they share a monitor. `counted` is how a
    driver counts it on a node that has a CSINode, None if none does; `problem` why that cannot be said."""

    name: str
    source: str
    disk: tuple[str, ...]
    read_only: bool
    monitors: frozenset[str] = frozenset()
    counted: CountedVolume | None = None
    problem: str = ""

    def conflicts(self, other: InlineVolume) -> bool:
        """Return whether two pods of one node cannot mount them together
        (kubernetes/kubernetes pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go, v1.36).
        """
        if self.source != other.source or self.source not in RESTRICTED or self.disk != other.disk:
            return False
        if self.source == "rbd" and not self.monitors & other.monitors:
            return False
        return self.source == "awsElasticBlockStore" or not (self.read_only and other.read_only)


RESTRICTED = frozenset({"gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"})
"""The disks of which a node mounts one only, or several for reading."""


@dataclass(frozen=True, slots=True)
class VolumeSource:
    """What stands behind a PersistentVolume. `migrated`: `counted` holds only where the node has a CSINode."""

    counted: CountedVolume | None = None
    migrated: bool = False


NOTHING_COUNTED = VolumeSource()


def read_mounts(volumes: list[Json], pod: str, where: str) -> tuple[ClaimName | InlineVolume, ...]:
    """Return the claims and disks of a pod in its own order; `PodMisfit` names the field."""
    found: list[ClaimName | InlineVolume] = []
    for at, volume in enumerate(volumes):
        inside = f"{where}.volumes[{at}]"
        if volume.get("persistentVolumeClaim") is not None:
            claim = section(volume, "persistentVolumeClaim", inside)
            found.append(ClaimName(text(claim, "claimName", f"{inside}.persistentVolumeClaim"), False))
        elif volume.get("ephemeral") is not None:
            found.append(ClaimName(f"{pod}-{text(volume, 'name', inside)}", True))
        else:
            found += [_inline(volume, source, inside) for source in _SOURCES if volume.get(source) is not None]
    return tuple(found)


_SOURCES = (*DRIVERS, "iscsi", "rbd")


def _inline(volume: Obj, source: str, where: str) -> InlineVolume:
    name, spec, inside = text(volume, "name", where), section(volume, source, where), f"{where}.{source}"
    read_only, monitors = flag(spec, "readOnly", inside), frozenset[str]()
    if source == "iscsi":
        disk: tuple[str, ...] = (text(spec, "iqn", inside),)
    elif source == "rbd":
        disk = (text(spec, "pool", inside), text(spec, "image", inside))
        monitors = frozenset(strings(spec, "monitors", inside))
    else:
        disk = (text(spec, _NAMED_BY[source], inside),) if source in _NAMED_BY else ()
    if source not in _MIGRATED:
        return InlineVolume(name, source, disk, read_only, monitors)
    handle, problem = _handle(spec, source, inside, _ANYWHERE)
    counted = None if problem else CountedVolume(DRIVERS[source][1], handle)
    return InlineVolume(name, source, disk, read_only, monitors, counted, problem)


def read_source(spec: Obj, labels: dict[str, str], where: str) -> VolumeSource:
    """Return what stands behind a PersistentVolume; `PodMisfit` names the field."""
    if spec.get("csi") is not None:
        csi, inside = section(spec, "csi", where), f"{where}.csi"
        return VolumeSource(CountedVolume(text(csi, "driver", inside), text(csi, "volumeHandle", inside)))
    for source in DRIVERS:
        if spec.get(source) is not None:
            inside = f"{where}.{source}"
            if source not in _MIGRATED:
                return NOTHING_COUNTED
            handle, problem = _handle(section(spec, source, where), source, inside, _place(labels))
            counted = None if problem else CountedVolume(DRIVERS[source][1], handle)
            return VolumeSource(counted, migrated=True)
    return NOTHING_COUNTED


def driver_of_class(provisioner: str) -> tuple[str, bool]:
    """Return the driver that makes a class's volumes, "" if none counts them, and whether only on a node that has a
    CSINode.
    """
    source, driver = _BY_PLUGIN.get(provisioner, ("", provisioner))
    if not source:
        return provisioner, False
    return (driver if source in _MIGRATED else ""), True


def _handle(spec: Obj, source: str, where: str, place: str) -> tuple[str, str]:
    """Return the handle under which a driver knows a disk, and why there is none; `place` of a GCE disk, "" if its
    labels say nothing that can be used.
    """
    disk = text(spec, _NAMED_BY[source], where)
    if source == "gcePersistentDisk":
        if not place:
            return "", "failed to get region from zones"
        return f"projects/{_ANYWHERE}/{'zones/' + place if '/' not in place else place}/disks/{disk}", ""
    if source == "azureDisk" and (kind := spec.get("kind")) is not None and str(kind).lower() != "managed":
        return "", f"kind({kind}) is not supported in csi migration"
    if source == "awsElasticBlockStore" and disk.startswith("aws://"):
        try:
            volume = urlsplit(disk).path.strip("/")
        except ValueError as error:
            return "", f"Invalid disk name ({disk}): {error}"
        return (volume, "") if _EBS_VOLUME.match(volume) else ("", f"Invalid format for AWS volume ({disk})")
    return disk, ""


def _place(labels: dict[str, str]) -> str:
    """Return where the labels of a volume say that its GCE disk is: a zone, `regions/NAME`, or "" if they contradict
    themselves.
    """
    zones = next((labels[key] for key in _ZONES if labels.get(key)), "").split("__")
    if len(zones) == 1:
        return zones[0] or _ANYWHERE
    parts = [zone.split("-") for zone in zones]
    regions = {"-".join(part[:2]) for part in parts}
    return f"regions/{regions.pop()}" if len(regions) == 1 and all(len(part) == 3 for part in parts) else ""
