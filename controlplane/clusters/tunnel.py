"""Opens a connection to an API server for one request whose answer is not read here: a log that is followed, a shell.

In: how the server is reached, method, path and headers. Out: the two ends of a byte stream, the request sent. What
comes back is the server's own answer, and after `101 Switching Protocols` whatever the two sides speak: SPDY and
WebSocket alike."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit

from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.protocol import Unreachable

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Headers = Sequence[tuple[str, str]]
_CONNECT = 10.0  # seconds
_LIMIT = 1 << 16  # bytes of the head of an answer


@runtime_checkable
class Tunnels(Protocol):
    """An API server to which such connections can be opened."""

    async def tunnel(self, method: str, path: str, headers: Headers) -> Stream:
        """Send one request on a connection of its own, and return that: whoever asks reads the answer, and speaks on if
        it is `101 Switching Protocols`. Raises `Unreachable`."""


async def open_tunnel(
    name: str,
    config: ClientConfig,
    context: ssl.SSLContext | None,
    head: tuple[str, str, Headers],
    authorization: str,
) -> Stream:
    """Send a request and return the connection; `head` is method, path with query, and headers. `Unreachable` if it
    cannot be opened. Without an upgrade it is HTTP/1.0, so that the answer ends with the connection and is in no
    chunks."""
    method, path, headers = head
    url = urlsplit(config.server)
    if config.proxy_url:
        raise Unreachable(f"{name}: no stream is led through the proxy of its kubeconfig")
    upgrades = any(key.lower() == "upgrade" for key, _ in headers)
    sent = [("Host", url.netloc), *headers, *([("Authorization", authorization)] if authorization else [])]
    lines = [
        f"{method} {url.path.rstrip('/')}{path} HTTP/1.{int(upgrades)}",
        *(f"{key}: {value}" for key, value in sent),
    ]
    try:
        async with asyncio.timeout(_CONNECT):
            reader, writer = await asyncio.open_connection(
                url.hostname,
                url.port or (443 if context is not None else 80),
                limit=_LIMIT,
                ssl=context,
                server_hostname=(config.tls_server_name or url.hostname) if context is not None else None,
            )
    except (OSError, TimeoutError) as error:
        raise Unreachable(f"{name}: {type(error).__name__}: {error}".rstrip(": ")) from None
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    return reader, writer
