"""Keeps the claims, classes and slices of a cluster, which devices are taken, and what is reserved for claims in
flight.

In: Kubernetes objects as they come, change and go; allocations that Reserve decided on and that no watch shows yet.
Out: plain tables. A device is taken by a claim that shows it, or for which it is reserved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from controlplane.controllers.scheduling.devices.pools import Slices
from controlplane.kube.devices.objects import (
    DeviceClass,
    DeviceID,
    ResourceClaim,
    allocated_devices,
    read_device_class,
    read_resource_claim,
    read_resource_slice,
)
from controlplane.kube.kinds import Json
from controlplane.kube.pod_fields import Obj

Place = tuple[str, str]


@dataclass(slots=True)
class DeviceTables:
    """The tables. `reserved` holds the allocations of each pod in flight, by the UIDs of the claims."""

    claims: dict[Place, ResourceClaim] = field(default_factory=dict)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    slices: Slices = field(default_factory=Slices)
    reserved: dict[str, dict[str, Json]] = field(default_factory=dict)
    _taken: Counter[DeviceID] = field(default_factory=Counter)

    def put_claim(self, obj: Obj, where: str = "resourceClaim") -> None:
        """Read a ResourceClaim."""
        found = read_resource_claim(obj, where)
        self.drop_claim((found.namespace, found.name))
        self.claims[found.namespace, found.name] = found
        self._taken.update(allocated_devices(found.allocation))

    def drop_claim(self, place: Place) -> None:
        """Forget a ResourceClaim, if it is there."""
        old = self.claims.pop(place, None)
        for device in allocated_devices(old.allocation) if old is not None else ():
            self._taken[device] -= 1
            if not self._taken[device]:
                del self._taken[device]

    def put_class(self, obj: Obj, where: str = "deviceClass") -> None:
        """Read a DeviceClass."""
        found = read_device_class(obj, where)
        self.classes[found.name] = found

    def put_slice(self, obj: Obj, where: str = "resourceSlice") -> None:
        """Read a ResourceSlice."""
        self.slices.put(read_resource_slice(obj, where))

    def reserve(self, pod: str, allocations: Mapping[str, Json]) -> None:
        """Reserve allocations, by the UIDs of claims, for a pod; what was reserved for it before is free again."""
        self.reserved.pop(pod, None)
        if allocations:
            self.reserved[pod] = dict(allocations)

    def forget(self, pod: str) -> None:
        """Give back what is reserved for a pod, if anything."""
        self.reserved.pop(pod, None)

    def in_flight(self, claim: ResourceClaim, but: str) -> bool:
        """Return whether an allocation of a claim is reserved for another pod than `but`."""
        return any(claim.uid in each for pod, each in self.reserved.items() if pod != but)

    def taken(self, but: str = "") -> Set[DeviceID]:
        """Return the devices that claims have or that are reserved for them, without those reserved for the pod
        `but`."""
        found = set(self._taken)
        for pod, allocations in self.reserved.items():
            if pod != but:
                for allocation in allocations.values():
                    found.update(allocated_devices(allocation))
        return found
