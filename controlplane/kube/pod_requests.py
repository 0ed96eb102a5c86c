"""What a pod asks for: the effective requests of a pod's spec.

In: a pod's spec, and for a pod that runs its status, as dicts. Out: billionths of each resource's unit as `int`, or the
scheduler's integers: cpu in thousandths, everything else in whole units, each rounded up once, after the sum. The rules
are those of kubernetes/kubernetes staging/src/k8s.io/component-helpers/resource/helpers.go, v1.36: KEP-753 sidecars,
KEP-2837 pod-level resources, KEP-1287 in-place resize, KEP-688 overhead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.kube.quantities import nanos, to_milli, to_units

Requests = dict[str, int]
Spec = Mapping[str, Any]

MOST = 2**53
"""The largest amount that a node counts with: more than any machine has, and sums of it times 100 fit into 64 bits."""

FALLBACK: Mapping[str, int] = {"cpu": nanos("100m"), "memory": nanos("200Mi")}
"""What a container that names no cpu or no memory counts as where nodes are scored: 100m and 200 MiB."""


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """How the requests of a spec are read.

    `limits_stand_in`: a limit counts where there is no request, as after admission. `pod_level`: the pod's own requests
    replace the sum of the containers'. `fallback`: what a container without a request for a resource counts as.
    """

    limits_stand_in: bool = False
    pod_level: bool = True
    fallback: Mapping[str, int] | None = None


PLAIN = RequestOptions()
ADMITTED = RequestOptions(limits_stand_in=True)


def amounts(listed: Mapping[str, Any] | None, where: str = "resources") -> Requests:
    """Return a resource list in billionths; ValueError that names the field of what is no quantity."""
    found: Requests = {}
    for name, quantity in (listed or {}).items():
        try:
            found[name] = nanos(quantity)
        except ValueError as error:
            raise ValueError(f"{where}[{name}]: {error}") from error
    return found


def effective(spec: Spec, reading: RequestOptions = PLAIN, status: Spec | None = None) -> Requests:
    """Return what a pod asks for, in billionths: containers and sidecars together, at least each init container with
    the sidecars started before it; replaced by the pod's own requests; plus overhead. ValueError names the field."""
    running = _statuses(status)
    total: Requests = {}
    for container in spec.get("containers") or ():
        _add(total, _of_container(container, reading, running))
    sidecars: Requests = {}
    peak: Requests = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            own = _of_container(container, reading, running)
            _add(total, own)
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            together = _of_container(container, reading, _NOTHING_RUNS)
            _add(together, sidecars)
            _raise_to(peak, together)
    _raise_to(total, peak)
    if reading.pod_level:
        total.update(_pod_level(spec, reading, status))
    _add(total, amounts(spec.get("overhead"), "spec.overhead"))
    return total


def scheduled(spec: Spec, status: Spec | None = None) -> tuple[Requests, int, int]:
    """Return a pod's requests as a node counts them (cpu in thousandths, others in units), and cpu and memory with the
    fallback of containers that name none.
    """
    plain = effective(spec, PLAIN, status)
    fallback = dict(FALLBACK)
    if _pod_level(spec, PLAIN):
        # With pod-level requests a resource falls back only if neither level names it.
        fallback = {name: amount for name, amount in fallback.items() if name not in plain}
    filled = effective(spec, RequestOptions(fallback=fallback), status) if fallback else plain
    counted = whole({name: filled.get(name, 0) for name in FALLBACK})
    return whole(plain), counted["cpu"], counted["memory"]


def whole(requests: Mapping[str, int]) -> Requests:
    """Return billionths as the scheduler's integers: cpu in thousandths, others in units, rounded up, and `MOST` at
    most.
    """
    found = ((name, to_milli(amount) if name == "cpu" else to_units(amount)) for name, amount in requests.items())
    return {name: max(-MOST, min(MOST, amount)) for name, amount in found}


def is_pod_level(resource: str) -> bool:
    """Return whether a pod may ask for a resource as a whole."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


class _Running:
    """What a kubelet reported of a pod's containers, by name, and whether it refused to resize them."""

    __slots__ = ("containers", "infeasible")

    def __init__(self, containers: Mapping[str, Spec], infeasible: bool) -> None:
        self.containers = containers
        self.infeasible = infeasible


_NOTHING_RUNS = _Running({}, False)


def _statuses(status: Spec | None) -> _Running:
    if not status:
        return _NOTHING_RUNS
    listed: Iterable[Spec] = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    return _Running({str(one.get("name")): one for one in listed if one.get("resources") is not None}, _refused(status))


def _of_container(container: Spec, reading: RequestOptions, running: _Running) -> Requests:
    where = f"containers[{container.get('name', '')}].resources.requests"
    resources = container.get("resources") or {}
    named = resources.get("requests") or {}
    if reading.limits_stand_in:
        named = {**(resources.get("limits") or {}), **named}
    total = amounts(named, where)
    seen = running.containers.get(str(container.get("name")))
    if seen is not None:
        actual = amounts(seen["resources"].get("requests"), where)
        _raise_to(actual, amounts(seen.get("allocatedResources"), where))
        if running.infeasible:
            total = actual
        else:
            _raise_to(total, actual)
    for name, amount in (reading.fallback or {}).items():
        total.setdefault(name, amount)
    return total


def _pod_level(spec: Spec, reading: RequestOptions, status: Spec | None = None) -> Requests:
    resources = spec.get("resources") or {}
    named = resources.get("requests") or {}
    if reading.limits_stand_in:
        named = {**(resources.get("limits") or {}), **named}
    total = amounts({name: named[name] for name in named if is_pod_level(name)}, "spec.resources.requests")
    if not status or status.get("resources") is None:
        return total
    # Only what the spec asks for as a whole can have been resized as a whole (KEP-5419).
    seen = amounts(status["resources"].get("requests"), "status.resources.requests")
    _raise_to(seen, amounts(status.get("allocatedResources"), "status.allocatedResources"))
    if _refused(status):
        return {name: seen.get(name, 0) for name in total}
    return {name: max(amount, seen.get(name, amount)) for name, amount in total.items()}


def _refused(status: Spec) -> bool:
    """Return whether a kubelet refused to resize a pod: its spec does not say what it has."""
    pending = (one for one in status.get("conditions") or () if one.get("type") == "PodResizePending")
    first: Spec = next(iter(pending), {})
    return first.get("reason") == "Infeasible"


def _add(total: Requests, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Requests, floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, amount), amount)
