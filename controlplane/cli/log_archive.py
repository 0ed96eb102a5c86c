"""`controlplane log archive` and `restore`: old events go into Parquet files, leave the database, and come back."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.audit.shown import clock
from controlplane.cli.clusters import tell
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.history import log_option
from controlplane.cli.log_chain import open_database
from controlplane.cli.options import Options
from controlplane.cli.output import dump, line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import psycopg

    from controlplane.log.archive.dropping import DropResult
    from controlplane.log.archive.manifest import Archive
    from controlplane.log.checkpoint import Checkpoint

FOLDER = click.Path(file_okay=False, path_type=Path)
_RANGE = re.compile(r"([0-9]{1,18})\.\.([0-9]{1,18})")


@click.command(cls=Verb)
@click.option("--to", "directory", type=FOLDER, required=True, metavar="DIR", help="The folder of the archives.")
@click.option("--before", metavar="WHEN", help="Only what was recorded before a time, or is before a position.")
@click.option("--without-bodies", is_flag=True, help="Leave out the bodies that the events name.")
@click.option("--drop", is_flag=True, help="Then drop what is archived and not needed any more from the database.")
@log_option
@click.pass_obj
def archive(options: Options, directory: Path, before: str | None, without_bodies: bool, drop: bool) -> None:
    """Write old events to Parquet files, with their hashes.

    Whole partitions of the log are archived that nobody writes to any more, each
    in a folder of its own, DIR/LOG/FIRST-LAST. What is there already is not
    written again, so a run that was ended goes on.

    With --drop, the archives are read again and compared with the log's hashes;
    then the events of Workloads that are over leave the database. The others
    stay. Nothing leaves that a process would need which starts now, and nothing
    that the read models have not looked at. Needs the rights of the schema's
    owner, and with --drop the version and the settings of the service.

    \b
    With -o json or yaml, one object:
      log, archives: folder, first, last, events, bytes; with --drop
      dropped: upto, events, streams, kept, why (why no more was dropped)
    """
    settings = options.settings()
    with opened(options) as (connection, log):
        from controlplane.log.archive import exchange, writing

        limit = _limit(connection, before)
        with exchange.alone(connection):
            written = [
                _told(options, one)
                for one in writing.write_archives(connection, log, directory, limit, bodies=not without_bodies)
            ]
            dropped = dropping(options, connection, log, directory) if drop else None
    if options.output != "table":
        said = {"dropped": dropped._asdict()} if dropped is not None else {}
        dump(options.output, {"log": settings.database.log, "archives": written, **said})
        return
    if not written:
        line(
            f"There is nothing new to archive of the log {log}: whole partitions are, once the log has gone past their "
            "end."
        )
    if dropped is not None:
        line(dropped_line(log, dropped))


@click.command(cls=Verb)
@click.option("--from", "directory", type=FOLDER, required=True, metavar="DIR", help="The folder of the archives.")
@click.option(
    "--positions", metavar="A..B", help="Only from the archive with position A on; B is where the log goes on."
)
@click.option(
    "--with-bodies", is_flag=True, help="Bring back the bodies too, those that were removed on purpose as well."
)
@click.option("--into", metavar="URL", help="A database without this log, such as an auditor's; its schema is there.")
@log_option
@click.pass_obj
def restore(options: Options, directory: Path, positions: str | None, with_bodies: bool, into: str | None) -> None:
    """Bring archived events back into the database.

    The archives are read and compared with the log's hashes first; a damaged
    file, another log's and a gap are refused, and nothing is changed. What is
    there already stays as it is. Needs the rights of the schema's owner.

    \b
    With -o json or yaml, one object:
      log, first, last (null if nothing had left), events, bodies, made
      (whether the database had nothing of the log, which ends at last now)
    """
    with opened(options, into) as (connection, log):
        from controlplane.log.archive import exchange, restoring

        if (
            into is not None
            and connection.execute(
                "SELECT FROM controlplane.log_head WHERE log = %s AND archived_to = 0", (log,)
            ).fetchone()
        ):
            raise CommandFailure(f"that database has a log {log} already: restore into one that has none", Exit.USAGE)
        with exchange.alone(connection):
            found = restoring.restore(connection, log, directory, _positions(positions), bodies=with_bodies)
    if options.output != "table":
        dump(options.output, {"log": log, **found._asdict()})
    elif found.first is None:
        line(f"Nothing has left the log {log}: all of it is in the database.")
    else:
        line(f"The log {log} has all events from position {found.first} on again: {found.events} came back.")
        if found.made:
            line(
                f"The database had nothing of it: the log ends at position {found.last}, where the archives end, and "
                "what was appended after it is not there."
            )
    if options.output == "table" and with_bodies:
        line(f"{found.bodies} bodies came back.")


def verify_archives(options: Options, directory: Path, said: Checkpoint | None, *, offline: bool) -> None:
    """Verify the archives in a directory; with the database, also that its log goes on where they end."""
    from controlplane.log.archive.checking import check_archives, check_checkpoint, check_seam
    from controlplane.log.archive.manifest import ArchiveError, some_archives

    log = options.settings().database.log
    try:
        archives = some_archives(directory, log)
        if said is not None:
            check_checkpoint(archives, said)
        found = check_archives(archives)
        if not offline:
            with opened(options) as (connection, _):
                check_seam(connection, archives[-1])
    except ArchiveError as error:
        raise CommandFailure(str(error)) from None
    if options.output != "table":
        dump(options.output, {"log": log, **found._asdict()})
        return
    compared = f", and as the checkpoint at {said.position} says" if said is not None else ""
    line(
        f"The archives of the log {log} are as they were written{compared}: positions {found.first} to {found.last}, "
        f"{found.events} events in {found.batches} batches, {found.bodies} bodies."
    )
    if not offline:
        line(f"The log in the database goes on where they end, with the hash {found.hash}.")


@contextmanager
def opened(options: Options, url: str | None = None) -> Iterator[tuple[psycopg.Connection[Any], str]]:
    """Connect to the log's database, or to another one; what is wrong with an archive becomes a sentence."""
    from controlplane.log.archive.manifest import ArchiveError

    try:
        with open_database(options, url) as found:
            yield found
    except ArchiveError as error:
        raise CommandFailure(str(error)) from None


