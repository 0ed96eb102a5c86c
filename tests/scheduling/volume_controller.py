"""The volume controller of a simulated cluster and its provisioners: claims get volumes, and volumes go with their
claims.

In: PersistentVolumes, claims, classes. Out: what `pkg/controller/volume/persistentvolume` and an external provisioner
write, as far as a scheduler waits for it. A volume without a claim is Available. One that names a claim is bound to it,
both ways. A claim whose class has a provisioner gets a volume that is made: at once, or, where the class waits for the
first consumer, once a node is selected for it; that volume is reached from the node's zone, or from the node alone
where it has no zone. A claim that goes leaves its volume Released, or takes it along. A claim whose annotation says so
gets none: then the node is unselected, as provisioners do to have another one chosen."""

from __future__ import annotations

from datetime import timedelta

from controlplane.clock import Clock
from controlplane.kube.kinds import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Json,
    Kind,
    meta,
)
from controlplane.simulation.controllers.behaviour import Behaviour, Key, View, place_of
from controlplane.simulation.controllers.jobs import OUTCOME

CLAIMS, VOLUMES, CLASSES = PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
VOLUME_KINDS: tuple[Kind, ...] = (CLAIMS, VOLUMES, CLASSES, NODES)
"""What its view has to show."""

_COMPLETED, _BY_CONTROLLER = "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_SELECTED = "volume.kubernetes.io/selected-node"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


