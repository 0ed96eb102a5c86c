"""Holds the constraints of one claim against the devices that are chosen for it: one attribute, the same or different.

In: devices that are taken and given back, each for a request. Out: whether a device may be added
(kubernetes/dynamic-resource-allocation structured/internal/incubating/constraint.go, v0.36)."""

from __future__ import annotations

from typing import Any

from controlplane.kube.devices.objects import Device, DeviceConstraint, DeviceID, ResourceClaim
from controlplane.kube.devices.versions import Version

Names = tuple[str, str]
"""A request by its own name, and by the name that a result has (that of the chosen alternative)."""


class UnknownConstraint(ValueError):  # noqa: N818 - it names what is not known
    """A constraint is neither matchAttribute nor distinctAttribute."""


class Constraints:
    """The constraints of a claim, and the values of the devices that were added."""

    def __init__(self, claim: ResourceClaim) -> None:
        self._all: list[tuple[DeviceConstraint, list[tuple[str, Any]]]] = []
        for at, one in enumerate(claim.constraints):
            if one is None:
                raise UnknownConstraint(f"claim {claim.key}, constraint #{at}: empty constraint")
            self._all.append((one, []))

    def add(self, names: Names, identity: DeviceID, device: Device) -> bool:
        """Add a device if every constraint allows it."""
        added: list[list[tuple[str, Any]]] = []
        for one, values in self._all:
            if not _about(one, names):
                continue
            value = _value(device, identity, one.attribute)
            if value is None or not _allowed(one, values, value):
                for others in added:
                    others.pop()
                return False
            values.append(value)
            added.append(values)
        return True

    def remove(self, names: Names, identity: DeviceID, device: Device) -> None:
        """Take the device back that was added last."""
        for one, values in self._all:
            if _about(one, names):
                values.pop()


def _about(one: DeviceConstraint, names: Names) -> bool:
    return not one.requests or not one.requests.isdisjoint(names)


def _allowed(one: DeviceConstraint, values: list[tuple[str, Any]], value: tuple[str, Any]) -> bool:
    return value not in values if one.distinct else not values or values[0] == value


def _value(device: Device, identity: DeviceID, attribute: str) -> tuple[str, Any] | None:
    """Return the value of an attribute with its type, None if the device has none; a version as it is spelled."""
    domain, slash, name = attribute.partition("/")
    found = device.qualified.get(attribute)
    if found is None and slash and domain == identity.driver:
        found = device.qualified.get(name)
    if found is None:
        return None
    return type(found).__name__, found.text if isinstance(found, Version) else found
