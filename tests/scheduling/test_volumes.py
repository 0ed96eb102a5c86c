"""Claims that wait for their first consumer, end to end: a scheduler, a volume controller and a provisioner beside a
simulated cluster.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

from controlplane.controllers.scheduling.snapshot.storage import SELECTED_NODE
from controlplane.kube.kinds import (
    CSI_NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Json,
)
from controlplane.settings.scheduler import SchedulerSettings
from controlplane.simulation.controllers.jobs import OUTCOME
from tests.scheduling.stage import HOST, Cluster, Stage, staged, until
from tests.scheduling.test_candidates import Source

NONE = "kubernetes.io/no-provisioner"


def classes(cluster: Cluster) -> None:
    for name, provisioner in (("local", NONE), ("made", "csi.example.com")):
        body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        cluster.store.create(STORAGE_CLASSES, body)


def claim(cluster: Cluster, name: str, storage_class: str, **annotations: str) -> None:
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    asked = {"requests": {"storage": "1Gi"}}
    spec = {"storageClassName": storage_class, "resources": asked, "accessModes": ["ReadWriteOnce"]}
    cluster.store.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata, "spec": spec})


def volume(cluster: Cluster, name: str, node: str) -> None:
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}]
    spec = {
        "storageClassName": "local",
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": "/v"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    cluster.store.create(PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": spec})


def using(*claims: str, **more: Any) -> Json:
    return {"volumes": [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims], **more}


def bound(cluster: Cluster, name: str) -> str:
    found = cluster.store.get(PERSISTENT_VOLUME_CLAIMS, "default", name)
    return str(found["spec"].get("volumeName", ""))


async def reserved_with_a_claim(stage: Stage) -> Source:
    """A candidate that holds a place, and names a claim for which a volume is to be made."""
    classes(stage.cluster)
    stage.cluster.node("a")
    claim(stage.cluster, "data", "made")
    await stage.replica()
    source = Source(stage.cluster)
    source.invited()
    source.asks("c", **using("data"))
    await until(lambda: source.status("c").get("phase") == "Reserved")
    return source


async def test_pods_with_claims_run_where_their_volumes_are(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        classes(cluster)
        for name in ("a", "b", "c"):
            cluster.node(name, cpu="16")
        for number in range(6):
            volume(cluster, f"v{number}", "abc"[number % 3])
            claim(cluster, f"static{number}", "local")
            claim(cluster, f"made{number}", "made")
        await stage.replica()
        for number in range(6):
            cluster.pod(f"s{number}", **using(f"static{number}"))
            cluster.pod(f"m{number}", **using(f"made{number}"))
        cluster.pod("both", **using("made0"))
        names = [*(f"{kind}{number}" for kind in "sm" for number in range(6)), "both"]
        await until(lambda: all(cluster.on(name) for name in names))
        taken = {bound(cluster, f"static{number}") for number in range(6)}
        assert taken == {f"v{number}" for number in range(6)}
        for number in range(6):
            terms = cluster.store.get(PERSISTENT_VOLUMES, "", bound(cluster, f"static{number}"))["spec"]["nodeAffinity"]
            assert [cluster.on(f"s{number}")] == terms["required"]["nodeSelectorTerms"][0]["matchExpressions"][0][
                "values"
            ]
        assert all(bound(cluster, f"made{number}").startswith("pvc-") for number in range(6))
        assert cluster.on("both") == cluster.on("m0")
        await asyncio.sleep(0.2)
        before = stage.requests()
        await asyncio.sleep(1.2)
        after = stage.requests()
        assert {key: count for key, count in after.items() if key[0] == "patch"} == {
            key: count for key, count in before.items() if key[0] == "patch"
        }


async def test_a_provisioner_that_fails_and_then_does_not(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        classes(cluster)
        cluster.node("a")
        claim(cluster, "data", "made", **{OUTCOME: "fail"})
        await stage.replica()
        cluster.pod("p", **using("data"))
        await until(lambda: cluster.condition("p").get("reason") == "SchedulerError")
        assert cluster.condition("p")["message"] == 'provisioning failed for PVC "data"'
        cluster.store.patch(PERSISTENT_VOLUME_CLAIMS, "default", "data", {"metadata": {"annotations": {OUTCOME: None}}})
        await until(lambda: cluster.on("p"))


async def test_it_waits_as_long_as_the_profile_says(database_url: str, tmp_path: Path) -> None:
    config = tmp_path / "profiles.yaml"
    config.write_text("""
