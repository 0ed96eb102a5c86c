"""Who leads a log: whoever took its epoch last, for as long as it sends heartbeats to the log itself.

In: a log. Out: the epoch, once the holder before has sent no new heartbeat for a lease, by our own monotonic clock
(the database's may jump); and a gate that is open only while our own last heartbeat is younger than that. A leader
that was paused, or cut off from the log, therefore stops acting before anybody else can start, by its own monotonic
clock; what it still tries to write, the log refuses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from controlplane.clock import Clock
from controlplane.log.event import Fenced, Heartbeat, LogHead, LogUnavailable
from controlplane.log.port import Log
from controlplane.runtime.gate import Gate

_log = structlog.get_logger(__name__)

# A heartbeat counts for us a little shorter than for the others: the answer took its time to come back.
_SAFETY = 0.75


def end_term(failure: asyncio.Future[None] | None, task: asyncio.Task[None], what: str) -> None:
    """Let a task that ended with an error end the leadership term, by its `failure`: only a fence gets that far."""
    if task.cancelled() or (error := task.exception()) is None:
        return
    if failure is not None and not failure.done():
        failure.set_exception(error)
    elif not isinstance(error, Fenced):  # of several fences the first one has ended it
        _log.error(f"{what} ended", error=repr(error))


class Leader:
    """The lead of one log, held by this process or waited for. `lease` and `renew` are seconds."""

    def __init__(
        self, log: Log, identity: str, clock: Clock, gate: Gate, *, lease: float = 3.0, renew: float = 0.75
    ) -> None:
        self._keeper, self._identity, self._clock, self._gate = log, identity, clock, gate
        self._lease, self._renew = lease, renew
        self._alive_until = float("-inf")
        self._holds = False
        self._silent = False
        self.hesitates: Callable[[], bool] = lambda: False  # whether another process should rather have the lead
        self.refused = ""  # why the lead could not be asked for, for a lease by now; "" if it could

    @property
    def sure(self) -> bool:
        """Whether nobody else can have taken the lead by now."""
        return self._holds and self._clock.monotonic() < self._alive_until

    async def acquire(self) -> LogHead:
        """Return the head of the log at the moment at which its lead became ours."""
        seen, since, told, answered = None, 0.0, False, self._clock.monotonic()
        while True:
            try:
                heartbeat, asked = await self._keeper.heartbeat(), self._clock.monotonic()
                if heartbeat != seen:
                    if seen is not None and not heartbeat.free and not told:
                        told = True
                        _log.info("following", detail="another process leads this log", epoch=heartbeat.epoch)
                    seen, since = heartbeat, asked
                if asked - since >= self._pause(heartbeat):
                    head = await self._keeper.lead(self._identity, heartbeat)
                    if head is not None:
                        self._confirm(asked)
                        self.refused = ""
                        return head
                answered, self.refused = self._clock.monotonic(), ""
            except LogUnavailable as error:
                if self._clock.monotonic() - answered >= self._lease:
                    if not self.refused:
                        _log.warning("the lead cannot be asked for", error=str(error))
                    self.refused = str(error)
            await self._clock.sleep(self._renew / 2)

    def _pause(self, heartbeat: Heartbeat) -> float:
        """Return for how many seconds there is to be no other heartbeat before the lead is taken: who hesitates gives
        others a lease more.
        """
        return (0.0 if heartbeat.free else self._lease) + (self._lease if self.hesitates() else 0.0)

    async def keep(self) -> None:
        """Send heartbeats; raises `Fenced` once another process has taken the epoch."""
        while True:
            await self._clock.sleep(self._renew)
            asked = self._clock.monotonic()
            try:
                await self._keeper.renew()
            except Fenced:
                self._holds = False
                raise
            except LogUnavailable as error:
                self._gate.set("leader", ok=self.sure, detail=str(error))
                if not self._silent:
                    _log.warning("a heartbeat could not be sent", error=str(error))
                self._silent = True
                continue
            if self._silent:
                _log.info("heartbeats are sent again")
            self._silent = False
            self._confirm(asked)
            self._gate.set("leader", ok=True)

    async def release(self) -> None:
        """Resign, so that the next one need not wait for the lease to end."""
        if self._holds:
            self._holds = False
            with contextlib.suppress(Exception):
                await self._keeper.renew(resign=True)

    def _confirm(self, asked: float) -> None:
        self._holds = True
        self._alive_until = asked + self._lease * _SAFETY
