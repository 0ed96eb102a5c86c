"""Reads as which resources devices count, as Kueue's configuration has it (`resources.deviceClassMappings`,
kubernetes-sigs/kueue apis/config/v1beta2/configuration_types.go, pkg/config/validation.go, ff69552e).

In: a list out of a settings file, or JSON out of a variable. Out: values."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.kube.devices.selectors import compiled
from controlplane.kube.devices.syntax import UnknownExpression
from controlplane.settings.resource_transformations import RESOURCE

MOST_MAPPINGS, MOST_CLASSES, LONGEST_NAME, LONGEST_DRIVER = 16, 8, 253, 63
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NO_CAPACITY = (
    "devices that several claims may have are not counted here; in Kueue it needs the gate "
    "KueueDRAIntegrationConsumableCapacity, which is off by default: leave it out"
)


@dataclass(frozen=True, slots=True)
class CountedCounter:
    """A counter of the devices of a driver that the expression `selector` takes, whose amount counts."""

    counter: str
    driver: str
    selector: str


@dataclass(frozen=True, slots=True)
class DeviceClassMapping:
    """The resource `name`, the DeviceClasses whose devices count as it, and the counters by which they do."""

    name: str
    device_class_names: tuple[str, ...]
    sources: tuple[CountedCounter, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClassMappings:
    """A list of mappings, of which each names another resource."""

    def read(self, raw: object) -> tuple[DeviceClassMapping, ...]:
        """Return the mappings in the order given; messages name the field."""
        if isinstance(raw, str):
            try:
                raw = json.loads(raw) if raw.strip() else []
            except ValueError:
                raise ValueError("must be a list of mappings, in a variable as JSON") from None
        if not isinstance(raw, list):
            raise ValueError("must be a list of mappings, each with name, deviceClassNames and sources")
        if len(raw) > MOST_MAPPINGS:
            raise ValueError(f"has {len(raw)} mappings: at most {MOST_MAPPINGS} are allowed")
        found = tuple(_mapping(one, f"[{n}]") for n, one in enumerate(raw))
        names = [one.name for one in found]
        if double := next((name for name in names if names.count(name) > 1), ""):
            raise ValueError(f'has two mappings to "{double}": name all its classes in one')
        _check_classes(found)
        return found

    def show(self, value: tuple[DeviceClassMapping, ...]) -> list[dict[str, Any]]:
        """Return the mappings as a settings file would hold them."""
        return [
            {"name": one.name, "deviceClassNames": list(one.device_class_names)}
            | ({"sources": [_shown(source) for source in one.sources]} if one.sources else {})
            for one in value
        ]

    def describe(self) -> str:
        """Say the shape."""
        return "list of mappings, each with `name`, `deviceClassNames` and `sources`, in a variable as JSON, or empty"


def _shown(source: CountedCounter) -> dict[str, Any]:
    selector = {"cel": {"expression": source.selector}}
    return {"counter": {"name": source.counter, "driver": source.driver, "deviceSelector": selector}}


def _mapping(raw: object, at: str) -> DeviceClassMapping:
    found = _fields(raw, at, ("name", "deviceClassNames", "sources"))
    classes = found.get("deviceClassNames") or []
    if not isinstance(classes, list) or not classes:
        raise ValueError(f"{at}.deviceClassNames must name at least one DeviceClass")
    if len(classes) > MOST_CLASSES:
        raise ValueError(f"{at}.deviceClassNames has {len(classes)} names: at most {MOST_CLASSES} are allowed")
    names = tuple(_name(one, f"{at}.deviceClassNames[{n}]", "DeviceClass") for n, one in enumerate(classes))
    if double := next((name for name in names if names.count(name) > 1), ""):
        raise ValueError(f'{at}.deviceClassNames names "{double}" twice')
    sources = found.get("sources") or []
    if not isinstance(sources, list):
        raise ValueError(f"{at}.sources must be a list, each with counter")
    counters = tuple(_source(one, f"{at}.sources[{n}]") for n, one in enumerate(sources))
    return DeviceClassMapping(_name(found.get("name"), f"{at}.name", "resource"), names, counters)


def _source(raw: object, at: str) -> CountedCounter:
    found = _fields(raw, at, ("counter", "capacity"))
    if found.get("capacity") is not None:
        raise ValueError(f"{at}.capacity: {_NO_CAPACITY}")
    if found.get("counter") is None:
        raise ValueError(f"{at} must have counter")
    counter = _fields(found["counter"], f"{at}.counter", ("name", "driver", "deviceSelector"))
    name, driver = counter.get("name"), counter.get("driver")
    if not isinstance(name, str) or re.fullmatch(_LABEL, name) is None:
        raise ValueError(f'{at}.counter.name is "{name}", which is no name of a counter: write one such as memory')
    if not isinstance(driver, str) or len(driver) > LONGEST_DRIVER or not _is_subdomain(driver):
        said = f"write one of at most {LONGEST_DRIVER} characters such as gpu.example.com"
        raise ValueError(f'{at}.counter.driver is "{driver}", which is no name of a driver: {said}')
    return CountedCounter(name, driver, _selector(counter.get("deviceSelector"), f"{at}.counter.deviceSelector"))


def _selector(raw: object, at: str) -> str:
    cel = _fields(_fields(raw, at, ("cel",)).get("cel"), f"{at}.cel", ("expression",))
    expression = cel.get("expression")
    if not isinstance(expression, str) or not expression:
        raise ValueError(f"{at}.cel.expression must say in CEL which devices are meant")
    try:
        compiled(expression)
    except UnknownExpression as error:
        raise ValueError(f'{at}.cel.expression is "{expression}", which is not read: {error}') from None
    return expression


def _fields(raw: object, at: str, known: Sequence[str]) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ValueError(f"{at} must have {' and '.join(known[:2])}")
    if unknown := sorted(str(key) for key in raw if key not in known):
        raise ValueError(f"{at} has no field {unknown[0]}")
    return raw


def _is_subdomain(text: str) -> bool:
    return all(re.fullmatch(_LABEL, one) is not None for one in text.split("."))


def _name(raw: object, at: str, what: str) -> str:
    if not isinstance(raw, str) or len(raw) > LONGEST_NAME or re.fullmatch(RESOURCE, raw) is None:
        said = f"write one of at most {LONGEST_NAME} characters such as example.com/gpu"
        raise ValueError(f'{at} is "{raw}", which is no name of a {what}: {said}')
    return raw


def _check_classes(mappings: Sequence[DeviceClassMapping]) -> None:
    """Raise ValueError for a class whose devices would count as two resources. They may count by two counters, each as
    one."""
    known: dict[str, tuple[str, set[str]]] = {}
    for at, mapping in enumerate(mappings):
        counter = mapping.sources[0].counter if mapping.sources else ""
        for number, name in enumerate(mapping.device_class_names):
            where = f'[{at}].deviceClassNames[{number}] is "{name}", which'
            if name not in known:
                known[name] = mapping.name, {counter} - {""}
                continue
            resource, counters = known[name]
            if not counter or not counters:
                raise ValueError(f"{where} is mapped to {resource} already")
            if counter in counters:
                raise ValueError(f"{where} is counted by {counter} already")
            counters.add(counter)
