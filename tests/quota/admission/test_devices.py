"""Workloads that ask for devices: what is reserved for them, what they are told, and when they are tried again."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.admission import device_events, events
from controlplane.controllers.quota.devices.model import (
    IGNORE,
    REJECT,
    CounterSource,
    DeviceMapping,
    DeviceRules,
)
from controlplane.controllers.quota.engine.explain import explain
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind
from controlplane.log.event import NewEvent
from controlplane.runtime.folded import give, taken
from tests.quota.admission.placed import sees
from tests.quota.admission.scene import NS, Scene

TEMPLATES, CLASSES, SLICES = kinds.RESOURCE_CLAIM_TEMPLATES, kinds.DEVICE_CLASSES, kinds.RESOURCE_SLICES
WHOLE = DeviceMapping("gpus", ("gpu.example.com",))
MEMORY = DeviceMapping(
    "gpu.memory",
    ("mig.example.com",),
    (CounterSource("gpu.memory", "gpu.example.com", "memory", "device.driver == 'gpu.example.com'"),),
)
RULES = DeviceRules.of([WHOLE, MEMORY])
NOT_MAPPED = (
    "spec.podSets[0].template.spec.resourceClaims[0].resourceClaimTemplateName: Not found: "
    '"DeviceClass other.example.com is not mapped in DRA configuration for podset main"'
)
NO_TEMPLATE = (
    "spec.podSets[0].template.spec.resourceClaims[0]: Internal error: failed to get claim spec for "
    'ResourceClaimTemplate t in podset main: ResourceClaimTemplate.resource.k8s.io "t" not found'
)


def with_devices(rules: DeviceRules = RULES, *seen: Kind, resource: str = "gpus", quota: str = "4") -> Scene:
    """A ClusterQueue of a resource that devices count as."""
    scene = sees(Scene(devices=rules), *(seen or (TEMPLATES, CLASSES, SLICES)))
    of = {
        "name": "default",
        "resources": [{"name": "cpu", "nominalQuota": "10"}, {"name": resource, "nominalQuota": quota}],
    }
    scene.queue("q", resourceGroups=[{"coveredResources": ["cpu", resource], "flavors": [of]}])
    return scene


def template(
    scene: Scene, name: str = "t", device_class: str = "gpu.example.com", count: int = 1, **asked: Any
) -> None:
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count, **asked}
    spec = {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    scene.put(TEMPLATES, name, NS, spec=spec)


def selecting(expression: str) -> Json:
    return {"selectors": [{"cel": {"expression": expression}}]}


def slice_of(scene: Scene, memory: str = "10Gi", name: str = "s", **pool: Any) -> None:
    device = {
        "name": "d0",
        "attributes": {"type": {"string": "mig"}},
        "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": memory}}}],
    }
    in_pool = {"name": "p", "generation": 1, "resourceSliceCount": 1, **pool}
    scene.put(SLICES, name, spec={"driver": "gpu.example.com", "pool": in_pool, "devices": [device]})


def submit(scene: Scene, name: str = "a", *templates: str, count: int = 1, asks: Json | None = None) -> None:
    claims = [{"name": one, "resourceClaimTemplateName": one} for one in templates or ("t",)]
    pod(scene, name, {"resourceClaims": claims}, count=count, asks=asks)


def pod(scene: Scene, name: str, spec: Json, count: int = 1, asks: Json | None = None) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "1", **(asks or {})}}}
    of = {"name": "main", "count": count, "template": {"spec": {"containers": [container], **spec}}}
    scene.workload(name, "q", podSets=[of])


def used(scene: Scene, name: str = "a") -> Json | None:
    found = scene.status(name).get("admission")
    return dict(found["podSetAssignments"][0]["resourceUsage"]) if found else None


def told(scene: Scene, name: str = "a") -> tuple[str, str]:
    found = scene.condition(name, "QuotaReserved")
    return found.get("reason", ""), found.get("message", "")


def turned_off(scene: Scene, *seen: Kind) -> Scene:
    """Kinds that the cluster does not serve."""
    for kind in seen:
        event = connectivity.KindOff(kind=kind.name, reason="NotServed", message=f"{kind.name} is not served there")
        scene.record(NewEvent(stream=connectivity.cluster_stream(MANAGEMENT), event=event, cluster=MANAGEMENT))
    return scene


def needs(scene: Scene) -> tuple[Kind, ...]:
    return scene.controller.index.followed


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
            ("spec.podSets[0].template.spec.resourceClaims[0].devices.requests[0].exactly.allocationMode: Invalid value: "
            "\"All\": ResourceClaimTemplate t: AllocationMode 'All' is not supported"),
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
    slice_of(scene, resourceSliceCount=1)
    scene.settle()
    assert used(scene) == {"cpu": "1", "gpu.memory": "10Gi"}


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


# --- what is followed ---


def test_without_mappings_and_claims_nothing_is_followed() -> None:
    scene = with_devices(DeviceRules())
    pod(scene, "a", {}, asks={"example.com/gpu": "1"})
    assert needs(scene) == ()


@pytest.mark.parametrize(
    ("rules", "asked", "followed"),
    [
        (DeviceRules.of([WHOLE]), {}, (TEMPLATES, CLASSES)),
        (DeviceRules.of([WHOLE]), selecting("true"), (TEMPLATES, CLASSES, SLICES)),
        (RULES, {}, (TEMPLATES, CLASSES, SLICES)),
        (DeviceRules(), {}, (TEMPLATES, CLASSES)),
    ],
)
def test_as_much_is_followed_as_a_workload_needs(rules: DeviceRules, asked: Json, followed: tuple[Kind, ...]) -> None:
    scene = with_devices(rules)
    assert needs(scene) == ((CLASSES,) if rules.resources else ())
    template(scene, **asked)
    submit(scene)
    assert needs(scene) == followed
    scene.finish("a")
    assert needs(scene) == ((CLASSES,) if rules.resources else ())


def test_nobody_is_admitted_before_what_is_followed_is_in_view() -> None:
    scene = with_devices(RULES, CLASSES)
    submit(scene, "a")
    scene.workload("b", "q")
    scene.settle()
    assert not scene.is_true("b", "QuotaReserved")
    assert "resourceclaimtemplates.resource.k8s.io, resourceslices.resource.k8s.io" in scene.controller.index.unseen
    template(scene)
    sees(scene, TEMPLATES, SLICES)
    scene.settle()
    assert used(scene) == {"cpu": "1", "gpus": "1"}
    assert scene.is_true("b", "QuotaReserved")


def test_a_cluster_without_the_kinds_goes_on_and_who_asks_for_devices_is_told() -> None:
    scene = turned_off(with_devices(RULES, kinds.TOPOLOGIES), TEMPLATES, CLASSES, SLICES)
    submit(scene, "a")
    pod(scene, "b", {})
    scene.settle()
    assert told(scene) == (
        "Misconfigured",
        (
            "spec.podSets[0].template.spec.resourceClaims[0]: Internal error: failed to get claim spec for "
            "ResourceClaimTemplate t in podset main: resourceclaimtemplates.resource.k8s.io is not served there"
        ),
    )
    assert scene.is_true("b", "QuotaReserved")
    template(scene)
    sees(scene, TEMPLATES, CLASSES, SLICES)
    scene.settle()
    assert used(scene) == {"cpu": "1", "gpus": "1"}


@pytest.mark.parametrize(
    ("mode", "reason", "given"),
    [(REJECT, "Misconfigured", None), (IGNORE, "QuotaReserved", {"cpu": "1"})],
)
def test_claims_may_be_rejected_or_ignored(mode: str, reason: str, given: Json | None) -> None:
    scene = with_devices(DeviceRules.of([WHOLE], mode))
    submit(scene)
    scene.settle()
    assert needs(scene) == ()
    assert (told(scene)[0], used(scene)) == (reason, given)


# --- what is recorded ---


def test_what_says_nothing_new_is_not_recorded_by_another_process_either() -> None:
    scene = with_devices()
    template(scene)
    slice_of(scene)
    scene.put(CLASSES, "gpu.example.com", spec={"config": [{"opaque": {}}]})
    scene.controller, before = scene.replayed(), len(scene.log)
    for place in ((TEMPLATES, NS, "t"), (SLICES, "", "s"), (CLASSES, "", "gpu.example.com")):
        scene.store(place, scene.objects[place])
    assert len(scene.log) == before
    slice_of(scene, memory="20Gi")
    assert len(scene.said(device_events.AdmissionResourceSliceObserved)) == 2


def test_what_cannot_be_read_is_refused_and_what_was_known_counts_on() -> None:
    scene = with_devices()
    template(scene)
    scene.put(TEMPLATES, "t", NS, spec={"spec": {"devices": {"requests": "many"}}})
    submit(scene)
    scene.settle()
    (refused,) = scene.said(events.AdmissionInputRefused)
    assert (refused.kind, refused.name) == ("resourceclaimtemplates.resource.k8s.io", "t")
    assert used(scene) == {"cpu": "1", "gpus": "1"}


def test_the_folded_state_can_be_kept_and_given() -> None:
    scene = with_devices()
    template(scene, device_class="other.example.com")
    slice_of(scene)
    submit(scene)
    scene.settle()
    other = scene.replayed()
    give(other, taken(scene.controller))
    ours, theirs = scene.controller.index.devices, other.index.devices
    assert (theirs.asking, theirs.needs, theirs.refused) == (ours.asking, ours.needs, ours.refused)
    assert theirs.known.templates == ours.known.templates
    assert list(theirs.known.slices) == ["s"]


def test_who_folds_the_log_later_comes_to_the_same() -> None:
    scene = with_devices()
    submit(scene, "a")
    submit(scene, "b", "u")
    scene.settle()
    template(scene)
    scene.settle()
    template(scene, "u", count=9)
    scene.settle()
    other = scene.replayed()
    ours, theirs = scene.controller.index, other.index
    assert theirs.engine.kept().keys() == ours.engine.kept().keys()
    assert theirs.devices.kept() == ours.devices.kept()