def dropping(options: Options, connection: psycopg.Connection[Any], log: str, directory: Path) -> DropResult:
    """Drop what is archived in a directory, as far as no process needs it."""
    from controlplane.app.ended_streams import NoSnapshot, ended_streams
    from controlplane.log.archive import dropping as of_log
    from controlplane.log.connect import Database

    settings = options.settings()
    try:
        ended = tell(ended_streams(Database(options.database_url(), settings.database.role), log, settings))
    except NoSnapshot as error:
        raise CommandFailure(str(error)) from None
    return of_log.drop(connection, log, directory, ended, read_models=bool(settings.log.read_models_after))


def _limit(connection: psycopg.Connection[Any], before: str | None) -> int | datetime | None:
    from controlplane.cli.times import EXPECTED, moment

    if before is None:
        return None
    if before.isascii() and before.isdecimal():
        return int(before[:18])
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    try:
        return moment(before, "--before", row[0])
    except CommandFailure:
        raise CommandFailure(
            f'--before: "{before}" is neither a time nor a position: {EXPECTED}, or a position such as 10000001',
            Exit.USAGE,
        ) from None


def _positions(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = _RANGE.fullmatch(text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise CommandFailure(f'--positions: "{text}" is no range of positions, such as 1..10000000', Exit.USAGE)
    return int(found[1]), int(found[2])


def _told(options: Options, one: Archive) -> dict[str, Any]:
    """Say that an archive was written."""
    manifest = one.manifest
    size = sum(entry.bytes for entry in manifest.files.values())
    if options.output == "table":
        line(
            f"{one.folder}: positions {manifest.first} to {manifest.last}, recorded from {clock(manifest.since)} to"
            f" {clock(manifest.until)} UTC, {size} bytes."
        )
    return {
        "folder": str(one.folder),
        "first": manifest.first,
        "last": manifest.last,
        "events": manifest.events,
        "bytes": size,
    }


def dropped_line(log: str, found: DropResult) -> str:
    """Say what left a log, and why no more did."""
    why = f" No more was: {found.why}." if found.why else ""
    if not found.upto:
        return f"Nothing was dropped from the log {log}: {found.why}."
    if not found.streams:
        behind = f" Behind it nothing may leave yet: {found.why}." if found.why else ""
        kept = (
            "Workloads that are there stay, and those that have been gone for less than an hour (the setting "
            "scoring.window)"
        )
        return (
            f"Nothing that the log {log} had up to position {found.upto} is over, so all of it stayed: {kept}.{behind}"
        )
    return (
        f"{found.events} events of {found.streams} streams that are over left the log {log}; of what it had up to "
        f"position {found.upto}, {found.kept} events stayed.{why}"
    )
