"""`controlplane web`: the pages of a log, served until it is told to stop."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
from typing import TYPE_CHECKING

import click

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.history import log_option
from controlplane.cli.options import Options, Whole
from controlplane.cli.output import aside, line

if TYPE_CHECKING:
    from controlplane.settings import Settings

_PATIENCE = 2  # seconds for a connection to the database before anything is served


@click.command(cls=Verb)
@click.option("--address", metavar="IP", help="The address to listen on, instead of web.address.")
@click.option("--port", type=Whole(0, 65_535), metavar="PORT", help="The port to listen on, instead of web.port.")
@click.option("--listening", type=Whole(0, 1_000_000), hidden=True)
@log_option
@click.pass_obj
def web(options: Options, address: str | None, port: int | None, listening: int | None) -> None:
    """Serve the pages and the read API of a log, until it is told to stop.

    They show the Workloads, the clusters, the queues and what happened to
    them, now and at any time, and change nothing. The database is read as the
    role of web.role. Who may see what: web.authentication.
    """
    for key, value in (("web.address", address), ("web.port", port)):
        if value is not None:
            options.more[key] = (str(value), f"--{key.partition('.')[2]}")
    settings, url = options.settings(), options.database_url()
    from controlplane import telemetry
    from controlplane.pages.beside import missing_library

    if missing := missing_library():
        raise CommandFailure(
            f"the pages need {missing}, which is not installed: install controlplane[web]", Exit.CONFIGURATION
        )
    telemetry.configure(settings.log.level, settings.log.format)
    if listening is None and (empty := why_empty(settings, url)):
        aside(f"There is nothing to see yet: {empty}.")
    asyncio.run(_web(settings, url, listening))


def why_empty(settings: Settings, url: str) -> str:
    """Return why the log has nothing to show, with the logs that the database has; "" if it has events, or cannot be
    asked now: the pages say that themselves."""
    import psycopg

    from controlplane.audit.reads import LogReader
    from controlplane.cli.history import is_empty

    try:
        with LogReader.connect(url, log=settings.database.log, role=settings.web.role, timeout=_PATIENCE) as reader:
            return is_empty(reader)
    except psycopg.Error:
        return ""


async def _web(settings: Settings, url: str, number: int | None) -> None:
    """Serve; on a socket of the process that began this one if it has the number of one, and then as long as that is
    there.
    """
    from controlplane.cli.run import check_openable, open_management, stop_on_signals
    from controlplane.pages.beside import listen, url_of
    from controlplane.pages.server import RoleError, serve
    from controlplane.settings.web import NONE

    stop, opens = stop_on_signals(), functools.partial(open_management, settings)
    if settings.web.authentication != NONE:
        await check_openable(settings, opens)
    if number is None:
        listening = listen(settings.web.address, settings.web.port)
    else:
        listening = socket.socket(fileno=number)
        asyncio.get_running_loop().add_reader(0, _began_it, stop)
    with listening:
        try:
            address = url_of(listening, settings.web.published)
            await serve(settings, url, stop, opens, listening, lambda: _announce(address, number))
        except RoleError as error:
            raise CommandFailure(str(error), Exit.DATABASE) from None


def _began_it(stop: asyncio.Event) -> None:
    """End when the process that began this one is gone: its end of the pipe is closed."""
    if not os.read(0, 1):
        asyncio.get_running_loop().remove_reader(0)
        stop.set()


def _announce(address: str, number: int | None) -> None:
    if number is None:
        line(f"The pages are at {address} (Ctrl-C stops them).")
