"""`controlplane db`: the schema of the database that holds the log."""

from __future__ import annotations

import click

from controlplane.cli.frame import CommandGroup
from controlplane.cli.options import Options, Whole
from controlplane.cli.output import dump, line


@click.group(cls=CommandGroup)
def db() -> None:
    """Bring the database's schema up to date, or check it."""


@db.command()
@click.pass_obj
def upgrade(options: Options) -> None:
    """Bring the schema up to date. May be repeated, and run by several at once."""
    url = options.database_url()
    from controlplane.log import retention, schema
    from controlplane.log.redaction import Redaction

    before, after = schema.upgrade(url)
    redacted = retention.redact(url, Redaction(options.settings().log.redact))
    if redacted and options.output == "table":
        line(f"Values were left out of {redacted} stored bodies.")
    if options.output != "table":
        dump(options.output, {"before": before, "after": after})
    elif before == after:
        line(f"The schema is up to date ({after}).")
    else:
        line(f"The schema was upgraded from {before or 'nothing'} to {after}.")


@db.command()
@click.pass_obj
def check(options: Options) -> None:
    """Say whether the schema is the one this version needs (exit code 4 if not)."""
    url = options.database_url()
    from controlplane.log import schema

    revision = schema.check(url)
    if options.output != "table":
        dump(options.output, {"revision": revision})
    else:
        line(f"The schema is up to date ({revision}).")


@db.command()
@click.option(
    "--shards",
    type=Whole(1, 1024),
    default=8,
    show_default=True,
    metavar="N",
    help="Into how many parts logs are sorted by their name, when they are first distributed.",
)
@click.pass_obj
def distribute(options: Options, shards: int) -> None:
    """Lay each log on one node of a Citus cluster; the database is the coordinator's. Repeat it after each upgrade."""
    url = options.database_url()
    from controlplane.log import citus, schema

    revision = schema.check(url)
    tables = citus.distribute(url, shards)
    if options.output != "table":
        dump(options.output, {"revision": revision, "distributed": tables})
    elif tables:
        line(f"{len(tables)} tables were distributed ({revision}).")
    else:
        line(f"The log is distributed ({revision}).")
