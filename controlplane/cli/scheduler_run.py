"""`controlplane scheduler run`: one replica of the scheduler beside a target cluster, until it is told to stop.

In: settings and a KubeSchedulerConfiguration. Out: an exit code. What can be known to be wrong before the first pod is
found here, in the order in which a person would look for it: settings, profiles, database, schema, port, kubeconfig.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING

import click

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.options import Options
from controlplane.cli.run import OpenManagement, open_management, serving, stop_on_signals, tracing, usable

if TYPE_CHECKING:
    from controlplane.app.scheduler_profiles import Setup
    from controlplane.log.connect import Database
    from controlplane.settings import Settings


@click.command(cls=Verb)
@click.option(
    "--scheduler-config",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The KubeSchedulerConfiguration; scheduler.config otherwise.",
)
@click.option("--kubeconfig", type=click.Path(), metavar="FILE", help="The cluster; management.kubeconfig otherwise.")
@click.option("--log", "log_name", metavar="NAME", help="The name of the scheduler's log; scheduler.log otherwise.")
@click.pass_obj
def run(options: Options, scheduler_config: str | None, kubeconfig: str | None, log_name: str | None) -> None:
    """Schedule pods of one cluster: those that name a profile, and candidates.

    Any number of replicas may run; one leads, the others follow. SIGTERM and Ctrl-C let the bindings that are on their
    way end and then leave with code 0; a second one leaves at once. A configuration that cannot be used ends with code
    3 and names the field."""
    given = {
        "scheduler.config": (scheduler_config, "--scheduler-config"),
        "scheduler.log": (log_name, "--log"),
        "management.kubeconfig": (kubeconfig, "--kubeconfig"),
    }
    options.more = {key: (value, flag) for key, (value, flag) in given.items() if value is not None}
    url = options.database_url()
    settings = options.settings()
    if settings.scheduler.log == settings.database.log:
        raise CommandFailure(
            f'scheduler.log: "{settings.scheduler.log}" is the log of the service (database.log): '
            "name another one, which the scheduler has for itself",
            Exit.CONFIGURATION,
        )
    setup = _profiles(settings)
    from controlplane import event_loop, telemetry

    telemetry.configure(settings.log.level, settings.log.format)
    event_loop.run(_run(settings, setup, url))


def usable_profiles(path: str) -> Setup:
    """Return the profiles of a file, or the default one; `CommandFailure` names every field that is wrong."""
    from controlplane.app.scheduler_profiles import BadConfiguration, load

    try:
        return load(path)
    except BadConfiguration as error:
        problems = str(error).splitlines()
        message = problems[0] if len(problems) == 1 else "\n  ".join(["the profiles cannot be used:", *problems])
        raise CommandFailure(message, Exit.CONFIGURATION) from None


def _profiles(settings: Settings) -> Setup:
    setup = usable_profiles(settings.scheduler.config)
    wanted = settings.scheduler.candidate_profile
    if wanted and wanted not in setup.names:
        known = ", ".join(setup.names)
        raise CommandFailure(
            f'scheduler.candidateProfile: there is no profile "{wanted}", only {known}', Exit.CONFIGURATION
        )
    return setup


async def _run(settings: Settings, setup: Setup, url: str) -> None:
    from controlplane.log.connect import Database

    stop = stop_on_signals()
    database = Database(url, settings.database.role)
    revision = await usable(database)
    if not stop.is_set():
        await serve_scheduler(settings, setup, database, revision, functools.partial(open_management, settings), stop)


async def serve_scheduler(
    settings: Settings,
    setup: Setup,
    database: Database,
    revision: str,
    open_server: OpenManagement,
    stop: asyncio.Event,
) -> None:
    """Serve the operators' endpoints and run the scheduler until `stop` is set.

    Raises `ListenError`, `CommandFailure` for a kubeconfig that cannot be used, and what `SchedulerService.run` raises.
    """
    from controlplane.app.ports import ports_of
    from controlplane.app.scheduler import SCHEDULER_CHECKS, SchedulerService
    from controlplane.telemetry import metrics

    async with (
        serving(settings, SCHEDULER_CHECKS, revision, open_server, None) as health,
        tracing(settings, settings.scheduler.log) as spans,
    ):
        # One watch shows what is decided on: an observation has no others to wait for, and a pod waits for it.
        ports = ports_of(database, linger=0.0)
        service = SchedulerService(settings, setup, ports, open_server, metrics=metrics, health=health, spans=spans)
        await service.run(stop)
