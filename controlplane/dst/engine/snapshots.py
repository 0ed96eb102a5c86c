"""The snapshots of a simulated database: what the processes of a run keep of what they have folded, and start from.

In: chunks, and how far a process has read the log. Out: the newest snapshot whose last event the log still has, as
`controlplane.log.snapshots.PostgresSnapshots` gives it. They outlive every process, and a log that goes back."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import AsyncIterator, Collection, Sequence
from typing import NamedTuple

from controlplane.dst.engine.database import DatabaseLog
from controlplane.log.ended import NeededPage, NeededStreams
from controlplane.log.postgres import LogPosition
from controlplane.log.snapshots import Contents, FoundSnapshot

_LOG = uuid.UUID(int=1)
_AT_ONCE = 50


class Kept(NamedTuple):
    """A snapshot; `row` is that of its last event, by which the log is known again."""

    fold: str
    row: object
    contents: Contents
    chunks: Sequence[tuple[str, bytes]]


class SimulatedSnapshots:
    """The snapshots as one process meets them: `controlplane.log.snapshots.SnapshotStore`. `kept` is shared by all, by
    position."""

    def __init__(self, log: DatabaseLog, kept: dict[int, Kept]) -> None:
        self._log, self._kept = log, kept

    async def place(self) -> LogPosition | None:
        """Return how far the log was read, None if nothing was."""
        position, _ = self._log.last_read()
        return LogPosition(_LOG, position, uuid.UUID(int=position)) if position else None

    def resume(self, place: LogPosition) -> None:
        """Let the log go on as if it had been read up to a place."""
        self._log.resume(place.position)

    async def newest(self, fold: str) -> int:
        """Return the position of the newest snapshot of a fold, 0 if there is none."""
        await self._log.round_trip()
        return max((position for position, one in self._kept.items() if one.fold == fold), default=0)

    async def found(self, fold: str, upto: int | None = None, besides: Collection[int] = ()) -> FoundSnapshot | None:
        """Return the newest snapshot of a fold that is of this log; None if there is none."""
        await self._log.round_trip()
        for position, one in sorted(self._kept.items(), reverse=True):
            lost = upto is not None and position > upto
            if fold in (one.fold, "") and position not in besides and not lost and self._log.has(position, one.row):
                return FoundSnapshot(LogPosition(_LOG, position, uuid.UUID(int=position)), one.contents, one.fold)
        return None

    async def chunks(
        self, found: FoundSnapshot, parts: Collection[str] | None = None
    ) -> AsyncIterator[tuple[str, bytes]]:
        """Yield the chunks of a snapshot, or those of some parts, each with its part."""
        for part, data in self._kept[found.position].chunks:
            if parts is None or part in parts:
                yield part, zlib.decompress(data)

    async def needed(self, streams: NeededStreams, after: int) -> NeededPage:
        """Return the next events without the streams that are over."""
        await self._log.round_trip()
        events = await self._log.read(after, min(_AT_ONCE, streams.upto - after))
        return NeededPage([one for one in events if streams.has(one.stream)], events[-1].position)

    async def keep(
        self, fold: str, place: LogPosition, contents: Contents, chunks: Sequence[tuple[str, bytes]]
    ) -> bool:
        """Keep a snapshot; return whether it was: not if its place is not in the log any more."""
        position, row = self._log.last_read()
        await self._log.round_trip()
        if position < place.position or not self._log.has(position, row):
            return False
        self._kept[place.position] = Kept(fold, self._log.row(place.position), contents, chunks)
        return True

    async def close(self) -> None:
        """Nothing has to be let go of."""
