"""What every answer says to a browser: run nothing that is not ours, sit in no frame, tell nobody where you came from.

In: an ASGI application. Out: the same with these headers. Where nobody is asked who he is, requests for another host
than loopback are refused: a page elsewhere could otherwise read through a name that it points here."""

from __future__ import annotations

import ipaddress

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
UNCACHED = {"Cache-Control": "no-store"}


class Shield:
    """The application with its headers; `local`: only loopback's names may be asked for."""

    def __init__(self, app: ASGIApp, *, local: bool) -> None:
        self._app, self._local = app, local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if not scope["path"].startswith("/static/"):
                    headers.update(UNCACHED)
            await send(message)

        if self._local and not _loopback(scope):
            text = (
                "Ask for 127.0.0.1 or localhost: with web.authentication none the pages are for this machine alone.\n"
            )
            await PlainTextResponse(text, 421)(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)


def _loopback(scope: Scope) -> bool:
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1:
        return False
    host = hosts[0].rpartition("]")[0].removeprefix("[") if hosts[0].startswith("[") else hosts[0].partition(":")[0]
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
