"""Keeps snapshots beside the log: what a process had folded of it up to a position, so that the next one reads the rest
alone.

In: parts, each as chunks of bytes, and the place in the log that they are of. Out: the newest snapshot that is of this
very log, whole and undamaged, or none, with a message that says why: whoever has none reads the log from its beginning.
One that is of another log, of an event that a restored backup has not, or of another fold is never believed."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec
import structlog

from controlplane.log.committed import recorded
from controlplane.log.connect import Database
from controlplane.log.ended import NeededPage, NeededStreams
from controlplane.log.event import LogArchived
from controlplane.log.line import Line
from controlplane.log.postgres import LogPosition, PostgresLog

_messages = structlog.get_logger(__name__)

# So many chunks come with one answer of the database.
_AT_ONCE = 16

_NEWEST = """
SELECT s.position, s.fold_version, s.log_id, s.batch, s.data, s.checksum, s.log_id = h.id, s.position <= h.position, s.batch = (
    SELECT b.batch FROM controlplane.batches b WHERE b.log = s.log AND b.last >= s.position ORDER BY b.last LIMIT 1),
       s.position >= h.archived_to
FROM controlplane.snapshots s JOIN controlplane.log_head h ON h.log = s.log
WHERE s.log = %(log)s AND s.part = '' AND s.chunk = 0 ORDER BY s.position DESC"""
_LAST = """
SELECT coalesce(max(position), 0) FROM controlplane.snapshots
WHERE log = %(log)s AND fold_version = %(fold)s AND part = '' AND chunk = 0"""
_CHUNKS = """
SELECT part, chunk, data, checksum FROM controlplane.snapshots
WHERE log = %(log)s AND fold_version = %(fold)s AND position = %(position)s AND (%(parts)s::text[] IS NULL OR part = ANY(%(parts)s))
  AND (part, chunk) > (%(part)s, %(chunk)s::int)
ORDER BY part, chunk LIMIT %(limit)s"""
_KEEP = """
SELECT controlplane.keep_snapshot(%(log)s, %(position)s, %(fold)s, %(id)s, %(batch)s,
                                  %(part)b::text[], %(chunk)b::int[], %(data)b::bytea[], %(checksum)b::bytea[])"""

# The log without the streams that are over. What is asked for is looked up in a hash table, whatever the plan.
_NEEDED = """
SELECT e.position, e.stream, e.version, e.type, e.schema, e.data::text, e.cluster, coalesce(e.caused_by, 0), e.trace,
       e.observed_at, e.recorded_at, h.archived_to
FROM controlplane.log_head h JOIN controlplane.events e ON e.log = h.log
WHERE h.log = %(log)s AND e.position > %(after)s AND e.position <= %(upto)s AND (
    split_part(e.stream, '/', 1) <> ALL(%(kinds)s) OR e.stream IN (SELECT unnest(%(streams)b::text[])))
ORDER BY e.position LIMIT %(limit)s"""
# Events of one page, and positions that it looks through at the most, so that it ends in time where few are left.
_NEEDED_AT_ONCE, _LOOKED_THROUGH = 5000, 200_000

_CHAIN = "SELECT last, hash, recorded_at FROM controlplane.batches WHERE batch = %s AND hash IS NOT NULL"


class Contents(msgspec.Struct, frozen=True):
    """What a snapshot says of itself: how many chunks each part has, when its last event was recorded, and what whoever
    wrote it says of the streams that are left (`controlplane.runtime.ended`), if it has a part of them."""

    parts: Mapping[str, int]
    recorded_at: datetime
    left: Mapping[str, Any] = {}


class FoundSnapshot(NamedTuple):
    """A snapshot that is of this log; whether it is whole shows when it is read."""

    place: LogPosition
    contents: Contents
    fold: str

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
        """Return the newest snapshot of a fold, "" for any, that is of this log; None if there is none. `upto`: what
        the log had after that position was lost; `besides`: the positions of those that were tried already.
        """

    def chunks(self, found: FoundSnapshot, parts: Collection[str] | None = None) -> AsyncIterator[tuple[str, bytes]]:
        """Yield its chunks, or those of some parts, each with its part, a part's in order. Raises `SnapshotError`."""

    async def needed(self, streams: NeededStreams, after: int) -> NeededPage:
        """Return the next events after a position of what is left of the log without the streams that are over."""

    async def keep(
        self, fold: str, place: LogPosition, contents: Contents, chunks: Sequence[tuple[str, bytes]]
    ) -> bool:
        """Keep a snapshot, whole or not at all; return whether it was: not if its place is not in the log any more, or
        a newer one is there."""

    async def close(self) -> None:
        """Let go of the database."""


