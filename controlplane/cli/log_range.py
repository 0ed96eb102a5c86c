"""The part of a log that a verb is asked about: `--from` and `--to`, each a time or a position; and how far it is read.

In: what was typed. Out: positions, exclusive below and inclusive above, with the times that were asked for, or a
`CommandFailure` with the sentence that says what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from controlplane.audit.shown import clock
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.history import first_event, is_empty
from controlplane.cli.times import EXPECTED, moment

if TYPE_CHECKING:
    from datetime import datetime

    from controlplane.audit.reads import LogReader
    from controlplane.log.event import Recorded


class LogRange(NamedTuple):
    """The events after position `begin` and up to position `end`. `since` and `until`: the times that were asked for,
    None where a position was, or nothing."""

    begin: int
    end: int
    since: datetime | None = None
    until: datetime | None = None


def range_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb `--from` and `--to`, which other verbs call `--since` and `--until`: both words are taken."""
    end = click.option(
        "--to", "--until", "end", metavar="TIME|POSITION", help="Where to end; the log's end otherwise."
    )  # fmt: skip
    begin = click.option(
        "--from", "--since", "begin", metavar="TIME|POSITION", help="Where to begin; the log's beginning otherwise."
    )
    return begin(end(verb))


def log_range(reader: LogReader, begin: str | None, end: str | None, *, quiet: bool = False) -> LogRange:
    """Return the part of a log from `--from` to `--to`, all of it by default; `CommandFailure` if nothing is in it, or
    the log does not begin with its first event, so that no state of it is known. `quiet`: a time within the log in
    which nothing was recorded is something."""
    from controlplane.audit.archived import archived_position, archived_to

    first, head = next(iter(first_event(reader)), None), reader.head()
    if first is None:
        raise CommandFailure(f"the log {reader.log} has no events: {is_empty(reader)}", Exit.NOT_FOUND)
    gone = archived_to(reader)
    if first.position != 1 and not gone:
        raise CommandFailure(
            f"the log {reader.log} begins with position {first.position}: what came before it was taken out of this "
            "database, and without that no state is known; read a database that has the whole log",
            Exit.NOT_FOUND,
        )
    before, since = (0, None) if begin is None else _position(reader, begin, "--from", head)
    last, until = (head, None) if end is None else _position(reader, end, "--to", head)
    found = LogRange(before, last, since, until)
    if found.begin < gone:
        said = archived_position(reader, found.begin + 1)
        raise CommandFailure(f"{said}; or ask with --from {gone + 1}" if gone < head else said, Exit.NOT_FOUND)
    if _is_nothing(found, head, quiet=quiet):
        raise CommandFailure(
            f"nothing is between --from {begin or 'the beginning'} and --to {end or 'now'} in the log {reader.log}, "
            f"which has the positions 1 to {head}",
            Exit.USAGE,
        )
    return found


def _is_nothing(part: LogRange, head: int, *, quiet: bool) -> bool:
    """Whether a part has no events, and is no time within the log either if that is enough (`quiet`)."""
    if part.begin < part.end:
        return False
    within = quiet and 0 < part.end == part.begin < head
    return not within or part.since is None or part.until is None or part.since >= part.until


def _position(reader: LogReader, text: str, option: str, head: int) -> tuple[int, datetime | None]:
    """Return the last position before what was typed as `--from`, or the last one of what was typed as `--to`; and the
    time, if one was typed."""
    if text.isascii() and text.isdecimal():
        position = int(text[:19])
        if not 1 <= position <= head or len(text) > 19:
            raise CommandFailure(
                f"{option}: there is no position {text} in the log {reader.log}, which has the positions 1 to {head}",
                Exit.NOT_FOUND,
            )
        return position - (option == "--from"), None
    now = reader.clock()
    try:
        at = moment(text, option, now)
    except CommandFailure:
        raise CommandFailure(
            f'{option}: "{text}" is neither a time nor a position: {EXPECTED}, or a position such as 202', Exit.USAGE
        ) from None
    if at > now:
        raise CommandFailure(
            f"{option}: {clock(at)} UTC is to come: it is {clock(now)} UTC by the database", Exit.USAGE
        )
    found = reader.read_at(at)
    reader.at = reader.until = None
    return found, at


def progressing(events: Iterator[Recorded], end: int, what: str) -> Iterator[Recorded]:
    """Yield the events; on a terminal with a bar on stderr that shows how far they are up to position `end`."""
    with sharing(what) as progress:
        for recorded in events:
            if recorded.position % 1000 == 0:
                progress(recorded.position / max(end, 1))
            yield recorded


@contextmanager
def sharing(what: str) -> Iterator[Callable[[float], None]]:
    """Show on a terminal, on stderr, which share of something is done: what is given is told from 0 to 1."""
    if not sys.stderr.isatty():
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=1.0)
        yield lambda share: progress.update(task, completed=share)
