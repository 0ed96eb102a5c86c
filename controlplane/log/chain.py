"""The hashes that chain the batches of a log, as the database makes them (`controlplane.event_hash`, `batch_hash`):
whoever has the rows, from a file or from the database, makes them without it.

In: the columns of an event, or what a batch is and the hashes of its rows. Out: SHA-256, 32 bytes. What is hashed is a
row in PostgreSQL's binary form (record_send in postgres src/backend/utils/adt/rowtypes.c, 15): the number of columns,
and of each its type, its length, -1 for null, and its bytes. Pure."""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_head = struct.Struct("!Ii").pack
_count = struct.Struct("!i").pack
_bigint = struct.Struct("!q").pack
_smallint = struct.Struct("!h").pack
_BYTEA, _INT8, _INT2, _TEXT, _JSON, _TIMESTAMPTZ, _UUID = 17, 20, 21, 25, 114, 1184, 2950

Column = tuple[int, bytes | None]


class EventRow(NamedTuple):
    """The columns of an event, in the order in which they are hashed; `data` is the text of the JSON as it is
    stored."""

    position: int
    stream: str
    version: int
    type: str
    schema: int
    data: str
    reason: str
    cluster: str
    caused_by: int | None
    trace: str
    observed_at: datetime | None
    recorded_at: datetime


class BatchRow(NamedTuple):
    """What a batch is: of which log, by its name and its identity, which positions, by whom and when."""

    log: str
    log_id: uuid.UUID
    batch: uuid.UUID
    first: int
    last: int
    epoch: int
    recorded_at: datetime


def event_hash(row: EventRow) -> bytes:
    """Return the hash of an event's row."""
    return _hashed(
        (
            (_INT8, _bigint(row.position)),
            (_TEXT, row.stream.encode()),
            (_INT8, _bigint(row.version)),
            (_TEXT, row.type.encode()),
            (_INT2, _smallint(row.schema)),
            (_JSON, row.data.encode()),
            (_TEXT, row.reason.encode()),
            (_TEXT, row.cluster.encode()),
            (_INT8, None if row.caused_by is None else _bigint(row.caused_by)),
            (_TEXT, row.trace.encode()),
            (_TIMESTAMPTZ, None if row.observed_at is None else _time(row.observed_at)),
            (_TIMESTAMPTZ, _time(row.recorded_at)),
        )
    )


def batch_hash(before: bytes | None, row: BatchRow, rows: Iterable[bytes]) -> bytes:
    """Return the hash of a batch: `before` is that of the batch before it, None for the first of a chain; `rows` are
    the hashes of its events, in order."""
    return _hashed(
        (
            (_BYTEA, before),
            (_TEXT, row.log.encode()),
            (_UUID, row.log_id.bytes),
            (_UUID, row.batch.bytes),
            (_INT8, _bigint(row.first)),
            (_INT8, _bigint(row.last)),
            (_INT8, _bigint(row.epoch)),
            (_TIMESTAMPTZ, _time(row.recorded_at)),
            (_BYTEA, hashlib.sha256(b"".join(rows)).digest()),
        )
    )


def _hashed(columns: tuple[Column, ...]) -> bytes:
    parts = [_count(len(columns))]
    for kind, value in columns:
        parts.append(_head(kind, -1 if value is None else len(value)))
        if value is not None:
            parts.append(value)
    return hashlib.sha256(b"".join(parts)).digest()


def _time(at: datetime) -> bytes:
    return _bigint((at - _EPOCH) // _MICROSECOND)