class PostgresSnapshots:
    """The snapshots of a log in PostgreSQL, each chunk compressed, with its SHA-256."""

    def __init__(self, database: Database, log: PostgresLog) -> None:
        self._log, self._name, self._line = log, log.name, Line(database, "snapshots")
        self._archived_to: int | None = None

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
        for position, of, log_id, batch, data, checksum, same, reached, there, whole in await self._line.fetch(
            _NEWEST, {"log": self._name}
        ):
            if fold not in (of, ""):
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
            elif not whole:  # it ends within the batch with which the archives end, which is still there
                why = "events before it have left the log since"
            else:
                try:
                    contents = msgspec.msgpack.decode(_sound(data, checksum), type=Contents)
                    return FoundSnapshot(LogPosition(log_id, position, batch), contents, of)
                except (SnapshotError, msgspec.MsgspecError) as error:
                    why = str(error)
            _messages.warning("a snapshot is not used", log=self._name, position=position, why=why)
        if others:
            _messages.info("snapshots of other versions or settings are not used", log=self._name, count=others)
        return None

    async def chunks(
        self, found: FoundSnapshot, parts: Collection[str] | None = None
    ) -> AsyncIterator[tuple[str, bytes]]:
        """Yield the chunks of a snapshot; see `SnapshotStore`."""
        names = sorted(found.contents.parts if parts is None else parts)
        wanted = [(part, chunk) for part in names for chunk in range(found.contents.parts[part])]
        last, at = ("", 0), 0
        while at < len(wanted):
            where = {
                "log": self._name,
                "fold": found.fold,
                "position": found.position,
                "limit": _AT_ONCE,
                "parts": parts and names,
            }
            rows = await self._line.fetch(_CHUNKS, {**where, "part": last[0], "chunk": last[1]})
            if not rows:
                raise SnapshotError(f"part {wanted[at][0]} lacks chunk {wanted[at][1]}")
            for part, chunk, data, checksum in rows:
                last = (part, chunk)
                if at >= len(wanted) or wanted[at] != last:
                    raise SnapshotError(f"part {part} has a chunk {chunk} that does not belong there")
                at += 1
                yield part, _sound(data, checksum)

    async def needed(self, streams: NeededStreams, after: int) -> NeededPage:
        """Return some events without the streams that are over; see `SnapshotStore`. Raises `LogArchived`. That the log
        is still the one that they are of is found out by the first read after them."""
        upto = min(after + _LOOKED_THROUGH, streams.upto)
        asked = {"log": self._name, "after": after, "upto": upto, "limit": _NEEDED_AT_ONCE}
        given = {"kinds": list(streams.kinds), "streams": list(streams.streams)}
        rows = await self._line.fetch(_NEEDED, {**asked, **given})
        for archived_to in {row[-1] for row in rows}:
            if self._archived_to not in (None, archived_to):
                raise LogArchived(f"events of log {self._name} left it, or came back, while it was read up to {after}")
            self._archived_to = archived_to
        found = recorded(rows, self._log.codec)
        self._log.traces.read(found)
        return NeededPage(found, found[-1].position if len(found) == _NEEDED_AT_ONCE else upto)

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
