"""Listening so that nobody can take the port away from the others: connections are few, and nobody waits on one for
long.

In: an application's runner and an address. Out: a listening server. A connection that sends no request is closed after
some seconds, and so is one whose answer nobody reads. Where there are too many, the one goes that has kept us waiting
for longest: whoever comes to ask whether we are alive is heard at once, however many others hold connections open.
aiohttp itself waits for a request for ever."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from controlplane.web.handshakes import TlsServer, listen_with_tls

_PATIENCE = 5.0  # seconds for a request to arrive, and for a TLS handshake
_LONGEST = 30.0  # seconds for one request and its answer
_BACKLOG = 512


class _NotOurs(logging.Filter):
    """Leaves out what is wrong with a request: whoever reaches a port could fill the disk with tracebacks."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


REQUESTS = logging.getLogger("controlplane.web.requests")
"""Where a server says what went wrong with a request by its own fault."""
REQUESTS.addFilter(_NotOurs())


class Guard:
    """The connections of one port, `most` at a time."""

    def __init__(self, most: int, *, patience: float = _PATIENCE, longest: float = _LONGEST) -> None:
        self.most, self.patience, self.longest = most, patience, longest
        self._open: dict[_Connection, None] = {}  # in the order in which they began to wait

    def __len__(self) -> int:
        return len(self._open)

    def came(self, connection: _Connection) -> None:
        """Count a connection; if there are too many, close the one that has waited for longest, or is longest at
        work.
        """
        while len(self._open) >= self.most:
            waiting = (one for one in self._open if not one.working)
            self._close(next(waiting, None) or next(iter(self._open)))
        self._open[connection] = None

    def _close(self, connection: _Connection) -> None:
        self._open.pop(connection, None)
        connection.abort()

    def went(self, connection: _Connection) -> None:
        """Count a connection no more."""
        self._open.pop(connection, None)

    def close_waiting(self) -> None:
        """Close the connections on which no request is being answered."""
        for connection in [one for one in self._open if not one.working]:
            self._close(connection)

    def turned(self, connection: _Connection) -> None:
        """A connection has begun to wait, or to work: it is the last of those now."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Tell a connection that works from one that waits."""
        found = next((one for one in self._open if one.transport is request.transport), None)
        if found is not None:
            found.works()
        try:
            return await handler(request)
        except web.RequestPayloadError as error:
            raise web.HTTPBadRequest(text=f"the body cannot be read: {error}\n") from None


class _Connection(asyncio.Protocol):
    """One connection: passes everything on to aiohttp's own protocol, and looks at the clock."""

    def __init__(self, guard: Guard, inner: Any) -> None:
        self._guard, self._inner = guard, inner
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None
        self._asked = False

    @property
    def working(self) -> bool:
        """Whether a request is here that is not answered yet."""
        return self._asked and self._inner._current_request is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's own is no subclass of it
        self._guard.came(self)
        self._within(self._guard.patience)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._asked and not self.working:
            self._asked = False
            self._guard.turned(self)
            self._within(self._guard.patience)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        found: bool | None = self._inner.eof_received()
        return found

    def connection_lost(self, error: Exception | None) -> None:
        self._guard.went(self)
        if self._timer is not None:
            self._timer.cancel()
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def works(self) -> None:
        """A request is here."""
        self._asked = True
        self._guard.turned(self)
        self._within(self._guard.longest)

    def abort(self) -> None:
        """Close it now, whatever is under way."""
        if self.transport is not None:
            self.transport.abort()

    def _within(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self.abort)


async def listen(
    runner: web.AppRunner, guard: Guard, address: str, port: int, context: ssl.SSLContext | None = None
) -> asyncio.Server | TlsServer:
    """Listen for an application that is set up; OSError if that cannot be done."""

    def connected() -> asyncio.Protocol:
        return _Connection(guard, runner.server()) if runner.server is not None else asyncio.Protocol()

    if context is not None:
        return listen_with_tls(address, port, connected, context, _PATIENCE)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(connected, address, port, backlog=_BACKLOG, start_serving=False)
    try:
        await server.start_serving()
    except BaseException:  # interrupted while it begins to: nobody else could close it
        server.close()
        raise
    return server
