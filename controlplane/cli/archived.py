"""Refuses what is in an archive alone, with the sentences of `controlplane.audit.archived`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.output import aside

if TYPE_CHECKING:
    from controlplane.audit.reads import LogReader


def refuse_archived_time(reader: LogReader, at: datetime) -> None:
    """Raise `CommandFailure` if what a log had at a time is in archives alone."""
    from controlplane.audit.archived import archived_time

    if archived := archived_time(reader, at):
        raise CommandFailure(archived, Exit.NOT_FOUND)


def refuse_archived_stream(reader: LogReader, what: str, streams: Sequence[str]) -> None:
    """Raise `CommandFailure` if all events of the first of some streams are in archives alone; say so on stderr if some
    are."""
    from controlplane.audit.archived import archived_stream, described, left, place_of

    gone = left(reader, streams)
    there = reader.first_seen(list(gone))
    for stream, position in gone.items():
        place = place_of(reader, position)
        if place is None:
            continue
        if stream in there:
            aside(f"What {stream} had up to position {position} is archived in {described(place)}.")
        elif stream == streams[0]:
            raise CommandFailure(archived_stream(what, place), Exit.NOT_FOUND)
