"""The pages while they are served: what they are made of, begun and ended in order.

In: settings, the database's URL, a socket that listens, the way to the management cluster where one is needed. Out: a
server that runs until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

import psycopg
import structlog
import uvicorn

from controlplane.clusters.reopened import reopened
from controlplane.clusters.streams import ApiServer
from controlplane.log.connect import first_line
from controlplane.pages.access import Access
from controlplane.pages.app import create_app
from controlplane.pages.beside import url_of
from controlplane.pages.follower import Follower
from controlplane.pages.readers import Readers, connector
from controlplane.settings import Settings
from controlplane.settings.web import NONE
from controlplane.tasks import end

_log = structlog.get_logger(__name__)
_CONNECTIONS = 1000
_GRACE = 3  # seconds for answers under way, when it ends


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: whoever runs it says when it ends."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


class RoleError(Exception):
    """The login may not take the role of `web.role`; the message is one sentence that says what to do."""


async def serve(
    settings: Settings,
    url: str,
    stop: asyncio.Event,
    open_management: Callable[[], Awaitable[ApiServer]],
    listening: socket.socket,
    started: Callable[[], None],
) -> None:
    """Serve the pages on a socket that listens until `stop` is set. Raises `RoleError`."""
    web = settings.web
    await asyncio.to_thread(_take_role, settings, url)
    cluster = None if web.authentication == NONE else await reopened(open_management)
    readers = Readers(connector(settings, url, web.patience))
    follower = Follower(connector(settings, url), settings)
    app = create_app(settings, readers, follower, Access(web, cluster))
    server = _Server(
        uvicorn.Config(
            app, log_config=None, log_level="warning", access_log=False, lifespan="off", proxy_headers=False,
            server_header=False, limit_concurrency=_CONNECTIONS, timeout_graceful_shutdown=_GRACE, timeout_keep_alive=30,
        )
    )  # fmt: skip
    follower.start()
    serving, stopped = asyncio.create_task(server.serve(sockets=[listening])), asyncio.create_task(stop.wait())
    try:
        _log.info("serving the pages", address=url_of(listening, web.published), authentication=web.authentication)
        started()
        await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
        app.state.site.closing.set()
        server.should_exit = True
        await serving
    finally:
        await end(serving, stopped)
        await asyncio.to_thread(follower.stop)
        readers.close()
        if cluster is not None:
            await cluster.close()


def _take_role(settings: Settings, url: str) -> None:
    """See that the role can be taken: a login that may not would be refused for ever. A database that is away is waited
    for. Raises `RoleError`.
    """
    role = settings.web.role
    try:
        connector(settings, url)().close()
    except psycopg.errors.InsufficientPrivilege:
        raise RoleError(
            f'web.role: the login of database.url may not become "{role}": GRANT {role} TO that login, or let the pages'
            " log in as a member of it"
        ) from None
    except psycopg.errors.InvalidParameterValue:
        raise RoleError(
            f'web.role: there is no role "{role}" in that database: run `controlplane db upgrade`, or name another'
        ) from None
    except psycopg.OperationalError as error:
        _log.warning("the database does not answer yet", error=first_line(error))
