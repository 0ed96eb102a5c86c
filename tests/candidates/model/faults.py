"""How many faults a model still allows: of each kind, and of all."""

from __future__ import annotations


def spent(faults: tuple[int, ...], index: int) -> tuple[int, ...] | None:
    """Return what is left after one of a kind, None if there is none; the last number is that of all kinds."""
    if not faults[index] or not faults[-1]:
        return None
    left = list(faults)
    left[index] -= 1
    left[-1] -= 1
    return tuple(left) if left[-1] else (0,) * len(left)
