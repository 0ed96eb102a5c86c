"""Keeps snapshots beside the log: what a process had folded of it up to a position, so that the next one reads the rest
alone.

In: parts, each as chunks of bytes, and the place in the log that they are of. Out: the newest snapshot that is of this very
log, whole and undamaged, or none, with a message that says why: whoever has none reads the log from its beginning. One
that is of another log, of an event that a restored backup has not, or of another fold is never believed."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec
import structlog

from controlplane.log.connect import Database
from controlplane.log.line import Line
from controlplane.log.postgres import LogPosition, PostgresLog

_messages = structlog.get_logger(__name__)

# So many chunks come with one answer of the database.
_AT_ONCE = 16

_NEWEST = """
SELECT s.position, s.fold_version, s.log_id, s.batch, s.data, s.checksum, s.log_id = h.id, s.position <= h.position, s.batch = (
    SELECT b.batch FROM controlplane.batches b WHERE b.log = s.log AND b.last >= s.position ORDER BY b.last LIMIT 1)
FROM controlplane.snapshots s JOIN controlplane.log_head h ON h.log = s.log
WHERE s.log = %(log)s AND s.part = '' AND s.chunk = 0 ORDER BY s.position DESC"""
_LAST = """
SELECT coalesce(max(position), 0) FROM controlplane.snapshots
WHERE log = %(log)s AND fold_version = %(fold)s AND part = '' AND chunk = 0"""
_CHUNKS = """
SELECT part, chunk, data, checksum FROM controlplane.snapshots
WHERE log = %(log)s AND fold_version = %(fold)s AND position = %(position)s AND (part, chunk) > (%(part)s, %(chunk)s::int)
ORDER BY part, chunk LIMIT %(limit)s"""
_KEEP = """
SELECT controlplane.keep_snapshot(%(log)s, %(position)s, %(fold)s, %(id)s, %(batch)s,
                                  %(part)b::text[], %(chunk)b::int[], %(data)b::bytea[], %(checksum)b::bytea[])"""

_CHAIN = "SELECT last, hash, recorded_at FROM controlplane.batches WHERE batch = %s AND hash IS NOT NULL"


class Contents(msgspec.Struct, frozen=True):
    """What a snapshot says of itself: how many chunks each part has, and when its last event was recorded."""

    parts: Mapping[str, int]
    recorded_at: datetime


class FoundSnapshot(NamedTuple):
    """A snapshot that is of this log; whether it is whole shows when it is read."""

    place: LogPosition
    contents: Contents

    @property
    def position(self) -> int:
        """The position up to which it was folded."""
        return self.place.position


class SnapshotError(Exception):
    """A snapshot is not what was written; the message says what of it."""


class SnapshotStore(Protocol):
    """Where the snapshots of one log are. Raises `LogUnavailable` when the keeper does not answer."""

    async def place(self) -> LogPosition | None:
        """Return how far the log was read, None if that cannot be told."""

    def resume(self, place: LogPosition) -> None:
        """Let the log go on as if it had been read up to a place."""

    async def newest(self, fold: str) -> int:
        """Return the position of the newest snapshot of a fold, 0 if there is none."""

    async def found(self, fold: str, upto: int | None = None, besides: Collection[int] = ()) -> FoundSnapshot | None:
        """Return the newest snapshot of a fold that is of this log; None if there is none. `upto`: what the log had after
        that position was lost; `besides`: the positions of those that were tried already.
        """

    def chunks(self, fold: str, found: FoundSnapshot) -> AsyncIterator[tuple[str, bytes]]:
        """Yield its chunks, each with its part, a part's in order. Raises `SnapshotError`."""

    async def keep(
        self, fold: str, place: LogPosition, contents: Contents, chunks: Sequence[tuple[str, bytes]]
    ) -> bool:
        """Keep a snapshot, whole or not at all; return whether it was: not if its place is not in the log any more, or a
        newer one is there."""

    async def close(self) -> None:
        """Let go of the database."""


