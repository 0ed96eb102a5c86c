"""Sets sizes and times of following one kind of one cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """Sizes, and times in seconds. A watch is ended by the server after `watch_shortest`…`watch_longest`; bookmarks
    come about once a minute, the first of a quiet kind after two, so `idle_timeout` without a byte means that nobody is
    there. `ahead` pieces of what a watch shows are handed over together at the most. A kind that is off is asked for
    again after `off_first`, then after twice as long each time, up to `off_retry`; whether it may be watched by now is
    answered within `off_try`, or nobody is there."""

    page: int = 500
    chunk: int = 500
    ahead: int = 1
    watch_shortest: float = 300.0
    watch_longest: float = 600.0
    idle_timeout: float = 180.0
    healthy: float = 5.0
    off_first: float = 1.0
    off_retry: float = 60.0
    off_try: float = 10.0
    backoff_base: float = 0.2
    backoff_cap: float = 30.0
