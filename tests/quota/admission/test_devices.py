"""Workloads that ask for devices: what is reserved for them, what they are told, and when they are tried again."""

from __future__ import annotations

import pytest

from controlplane.controllers.quota.admission import device_events, events
from controlplane.controllers.quota.engine.explain import explain
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from tests.quota.admission.devices import (
    CLASSES,
    TEMPLATES,
    pod,
    selecting,
    slice_of,
    submit,
    template,
    told,
    used,
    with_devices,
)
from tests.quota.admission.scene import NS

NOT_MAPPED = (
    "spec.podSets[0].template.spec.resourceClaims[0].resourceClaimTemplateName: Not found: "
    '"DeviceClass other.example.com is not mapped in DRA configuration for podset main"'
)
NO_TEMPLATE = (
    "spec.podSets[0].template.spec.resourceClaims[0]: Internal error: failed to get claim spec for "
    'ResourceClaimTemplate t in podset main: ResourceClaimTemplate.resource.k8s.io "t" not found'
)


# --- what counts ---


def test_the_devices_of_a_template_count_for_each_pod() -> None:
    scene = with_devices()
    template(scene, count=2)
    submit(scene, count=2)
    scene.settle()
    assert used(scene) == {"cpu": "2", "gpus": "4"}
    assert scene.status("a")["admission"]["podSetAssignments"][0]["flavors"] == {"cpu": "default", "gpus": "default"}
    assert scene.posted()[f"admission/workload/{NS}/a"] == {("q", "default", "cpu"): 2000, ("q", "default", "gpus"): 4}


def test_no_more_devices_are_given_than_there_is_quota() -> None:
    scene = with_devices(quota="3")
    template(scene, count=2)
    submit(scene, "a")
    submit(scene, "b")
    scene.settle()
    assert [scene.is_true(name, "QuotaReserved") for name in ("a", "b")] == [True, False]
    assert told(scene, "b") == (
        "WaitingForQuota",
        "couldn't assign flavors to pod set main: insufficient unused quota for gpus in flavor default, 1 more needed",
    )
    scene.finish("a")
    scene.settle()
    assert used(scene, "b") == {"cpu": "1", "gpus": "2"}


def test_what_waits_for_devices_says_what_it_asks_for() -> None:
    scene = with_devices(quota="1")
    template(scene, count=2)
    submit(scene)
    scene.settle()
    assert scene.status("a")["resourceRequests"] == [{"name": "main", "resources": {"cpu": "1", "gpus": "2"}}]
    wait = explain(scene.controller.index.engine, f"{NS}/a", scene.now.timestamp())
    assert wait is not None
    found = {one.resource: one.missing for group in wait.groups for option in group for one in option.shortages}
    assert found == {"cpu": 0, "gpus": 1}


def test_devices_that_can_be_partitioned_count_by_their_counter() -> None:
    scene = with_devices(resource="gpu.memory", quota="25Gi")
    scene.put(CLASSES, "mig.example.com", spec=selecting("device.attributes['gpu.example.com'].type == 'mig'"))
    slice_of(scene)
    template(scene, device_class="mig.example.com")
    submit(scene, count=2)
    scene.settle()
    assert used(scene) == {"cpu": "2", "gpu.memory": "20Gi"}


def test_the_extended_resource_of_a_class_counts_as_what_the_class_does() -> None:
    scene = with_devices()
    scene.put(CLASSES, "gpu.example.com", spec={"extendedResourceName": "example.com/gpu"})
    pod(scene, "a", {}, asks={"example.com/gpu": "2"})
    scene.settle()
    assert used(scene) == {"cpu": "1", "gpus": "2"}


def test_an_extended_resource_counts_as_itself_until_a_class_has_it() -> None:
    scene = with_devices()
    pod(scene, "a", {}, asks={"example.com/gpu": "2"})
    scene.settle()
    assert told(scene)[0] == "NoMatchingFlavor"
    scene.put(CLASSES, "gpu.example.com", spec={"extendedResourceName": "example.com/gpu"})
    scene.settle()
    assert used(scene) == {"cpu": "1", "gpus": "2"}
    scene.delete(CLASSES, "gpu.example.com")
    scene.release("a")
    scene.settle()
    assert "example.com/gpu" in told(scene)[1]


def test_who_has_quota_keeps_it_whatever_its_devices_count_as() -> None:
    scene = with_devices()
    template(scene, count=2)
    submit(scene)
    scene.settle()
    template(scene, count=4)
    scene.delete(TEMPLATES, "t", NS)
    scene.settle()
    assert used(scene) == {"cpu": "1", "gpus": "2"}


