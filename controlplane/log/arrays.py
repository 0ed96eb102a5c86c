"""PostgreSQL's binary form of arrays, made in one pass over a column: psycopg's own dumper asks each value what it is,
and costs more than everything else that an append does in this process.

In: the values of a column, all of one type. Out: bytes that psycopg sends as they are
(https://www.postgresql.org/docs/15/arrays.html; array_recv in postgres src/backend/utils/adt/arrayfuncs.c, 15)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_length = struct.Struct("!i").pack
_head = struct.Struct("!iiiii").pack
_empty = struct.Struct("!iii").pack
_NULL = _length(-1)
_SHORT = 4096
_lengths = [_length(size) for size in range(_SHORT)]
_FREQUENT = 4096
_time = struct.Struct("!iq").pack


class Array(bytes):
    """An array in its binary form; `OID` is that of the array's type, `OF` of its elements'."""

    OID = 0
    OF = 0


class TextArray(Array):
    """A `text[]`."""

    OID, OF = 1009, 25


class IntArray(Array):
    """An `int[]`."""

    OID, OF = 1007, 23


class BigintArray(Array):
    """A `bigint[]`."""

    OID, OF = 1016, 20


class TimestampArray(Array):
    """A `timestamptz[]`."""

    OID, OF = 1185, 1184


class ByteaArray(Array):
    """A `bytea[]`."""

    OID, OF = 1001, 17


class _Elements(dict[str, bytes]):
    """Strings as elements of an array: their length and their UTF-8. So many are kept."""

    def __missing__(self, text: str) -> bytes:
        data = text.encode()
        if len(self) >= _FREQUENT:
            self.clear()
        found = self[text] = _length(len(data)) + data
        return found


_frequent = _Elements()


def texts(values: Sequence[str]) -> TextArray:
    """Return strings as `text[]`; UnicodeEncodeError for one that has no UTF-8."""
    return encoded_texts(list(map(str.encode, values)))


def few_texts(values: Sequence[str]) -> TextArray:
    """Return strings as `text[]`, of which the same come again and again; see `texts`."""
    return TextArray(_head_of(TextArray, values) + b"".join(map(_frequent.__getitem__, values)))


def encoded_texts(values: Sequence[bytes]) -> TextArray:
    """Return strings in UTF-8 as `text[]`."""
    return TextArray(_head_of(TextArray, values) + _sized(values))


def ints(values: Sequence[int]) -> IntArray:
    """Return numbers as `int[]`; ValueError for one that does not fit."""
    return IntArray(_head_of(IntArray, values) + _numbers("i", 4, values))


def bigints(values: Sequence[int]) -> BigintArray:
    """Return numbers as `bigint[]`; ValueError for one that does not fit."""
    return BigintArray(_head_of(BigintArray, values) + _numbers("q", 8, values))


def timestamps(values: Sequence[datetime | None]) -> TimestampArray:
    """Return times, each with its zone, as `timestamptz[]`; TypeError for one without."""
    parts = [_NULL if value is None else _time(8, (value - _EPOCH) // _MICROSECOND) for value in values]
    return TimestampArray(_head_of(TimestampArray, values, null=None in values) + b"".join(parts))


def blobs(values: Sequence[bytes]) -> ByteaArray:
    """Return bytes as `bytea[]`."""
    return ByteaArray(_head_of(ByteaArray, values) + _sized(values))


def register(adapters: AdaptersMap) -> None:
    """Let psycopg send arrays of this module."""
    for kind in (TextArray, IntArray, BigintArray, TimestampArray, ByteaArray):
        adapters.register_dumper(kind, type(f"{kind.__name__}Dumper", (_Dumper,), {"oid": kind.OID}))


class _Dumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: bytes) -> bytes:
        """Return the array as it is."""
        return obj


def _head_of(kind: type[Array], values: Sequence[object], *, null: bool = False) -> bytes:
    return _head(1, null, kind.OF, len(values), 1) if values else _empty(0, 0, kind.OF)


def _sized(values: Sequence[bytes]) -> bytes:
    parts = [b""] * (2 * len(values))
    sizes = list(map(len, values))
    short = max(sizes, default=0) < _SHORT
    parts[::2], parts[1::2] = map(_lengths.__getitem__ if short else _length, sizes), values
    return b"".join(parts)


def _numbers(letter: str, size: int, values: Sequence[int]) -> bytes:
    parts = [size] * (2 * len(values))
    parts[1::2] = values
    try:
        return struct.pack("!" + f"i{letter}" * len(values), *parts)
    except struct.error as error:
        raise ValueError(f"a number does not fit into {size} bytes: {error}") from None
