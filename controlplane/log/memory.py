"""A log in memory, with the same promises as PostgreSQL's: for simulations and for tests of the loop.

It encodes and decodes every event, as the real one does, so that nothing passes here that the database would refuse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from controlplane.log.codec import Codec
from controlplane.log.event import Append, Fenced, Head, LogError, NewEvent, Recorded, VersionConflict


class MemoryStore:
    """What outlives a process: the events, heads and bodies. Several `MemoryLog`s may share one, as replicas share a database."""

    def __init__(self) -> None:
        self.rows: list[tuple[NewEvent, int, str, int, str, datetime]] = []
        self.versions: dict[str, int] = {}
        self.marks: dict[str, int] = {}
        self.texts: dict[str, bytes] = {}
        self.epoch = 0
        self.renewed_at: datetime | None = None
        self.grown = asyncio.Event()


class MemoryLog:
    """One writer's or reader's view of a `MemoryStore`; `now` stamps `recorded_at`."""

    def __init__(self, store: MemoryStore, codec: Codec, now: Callable[[], datetime]) -> None:
        self._store, self._codec, self._now = store, codec, now
        self._epoch = 0

    async def head(self) -> Head:
        """Return the last position and the current epoch."""
        return Head(len(self._store.rows), self._store.epoch)

    async def take_epoch(self, holder: str) -> Head:
        """Bump the epoch; see `controlplane.log.port.Log`."""
        head = await self.lead(holder, 0.0)
        assert head is not None
        return head

    async def assist(self) -> Head:
        """Append with the current epoch, without taking it: how an operator's word gets into the log beside the leader's."""
        self._epoch = self._store.epoch
        return await self.head()

    async def lead(self, holder: str, lease: float) -> Head | None:
        """Take the epoch unless its holder lives; see `controlplane.log.port.Log`."""
        renewed = self._store.renewed_at
        if renewed is not None and renewed + timedelta(seconds=lease) > self._now():
            return None
        self._store.epoch += 1
        self._epoch, self._store.renewed_at = self._store.epoch, self._now()
        return Head(len(self._store.rows), self._store.epoch, renewed)

    async def renew(self, *, resign: bool = False) -> None:
        """Give a sign of life; see `controlplane.log.port.Log`."""
        if self._epoch != self._store.epoch:
            raise Fenced(f"epoch {self._epoch} is over")
        self._store.renewed_at = None if resign else self._now()

    async def append(self, request: Append) -> int:
        """Append a request; see `controlplane.log.port.Log`."""
        store = self._store
        if not self._epoch or self._epoch != store.epoch:
            raise Fenced(f"epoch {self._epoch} is not the current epoch {store.epoch}")
        for stream, version in (request.expected or {}).items():
            if store.versions.get(stream, 0) != version:
                raise VersionConflict(f"{stream} is at {store.versions.get(stream, 0)}, not at {version}")
        try:
            encoded = [(new, *self._codec.encode(new.event)) for new in request.events]
        except (TypeError, ValueError) as error:
            raise LogError(f"the log refused an append: {error}") from None
        added = 0
        for new, name, schema, text in encoded:
            if new.source and new.mark <= store.marks.get(new.source, -1):
                continue
            if new.source:
                store.marks[new.source] = new.mark
            store.texts.update({body.ref: body.text.encode() for body in new.bodies})
            version = store.versions[new.stream] = store.versions.get(new.stream, 0) + 1
            store.rows.append((new, version, name, schema, text, self._now()))
            added += 1
        if added:
            store.grown.set()
            store.grown = asyncio.Event()
        return added

    async def read(self, after: int, limit: int = 2000) -> Sequence[Recorded]:
        """Return the events after a position; see `controlplane.log.port.Log`."""
        return [
            Recorded(
                position=position,
                stream=new.stream,
                version=version,
                event=self._codec.decode(name, schema, text.encode()),
                cluster=new.cluster,
                caused_by=new.caused_by,
                trace=new.trace,
                observed_at=new.observed_at,
                recorded_at=recorded_at,
            )
            for position, (new, version, name, schema, text, recorded_at) in enumerate(
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

    async def bodies(self, refs: Iterable[str]) -> dict[str, bytes]:
        """Return the JSON of bodies by the hex of their hash."""
        return {ref: self._store.texts[ref] for ref in refs if ref in self._store.texts}
