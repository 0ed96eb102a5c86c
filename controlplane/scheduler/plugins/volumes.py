"""VolumeBinding and VolumeZone: a pod runs where its volumes can be reached, or can be made.

In: the pod's claims, and the tables of claims, volumes and classes. A bound claim asks its volume's node affinity and its
zone labels; one that waits for its first consumer asks for a volume that fits and can be reached, or a class that
provisions on the node. Limits: capacity of storage that is yet to be provisioned is not looked at, and so nothing is scored
(kube-scheduler's gate StorageCapacityScoring is off as well).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.scheduler.args import VolumeBindingArgs
from controlplane.scheduler.cluster import Cluster
from controlplane.scheduler.framework import (
    CycleState,
    FilterPlugin,
    Prefiltered,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from controlplane.scheduler.nodeinfo import NodeInfo
from controlplane.scheduler.objects import REGION, ZONE, Node, Pod
from controlplane.scheduler.snapshot import Ints, Snapshot
from controlplane.scheduler.status import SKIP, SUCCESS, Status, failed, unresolvable
from controlplane.scheduler.storage import Claim, StorageClass, Volume

UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
LOST_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
WRONG_ZONE = unresolvable("node(s) had no available volume zone")
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_OLD = {"failure-domain.beta.kubernetes.io/zone": ZONE, "failure-domain.beta.kubernetes.io/region": REGION}
_ZONE_LABELS = (*_OLD, ZONE, REGION)
_ALL_REACHED = ""


@dataclass(frozen=True, slots=True)
class _Needs:
    bound: tuple[Volume | None, ...]
    waiting: tuple[tuple[Claim, StorageClass], ...]
    free: tuple[Volume, ...]


class VolumeBinding(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Refuses nodes from which a bound volume cannot be reached, or where a waiting claim can get none."""

    name = "VolumeBinding"
    args_type = VolumeBindingArgs

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Prefiltered:
        """Find the pod's claims; skip a pod without any."""
        if not pod.claims:
            return Prefiltered(SKIP)
        cluster = snapshot.cluster
        claims: list[Claim] = []
        for name, ephemeral in pod.claims:
            claim = cluster.claims.get((pod.namespace, name))
            problem = _problem(claim, name, pod, ephemeral)
            if problem or claim is None:
                return Prefiltered(unresolvable(problem))
            claims.append(claim)
        waiting: list[tuple[Claim, StorageClass]] = []
        immediate = False
        for claim in claims:
            storage = cluster.classes.get(claim.storage_class)
            if claim.fully_bound:
                continue
            if storage is not None and not storage.mode:
                return Prefiltered(failed(f'VolumeBindingMode not set for StorageClass "{storage.name}"'))
            if storage is not None and storage.waits and not claim.volume:
                waiting.append((claim, storage))
            else:
                immediate = True
        if immediate:
            return Prefiltered(unresolvable(IMMEDIATE))
        free = [volume for volume in cluster.volumes.values() if waiting and not volume.terminating]
        bound = tuple(cluster.volumes.get(claim.volume) for claim in claims if claim.fully_bound)
        state.data[self.name] = _Needs(bound, tuple(waiting), tuple(free))
        return Prefiltered()

    def filter(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node; of the bound claims the first that keeps the pod away is told."""
        needs: _Needs = state.data[self.name]
        away = (volume for volume in needs.bound if volume is None or not volume.reachable(info.node.labels))
        first = next(away, _ALL_REACHED)
        reasons = [UNREACHABLE] if isinstance(first, Volume) else []
        if not _can_bind(needs, info.node):
            reasons.append(NO_VOLUME)
        if first is None:
            reasons.append(LOST_VOLUME)
        return unresolvable(*reasons) if reasons else SUCCESS

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Status:
        """Skip: storage capacity is not scored."""
        return SKIP

    def score(self, state: CycleState, pod: Pod, info: NodeInfo) -> int:
        """Return 0 for any node, as where the capacity of storage is not looked at."""
        return 0


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
                zones = ((key, _zones(found.labels[key])) for key in _ZONE_LABELS if key in found.labels)
                asked += [(key, values) for key, values in zones if values]
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


def _zones(value: str) -> frozenset[str]:
    """Return the zones that a volume's label lists; none if one of them is empty, since the label is then ignored."""
    found = [zone.strip() for zone in value.split("__")]
    return frozenset(found) if all(found) else frozenset()


def _problem(claim: Claim | None, name: str, pod: Pod, ephemeral: bool) -> str:
    """Return why a claim keeps its pod waiting, "" if it does not."""
    if claim is None and ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if claim.lost:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume}"'
    if claim.terminating:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if ephemeral and claim.owner != pod.uid:
        return f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.key} (pod is not owner)"
    return ""


def _volume_of(cluster: Cluster, namespace: str, name: str) -> Volume | str | None:
    """Return the volume of a claim, None while it waits for its first consumer, or what is wrong."""
    if not name:
        return "PersistentVolumeClaim had no name"
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


def _can_bind(needs: _Needs, node: Node) -> bool:
    """Return whether every waiting claim gets a volume: the smallest that fits and is not another's, or a new one.

    A claim for which a node is selected is provisioned there, and nowhere else.
    """
    if any(claim.selected_node not in (None, node.name) for claim, _ in needs.waiting):
        return False
    taken: set[str] = set()
    for claim, storage in sorted(needs.waiting, key=lambda pair: pair[0].request):
        fitting = None
        if claim.selected_node is None:
            fitting = _fitting(claim, [volume for volume in needs.free if volume.name not in taken], node)
        if fitting is not None:
            taken.add(fitting.name)
        elif not _provisions(storage, node):
            return False
    return True


def _fitting(claim: Claim, volumes: Sequence[Volume], node: Node) -> Volume | None:
    """Return the volume that is promised to a claim, or else the smallest that anyone may have."""
    wide = [
        volume
        for volume in volumes
        if volume.storage_class == claim.storage_class
        and volume.attributes_class == claim.attributes_class
        and volume.capacity >= claim.request
        and volume.volume_mode == claim.volume_mode
    ]
    promised = next((volume for volume in wide if volume.meant_for(claim)), None)
    if promised is not None:
        return promised if promised.reachable(node.labels) else None
    free = (
        volume
        for volume in wide
        if volume.claim is None
        and volume.phase == "Available"
        and claim.selector.matches(volume.labels)
        and volume.modes >= claim.modes
        and volume.reachable(node.labels)
    )
    return min(free, key=lambda volume: (volume.capacity, volume.name), default=None)


def _provisions(storage: StorageClass, node: Node) -> bool:
    if storage.provisioner in ("", _NO_PROVISIONER):
        return False
    if not storage.topologies:
        return True
    terms = (term for term in storage.topologies if term)
    return any(all(node.labels.get(key) in values for key, values in term) for term in terms)
