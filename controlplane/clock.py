"""Time, as an argument.

Whatever waits or stamps asks a `Clock`, so that tests and the simulation can own time. The pure core gets its `now`
handed in and needs none of this."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

_BOOT_TIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """Wall time for stamps, monotonic time for durations, and a way to wait."""

    def now(self) -> datetime:
        """Return the wall clock: aware, UTC. It may jump; never compute a duration from it."""

    def monotonic(self) -> float:
        """Return seconds since some fixed moment; never goes backwards, and does not stand still."""

    async def sleep(self, seconds: float) -> None:
        """Wait that long; zero or less yields to other tasks once."""


class SystemClock:
    """The clock of the machine and of the running event loop."""

    def now(self) -> datetime:
        """Return the machine's time, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the machine's monotonic time in seconds. Where there is such a clock (Linux), it goes on while the
        machine is suspended: a lead, or a Lease, that ended meanwhile has ended for its holder too.
        """
        return time.monotonic() if _BOOT_TIME is None else time.clock_gettime(_BOOT_TIME)

    async def sleep(self, seconds: float) -> None:
        """Wait on the running event loop."""
        await asyncio.sleep(max(0.0, seconds))
