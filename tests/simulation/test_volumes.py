"""The simulated volume controller: what becomes of claims and volumes."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from controlplane.kube.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, Json
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.controllers.behaviour import View
from controlplane.simulation.controllers.jobs import OUTCOME
from controlplane.simulation.kinds.nodes import NODE_KINDS
from tests.scheduling.volume_controller import VOLUME_KINDS, Volumes
from tests.simulation.test_kubelet import Clock

SELECTED = "volume.kubernetes.io/selected-node"
ZONE = "topology.kubernetes.io/zone"


class Cluster:
    def __init__(self, making: float = 0.0) -> None:
        self.clock, draw = Clock(), random.Random(1)
        self.store = Store("kit", kinds=NODE_KINDS, now=self.clock.now, new_uid=lambda: f"{draw.getrandbits(64):016x}")
        view = View(self.store, VOLUME_KINDS)
        self.volumes = Volumes("volumes", view, self.clock, timedelta(seconds=making))
        view.start()
        self.store.create(NODES, {"metadata": {"name": "n", "labels": {ZONE: "z1"}}})

    def storage_class(self, mode: str = "WaitForFirstConsumer", **more: Any) -> None:
        body = {"metadata": {"name": "made"}, "provisioner": "csi.example.com", "volumeBindingMode": mode, **more}
        self.store.create(STORAGE_CLASSES, body)

    def claim(self, storage_class: str = "made", **annotations: str) -> Json:
        metadata = {"name": "data", "namespace": "default", "annotations": annotations}
        asked = {"requests": {"storage": "2Gi"}}
        spec = {"storageClassName": storage_class, "resources": asked, "accessModes": ["ReadWriteOnce"]}
        made = self.store.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata, "spec": spec})
        self.volumes.drain()
        return made

    def volume(self, **spec: Any) -> None:
        body = {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local", **spec}
        self.store.create(PERSISTENT_VOLUMES, {"metadata": {"name": "v"}, "spec": body})
        self.volumes.drain()

    def select(self, node: str | None = "n") -> None:
        patch = {"metadata": {"annotations": {SELECTED: node}}}
        self.store.patch(PERSISTENT_VOLUME_CLAIMS, "default", "data", patch)
        self.volumes.drain()

    def data(self) -> Json:
        return self.store.get(PERSISTENT_VOLUME_CLAIMS, "default", "data")

    def all(self) -> list[Json]:
        return self.store.list(PERSISTENT_VOLUMES)[0]


def test_a_volume_without_a_claim_is_available() -> None:
    cluster = Cluster()
    cluster.volume()
    assert cluster.all()[0]["status"]["phase"] == "Available"


def test_a_claim_waits_for_its_first_consumer_and_is_provisioned_where_it_is() -> None:
    cluster = Cluster()
    cluster.storage_class()
    cluster.claim()
    assert cluster.data()["status"]["phase"] == "Pending"
    assert cluster.all() == []
    cluster.select()
    (volume,) = cluster.all()
    assert volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]}
    ]
    assert volume["spec"]["capacity"] == {"storage": "2Gi"}
    found = cluster.data()
    assert (found["spec"]["volumeName"], found["status"]["phase"]) == (volume["metadata"]["name"], "Bound")
    assert found["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    assert volume["status"]["phase"] == "Bound"


def test_provisioning_takes_its_time() -> None:
    cluster = Cluster(making=5)
    cluster.storage_class("Immediate")
    cluster.claim()
    assert cluster.all() == []
    cluster.clock.seconds += 5
    cluster.volumes.drain()
    assert cluster.data()["status"]["phase"] == "Bound"


def test_provisioning_that_fails_unselects_the_node() -> None:
    cluster = Cluster()
    cluster.storage_class()
    cluster.claim(**{OUTCOME: "fail"})
    cluster.select()
    assert SELECTED not in cluster.data()["metadata"]["annotations"]
    assert cluster.all() == []


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_volume_that_names_a_claim_is_bound_to_it(by_hand: bool) -> None:
    cluster = Cluster()
    claim = cluster.claim("local")
    uid = {} if by_hand else {"uid": claim["metadata"]["uid"]}
    cluster.volume(claimRef={"namespace": "default", "name": "data", **uid})
    assert cluster.data()["spec"]["volumeName"] == "v"
    assert cluster.data()["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "5Gi"},
    }
    assert cluster.all()[0]["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]


def test_a_volume_of_another_claim_of_that_name_is_not_taken() -> None:
    cluster = Cluster()
    cluster.claim("local")
    cluster.volume(claimRef={"namespace": "default", "name": "data", "uid": "another"})
    assert "volumeName" not in cluster.data()["spec"]
    assert cluster.all()[0]["status"]["phase"] == "Released"


@pytest.mark.parametrize(("policy", "left"), [("Retain", ["Released"]), ("Delete", [])])
def test_what_becomes_of_the_volume_of_a_claim_that_goes(policy: str, left: list[str]) -> None:
    cluster = Cluster()
    cluster.storage_class("Immediate", reclaimPolicy=policy)
    cluster.claim()
    cluster.store.delete(PERSISTENT_VOLUME_CLAIMS, "default", "data")
    cluster.volumes.drain()
    assert [volume["status"]["phase"] for volume in cluster.all()] == left


def test_a_claim_whose_volume_goes_is_lost() -> None:
    cluster = Cluster()
    cluster.storage_class("Immediate")
    cluster.claim()
    cluster.store.delete(PERSISTENT_VOLUMES, "", cluster.all()[0]["metadata"]["name"])
    cluster.volumes.drain()
    assert cluster.data()["status"]["phase"] == "Lost"


def test_it_comes_to_rest() -> None:
    cluster = Cluster()
    cluster.storage_class()
    cluster.claim()
    cluster.select()
    before = cluster.data(), cluster.all()
    for place in list(cluster.volumes._view.all(PERSISTENT_VOLUME_CLAIMS)):
        cluster.volumes.enqueue(("claim", *place))
    cluster.volumes.drain()
    assert (cluster.data(), cluster.all()) == before
