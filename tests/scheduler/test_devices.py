"""Devices for claims: what is refused with its reason, what Reserve reserves, what PreBind writes."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from controlplane.controllers.scheduling.devices.tables import DeviceTables
from controlplane.controllers.scheduling.evaluate.answer import answer
from controlplane.controllers.scheduling.evaluate.request import read
from controlplane.controllers.scheduling.framework.plugin import CycleState
from controlplane.controllers.scheduling.plugins.dynamic_resources import FINALIZER, DynamicResources
from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.objects import Pod, read_pod
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.kube.kinds import STRATEGIC_PATCH, Json, Request
from controlplane.kube.pod_fields import PodMisfit
from tests.scheduler.objects import a_node, node, pod

DRIVER = "gpu.example.com"
GPU: Json = {
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}


def pool(*devices: Json | str, where: str = "n", **spec: Any) -> Json:
    listed = [one if isinstance(one, dict) else {"name": one} for one in devices]
    told = {"driver": DRIVER, "pool": {"name": where, "generation": 1, "resourceSliceCount": 1}, "nodeName": where}
    return {"metadata": {"name": f"slice-{where}"}, "spec": told | {"devices": listed} | spec}


def claim(name: str = "c", status: Json | None = None, **request: Any) -> Json:
    asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1} | request
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    spec = {"devices": {"requests": [{"name": "r", "exactly": asked}]}}
    return {"metadata": meta, "spec": spec, "status": status or {}}


def asking(*claims: str, name: str = "p") -> Json:
    return pod(name, resourceClaims=[{"name": one, "resourceClaimName": one} for one in claims])


def told(found: Json) -> dict[str, list[str]]:
    return {name: status["reasons"] for name, status in found["combined"]["filter"].items() if status["reasons"]}


def ask(claims: list[Json], slices: list[Json], *names: str) -> Json:
    line = {"id": 1, "pod": asking(*names), "nodes": [node("n"), node("m")], "deviceClasses": [GPU]}
    return answer(read(line | {"resourceClaims": claims, "resourceSlices": slices}))


def test_a_pod_goes_where_its_device_is_and_the_answer_says_which() -> None:
    found = ask([claim()], [pool("d0")], "c")
    assert found["combined"]["feasible"] == ["n"]
    assert told(found) == {"m": ["cannot allocate all claims"]}
    given = found["perPlugin"]["DynamicResources"]["allocations"]["n"]["default/c"]
    assert given["devices"]["results"] == [{"request": "r", "driver": DRIVER, "pool": "n", "device": "d0"}]
    assert given["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["n"]


LEFT_OUT = "devices that claims share, or that have conditions to be bound, are not allocated by this scheduler"


@pytest.mark.parametrize(
    ("asked", "device", "reason"),
    [
        ({"capacity": {"requests": {"memory": "1Gi"}}}, {}, "a share of a device (capacity) is not allocated"),
        ({}, {"allowMultipleAllocations": True}, LEFT_OUT),
        ({}, {"bindingConditions": ["attached"]}, LEFT_OUT),
        ({"allocationMode": "All", "count": 0}, {"allowMultipleAllocations": True}, LEFT_OUT),
        (
            {"selectors": [{"cel": {"expression": 'device.driver.matches("g")'}}]},
            {},
            "is not evaluated by this scheduler",
        ),
    ],
)
def test_what_is_not_allocated_is_refused_with_its_reason(asked: Json, device: Json, reason: str) -> None:
    found = ask([claim(**asked)], [pool({"name": "d0"} | device)], "c")
    assert found["combined"]["feasible"] == []
    assert any(reason in one for one in told(found)["n"])
    assert "error" not in found["combined"]


def test_a_search_ends() -> None:
    devices = [{"name": f"d{at}", "attributes": {"a": {"int": at}}} for at in range(24)]
    one = claim(count=12)
    one["spec"]["devices"]["requests"].append({"name": "s", "exactly": {"deviceClassName": "gpu", "count": 13}})
    found = ask([one], [pool(*devices)], "c")
    assert told(found)["n"] == ["no choice of devices was found in 200000 steps"]


def test_a_pod_may_have_more_devices_than_the_interpreter_has_frames() -> None:
    """An allocation holds 32 devices, and a pod may have many claims."""
    names = [f"c{at}" for at in range(20)]
    slices = []
    for name in names:
        of = {"name": name, "generation": 1, "resourceSliceCount": 1}
        slices.append(pool(*(f"d{at}" for at in range(32)), pool=of) | {"metadata": {"name": name}})
    found = ask([claim(name, count=32) for name in names], slices, *names)
    assert found["combined"]["feasible"] == ["n"]
    allocated = found["perPlugin"]["DynamicResources"]["allocations"]["n"]
    assert sum(len(one["devices"]["results"]) for one in allocated.values()) == 640
    assert sys.getrecursionlimit() == 1000


class Stage:
    """The plugin beside a cluster, without a scheduler."""

    def __init__(self, *objects: tuple[str, Json]) -> None:
        self.cluster = ClusterTables()
        self.snapshot = Snapshot([a_node("n"), a_node("m")], (), self.cluster)
        self.plugin = DynamicResources()
        self.plugin.begin(self.cluster)
        self.cluster.devices.put_class(GPU)
        for kind, obj in objects:
            getattr(self.cluster.devices, f"put_{kind}")(obj)

    def filtered(self, asked: Pod, where: str = "n") -> tuple[CycleState, list[str]]:
        state = CycleState()
        status = self.plugin.pre_filter(state, asked, self.snapshot).status
        if status.ok:
            status = self.plugin.filter(state, asked, self.snapshot.info(self.snapshot.row[where]))
        return state, list(status.reasons)


def test_what_is_reserved_is_nobody_elses() -> None:
    stage = Stage(("claim", claim("a")), ("claim", claim("b")), ("slice", pool("d0")))
    first, second = read_pod(asking("a", name="first")), read_pod(asking("b", name="second"))
    state, reasons = stage.filtered(first)
    assert reasons == []
    assert stage.plugin.reserve(state, first, "n").ok
    assert stage.filtered(second)[1] == ["cannot allocate all claims"]
    third = read_pod(asking("a", name="third"))
    assert stage.filtered(third)[1] == ["resource claim default/a is in the process of being allocated"]
    stage.plugin.unreserve(state, first, "n")
    assert stage.filtered(second)[1] == []


def test_what_is_written_before_the_binding() -> None:
    stage = Stage(("claim", claim("a")), ("slice", pool("d0")))
    asked = read_pod(asking("a"))
    state, _ = stage.filtered(asked)
    stage.plugin.reserve(state, asked, "n")
    finalizer, status = stage.plugin.pre_bind(state, asked, "n").requests
    assert (finalizer.subresource, finalizer.body) == ("", {"metadata": {"finalizers": [FINALIZER]}})
    assert (status.subresource, status.content_type, status.uid) == ("status", STRATEGIC_PATCH, "uid-a")
    assert status.body["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    assert status.body["status"]["allocation"]["devices"]["results"][0]["device"] == "d0"
    shown = claim("a", status=status.body["status"])
    stage.cluster.devices.put_claim(shown)
    assert stage.plugin.pre_bind(state, asked, "n").requests == ()
    stage.plugin.post_bind(state, asked, "n")
    assert stage.cluster.devices.reserved == {}
    assert len(stage.cluster.devices.taken()) == 1


def test_a_claim_that_is_allocated_is_only_reserved() -> None:
    given = {"allocation": {"devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "n", "device": "d0"}]}}}
    stage = Stage(("claim", claim("a", status=given)), ("slice", pool("d0")))
    asked = read_pod(asking("a"))
    state, reasons = stage.filtered(asked)
    assert reasons == []
    stage.plugin.reserve(state, asked, "n")
    (patch,) = stage.plugin.pre_bind(state, asked, "n").requests
    assert list(patch.body["status"]) == ["reservedFor"]


def test_a_new_process_keeps_what_the_old_one_decided_to_write() -> None:
    stage = Stage(("claim", claim("a")), ("slice", pool("d0", "d1")))
    asked = read_pod(asking("a"))
    state, _ = stage.filtered(asked)
    stage.plugin.reserve(state, asked, "n")
    requests: tuple[Request, ...] = stage.plugin.pre_bind(state, asked, "n").requests
    requests[1].body["status"]["allocation"]["devices"]["results"][0]["device"] = "d1"
    other = Stage(("claim", claim("a")), ("slice", pool("d0", "d1")))
    assert other.plugin.reserve(CycleState(requests), asked, "n").ok
    assert {device.device for device in other.cluster.devices.taken()} == {"d1"}


def test_a_reservation_of_a_process_before_finds_devices_anew() -> None:
    stage = Stage(("claim", claim("a")), ("slice", pool("d0")))
    asked = read_pod(asking("a"))
    assert stage.plugin.reserve(CycleState(), asked, "n").ok
    assert {device.device for device in stage.cluster.devices.taken()} == {"d0"}
    stage.plugin.unreserve(CycleState(), asked, "n")
    assert list(stage.plugin.reserve(CycleState(), asked, "m").reasons) == ["cannot allocate all claims"]


def test_devices_are_free_once_their_claim_is_gone_or_given_back() -> None:
    given = {"allocation": {"devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "n", "device": "d0"}]}}}
    tables = DeviceTables()
    tables.put_claim(claim("a", status=given))
    assert len(tables.taken()) == 1
    tables.put_claim(claim("a"))
    assert not tables.taken()
    tables.put_claim(claim("a", status=given))
    tables.drop_claim(("default", "a"))
    assert not tables.taken()


@pytest.mark.parametrize(
    ("kind", "obj", "field"),
    [
        ("claim", claim(count="many"), "resourceClaim.spec.devices.requests[0].exactly.count"),
        ("slice", pool({"name": "d", "attributes": {"a": 5}}), "resourceSlice.spec.devices[0].attributes[a]"),
        (
            "slice",
            pool({"name": "d", "capacity": {"m": {"value": "x"}}}),
            "resourceSlice.spec.devices[0].capacity[m].value",
        ),
        ("class", {"metadata": {"name": "g"}, "spec": {"selectors": [{"cel": {"expression": 1}}]}}, "deviceClass.spec"),
    ],
)
def test_a_wrong_type_is_named(kind: str, obj: Json, field: str) -> None:
    with pytest.raises(PodMisfit) as caught:
        getattr(DeviceTables(), f"put_{kind}")(obj)
    assert field in str(caught.value)
