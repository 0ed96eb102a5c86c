"""As which resources devices count: what is read, what is shown, and which sentence says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.settings.device_class_mappings import CountedCounter, DeviceClassMapping, DeviceClassMappings
from tests.support.rows import each

RULE = DeviceClassMappings()
SELECTOR = {"cel": {"expression": "device.driver == 'gpu.example.com'"}}


def counter(name: str = "memory", driver: str = "gpu.example.com", selector: Any = SELECTOR) -> dict[str, Any]:
    return {"counter": {"name": name, "driver": driver, "deviceSelector": selector}}


def mapping(name: str = "gpus", *classes: str, sources: list[Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "deviceClassNames": list(classes or ("gpu.example.com",))}
    return found | ({"sources": sources} if sources is not None else {})


def test_mappings_are_read_as_kueue_writes_them_and_shown_so() -> None:
    raw = [mapping(), mapping("example.com/memory", "mig.example.com", "other", sources=[counter()])]
    found = RULE.read(raw)
    assert found == (
        DeviceClassMapping("gpus", ("gpu.example.com",)),
        DeviceClassMapping(
            "example.com/memory",
            ("mig.example.com", "other"),
            (CountedCounter("memory", "gpu.example.com", "device.driver == 'gpu.example.com'"),),
        ),
    )
    assert RULE.show(found) == raw
    assert RULE.read(RULE.show(found)) == found
    assert RULE.read("") == RULE.read([]) == ()


def test_a_class_may_count_by_two_counters_as_a_resource_each() -> None:
    raw = [mapping("memory", sources=[counter()]), mapping("compute", sources=[counter("slices")])]
    assert [one.name for one in RULE.read(raw)] == ["memory", "compute"]


@each(
    ("raw", "said"),
    [
        ("{", "must be a list of mappings, in a variable as JSON"),
        ({"name": "gpus"}, "must be a list of mappings, each with name, deviceClassNames and sources"),
        ([mapping(f"r{n}", f"c{n}") for n in range(17)], "has 17 mappings: at most 16 are allowed"),
        (["gpus"], "[0] must have name and deviceClassNames"),
        ([{**mapping(), "classes": []}], "[0] has no field classes"),
        ([mapping("gp us")], '[0].name is "gp us", which is no name of a resource'),
        ([mapping("g" * 254)], "which is no name of a resource: write one of at most 253 characters"),
        ([{"name": "gpus"}], "[0].deviceClassNames must name at least one DeviceClass"),
        ([mapping("gpus", *(f"c{n}" for n in range(9)))], "[0].deviceClassNames has 9 names: at most 8 are allowed"),
        ([mapping("gpus", "a", "-b")], '[0].deviceClassNames[1] is "-b", which is no name of a DeviceClass'),
        ([mapping("gpus", "a", "a")], '[0].deviceClassNames names "a" twice'),
        ([mapping(), mapping("gpus", "b")], 'has two mappings to "gpus": name all its classes in one'),
        (
            [mapping(), mapping("others")],
            '[1].deviceClassNames[0] is "gpu.example.com", which is mapped to gpus already',
        ),
        (
            [mapping("a", sources=[counter()]), mapping("b", sources=[counter()])],
            '[1].deviceClassNames[0] is "gpu.example.com", which is counted by memory already',
        ),
        ([mapping(sources=[{}])], "[0].sources[0] must have counter"),
        ([mapping(sources=["memory"])], "[0].sources[0] must have counter and capacity"),
        ([mapping(sources=[{"capacity": {"name": "memory"}}])], "[0].sources[0].capacity: devices that several claims"),
        (
            [mapping(sources=[counter("Memory")])],
            '[0].sources[0].counter.name is "Memory", which is no name of a counter',
        ),
        (
            [mapping(sources=[counter(driver="GPU")])],
            '[0].sources[0].counter.driver is "GPU", which is no name of a driver',
        ),
        (
            [mapping(sources=[counter(driver="a" * 64)])],
            "which is no name of a driver: write one of at most 63 characters",
        ),
        (
            [mapping(sources=[counter(selector={"cel": {}})])],
            "[0].sources[0].counter.deviceSelector.cel.expression must say in CEL which devices are meant",
        ),
        (
            [mapping(sources=[counter(selector={"cel": {"expression": "device.name == 'a'"}})])],
            "which is not read: a device has no field 'name'",
        ),
    ],
)
def test_what_is_wrong_is_said_with_the_field(raw: object, said: str) -> None:
    with pytest.raises(ValueError, match=r".") as wrong:
        RULE.read(raw)
    assert said in str(wrong.value)