class PostgresSnapshots:
    """The snapshots of a log in PostgreSQL, each chunk compressed, with its SHA-256."""

    def __init__(self, database: Database, log: PostgresLog) -> None:
        self._log, self._name, self._line = log, log.name, Line(database, "snapshots")

    async def place(self) -> LogPosition | None:
        """Return how far the log was read, None if that cannot be told."""
        return await self._log.place()

    def resume(self, place: LogPosition) -> None:
        """Let the log go on as if it had been read up to a place."""
        self._log.resume(place)

    async def close(self) -> None:
        """Let go of the database."""
        await self._line.close()

    async def newest(self, fold: str) -> int:
        """Return the position of the newest snapshot of a fold; see `SnapshotStore`."""
        ((position,),) = await self._line.fetch(_LAST, {"log": self._name, "fold": fold})
        return int(position)

    async def found(self, fold: str, upto: int | None = None, besides: Collection[int] = ()) -> FoundSnapshot | None:
        """Return the newest snapshot of a fold that is of this log; see `SnapshotStore`."""
        others = 0
        for position, of, log_id, batch, data, checksum, same, reached, there in await self._line.fetch(
            _NEWEST, {"log": self._name}
        ):
            if of != fold:
                others += 1
                continue
            if position in besides:
                continue
            if upto is not None and position > upto:
                why = f"what the log had after {upto} was lost"
            elif not same:
                why = "it is of another log"
            elif not reached:
                why = "the log ends before it"
            elif not there:
                why = "the log has another event there"
            else:
                try:
                    contents = msgspec.msgpack.decode(_sound(data, checksum), type=Contents)
                    return FoundSnapshot(LogPosition(log_id, position, batch), contents)
                except (SnapshotError, msgspec.MsgspecError) as error:
                    why = str(error)
            _messages.warning("a snapshot is not used", log=self._name, position=position, why=why)
        if others:
            _messages.info("snapshots of other versions or settings are not used", log=self._name, count=others)
        return None

    async def chunks(self, fold: str, found: FoundSnapshot) -> AsyncIterator[tuple[str, bytes]]:
        """Yield the chunks of a snapshot; see `SnapshotStore`."""
        wanted = [(part, chunk) for part in sorted(found.contents.parts) for chunk in range(found.contents.parts[part])]
        last, at = ("", 0), 0
        while at < len(wanted):
            where = {"log": self._name, "fold": fold, "position": found.position, "limit": _AT_ONCE}
            rows = await self._line.fetch(_CHUNKS, {**where, "part": last[0], "chunk": last[1]})
            if not rows:
                raise SnapshotError(f"part {wanted[at][0]} lacks chunk {wanted[at][1]}")
            for part, chunk, data, checksum in rows:
                last = (part, chunk)
                if at >= len(wanted) or wanted[at] != last:
                    raise SnapshotError(f"part {part} has a chunk {chunk} that does not belong there")
                at += 1
                yield part, _sound(data, checksum)

    async def keep(
        self, fold: str, place: LogPosition, contents: Contents, chunks: Sequence[tuple[str, bytes]]
    ) -> bool:
        """Keep a snapshot; see `SnapshotStore`. The chunks are compressed already (`compressed`)."""
        rows = [("", 0, compressed(msgspec.msgpack.encode(contents)))]
        count = dict.fromkeys(contents.parts, 0)
        for part, data in chunks:
            rows.append((part, count[part], data))
            count[part] += 1
        given = {
            "log": self._name,
            "position": place.position,
            "fold": fold,
            "id": place.log_id,
            "batch": place.batch,
            "part": [part for part, _, _ in rows],
            "chunk": [chunk for _, chunk, _ in rows],
            "data": [data for _, _, data in rows],
            "checksum": [hashlib.sha256(data).digest() for _, _, data in rows],
        }
        ((kept,),) = await self._line.fetch(_KEEP, given)
        if kept:
            await self._say_where_the_chain_is(place)
        return bool(kept)

    async def _say_where_the_chain_is(self, place: LogPosition) -> None:
        """Write the hash of a place's batch among the messages: who changes the log later cannot change them."""
        for position, hash_, at in await self._line.fetch(_CHAIN, (place.batch,)):
            _messages.info(
                "log checkpoint", log=self._name, position=position, hash=hash_.hex(), recorded_at=at.isoformat()
            )


def compressed(data: bytes) -> bytes:
    """Return a chunk as it is stored. The fastest level: a snapshot is written often and read seldom."""
    return zlib.compress(data, 1)


def _sound(data: bytes, checksum: bytes) -> bytes:
    """Return what is in a stored chunk; raises `SnapshotError`."""
    if hashlib.sha256(data).digest() != checksum:
        raise SnapshotError("its checksum is wrong")
    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise SnapshotError(str(error)) from None
