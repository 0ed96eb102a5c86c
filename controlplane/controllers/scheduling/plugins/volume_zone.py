"""VolumeZone: a pod runs in the zone and region that the labels of its bound volumes name.

In: the pod's claims, and the tables of claims, volumes and classes. Out: statuses. Ephemeral volumes are
VolumeBinding's alone."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.controllers.scheduling.framework.plugin import CycleState, FilterPlugin, Prefiltered, PreFilterPlugin
from controlplane.controllers.scheduling.framework.status import SKIP, SUCCESS, Status, unresolvable
from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import REGION, ZONE, Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.controllers.scheduling.snapshot.storage import PersistentVolume

WRONG_ZONE = unresolvable("node(s) had no available volume zone")
_OLD = {"failure-domain.beta.kubernetes.io/zone": ZONE, "failure-domain.beta.kubernetes.io/region": REGION}
_ZONE_LABELS = (*_OLD, ZONE, REGION)


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


def _volume_of(cluster: ClusterTables, namespace: str, name: str) -> PersistentVolume | str | None:
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
