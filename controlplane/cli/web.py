"""`controlplane web`: the pages of a log, served until it is told to stop; and as a process beside `run` and `up`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

import click

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.history import log_option
from controlplane.cli.options import Options, Whole
from controlplane.cli.output import line

if TYPE_CHECKING:
    from controlplane.settings import Settings

NEEDED = ("jinja2", "starlette", "uvicorn")


@click.command(cls=Verb)
@click.option("--address", metavar="IP", help="The address to listen on, instead of web.address.")
@click.option("--port", type=Whole(0, 65_535), metavar="PORT", help="The port to listen on, instead of web.port.")
@click.option("--with-parent", is_flag=True, hidden=True)
@log_option
@click.pass_obj
def web(options: Options, address: str | None, port: int | None, with_parent: bool) -> None:
    """Serve the pages and the read API of a log, until it is told to stop.

    They show the Workloads, the clusters, the queues and what happened to
    them, now and at any time, and change nothing. The database is read as the
    role of web.role. Who may see what: web.authentication.
    """
    for key, value in (("web.address", address), ("web.port", port)):
        if value is not None:
            options.more[key] = (str(value), f"--{key.partition('.')[2]}")
    settings, url = options.settings(), options.database_url()
    if missing := missing_library():
        raise CommandFailure(
            f"the pages need {missing}, which is not installed: install controlplane[web]", Exit.CONFIGURATION
        )
    from controlplane import telemetry

    telemetry.configure(settings.log.level, settings.log.format)
    asyncio.run(_web(settings, url, with_parent=with_parent))


def missing_library() -> str:
    """Return the first of the libraries of the pages that is not installed; "" if all are."""
    from importlib.util import find_spec

    return next((name for name in NEEDED if find_spec(name) is None), "")


async def _web(settings: Settings, url: str, *, with_parent: bool) -> None:
    import functools

    from controlplane.cli.run import check_openable, open_management, stop_on_signals
    from controlplane.pages.server import serve
    from controlplane.settings.web import NONE

    stop, opens = stop_on_signals(), functools.partial(open_management, settings)
    if settings.web.authentication != NONE:
        await check_openable(settings, opens)
    if with_parent:
        asyncio.get_running_loop().add_reader(0, _parent_said, stop)
    await serve(settings, url, stop, opens, _announce if not with_parent else None)


def _parent_said(stop: asyncio.Event) -> None:
    """End when the process that began this one is gone: its end of the pipe is closed."""
    if not os.read(0, 1):
        asyncio.get_running_loop().remove_reader(0)
        stop.set()


def _announce(address: str) -> None:
    line(f"The pages are at {address} (Ctrl-C stops them).")


@contextlib.asynccontextmanager
async def beside(settings: Settings, url: str, more: Mapping[str, str], config: str = "") -> AsyncIterator[None]:
    """Have the pages served by a process of their own while the block runs: what they read takes no time from the
    service. It ends with this process, however this one ends.
    """
    command = [sys.executable, "-m", "controlplane", *(["--config", config] if config else []), "web", "--with-parent"]
    web = settings.web
    given = {"CONTROLPLANE_DATABASE_URL": url, "CONTROLPLANE_DATABASE_LOG": settings.database.log}
    given |= {"CONTROLPLANE_WEB_ADDRESS": web.address, "CONTROLPLANE_WEB_PORT": str(web.port)}
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, env={**os.environ, **given, **more}
    )
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), timeout=10)
        except TimeoutError:
            process.kill()
            await process.wait()
