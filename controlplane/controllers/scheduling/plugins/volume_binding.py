"""VolumeBinding: a pod runs where its volumes can be reached, or can be made; and it is bound once they are.

In: the pod's claims, and the tables of claims, volumes and classes. Out: statuses, and what is to be written. A bound
claim asks its volume's node affinity. One that waits for its first consumer is matched with a volume or has one made
(`matching`): Reserve reserves it, PreBind says it to the API server (`spec.claimRef` of the volume, the annotation of
the selected node on the claim), and the pod waits until the volume controller and the provisioner have done their part.
Limits: the capacity of storage that is yet to be made is not looked at, and so nothing is scored (kube-scheduler's gate
StorageCapacityScoring is off as well)."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.controllers.scheduling.binding.volume_reservations import VolumeReservation
from controlplane.controllers.scheduling.framework.args import VolumeBindingArgs
from controlplane.controllers.scheduling.framework.plugin import (
    CycleState,
    FilterPlugin,
    PluginWrites,
    PostBindPlugin,
    PreBindPlugin,
    Prefiltered,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
)
from controlplane.controllers.scheduling.framework.status import SKIP, SUCCESS, Code, Status, failed, unresolvable
from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Ints, Snapshot
from controlplane.controllers.scheduling.snapshot.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ClaimReference,
    PersistentVolume,
    StorageClass,
    VolumeClaim,
)
from controlplane.controllers.scheduling.snapshot.volume_matching import Wish, choose, wishes
from controlplane.kube.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Json, ObjectRef, Request

UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
LOST_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
_NOT_YET = Status(Code.WAIT)
_ALL_REACHED = ""


@dataclass(frozen=True, slots=True)
class _Needs:
    bound: tuple[PersistentVolume | None, ...]
    waiting: tuple[Wish, ...]


class VolumeBinding(
    PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, ReservePlugin, PreBindPlugin, PostBindPlugin
):
    """Refuses nodes from which a bound volume cannot be reached, or where a waiting claim can get none; and binds those
    that wait.
    """

    name = "VolumeBinding"
    args_type = VolumeBindingArgs

    def __init__(self, args: VolumeBindingArgs | None = None) -> None:
        super().__init__(args or VolumeBindingArgs())
        self._cluster = ClusterTables()

    def begin(self, cluster: ClusterTables) -> None:
        """Take up the volumes and reservations of a cluster."""
        self._cluster = cluster

    # ---------------------------------------------------------------- finding a node

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Prefiltered:
        """Find the pod's claims; skip a pod without any."""
        if not pod.claims:
            return Prefiltered(SKIP)
        cluster = snapshot.cluster
        claims = _claims(cluster, pod)
        if isinstance(claims, Status):
            return Prefiltered(claims)
        waiting: list[tuple[VolumeClaim, StorageClass]] = []
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
        bound = tuple(cluster.volumes.get(claim.volume) for claim in claims if claim.fully_bound)
        state.data[self.name] = _Needs(bound, wishes(cluster, waiting))
        return Prefiltered()

    def filter(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node; of the bound claims the first that keeps the pod away is told."""
        needs: _Needs = state.data[self.name]
        away = (volume for volume in needs.bound if volume is None or not volume.reachable(info.node.labels))
        first = next(away, _ALL_REACHED)
        reasons = [UNREACHABLE] if isinstance(first, PersistentVolume) else []
        if choose(needs.waiting, info.node) is None:
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

    # ---------------------------------------------------------------- the chosen node

    def reserve(self, state: CycleState, pod: Pod, node: str) -> Status:
        """Reserve for the pod's waiting claims what they get on the node; what a process before decided to write stays
        reserved.
        """
        cluster, found = self._cluster, self._cluster.nodes.get(node)
        if not pod.claims or found is None:
            return SUCCESS
        decided = _decided(state.decided, node)
        if decided is not None:
            cluster.volume_reservations.put(pod.identity, decided)
        choice = choose(wishes(cluster, self._waiting(pod)), found)
        if choice is None:
            cluster.volume_reservations.drop(pod.identity)
            return unresolvable(NO_VOLUME)
        volumes = {
            volume.name: ClaimReference(claim.namespace, claim.name, claim.uid) for claim, volume in choice.volumes
        }
        if volumes or choice.made:
            cluster.volume_reservations.put(
                pod.identity, VolumeReservation(node, volumes, frozenset(claim.place for claim in choice.made))
            )
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node: str) -> None:
        """Give the reservation back. What was written stays: the next pod with that claim goes on from there."""
        self._cluster.volume_reservations.drop(pod.identity)

    def pre_bind(self, state: CycleState, pod: Pod, node: str) -> PluginWrites:
        """Return what makes the reservation known, as far as it is not, and how long to wait until it is kept.

        Of pods that share a claim the first one writes; the others wait until that shows.
        """
        reservations = self._cluster.volume_reservations
        reservation = reservations.of(pod.identity)
        if reservation is None:
            return PluginWrites()
        requests: list[Request] = []
        for name, reference in reservation.volumes.items():
            volume = self._cluster.volumes.get(name)
            if volume is None or volume.claim not in (None, reference, reference.by_name):
                return PluginWrites(failed(f'pv "{name}" is not there for claim "{reference.name}" any more'))
            if volume.claim != reference:
                if reservations.first(name) != pod.identity:
                    return PluginWrites(_NOT_YET)
                requests.append(_claimed(volume, reference))
        for place in sorted(reservation.claims):
            claim = self._cluster.claims.get(place)
            if claim is None or claim.selected_node not in (None, node):
                return PluginWrites(failed(f'a node cannot be selected for claim "{place[1]}" any more'))
            if claim.selected_node is None:
                if reservations.first(place) != pod.identity:
                    return PluginWrites(_NOT_YET)
                requests.append(_selected(claim, node))
        return PluginWrites(requests=tuple(requests), timeout=float(self.args.bind_timeout_seconds))

    def prepared(self, state: CycleState, pod: Pod, node: str) -> Status:
        """Return whether all claims are bound, to volumes that the node reaches; an error if that will not be
        (`checkBindings`).
        """
        for name, _ in pod.claims:
            claim = self._cluster.claims.get((pod.namespace, name))
            if claim is None:
                return failed(f'persistentvolumeclaim "{name}" not found')
            status = self._bound(claim, node) if claim.volume else self._kept(claim, pod, node)
            if not status.ok:
                return status
        return SUCCESS

    def post_bind(self, state: CycleState, pod: Pod, node: str) -> None:
        """Forget the reservation: it shows."""
        self._cluster.volume_reservations.drop(pod.identity)

    def _waiting(self, pod: Pod) -> list[tuple[VolumeClaim, StorageClass]]:
        found = []
        for name, _ in pod.claims:
            claim = self._cluster.claims.get((pod.namespace, name))
            storage = self._cluster.classes.get(claim.storage_class) if claim is not None else None
            if claim is not None and storage is not None and not claim.volume:
                found.append((claim, storage))
        return found

    def _bound(self, claim: VolumeClaim, node: str) -> Status:
        volume, found = self._cluster.volumes.get(claim.volume), self._cluster.nodes.get(node)
        if volume is None or found is None or not claim.fully_bound:
            return _NOT_YET
        if not volume.reachable(found.labels):
            return failed(f'pv "{volume.name}" node affinity doesn\'t match node "{node}"')
        return SUCCESS

    def _kept(self, claim: VolumeClaim, pod: Pod, node: str) -> Status:
        """Whether what was written for a claim still stands."""
        reservation = self._cluster.volume_reservations.of(pod.identity)
        for name, reference in reservation.volumes.items() if reservation is not None else ():
            if reference.means(claim):
                volume = self._cluster.volumes.get(name)
                kept = volume is not None and volume.claim == reference
                return _NOT_YET if kept else failed(f'ClaimRef got reset for pv "{name}"')
        return _NOT_YET if claim.selected_node == node else failed(f'provisioning failed for PVC "{claim.name}"')


def _claims(cluster: ClusterTables, pod: Pod) -> list[VolumeClaim] | Status:
    """Return the pod's claims, or why one of them is no use."""
    claims: list[VolumeClaim] = []
    for name, ephemeral in pod.claims:
        claim = cluster.claims.get((pod.namespace, name))
        problem = _problem(claim, name, pod, ephemeral)
        if problem or claim is None:
            return unresolvable(problem)
        claims.append(claim)
    return claims


def _problem(claim: VolumeClaim | None, name: str, pod: Pod, ephemeral: bool) -> str:
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


def _claimed(volume: PersistentVolume, reference: ClaimReference) -> Request:
    """Return the patch that gives a volume to a claim; one that was meant for it before was not bound by a
    controller.
    """
    claim = {
        "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version,
        "kind": PERSISTENT_VOLUME_CLAIMS.kind,
        "namespace": reference.namespace,
        "name": reference.name,
        "uid": reference.uid,
    }
    body: Json = {"spec": {"claimRef": claim}}
    if volume.claim is None:
        body["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    ref = ObjectRef(PERSISTENT_VOLUMES, "", volume.name)
    return Request("patch", ref, body, uid=volume.uid, resource_version=volume.resource_version)


def _selected(claim: VolumeClaim, node: str) -> Request:
    """Return the patch that has a claim's volume made on a node."""
    ref = ObjectRef(PERSISTENT_VOLUME_CLAIMS, claim.namespace, claim.name)
    body: Json = {"metadata": {"annotations": {SELECTED_NODE: node}}}
    return Request("patch", ref, body, uid=claim.uid, resource_version=claim.resource_version)


def _decided(requests: tuple[Request, ...], node: str) -> VolumeReservation | None:
    """Return the reservation that requests of ours speak of, None if there are none."""
    volumes: dict[str, ClaimReference] = {}
    claims: set[tuple[str, str]] = set()
    for request in requests:
        if request.ref.kind == PERSISTENT_VOLUMES:
            claim = request.body["spec"]["claimRef"]
            volumes[request.ref.name] = ClaimReference(claim["namespace"], claim["name"], claim["uid"])
        elif request.ref.kind == PERSISTENT_VOLUME_CLAIMS:
            claims.add((request.ref.namespace, request.ref.name))
    return VolumeReservation(node, volumes, frozenset(claims)) if volumes or claims else None
