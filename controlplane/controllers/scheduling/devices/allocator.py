"""Searches the devices that a pod's claims get on one node: the first choice in which everything fits.

In: claims, the pools that the node reaches, what is taken already. Out: an allocation for each claim, None if there is
none; `AllocationError` where an expression or a class fails, `NotAllocated` for what is not allocated here. Every
request tries the devices in the order of the pools, and goes back where a later one finds none
(kubernetes/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go, v0.36). Devices that
several claims may share, and those with conditions to be bound, are left out."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from controlplane.controllers.scheduling.devices.constraints import Constraints, UnknownConstraint
from controlplane.controllers.scheduling.devices.counters import Counters
from controlplane.controllers.scheduling.devices.pools import Pool, SliceError, reached
from controlplane.controllers.scheduling.devices.result import Given, allocation_of
from controlplane.controllers.scheduling.snapshot.objects import Node
from controlplane.kube.devices.objects import (
    ALL,
    EXACT_COUNT,
    Device,
    DeviceClass,
    DeviceID,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from controlplane.kube.devices.selectors import Selected, SelectorError, compiled
from controlplane.kube.devices.syntax import UnknownExpression
from controlplane.kube.kinds import Json

MOST_STEPS = 200_000
"""The most steps of all searches of one cycle, some two seconds; kube-scheduler stops after ten seconds on each
node."""
MOST_DEVICES = 32
"""The most devices of one claim (`AllocationResultsMaxSize`)."""
_CALLS, _MOST_CALLS = 3 * MOST_DEVICES + 2, 50_000  # open at once for a claim, and for a pod: some 25 MB
LEFT_OUT = "devices that claims share, or that have conditions to be bound, are not allocated by this scheduler"
_BLOCKING = ("NoSchedule", "NoExecute")


class AllocationError(ValueError):
    """A claim, a class or a slice is wrong in itself: the pod cannot be scheduled until it changes."""


class NotAllocated(ValueError):  # noqa: N818 - it names what is not done
    """The claims ask for something that this scheduler does not allocate."""


class TooManyDevices(Exception):  # noqa: N818 - it is no error: another choice may need fewer
    """This choice would give a claim more devices than an allocation holds."""


class PooledDevice(NamedTuple):
    """A device in its slice and pool."""

    id: DeviceID
    device: Device
    slice: ResourceSlice
    pool: Pool


class _At(NamedTuple):
    """Where the search is: which claim, request, alternative (None: not chosen yet) and device of it is looked for."""

    claim: int
    request: int = 0
    option: int | None = None
    device: int = 0


@dataclass(slots=True)
class Search:
    """One search on one node, of `limit` steps at most. `taken` are the devices of other claims; `left_out`: a device
    that might have fitted is none that is allocated here.
    """

    node: Node
    claims: Sequence[ResourceClaim]
    pools: Sequence[Pool]
    classes: Mapping[str, DeviceClass]
    taken: Collection[DeviceID]
    limit: int = MOST_STEPS
    steps: int = 0
    left_out: bool = False
    given: list[list[Given]] = field(default_factory=list)
    _takes: dict[DeviceID, set[int]] = field(default_factory=dict)
    _fits: dict[tuple[DeviceID, int, int, int], bool] = field(default_factory=dict)
    _all: dict[tuple[int, int, int], list[PooledDevice]] = field(default_factory=dict)
    _options: dict[tuple[int, int], int] = field(default_factory=dict)
    _constraints: list[Constraints] = field(default_factory=list)
    _counters: Counters = field(default_factory=Counters)
    _places: list[PooledDevice] = field(default_factory=list)

    def run(self) -> list[Json] | None:
        """Return the allocations in the order of the claims; None if there are none."""
        self._counters = Counters(self.taken)
        self._places = [
            PooledDevice(DeviceID(pool.driver, pool.name, device.name), device, one, pool)
            for pool in self.pools
            if not (pool.incomplete or pool.invalid)
            for one in pool.slices
            for device in one.devices
        ]
        for number, claim in enumerate(self.claims):
            least = sum(min(self._count(number, at, wanted)) for at, wanted in enumerate(claim.requests))
            if least > MOST_DEVICES:
                raise AllocationError(f"claim {claim.key}: more than {MOST_DEVICES} devices are asked for")
            self._constraints.append(_constraints(claim))
            self.given.append([])
        if not self._found():
            if any(pool.invalid for pool in self.pools):
                raise InvalidPools("invalid resource pools were encountered")
            return None
        return [
            allocation_of(claim, given, self._chosen(number), self.classes, self.node)
            for number, (claim, given) in enumerate(zip(self.claims, self.given, strict=True))
        ]

    def _found(self) -> bool:
        with _calling(6 * sum(len(claim.requests) for claim in self.claims) + _CALLS * len(self.claims)):
            return self._next(_At(0), 0)

    def _chosen(self, claim: int) -> list[ExactDeviceRequest]:
        """Return the alternative of each request that was taken."""
        wanted = self.claims[claim].requests
        return [one.options[self._options.get((claim, at), 0)] for at, one in enumerate(wanted)]

    # ---------------------------------------------------------------- what is asked

    def _count(self, claim: int, at: int, wanted: DeviceRequest) -> list[int]:
        """Return how many devices each alternative of a request needs."""
        if not wanted.options:
            raise AllocationError(f"claim {self.claims[claim].key}, request {wanted.name}: unknown request type")
        return [self._needs(claim, at, number, option) for number, option in enumerate(wanted.options)]

    def _needs(self, claim: int, at: int, option: int, request: ExactDeviceRequest) -> int:
        where = f"claim {self.claims[claim].key}, request {request.name}"
        if request.share:
            raise NotAllocated(f"{where}: a share of a device (capacity) is not allocated by this scheduler")
        if any(selector is None for selector in request.selectors):
            raise AllocationError(f"{where}: a selector without a CEL expression")
        if request.device_class not in self.classes:
            raise AllocationError(f"{where}: could not retrieve device class {request.device_class}")
        if request.mode == EXACT_COUNT:
            return request.count
        if request.mode != ALL:
            raise AllocationError(f"{where}: unsupported count mode {request.mode}")
        self._all[claim, at, option] = found = self._everything(where, claim, at, option, request)
        return len(found)

    def _everything(
        self, where: str, claim: int, at: int, option: int, request: ExactDeviceRequest
    ) -> list[PooledDevice]:
        for pool in self.pools:
            if pool.incomplete or pool.invalid:
                state = "being updated" if pool.incomplete else "invalid"
                raise AllocationError(
                    f"{where}: asks for all devices, but resource pool {pool.driver}/{pool.name} is currently {state}"
                )
        found = [place for place in self._places if self._selectable(place, claim, at, option, request)]
        if any(place.device.shared or place.device.conditions for place in found):
            raise NotAllocated(f"{where}: asks for all devices; {LEFT_OUT}")
        return found

    # ---------------------------------------------------------------- the search

    def _next(self, at: _At, start: int) -> bool:
        """Find a device for where the search is, and go on; False if there is no way on from here."""
        if at.claim >= len(self.claims):
            return True
        self.steps += 1
        if self.steps > self.limit:
            raise NotAllocated(f"no choice of devices was found in {MOST_STEPS} steps")
        wanted = self.claims[at.claim].requests
        if at.request >= len(wanted):
            try:
                return self._next(_At(at.claim + 1), 0)
            except TooManyDevices:
                return False
        if at.option is None:
            return self._alternatives(at, wanted[at.request])
        return self._device(at, wanted[at.request].options[at.option], start)

    def _device(self, at: _At, request: ExactDeviceRequest, start: int) -> bool:
        """Take the next device of a request, the first one from `start` on with which there is a way on."""
        option = at.option or 0
        everything = self._all.get((at.claim, at.request, option)) if request.mode == ALL else None
        if everything is not None and not everything:
            return False
        count = request.count if everything is None else len(everything)
        if at.device >= count:
            return self._next(_At(at.claim, at.request + 1), 0)
        if len(self.given[at.claim]) + count - at.device > MOST_DEVICES:
            raise TooManyDevices
        after = at._replace(device=at.device + 1)
        if everything is not None:
            return self._with(everything[at.device], at, request, after, 0, must=True)
        for number in range(start, len(self._places)):
            place = self._places[number]
            free = self._free(place, at, request)
            if not free or not self._selectable(place, at.claim, at.request, option, request):
                continue
            if place.device.shared or place.device.conditions:
                self.left_out = True
            elif self._with(place, at, request, after, number + 1, must=False):
                return True
        return False

    def _alternatives(self, at: _At, wanted: DeviceRequest) -> bool:
        if not wanted.prioritized:
            return self._next(at._replace(option=0), 0)
        too_many = True
        for option in range(len(wanted.options)):
            try:
                if self._next(at._replace(option=option), 0):
                    self._options[at.claim, at.request] = option
                    return True
                too_many = False
            except TooManyDevices:
                continue
        if too_many:
            raise TooManyDevices
        return False

    def _with(
        self, place: PooledDevice, at: _At, request: ExactDeviceRequest, after: _At, start: int, *, must: bool
    ) -> bool:
        """Take a device and go on; give it back where that leads nowhere."""
        if not self._free(place, at, request) or not _tolerated(place.device, request):
            return False
        counted = self._counters.take(place.pool, place.device)
        if not counted:
            return False
        constraints, names = self._constraints[at.claim], (request.parent or request.name, request.reference)
        if not constraints.add(names, place.id, place.device):
            self._counters.free(place.pool, place.device)
            if must:
                raise AllocationError(
                    f"claim {self.claims[at.claim].key}, request {request.name}: cannot add device "
                    f"{'/'.join(place.id)} because a claim constraint would not be satisfied"
                )
            return False
        takes, given = self._takes.setdefault(place.id, set()), self.given[at.claim]
        takes.add(at.claim)
        given.append(Given(request, place.id, place.device, place.slice))
        done = False
        try:
            done = self._next(after, start)
        finally:
            if not done:
                given.pop()
                takes.discard(at.claim)
                constraints.remove(names, place.id, place.device)
                self._counters.free(place.pool, place.device)
        return done

    def _free(self, place: PooledDevice, at: _At, request: ExactDeviceRequest) -> bool:
        takes = self._takes.get(place.id, ())
        return at.claim not in takes if request.admin else place.id not in self.taken and not takes

    def _selectable(self, place: PooledDevice, claim: int, at: int, option: int, request: ExactDeviceRequest) -> bool:
        """Return whether class and request take a device; what is free of it is not looked at."""
        key = (place.id, claim, at, option)
        found = self._fits.get(key)
        if found is None:
            found = self._fits[key] = self._selected(place, claim, request)
        return found

    def _selected(self, place: PooledDevice, claim: int, request: ExactDeviceRequest) -> bool:
        device = place.device
        seen = Selected(place.id.driver, device.shared, device.attributes, device.capacity)
        asked = (
            (f"class {request.device_class}", self.classes[request.device_class].selectors),
            (f"claim {self.claims[claim].key}", request.selectors),
        )
        for where, selectors in asked:
            for number, selector in enumerate(selectors):
                if not _takes_device(selector or "", seen, device, f"{where}: selector #{number}"):
                    return False
        try:
            return not place.slice.each or reached(device.where, self.node)
        except SliceError as error:
            raise AllocationError(f"device {'/'.join(place.id)}: {error}") from error


@contextmanager
def _calling(calls: int) -> Iterator[None]:
    """Let functions call one another so many times more than the interpreter allows by itself: a search has three calls
    open for each device that it has taken, and six for each request."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + min(calls, _MOST_CALLS))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class InvalidPools(ValueError):  # noqa: N818 - it names what was found
    """Nothing was found, and a pool that the node reaches contradicts itself."""


def _constraints(claim: ResourceClaim) -> Constraints:
    try:
        return Constraints(claim)
    except UnknownConstraint as problem:
        raise AllocationError(str(problem)) from problem


def _takes_device(selector: str, seen: Selected, device: Device, where: str) -> bool:
    try:
        ask = compiled(selector)
    except UnknownExpression as problem:
        raise NotAllocated(f"{where}: {selector!r} is not evaluated by this scheduler: {problem}") from problem
    if device.unread:
        raise AllocationError(f"{where}: attribute {device.unread}: unsupported attribute value")
    try:
        return ask(seen)
    except SelectorError as error:
        raise AllocationError(f"{where}: CEL runtime error: {error}") from error


def _tolerated(device: Device, request: ExactDeviceRequest) -> bool:
    return all(
        taint.get("effect") not in _BLOCKING or any(_tolerates(one, taint) for one in request.tolerations)
        for taint in device.taints
    )


def _tolerates(toleration: Json, taint: Json) -> bool:
    """Return whether a toleration of devices takes a taint
    (kubernetes/dynamic-resource-allocation resourceclaim/devicetoleration.go, v0.36).
    """
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(operator == "Exists")
