"""What of a log is in archives alone: up to where, which archive has a position, and which streams.

In: a reader of the log. Out: places of archives, and the sentences that tell them to who asks for what left the
database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString, NamedTuple

from controlplane.audit.reads import LogReader

_PLACES: LiteralString = """
SELECT a.first, a.last, a.since, a.until, a.directory, a.dropped_at FROM audit.archives a
WHERE a.log = %(log)s AND a.dropped_at IS NOT NULL
  AND EXISTS (SELECT FROM audit.streams s WHERE s.log = a.log AND s.archived_to >= a.first)
ORDER BY a.first"""
_ONE_LEFT: LiteralString = """
SELECT FROM audit.streams s WHERE s.log = %(log)s AND s.archived_to BETWEEN %(first)s AND %(last)s LIMIT 1"""
# Positions have no holes but those that were dropped.
_THERE: LiteralString = (
    "SELECT count(*) AS events FROM audit.events WHERE log = %(log)s AND position BETWEEN %(first)s AND %(last)s"
)
_STREAMS: LiteralString = """
SELECT s.stream, s.archived_to FROM audit.streams s
WHERE s.log = %(log)s AND s.stream = ANY(%(streams)s) AND s.archived_to IS NOT NULL"""


class ArchivePlace(NamedTuple):
    """An archive of which events have left the database: its positions, when they were recorded, where it was written,
    and when they left."""

    first: int
    last: int
    since: datetime
    until: datetime
    directory: str
    dropped_at: datetime


def places(reader: LogReader) -> list[ArchivePlace]:
    """Return the archives of a log of which events may have left the database, in order: those that were dropped,
    without the ones after which nothing was over."""
    return [ArchivePlace(**row) for row in reader.rows(_PLACES)]


def archived_to(reader: LogReader) -> int:
    """Return the position up to which events have left the database, 0 if none have."""
    return next((one.last for one in reversed(places(reader)) if _lacks(reader, one, one.last)), 0)


def _lacks(reader: LogReader, place: ArchivePlace, upto: int) -> bool:
    """Whether an event of an archive, up to a position, is not in the database. Where no stream ends there that left,
    the events are counted: a second for ten millions."""
    asked = {"first": place.first, "last": min(place.last, upto)}
    if reader.rows(_ONE_LEFT, **asked):
        return True
    (row,) = reader.rows(_THERE, **asked)
    return bool(row["events"] < asked["last"] - asked["first"] + 1)


def place_of(reader: LogReader, position: int) -> ArchivePlace | None:
    """Return the archive that has a position, None if that has not left the database."""
    return next((one for one in places(reader) if one.first <= position <= one.last), None)


def left(reader: LogReader, streams: Sequence[str]) -> dict[str, int]:
    """Return of some streams those of which events have left the database, with the position of the last of these."""
    return {row["stream"]: row["archived_to"] for row in reader.rows(_STREAMS, streams=list(streams))}


def archived_time(reader: LogReader, at: datetime) -> str:
    """Return that what a log had at a time is in an archive alone, "" if it is not."""
    found = places(reader)
    if not found or at >= found[-1].until:
        return ""
    upto = reader.position_at(at)
    place = next((one for one in reversed(found) if one.since <= at and _lacks(reader, one, upto)), None)
    if place is None:
        return ""
    return (
        f"what the log {reader.log} had at {at:%Y-%m-%d %H:%M:%S} UTC is archived in {described(place)}, and the "
        f"database has only a part of it: {_back(place)}"
    )


def archived_position(reader: LogReader, position: int) -> str:
    """Return that a position is in an archive alone, "" if it is not."""
    place = place_of(reader, position)
    return (
        f"position {position} of the log {reader.log} is archived in {described(place)}: {_back(place)}"
        if place
        else ""
    )


def gone_stream(reader: LogReader, stream: str) -> ArchivePlace | None:
    """Return the archive that has the last of a stream whose events are in archives alone, None for another stream."""
    position = left(reader, [stream]).get(stream)
    if position is None or reader.first_seen([stream]):
        return None
    return place_of(reader, position)


def archived_stream(what: str, place: ArchivePlace) -> str:
    """Return that something is in an archive alone."""
    return (
        f"{what} is over and archived in {described(place)}: {_back(place)}; the views of the schema audit still "
        "tell of it"
    )


def described(place: ArchivePlace) -> str:
    """Return where an archive is, and what it has."""
    return f"{place.directory} (positions {place.first} to {place.last})"


def _back(place: ArchivePlace) -> str:
    return f"`controlplane log restore --from {place.directory}` brings it back"
