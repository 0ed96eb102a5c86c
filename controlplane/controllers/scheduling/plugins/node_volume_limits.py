"""NodeVolumeLimits: a node attaches no more volumes of a CSI driver than its CSINode says
(kubernetes/kubernetes pkg/scheduler/framework/plugins/nodevolumelimits/csi.go, v1.36).

In: the claims and disks of a pod and of those on a node, the tables of claims, volumes, classes, CSINodes and
VolumeAttachments. Out: statuses. A volume counts once, however many pods mount it; one that is yet to be made counts as
one of its class's driver. What is still attached and mounted by nobody counts too. kube-scheduler's gate
VolumeLimitScaling is off, so a node without the driver's CSINode entry has no limit."""

from __future__ import annotations

from controlplane.controllers.scheduling.framework.plugin import CycleState, FilterPlugin, Prefiltered, PreFilterPlugin
from controlplane.controllers.scheduling.framework.status import (
    SKIP,
    SUCCESS,
    Status,
    failed,
    unresolvable,
    unschedulable,
)
from controlplane.controllers.scheduling.snapshot.attachments import CSINode
from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.controllers.scheduling.snapshot.storage import VolumeClaim
from controlplane.controllers.scheduling.snapshot.volume_sources import (
    DRIVERS,
    ClaimName,
    CountedVolume,
    driver_of_class,
)

TOO_MANY = unschedulable("node(s) exceed max volume count")


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin):
    """Refuses nodes that would have more volumes of a driver than they can attach."""

    name = "NodeVolumeLimits"

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Prefiltered:
        """Skip a pod that has neither a claim nor a disk that a CSI driver serves."""
        if not attaches(pod):
            return Prefiltered(SKIP)
        wanted = {there: _wanted(snapshot.cluster, pod, there) for there in (False, True)}
        state.data[self.name] = snapshot.cluster, wanted
        return Prefiltered()

    def filter(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node."""
        cluster: ClusterTables
        asked: dict[bool, tuple[Status, set[CountedVolume]]]
        cluster, asked = state.data[self.name]
        csi_node = cluster.csi_nodes.get(info.node.name)
        status, wanted = asked[csi_node is not None]
        if not status.ok or not wanted or csi_node is None or not csi_node.limits:
            return status
        mounted: set[CountedVolume] = set()
        counted = (
            _count(cluster, other, True, mounted, incoming=False) for other in info.pods.values() if other.mounts
        )
        if (wrong := next((status for status in counted if not status.ok), None)) is not None:
            return wrong
        there = mounted | _attached(cluster, info.node.name)
        return TOO_MANY if _too_many(csi_node, there, wanted - mounted) else SUCCESS


def _too_many(csi_node: CSINode, there: set[CountedVolume], more: set[CountedVolume]) -> bool:
    """Return whether a node that holds some volumes cannot attach some more of their drivers."""
    limits = {one.driver: csi_node.limits[one.driver] for one in more if one.driver in csi_node.limits}
    held = [one.driver for one in (*there, *more)]
    return any(held.count(driver) > limit for driver, limit in limits.items())


def attaches(pod: Pod) -> bool:
    """Return whether a pod has a claim, or a disk that a CSI driver serves."""
    return any(isinstance(one, ClaimName) or one.source in DRIVERS for one in pod.mounts)


def _wanted(cluster: ClusterTables, pod: Pod, migrated: bool) -> tuple[Status, set[CountedVolume]]:
    """Return what an incoming pod wants attached, which depends on a node only in whether it has a CSINode."""
    found: set[CountedVolume] = set()
    return _count(cluster, pod, migrated, found, incoming=True), found


def _count(cluster: ClusterTables, pod: Pod, migrated: bool, found: set[CountedVolume], *, incoming: bool) -> Status:
    """Add the volumes of a pod; `migrated`: its node has a CSINode. Only the incoming pod needs all of its claims."""
    for one in pod.mounts:
        if not isinstance(one, ClaimName):
            if migrated and one.problem:
                return failed(f"converting volume({one.name}) from inline to csi: {one.problem}")
            if migrated and one.counted is not None:
                found.add(one.counted)
            continue
        if not one.name:
            return failed("PersistentVolumeClaim had no name")
        claim = cluster.claims.get((pod.namespace, one.name))
        if claim is None:
            if incoming:
                where = f"{pod.namespace}/{one.name}"
                return unresolvable(f'looking up PVC {where}: persistentvolumeclaim "{one.name}" not found')
            continue
        if one.ephemeral and claim.owner != pod.uid:
            return failed(f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.key} (pod is not owner)")
        volume = _volume_of(cluster, claim, migrated)
        if volume is not None and volume.driver and volume.handle:
            found.add(volume)
    return SUCCESS


def _volume_of(cluster: ClusterTables, claim: VolumeClaim, migrated: bool) -> CountedVolume | None:
    """Return how a claim's volume counts, None if it does not; a volume that is not there as one that is yet to be
    made.
    """
    volume = cluster.volumes.get(claim.volume) if claim.volume else None
    if volume is not None:
        return None if volume.source.migrated and not migrated else volume.source.counted
    storage = cluster.classes.get(claim.storage_class) if claim.storage_class else None
    if storage is None:
        return None
    driver, as_migrated = driver_of_class(storage.provisioner)
    if as_migrated and not migrated:
        return None
    return CountedVolume(driver, f"not made yet: {claim.namespace}/{claim.name}")


def _attached(cluster: ClusterTables, node: str) -> set[CountedVolume]:
    """Return what is attached to a node, or is to be, as far as its volumes are a CSI driver's own."""
    found = set()
    for one in cluster.attachments.get(node, {}).values():
        volume = cluster.volumes.get(one.volume) if one.attacher and one.volume else None
        if volume is not None and volume.source.counted is not None and not volume.source.migrated:
            found.add(CountedVolume(one.attacher, volume.source.counted.handle))
    return found