# --- what cannot be counted ---


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"device_class": "other.example.com"}, NOT_MAPPED),
        (
            {"allocationMode": "All", "count": 0},
            ("spec.podSets[0].template.spec.resourceClaims[0].devices.requests[0].exactly.allocationMode: Invalid "
                "value: \"All\": ResourceClaimTemplate t: AllocationMode 'All' is not supported"),
        ),
        (
            selecting("device.driver == 'none'"),
            ("spec.podSets[0].template.spec.resourceClaims[0].devices.requests[0].exactly.selectors: Internal error: "
            "ResourceClaimTemplate t: insufficient matching devices for CEL selector in DeviceClass gpu.example.com: "
            "0 device(s) match in the cluster but 1 requested"),
        ),
    ],
)  # fmt: skip
def test_what_is_not_counted_waits_and_is_told_so_as_by_kueue(asked: Json, message: str) -> None:
    scene = with_devices()
    scene.put(CLASSES, "gpu.example.com", spec={})
    template(scene, **asked)
    submit(scene)
    scene.settle()
    assert told(scene) == ("Misconfigured", message)
    requeued = scene.condition("a", "Requeued")
    assert (requeued["status"], requeued["reason"], requeued["message"]) == ("False", "Inadmissible", message)
    assert scene.condition("a", "Admitted")["reason"] == "NoReservation"
    assert [one.message for one in scene.said(events.WorkloadStatusDecided, "a")] == [message]
    template(scene)
    scene.objects[TEMPLATES, NS, "t"]["spec"]["spec"]["devices"]["requests"][0]["exactly"].pop("selectors", None)
    scene.show(TEMPLATES, scene.objects[TEMPLATES, NS, "t"])
    scene.settle()
    assert used(scene) == {"cpu": "1", "gpus": "1"}
    assert scene.condition("a", "Requeued") == {}


def test_a_claim_by_name_is_not_counted() -> None:
    scene = with_devices()
    pod(scene, "a", {"resourceClaims": [{"name": "c", "resourceClaimName": "shared"}]})
    scene.settle()
    assert told(scene) == ("Misconfigured", "KueueDRAIntegration feature does not support use of resource claims")


def test_who_waits_for_a_template_is_tried_when_it_comes() -> None:
    scene = with_devices()
    submit(scene)
    scene.settle()
    assert told(scene) == ("Misconfigured", NO_TEMPLATE)
    template(scene)
    scene.settle()
    assert used(scene) == {"cpu": "1", "gpus": "1"}


def test_who_waits_for_devices_is_tried_when_a_slice_shows_them() -> None:
    scene = with_devices(resource="gpu.memory", quota="25Gi")
    scene.put(CLASSES, "mig.example.com", spec={})
    template(scene, device_class="mig.example.com")
    slice_of(scene, resourceSliceCount=2)  # the pool is not whole yet
    submit(scene)
    scene.settle()
    assert told(scene)[1].endswith(
        "insufficient matching devices for counter driver: 0 device(s) match but 1 requested"
    )
    for memory in ("5Gi", "10Gi"):
        slice_of(scene, memory, resourceSliceCount=1)
        scene.settle()
    assert used(scene) is None
    scene.pass_time(1)
    assert used(scene) == {"cpu": "1", "gpu.memory": "10Gi"}
    (recounted,) = scene.said(device_events.DevicesRecounted)
    assert recounted.reason == "ResourceSlicesChanged"
    slice_of(scene, "20Gi")
    scene.pass_time(5)
    assert len(scene.said(device_events.DevicesRecounted)) == 1, "nobody waits"


def test_a_workload_that_cannot_be_counted_keeps_nobody_waiting() -> None:
    scene = with_devices()
    scene.queue("q", queueingStrategy="StrictFIFO")
    template(scene, device_class="other.example.com")
    submit(scene, "a")
    scene.pass_time(1)
    scene.workload("b", "q")
    scene.settle()
    assert scene.is_true("b", "QuotaReserved")
    assert not scene.is_true("a", "QuotaReserved")


def test_a_workload_that_is_put_aside_is_not_told_of_its_devices() -> None:
    scene = with_devices()
    submit(scene)
    scene.put(kinds.WORKLOADS, "a", NS, spec={**scene.of("a")["spec"], "active": False})
    scene.settle()
    assert told(scene)[0] == "Deactivated"


def test_a_workload_that_is_on_hold_stays_so() -> None:
    scene = with_devices()
    submit(scene)
    scene.set_condition("a", "QuotaReserved", "False", "OnHold")
    scene.settle()
    assert told(scene) == ("OnHold", "by hand")
