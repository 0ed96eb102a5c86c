"""Limits how much is asked of one API server at a time, by everything in this process together.

A token bucket (requests per second, with a burst) and a cap on requests under way, both first come, first served. A
server that says "too many requests" stops the whole budget for as long as it asks. Each cluster has its own, so a slow
one slows nobody else. Watches hold no place: they are few, long and cheap to keep."""

from __future__ import annotations

import asyncio
import random as _random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from controlplane.clock import Clock, SystemClock
from controlplane.clusters.backoff import Backoff, Random

_LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Requests per second in the long run, at once after a quiet while, and under way at any moment.

    client-go's 5/s and 10 would spend minutes on the clones of a thousand workloads; an API server's own priority and
    fairness remains the judge, and is heeded."""

    qps: float = 200.0
    burst: int = 400
    concurrency: int = 32


class RequestBudget:
    """One cluster's budget. `async with budget.slot():` around each request."""

    def __init__(
        self, limits: RateLimits | None = None, *, clock: Clock | None = None, random: Random = _random.random
    ) -> None:
        self.limits = limits or RateLimits()
        self.clock: Clock = clock or SystemClock()
        self.random = random
        self._places = asyncio.Semaphore(self.limits.concurrency)
        self._gate = asyncio.Lock()  # held by the one that is next: keeps the queue in order while it waits for a token
        self._tokens = float(self.limits.burst)
        self._filled_at = self.clock.monotonic()
        self._paused_until = float("-inf")

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None, None]:
        """Wait for a place, for the end of a pause and for a token; hold the place until the block ends."""
        async with self._places:
            async with self._gate:
                while (wait := self._wait()) > 0:
                    await self.clock.sleep(wait)
                self._tokens -= 1.0
            yield

    def pause(self, seconds: float) -> None:
        """Let nobody start for that long (at most a minute); the longest of several pauses counts."""
        until = self.clock.monotonic() + min(seconds, _LONGEST_PAUSE)
        self._paused_until = max(self._paused_until, until)

    def backoff(self) -> Backoff:
        """Return the waits between repetitions of one request."""
        return Backoff(0.5, 30.0, random=self.random)

    def _wait(self) -> float:
        """Fill the bucket up to now and return the seconds until a token may be taken."""
        now = self.clock.monotonic()
        self._tokens = min(float(self.limits.burst), self._tokens + (now - self._filled_at) * self.limits.qps)
        self._filled_at = now
        # A sleep of exactly what is missing may leave a rounding error missing, and a clock cannot move by that little.
        missing = 0.0 if self._tokens >= 1.0 - 1e-6 else (1.0 - self._tokens) / self.limits.qps
        return max(missing, self._paused_until - now)
