"""Chooses the volume of a claim that waits for its first consumer: one that is there, or one that is made on the node.

In: a pod's waiting claims, the volumes of a cluster, what is reserved already. Out: for a node the choice, None if
there is none. What does not depend on the node is looked at once (`wishes`). Rules: `FindMatchingVolume` and
`checkVolumeProvisions` of Kubernetes' volume binder; the capacity of storage that is yet to be made is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.objects import Node
from controlplane.controllers.scheduling.snapshot.storage import PersistentVolume, StorageClass, VolumeClaim

_NO_PROVISIONER = "kubernetes.io/no-provisioner"


class Wish(NamedTuple):
    """A claim, and what it may get: only what is made on `node`, if one is selected; else the volume that is kept for
    it, and nothing besides; else any of `free`, the smallest first, or one that is made."""

    claim: VolumeClaim
    storage: StorageClass
    node: str | None
    kept: PersistentVolume | None
    free: Sequence[PersistentVolume]


class VolumeChoice(NamedTuple):
    """What a pod's claims get on a node."""

    volumes: tuple[tuple[VolumeClaim, PersistentVolume], ...] = ()
    made: tuple[VolumeClaim, ...] = ()


def wishes(cluster: ClusterTables, waiting: Iterable[tuple[VolumeClaim, StorageClass]]) -> tuple[Wish, ...]:
    """Return what the waiting claims of one pod may get, the smallest request first."""
    return tuple(_wish(cluster, *pair) for pair in sorted(waiting, key=lambda pair: pair[0].request))


def _wish(cluster: ClusterTables, claim: VolumeClaim, storage: StorageClass) -> Wish:
    selected = cluster.volume_reservations.selected(claim)
    if selected is not None:
        return Wish(claim, storage, selected, None, ())
    free: list[PersistentVolume] = []
    for volume in cluster.volumes.values():
        if not _serves(volume, claim):
            continue
        kept = cluster.volume_reservations.kept(volume)
        if kept is not None and kept.means(claim):
            return Wish(claim, storage, None, volume, ())
        if kept is None and _may_bind(volume, claim):
            free.append(volume)
    return Wish(claim, storage, None, None, sorted(free, key=lambda volume: (volume.capacity, volume.name)))


def _serves(volume: PersistentVolume, claim: VolumeClaim) -> bool:
    """Whether a volume is of the kind and the size that a claim asks for."""
    return (
        not volume.terminating
        and volume.storage_class == claim.storage_class
        and volume.attributes_class == claim.attributes_class
        and volume.capacity >= claim.request
        and volume.volume_mode == claim.volume_mode
    )


def _may_bind(volume: PersistentVolume, claim: VolumeClaim) -> bool:
    """Whether a volume that nobody has may be bound to a claim."""
    available = volume.phase == "Available" and volume.modes >= claim.modes
    return available and claim.selector.matches(volume.labels)


def choose(wanted: Sequence[Wish], node: Node) -> VolumeChoice | None:
    """Return what every claim gets on a node, None if one gets nothing."""
    if any(wish.node not in (None, node.name) for wish in wanted):
        return None
    volumes: list[tuple[VolumeClaim, PersistentVolume]] = []
    made: list[VolumeClaim] = []
    taken: set[str] = set()
    for wish in wanted:
        options = (wish.kept,) if wish.kept is not None else wish.free
        fitting = (volume for volume in options if volume.name not in taken and volume.reachable(node.labels))
        found = next(fitting, None)
        if found is not None:
            taken.add(found.name)
            volumes.append((wish.claim, found))
        elif _provisions(wish.storage, node):
            made.append(wish.claim)
        else:
            return None
    return VolumeChoice(tuple(volumes), tuple(made))


def _provisions(storage: StorageClass, node: Node) -> bool:
    if storage.provisioner in ("", _NO_PROVISIONER):
        return False
    if not storage.topologies:
        return True
    terms = (term for term in storage.topologies if term)
    return any(all(node.labels.get(key) in values for key, values in term) for term in terms)
