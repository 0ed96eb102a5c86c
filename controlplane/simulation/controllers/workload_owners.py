"""The controllers that make pods: Deployments through ReplicaSets, and StatefulSets with the claims of their templates.

In: objects with replicas and a template. Out: pods, claims and counts, as
`pkg/controller/{deployment,replicaset,statefulset}` would make them, without their pacing: a rollout takes one pod more
than is wanted, and takes old ones away as new ones are ready."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from controlplane.clock import Clock
from controlplane.kube.kinds import PODS, Json, Kind, meta
from controlplane.kube.well_known import REVISION
from controlplane.simulation.controllers.behaviour import Behaviour, Key, View
from controlplane.simulation.kinds.own_cluster import CLAIMS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS

HASH_LABEL = "pod-template-hash"
_KINDS = {kind.kind: kind for kind in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)}


def owner_reference(owner: Json) -> Json:
    """Return the reference by which an object controls what it makes."""
    metadata = meta(owner)
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**named, "controller": True, "blockOwnerDeletion": True}


def controller_of(obj: Json) -> Json:
    """Return the reference of an object's controller, empty if it has none."""
    return next((one for one in meta(obj).get("ownerReferences") or () if one.get("controller")), {})


def ready(pod: Json) -> bool:
    """Whether a pod is ready."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


class Owners(Behaviour):
    """Runs the Deployments, ReplicaSets and StatefulSets of one cluster."""

    def __init__(self, name: str, view: View, clock: Clock) -> None:
        super().__init__(name, clock)
        self._view, self._store = view, view.store
        self._owned: dict[str, dict[tuple[str, str, str], Json]] = {}
        view.listen(self._on_change)

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        shown = new or old
        assert shown is not None
        if kind.kind in _KINDS and new is not None:
            self.enqueue((kind.kind, *_place(new)))
        reference = controller_of(shown)
        if reference.get("kind") not in _KINDS:
            return
        mates = self._owned.setdefault(reference["uid"], {})
        key = (kind.kind, *_place(shown))
        if new is None:
            mates.pop(key, None)
        else:
            mates[key] = new
        self.enqueue((reference["kind"], _place(shown)[0], reference["name"]))

    def reconcile(self, key: Key) -> float | None:
        """Bring one owner's dependents in line."""
        owner = self._view.get(_KINDS[key[0]], key[1], key[2])
        if owner is None or "deletionTimestamp" in meta(owner):
            return None
        if key[0] == "Deployment":
            self._deployment(owner)
        elif key[0] == "ReplicaSet":
            self._replica_set(owner)
        else:
            self._stateful_set(owner)
        return None

    def _of(self, owner: Json, kind: str) -> list[Json]:
        """Return what an owner controls and has not been told to go, by name."""
        mates = self._owned.get(meta(owner)["uid"], {})
        return [one for key, one in sorted(mates.items()) if key[0] == kind and "deletionTimestamp" not in meta(one)]

    # Deployments

    def _deployment(self, owner: Json) -> None:
        template, wanted = owner["spec"]["template"], int(owner["spec"].get("replicas", 1))
        digest = hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).hexdigest()[:10]
        sets = self._of(owner, "ReplicaSet")
        newest = next((one for one in sets if (meta(one).get("labels") or {}).get(HASH_LABEL) == digest), None)
        if newest is None:
            revision = 1 + max(map(_revision_of, sets), default=0)
            self._store.create(REPLICA_SETS, _replica_set_of(owner, digest, revision))
            return
        old = [one for one in sets if one is not newest]
        held = sum(int(one["spec"].get("replicas", 0)) for one in old)
        self._scale(newest, min(wanted, max(wanted + 1 - held, 0)) if held else wanted)
        surplus = held - max(0, wanted - int((newest.get("status") or {}).get("readyReplicas", 0)))
        for one in old:
            has = int(one["spec"].get("replicas", 0))
            self._scale(one, has - max(0, min(has, surplus)))
            surplus -= has
        self._count(DEPLOYMENTS, owner, [pod for one in sets for pod in self._of(one, "Pod")])

    def _scale(self, replica_set: Json, replicas: int) -> None:
        if int(replica_set["spec"].get("replicas", 0)) != replicas:
            self._store.patch(REPLICA_SETS, *_place(replica_set), {"spec": {"replicas": replicas}})

    # ReplicaSets

    def _replica_set(self, owner: Json) -> None:
        pods, wanted = self._of(owner, "Pod"), int(owner["spec"].get("replicas", 1))
        for _ in range(wanted - len(pods)):
            self._store.create(PODS, _pod(owner, {"generateName": f"{meta(owner)['name']}-"}))
        for pod in sorted(pods, key=ready)[: max(0, len(pods) - wanted)]:
            self._store.delete(PODS, *_place(pod))
        self._count(REPLICA_SETS, owner, pods)

    def _count(self, kind: Kind, owner: Json, pods: list[Json]) -> None:
        counts = {"replicas": len(pods), "readyReplicas": sum(ready(pod) for pod in pods)}
        status = owner.get("status") or {}
        if any(status.get(key, 0) != value for key, value in counts.items()):
            self._store.patch(kind, *_place(owner), {"status": counts}, subresource="status")

    # StatefulSets

    def _stateful_set(self, owner: Json) -> None:
        namespace, name = _place(owner)
        pods = {meta(pod)["name"]: pod for pod in self._of(owner, "Pod")}
        wanted = int(owner["spec"].get("replicas", 1))
        for number in range(wanted):
            place = f"{name}-{number}"
            claims = [
                self._claim(owner, template, place) for template in owner["spec"].get("volumeClaimTemplates") or ()
            ]
            if self._view.get(PODS, namespace, place) is None:
                self._store.create(PODS, _pod(owner, {"name": place}, claims))
        for gone in sorted(pods.keys() - {f"{name}-{number}" for number in range(wanted)}):
            self._store.delete(PODS, namespace, gone)
        self._count(STATEFUL_SETS, owner, list(pods.values()))

    def _claim(self, owner: Json, template: Json, pod: str) -> Json:
        """Make the claim of a template for a pod, without an owner, and return the pod's volume."""
        namespace, name = meta(owner)["namespace"], f"{meta(template)['name']}-{pod}"
        if self._view.get(CLAIMS, namespace, name) is None:
            selected = owner["spec"]["selector"].get("matchLabels") or {}
            labels = {**(meta(template).get("labels") or {}), **selected}
            kept = {key: value for key, value in meta(template).items() if key in ("annotations", "ownerReferences")}
            metadata = {**kept, "name": name, "namespace": namespace, "labels": labels}
            self._store.create(CLAIMS, {"metadata": metadata, "spec": template.get("spec") or {}})
        return {"name": meta(template)["name"], "persistentVolumeClaim": {"claimName": name}}


