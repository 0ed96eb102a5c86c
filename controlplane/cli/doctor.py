"""`controlplane doctor`: whether the database, the management cluster and the workers are as the service needs them.

It reads, asks for its own rights, and writes nothing. What is checked is in `controlplane.doctor`.
"""

from __future__ import annotations

import functools

import click

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.options import Options, Whole, listing
from controlplane.cli.output import emit

_COLUMNS = ("RESULT", "PLACE", "CHECK", "MESSAGE")


@click.command(cls=Verb)
@click.option("--kubeconfig", metavar="FILE", help="The management cluster's kubeconfig; else management.kubeconfig.")
@click.option(
    "--timeout",
    type=Whole(1, 600),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How long one question may take.",
)
@click.option("--scheduler", is_flag=True, help="Check the scheduler of a cluster instead: its log, its cluster.")
@listing("name", "csv")
@click.pass_obj
def doctor(options: Options, kubeconfig: str | None, timeout: int, scheduler: bool) -> None:
    """Check the database, the management cluster, the queues and each worker, and say what to do.

    With the settings and from the place of the service, it is the service's own rights that are asked for: run it in
    its pod. A check is ok, a warning, failed, or unknown if it could not be made. The code is 1 if one failed. With -o
    json or yaml, a list of objects: name, place, check, result, message, action.

    With --scheduler, and the settings of a scheduler, in its pod, it is the scheduler that is checked, and each Lease
    by which those of other logs are kept away."""
    import asyncio
    import logging

    from controlplane.cli.run import open_management
    from controlplane.cli.scheduler_run import usable_profiles
    from controlplane.doctor.examine import examine, examine_scheduler

    if kubeconfig is not None:
        options.more["management.kubeconfig"] = (kubeconfig, "--kubeconfig")
    settings = options.settings()
    # What psycopg has to say of a connection that broke would stand among the findings.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    opened = functools.partial(open_management, settings)
    if scheduler:
        names = usable_profiles(settings.scheduler.config).names
        found = asyncio.run(examine_scheduler(settings, names, opened, timeout))
    else:
        found = asyncio.run(examine(settings, opened, timeout))
    value = [
        {
            "name": f"{one.place}/{one.check}",
            "place": one.place,
            "check": one.check,
            "result": one.result,
            "message": one.message,
            "action": one.action,
        }
        for one in found
    ]
    rows = [
        (one.result, one.place, one.check, f"{one.message}: {one.action}" if one.action else one.message)
        for one in found
    ]
    emit(options.output, value, _COLUMNS, rows, kind="check")
    failed = sum(one.result == "failed" for one in found)
    if failed:
        what = "1 check failed" if failed == 1 else f"{failed} checks failed"
        raise CommandFailure(f"{what} of {len(found)} (see above)", Exit.FAILED)
