"""What the LimitRanges of a namespace and a RuntimeClass make of a pod's spec, and what they forbid it.

In: LimitRanges' and RuntimeClasses' specs, and a pod's spec, as an API server shows them. Out: the spec with the
defaults that its pods get, and where it asks for more or less than is allowed, as Kueue says it (kubernetes-sigs/kueue
pkg/util/limitrange/limitrange.go, pkg/workload/resources.go, v0.17)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from controlplane.kube.pod_requests import ADMITTED, Requests, amounts, effective
from controlplane.kube.quantities import to_milli, to_units
from controlplane.values import Value

Spec = Mapping[str, Any]
Quantities = dict[str, Any]
_ABOVE, _BELOW = "requests must not be above the limitRange max", "requests must not be below the limitRange min"
_CONTAINERS = ("initContainers", "containers")


class Limits(Value):
    """What the LimitRanges of a namespace say of one type: the least `most`, the greatest `least`, and the defaults of
    the first that has one; amounts in billionths, defaults as quantities."""

    most: Requests = {}
    least: Requests = {}
    default: Quantities = {}
    default_request: Quantities = {}


class PodDefaults(Value):
    """What pods of a namespace get that they do not say: by LimitRanges of the types Container and Pod, and the
    overhead of each RuntimeClass by its name."""

    container: Limits | None = None
    pod: Limits | None = None
    overhead: Mapping[str, Quantities] = {}

    def concern(self, spec: Spec) -> bool:
        """Whether anything is said of a pod with this spec."""
        return self.container is not None or self.pod is not None or spec.get("runtimeClassName") in self.overhead


NO_DEFAULTS = PodDefaults()


def defaults(ranges: Iterable[Spec], overhead: Mapping[str, Quantities]) -> PodDefaults:
    """Return what the specs of a namespace's LimitRanges say together, in their order. ValueError names what is no
    quantity."""
    found: dict[str, Limits] = {}
    for spec in ranges:
        for item in spec.get("limits") or ():
            kind = str(item.get("type") or "")
            found[kind] = _joined(found.get(kind, Limits()), item)
    return PodDefaults(container=found.get("Container"), pod=found.get("Pod"), overhead=overhead)


def _joined(before: Limits, item: Spec) -> Limits:
    for name in ("default", "defaultRequest"):
        amounts(item.get(name), f"limits.{name}")  # what is no quantity is named here, and not where a pod gets it
    return Limits(
        most=_merged(min, before.most, amounts(item.get("max"), "limits.max")),
        least=_merged(max, before.least, amounts(item.get("min"), "limits.min")),
        default={**(item.get("default") or {}), **before.default},
        default_request={**(item.get("defaultRequest") or {}), **before.default_request},
    )


def _merged(choose: Callable[[int, int], int], one: Requests, other: Requests) -> Requests:
    return {**one, **{name: choose(one[name], amount) if name in one else amount for name, amount in other.items()}}


def given(spec: Spec, said: PodDefaults) -> dict[str, Any]:
    """Return a pod's spec with the defaults of containers, of the pod, and the overhead of its RuntimeClass."""
    found = dict(spec)
    overhead = said.overhead.get(str(spec.get("runtimeClassName") or ""))
    if overhead and not spec.get("overhead"):
        found["overhead"] = overhead
    if said.container is not None:
        for kind in _CONTAINERS:
            if spec.get(kind):
                found[kind] = [_filled(one, said.container) for one in spec[kind]]
    if said.pod is not None and spec.get("resources"):
        found = _filled(found, said.pod)
    return found


def _filled(owner: Spec, limits: Limits) -> dict[str, Any]:
    resources = owner.get("resources") or {}
    return {
        **owner,
        "resources": {
            **resources,
            "limits": {**limits.default, **(resources.get("limits") or {})},
            "requests": {**limits.default_request, **(resources.get("requests") or {})},
        },
    }


def violations(spec: Spec, said: PodDefaults, where: str) -> tuple[str, ...]:
    """Return where a pod's spec, with its defaults, asks for more or less than is allowed; `where` is the path of the
    spec."""
    found: list[str] = []
    if said.container is not None:
        for kind in _CONTAINERS:
            for at, one in enumerate(spec.get(kind) or ()):
                found += _of_container(one, said.container, f"{where}.{kind}[{at}]")
    if said.pod is not None:
        total = effective(spec, ADMITTED)
        found += _outside(total, total, said.pod, where)
    return tuple(found)


def _of_container(container: Spec, limits: Limits, where: str) -> list[str]:
    resources = container.get("resources") or {}
    limit = amounts(resources.get("limits"))
    asked = {**limit, **amounts(resources.get("requests"))}
    return _outside(_merged(max, asked, limit), _merged(min, asked, limit), limits, where)


def _outside(highest: Requests, lowest: Requests, limits: Limits, where: str) -> list[str]:
    above = sorted(n for n in limits.most if n in highest and _units(n, highest[n]) > _units(n, limits.most[n]))
    below = sorted(n for n in limits.least if n in lowest and _units(n, limits.least[n]) > _units(n, lowest[n]))
    return [
        f"{where}: Invalid value: {json.dumps(names, separators=(',', ':'))}: {message}"
        for names, message in ((above, _ABOVE), (below, _BELOW))
        if names
    ]


def _units(resource: str, billionths: int) -> int:
    return to_milli(billionths) if resource == "cpu" else to_units(billionths)
