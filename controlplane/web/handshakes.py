"""Listening with TLS so that nobody can take the process its files: few handshakes are under way at a time, and where
there are too many, the one goes that has taken longest.

In: an address, a TLS context, what makes the protocol of a connection. Out: a listening server. asyncio itself begins
as many handshakes as somebody asks for, and keeps each for as long as one may take; a process that has no files left
loses its database and its clusters."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable

import structlog

_log = structlog.get_logger(__name__)

MOST = 128
"""Handshakes at a time: one takes milliseconds, and an API server keeps its connections."""
_BACKLOG = 512
_AGAIN = 0.5  # seconds after which an accept is tried again that the system refused


class TlsServer:
    """A listening server, as far as `asyncio.Server` is used of it. Its context may change while it listens."""

    def __init__(
        self,
        listening: socket.socket,
        factory: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext,
        patience: float,
    ) -> None:
        self.sockets = (listening,)
        self._listening, self._factory, self._context, self._patience = listening, factory, context, patience
        self._shaking: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self._accepting = asyncio.create_task(self._accept(), name="tls accept")

    def close(self) -> None:
        """Stop listening, and cut the handshakes that are under way."""
        for task in (self._accepting, *self._shaking):
            task.cancel()

    async def _accept(self) -> None:
        loop, refused = asyncio.get_running_loop(), False
        with self._listening:
            while True:
                try:
                    connection, _ = await loop.sock_accept(self._listening)
                except OSError as error:
                    if not refused:
                        _log.warning("connections are not accepted", error=str(error))
                    refused = True
                    await asyncio.sleep(_AGAIN)
                    continue
                refused = False
                self._begin(connection)
                await asyncio.sleep(0)  # what was cut is closed before the next one is accepted

    def _begin(self, connection: socket.socket) -> None:
        while len(self._shaking) >= MOST:
            oldest = next(iter(self._shaking))
            del self._shaking[oldest]
            oldest.cancel()
        task = asyncio.create_task(self._shake(connection), name="tls handshake")
        self._shaking[task] = None
        task.add_done_callback(lambda done: self._shaking.pop(done, None))

    async def _shake(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):  # whoever does not speak TLS, is too slow, or has gone
            await loop.connect_accepted_socket(
                self._factory, connection, ssl=self._context, ssl_handshake_timeout=self._patience
            )


def listen_with_tls(
    address: str, port: int, factory: Callable[[], asyncio.BaseProtocol], context: ssl.SSLContext, patience: float
) -> TlsServer:
    """Listen on an IP address; a handshake may take `patience` seconds. OSError if that cannot be done."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.create_server((address, port), family=family, backlog=_BACKLOG)
    listening.setblocking(False)
    return TlsServer(listening, factory, context, patience)
