"""Counts the devices that a template of claims asks for, class by class, and asks whether there are as many at all.

In: the requests of a template, what is known, the rules. Out: the number of devices of each class; `DeviceRefusal` for
what Kueue does not count (kubernetes-sigs/kueue pkg/dra/claims.go, ff69552e): alternatives (`firstAvailable`), all
devices of a class, expressions that do not compile, or that select fewer devices than are asked for."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.controllers.quota.devices.expressions import errors_of, selected
from controlplane.controllers.quota.devices.model import DeviceRules, KnownDevices
from controlplane.controllers.quota.devices.refusal import DeviceProblem, DeviceRefusal, internal, invalid, together
from controlplane.controllers.quota.engine.amounts import clamped
from controlplane.kube.devices.objects import (
    ALL,
    EXACT_COUNT,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceSlice,
)
from controlplane.kube.kinds import DEVICE_CLASSES, RESOURCE_SLICES

NOT_COMPILED = "CEL compilation failed"


def devices_by_class(requests: Sequence[DeviceRequest]) -> dict[str, int]:
    """Return how many devices of each class are asked for, those for administrators aside. `DeviceRefusal` with paths
    below the claim."""
    found: dict[str, int] = {}
    for at, request in enumerate(requests):
        exact = _exact(request, f"devices.requests[{at}]")
        if exact.admin:
            continue
        where = f"devices.requests[{at}].exactly.allocationMode"
        if exact.mode == ALL:
            raise DeviceRefusal([invalid(where, ALL, "AllocationMode 'All' is not supported")])
        if exact.mode != EXACT_COUNT:
            raise DeviceRefusal([invalid(where, exact.mode, f"unsupported allocation mode: {exact.mode}")])
        if exact.device_class:
            found[exact.device_class] = clamped(found.get(exact.device_class, 0) + exact.count)
    return found


def _exact(request: DeviceRequest, where: str) -> ExactDeviceRequest:
    if request.prioritized:
        why = "FirstAvailable device selection is not supported"
        raise DeviceRefusal(
            [invalid(where, None, why if request.options else "Exactly must be set if FirstAvailable is nil")]
        )
    exact = request.options[0]
    inside = f"{where}.exactly.selectors"
    if errors := errors_of(exact.selectors, inside, NOT_COMPILED):
        raise DeviceRefusal([invalid(inside, None, together(errors))])
    return exact


def exact_requests(requests: Sequence[DeviceRequest]) -> list[tuple[int, ExactDeviceRequest]]:
    """Return the requests without alternatives, each with its place in the list."""
    return [(at, one.options[0]) for at, one in enumerate(requests) if not one.prioritized]


def shortages(
    requests: Sequence[DeviceRequest], known: KnownDevices, rules: DeviceRules, where: str
) -> list[DeviceProblem]:
    """Return the errors of requests whose expressions select fewer devices than they ask for. A device is given to one
    request only, and no request goes back for another one. `where` is the path of the claim."""
    asking = [(at, one) for at, one in exact_requests(requests) if any(cel is not None for cel in one.selectors)]
    if not asking:
        return []
    if said := known.unseen.get(RESOURCE_SLICES.name):
        return [internal(where, f"failed to list ResourceSlices: {said}")]
    devices = [(one, at) for one in _slices_for(asking, known, rules) for at in range(len(one.devices))]
    taken: set[int] = set()
    errors: list[DeviceProblem] = []
    for at, request in asking:
        inside = f"{where}.devices.requests[{at}]"
        device_class, wrong = class_of(request, known, where, at)
        if wrong:
            errors += wrong[:1]
            continue
        answer = _matching(devices, device_class, request, taken)
        if isinstance(answer, str):
            why = f"CEL evaluation failed for DeviceClass {request.device_class}: {answer}"
            errors.append(invalid(f"{inside}.exactly.selectors", None, why))
        elif answer < request.count:
            why = (
                f"insufficient matching devices for CEL selector in DeviceClass {request.device_class}: "
                f"{answer} device(s) match in the cluster but {request.count} requested"
            )
            errors.append(internal(f"{inside}.exactly.selectors", why))
    return errors


def _slices_for(
    asking: Sequence[tuple[int, ExactDeviceRequest]], known: KnownDevices, rules: DeviceRules
) -> list[ResourceSlice]:
    """Return all slices, or those of the drivers whose counters count where all classes have such."""
    sources = [rules.counters.get(one.device_class, ()) for _, one in asking]
    if not all(sources):
        return known.slices_of()
    drivers = dict.fromkeys(source.driver for several in sources for source in several)
    return [one for driver in drivers for one in known.slices_of(driver)]


def class_of(
    request: ExactDeviceRequest, known: KnownDevices, where: str, at: int
) -> tuple[DeviceClass | None, list[DeviceProblem]]:
    """Return the class of a request, None where it names none, and the errors of a class that is missing, or does not
    compile."""
    name, inside = request.device_class, f"{where}.devices.requests[{at}]"
    if not name:
        return None, []
    found = known.classes.get(name)
    if found is None:
        why = f"failed to get DeviceClass {name}: {known.why_not(DEVICE_CLASSES, name)}"
        return None, [internal(inside, why)]
    return found, errors_of(found.selectors, inside, f"DeviceClass {name} has invalid CEL selector")


def _matching(
    devices: Sequence[tuple[ResourceSlice, int]],
    device_class: DeviceClass | None,
    request: ExactDeviceRequest,
    taken: set[int],
) -> int | str:
    """Return how many devices a request gets at most of those that are not `taken`, which they are then; or why that
    cannot be said."""
    selectors = (*(device_class.selectors if device_class is not None else ()), *request.selectors)
    count = 0
    for number, (one, at) in enumerate(devices):
        if number in taken:
            continue
        answer = selected(one, at, selectors)
        if isinstance(answer, str):
            return answer
        if answer:
            taken.add(number)
            count += 1
            if count >= request.count:
                break
    return count
