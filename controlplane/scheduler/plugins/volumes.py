"""VolumeBinding and VolumeZone: a pod runs where its volumes can be reached, or can be made.

In: the pod's claims, and the tables of claims, volumes and classes. A bound claim asks its volume's node affinity and its
zone labels; one that waits for its first consumer asks for a volume that fits and can be reached, or a class that
provisions on the node. Limits: capacity of storage that is yet to be provisioned is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.scheduler.args import VolumeBindingArgs
from controlplane.scheduler.cluster import Claim, Cluster, StorageClass, Volume
from controlplane.scheduler.framework import CycleState, FilterPlugin, Prefiltered, PreFilterPlugin
from controlplane.scheduler.nodeinfo import NodeInfo
from controlplane.scheduler.objects import REGION, ZONE, Node, Pod
from controlplane.scheduler.snapshot import Snapshot
from controlplane.scheduler.status import SKIP, SUCCESS, Status, unresolvable

UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
LOST_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
WRONG_ZONE = unresolvable("node(s) had no available volume zone")
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_OLD = {"failure-domain.beta.kubernetes.io/zone": ZONE, "failure-domain.beta.kubernetes.io/region": REGION}
_ZONE_LABELS = (*_OLD, ZONE, REGION)


@dataclass(frozen=True, slots=True)
class _Needs:
    bound: tuple[Volume | None, ...]
    waiting: tuple[tuple[Claim, StorageClass], ...]
    free: tuple[Volume, ...]


class VolumeBinding(PreFilterPlugin, FilterPlugin):
    """Refuses nodes from which a bound volume cannot be reached, or where a waiting claim can get none."""

    name = "VolumeBinding"
    args_type = VolumeBindingArgs

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Prefiltered:
        """Find the pod's claims; skip a pod without any."""
        if not pod.claims:
            return Prefiltered(SKIP)
        cluster = snapshot.cluster
        bound: list[Volume | None] = []
        waiting: list[tuple[Claim, StorageClass]] = []
        immediate = False
        for name, ephemeral in pod.claims:
            claim = cluster.claims.get((pod.namespace, name))
            problem = _problem(claim, name, ephemeral)
            if problem or claim is None:
                return Prefiltered(unresolvable(problem))
            storage = cluster.classes.get(claim.storage_class)
            if claim.fully_bound:
                bound.append(cluster.volumes.get(claim.volume))
            elif storage is not None and storage.waits and not claim.volume:
                waiting.append((claim, storage))
            else:
                immediate = True
        if immediate:
            return Prefiltered(unresolvable(IMMEDIATE))
        free = sorted(
            (v for v in cluster.volumes.values() if waiting), key=lambda volume: (volume.capacity, volume.name)
        )
        state.data[self.name] = _Needs(tuple(bound), tuple(waiting), tuple(free))
        return Prefiltered()

    def filter(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node."""
        needs: _Needs = state.data[self.name]
        reasons = []
        if any(volume is not None and not _reaches(info.node, volume) for volume in needs.bound):
            reasons.append(UNREACHABLE)
        if not _can_bind(needs, info.node):
            reasons.append(NO_VOLUME)
        if None in needs.bound and UNREACHABLE not in reasons:
            reasons.append(LOST_VOLUME)
        return unresolvable(*reasons) if reasons else SUCCESS


class VolumeZone(PreFilterPlugin, FilterPlugin):
    """Refuses nodes in another zone or region than the labels of a bound volume say."""

    name = "VolumeZone"

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Prefiltered:
        """Find the zones of the pod's bound volumes; skip a pod whose volumes name none."""
        cluster = snapshot.cluster
        asked: list[tuple[str, frozenset[str]]] = []
        for name, ephemeral in pod.claims:
            if ephemeral:
                continue
            found = _volume_of(cluster, pod.namespace, name)
            if isinstance(found, str):
                return Prefiltered(unresolvable(found))
            if found is not None:
                zones = ((key, found.labels[key]) for key in _ZONE_LABELS if key in found.labels)
                asked += [(key, frozenset(value.split("__"))) for key, value in zones]
        if not asked:
            return Prefiltered(SKIP)
        state.data[self.name] = asked
        return Prefiltered()

    def filter(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node; one without any zone label takes every volume."""
        labels = info.node.labels
        if not any(key in labels for key in _ZONE_LABELS):
            return SUCCESS
        asked: Sequence[tuple[str, frozenset[str]]] = state.data[self.name]
        met = (labels.get(key, labels.get(_OLD.get(key, key))) in values for key, values in asked)
        return SUCCESS if all(met) else WRONG_ZONE


def _problem(claim: Claim | None, name: str, ephemeral: bool) -> str:
    """Return why a claim keeps its pod waiting, "" if it does not."""
    if claim is None and ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if claim.lost:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume}"'
    return f'persistentvolumeclaim "{name}" is being deleted' if claim.terminating else ""


def _volume_of(cluster: Cluster, namespace: str, name: str) -> Volume | str | None:
    """Return the volume of a claim, None while it waits for its first consumer, or what is wrong."""
    claim = cluster.claims.get((namespace, name))
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if claim.volume:
        return cluster.volumes.get(claim.volume) or f'persistentvolume "{claim.volume}" not found'
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage = cluster.classes.get(claim.storage_class)
    if storage is None:
        return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
    if not storage.mode:
        return f'VolumeBindingMode not set for StorageClass "{claim.storage_class}"'
    return None if storage.waits else "PersistentVolume had no name"


def _reaches(node: Node, volume: Volume) -> bool:
    return volume.terms is None or any(term.matches(node.labels, node.name) for term in volume.terms)


def _can_bind(needs: _Needs, node: Node) -> bool:
    """Return whether every waiting claim gets a volume: the smallest that fits and is not another's, or a new one."""
    taken: set[str] = set()
    for claim, storage in sorted(needs.waiting, key=lambda pair: pair[0].request):
        fitting = _first_fitting(claim, (v for v in needs.free if v.name not in taken), node)
        if fitting is not None:
            taken.add(fitting.name)
        elif not _provisions(storage, node):
            return False
    return True


def _first_fitting(claim: Claim, volumes: Iterable[Volume], node: Node) -> Volume | None:
    place = (claim.namespace, claim.name)
    for volume in volumes:
        free = volume.claim == place or (volume.claim is None and volume.phase in ("", "Available"))
        fits = (
            volume.storage_class == claim.storage_class
            and volume.capacity >= claim.request
            and volume.modes >= claim.modes
            and volume.volume_mode == claim.volume_mode
            and claim.selector.matches(volume.labels)
        )
        if free and fits and _reaches(node, volume):
            return volume
    return None


def _provisions(storage: StorageClass, node: Node) -> bool:
    if storage.provisioner in ("", _NO_PROVISIONER):
        return False
    if not storage.topologies:
        return True
    return any(all(node.labels.get(key) in values for key, values in term) for term in storage.topologies)
