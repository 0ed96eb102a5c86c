"""The pages while they are served: what they are made of, begun and ended in order.

In: settings, the database's URL, the way to the management cluster where one is needed. Out: a running server. Raises
`ListenError` if the address cannot be listened on, and psycopg's errors for a database that cannot be used at all."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

import psycopg
import structlog
import uvicorn

from controlplane.clusters.streams import ApiServer
from controlplane.pages.access import Access
from controlplane.pages.app import create_app
from controlplane.pages.follower import Follower
from controlplane.pages.readers import Readers, connector
from controlplane.settings import Settings
from controlplane.settings.web import NONE
from controlplane.web.ops import ListenError, why_not

_log = structlog.get_logger(__name__)
_CONNECTIONS = 1000
_GRACE = 3  # seconds for answers under way, when it ends


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: whoever runs it says when it ends."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


async def serve(
    settings: Settings,
    url: str,
    stop: asyncio.Event,
    open_management: Callable[[], Awaitable[ApiServer]],
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve the pages until `stop` is set; `started` hears of the address once it is listened on."""
    web = settings.web
    listening = _listen(web.address, web.port)
    cluster = None if web.authentication == NONE else await open_management()
    readers = Readers(connector(settings, url, web.patience))
    follower = Follower(connector(settings, url), settings)
    try:
        app = create_app(settings, readers, follower, Access(web, cluster))
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", proxy_headers=False, server_header=False,
            limit_concurrency=_CONNECTIONS, timeout_graceful_shutdown=_GRACE, timeout_keep_alive=30,
        )  # fmt: skip
        server = _Server(config)
        await asyncio.to_thread(_role_can_be_taken, settings, url)
        follower.start()
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        host = f"[{web.address}]" if ":" in web.address else web.address
        address = f"http://{host}:{listening.getsockname()[1]}/"
        _log.info("serving the pages", address=address, authentication=web.authentication)
        if started is not None:
            started(address)
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
        app.state.site.closing.set()
        server.should_exit = True
        stopped.cancel()
        await serving
    finally:
        listening.close()
        await asyncio.to_thread(follower.stop)
        readers.close()
        if cluster is not None:
            await cluster.close()


def _role_can_be_taken(settings: Settings, url: str) -> None:
    """See that the role can be taken: a login that may not would be refused for ever. A database that is away is waited
    for."""
    try:
        connector(settings, url)().close()
    except psycopg.OperationalError as error:
        _log.warning("the database does not answer yet", error=str(error).splitlines()[0])


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(512)
    except OSError as error:
        listening.close()
        raise ListenError(why_not(error, address, port, "web")) from None
    listening.setblocking(False)
    return listening
