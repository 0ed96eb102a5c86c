"""Counts what the devices of a pool take of its shared counters, so that parts of one device are not given out twice.

In: the devices that other claims have, and those that a search takes and gives back. Out: whether there is enough
(kubernetes/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go, v0.36, which forgets to
give counters back where a taint or a constraint speaks against the device; this does not)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from controlplane.controllers.scheduling.devices.pools import Pool
from controlplane.kube.devices.objects import Device, DeviceID

_Key = tuple[str, str]


class Counters:
    """What is left of the counters of each pool. `taken` are the devices of other claims."""

    def __init__(self, taken: Collection[DeviceID] = ()) -> None:
        self._taken = taken
        self._left: dict[tuple[str, str], Counter[_Key]] = {}

    def take(self, pool: Pool, device: Device) -> bool:
        """Take what a device consumes; False, and nothing is taken, if a counter of the pool would fall below zero."""
        if not device.consumes:
            return True
        left = self._of(pool)
        _move(left, device, -1)
        if min(left.values(), default=0) < 0:
            _move(left, device, 1)
            return False
        return True

    def free(self, pool: Pool, device: Device) -> None:
        """Give back what a device consumes."""
        if device.consumes:
            _move(self._of(pool), device, 1)

    def _of(self, pool: Pool) -> Counter[_Key]:
        key = (pool.driver, pool.name)
        if key not in self._left:
            listed = (pool.counters or {}).items()
            left = Counter({(name, counter): amount for name, each in listed for counter, amount in each.items()})
            for one in (*pool.slices, *pool.others):
                for device in one.devices:
                    if DeviceID(pool.driver, pool.name, device.name) in self._taken:
                        _move(left, device, -1)
            self._left[key] = left
        return self._left[key]


def _move(left: Counter[_Key], device: Device, step: int) -> None:
    for name, consumed in device.consumes:
        for counter, amount in consumed.items():
            left[name, counter] += step * amount
