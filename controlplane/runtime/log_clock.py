"""The time that decisions are taken at: the log's own, carried on by a clock that cannot jump.

In: when the log recorded what was folded last. Out: that time plus what has passed since by the monotonic clock. The
wall clock of this machine has no say once the log has been read: graces begin with times of the log, so they end by
them."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.clock import Clock


class LogClock:
    """A `Clock` whose `now` follows the log."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recorded: datetime | None = None
        self._read_at = 0.0

    def anchor(self, recorded_at: datetime) -> None:
        """Note the time of an event that has just been read, unless we are ahead of it: reading old events is no way
        back.
        """
        if self._recorded is None or recorded_at > self.now():
            self._recorded, self._read_at = recorded_at, self._clock.monotonic()

    def now(self) -> datetime:
        """Return the log's time; this machine's until the log has said one."""
        if self._recorded is None:
            return self._clock.now()
        return self._recorded + timedelta(seconds=self._clock.monotonic() - self._read_at)

    def monotonic(self) -> float:
        """Return the clock's monotonic time."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the clock."""
        await self._clock.sleep(seconds)
