"""`controlplane log`: whether the log is as it was written, to which management cluster it belongs, and what it keeps
of jobs and pods, for how long."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import click

from controlplane.cli.clusters import tell, whoami
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import CommandEntry, CommandGroup
from controlplane.cli.history import log_option, open_reader
from controlplane.cli.options import Options
from controlplane.cli.output import dump, line

_DAYS = re.compile(r"([0-9]{1,6})d")


class Age(click.ParamType[timedelta]):
    """A duration, or days: `30d`."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the duration."""
        from controlplane.kube import durations

        if isinstance(value, timedelta):
            return value
        if days := _DAYS.fullmatch(value):
            return timedelta(days=int(days[1]))
        try:
            found = durations.parse(value)
        except ValueError as error:
            self.fail(f"{value}: it {error}; or write days, such as 30d", param, ctx)
        if found < timedelta(0):
            self.fail(f"{value}: an age is not negative", param, ctx)
        return found


VERBS = {
    "verify": CommandEntry("controlplane.cli.log_chain:verify", "Check that the events are those that were appended."),
    "checkpoint": CommandEntry("controlplane.cli.log_chain:checkpoint", "Print where the chain of hashes stands."),
    "stats": CommandEntry(
        "controlplane.cli.log_stats:stats", "Show how much the log holds, by type, table and partition."
    ),
    "archive": CommandEntry(
        "controlplane.cli.log_archive:archive", "Write old events to Parquet files, and drop them from the database."
    ),
    "retention": CommandEntry(
        "controlplane.cli.log_retention:retention", "Remove, archive and drop what is kept no longer by the settings."
    ),
    "restore": CommandEntry("controlplane.cli.log_archive:restore", "Bring archived events back into the database."),
    "seal": CommandEntry(
        "controlplane.cli.log_chain:seal", "Give hashes to what was appended before there were any, once."
    ),
}


@click.group(cls=CommandGroup, verbs=VERBS)
def log() -> None:
    """Verify the log; move it to another management cluster; remove what it keeps of jobs."""


@log.command()
@click.option("--i-know", is_flag=True, help="Do it: what the new cluster does not have is gone.")
@click.option("--by", metavar="WHO", help="Who says so; your login name by default.")
@log_option
@click.pass_obj
def rebind(options: Options, i_know: bool, by: str | None) -> None:
    """Let the log follow another management cluster.

    A log belongs to the first management cluster that was connected to it, by
    the UID of its namespace kube-system, and a service beside another one does
    not start. After this word the next one that answers takes its place.
    Without --i-know it says what it would do (exit code 2).
    """
    from controlplane.app import operate
    from controlplane.audit.fleet import load
    from controlplane.controllers.multikueue.hosting import reading_policy
    from controlplane.log.connect import Database

    settings = options.settings()
    policy, name = reading_policy(settings), settings.database.log
    if not i_know:
        with open_reader(options) as reader:
            index = load(reader, policy)
        before, count = operate.rebindable(index).incarnation, len(index.workloads)
        raise CommandFailure(
            f'nothing was done: this would let log "{name}", which belongs to the cluster whose namespace'
            f" kube-system has the UID {before}, follow the next one that a service connects to. Of {count}"
            f" Workload{'' if count == 1 else 's'} in it, those that this cluster does not have are then gone, and"
            " what runs of them on workers is removed, so say --i-know if that is what you want.",
            Exit.USAGE,
        )
    database = Database(options.database_url(), settings.database.role)
    count = tell(operate.rebind(database, name, policy, by or whoami()))
    if options.output == "table":
        line(f'Log "{name}" follows the next management cluster that a service connects to.')
    else:
        dump(options.output, {"log": name, "workloads": count})


@log.command("purge-bodies")
@click.option(
    "--older-than", type=Age(), required=True, metavar="AGE", help="Stored, and last named, so long ago: 30d, 12h, 0."
)
@click.option("--namespace", metavar="NAMESPACE", help="Only those that an event of this namespace names.")
@click.pass_obj
def purge_bodies(options: Options, older_than: timedelta, namespace: str | None) -> None:
    """Remove stored bodies; the events that name them stay. Needs the rights of the schema's owner."""
    url = options.database_url()
    from controlplane.log import retention, schema

    schema.check(url)
    purged = retention.purge(url, older_than, namespace)
    if options.output != "table":
        dump(options.output, {"bodies": purged.bodies, "bytes": purged.size})
    else:
        line(f"{purged.bodies} bodies were removed, with {purged.size} bytes of JSON.")


@log.command("redact-bodies")
@click.pass_obj
def redact_bodies(options: Options) -> None:
    """Leave out of all stored bodies what `log.redact` names now. Needs the rights of the schema's owner."""
    url = options.database_url()
    from controlplane.log import retention, schema
    from controlplane.log.redaction import Redaction

    schema.check(url)
    count = retention.redact(url, Redaction(options.settings().log.redact), everything=True)
    if options.output != "table":
        dump(options.output, {"bodies": count})
    else:
        line(f"Values were left out of {count} bodies.")
