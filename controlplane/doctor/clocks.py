"""Judges how far another machine's clock is from ours. Pure."""

from __future__ import annotations

from datetime import datetime

from controlplane.doctor.findings import Finding, FindingMaker

APART = 10.0
"""Seconds: an HTTP date has whole seconds, and the answer takes its time."""


def skew(place: FindingMaker, clock: tuple[datetime, datetime] | None) -> Finding:
    """Return how far the clock of a place, as it said it at our time, is from ours."""
    if clock is None:
        return place.warning("clock", "it does not say what time it is", "compare its clock with this machine's")
    seconds = (clock[0] - clock[1]).total_seconds()
    if abs(seconds) > APART:
        ahead = "ahead of" if seconds > 0 else "behind"
        return place.warning(
            "clock",
            f"its clock is {abs(seconds):.0f} s {ahead} this machine's",
            "let both follow a time server: leases and graces are counted by them",
        )
    return place.ok("clock", f"its clock is this machine's within {APART:.0f} s")
