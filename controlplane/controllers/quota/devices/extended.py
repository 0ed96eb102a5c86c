"""Counts extended resources that are devices of a DeviceClass (`spec.extendedResourceName`).

In: the containers of a pod set, what is known, the rules. Out: what counts in their place; errors of quantities that
are not whole, and of classes that count by counters (kubernetes-sigs/kueue pkg/dra/extended_resources.go, ff69552e).
Containers count together, each init container for itself, and the larger of the two counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from controlplane.controllers.quota.devices.model import CountedDevices, DeviceRules, DevicesAsked, KnownDevices
from controlplane.controllers.quota.devices.refusal import DeviceProblem, invalid
from controlplane.kube.devices.objects import DeviceClass
from controlplane.kube.kinds import Json
from controlplane.kube.pod_requests import amounts
from controlplane.kube.quantities import MOST, NANO, spell, to_milli


def is_extended(resource: str) -> bool:
    """Whether a resource is an extended one, which a device plugin or a DeviceClass gives out."""
    return "/" in resource and not resource.startswith(("kubernetes.io/", "hugepages-"))


def asks_for_extended(requests: Mapping[str, int]) -> bool:
    """Whether requests name an extended resource."""
    return any(amount > 0 and is_extended(name) for name, amount in requests.items())


def selected_classes(classes: Mapping[str, DeviceClass]) -> dict[str, DeviceClass]:
    """Return the class of each extended resource: of several the one that was made last, and of those the first by its
    name."""
    found: dict[str, DeviceClass] = {}
    for _, one in sorted(classes.items()):
        if not one.extended_resource:
            continue
        other = found.get(one.extended_resource)
        if other is None or one.created > other.created:
            found[one.extended_resource] = one
    return found


class _Asking(NamedTuple):
    """What one container asks for of extended resources that classes have, in billionths; `where` is its path."""

    where: str
    requests: Mapping[str, int]


def extended_charges(
    asked: DevicesAsked, known: KnownDevices, rules: DeviceRules, where: str
) -> tuple[CountedDevices, list[DeviceProblem]]:
    """Return what counts in the place of a pod set's extended resources, and the errors; `where` is the path of the
    pod's spec."""
    classes = selected_classes(known.classes)
    if not classes:
        return CountedDevices(), []
    init = _asking(asked.init_containers, f"{where}.initContainers", classes)
    together = _asking(asked.containers, f"{where}.containers", classes)
    adds: dict[str, int] = {}
    replaces: set[str] = set()
    errors: list[DeviceProblem] = []
    for name in sorted({name for one in (*init, *together) for name in one.requests}):
        key, total, wrong = _charge(name, classes[name], rules, init, together)
        errors += wrong
        if not wrong:
            replaces.add(name)
            adds[key] = adds.get(key, 0) + total
    return CountedDevices(adds, frozenset(replaces)), errors


def _asking(containers: Sequence[Json], where: str, classes: Mapping[str, DeviceClass]) -> list[_Asking]:
    """Return what containers ask for; limits count where they ask for nothing."""
    found = []
    for at, container in enumerate(containers):
        resources = container.get("resources") or {}
        asked = amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
        wanted = {name: amount for name, amount in asked.items() if amount > 0 and is_extended(name)}
        found.append(_Asking(f"{where}[{at}]", {name: wanted[name] for name in wanted.keys() & classes.keys()}))
    return found


def _charge(
    name: str, device_class: DeviceClass, rules: DeviceRules, init: Sequence[_Asking], together: Sequence[_Asking]
) -> tuple[str, int, list[DeviceProblem]]:
    """Return as what an extended resource counts, and how much of it; or why it does not."""
    asking = [one for one in (*init, *together) if name in one.requests]
    key, wrong = _counted_as(name, device_class, rules, asking[0].where)
    wrong = wrong or [_fraction(one, name) for one in asking if one.requests[name] % NANO]
    total = max(
        max((one.requests.get(name, 0) for one in init), default=0),
        sum(one.requests.get(name, 0) for one in together),
    )
    if not wrong and total > MOST * NANO:
        why = "total extended resource quantity overflows int64"
        wrong = [invalid(f"{asking[0].where}.resources.requests.{name}", spell("", to_milli(total)), why)]
    return key, total, wrong


def _counted_as(
    name: str, device_class: DeviceClass, rules: DeviceRules, where: str
) -> tuple[str, list[DeviceProblem]]:
    """Return as what an extended resource counts: as what its class is mapped to, or as itself."""
    if rules.counters.get(device_class.name):
        why = (
            f"extended resource {name} resolves to DeviceClass {device_class.name} with counters configured;"
            " use ResourceClaimTemplates with CEL selectors for counter-based quota"
        )
        return "", [invalid(where, name, why)]
    return rules.resources.get(device_class.name, name), []


def _fraction(asking: _Asking, name: str) -> DeviceProblem:
    where, amount = f"{asking.where}.resources.requests.{name}", spell("", to_milli(asking.requests[name]))
    return invalid(where, amount, "extended resource quantity must be an integer")
