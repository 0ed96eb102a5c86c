"""Computes how long to wait before trying again.

Exponential, with full jitter (a uniform draw below a growing ceiling), so that many clients of one server that fell
together do not come back together. Chance is handed in, so a seed replays."""

from __future__ import annotations

from collections.abc import Callable

Random = Callable[[], float]  # uniform in [0, 1), as `random.random`


class Backoff:
    """Successive waits in seconds: uniform in [`floor`, `ceiling`], the ceiling doubling from `base` up to `cap`.

    `floor` is what keeps an unlucky row of draws near zero from becoming a hot loop.
    """

    def __init__(self, base: float, cap: float, *, random: Random, floor: float = 0.0) -> None:
        self.base, self.cap, self.floor = base, cap, floor
        self._random = random
        self.attempts = 0

    def next(self) -> float:
        """Count one more attempt and return the wait before it."""
        ceiling = doubled(self.base, self.cap, self.attempts)
        self.attempts += 1
        return self.floor + self._random() * max(0.0, ceiling - self.floor)

    def reset(self) -> None:
        """Begin again from `base`: the thing that failed has worked for a while."""
        self.attempts = 0


def doubled(base: float, cap: float, times: int) -> float:
    """Return `base` seconds, doubled some times, `cap` at most."""
    return min(cap, base * 2.0 ** min(times, 64))


def jittered(seconds: float, random: Random) -> float:
    """Return `seconds` give or take a fifth of it, for polls that many clusters do at the same period."""
    return seconds * (0.8 + 0.4 * random())
