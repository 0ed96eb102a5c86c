"""Amounts of quota, as integers of 64 bits that saturate.

In: quantities of an API object. Out: cpu in thousandths, everything else in whole units; what is too large is
`UNLIMITED`, and stays so through sums and differences (kubernetes-sigs/kueue pkg/resources/amount.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from controlplane.kube.quantities import NANO, is_binary, nanos, spell, to_milli, to_units

FlavorResource = tuple[str, str]
"""A flavor's name and a resource's."""

Requests = dict[str, int]
"""Amounts by resource, in the order of `in_order`."""

Usage = dict[FlavorResource, int]

NO_BYTES: frozenset[str] = frozenset()
"""No resources but Kubernetes' own are bytes."""

UNLIMITED = 2**63 - 1
LEAST = -(2**63)
_LARGE = 2**62  # two of less cannot leave 64 bits


def add(a: int, b: int) -> int:
    """Return a sum; unlimited and anything is unlimited."""
    if -_LARGE < a < _LARGE and -_LARGE < b < _LARGE:
        return a + b
    if a == UNLIMITED or b == UNLIMITED:
        return UNLIMITED
    return clamped(a + b)


def sub(a: int, b: int) -> int:
    """Return a difference; unlimited less unlimited is nothing, and a bounded amount less unlimited the least."""
    if -_LARGE < a < _LARGE and -_LARGE < b < _LARGE:
        return a - b
    if a == UNLIMITED:
        return 0 if b == UNLIMITED else UNLIMITED
    if b == UNLIMITED:
        return LEAST
    return clamped(a - b)


def clamped(amount: int) -> int:
    """Return an amount within 64 bits."""
    return min(UNLIMITED, max(LEAST, amount))


def quota(resource: str, quantity: str | int | float) -> int:
    """Return a quantity of quota; one that does not fit is unlimited. ValueError if it is none."""
    found, most = nanos(quantity), UNLIMITED // 1000 if resource == "cpu" else UNLIMITED
    return UNLIMITED if found >= most * NANO else requested(resource, found)


def requested(resource: str, billionths: int) -> int:
    """Return what is requested, rounded up and within 64 bits."""
    return clamped(to_milli(billionths) if resource == "cpu" else to_units(billionths))


def spelled(resource: str, amount: int, in_bytes: frozenset[str] = NO_BYTES) -> str:
    """Return an amount as Kueue's messages spell it; `in_bytes`: resources that are bytes as memory is."""
    return "<unlimited>" if amount == UNLIMITED else quantity(resource, amount, in_bytes)


@lru_cache(maxsize=4096)
def quantity(resource: str, amount: int, in_bytes: frozenset[str] = NO_BYTES) -> str:
    """Return an amount as Kueue writes it where an API server takes nothing but quantities; `in_bytes` as in
    `spelled`."""
    if resource == "cpu":
        return spell(resource, amount)
    # Bytes that are no multiple of 1024 are spelled in powers of 1000.
    if amount % 1024 == 0 and (is_binary(resource) or resource in in_bytes):
        return spell("memory", amount * 1000)
    return spell("", amount * 1000)


@lru_cache(maxsize=4096)
def _place(resource: str) -> tuple[int, str]:
    """FNV-1a of 64 bits: Kueue keeps requests in this order, and with it looks for flavors."""
    found = 0xCBF29CE484222325
    for byte in resource.encode():
        found = ((found ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return found, resource


def in_order(requests: Mapping[str, int]) -> Requests:
    """Return requests in the order in which Kueue considers them."""
    return {name: requests[name] for name in sorted(requests, key=_place)}


def summed(several: Iterable[Mapping[str, int]]) -> Requests:
    """Return the sum of several requests, in order."""
    total: Requests = {}
    for requests in several:
        for name, amount in requests.items():
            total[name] = add(total.get(name, 0), amount)
    return in_order(total)


def scaled(requests: Mapping[str, int], of: int, to: int) -> Requests:
    """Return the requests of `to` pods, given those of `of` pods; a pod's share is rounded down."""
    return {name: clamped(amount // of * to) if of else 0 for name, amount in requests.items()}