profiles:
  - schedulerName: controlplane
    pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 1}}]
""")
    async with staged(database_url, config=config) as stage:
        cluster = stage.cluster
        cluster.volumes._making = timedelta(seconds=3)
        classes(cluster)
        cluster.node("a")
        claim(cluster, "data", "made")
        await stage.replica()
        cluster.pod("p", **using("data"))
        await until(lambda: "was not there in time" in cluster.condition("p").get("message", ""))
        assert cluster.on("p") == ""
        await until(lambda: cluster.on("p"))  # the claim was bound after all, and the pod tried again


async def test_a_leader_that_dies_while_a_volume_is_made(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.volumes._making = timedelta(seconds=8)
        classes(cluster)
        for name in ("a", "b"):
            cluster.node(name)
        claim(cluster, "data", "made")
        first = await stage.replica()
        cluster.pod("p", **using("data"))

        def selected() -> str:
            found = cluster.store.get(PERSISTENT_VOLUME_CLAIMS, "default", "data")
            return str((found["metadata"].get("annotations") or {}).get(SELECTED_NODE, ""))

        await until(lambda: selected())
        node = selected()
        await first.kill()
        second = await stage.replica(leads=False)
        await until(lambda: second.ready)
        await until(lambda: cluster.on("p"))
        assert cluster.on("p") == node


async def test_a_candidates_claim_is_bound_once_its_source_permits_it(database_url: str) -> None:
    async with staged(database_url, scheduler=SchedulerSettings()) as stage:
        cluster, source = stage.cluster, await reserved_with_a_claim(stage)
        await asyncio.sleep(0.3)
        assert bound(cluster, "data") == ""  # nothing is made for a candidate that may not be the one
        source.permits("c")
        await until(lambda: source.status("c").get("phase") == "Bound")
        assert cluster.on("c") == "a"
        assert bound(cluster, "data")


async def test_a_candidates_claim_that_fails_gives_the_reservation_back(database_url: str) -> None:
    async with staged(database_url, scheduler=SchedulerSettings()) as stage:
        cluster = stage.cluster
        classes(cluster)
        cluster.node("a")
        claim(cluster, "data", "made", **{OUTCOME: "fail"})
        await stage.replica()
        source = Source(cluster)
        source.invited()
        source.asks("c", **using("data"))
        await until(lambda: source.status("c").get("phase") == "Reserved")
        source.permits("c")
        await until(lambda: (source.status("c").get("reservation") or {}).get("number", 1) > 1)
        assert cluster.on("c") == ""
        assert cluster.condition("c").get("status") != "True"


async def test_a_pod_goes_to_the_node_once_a_volume_is_detached(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        classes(cluster)
        cluster.node("a")
        drivers = [{"name": "csi.example.com", "nodeID": "a", "allocatable": {"count": 1}}]
        cluster.store.create(CSI_NODES, {"metadata": {"name": "a"}, "spec": {"drivers": drivers}})
        behind = {"csi": {"driver": "csi.example.com", "volumeHandle": "old"}, "capacity": {"storage": "1Gi"}}
        cluster.store.create(PERSISTENT_VOLUMES, {"metadata": {"name": "old"}, "spec": behind})
        source = {"persistentVolumeName": "old"}
        attached = {"attacher": "csi.example.com", "nodeName": "a", "source": source}
        cluster.store.create(VOLUME_ATTACHMENTS, {"metadata": {"name": "x"}, "spec": attached})
        claim(cluster, "data", "made")
        await stage.replica()
        cluster.pod("p", **using("data"))
        full = "0/1 nodes are available: 1 node(s) exceed max volume count."
        await until(lambda: full in str(cluster.condition("p").get("message")))
        assert bound(cluster, "data") == ""
        cluster.store.delete(VOLUME_ATTACHMENTS, "", "x")
        await until(lambda: cluster.on("p") == "a")


async def test_a_claim_for_one_pod_passes_from_pod_to_pod(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        classes(cluster)
        cluster.node("a")
        claim(cluster, "data", "made")
        cluster.store.patch(
            PERSISTENT_VOLUME_CLAIMS, "default", "data", {"spec": {"accessModes": ["ReadWriteOncePod"]}}
        )
        await stage.replica()
        cluster.pod("first", **using("data"))
        await until(lambda: cluster.on("first"))
        cluster.pod("second", **using("data"))
        await until(lambda: "ReadWriteOncePod" in str(cluster.condition("second").get("message")))
        cluster.store.delete(PODS, "default", "first")
        await until(lambda: cluster.on("second"))
