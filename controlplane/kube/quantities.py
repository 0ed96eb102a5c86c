"""Kubernetes quantities as integers.

In: strings such as `500m`, `2`, `1.5Gi`, `1e3`, or numbers as YAML has them. Out: billionths of the unit as `int`,
which is as fine as an API server keeps them, so that sums and comparisons are exact; rounded up to thousandths
(`milli`) or whole units (`units`), as `MilliValue()` and `Value()` do; and the canonical spelling of an amount."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import lru_cache

NANO = 10**9
MOST = 2**63 - 1
"""The largest amount: an API server caps what is larger."""

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i)|[eE]([+-]?\d{1,4})|([numkMGTPE]?))", re.ASCII)
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_POWERS_OF_1024 = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_POWERS_OF_1000 = ("", "k", "M", "G", "T", "P", "E")


@lru_cache(maxsize=8192)
def _parse(text: str) -> int:
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"not a quantity: {text!r}; it is a number with a suffix such as m, k, Mi, or an exponent")
    number, binary, exponent, suffix = found.groups()
    ten, factor = int(exponent) if exponent else _DECIMAL[suffix or ""], _BINARY.get(binary or "", 1)
    _, digits, point = (value := Decimal(number)).as_tuple()
    assert isinstance(point, int)
    whole: int = int("".join(map(str, digits))) * factor
    shift = point + ten + 9
    size: int = (
        whole * 10 ** min(shift, 60) if shift >= 0 else -(-whole // 10 ** min(-shift, 4000))
    )  # 60 is past the cap
    return max(-MOST * NANO, min(MOST * NANO, -size if value.is_signed() else size))


def nanos(quantity: str | int | float) -> int:
    """Return a quantity in billionths of its unit; finer ones are rounded away from zero. ValueError if it is none."""
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise ValueError(f"not a quantity: {quantity!r}")
    if isinstance(quantity, float) and not math.isfinite(quantity):
        raise ValueError(f"not a quantity: {quantity!r}")
    return _parse(str(quantity))


def milli(quantity: str | int | float) -> int:
    """Return a quantity in thousandths, rounded up. ValueError if it is none."""
    return to_milli(nanos(quantity))


def to_milli(amount: int) -> int:
    """Return billionths as thousandths, rounded up."""
    return -(-amount // 10**6)


def to_units(amount: int) -> int:
    """Return billionths as whole units, rounded up."""
    return -(-amount // NANO)


def is_binary(resource: str) -> bool:
    """Return whether amounts of a resource are spelled in powers of 1024."""
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


@lru_cache(maxsize=4096)
def spell(resource: str, millis: int) -> str:
    """Return the canonical spelling of an amount in thousandths: powers of 1024 for memory and storage, of 1000
    otherwise.
    """
    if millis % 1000:
        return f"{millis}m"
    value = millis // 1000
    base, suffixes = (1024, _POWERS_OF_1024) if is_binary(resource) else (1000, _POWERS_OF_1000)
    step = 0
    while value and value % base == 0 and step < len(suffixes) - 1:
        value //= base
        step += 1
    return f"{value}{suffixes[step]}"


def canonical_quantity(quantity: str | int | float) -> str:
    """Return a quantity as an API server writes it: no fraction, the largest suffix of its own family that leaves none
    (`CanonicalizeBytes` in k8s.io/apimachinery pkg/api/resource/quantity.go). ValueError if it is none.
    """
    amount, text = nanos(quantity), str(quantity)
    found = _FORM.fullmatch(text)
    assert found is not None
    if found[2] and abs(amount) >= 1024 * NANO:
        value, step = to_units(amount), 0
        while value % 1024 == 0 and step < len(_POWERS_OF_1024) - 1:
            value, step = value // 1024, step + 1
        return f"{value}{_POWERS_OF_1024[step]}"
    value, power = amount, -9
    while value and value % 1000 == 0 and power < _LARGEST_POWER:
        value, power = value // 1000, power + 3
    if not value:
        return "0"
    if found[3] is not None:
        return f"{value}e{power}" if power else str(value)
    return f"{value}{_SUFFIXES[power]}"


_SUFFIXES = {power: suffix for suffix, power in _DECIMAL.items()}
_LARGEST_POWER = max(_SUFFIXES)
