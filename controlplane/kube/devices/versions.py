"""Reads semantic versions (semver.org, 2.0.0) as attributes of devices and selectors have them, and orders them."""

from __future__ import annotations

import re
from functools import total_ordering

_FORM = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)
_MOST = 2**64 - 1


@total_ordering
class Version:
    """One version, as `text` spells it. What stands behind a plus does not count when two are compared."""

    __slots__ = ("_order", "numbers", "text")

    def __init__(self, text: str) -> None:
        """Read a version; ValueError if it is none."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no semantic version as 1.2.3 or 1.2.3-rc.1")
        self.text = text
        self.numbers = tuple(int(number) for number in found.groups()[:3])
        before = tuple(map(_identifier, found[4].split("."))) if found[4] else ()
        if max(self.numbers) > _MOST:
            raise ValueError(f"{text!r} has a number of more than 64 bits")
        self._order = (self.numbers, not before, before)  # a version before a release is less than it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._order == other._order

    def __lt__(self, other: Version) -> bool:
        return self._order < other._order

    def __hash__(self) -> int:
        return hash(self._order)


def _identifier(text: str) -> tuple[bool, int, str]:
    """Return what orders one part behind the hyphen: numbers by their amount and before words."""
    if not text.isdigit():
        return True, 0, text
    if len(text) > 1 and text.startswith("0"):
        raise ValueError(f"{text!r} has a zero in front")
    return False, int(text), ""
