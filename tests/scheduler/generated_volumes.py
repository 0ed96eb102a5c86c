"""Claims, volumes and classes for `generated`: bound claims with zones and node affinity, and claims that wait for their first consumer."""

from __future__ import annotations

import random

from controlplane.kube import Json
from tests.scheduler.objects import HOST, ZONE

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def volumes(rng: random.Random, pod: Json) -> Json:
    """Draw one to three claims of a pod, and put them into its spec."""
    claims, found, listed = [], [], []
    for at in range(rng.choice([1, 1, 2, 3])):
        listed.append({"name": f"v{at}", "persistentVolumeClaim": {"claimName": f"claim{at}"}})
        claim, volume = _pair(rng, at, pod["metadata"]["namespace"])
        claims += [claim] if rng.random() < 0.95 else []
        found += volume
    pod["spec"]["volumes"] = listed
    classes = [_class(rng, "waits", "WaitForFirstConsumer"), _class(rng, "now", "Immediate")]
    return {"persistentVolumes": found, "persistentVolumeClaims": claims, "storageClasses": classes}


def _class(rng: random.Random, name: str, mode: str) -> Json:
    found: Json = {"metadata": {"name": name}, "volumeBindingMode": mode}
    found["provisioner"] = rng.choice(["kubernetes.io/no-provisioner", "example.com/disks"])
    if rng.random() < 0.4:
        zones = [{"key": ZONE, "values": rng.sample(["z1", "z2", "z3"], rng.randint(1, 2))}]
        found["allowedTopologies"] = [{"matchLabelExpressions": zones}]
    return found


def _pair(rng: random.Random, at: int, namespace: str) -> tuple[Json, list[Json]]:
    kind = rng.choice(["bound"] * 6 + ["waits"] * 3 + ["immediate", "lost", "halfway"])
    spec: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": rng.choice(["1Gi", "5Gi"])}}}
    spec["storageClassName"] = "now" if kind == "immediate" else "waits"
    meta: Json = {"name": f"claim{at}", "namespace": namespace, "uid": f"uid-claim{at}"}
    claim: Json = {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
    free = [_volume(rng, f"free{at}-{number}") for number in range(rng.randint(0, 2))]
    if kind in ("waits", "immediate"):
        return claim, free
    spec["volumeName"] = f"pv{at}"
    claim["status"] = {"phase": "Lost" if kind == "lost" else "Bound"}
    if kind != "halfway":
        meta["annotations"] = BOUND
    bound = _volume(rng, f"pv{at}")
    bound["spec"]["claimRef"] = {"name": meta["name"], "namespace": namespace, "uid": meta["uid"]}
    bound["status"] = {"phase": "Bound"}
    return claim, [bound, *free] if rng.random() < 0.9 else free


def _volume(rng: random.Random, name: str) -> Json:
    labels = {}
    if rng.random() < 0.5:
        key = rng.choice([ZONE, ZONE, "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/region"])
        labels[key] = rng.choice(["z1", "z2", "z1__z3"])
    spec: Json = {"capacity": {"storage": rng.choice(["1Gi", "5Gi", "10Gi"])}, "accessModes": ["ReadWriteOnce"]}
    spec |= {"storageClassName": "waits", "hostPath": {"path": "/v"}}
    if rng.random() < 0.5:
        key, values = rng.choice([(ZONE, ["z1", "z2"]), (HOST, ["n0", "n1"]), (HOST, ["n2"])])
        terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": "Available"}}
