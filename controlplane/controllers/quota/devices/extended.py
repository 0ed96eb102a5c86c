"""Counts extended resources that are devices of a DeviceClass (`spec.extendedResourceName`).

In: the containers of a pod set, what is known, the rules. Out: what counts in their place; errors of quantities that are not whole,
and of classes that count by counters (kubernetes-sigs/kueue pkg/dra/extended_resources.go, ff69552e). Containers count together,
each init container for itself, and the larger of the two counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from controlplane.controllers.quota.devices.model import CountedDevices, DeviceRules, DevicesAsked, KnownDevices
from controlplane.controllers.quota.devices.refusal import DeviceProblem, invalid
from controlplane.kube.devices.objects import DeviceClass
from controlplane.kube.kinds import Json
from controlplane.kube.pod_requests import amounts
from controlplane.kube.quantities import MOST, NANO, spell, to_milli

_KINDS = ("initContainers", "containers")


def is_extended(resource: str) -> bool:
    """Whether a resource is an extended one, which a device plugin or a DeviceClass gives out."""
    return "/" in resource and not resource.startswith(("kubernetes.io/", "hugepages-"))


def asks_for_extended(requests: Mapping[str, int]) -> bool:
    """Whether requests name an extended resource."""
    return any(amount > 0 and is_extended(name) for name, amount in requests.items())


def selected_classes(classes: Mapping[str, DeviceClass]) -> dict[str, DeviceClass]:
    """Return the class of each extended resource: of several the one that was made last, and of those the first by its name."""
    found: dict[str, DeviceClass] = {}
    for _, one in sorted(classes.items()):
        if not one.extended_resource:
            continue
        other = found.get(one.extended_resource)
        if other is None or one.created > other.created:
            found[one.extended_resource] = one
    return found


def extended_charges(
    asked: DevicesAsked, known: KnownDevices, rules: DeviceRules, where: str
) -> tuple[CountedDevices, list[DeviceProblem]]:
    """Return what counts in the place of a pod set's extended resources, and the errors; `where` is the path of the pod's spec."""
    classes = selected_classes(known.classes)
    if not classes:
        return CountedDevices(), []
    several = (
        [_requests(one, f"{where}.{_KINDS[0]}[{at}]", classes) for at, one in enumerate(asked.init_containers)],
        [_requests(one, f"{where}.{_KINDS[1]}[{at}]", classes) for at, one in enumerate(asked.containers)],
    )
    adds: dict[str, int] = {}
    replaces: set[str] = set()
    errors: list[DeviceProblem] = []
    for name in sorted({name for listed in several for _, found in listed for name in found}):
        first = next(path for listed in several for path, found in listed if name in found)
        key, wrong = _counted_as(name, classes[name], rules, first)
        if not wrong:
            wrong = list(_fractions(name, several))
        total = max(
            max((found.get(name, 0) for _, found in several[0]), default=0),
            sum(found.get(name, 0) for _, found in several[1]),
        )
        if not wrong and total > MOST * NANO:
            why = "total extended resource quantity overflows int64"
            wrong = [invalid(f"{first}.resources.requests.{name}", spell("", to_milli(total)), why)]
        if wrong:
            errors += wrong
            continue
        replaces.add(name)
        adds[key] = adds.get(key, 0) + total
    return CountedDevices(adds, frozenset(replaces)), errors


def _requests(container: Json, where: str, classes: Mapping[str, DeviceClass]) -> tuple[str, dict[str, int]]:
    """Return what a container asks for of the extended resources that classes have, in billionths; limits where it asks for none."""
    resources = container.get("resources") or {}
    asked = amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
    return where, {n: amount for n, amount in asked.items() if amount > 0 and is_extended(n) and n in classes}


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


def _fractions(name: str, several: Sequence[Sequence[tuple[str, Mapping[str, int]]]]) -> Iterator[DeviceProblem]:
    for listed in several:
        for path, found in listed:
            if found.get(name, 0) % NANO:
                where, why = f"{path}.resources.requests.{name}", "extended resource quantity must be an integer"
                yield invalid(where, spell("", to_milli(found[name])), why)
