"""Claims, volumes and classes for `generated`: bound claims with zones and node affinity, and claims that wait for
their first consumer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from controlplane.kube.kinds import Json
from tests.scheduler.objects import HOST, ZONE

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def volumes(rng: random.Random, pod: Json, nodes: Sequence[str]) -> Json:
    """Draw one to three claims of a pod, and put them into its spec."""
    claims, found, listed = [], [], []
    for at in range(rng.choice([1, 1, 2, 3])):
        claim, volume = _pair(rng, at, pod["metadata"]["namespace"], nodes)
        if rng.random() < 0.12:
            listed.append({"name": f"v{at}", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
            claim["metadata"]["name"] = f"new-v{at}"
            owner = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "new",
                "uid": rng.choice(["uid-new", "uid-new", "other"]),
            }
            claim["metadata"]["ownerReferences"] = [owner | {"controller": True}]
        else:
            listed.append({"name": f"v{at}", "persistentVolumeClaim": {"claimName": f"claim{at}"}})
        claims += [claim] if rng.random() < 0.96 else []
        found += volume
    pod["spec"]["volumes"] = listed
    classes = [_class(rng, "waits", "WaitForFirstConsumer"), _class(rng, "now", "Immediate")]
    return {"persistentVolumes": found, "persistentVolumeClaims": claims, "storageClasses": classes}


def _class(rng: random.Random, name: str, mode: str) -> Json:
    found: Json = {"metadata": {"name": name}, "volumeBindingMode": mode}
    if rng.random() < 0.03:
        del found["volumeBindingMode"]
    found["provisioner"] = rng.choice(["kubernetes.io/no-provisioner", "example.com/disks"])
    if rng.random() < 0.4:
        zones = [{"key": ZONE, "values": rng.sample(["z1", "z2", "z3"], rng.randint(1, 2))}]
        found["allowedTopologies"] = [{"matchLabelExpressions": zones if rng.random() < 0.9 else []}]
    return found


def _pair(rng: random.Random, at: int, namespace: str, nodes: Sequence[str]) -> tuple[Json, list[Json]]:
    """Draw a claim, and its volume with some free ones."""
    kind = rng.choice(["bound"] * 6 + ["waits"] * 5 + ["immediate", "lost", "halfway"])
    spec: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": rng.choice(["1Gi", "5Gi"])}}}
    meta: Json = {"name": f"claim{at}", "namespace": namespace, "uid": f"uid-claim{at}", "annotations": {}}
    name = "now" if kind == "immediate" else rng.choice(["waits"] * 12 + ["gone", ""])
    if rng.random() < 0.06:
        meta["annotations"]["volume.beta.kubernetes.io/storage-class"] = name
    elif name:
        spec["storageClassName"] = name
    for field, value in (("volumeMode", "Block"), ("selector", {"matchLabels": {"kind": "a"}})):
        if rng.random() < 0.08:
            spec[field] = value
    if rng.random() < 0.03:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    claim: Json = {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
    free = [_volume(rng, f"free{at}-{number}") for number in range(rng.randint(0, 3))]
    if kind in ("waits", "immediate"):
        if rng.random() < 0.15:
            meta["annotations"]["volume.kubernetes.io/selected-node"] = rng.choice(nodes)
        if free and rng.random() < 0.2:
            uid = rng.choice([{}, {"uid": meta["uid"]}, {"uid": "another"}])
            free[0]["spec"]["claimRef"] = {"name": meta["name"], "namespace": namespace} | uid
        return claim, free
    spec["volumeName"] = f"pv{at}"
    claim["status"] = {"phase": "Lost" if kind == "lost" else "Bound"}
    if kind != "halfway":
        meta["annotations"] |= BOUND
    bound = _volume(rng, f"pv{at}")
    bound["spec"]["claimRef"] = {"name": meta["name"], "namespace": namespace, "uid": meta["uid"]}
    bound["status"] = {"phase": "Bound"}
    return claim, [bound, *free] if rng.random() < 0.9 else free


def _volume(rng: random.Random, name: str) -> Json:
    labels = {}
    if rng.random() < 0.5:
        key = rng.choice([ZONE, ZONE, "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/region"])
        labels[key] = rng.choice(["z1", "z2", "z1__z3", "z1__", "z2__ z3"])
    if rng.random() < 0.5:
        labels["kind"] = "a"
    spec: Json = {"capacity": {"storage": rng.choice(["1Gi", "5Gi", "10Gi"])}, "accessModes": ["ReadWriteOnce"]}
    spec["hostPath"] = {"path": "/v"}
    meta: Json = {"name": name, "labels": labels}
    if rng.random() < 0.05:
        meta["annotations"] = {"volume.beta.kubernetes.io/storage-class": "waits"}
    else:
        spec["storageClassName"] = "waits"
    for field, value in (
        ("volumeMode", "Block"),
        ("volumeAttributesClassName", "gold"),
        ("accessModes", ["ReadOnlyMany"]),
    ):
        if rng.random() < 0.06:
            spec[field] = value
    if rng.random() < 0.05:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if rng.random() < 0.5:
        key, values = rng.choice([(ZONE, ["z1", "z2"]), (HOST, ["n0", "n1"]), (HOST, ["n2"])])
        terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]
        if rng.random() < 0.1:
            terms = rng.choice(
                [[], [{}], [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]]
            )
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    phase = rng.choice(["Available"] * 8 + ["Released", ""])
    return {"metadata": meta, "spec": spec, "status": {"phase": phase} if phase else {}}
