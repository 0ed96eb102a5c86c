"""VolumeRestrictions: a disk is mounted by one pod of a node, and a claim that is for one pod by one pod of the cluster
(kubernetes/kubernetes pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go, v1.36).

In: the disks and claims of a pod, those of the pods on nodes, the table of claims. Out: statuses. Preemption may help
against both: the pods that mount the disk, or the one that has the claim, may go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.controllers.scheduling.framework.plugin import CycleState, FilterPlugin, Prefiltered, PreFilterPlugin
from controlplane.controllers.scheduling.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.controllers.scheduling.snapshot.volume_sources import RESTRICTED, InlineVolume

DISK_TAKEN = unschedulable("node(s) had no available disk")
CLAIM_TAKEN = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
ONE_POD = "ReadWriteOncePod"


@dataclass(slots=True)
class _Taken:
    """The pod's claims for one pod, and how many of them pods on nodes have; the latter moves in dry runs."""

    claims: frozenset[str]
    users: int

    def clone(self) -> _Taken:
        return _Taken(self.claims, self.users)

    def move(self, other: Pod, step: int) -> None:
        self.users += step * sum(name in self.claims for name, ephemeral in other.claims if not ephemeral)


class VolumeRestrictions(PreFilterPlugin, FilterPlugin):
    """Refuses nodes where a disk of the pod is mounted already, and every node while a claim for one pod is in use."""

    name = "VolumeRestrictions"

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Prefiltered:
        """Count the pods that have a claim of this one; skip a pod for which nothing is restricted."""
        alone = set()
        for name, ephemeral in pod.claims:
            if ephemeral:
                continue
            claim = snapshot.cluster.claims.get((pod.namespace, name))
            if claim is None:
                return Prefiltered(unresolvable(f'persistentvolumeclaim "{name}" not found'))
            if ONE_POD in claim.modes:
                alone.add(name)
        taken = _Taken(frozenset(alone), sum((pod.namespace, name) in snapshot.users for name in alone))
        if not taken.users and not _disks(pod):
            return Prefiltered(SKIP)
        state.data[self.name] = taken
        return Prefiltered()

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, info: NodeInfo) -> Status:
        """Count a pod's use of the claims in."""
        state.data[self.name].move(added, 1)
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, info: NodeInfo) -> Status:
        """Count a pod's use of the claims out."""
        state.data[self.name].move(removed, -1)
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node."""
        if disks_conflict(pod, info.pods.values()):
            return DISK_TAKEN
        taken: _Taken = state.data[self.name]
        return CLAIM_TAKEN if taken.users > 0 else SUCCESS


def disks_conflict(pod: Pod, others: Iterable[Pod]) -> bool:
    """Return whether a pod cannot mount its disks where others mount theirs."""
    mine = _disks(pod)
    return bool(mine) and any(one.conflicts(other) for pod_ in others for other in _disks(pod_) for one in mine)


def _disks(pod: Pod) -> list[InlineVolume]:
    return [one for one in pod.mounts if isinstance(one, InlineVolume) and one.source in RESTRICTED]
