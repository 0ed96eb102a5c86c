"""Who leads a log: whoever holds its advisory lock. The lock only keeps the others waiting; what keeps them out is the epoch.

In: the database. Out: `acquired` when this process may take the epoch, and the gate's reason `leader` while the lock is in doubt. A session
lock goes with its connection, so a leader that dies is followed within a second; one that only lost its connection takes the lock
again and goes on, unless the epoch has moved.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib

import psycopg
import structlog
from psycopg.rows import TupleRow as Row

from controlplane.clock import Clock
from controlplane.log.connect import Database, first_line, lost
from controlplane.log.event import Fenced, LogUnavailable
from controlplane.log.port import Log
from controlplane.reconcile.gate import Gate

_log = structlog.get_logger(__name__)


class Leader:
    """The lock of one log, held by this process or waited for."""

    def __init__(self, database: Database, name: str, clock: Clock, gate: Gate, retry: float = 1.0) -> None:
        digest = hashlib.sha256(f"controlplane leader {name}".encode()).digest()
        self._key = int.from_bytes(digest[:8], "big", signed=True)
        self._database, self._clock, self._gate, self._retry = database, clock, gate, retry
        self._connection: psycopg.AsyncConnection[Row] | None = None

    async def acquire(self) -> None:
        """Return when the lock is ours."""
        while not await self._try():
            await self._clock.sleep(self._retry)

    async def keep(self, log: Log, epoch: int) -> None:
        """Hold on to the lock; raises `Fenced` once another process has taken the epoch."""
        while True:
            await self._clock.sleep(self._retry)
            if await self._alive():
                continue
            self._gate.set("leader", ok=False, detail="the leader's lock was lost")
            while not await self._try():
                await self._check(log, epoch)
                await self._clock.sleep(self._retry)
            await self._check(log, epoch)
            self._gate.set("leader", ok=True)

    async def release(self) -> None:
        """Give the lock up, so that the next one need not wait."""
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                await self._connection.close()
            self._connection = None

    async def _check(self, log: Log, epoch: int) -> None:
        """Raise `Fenced` if the epoch has moved; a database that does not answer says nothing."""
        with contextlib.suppress(LogUnavailable):
            current = (await log.head()).epoch
            if current != epoch:
                raise Fenced(f"epoch {epoch} is over: the log is at epoch {current}")

    async def _alive(self) -> bool:
        if self._connection is None or self._connection.closed:
            return False
        try:
            async with asyncio.timeout(10):
                await self._connection.execute("SELECT 1")
        except (psycopg.Error, TimeoutError):
            await self.release()
            return False
        return True

    async def _try(self) -> bool:
        try:
            if self._connection is None or self._connection.closed:
                self._connection = await self._database.connect("leader")
            cursor = await self._connection.execute("SELECT pg_try_advisory_lock(%s)", (self._key,))
            row = await cursor.fetchone()
        except psycopg.Error as error:
            if not lost(error):
                raise
            _log.warning("database away, the leader's lock waits", error=first_line(error))
            await self.release()
            return False
        return bool(row and row[0])
