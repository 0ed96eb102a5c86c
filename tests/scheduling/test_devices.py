"""Pods that ask for devices, end to end: a scheduler beside a simulated cluster that has ResourceClaims and slices."""

from __future__ import annotations

from typing import Any

from controlplane.kube.kinds import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Json
from tests.scheduling.stage import Cluster, Stage, staged, until
from tests.scheduling.test_candidates import Source

DRIVER = "gpu.example.com"


def devices(cluster: Cluster, node: str, *names: str) -> None:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": [{"name": name} for name in names]}
    cluster.store.create(RESOURCE_SLICES, {"metadata": {"name": node}, "spec": spec})


def device_class(cluster: Cluster) -> None:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    cluster.store.create(DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}})


def claim(cluster: Cluster, name: str) -> None:
    asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    spec = {"devices": {"requests": [{"name": "r", "exactly": asked}]}}
    cluster.store.create(RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def asking(*claims: str) -> dict[str, Any]:
    return {"resourceClaims": [{"name": one, "resourceClaimName": one} for one in claims]}


def given(cluster: Cluster, name: str) -> Json:
    found: Json = cluster.store.get(RESOURCE_CLAIMS, "default", name)
    return found


def device_of(cluster: Cluster, name: str) -> str:
    allocation = given(cluster, name).get("status", {}).get("allocation")
    return "/".join(allocation["devices"]["results"][0][part] for part in ("pool", "device")) if allocation else ""


def users(cluster: Cluster, name: str) -> set[str]:
    return {one["name"] for one in given(cluster, name).get("status", {}).get("reservedFor", ())}


async def fleet(stage: Stage) -> Cluster:
    cluster = stage.cluster
    device_class(cluster)
    for node, names in (("a", ("d0", "d1")), ("b", ("d0",))):
        cluster.node(node, cpu="16")
        devices(cluster, node, *names)
    await stage.replica()
    return cluster


async def test_pods_get_devices_each_its_own_and_the_next_one_waits_for_one(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = await fleet(stage)
        names = [f"g{number}" for number in range(4)]
        for name in names[:3]:
            claim(cluster, name)
            cluster.pod(name, **asking(name))
        await until(lambda: all(cluster.on(name) for name in names[:3]))
        taken = {device_of(cluster, name) for name in names[:3]}
        assert taken == {"a/d0", "a/d1", "b/d0"}
        for name in names[:3]:
            assert device_of(cluster, name).startswith(f"{cluster.on(name)}/")
            assert users(cluster, name) == {name}
            assert given(cluster, name)["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        claim(cluster, names[3])
        cluster.pod(names[3], **asking(names[3]))
        await until(lambda: "2 cannot allocate all claims" in str(cluster.condition(names[3]).get("message")))
        # What the resource claim controller does once the pod is gone.
        cluster.store.delete(PODS, "default", names[0])
        freed = {"status": {"allocation": None, "reservedFor": None}}
        cluster.store.patch(RESOURCE_CLAIMS, "default", names[0], freed, subresource="status")
        await until(lambda: cluster.on(names[3]))


async def test_two_pods_share_a_claim_and_run_where_it_is(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = await fleet(stage)
        claim(cluster, "shared")
        for name in ("one", "two"):
            cluster.pod(name, **asking("shared"))
        await until(lambda: cluster.on("one") and cluster.on("two"))
        assert cluster.on("one") == cluster.on("two") == device_of(cluster, "shared").partition("/")[0]
        assert users(cluster, "shared") == {"one", "two"}


async def test_a_claim_made_of_a_template_is_waited_for(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = await fleet(stage)
        made = cluster.pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
        await until(lambda: "ResourceClaim not created yet" in str(cluster.condition("p").get("message")))
        claim(cluster, "p-gpu-1")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"], "controller": True}
        cluster.store.patch(RESOURCE_CLAIMS, "default", "p-gpu-1", {"metadata": {"ownerReferences": [owner]}})
        told = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-1"}]}}
        cluster.store.patch(PODS, "default", "p", told, subresource="status")
        await until(lambda: cluster.on("p"))
        assert users(cluster, "p-gpu-1") == {"p"}


async def test_a_leader_that_dies_between_the_allocation_and_the_binding_leaves_one_allocation(
    database_url: str,
) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        device_class(cluster)
        cluster.node("a", cpu="16")
        devices(cluster, "a", "d0", "d1")
        first = await stage.replica()
        claim(cluster, "g")
        cluster.pod("g", **asking("g"))
        await until(lambda: device_of(cluster, "g"))
        had = device_of(cluster, "g")
        await first.kill()
        await stage.replica()
        await until(lambda: cluster.on("g"))
        assert device_of(cluster, "g") == had


async def test_a_candidate_gets_its_device_once_its_source_permits_the_binding(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = await fleet(stage)
        claim(cluster, "g")
        source = Source(cluster)
        source.invited()
        source.asks("c", **asking("g"))
        await until(lambda: source.status("c").get("phase") == "Reserved")
        assert device_of(cluster, "g") == ""
        source.permits("c")
        await until(lambda: device_of(cluster, "g"))
        await until(lambda: cluster.on("c"))
        assert users(cluster, "g") == {"c"}


async def test_many_pods_share_a_claim_at_once(database_url: str) -> None:
    """One change of the claim may be what several of them wait for."""
    async with staged(database_url) as stage:
        cluster = await fleet(stage)
        claim(cluster, "shared")
        names = [f"p{number}" for number in range(8)]
        for name in names:
            cluster.pod(name, cpu="100m", **asking("shared"))
        await until(lambda: all(cluster.on(name) for name in names), "all are bound", 20)
        assert users(cluster, "shared") == set(names)
