"""Counts devices that can be partitioned by a counter of theirs, such as their memory.

In: the requests of a template, what is known, the rules. Out: amounts by resource; `DeviceRefusal` where too few
devices are there, or none has the counter. As the scheduler may give out any device that is selected, the one that
needs most counts (kubernetes-sigs/kueue pkg/dra/counters.go, ff69552e). Pools of which slices are missing count for
nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controlplane.controllers.quota.devices.claims import NOT_COMPILED, class_of, exact_requests
from controlplane.controllers.quota.devices.expressions import errors_of, selected
from controlplane.controllers.quota.devices.model import CounterSource, DeviceRules, KnownDevices
from controlplane.controllers.quota.devices.refusal import DeviceRefusal, internal
from controlplane.controllers.quota.engine.amounts import clamped
from controlplane.kube.devices.objects import Device, DeviceClass, DeviceRequest, ExactDeviceRequest, ResourceSlice
from controlplane.kube.kinds import RESOURCE_SLICES
from controlplane.kube.quantities import to_units


def counter_charges(
    requests: Sequence[DeviceRequest], known: KnownDevices, rules: DeviceRules, where: str
) -> dict[str, int]:
    """Return what the devices of a template count as by their counters, in whole units; `where` is the path of the
    claim."""
    found: dict[str, int] = {}
    for at, request in exact_requests(requests):
        sources = rules.counters.get(request.device_class, ())
        if not sources or request.admin:
            continue
        device_class, wrong = class_of(request, known, where, at)
        inside = f"{where}.devices.requests[{at}]"
        if wrong:
            raise DeviceRefusal(wrong[:1])
        if wrong := errors_of(request.selectors, f"{inside}.exactly.selectors", NOT_COMPILED):
            raise DeviceRefusal(wrong)
        for source in sources:
            amount = _charge(source, device_class, request, known, inside)
            found[source.resource] = found.get(source.resource, 0) + amount
    return found


def _charge(
    source: CounterSource,
    device_class: DeviceClass | None,
    request: ExactDeviceRequest,
    known: KnownDevices,
    where: str,
) -> int:
    if wrong := errors_of([source.selector], where, "deviceSelector CEL compilation failed"):
        raise DeviceRefusal(wrong)
    if said := known.unseen.get(RESOURCE_SLICES.name):
        raise DeviceRefusal([internal(where, f"failed to list ResourceSlices: {said}")])
    stages = (
        ("deviceSelector", (source.selector,)),
        ("DeviceClass selector", device_class.selectors if device_class is not None else ()),
        ("request selector", request.selectors),
    )
    matching = list(_matching(known, source.driver, stages, where))
    if len(matching) < request.count:
        why = (
            f"insufficient matching devices for counter driver: {len(matching)} device(s) match but {request.count} "
            "requested"
        )
        raise DeviceRefusal([internal(where, why)])
    amounts = [
        counters[source.counter] for one in matching for _, counters in one.consumes if source.counter in counters
    ]
    if not amounts:
        why = f'matched devices have no consumesCounters entry for counter "{source.counter}"'
        raise DeviceRefusal([internal(where, why)])
    each = max(0, to_units(max(amounts)))
    return clamped(each * request.count) if request.count > 1 else each


def _matching(
    known: KnownDevices, driver: str, stages: Sequence[tuple[str, Sequence[str | None]]], where: str
) -> Iterator[Device]:
    """Yield the devices of a driver that expressions select, stage by stage."""
    for one in _of_whole_pools(known.slices_of(driver)):
        for at, device in enumerate(one.devices):
            for stage, selectors in stages:
                answer = selected(one, at, selectors)
                if isinstance(answer, str):
                    why = f"CEL evaluation error in {stage} for device {device.name}: {answer}"
                    raise DeviceRefusal([internal(where, why)])
                if not answer:
                    break
            else:
                yield device


def _of_whole_pools(slices: Sequence[ResourceSlice]) -> Iterator[ResourceSlice]:
    """Yield the slices of the newest generation of each pool, as far as all of them are there."""
    pools: dict[str, list[ResourceSlice]] = {}
    for one in slices:
        pool = pools.get(one.pool)
        if pool is None or one.generation > pool[0].generation:
            pools[one.pool] = [one]
        elif one.generation == pool[0].generation:
            pool.append(one)
    for _, pool in sorted(pools.items()):
        if len(pool) == pool[0].count:
            yield from pool
