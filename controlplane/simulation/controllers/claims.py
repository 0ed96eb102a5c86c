"""What a cluster does with claims: one that a pod still names does not go, and, where it provisions, each gets a volume
of its own.

In: claims and pods. Out: the finalizer of `pkg/controller/volume/pvcprotection`; volumes that are reachable from every
node, bound as `pkg/controller/volume/persistentvolume` and a provisioner of the class would bind them at once, and gone
with their claim."""

from __future__ import annotations

from controlplane.clock import Clock
from controlplane.kube.kinds import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from controlplane.kube.kinds import PERSISTENT_VOLUMES, PODS, Json, Kind, meta
from controlplane.kube.well_known import BIND_COMPLETED, PVC_PROTECTION
from controlplane.simulation.controllers.behaviour import Behaviour, Key, View


def claims_of(pod: Json) -> list[str]:
    """Return the names of the claims that a pod names."""
    found = ((one.get("persistentVolumeClaim") or {}).get("claimName") for one in pod["spec"].get("volumes") or ())
    return [name for name in found if name]


class Claims(Behaviour):
    """Protects the claims of one cluster. `provisions`: and gives them volumes."""

    def __init__(self, name: str, view: View, clock: Clock, *, provisions: bool = False) -> None:
        super().__init__(name, clock)
        self._view, self._store, self._provisions = view, view.store, provisions
        view.listen(self._on_change)

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        shown = new or old or {}
        if kind == PODS:
            for claim in claims_of(shown):
                self.enqueue((meta(shown)["namespace"], claim))
        elif kind == CLAIMS:
            self.enqueue((meta(shown)["namespace"], meta(shown)["name"]))

    def _is_used(self, namespace: str, name: str) -> bool:
        pods = self._view.all(PODS).values()
        return any(meta(pod)["namespace"] == namespace and name in claims_of(pod) for pod in pods)

    def reconcile(self, key: Key) -> float | None:
        """Protect a claim, let it go, or bind it."""
        namespace, name = key
        claim = self._view.get(CLAIMS, namespace, name)
        if claim is None:
            self._reclaim(namespace, name)
            return None
        held = list(meta(claim).get("finalizers") or ())
        if "deletionTimestamp" not in meta(claim):
            wanted = [*held, PVC_PROTECTION] if PVC_PROTECTION not in held else held
        elif self._is_used(namespace, name):
            wanted = held
        else:
            wanted = [one for one in held if one != PVC_PROTECTION]
        if wanted != held:
            self._store.patch(CLAIMS, namespace, name, {"metadata": {"finalizers": wanted or None}})
        elif self._provisions and not claim["spec"].get("volumeName"):
            self._bind(claim)
        return None

    def _bind(self, claim: Json) -> None:
        metadata, spec = meta(claim), claim["spec"]
        namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
        volume = f"pvc-{uid}"
        modes = spec.get("accessModes") or ["ReadWriteOnce"]
        asked = (spec.get("resources") or {}).get("requests") or {"storage": "1Gi"}
        reference = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": uid}
        if self._view.get(PERSISTENT_VOLUMES, "", volume) is None:
            body = {"accessModes": modes, "capacity": asked, "claimRef": reference}
            self._store.create(PERSISTENT_VOLUMES, {"metadata": {"name": volume}, "spec": body})
        note = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": volume}}
        self._store.patch(CLAIMS, namespace, name, note)
        self._store.patch(CLAIMS, namespace, name, {"status": {"phase": "Bound"}}, subresource="status")

    def _reclaim(self, namespace: str, name: str) -> None:
        for (_, volume), found in list(self._view.all(PERSISTENT_VOLUMES).items()):
            reference = found["spec"].get("claimRef") or {}
            if (reference.get("namespace"), reference.get("name")) == (namespace, name):
                self._store.delete(PERSISTENT_VOLUMES, "", volume)
