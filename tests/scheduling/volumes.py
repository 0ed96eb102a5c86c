"""Claims, volumes and classes on the bench, and the part of the volume controller by hand."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.scheduling.snapshot.storage import SELECTED_NODE
from controlplane.kube.kinds import Json
from controlplane.kube.well_known import BIND_COMPLETED
from tests.scheduling.bench import CLAIMS, VOLUMES, Bench, merged

CSI, NONE = "csi.example.com", "kubernetes.io/no-provisioner"
HOST = "kubernetes.io/hostname"


class VolumeBench(Bench):
    """Nodes whose host name is their name; classes `local` (volumes that are there) and `made` (volumes that are
    made).
    """

    def node(self, name: str, cpu: str = "8", **labels: str) -> None:
        room = {"cpu": cpu, "memory": "64Gi", "pods": "20"}
        metadata = {"name": name, "uid": f"uid-{name}", "labels": {HOST: name, **labels}}
        self._store("nodes", {"metadata": metadata, "spec": {}, "status": {"allocatable": room}})

    def storage_class(self, name: str, provisioner: str, **more: Any) -> None:
        metadata = {"name": name, "uid": f"uid-{name}"}
        body = {"metadata": metadata, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer", **more}
        self._store("storageclasses", body)

    def claim(self, name: str, storage_class: str, size: str = "1Gi", **spec: Any) -> None:
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": {}}
        asked = {"requests": {"storage": size}}
        spec = {"storageClassName": storage_class, "resources": asked, "accessModes": ["ReadWriteOnce"], **spec}
        self._store(CLAIMS, {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})

    def volume(self, name: str, node: str = "", size: str = "1Gi", **spec: Any) -> None:
        spec = {
            "storageClassName": "local",
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            **spec,
        }
        if node:
            terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        metadata = {"name": name, "uid": f"uid-{name}", "labels": {}}
        self._store(VOLUMES, {"metadata": metadata, "spec": spec, "status": {"phase": "Available"}})

    def using(self, name: str, *claims: str, **more: Any) -> str:
        """Create a pod that uses claims."""
        listed = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        return self.pod(name, volumes=listed, **more)

    def of(self, kind: str, name: str) -> Json:
        return self.objects[kind, name]

    def reference(self, volume: str) -> Json:
        found: Json = self.of(VOLUMES, volume)["spec"].get("claimRef") or {}
        return found

    def selected(self, claim: str) -> str:
        return str(self.of(CLAIMS, claim)["metadata"]["annotations"].get(SELECTED_NODE, ""))

    def change(self, kind: str, name: str, patch: Json) -> None:
        self._store(kind, merged(self.of(kind, name), patch))

    def bind_claim(self, claim: str, volume: str) -> None:
        """What the volume controller does once a volume names a claim."""
        self.change(VOLUMES, volume, {"status": {"phase": "Bound"}})
        note = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": volume}}
        self.change(CLAIMS, claim, note)
        self.change(CLAIMS, claim, {"status": {"phase": "Bound"}})

    def commit_all(self) -> None:
        while self.outbox:
            self.commit(self.outbox[0])

    def go(self) -> None:
        """Run cycles, commit, decide and carry out, until nothing is left to do; time stands still."""
        for _ in range(20):
            while self.turn():
                pass
            self.commit_all()
            self.decide()
            for write in self.writes():
                self.carry_out(write)


def stage() -> VolumeBench:
    bench = VolumeBench()
    bench.storage_class("local", NONE)
    bench.storage_class("made", CSI)
    for name in ("a", "b"):
        bench.node(name)
    return bench
