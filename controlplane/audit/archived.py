"""What of a log is in archives alone: up to where, which archive has a position, and which streams.

In: a reader of the log. Out: places of archives, to be told to who asks for what left the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString, NamedTuple

from controlplane.audit.reads import LogReader

_PLACES: LiteralString = """
SELECT a.first, a.last, a.since, a.until, a.directory FROM audit.archives a
WHERE a.log = %(log)s AND a.dropped_at IS NOT NULL ORDER BY a.first"""
_STREAMS: LiteralString = """
SELECT s.stream, s.archived_to FROM audit.streams s
WHERE s.log = %(log)s AND s.stream = ANY(%(streams)s) AND s.archived_to IS NOT NULL"""


class ArchivePlace(NamedTuple):
    """An archive of which events have left the database: its positions, when they were recorded, and where it was
    written."""

    first: int
    last: int
    since: datetime
    until: datetime
    directory: str


def places(reader: LogReader) -> list[ArchivePlace]:
    """Return the archives of a log of which events have left the database, in order."""
    return [ArchivePlace(**row) for row in reader.rows(_PLACES)]


def archived_to(reader: LogReader) -> int:
    """Return the position up to which events have left the database, 0 if none have."""
    return max((one.last for one in places(reader)), default=0)


def place_of(reader: LogReader, position: int) -> ArchivePlace | None:
    """Return the archive that has a position, None if that has not left the database."""
    return next((one for one in places(reader) if one.first <= position <= one.last), None)


def left(reader: LogReader, streams: Sequence[str]) -> dict[str, int]:
    """Return of some streams those of which events have left the database, with the position of the last of these."""
    return {row["stream"]: row["archived_to"] for row in reader.rows(_STREAMS, streams=list(streams))}