class Volumes(Behaviour):
    """Binds and makes the volumes of one cluster. `making` is how long a provisioner takes."""

    def __init__(self, name: str, view: View, clock: Clock, making: timedelta = timedelta(0)) -> None:
        super().__init__(name, clock)
        self._view, self._store, self._making = view, view.store, making
        self._asked: dict[str, float] = {}  # a claim's UID → when its volume was asked for
        view.listen(self._on_change)

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        shown = new or old or {}
        if kind == VOLUMES:
            self.enqueue(("volume", *place_of(shown)))
            claim = shown["spec"].get("claimRef")
            if claim:
                self.enqueue(("claim", str(claim.get("namespace", "")), str(claim.get("name", ""))))
        elif kind == CLAIMS:
            self.enqueue(("claim", *place_of(shown)))
            for place, volume in self._view.all(VOLUMES).items():
                if _names(volume, shown):
                    self.enqueue(("volume", *place))
        elif kind == CLASSES:
            for place, claim in self._view.all(CLAIMS).items():
                if claim["spec"].get("storageClassName") == meta(shown)["name"]:
                    self.enqueue(("claim", *place))

    def reconcile(self, key: Key) -> float | None:
        """Take a claim or a volume one step on; return after how many seconds the next is due."""
        if key[0] == "volume":
            volume = self._view.get(VOLUMES, key[1], key[2])
            if volume is not None:
                self._volume(volume)
            return None
        claim = self._view.get(CLAIMS, key[1], key[2])
        if claim is None or meta(claim).get("deletionTimestamp"):
            return None
        return self._claim(claim)

    # ---------------------------------------------------------------- volumes

    def _volume(self, volume: Json) -> None:
        reference = volume["spec"].get("claimRef")
        if not reference:
            self._phase(VOLUMES, volume, "Available")
            return
        claim = self._view.get(CLAIMS, str(reference.get("namespace", "")), str(reference.get("name", "")))
        if claim is not None and _names(volume, claim):
            bound = claim["spec"].get("volumeName") == meta(volume)["name"]
            self._phase(VOLUMES, volume, "Bound" if bound else "Available")
        elif not reference.get("uid"):
            self._phase(VOLUMES, volume, "Available")  # reserved by hand for a claim that is not there yet
        elif volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self._store.delete(VOLUMES, "", meta(volume)["name"], uid=meta(volume)["uid"])
        else:
            self._phase(VOLUMES, volume, "Released")

    # ---------------------------------------------------------------- claims

    def _claim(self, claim: Json) -> float | None:
        name = claim["spec"].get("volumeName")
        if name:
            self._complete(claim, name)
            return None
        for _, volume in sorted(self._view.all(VOLUMES).items()):
            if _names(volume, claim) and not meta(volume).get("deletionTimestamp"):
                self._bind(claim, volume)
                return None
        self._phase(CLAIMS, claim, "Pending")
        return self._provision(claim)

    def _bind(self, claim: Json, volume: Json) -> None:
        """Both ways, as the controller does: the volume names the claim with its UID, then the claim the volume."""
        uid = meta(claim)["uid"]
        if volume["spec"]["claimRef"].get("uid") != uid:
            patch: Json = {"metadata": {"uid": meta(volume)["uid"]}, "spec": {"claimRef": {"uid": uid}}}
            self._store.patch(VOLUMES, "", meta(volume)["name"], patch, field_manager="volumes")
        notes = {_COMPLETED: "yes", _BY_CONTROLLER: "yes"}
        spec = {"volumeName": meta(volume)["name"]}
        self._write(claim, {"metadata": {"annotations": notes}, "spec": spec})

    def _complete(self, claim: Json, name: str) -> None:
        volume, completed = self._view.get(VOLUMES, "", name), _COMPLETED in (meta(claim).get("annotations") or {})
        if volume is None:
            if completed:
                self._phase(CLAIMS, claim, "Lost")
            return
        if not volume["spec"].get("claimRef"):  # the claim asks for a volume by name
            reference = _reference(claim)
            body: Json = {"metadata": {"uid": meta(volume)["uid"]}, "spec": {"claimRef": reference}}
            self._store.patch(VOLUMES, "", name, body, field_manager="volumes")
        elif not _names(volume, claim):
            return
        elif not completed:
            self._bind(claim, volume)
        elif (claim.get("status") or {}).get("phase") != "Bound":
            shown = {"phase": "Bound", "accessModes": volume["spec"].get("accessModes") or []}
            self._write(claim, {"status": {**shown, "capacity": volume["spec"].get("capacity") or {}}}, "status")
            self.enqueue(("volume", "", name))

    def _provision(self, claim: Json) -> float | None:
        storage = self._view.get(CLASSES, "", claim["spec"].get("storageClassName") or "")
        if storage is None or storage.get("provisioner", _NO_PROVISIONER) == _NO_PROVISIONER:
            return None
        notes = meta(claim).get("annotations") or {}
        node = notes.get(_SELECTED, "")
        if storage.get("volumeBindingMode") == "WaitForFirstConsumer" and not node:
            return None
        left = self._asked.setdefault(meta(claim)["uid"], self.clock.monotonic()) + self._making.total_seconds()
        if left > self.clock.monotonic():
            return left - self.clock.monotonic()
        self._asked.pop(meta(claim)["uid"], None)
        if notes.get(OUTCOME) == "fail":
            self._write(claim, {"metadata": {"annotations": {_SELECTED: None}}})
        else:
            self._store.create(VOLUMES, self._made(claim, storage, node), field_manager="volumes")
        return None

    def _made(self, claim: Json, storage: Json, node: str) -> Json:
        spec = claim["spec"]
        asked = (spec.get("resources") or {}).get("requests") or {"storage": "1Gi"}
        name = f"pvc-{meta(claim)['uid']}"
        body: Json = {
            "capacity": {"storage": asked["storage"]},
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "storageClassName": spec.get("storageClassName", ""),
            "persistentVolumeReclaimPolicy": storage.get("reclaimPolicy", "Delete"),
            "csi": {"driver": storage["provisioner"], "volumeHandle": name},
            "claimRef": _reference(claim),
        }
        if spec.get("volumeMode"):
            body["volumeMode"] = spec["volumeMode"]
        labels = meta(self._view.get(NODES, "", node) or {}).get("labels") or {}
        key = next((key for key in (_ZONE, _HOST) if key in labels), None)
        if key is not None:
            terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [labels[key]]}]}]
            body["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        return {"metadata": {"name": name, "annotations": {_PROVISIONED_BY: storage["provisioner"]}}, "spec": body}

    # ---------------------------------------------------------------- writing

    def _phase(self, kind: Kind, obj: Json, phase: str) -> None:
        if (obj.get("status") or {}).get("phase") != phase:
            body: Json = {"metadata": {"uid": meta(obj)["uid"]}, "status": {"phase": phase}}
            self._store.patch(kind, *place_of(obj), body, subresource="status", field_manager="volumes")

    def _write(self, claim: Json, body: Json, subresource: str = "") -> None:
        patch: Json = {**body, "metadata": {**body.get("metadata", {}), "uid": meta(claim)["uid"]}}
        self._store.patch(CLAIMS, *place_of(claim), patch, subresource=subresource, field_manager="volumes")


def _names(volume: Json, claim: Json) -> bool:
    """Whether a volume is a claim's: by place, and by UID where it has one."""
    found = volume["spec"].get("claimRef") or {}
    here = (found.get("namespace"), found.get("name")) == place_of(claim)
    return here and found.get("uid") in (None, "", meta(claim)["uid"])


def _reference(claim: Json) -> Json:
    namespace, name = place_of(claim)
    uid = meta(claim)["uid"]
    return {"apiVersion": "v1", "kind": CLAIMS.kind, "namespace": namespace, "name": name, "uid": uid}
