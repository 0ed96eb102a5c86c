"""`controlplane log stats`: how much a log holds, and what of it takes the room."""

from __future__ import annotations

from datetime import datetime

import click

from controlplane.audit.shown import clock
from controlplane.cli.frame import Verb
from controlplane.cli.history import log_option
from controlplane.cli.log_chain import open_database
from controlplane.cli.options import Options
from controlplane.cli.output import dump, line, table


@click.command(cls=Verb)
@log_option
@click.pass_obj
def stats(options: Options) -> None:
    """Show how much the log holds: events and bytes by type, tables, partitions.

    It reads all events once. Sizes of tables and partitions are those on disk,
    with indexes, of all logs of the database. Takes the rights of the service
    or of the owner.

    \b
    With -o json or yaml, one object:
      log, events, first, last (positions), oldest, newest, streams, batches,
      types: type, events, bytes (of JSON), newest
      tables: table, bytes
      partitions: partition, first, last (positions), bytes
    """
    from controlplane.log.stats import stats as counted

    with open_database(options) as (connection, log):
        found = counted(connection, log)
    if options.output != "table":
        dump(
            options.output,
            {
                "log": log,
                "events": found.events,
                **found.log._asdict(),
                "types": [one._asdict() for one in found.types],
                "tables": [one._asdict() for one in found.tables],
                "partitions": [one._asdict() for one in found.partitions],
            },
        )
        return
    if found.log.first is None:
        line(f"The log {log} has no event.")
    else:
        line(
            f"The log {log} has {found.events} events, positions {found.log.first} to {found.log.last}, in "
            f"{found.log.batches} batches and {found.log.streams} streams, from {_at(found.log.oldest)} to "
            f"{_at(found.log.newest)} UTC."
        )
    for columns, rows in (
        (("type", "events", "bytes", "newest (UTC)"), [(*one[:3], _at(one.newest)) for one in found.types]),
        (("table", "bytes"), found.tables),
        (("partition", "first", "last", "bytes"), found.partitions),
    ):
        click.echo()
        table(columns, rows)


def _at(at: datetime | None) -> str:
    return "" if at is None else clock(at)
