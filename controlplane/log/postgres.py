"""The log in PostgreSQL: `controlplane.log.port.Log` over a connection each for appends, for reads, for the lead, and
for listening.

In: appends and questions. Out: events in order. The lead has a connection of its own, so that a long read delays no
heartbeat. Each look at the head compares the log with what was read of it; one that went back, or another one, is
told at once (`LogReplaced`). Who follows the log listens for appends. Its holder does not: the server would wake it for
each of its own, and of the few others it learns by its next heartbeat, or when it appends."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import psycopg
import structlog

from controlplane.log.appender import LINGER, Appender
from controlplane.log.codec import Codec
from controlplane.log.committed import CommittedEvent, CommittedEvents, EventPage, recorded
from controlplane.log.connect import Database, bounded, first_line
from controlplane.log.event import (
    Append,
    Fenced,
    Heartbeat,
    LogArchived,
    LogHead,
    LogReplaced,
    Recorded,
)
from controlplane.log.line import Line
from controlplane.log.page import READ, checked_page
from controlplane.log.port import FollowUp, FollowUps, nobody_anticipates
from controlplane.log.traces import Traces
from controlplane.tasks import end

_log = structlog.get_logger(__name__)

# Seconds after which LISTEN is said again, and for which it is asked what a fence means.
_LISTEN_AGAIN, _FENCED = 30.0, 1.0

# What the log is: its identity, its end, its holder's last heartbeat, and the batch in which a position lies.
_LOOK = """
SELECT h.id, h.position, h.epoch, h.nonce, concat_ws(' ', h.epoch, h.beat, extract(epoch FROM h.renewed_at)),
       h.renewed_at = '-infinity',
       (SELECT b.batch FROM controlplane.batches b WHERE b.log = h.log AND b.last >= %(read_to)s ORDER BY b.last LIMIT 1), h.archived_to
FROM controlplane.log_head h WHERE h.log = %(log)s"""


class LogPosition(NamedTuple):
    """A position of a log, by the log's identity and by the batch that the event there came with."""

    log_id: uuid.UUID
    position: int
    batch: uuid.UUID


class _LeadRow(NamedTuple):
    """A row of `_LOOK`; all zeros for a log that nobody has opened yet."""

    id: uuid.UUID | None = None
    position: int = 0
    epoch: int = 0
    nonce: uuid.UUID | None = None
    heartbeat: str = ""
    free: bool = True
    batch: uuid.UUID | None = None
    archived_to: int = 0


# Each of these is a statement of its own. Where the log is on another node (Citus), one statement cannot call a
# function that writes to it and read it too.
_RENEW = "SELECT controlplane.renew_epoch(%(log)s, %(epoch)s, %(nonce)s, %(resign)s)"
# Who resigned was "-infinity" since.
_LAST_HEARTBEAT = "SELECT renewed_at FROM controlplane.log_head WHERE log = %s AND isfinite(renewed_at)"
_LEAD = "SELECT log_position, log_epoch FROM controlplane.take_epoch(%s, %s, %s, %s::text)"


