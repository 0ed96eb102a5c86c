"""`controlplane log`: to which management cluster the log belongs, and how it is moved on purpose."""

from __future__ import annotations

import click

from controlplane.cli.clusters import whoami
from controlplane.cli.errors import Exit, Failure
from controlplane.cli.frame import Group
from controlplane.cli.history import log_option, open_reader
from controlplane.cli.options import Options
from controlplane.cli.output import dump, line


@click.group(cls=Group)
def log() -> None:
    """Say to which management cluster the log belongs."""


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
    import asyncio

    from controlplane.app import operate
    from controlplane.app.policy import reading_policy
    from controlplane.audit.fleet import load
    from controlplane.log.connect import Database

    settings = options.settings()
    policy, name = reading_policy(settings), settings.database.log
    if not i_know:
        with open_reader(options) as reader:
            index = load(reader, policy)
        before, count = operate.rebindable(index).incarnation, len(index.workloads)
        raise Failure(
            f'nothing was done: this would let log "{name}", which belongs to the cluster whose namespace kube-system has the UID {before},'
            f" follow the next one that a service connects to. Of {count} Workload{'' if count == 1 else 's'} in it, those that this"
            " cluster does not have are then gone, and what runs of them on workers is removed, so say --i-know if that is what you want.",
            Exit.USAGE,
        )
    database = Database(options.database_url(), settings.database.role)
    count = asyncio.run(operate.rebind(database, name, policy, by or whoami()))
    if options.output == "table":
        line(f'Log "{name}" follows the next management cluster that a service connects to.')
    else:
        dump(options.output, {"log": name, "workloads": count})
