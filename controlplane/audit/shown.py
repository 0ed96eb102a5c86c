"""Times, durations, figures and places as people read them, in tables, sentences and pages.

In: a time, a duration, a number with its unit, the name of a cluster as events have it. Out: a short text. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.kube.durations import human_duration


def clock(at: datetime | None) -> str:
    """Return a time as people read it, in UTC, to the second."""
    return f"{at:%Y-%m-%d %H:%M:%S}" if at is not None else ""


def span(duration: timedelta) -> str:
    """Return a duration with its two largest units, `2d3h`; below a minute with tenths of a second."""
    seconds = max(duration.total_seconds(), 0.0)
    if seconds < 60:
        return f"{seconds:.1f}s"
    left = int(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def age(at: datetime, now: datetime) -> str:
    """Return how long ago a time was, as kubectl prints ages: `4s`, `26m`, `2d3h`."""
    return human_duration(max((now - at).total_seconds(), 0.0))


def place(cluster: str) -> str:
    """Return a cluster's name for people: the management cluster has none of its own."""
    return cluster.removeprefix("@")


def figure(value: float | None, unit: str) -> str:
    """Return a figure: of `seconds` a duration, of a `share` a percentage, of `hours` two decimals, of a `count` the
    number; nothing for what is not known."""
    if value is None:
        return ""
    if unit == "seconds":
        return span(timedelta(seconds=value))
    if unit == "share":
        return f"{value:.1%}"
    return f"{value:.2f}" if unit == "hours" else str(value)
