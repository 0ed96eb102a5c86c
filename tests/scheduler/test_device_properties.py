"""What holds of every allocation, whatever the pools and claims are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.controllers.scheduling.evaluate.answer import answer
from controlplane.controllers.scheduling.evaluate.request import read
from controlplane.kube.devices.objects import allocated_devices
from controlplane.kube.kinds import Json
from tests.scheduler.generated_devices import scenario
from tests.support.deep import examples


def allocations(line: Json) -> Json:
    found: Json = answer(read(line))["perPlugin"]["DynamicResources"].get("allocations", {})
    return found


@settings(max_examples=examples(15, 60), deadline=None)
@given(st.integers(0, 10**6))
def test_a_device_is_given_once_and_exists_and_is_nobody_elses(seed: int) -> None:
    line = scenario(seed)
    there = {
        (one["spec"]["driver"], one["spec"]["pool"]["name"], device["name"])
        for one in line["resourceSlices"]
        for device in one["spec"].get("devices", ())
    }
    others = {
        device
        for claim in line["resourceClaims"]
        for device in allocated_devices(claim.get("status", {}).get("allocation"))
    }
    for by_claim in allocations(line).values():
        given_ = [device for allocation in by_claim.values() for device in allocated_devices(allocation)]
        assert len(given_) == len(set(given_))
        assert not others & set(given_)
        assert {tuple(device) for device in given_} <= there


@settings(max_examples=examples(15, 40), deadline=None)
@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_the_order_in_which_objects_come_decides_nothing(seed: int, rng: object) -> None:
    line = scenario(seed)
    shuffled = dict(line)
    for name in ("resourceSlices", "resourceClaims", "deviceClasses"):
        shuffled[name] = list(line[name])
        rng.shuffle(shuffled[name])  # type: ignore[attr-defined]
    slices = [one["metadata"]["name"] for one in line["resourceSlices"]]
    if len(slices) == len(set(slices)):
        assert allocations(shuffled) == allocations(line)


@settings(max_examples=examples(15, 40), deadline=None)
@given(st.integers(0, 10**6))
def test_constraints_hold_over_what_was_given(seed: int) -> None:
    line = scenario(seed)
    attributes = {
        (one["spec"]["driver"], one["spec"]["pool"]["name"], device["name"]): device.get("attributes", {})
        for one in line["resourceSlices"]
        for device in one["spec"].get("devices", ())
    }
    claims = {claim["metadata"]["name"]: claim for claim in line["resourceClaims"]}
    for by_claim in allocations(line).values():
        for key, allocation in by_claim.items():
            for constraint in claims[key.partition("/")[2]]["spec"]["devices"].get("constraints", ()):
                wanted = constraint.get("matchAttribute")
                if wanted is None or constraint.get("requests"):
                    continue
                domain, _, name = wanted.partition("/")
                values = []
                for one in allocation["devices"]["results"]:
                    shown = attributes[one["driver"], one["pool"], one["device"]]
                    values.append(shown.get(wanted) or (shown.get(name) if domain == one["driver"] else None))
                assert all(value == values[0] for value in values)
                assert None not in values
