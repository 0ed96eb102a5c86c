"""The sentences that say that what was asked for is in an archive, and how to get it back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from controlplane.cli.errors import CommandFailure, Exit

if TYPE_CHECKING:
    from controlplane.audit.archived import ArchivePlace
    from controlplane.audit.reads import LogReader


def refuse_archived_time(reader: LogReader, at: datetime) -> None:
    """Raise `CommandFailure` if what a log had at a time is in archives alone."""
    from controlplane.audit.archived import places

    found = places(reader)
    if not found or at >= found[-1].until:
        return
    place = next((one for one in found if at <= one.until), found[0])
    raise CommandFailure(
        f"what the log {reader.log} had at {at:%Y-%m-%d %H:%M:%S} UTC is archived in {_place(place)}, and the database has only a part of"
        f" it: {_back(place)}",
        Exit.NOT_FOUND,
    )


def archived_position(reader: LogReader, position: int) -> str:
    """Return that a position is in an archive alone, "" if it is not."""
    from controlplane.audit.archived import place_of

    place = place_of(reader, position)
    return (
        f"position {position} of the log {reader.log} is archived in {_place(place)}: {_back(place)}" if place else ""
    )


def refuse_archived_stream(reader: LogReader, what: str, streams: Sequence[str]) -> None:
    """Raise `CommandFailure` if all events of the first of some streams are in archives alone; say so on stderr if some
    are."""
    from controlplane.audit.archived import left, place_of

    gone = left(reader, streams)
    there = reader.first_seen(list(gone))
    for stream, position in gone.items():
        place = place_of(reader, position)
        if place is None:
            continue
        if stream in there:
            click.echo(f"What {stream} had up to position {position} is archived in {_place(place)}.", err=True)
        elif stream == streams[0]:
            raise CommandFailure(
                f"{what} is over and archived in {_place(place)}: {_back(place)}; the views of the schema audit still tell of it",
                Exit.NOT_FOUND,
            )


def _place(place: ArchivePlace) -> str:
    return f"{place.directory} (positions {place.first} to {place.last})"


def _back(place: ArchivePlace) -> str:
    return f"`controlplane log restore --from {place.directory}` brings it back"
