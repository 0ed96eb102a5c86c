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
@click.option("--stay", is_flag=True, help="Serve the pages of it at the end, until Ctrl-C.")
@click.pass_obj
def demo(options: Options, keep: bool, data: Path | None, stay: bool) -> None:
    """Watch twenty Jobs go by on simulated clusters; ends by itself.

    The service is killed while they run, and another process goes on. The exit code is 0 only if every job ran exactly
    once and the log agrees with what the clusters saw."""
    if stay:
        _check_stay(options)
    options.settings()  # what is wrong with them is said before anything is made
    from controlplane import telemetry
    from controlplane.local.folder import DataFolder, LocalError

    telemetry.configure("warning", "console")

    problems: list[str] = []
    try:
        with _folder(data, keep) as root, DataFolder(root) as folder:
            problems = asyncio.run(_demo(folder, options, durable=keep or data is not None, stay=stay))
    except LocalError as error:
        raise CommandFailure(str(error), Exit.FAILED) from error
    if (keep or data) and options.output == "table":
        line(
            f"Everything is kept in {root}: {shlex.join(['controlplane', 'up', '--data', str(root)])} goes on"
            " from here, and shows it in a browser."
        )
    elif options.output == "table" and not problems and not stay:
        line("To see it in a browser: `controlplane demo --stay`; to go on from there: `controlplane demo --keep`.")
    if problems:
        raise CommandFailure("\n  ".join(["what was shown is not right:", *problems]), Exit.FAILED)


def _check_stay(options: Options) -> None:
    """Refuse to stay where nobody could open a page; `CommandFailure` before anything is played."""
    from controlplane.pages.beside import missing_library

    if options.output != "table":
        raise click.UsageError("--stay is for people, and goes without -o: leave one of them out")
    if missing := missing_library():
        raise CommandFailure(f"--stay: the pages need {missing}: install controlplane[web]", Exit.CONFIGURATION)


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


async def _demo(folder: DataFolder, options: Options, *, durable: bool, stay: bool) -> list[str]:
    """Play, unless a signal comes first; return what was not right. A signal ends it too where it stays."""
    from controlplane.cli.run import stop_on_signals
    from controlplane.tasks import end

    stopped = asyncio.create_task(stop_on_signals().wait())
    staying = asyncio.Event() if stay else None
    playing = asyncio.create_task(_play(folder, options, durable=durable, staying=staying))
    try:
        await asyncio.wait({playing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            return playing.result()
        if staying is None or not staying.is_set():
            raise click.Abort
        return []
    finally:
        await end(playing, stopped)


async def _play(folder: DataFolder, options: Options, *, durable: bool, staying: asyncio.Event | None) -> list[str]:
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
            if staying is not None:
                await _stay(place.database.url, log, played.told, staying)
        return problems


async def _stay(url: str, log: str, told: str, staying: asyncio.Event) -> None:
    """Serve the pages until somebody ends this."""
    from controlplane.pages.beside import beside

    environment = {
        "CONTROLPLANE_DATABASE_URL": url,
        "CONTROLPLANE_DATABASE_LOG": log,
        "CONTROLPLANE_LOG_LEVEL": "warning",
    }
    async with beside("127.0.0.1", 0, environment) as address:
        line(f"See it in a browser, until Ctrl-C: {address} and {address}workloads/default/{told}")
        staying.set()
        await asyncio.Event().wait()


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
