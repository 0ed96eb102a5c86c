"""Devices count as quota for the whole service: jobs ask for them by templates of claims, and no more of them are
admitted than there is quota; the process is killed on the way, and comes to the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from controlplane.kube.kinds import (
    CLUSTER_QUEUES,
    DEVICE_CLASSES,
    JOBS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    Json,
)
from controlplane.settings import Settings
from controlplane.settings.device_class_mappings import CountedCounter, DeviceClassMapping
from controlplane.simulation.kinds.base import DEFAULT_KINDS
from controlplane.simulation.kinds.nodes import DEVICE_CLAIM_KINDS
from tests.outages.stage import NS, Stage, settings
from tests.outages.test_admission import balance

Make = Callable[..., Awaitable[Stage]]
SERVED = (*DEFAULT_KINDS, *DEVICE_CLAIM_KINDS)
MAPPINGS = (
    DeviceClassMapping("gpus", ("gpu.example.com",)),
    DeviceClassMapping("memory-of-gpus", ("mig.example.com",), (CountedCounter("memory", "gpu.example.com", "true"),)),
)


def counting() -> Settings:
    found = settings(lost=3600)
    resources = msgspec.structs.replace(found.quota.resources, device_class_mappings=MAPPINGS)
    return msgspec.structs.replace(
        found, quota=msgspec.structs.replace(found.quota, mode="builtin", resources=resources)
    )


def offer(on: Stage, **quota: str) -> None:
    """Let the ClusterQueue have quota of resources that devices count as."""
    room = on.manager.store.get(CLUSTER_QUEUES, "", "cluster-queue")
    group = room["spec"]["resourceGroups"][0]
    group["coveredResources"] += list(quota)
    group["flavors"][0]["resources"] += [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
    on.manager.store.update(CLUSTER_QUEUES, room)


def template(on: Stage, name: str, device_class: str, count: int = 1) -> None:
    requests = [
        {"name": "r", "exactly": {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}}
    ]
    made = {"metadata": {"namespace": NS, "name": name}, "spec": {"spec": {"devices": {"requests": requests}}}}
    on.manager.store.create(RESOURCE_CLAIM_TEMPLATES, made, field_manager="user")


def submit(on: Stage, name: str, *templates: str) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    claims = [{"name": one, "resourceClaimTemplateName": one} for one in templates]
    pod = {"restartPolicy": "Never", "containers": [container], "resourceClaims": claims}
    metadata = {"namespace": NS, "name": name, "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}
    spec = {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "parallelism": 1, "template": {"spec": pod}}
    on.manager.store.create(JOBS, {"metadata": metadata, "spec": spec}, field_manager="user")


def told(on: Stage, name: str) -> str:
    """What QuotaReserved says of the Workload of a job, "" as long as it has none."""
    status = (on.workload(name=name) or {}).get("status") or {}
    conditions: list[Json] = status.get("conditions") or []
    return next((str(one["message"]) for one in conditions if one["type"] == "QuotaReserved"), "")


async def test_no_more_devices_are_admitted_than_there_is_quota_whoever_leads(stage: Make) -> None:
    on = await stage("a", settings=counting(), manager_is={"kueue": False}, kinds=SERVED)
    offer(on, gpus="3")
    template(on, "two", "gpu.example.com", count=2)
    submit(on, "first", "two")
    await on.until(lambda: told(on, "first").startswith("Quota reserved"), "the first has two devices")
    submit(on, "second", "two")
    await on.until(lambda: "insufficient unused quota for gpus in flavor" in told(on, "second"), "the second waits")
    await on.kill()
    await on.up()
    assert sorted(balance(on).values()) == [1002]  # a thousand thousandths of a cpu, and two devices
    await on.until(lambda: on.running_on(name="first"), "the first runs")
    on.end("a", name="first")
    await on.until(lambda: told(on, "second").startswith("Quota reserved"), "the second has two devices")


async def test_who_asks_for_what_is_not_there_waits_until_it_comes(stage: Make) -> None:
    on = await stage("a", settings=counting(), manager_is={"kueue": False}, kinds=SERVED)
    offer(on, **{"memory-of-gpus": "25Gi"})
    submit(on, "part", "mig")
    await on.until(lambda: 'ResourceClaimTemplate.resource.k8s.io "mig" not found' in told(on, "part"), "no template")
    template(on, "mig", "mig.example.com")
    await on.until(lambda: "failed to get DeviceClass mig.example.com" in told(on, "part"), "no class")
    on.manager.store.create(DEVICE_CLASSES, {"metadata": {"name": "mig.example.com"}, "spec": {}}, field_manager="user")
    await on.until(lambda: "0 device(s) match but 1 requested" in told(on, "part"), "no device")
    counters = [{"counterSet": "set", "counters": {"memory": {"value": "10Gi"}}}]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {
        "driver": "gpu.example.com",
        "pool": pool,
        "nodeName": "n",
        "devices": [{"name": "d", "consumesCounters": counters}],
    }
    on.manager.store.create(RESOURCE_SLICES, {"metadata": {"name": "s"}, "spec": spec}, field_manager="driver")
    await on.until(lambda: told(on, "part").startswith("Quota reserved"), "it has its part of a device")
    usage = (on.workload(name="part") or {})["status"]["admission"]["podSetAssignments"][0]["resourceUsage"]
    assert usage == {"cpu": "1", "memory-of-gpus": "10Gi"}


async def test_a_cluster_that_does_not_serve_the_kinds_admits_all_others(stage: Make) -> None:
    on = await stage("a", settings=counting(), manager_is={"kueue": False})
    submit(on, "plain")
    submit(on, "asks", "two")
    await on.until(lambda: told(on, "plain").startswith("Quota reserved"), "who asks for no devices is admitted")
    await on.until(
        lambda: "resource.k8s.io with version v1 is not served there" in told(on, "asks"), "the other is told"
    )
