"""`controlplane demo`: twenty jobs over three simulated clusters, with a service that is killed half-way; ends by
itself.

In: nothing. Out: a run of the whole service, then the timeline of one job, why it is where it is, and a query over the
history; all of it with the verbs that everybody has. The exit code says whether what was shown was right, by the
witness of those who were there."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.options import Options
from controlplane.cli.output import dump, line, table

if TYPE_CHECKING:
    from controlplane.local.demo import DemoResult
    from controlplane.local.folder import DataFolder
    from controlplane.local.history import LogHistory

_RIGHT = (
    "All is as it should be: {jobs} jobs in {seconds:.1f} s, each on one worker, each once, through the death of"
    " the service; the log agrees with what the workers saw, and nothing is left on them."
)


@click.command(cls=Verb)
@click.option("--keep", is_flag=True, help="Keep the folder, to go on with `controlplane up --data`.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where to play: a new or empty folder, which is kept. Otherwise a temporary one.",
)
@click.pass_obj
def demo(options: Options, keep: bool, data: Path | None) -> None:
    """Watch twenty Jobs go by on simulated clusters; ends by itself.

    The service is killed while they run, and another process goes on. The exit code is 0 only if every job ran exactly
    once and the log agrees with what the clusters saw."""
    options.settings()  # what is wrong with them is said before anything is made
    from controlplane import telemetry
    from controlplane.local.folder import DataFolder, LocalError

    telemetry.configure("warning", "console")

    problems: list[str] = []
    try:
        with _folder(data, keep) as root, DataFolder(root) as folder:
            problems = asyncio.run(_demo(folder, options, durable=keep or data is not None))
    except LocalError as error:
        raise CommandFailure(str(error), Exit.FAILED) from error
    if (keep or data) and options.output == "table":
        line(
            f"Everything is kept in {root}: {shlex.join(['controlplane', 'up', '--data', str(root)])} goes on"
            " from here, and shows it in a browser."
        )
    elif options.output == "table" and not problems:
        line("To see such a history in a browser: `controlplane demo --keep`, and then the command that it names.")
    if problems:
        raise CommandFailure("\n  ".join(["what was shown is not right:", *problems]), Exit.FAILED)


@contextmanager
def _folder(data: Path | None, keep: bool) -> Iterator[Path]:
    """Have the folder that was asked for, or a new one, which is removed afterwards unless it is to be kept."""
    if data is not None:
        yield data
        return
    try:
        root = Path(tempfile.mkdtemp(prefix="controlplane-demo-"))
    except OSError as error:  # a read-only root file system, or a full one
        raise CommandFailure(
            f"no temporary folder can be made ({error.strerror}): name one that can be written to with TMPDIR, or play"
            " in one with --data"
        ) from None
    if os.geteuid() == 0:
        root.chmod(0o711)  # the embedded PostgreSQL runs as another user
    try:
        yield root
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)


async def _demo(folder: DataFolder, options: Options, *, durable: bool) -> list[str]:
    """Play, unless a signal comes first; return what was not right."""
    from controlplane.cli.run import stop_on_signals
    from controlplane.tasks import end

    stopped = asyncio.create_task(stop_on_signals().wait())
    playing = asyncio.create_task(_play(folder, options, durable=durable))
    try:
        await asyncio.wait({playing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            raise click.Abort
        return playing.result()
    finally:
        await end(playing, stopped)


async def _play(folder: DataFolder, options: Options, *, durable: bool) -> list[str]:
    from controlplane.local.check import judge
    from controlplane.local.demo import Demo
    from controlplane.local.display import Silent, screen
    from controlplane.local.environment import LocalEnvironment
    from controlplane.local.examples import jobs
    from controlplane.local.folder import LocalError
    from controlplane.local.history import LogHistory
    from controlplane.local.replica import LocalReplica, free_port, variables

    if folder.used:
        raise LocalError(f"{folder.root} has been used: the demo needs a new or empty folder")
    settings = options.settings()
    given, role, log = settings.database.url.reveal(), settings.database.role, settings.database.log
    fleet = folder.fleet({})
    if options.output == "table":
        line(f"A PostgreSQL, a management cluster and {fleet.workers} worker clusters start in {folder.root} ...")
    async with LocalEnvironment(folder, fleet, database_url=given, role=role, durable=durable) as place:
        history = LogHistory(place.database, log)
        if not await asyncio.to_thread(history.empty):
            raise LocalError(f'the log "{log}" of that database has events already: choose another with database.log')
        replica = LocalReplica(
            variables(place.database, log, place.management_kubeconfig, free_port()), folder.root / "service.log"
        )
        if options.output != "table":
            played = await Demo(place, replica, history, jobs(), Silent()).play()
            problems = judge(played.evidence)
            dump(options.output, {"seconds": played.seconds, "problems": problems, "evidence": played.evidence})
            return problems
        with screen(place.fleet.names, on_terminal=sys.stdout.isatty()) as seen:
            played = await Demo(place, replica, history, jobs(), seen).play()
        problems = judge(played.evidence)
        await asyncio.to_thread(_show, options, place.database.url, history, played)
        if not problems:
            line(_RIGHT.format(jobs=len(played.evidence.asked), seconds=played.seconds))
        return problems


def _show(options: Options, url: str, history: LogHistory, played: DemoResult) -> None:
    """Ask the log as anybody would: with the verbs of this program, and in SQL."""
    from controlplane.local.history import COLUMNS

    name = f"default/{played.told}"
    line("")
    line(f"One of the jobs that ran when the service was killed is {played.told}.")
    for commands in (["timeline", name], ["why", name]):
        _ask(options, url, commands)
    line("")
    click.echo(f"$ psql\n{history.query};")
    table(COLUMNS, history.answer())
    line("")


def _ask(options: Options, url: str, commands: list[str]) -> None:
    """Show a verb, and let it answer."""
    from controlplane.cli import cli

    line("")
    line(f"$ controlplane {shlex.join(commands)}")
    file = ["--config", str(options.config)] if options.config is not None else []
    with cli.make_context("controlplane", [*file, "--database-url", url, *commands]) as context:
        cli.invoke(context)