class PostgresLog:
    """One log of one database. `on_state(ok, detail)` hears when the database goes away and comes back; for `linger`
    seconds a few observations wait for others."""

    def __init__(
        self,
        database: Database,
        codec: Codec,
        *,
        log: str = "main",
        max_batch: int = 1000,
        linger: float = LINGER,
        on_state: Callable[[bool, str], None] | None = None,
        on_batch: Callable[[Sequence[str], float], None] | None = None,
    ) -> None:
        self.name = log
        self._committed = CommittedEvents(codec)
        self.appender = Appender(
            database,
            log,
            codec,
            max_batch=max_batch,
            linger=linger,
            on_state=on_state,
            on_batch=on_batch,
            on_committed=self._committed.add,
            heard=lambda: self._heard,
            on_moved=self._ring,
            follow_ups=self._followed,
            trace_of=lambda event: self.traces.of_new(event),
        )
        self._database, self.codec = database, codec
        self._reader, self._heart = Line(database, "reader"), Line(database, "leader")
        self.traces = Traces()
        self._follow_ups: FollowUps = nobody_anticipates
        self._id: uuid.UUID | None = None
        self._read_to = 0
        self._read_batch: uuid.UUID | None = None
        self._archived_to: int | None = None  # up to where events were in archives alone when reading began
        self._rung = asyncio.Event()
        self._heard = 0  # how often we were told that somebody else appended
        self._read_when = 0  # what we had heard when what was read last was the end of the log
        self._ended: tuple[int, int] | None = None  # where that end was, and what we had heard
        self._seen_end: tuple[int, int] | None = None  # the same, by the last look at the head
        self._listener: asyncio.Task[None] | None = None
        self._waits = False  # whether anybody waits for more, and so hears of it
        self._holds = False  # whether we have taken the log, and nobody has told us otherwise
        self._last_look: asyncio.Task[_LeadRow] | None = None  # what the log was when we were fenced off

    async def __aenter__(self) -> PostgresLog:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop the tasks and close the connections."""
        async with contextlib.AsyncExitStack() as last_to_first:
            last_to_first.push_async_callback(self._heart.close)
            last_to_first.push_async_callback(self._reader.close)
            last_to_first.push_async_callback(self.appender.close)
            await self._listen_no_more()

    async def head(self) -> LogHead:
        """Return the last position and the current epoch; zeros for a log that nobody has opened yet."""
        look = await self._look()
        return LogHead(look.position, look.epoch)

    async def identity(self) -> str:
        """Return the log's name, its identity, and that of the database server, since a copy of a database has the same
        log; "" while nobody has opened it.
        """
        look = await self._look()
        return f"{self.name}/{look.id}{self._heart.server}" if look.id is not None else ""

    async def heartbeat(self) -> Heartbeat:
        """Return the last heartbeat of the log's holder; see `controlplane.log.port.Log`."""
        self._let_go()
        look = await self._look()
        return Heartbeat(look.epoch, look.heartbeat, look.free)

    async def take_epoch(self, holder: str) -> LogHead:
        """Bump the epoch and append with it from now on, whoever holds it."""
        head = await self._take(holder, None)
        assert head is not None
        return head

    async def assist(self) -> LogHead:
        """Append with the current epoch, without taking it: how an operator's word gets into the log beside the
        leader's.
        """
        look = await self._look()
        self._committed.clear()
        self.appender.rejoin(look.epoch, look.nonce, None)
        return LogHead(look.position, look.epoch)

    async def lead(self, holder: str, heartbeat: Heartbeat) -> LogHead | None:
        """Take the epoch unless its holder has sent another heartbeat; see `controlplane.log.port.Log`."""
        return await self._take(holder, heartbeat.given)

    async def _take(self, holder: str, seen: str | None) -> LogHead | None:
        nonce = uuid.uuid4()
        heartbeats = await self._heart.fetch(_LAST_HEARTBEAT, (self.name,))
        rows = await self._heart.fetch(_LEAD, (self.name, holder, nonce, seen))
        if not rows:
            return None
        position, epoch = rows[0]
        head = LogHead(position, epoch, heartbeats[0][0] if heartbeats else None)
        self._committed.clear()
        self.appender.rejoin(head.epoch, nonce, self._read_batch)
        await self._look()
        self._holds = True
        await self._listen_no_more()
        self._ring()  # whatever was not listened to
        return head

    async def renew(self, *, resign: bool = False) -> None:
        """Send a heartbeat; see `controlplane.log.port.Log`."""
        holder = {"log": self.name, "epoch": self.appender.epoch, "nonce": self.appender.nonce, "resign": resign}
        try:
            await self._heart.fetch(_RENEW, holder)
            if not resign:
                await self._look()
        except Fenced:
            await self._compare_fenced()
            raise

    async def _compare_fenced(self) -> None:
        """Let go of the log; `LogReplaced` if it is not the one that was read: then the lead was lost with what was
        written since. A database that does not say so within a second leaves it at the fence."""
        self._let_go()
        self._last_look = self._last_look or asyncio.create_task(self._look(), name="log-fenced")
        done, _ = await asyncio.wait([self._last_look], timeout=_FENCED)
        if done and not self._last_look.cancelled() and isinstance(why := self._last_look.exception(), LogReplaced):
            raise why

    async def _look(self) -> _LeadRow:
        """Return what the log is now; `LogReplaced` if it is not the one that was read."""
        read_to, read_batch, heard = self._read_to, self._read_batch, self._heard
        rows = await self._heart.fetch(_LOOK, {"log": self.name, "read_to": read_to})
        look = _LeadRow(*rows[0]) if rows else _LeadRow()
        self._seen_end = look.position, heard
        if look.position > max(read_to, self._committed.end):
            self._ring()
        if self._id is None:
            self._id = look.id
        if look.id != self._id:
            raise self._replaced(f"log {self.name} is another one than that which was read", look.position)
        if look.position < read_to:
            said = f"log {self.name} ends at position {look.position}, and had been read up to {read_to}"
            raise self._replaced(said, look.position)
        self._compare_archived(look.archived_to, read_to)
        if read_batch is not None and look.batch != read_batch:
            raise self._replaced(f"log {self.name} has another event at position {read_to} than before", look.position)
        return look

    def _compare_archived(self, archived_to: int, read_to: int) -> None:
        """Raise `LogArchived` if events left the log, or came back, among which `read_to` is: others were read
        before."""
        if self._archived_to != archived_to and 0 < read_to < max(archived_to, self._archived_to or 0):
            raise LogArchived(
                f"the events of log {self.name} up to position {archived_to} are in archives, and {read_to} had been "
                "read"
            )
        self._archived_to = archived_to

    def _replaced(self, said: str, ends_at: int) -> LogReplaced:
        return LogReplaced(
            f"{said}: a backup was restored, or a standby was promoted that lacks it", self._read_to, ends_at
        )

    async def append(self, request: Append) -> int:
        """Commit a request with whatever else has arrived; see `controlplane.log.port.Log`."""
        try:
            new = await self.appender.submit(request)
        except LogReplaced as error:
            raise self._replaced(str(error), error.ends_at) from None
        except Fenced:
            await self._compare_fenced()
            raise
        if new:
            self._rung.set()
        else:
            self._ring()  # all of it was known, perhaps from a commit of ours whose answer was lost
        return new

    async def patient(self) -> None:
        """Return once what is to be committed waits for more; see `controlplane.log.port.Log`."""
        await self.appender.patient.wait()

    def follow_with(self, follow_ups: FollowUps) -> None:
        """Commit with a few events what follows from them; see `controlplane.log.port.Log`."""
        self._follow_ups = follow_ups

    def _followed(self, events: Sequence[CommittedEvent]) -> FollowUp:
        if self._follow_ups is nobody_anticipates:
            return FollowUp()
        recorded = [one.read(self.codec) for one in events]
        self.traces.read(recorded)
        return self._follow_ups(recorded)

    async def read(self, after: int, limit: int = 2000) -> Sequence[Recorded]:
        """Return the events after a position, in order, without holes.

        What this process committed itself is not asked of the database again. Nor is that nothing follows, by whoever
        waits for the log by `wait` and reads until there is nothing more: a page that was not full ended at the end of
        the log, and of what others append after it we hear."""
        ended, self._ended = self._ended, None
        if ended == (after, self._heard) and self._committed.end <= after:
            return []
        page = self._committed.after(after, limit)
        if page is None:
            page = await self._page(after, limit)
        if page.events:
            self.traces.read(page.events)
            self._read_to, self._read_batch = page.events[-1].position, page.batch
        if page.heard is not None:
            self._read_when = page.heard
            if self._waits:
                self._ended = (self._read_to, page.heard)
        return page.events

    async def _page(self, after: int, limit: int) -> EventPage:
        heard = self._heard
        rows = await self._reader.fetch(READ, {"log": self.name, "after": after, "limit": limit})
        page = checked_page(rows, self.name, after, limit)
        if page.archived_to is not None:
            self._compare_archived(page.archived_to, after)
        found = recorded(page.rows, self.codec)
        return EventPage(found, page.batch, heard if len(found) < limit else None)

    async def place(self) -> LogPosition | None:
        """Return how far the log was read, None if that cannot be told."""
        if self._id is None:
            await self._look()
        if self._id is None or self._read_batch is None:
            return None
        return LogPosition(self._id, self._read_to, self._read_batch)

    def resume(self, place: LogPosition) -> None:
        """Go on as if the log had been read up to a place."""
        self._id, self._read_to, self._read_batch = place

    async def bodies(self, refs: Iterable[str]) -> dict[str, bytes]:
        """Return the JSON of bodies by the hex of their hash."""
        rows = await self._reader.fetch(
            "SELECT hash, body::text FROM controlplane.bodies WHERE hash = ANY(%b)",
            ([bytes.fromhex(ref) for ref in refs],),
        )
        return {hash_.hex(): text.encode() for hash_, text in rows}

    async def wait(self, after: int, timeout: float) -> None:
        """Return when the log may have grown, or after `timeout` seconds: the alarm clock with the poll behind it. The
        read that follows asks nothing if a heartbeat, or a look for one, saw meanwhile that nothing follows."""
        self._waits = True
        if self._listener is None and not self._holds:
            self._listener = asyncio.create_task(self._listen(), name="log-listener")
        self._ended = self._seen_end = None
        if self._committed.end <= after and self._heard == self._read_when:
            self._rung.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._rung.wait()
        self._read_when = self._heard
        if self._seen_end == (after, self._heard):
            self._ended = self._seen_end  # whoever looked at the head meanwhile saw that nothing follows

    def _ring(self) -> None:
        self._heard += 1
        self._rung.set()

    def _let_go(self) -> None:
        """Take note that somebody else may hold the log: the end of it is not known any more, and has to be heard
        of."""
        if self._holds:
            self._holds, self._ended, self._seen_end = False, None, None
            self._ring()

    async def _listen_no_more(self) -> None:
        tasks, self._listener, self._last_look = (self._listener, self._last_look), None, None
        await end(*(task for task in tasks if task is not None))

    async def _listen(self) -> None:
        delay = 0.1
        while True:
            try:
                connection = await self._database.connect("listener")
                async with connection:
                    delay = 0.1
                    while True:
                        # Said again now and then: a server that does not answer that is not listened to any longer.
                        with bounded(connection, self._database.statement_timeout):
                            await connection.execute("LISTEN controlplane")
                        self._ring()  # whatever was notified while nobody listened
                        async for notification in connection.notifies(timeout=_LISTEN_AGAIN):
                            if notification.payload == self.name:
                                self._ring()
            except psycopg.Error as error:
                _log.debug("listener lost its connection", error=first_line(error), retry_in=delay)
            await asyncio.sleep(delay)
            delay = min(delay * 2, 5.0)
