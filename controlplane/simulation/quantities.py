"""Kubernetes quantities as integers, and what a pod asks for.

In: strings such as `500m`, `2`, `1.5Gi`, `1e3`, and pod templates. Out: thousandths of the unit as `int` (so that sums
and comparisons are exact and cheap), and the canonical spelling of such a number, which is what Kueue writes into
`resourceUsage`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

_BINARY = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4, "Pi": 1024**5, "Ei": 1024**6}
_DECIMAL = {"k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "m": -3, "u": -6, "n": -9}

Requests = dict[str, int]


@lru_cache(maxsize=4096)
def _parse(text: str) -> int:
    for suffix, factor in _BINARY.items():
        if text.endswith(suffix):
            return math.ceil(Decimal(text[:-2]) * factor * 1000)
    exponent = _DECIMAL.get(text[-1:])
    number = Decimal(text) if exponent is None else Decimal(text[:-1]).scaleb(exponent)
    return math.ceil(number * 1000)


def parse(quantity: str | int | float) -> int:
    """Return a quantity in thousandths, rounded up as Kubernetes does. ValueError if it is none."""
    try:
        return _parse(str(quantity))
    except InvalidOperation as error:
        raise ValueError(f"not a quantity: {quantity!r}") from error


@lru_cache(maxsize=4096)
def spell(resource: str, millis: int) -> str:
    """Return the canonical spelling of an amount: powers of 1024 for memory and storage, of 1000 otherwise."""
    if millis % 1000:
        return f"{millis}m"
    value = millis // 1000
    binary = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    base, suffixes = (
        (1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")) if binary else (1000, ("", "k", "M", "G", "T", "P", "E"))
    )
    step = 0
    while value and value % base == 0 and step < len(suffixes) - 1:
        value //= base
        step += 1
    return f"{value}{suffixes[step]}"


def _of_container(container: Mapping[str, Any]) -> Requests:
    resources = container.get("resources") or {}
    merged = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: parse(quantity) for name, quantity in merged.items()}


def _add(total: Requests, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Requests, floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, 0), amount)


def of_pod(spec: Mapping[str, Any]) -> Requests:
    """Return what one pod asks for, in thousandths: containers and sidecars together, at least each init container with
    the sidecars started before it, at least the pod's own requests, plus overhead. Limits stand in for missing
    requests.
    """
    containers: Iterable[Mapping[str, Any]] = spec.get("containers") or ()
    total: Requests = {}
    for container in containers:
        _add(total, _of_container(container))
    sidecars: Requests = {}
    peak: Requests = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _add(sidecars, _of_container(container))
            _raise_to(peak, sidecars)
        else:
            together = dict(sidecars)
            _add(together, _of_container(container))
            _raise_to(peak, together)
    _add(total, sidecars)
    _raise_to(total, peak)
    total.update(_of_container({"resources": spec.get("resources") or {}}))
    _add(total, {name: parse(quantity) for name, quantity in (spec.get("overhead") or {}).items()})
    return total
