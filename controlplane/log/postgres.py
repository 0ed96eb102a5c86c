"""The log in PostgreSQL: `controlplane.log.port.Log` over one connection for appends, one for reads and one that listens.

In: appends and questions. Out: events in order. SQLAlchemy Core compiles the reads once; psycopg carries them, because a replay
of a million events passes here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import LiteralString

import psycopg
import structlog
from psycopg.rows import TupleRow as Row

from controlplane.log.appender import Appender
from controlplane.log.codec import Codec
from controlplane.log.connect import Database, first_line, lost
from controlplane.log.event import Append, Fenced, Head, LogUnavailable, Recorded

_log = structlog.get_logger(__name__)

_READ = """
SELECT position, stream, version, type, schema, data::text, cluster, coalesce(caused_by, 0), trace, observed_at, recorded_at
FROM controlplane.events WHERE log = %s AND position > %s ORDER BY position LIMIT %s"""

# The row as it was: the statement sees the table as of its beginning, whatever the function does to it. Who resigned was "-infinity" since.
_LEAD = """
SELECT log_position, log_epoch, (SELECT renewed_at FROM controlplane.log_head WHERE log = %s AND isfinite(renewed_at))
FROM controlplane.take_epoch(%s, %s, %s::interval)"""


class PostgresLog:
    """One log of one database. `on_state(ok, detail)` hears when the database goes away and comes back."""

    def __init__(
        self,
        database: Database,
        codec: Codec,
        *,
        log: str = "main",
        max_batch: int = 1000,
        on_state: Callable[[bool, str], None] | None = None,
        on_batch: Callable[[Sequence[str], float], None] | None = None,
    ) -> None:
        self.name = log
        self.appender = Appender(database, log, codec, max_batch=max_batch, on_state=on_state, on_batch=on_batch)
        self._database, self._codec = database, codec
        self._reader: psycopg.AsyncConnection[Row] | None = None
        self._reading = asyncio.Lock()
        self._rung = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None

    async def __aenter__(self) -> PostgresLog:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop the tasks and close the connections."""
        if self._listener:
            self._listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listener
        await self.appender.close()
        if self._reader:
            await self._reader.close()

    async def head(self) -> Head:
        """Return the last position and the current epoch; zeros for a log that nobody has opened yet."""
        rows = await self._fetch("SELECT position, epoch FROM controlplane.log_head WHERE log = %s", (self.name,))
        return Head(*rows[0]) if rows else Head(0, 0)

    async def take_epoch(self, holder: str) -> Head:
        """Bump the epoch and append with it from now on."""
        head = await self.lead(holder, 0.0)
        assert head is not None
        return head

    async def assist(self) -> Head:
        """Append with the current epoch, without taking it: how an operator's word gets into the log beside the leader's."""
        head = await self.head()
        self.appender.rejoin(head.epoch)
        return head

    async def lead(self, holder: str, lease: float) -> Head | None:
        """Take the epoch unless its holder lives; see `controlplane.log.port.Log`."""
        rows = await self._fetch(_LEAD, (self.name, self.name, holder, timedelta(seconds=lease)))
        if not rows:
            return None
        head = Head(*rows[0])
        self.appender.rejoin(head.epoch)
        return head

    async def renew(self, *, resign: bool = False) -> None:
        """Give a sign of life; see `controlplane.log.port.Log`."""
        try:
            await self._fetch("SELECT controlplane.renew_epoch(%s, %s, %s)", (self.name, self.appender.epoch, resign))
        except psycopg.Error as error:
            if error.sqlstate == "CP001":
                raise Fenced(error.diag.message_primary or str(error)) from None
            raise

    async def append(self, request: Append) -> int:
        """Commit a request with whatever else has arrived; see `controlplane.log.port.Log`."""
        new = await self.appender.submit(request)
        self._ring()
        return new

    async def read(self, after: int, limit: int = 2000) -> Sequence[Recorded]:
        """Return the events after a position, in order, without holes."""
        decode = self._codec.decode
        return [
            Recorded(
                position=position,
                stream=stream,
                version=version,
                event=decode(name, schema, data),
                cluster=cluster,
                caused_by=caused_by,
                trace=trace,
                observed_at=observed_at,
                recorded_at=recorded_at,
            )
            for position, stream, version, name, schema, data, cluster, caused_by, trace, observed_at, recorded_at in (
                await self._fetch(_READ, (self.name, after, limit))
            )
        ]

    async def bodies(self, refs: Iterable[str]) -> dict[str, bytes]:
        """Return the JSON of bodies by the hex of their hash."""
        rows = await self._fetch(
            "SELECT hash, body::text FROM controlplane.bodies WHERE hash = ANY(%b)",
            ([bytes.fromhex(ref) for ref in refs],),
        )
        return {hash_.hex(): text.encode() for hash_, text in rows}

    async def wait(self, after: int, timeout: float) -> None:
        """Return when the log may have grown, or after `timeout` seconds: the alarm clock with the poll behind it."""
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen(), name="log-listener")
        rung = self._rung
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await rung.wait()
        if rung is self._rung and rung.is_set():
            self._rung = asyncio.Event()

    def _ring(self) -> None:
        self._rung.set()

    async def _fetch(self, query: LiteralString, parameters: tuple[object, ...]) -> list[Row]:
        async with self._reading:
            for attempt in (1, 2):
                fresh = self._reader is None or self._reader.closed
                try:
                    if self._reader is None or self._reader.closed:
                        self._reader = await self._database.connect("reader")
                    cursor = await self._reader.execute(query, parameters, binary=True)
                    return await cursor.fetchall()
                except psycopg.Error as error:
                    if not lost(error):
                        raise
                    if self._reader:
                        await self._reader.close()
                        self._reader = None
                    # A connection that died while idle says nothing about the server: try once on a new one.
                    if fresh or attempt == 2:
                        raise LogUnavailable(f"the database does not answer: {first_line(error)}") from None
        raise AssertionError("unreachable")

    async def _listen(self) -> None:
        delay = 0.1
        while True:
            try:
                connection = await self._database.connect("listener")
                async with connection:
                    await connection.execute("LISTEN controlplane")
                    delay = 0.1
                    self._ring()  # whatever was notified while nobody listened
                    async for notification in connection.notifies():
                        if notification.payload == self.name:
                            self._ring()
            except psycopg.Error as error:
                _log.debug("listener lost its connection", error=first_line(error), retry_in=delay)
            await asyncio.sleep(delay)
            delay = min(delay * 2, 5.0)
