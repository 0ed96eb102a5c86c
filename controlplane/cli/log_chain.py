"""`controlplane log verify`, `checkpoint` and `seal`: whether the events of a log are those that were appended."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.history import log_option
from controlplane.cli.options import LARGEST, Options, Whole
from controlplane.cli.output import dump, line

if TYPE_CHECKING:
    import psycopg

    from controlplane.log.checkpoint import Checkpoint
    from controlplane.log.verify import Deviation, Verified

_FILE = click.Path(dir_okay=False, path_type=Path)
_WHAT_TO_DO = (
    "Compare with a checkpoint that is kept elsewhere, or with a backup, to see since when; stop the "
    "service before you restore."
)


@click.command(cls=Verb)
@click.option(
    "--since",
    type=Whole(0, LARGEST),
    default=0,
    metavar="POSITION",
    help="From the batch with this position on.",
)
@click.option(
    "--archive",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The archives in this folder, and whether the log goes on where they end.",
)
@click.option("--offline", is_flag=True, help="With --archive: without the database.")
@click.option("--checkpoint", "file", type=_FILE, metavar="FILE", help="Also compare with a checkpoint that was kept.")
@click.option("--key", type=_FILE, metavar="FILE", help="The key that the checkpoint was signed with.")
@log_option
@click.pass_obj
def verify(
    options: Options, since: int, directory: Path | None, offline: bool, file: Path | None, key: Path | None
) -> int:
    """Check that the events are those that were appended.

    Each batch has a hash over its events and the hash of the batch before.
    What was changed, removed, exchanged or put in is told with its batch, and
    the exit code is 1. Whoever owns the database can make all hashes anew: a
    checkpoint that is kept elsewhere shows that too. Bodies are checked
    against their names. Takes the rights of the service or of the owner. What
    is in archives alone is verified with --archive.

    \b
    With -o json or yaml, one object:
      log, first, last (positions), batches, events, chained_from, sealed,
      bodies, redacted (bodies that lost values, which cannot be checked),
      checkpoint (its position), deviations: first, last, what, epoch, at;
      archived_to, kept (events up to there that stayed). With --archive:
      log, first, last, events, batches, bodies, redacted, hash
    """
    from controlplane.log.verify import verify as verified

    said = _checkpoint(file, key)
    if directory is not None:
        from controlplane.cli.log_archive import verify_archives

        verify_archives(options, directory, said, offline=offline)
        return Exit.OK
    if offline:
        raise CommandFailure("--offline is for archives: name their folder with --archive", Exit.USAGE)
    with open_database(options) as (connection, log):
        found = verified(connection, log, since, said)
    if options.output != "table":
        dump(options.output, _plain(log, found, said))
    elif found.wrong or found.bad_bodies:
        told = [_deviation(one) for one in found.wrong]
        told += [f"the body {name} is not the one that has this hash: it was changed" for name in found.bad_bodies]
        more = (
            [f"and {found.deviations - len(found.wrong)} more batches"] if found.deviations > len(found.wrong) else []
        )
        raise CommandFailure("\n  ".join([f"the log {log} is not as it was appended:", *told, *more, _WHAT_TO_DO]))
    else:
        for text in _summary(log, found, said):
            line(text)
    return Exit.FAILED if found.wrong or found.bad_bodies else Exit.OK


@click.command(cls=Verb)
@click.option("--sign", type=_FILE, metavar="KEYFILE", help="Sign it with the key in this file (HMAC-SHA256).")
@log_option
@click.pass_obj
def checkpoint(options: Options, sign: Path | None) -> None:
    """Print where the chain of hashes stands.

    The output, one JSON object, is for `controlplane log verify --checkpoint`.
    Keep it where nobody can change it who can change the database.
    """
    import msgspec

    from controlplane.log.verify import checkpoint_of

    key = _key(sign) if sign else None
    with open_database(options) as (connection, log):
        made = checkpoint_of(connection, log)
    dump(
        "json" if options.output == "table" else options.output, msgspec.to_builtins(made.signed(key) if key else made)
    )


@click.command(cls=Verb)
@log_option
@click.pass_obj
def seal(options: Options) -> None:
    """Give hashes to what was appended before there were any, once.

    They say that nothing was changed since now, not that nothing was before.
    Needs the rights of the schema's owner.
    """
    from controlplane.log.sealing import CannotSeal
    from controlplane.log.sealing import seal as sealed

    with open_database(options) as (connection, log):
        try:
            count = sealed(connection, log)
        except CannotSeal as error:
            raise CommandFailure(str(error)) from None
    if options.output != "table":
        dump(options.output, {"log": log, "batches": count})
    else:
        line(
            f"{count} batches of the log {log} were sealed." if count else f"There is nothing to seal in the log {log}."
        )


@contextmanager
def open_database(options: Options, other: str | None = None) -> Iterator[tuple[psycopg.Connection[Any], str]]:
    """Connect to the log's database, or to the one of another URL, and yield the log's name too; what cannot be
    verified becomes exit code 5."""
    import psycopg

    from controlplane.log import schema
    from controlplane.log.verify import NoLog

    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    url, log = other or options.database_url(), options.settings().database.log
    schema.check(url)
    with psycopg.connect(schema.libpq_url(url), autocommit=True, client_encoding=schema.ENCODING) as connection:
        connection.execute(schema.SESSION)
        try:
            yield connection, log
        except NoLog as error:
            raise CommandFailure(str(error), Exit.NOT_FOUND) from None


def _checkpoint(file: Path | None, key: Path | None) -> Checkpoint | None:
    from controlplane.log.checkpoint import CheckpointError, read_checkpoint

    if file is None:
        if key is not None:
            raise CommandFailure("--key is for a checkpoint: name its file with --checkpoint", Exit.USAGE)
        return None
    try:
        found = read_checkpoint(file)
        if key is not None:
            found.check(_key(key))
    except CheckpointError as error:
        raise CommandFailure(str(error)) from None
    return found


def _key(file: Path) -> bytes:
    from controlplane.log.checkpoint import CheckpointError, read_key

    try:
        return read_key(file)
    except CheckpointError as error:
        raise CommandFailure(str(error), Exit.USAGE) from None


def _plain(log: str, found: Verified, said: Checkpoint | None) -> dict[str, Any]:
    bodies = [{"body": name, "what": "it is not the one that has this hash"} for name in found.bad_bodies]
    return {
        "log": log,
        "first": found.first,
        "last": found.last,
        "batches": found.batches,
        "events": found.events,
        "chained_from": found.chained_from,
        "sealed": found.sealed,
        "bodies": found.bodies,
        "redacted": found.redacted,
        "checkpoint": said.position if said else None,
        "archived_to": found.archived_to,
        "kept": found.kept,
        "deviations": [*(one._asdict() for one in found.wrong), *bodies],
    }


def _deviation(one: Deviation) -> str:
    where = f"position {one.first}" if one.first == one.last else f"positions {one.first} to {one.last}"
    which = f", epoch {one.epoch}" if one.epoch is not None else ""
    when = f", {one.at}" if one.at else ""
    return f"{where}{which}{when}: {one.what}"


def _summary(log: str, found: Verified, said: Checkpoint | None) -> Iterator[str]:
    if found.archived_to:
        where = f" in {', '.join(found.directories)}" if found.directories else ""
        yield (
            f"What is up to position {found.archived_to} is in archives{where}: `controlplane log verify --archive "
            f"DIR` verifies it. {found.kept} events of it stayed, and are as they were then."
        )
    if found.first is None:
        yield f"The log {log} has nothing with a hash yet: its chain begins at position {found.chained_from}."
        return
    compared = f", and as the checkpoint at {said.position} says" if said else ""
    signed = "" if said is None or said.signature is None else " (signed)"
    yield (
        f"The log {log} is as it was appended{compared}{signed}: positions {found.first} to {found.last}, "
        f"{found.events} events in {found.batches} batches."
    )
    yield from _before_the_chain(found, found.first)
    if found.bodies:
        redacted = f"; {found.redacted} lost values, and cannot be checked" if found.redacted else ""
        yield f"{found.bodies} bodies have the hashes that they are named by{redacted}."


def _before_the_chain(found: Verified, first: int) -> Iterator[str]:
    if found.sealed and first < found.chained_from:
        yield f"What is before position {found.chained_from} was sealed later: it is as it was then."
    elif found.chained_from > 1 and not found.sealed:
        yield (
            f"What is before position {found.chained_from} was appended by a version without hashes, and is not "
            "verified: `controlplane log seal` gives it hashes."
        )
