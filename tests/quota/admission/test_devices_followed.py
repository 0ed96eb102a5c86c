"""Which objects of devices are followed and recorded, and what follows where they cannot be seen."""

from __future__ import annotations

import gc

import pytest

from controlplane.controllers.quota.admission import device_events, events
from controlplane.controllers.quota.devices.expressions import answers
from controlplane.controllers.quota.devices.model import (
    IGNORE,
    REJECT,
    DeviceRules,
)
from controlplane.kube import kinds
from controlplane.kube.devices.objects import ResourceSlice, read_resource_slice
from controlplane.kube.kinds import Json, Kind
from controlplane.runtime.folded import give, taken
from tests.quota.admission.devices import (
    CLASSES,
    RULES,
    SLICES,
    TEMPLATES,
    WHOLE,
    needs,
    pod,
    selecting,
    slice_of,
    submit,
    template,
    told,
    turned_off,
    used,
    with_devices,
)
from tests.quota.admission.placed import sees
from tests.quota.admission.scene import NS

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


def test_what_was_asked_of_slices_is_forgotten_with_them() -> None:
    """A driver publishes its slices anew for each change of a device."""
    scene = with_devices()
    scene.put(CLASSES, "gpu.example.com", spec={})
    template(scene, **selecting("device.driver == 'gpu.example.com'"), count=2)
    for number in range(20):
        slice_of(scene, f"{number + 1}Gi")
        scene.pass_time(2)
        if not number:
            submit(scene)
    assert told(scene)[0] == "Misconfigured"
    gc.collect()
    known = set(map(id, scene.controller.index.devices.known.slices.values()))
    alive = [one for one in gc.get_objects() if isinstance(one, ResourceSlice) and one.driver == "gpu.example.com"]
    assert [one for one in alive if id(one) not in known and one.name == "s"] == []


@pytest.mark.parametrize("times", [2, 600])
def test_an_expression_is_asked_again_where_many_were_asked(times: int) -> None:
    one = read_resource_slice({"spec": {"driver": "d", "devices": [{"name": "x"}]}}, "slice")
    for number in range(times):
        assert answers(one, f"device.driver == '{number}'") == (False,)
    assert answers(one, "device.driver == 'd'") == (True,)
