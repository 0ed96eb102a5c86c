"""`controlplane log retention`: removes, archives and drops what the settings say is kept no longer."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.audit.shown import clock
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.history import log_option
from controlplane.cli.log_archive import dropped_line, dropping, opened
from controlplane.cli.options import Options
from controlplane.cli.output import dump, line

if TYPE_CHECKING:
    from controlplane.settings.retention import Retention


@click.command(cls=Verb)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@log_option
@click.pass_obj
def retention(options: Options, dry_run: bool) -> None:
    """Remove what is kept no longer, as the settings log.retention say.

    Bodies (the specs and statuses of jobs and pods) go by their age, of some
    namespaces by another one. Events that are old are archived, and those of
    Workloads that are over leave the database, as with `controlplane log
    archive --drop`. Run it by a timer. Needs the rights of the schema's owner.

    \b
    With -o json or yaml, one object:
      log, dry_run, bodies: namespace (null: all others), older_than, bodies,
      bytes; events: before, archived (first, last of each), dropped: as in
      `controlplane log archive` (null with --dry-run)
    """
    from controlplane.log import schema

    settings, url = options.settings(), options.database_url()
    wanted = settings.log.retention
    if not (wanted.bodies or wanted.namespaces or wanted.events):
        raise CommandFailure(
            "nothing is set under log.retention: everything is kept for ever; set bodies, namespaces or events",
            Exit.USAGE,
        )
    if wanted.events and not wanted.archive:
        raise CommandFailure(
            "log.retention.events is set, and log.retention.archive is not: name the folder that events are archived to",
            Exit.USAGE,
        )
    schema.check(url)
    bodies = _bodies(url, wanted, dry_run=dry_run)
    events = _events(options, wanted, dry_run=dry_run) if wanted.events else None
    if options.output != "table":
        dump(options.output, {"log": settings.database.log, "dry_run": dry_run, "bodies": bodies, "events": events})
        return
    for one in bodies:
        whose = f"of the namespace {one['namespace']}" if one["namespace"] else "of other namespaces"
        line(
            f"{one['bodies']} bodies {whose} {'would be' if dry_run else 'were'} removed, with {one['bytes']} bytes of "
            f"JSON: they are older than {one['older_than']}."
        )
    if events is not None:
        _tell(settings.database.log, events, wanted, dry_run=dry_run)


def _bodies(url: str, wanted: Retention, *, dry_run: bool) -> list[dict[str, Any]]:
    from controlplane.kube import durations
    from controlplane.log.retention import purge

    ages: list[tuple[str | None, timedelta]] = list(wanted.by_namespace.items())
    if wanted.bodies:
        ages.append((None, wanted.bodies))
    found = []
    for namespace, age in ages:
        # What an event of another namespace names too goes when the last of them lets it.
        others = [name for name, other in wanted.by_namespace.items() if name != namespace and other > age]
        but = others if namespace is not None else list(wanted.by_namespace)
        purged = purge(url, age, namespace, but=but, dry_run=dry_run)
        told = {"namespace": namespace, "older_than": durations.show(age)}
        found.append({**told, "bodies": purged.bodies, "bytes": purged.size})
    return found


def _events(options: Options, wanted: Retention, *, dry_run: bool) -> dict[str, Any]:
    from controlplane.log.archive import exchange, writing

    directory = Path(wanted.archive)
    with opened(options) as (connection, log):
        row = connection.execute("SELECT clock_timestamp() - %s::interval", (wanted.events,)).fetchone()
        assert row is not None
        before = row[0]
        if dry_run:
            ranges = writing.planned(connection, log, directory, before)
            archived = [{"first": first, "last": last} for first, last in ranges]
            return {"before": before, "archived": archived, "dropped": None}
        with exchange.alone(connection):
            written = [one.manifest for one in writing.write_archives(connection, log, directory, before)]
            dropped = dropping(options, connection, log, directory)
    return {
        "before": before,
        "archived": [{"first": one.first, "last": one.last} for one in written],
        "dropped": dropped._asdict(),
    }


def _tell(log: str, events: dict[str, Any], wanted: Retention, *, dry_run: bool) -> None:
    from controlplane.log.archive.dropping import DropResult

    would = "would be" if dry_run else "were"
    for one in events["archived"]:
        line(f"The positions {one['first']} to {one['last']} {would} archived to {wanted.archive}.")
    if not events["archived"]:
        line(
            f"No event {'would be' if dry_run else 'was'} archived: no whole partition is older than "
            f"{clock(events['before'])} UTC."
        )
    if events["dropped"] is not None:
        line(dropped_line(log, DropResult(**events["dropped"])))
