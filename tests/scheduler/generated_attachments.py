"""Lines about what a node can mount and attach:
`python -m tests.scheduler.generated_attachments SEED COUNT > lines.jsonl`.

Drawn for a comparison with kube-scheduler's own VolumeRestrictions and NodeVolumeLimits, as `generated` draws for the
other plugins: disks that pods name themselves, claims with every way to a driver, CSINodes with small limits, and
VolumeAttachments of volumes that are mounted, that are not, and that are not there."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

from controlplane.kube.kinds import Json
from tests.scheduler.objects import HOST

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
DRIVERS = ("disks.example.com", "ebs.csi.aws.com", "pd.csi.storage.gke.io", "disk.csi.azure.com", "file.csi.azure.com")
PROVISIONERS = (
    *DRIVERS,
    "kubernetes.io/aws-ebs",
    "kubernetes.io/gce-pd",
    "kubernetes.io/azure-file",
    "",
    "kubernetes.io/vsphere-volume",
)


class Draw:
    """One line's dice."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.nodes = [f"n{at}" for at in range(rng.choice([1, 2, 3, 4]))]
        self.claims: list[Json] = []
        self.volumes: list[Json] = []
        self.disks = rng.random() < 0.6
        self.claimed = not self.disks or rng.random() < 0.6
        self.broken = rng.random() < 0.06

    def disk(self) -> Json:
        """Draw a disk that a pod names itself."""
        rng = self.rng
        read_only = {"readOnly": True} if rng.random() < 0.5 else {}
        name = rng.choice(["d1", "d2"])
        kind = rng.choice(["gce", "gce", "aws", "aws", "iscsi", "rbd", "rbd", "cinder", "azureDisk", "other"])
        if kind == "gce":
            return {"gcePersistentDisk": {"pdName": name, **read_only}}
        if kind == "aws":
            ids = ["vol-1", "vol-2", "aws://z/vol-1", "aws:///vol-2", *(["aws://z/other"] if self.broken else [])]
            return {"awsElasticBlockStore": {"volumeID": rng.choice(ids), **read_only}}
        if kind == "iscsi":
            portal = rng.choice(["1.1.1.1", "2.2.2.2"])
            return {"iscsi": {"targetPortal": portal, "iqn": f"iqn.{name}", "lun": rng.randint(0, 1), **read_only}}
        if kind == "rbd":
            monitors = rng.sample(["a", "b", "c"], rng.randint(1, 2))
            pool = rng.choice([{}, {"pool": "rbd"}])
            return {"rbd": {"monitors": monitors, "image": name, **pool, **read_only}}
        if kind == "cinder":
            return {"cinder": {"volumeID": name}}
        if kind == "azureDisk":
            managed = rng.choice([{}, {"kind": "Managed"}, *([{"kind": "Dedicated"}] if self.broken else [])])
            return {"azureDisk": {"diskName": name, "diskURI": f"/{name}", **managed}}
        return rng.choice(
            [
                {"azureFile": {"secretName": "s", "shareName": name}},
                {"vsphereVolume": {"volumePath": name}},
                {"portworxVolume": {"volumeID": name}},
                {"emptyDir": {}},
                {"configMap": {"name": name}},
            ]
        )

    def source(self, at: int) -> Json:
        """Draw what stands behind a PersistentVolume."""
        rng = self.rng
        number = rng.choice([at, at, rng.randint(0, 5)])
        return rng.choice(
            [
                *[{"csi": {"driver": rng.choice(DRIVERS), "volumeHandle": f"h{number}"}}] * 4,
                {"csi": {"driver": "disks.example.com", "volumeHandle": ""}},
                {"awsElasticBlockStore": {"volumeID": rng.choice(["vol-1", f"aws://z/vol-{number}", "aws://z/other"])}},
                {"gcePersistentDisk": {"pdName": f"d{number}"}},
                {"gcePersistentDisk": {"pdName": "d1"}},
                {"cinder": {"volumeID": f"c{number}"}},
                {"azureDisk": {"diskName": "d", "diskURI": f"/h{number}", "kind": rng.choice(["Managed", "Shared"])}},
                {"azureFile": {"secretName": "s", "shareName": "d"}},
                {"portworxVolume": {"volumeID": f"h{number}"}},
                {"hostPath": {"path": "/v"}},
            ]
        )

    def claim(self, name: str, owner: str = "") -> None:
        """Draw a claim and perhaps its volume."""
        rng = self.rng
        at = len(self.claims)
        modes = rng.choice([["ReadWriteOnce"], ["ReadWriteOncePod"], ["ReadWriteOncePod"], ["ReadWriteMany"]])
        spec: Json = {"accessModes": modes, "resources": {"requests": {"storage": "1Gi"}}}
        meta: Json = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": {}}
        if owner:
            reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}
            meta["ownerReferences"] = [reference]
        if rng.random() < 0.9:
            spec["storageClassName"] = rng.choice([f"class{number}" for number in range(4)] + ["gone"])
        claim: Json = {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
        if rng.random() < 0.7:
            spec["volumeName"] = f"pv{at}"
            meta["annotations"] |= BOUND
            claim["status"]["phase"] = "Bound"
            labels = rng.choice([{}, {"topology.kubernetes.io/zone": rng.choice(["a-b-c", "a-b-c__a-b-d", "x__y"])}])
            capacity = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
            volume = {
                "metadata": {"name": f"pv{at}", "labels": labels},
                "spec": {**capacity, **self.source(at)},
                "status": {"phase": "Bound"},
            }
            if rng.random() < 0.95:
                self.volumes.append(volume)
        self.claims.append(claim)

    def mounts(self, pod: Json) -> list[Json]:
        """Draw the volumes of a pod."""
        rng = self.rng
        found: list[Json] = []
        for at in range(rng.choice([0, 1, 1, 2, 3])):
            if self.disks and rng.random() < 0.6:
                found.append({"name": f"v{at}", **self.disk()})
            elif self.claimed and rng.random() < 0.85:
                name = rng.choice([f"c{number}" for number in range(6)] + (["gone"] if rng.random() < 0.1 else []))
                found.append({"name": f"v{at}", "persistentVolumeClaim": {"claimName": name}})
            elif self.claimed:
                found.append({"name": f"v{at}", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
                if rng.random() < 0.95:
                    uid = "other" if self.broken and rng.random() < 0.5 else pod["metadata"]["uid"]
                    self.claim(f"{pod['metadata']['name']}-v{at}", uid)
        return found

    def pod(self, name: str, node: str = "") -> Json:
        """Draw a pod; in `other` it uses nothing of the incoming one's claims."""
        rng = self.rng
        namespace = "default" if not node or rng.random() < 0.9 else "other"
        meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": {"app": rng.choice("ab")}}
        requests = {"cpu": rng.choice(["100m", "1"])}
        spec: Json = {"containers": [{"name": "c", "image": "app", "resources": {"requests": requests}}]}
        spec["priority"] = rng.choice([0, 5, 10]) if node else rng.choice([0, 10, 100])
        if node:
            spec["nodeName"] = node
        found: Json = {"metadata": meta, "spec": spec}
        if volumes := self.mounts(found):
            spec["volumes"] = volumes
        if node:
            found["status"] = {"startTime": f"2026-01-01T00:00:{rng.randint(10, 59)}Z"}
        return found

    def csi_node(self, name: str) -> Json:
        """Draw what a node can attach."""
        rng = self.rng
        drivers = []
        for driver in rng.sample(DRIVERS, rng.randint(0, len(DRIVERS))):
            limit = rng.choice([{}, {"allocatable": {}}, *[{"allocatable": {"count": rng.randint(0, 3)}}] * 4])
            drivers.append({"name": driver, "nodeID": name, **limit})
        return {"metadata": {"name": name}, "spec": {"drivers": drivers}}

    def attachment(self, at: int) -> Json:
        """Draw something that is attached."""
        rng = self.rng
        source = rng.choice([*[{"persistentVolumeName": f"pv{rng.randint(0, 7)}"}] * 5, {}])
        spec = {
            "attacher": rng.choice([*DRIVERS, DRIVERS[0], ""]),
            "nodeName": rng.choice(self.nodes),
            "source": source,
        }
        return {"metadata": {"name": f"a{at}"}, "spec": spec}


def scenario(seed: int) -> Json:
    """Return the line of a seed."""
    rng = random.Random(seed)
    draw = Draw(rng)
    for number in range(6 if draw.claimed else 0):
        if rng.random() < 0.95:
            draw.claim(f"c{number}")
    pods = [draw.pod(f"p{at}", rng.choice(draw.nodes)) for at in range(rng.choice([0, 2, 4, 6, 8]))]
    found: Json = {"id": seed, "pod": draw.pod("new")}
    room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    found["nodes"] = [
        {"metadata": {"name": name, "labels": {HOST: name}}, "spec": {}, "status": {"allocatable": room}}
        for name in draw.nodes
    ]
    found |= {"pods": pods, "persistentVolumeClaims": draw.claims, "persistentVolumes": draw.volumes}
    found["storageClasses"] = [
        {
            "metadata": {"name": f"class{number}"},
            "provisioner": rng.choice(PROVISIONERS),
            "volumeBindingMode": rng.choice(["WaitForFirstConsumer"] * 4 + ["Immediate"]),
        }
        for number in range(4)
    ]
    found["csiNodes"] = [draw.csi_node(name) for name in draw.nodes if rng.random() < 0.9]
    found["volumeAttachments"] = [draw.attachment(at) for at in range(rng.choice([0, 0, 2, 5, 9]))]
    if pods and rng.random() < 0.3:
        gone = rng.choice(pods)
        found["simulate"] = [{"op": "remove", "pod": gone["metadata"]["name"], "node": gone["spec"]["nodeName"]}]
    elif rng.random() < 0.2:
        found["simulate"] = [{"op": "add", "pod": draw.pod("extra", draw.nodes[0]), "node": draw.nodes[0]}]
        found["simulate"][0]["pod"]["metadata"]["namespace"] = "default"
    return found


def scenarios(seed: int, count: int) -> Iterator[Json]:
    """Yield lines, each with its own seed as its id."""
    return map(scenario, range(seed, seed + count))


def main(write: Callable[[str], Any] = sys.stdout.write) -> None:
    """Print lines from a seed and a count."""
    seed, count = (int(argument) for argument in sys.argv[1:3])
    for line in scenarios(seed, count):
        write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