def _replica_set_of(owner: Json, digest: str, revision: int) -> Json:
    template = orjson.loads(orjson.dumps(owner["spec"]["template"]))
    labels = {**(meta(template).get("labels") or {}), HASH_LABEL: digest}
    template["metadata"] = {**meta(template), "labels": labels}
    metadata = {
        "name": f"{meta(owner)['name']}-{digest}",
        "namespace": meta(owner)["namespace"],
        "labels": labels,
        "annotations": {**(meta(owner).get("annotations") or {}), REVISION: str(revision)},
        "ownerReferences": [owner_reference(owner)],
    }
    return {"metadata": metadata, "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}}


def _pod(owner: Json, name: Json, volumes: list[Json] | None = None) -> Json:
    template = orjson.loads(orjson.dumps(owner["spec"]["template"]))
    spec: dict[str, Any] = {"schedulerName": "default-scheduler", **(template.get("spec") or {})}
    if volumes:
        spec["volumes"] = [*(spec.get("volumes") or []), *volumes]
    kept = {key: value for key, value in (template.get("metadata") or {}).items() if key in ("labels", "annotations")}
    metadata = {**kept, **name, "namespace": meta(owner)["namespace"], "ownerReferences": [owner_reference(owner)]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _place(obj: Json) -> tuple[str, str]:
    return str(meta(obj).get("namespace") or ""), str(meta(obj)["name"])


def _revision_of(replica_set: Json) -> int:
    return int((meta(replica_set).get("annotations") or {}).get(REVISION, 0))
