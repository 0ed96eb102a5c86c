"""Durations as Go and Kubernetes write them: `15m`, `1h30m`, `500ms`, `0`.

In: text from a settings file, a variable, or an object's field. Out: a `timedelta`, and back. Here, and not with the
settings, because the capabilities show durations in the same spelling in which people set them."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

_MICROSECONDS = {
    "ns": Decimal("0.001"),
    "us": Decimal(1),
    "\u00b5s": Decimal(1),  # micro sign
    "\u03bcs": Decimal(1),  # Greek letter mu
    "ms": Decimal(1_000),
    "s": Decimal(1_000_000),
    "m": Decimal(60_000_000),
    "h": Decimal(3_600_000_000),
}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([a-z\u00b5\u03bc]*)")
_SHOWN = (("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1))
LONGEST = timedelta(microseconds=(2**63 - 1) // 1_000)
"""What fits Go's time.Duration, 64 bits of nanoseconds: about 292 years."""


def parse(text: str) -> timedelta:
    """Return what Go's `time.ParseDuration` returns, to the microsecond (what is finer is cut off).

    Raises `ValueError` with a reason that completes "the value …".
    """
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return timedelta(0)
    total, at = Decimal(0), 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None:
            raise ValueError(_expected(text))
        number, unit = part.groups()
        if not unit:
            raise ValueError(f"has no unit: write {text}s, {text}m or {text}h")
        if unit not in _MICROSECONDS:
            raise ValueError(f'has an unknown unit "{unit}": known are ns, us, ms, s, m and h')
        total += Decimal(number) * _MICROSECONDS[unit]
        at = part.end()
    if not rest:
        raise ValueError(_expected(text))
    if total > LONGEST / timedelta(microseconds=1):
        raise ValueError("is longer than a duration can be (about 292 years)")
    return sign * timedelta(microseconds=int(total))


def show(duration: timedelta) -> str:
    """Return the shortest spelling that `parse` reads back: `1h30m`, not Go's `1h30m0s`."""
    left = duration // timedelta(microseconds=1)
    if left == 0:
        return "0"
    sign, left = ("-", -left) if left < 0 else ("", left)
    parts = []
    for unit, size in _SHOWN:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return sign + "".join(parts)


def human_duration(seconds: float) -> str:
    """Return a duration as kubectl prints ages: two units at most, the second only while the first is small."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 8 * 365 else f"{days // 365}y"


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}{small}{small_unit}" if small else f"{big}{big_unit}"


def _expected(text: str) -> str:
    return f'must be a duration such as 15m, 1h30m, 500ms or 0, not "{text}"'
