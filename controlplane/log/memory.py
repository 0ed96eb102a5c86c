"""A log in memory, with the same promises as PostgreSQL's: for simulations and for tests of the loop.

It encodes and decodes every event, as the real one does, so that nothing passes here that the database would refuse.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from controlplane.log.codec import Codec
from controlplane.log.event import (
    Append,
    Fenced,
    Heartbeat,
    LogError,
    LogHead,
    LogReplaced,
    NewEvent,
    Recorded,
    VersionConflict,
)
from controlplane.log.port import FOLLOWED, FollowUps, nobody_anticipates
from controlplane.log.traces import Traces

_Row = tuple[NewEvent, int, str, int, bytes, datetime]


class MemoryStore:
    """What outlives a process: the events, heads and bodies. Several `MemoryLog`s may share one, as replicas share a
    database.

    `backup` and `restore` put it back to what it was, as a database is restored from a base backup.
    """

    def __init__(self) -> None:
        self.rows: list[_Row] = []
        self.versions: dict[str, int] = {}
        self.marks: dict[str, int] = {}
        self.texts: dict[str, bytes] = {}
        self.epoch = 0
        self.holder: object = None
        self.free = True
        self.heartbeats = 0
        self.renewed_at: datetime | None = None
        self.grown = asyncio.Event()

    def backup(self) -> Callable[[], None]:
        """Return a function that puts everything back to what it is now."""
        rows, versions, marks, texts = len(self.rows), dict(self.versions), dict(self.marks), dict(self.texts)
        kept, epoch, holder, free, heartbeats = self.rows[:rows], self.epoch, self.holder, self.free, self.heartbeats
        renewed_at = self.renewed_at

        def restore() -> None:
            self.rows, self.versions, self.marks, self.texts = list(kept), dict(versions), dict(marks), dict(texts)
            self.epoch, self.holder, self.free, self.heartbeats, self.renewed_at = (
                epoch,
                holder,
                free,
                heartbeats,
                renewed_at,
            )
            self.grown.set()
            self.grown = asyncio.Event()

        return restore


class MemoryLog:
    """One writer's or reader's view of a `MemoryStore`; `now` stamps `recorded_at`."""

    def __init__(self, store: MemoryStore, codec: Codec, now: Callable[[], datetime]) -> None:
        self._store, self._codec, self._now = store, codec, now
        self.traces = Traces()
        self._epoch = 0
        self._holder: object = None
        self._read_to = 0
        self._read_last: _Row | None = None
        self._written: tuple[int, _Row] | None = None
        self._follow_ups: FollowUps = nobody_anticipates

    async def head(self) -> LogHead:
        """Return the last position and the current epoch."""
        self._compare()
        return LogHead(len(self._store.rows), self._store.epoch)

    async def identity(self) -> str:
        """Return "": it is kept nowhere."""
        return ""

    async def heartbeat(self) -> Heartbeat:
        """Return the last heartbeat of the log's holder; see `controlplane.log.port.Log`."""
        self._compare()
        return Heartbeat(self._store.epoch, str(self._store.heartbeats), self._store.free)

    async def take_epoch(self, holder: str) -> LogHead:
        """Bump the epoch; see `controlplane.log.port.Log`."""
        self._compare()
        store = self._store
        before = store.renewed_at
        store.epoch += 1
        store.heartbeats += 1
        self._epoch, self._holder = store.epoch, object()
        store.holder, store.free, store.renewed_at = self._holder, False, self._now()
        return LogHead(len(store.rows), store.epoch, before)

    async def assist(self) -> LogHead:
        """Append with the current epoch, without taking it: how an operator's word gets into the log beside the
        leader's.
        """
        self._epoch, self._holder = self._store.epoch, self._store.holder
        return await self.head()

    async def lead(self, holder: str, heartbeat: Heartbeat) -> LogHead | None:
        """Take the epoch unless its holder has sent another heartbeat; see `controlplane.log.port.Log`."""
        return await self.take_epoch(holder) if await self.heartbeat() == heartbeat else None

    async def renew(self, *, resign: bool = False) -> None:
        """Send a heartbeat; see `controlplane.log.port.Log`."""
        self._compare()
        self._fence()
        self._store.heartbeats += 1
        self._store.free = resign
        self._store.renewed_at = None if resign else self._now()

    def _fence(self) -> None:
        if not self._epoch or (self._epoch, self._holder) != (self._store.epoch, self._store.holder):
            raise Fenced(f"epoch {self._epoch} of this holder is over: epoch {self._store.epoch} is current")

    def _compare(self) -> None:
        """Raise `LogReplaced` if what was read or written last is not in the log any more."""
        for position, row in ((self._read_to, self._read_last), self._written or (0, None)):
            rows = self._store.rows
            if row is not None and (len(rows) < position or rows[position - 1] is not row):
                raise LogReplaced("the log is not the one that was read", self._read_to, len(rows))

    async def append(self, request: Append) -> int:
        """Append a request; see `controlplane.log.port.Log`."""
        request = self.traces.given(request)
        self._compare()
        self._fence()
        before = len(self._store.rows)
        added = self._put(request)
        if 0 < added <= FOLLOWED:
            self._put_what_follows(before)
        if added:
            store = self._store
            self._written = len(store.rows), store.rows[-1]
            store.grown.set()
            store.grown = asyncio.Event()
        return added

    def _put_what_follows(self, after: int) -> None:
        recorded = self._recorded(after, FOLLOWED)
        self.traces.read(recorded)
        for request in self._follow_ups(recorded).requests:
            with contextlib.suppress(LogError):  # whoever decided it decides again
                self._put(self.traces.given(request))

    def _put(self, request: Append) -> int:
        store = self._store
        try:
            _check_texts(request)
            encoded = [(new, *self._codec.encode(new.event)) for new in request.events]
        except (TypeError, ValueError) as error:
            raise LogError(f"the log refused an append: {error}") from None
        for stream, version in (request.expected or {}).items():
            if store.versions.get(stream, 0) != version:
                raise VersionConflict(f"{stream} is at {store.versions.get(stream, 0)}, not at {version}")
        added = 0
        for new, name, schema, data in encoded:
            if new.source and new.mark <= store.marks.get(new.source, -1):
                continue
            if new.source:
                store.marks[new.source] = new.mark
            store.texts.update({body.ref: body.text.encode() for body in new.bodies})
            version = store.versions[new.stream] = store.versions.get(new.stream, 0) + 1
            store.rows.append((new, version, name, schema, data, self._now()))
            added += 1
        return added

    def follow_with(self, follow_ups: FollowUps) -> None:
        """Commit with a few events what follows from them; see `controlplane.log.port.Log`."""
        self._follow_ups = follow_ups

    async def read(self, after: int, limit: int = 2000) -> Sequence[Recorded]:
        """Return the events after a position; see `controlplane.log.port.Log`."""
        if after == self._read_to:
            self._compare()
        found = self._recorded(after, limit)
        if found:
            self.traces.read(found)
            self._read_to, self._read_last = found[-1].position, self._store.rows[found[-1].position - 1]
        return found

    def _recorded(self, after: int, limit: int) -> list[Recorded]:
        return [
            Recorded(
                position=position,
                stream=new.stream,
                version=version,
                event=self._codec.decode(name, schema, data),
                cluster=new.cluster,
                caused_by=new.caused_by,
                trace=new.trace,
                observed_at=new.observed_at,
                recorded_at=recorded_at,
            )
            for position, (new, version, name, schema, data, recorded_at) in enumerate(
                self._store.rows[after : after + limit], start=after + 1
            )
        ]

    async def wait(self, after: int, timeout: float) -> None:
        """Return when the log may have grown past `after`, or after `timeout` seconds."""
        if len(self._store.rows) > after:
            return
        grown = self._store.grown
        try:
            async with asyncio.timeout(timeout):
                await grown.wait()
        except TimeoutError:
            return

    @property
    def last_read(self) -> tuple[int, Any]:
        """How far the log was read, and the row there; to be set by who knows what comes before."""
        return self._read_to, self._read_last

    @last_read.setter
    def last_read(self, place: tuple[int, Any]) -> None:
        self._read_to, self._read_last = place

    async def patient(self) -> None:
        """Wait for ever: nothing waits here for more."""
        await asyncio.Event().wait()

    async def bodies(self, refs: Iterable[str]) -> dict[str, bytes]:
        """Return the JSON of bodies by the hex of their hash."""
        return {ref: self._store.texts[ref] for ref in refs if ref in self._store.texts}

    async def close(self) -> None:
        """Nothing has to be let go of."""


def _check_texts(request: Append) -> None:
    """Raise ValueError for what no `text` of PostgreSQL can hold: the character NUL, and what has no UTF-8."""
    texts = [*(request.expected or ())]
    for new in request.events:
        texts += (new.stream, new.source, new.cluster, new.trace, str(getattr(new.event, "reason", "")))
    if b"\x00" in " ".join(texts).encode():
        raise ValueError("a text has the character NUL")
