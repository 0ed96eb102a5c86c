"""Devices for pods on a real kube-apiserver, with the rights of deploy/scheduler: the API server takes the allocation.

No driver, kubelet or resource claim controller runs there: their part is played by hand.
"""

from __future__ import annotations

import pytest

from controlplane.controllers.scheduling.plugins.dynamic_resources import FINALIZER
from controlplane.kube.kinds import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, Json
from tests.real.test_real_scheduler import WHY, Real, kubeconfig, real, until

__all__ = ["kubeconfig", "real"]
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY), pytest.mark.timeout(240)]
DRIVER = "gpu.example.com"


async def test_a_pod_gets_devices_and_others_share_them(real: Real) -> None:
    await real.node("gpus", cpu="8")
    large = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    await real.api.create(DEVICE_CLASSES, "", {"metadata": {"name": DRIVER}, "spec": {"selectors": selectors}})
    devices: list[Json] = [
        {"name": name, "capacity": {"memory": {"value": size}}, "attributes": {"numa": {"int": 0}}}
        for name, size in (("small", "10Gi"), ("large", "80Gi"), ("larger", "96Gi"))
    ]
    pool = {"name": "gpus", "generation": 1, "resourceSliceCount": 1}
    spec: Json = {"driver": DRIVER, "pool": pool, "nodeName": "gpus", "devices": devices}
    await real.api.create(RESOURCE_SLICES, "", {"metadata": {"name": "gpus"}, "spec": spec})
    exactly = {"deviceClassName": DRIVER, "count": 2, "selectors": [{"cel": {"expression": large}}]}
    asked = {"requests": [{"name": "r", "exactly": exactly}], "constraints": [{"matchAttribute": f"{DRIVER}/numa"}]}
    await real.api.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": "two"}, "spec": {"devices": asked}})
    uses = [{"name": "gpu", "resourceClaimName": "two"}]
    await real.pod("first", "gpus", resourceClaims=uses)
    await real.pod("second", "gpus", resourceClaims=uses)
    await until(lambda: real.on("first"))
    await until(lambda: real.on("second"))
    claim = await real.api.get(RESOURCE_CLAIMS, "default", "two")
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    allocation = claim["status"]["allocation"]
    assert [one["device"] for one in allocation["devices"]["results"]] == ["large", "larger"]
    assert allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["gpus"]
    assert {one["name"] for one in claim["status"]["reservedFor"]} == {"first", "second"}
    assert all(one["resource"] == "pods" for one in claim["status"]["reservedFor"])
    await real.api.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": "more"}, "spec": {"devices": asked}})
    await real.pod("third", "gpus", resourceClaims=[{"name": "gpu", "resourceClaimName": "more"}])

    async def refused() -> bool:
        return "cannot allocate all claims" in str((await real.condition("third")).get("message"))

    await until(refused)
