"""An aggregated API server: requests that a cluster's API server hands on, for whom its front proxy says they come
from.

In: an authority for the front proxy's certificates, who may do what, documents of discovery, the function that answers.
Out: a running server. A request is answered once its connection has shown the front proxy's certificate (else 401) and
its user may do what it asks for (else 403, or 503 if that cannot be told). Without both there are `/healthz`, `/livez`
and `/readyz` alone."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import orjson
import structlog
from aiohttp import web

from controlplane.kube.api_requests import RequestAttributes, attributes, forbidden, status
from controlplane.kube.front_proxy import FrontProxy, UserInfo
from controlplane.kube.kinds import JSON_TYPE, Json
from controlplane.tasks import end
from controlplane.web.client_authority import ClientAuthority
from controlplane.web.guard import Guard
from controlplane.web.ops import WebServer, serve_guarded
from controlplane.web.webhook import renewing

_log = structlog.get_logger(__name__)

_MOST = 256  # connections at a time: every API server of a cluster keeps some
_HEADERS = 2048  # of a request: one for each group of its user
_AGGREGATED = f"{JSON_TYPE};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_UNCACHED = {"Cache-Control": "no-cache, private"}
NO_RESOURCE = status(404, "NotFound", "the server could not find the requested resource", {})
NO_METHOD = status(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


class Unavailable(Exception):  # noqa: N818 - what the user is told
    """The request cannot be answered now; the message is a sentence that says why. `again`: after how many seconds to
    ask again, 0 for nothing."""

    def __init__(self, message: str, again: int = 0) -> None:
        super().__init__(message)
        self.again = again


class Authorizes(Protocol):
    """Says who may do what."""

    async def __call__(self, user: UserInfo, asked: RequestAttributes) -> bool:
        """Whether a user may do that; `Unavailable` if it cannot be told."""


@dataclass(frozen=True, slots=True)
class AggregatedApi:
    """What is served. `documents` of discovery by path, `discovery` that of `/apis` for who asks for all in one.
    `answer` returns the code and the body of a resource's answer, encoded or not, or raises `Unavailable`; `ready` says
    what is missing, "" for nothing."""

    documents: Mapping[str, Json]
    discovery: Json
    answer: Callable[[RequestAttributes, Mapping[str, str]], Awaitable[tuple[int, Json | bytes]]]
    ready: Callable[[], str]


class AggregatedServer:
    """A running server. `port` is the one it got."""

    def __init__(self, api: AggregatedApi, authority: ClientAuthority, authorizes: Authorizes) -> None:
        self._api, self._authority, self._authorizes = api, authority, authorizes
        self._guard = Guard(_MOST)
        self._proxy: FrontProxy | None = None
        self._server: WebServer | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port on which it listens."""
        assert self._server is not None, "not listening"
        return self._server.port

    async def listen(self, address: str, port: int, section: str) -> None:
        """Listen; `ListenError` if that cannot be done, which names the settings of a section."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        context = self._authority.context
        self._server = await serve_guarded(app, self._guard, address, port, section, context, _HEADERS)
        watching = renewing(self._authority.certificate, self._renew, "certificate of the aggregated api")
        self._task = asyncio.create_task(watching, name="aggregated api certificate")

    async def stop(self) -> None:
        """Stop listening."""
        try:
            if self._task is not None:
                await end(self._task)
        finally:
            if self._server is not None:
                await self._server.stop()

    def trust(self, proxy: FrontProxy) -> None:
        """Believe this front proxy alone from now on. Raises what `ClientAuthority.trust` does."""
        if self._authority.trust(proxy.authority):
            self._guard.close_waiting()  # what was shown to the authority before counts no more
            _log.info("the front proxy's authority is another one")
        self._proxy = proxy

    def _renew(self) -> bool:
        changed = self._authority.renew()
        if changed:
            self._guard.close_waiting()
        return changed

    # --- a request ---------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.Response:
        if request.path in ("/healthz", "/livez"):
            return web.Response(text="ok", headers=_UNCACHED)
        if request.path == "/readyz":
            missing = self._api.ready()
            return web.Response(text=missing or "ok", status=503 if missing else 200, headers=_UNCACHED)
        answer = await self._authenticated(request)
        if self._shown(request) is None:  # no certificate, or one that does not count any more
            answer.force_close()
        return answer

    async def _authenticated(self, request: web.Request) -> web.Response:
        user = self._user(request)
        if user is None:
            return _answer(401, status(401, "Unauthorized", "Unauthorized"))
        asked = attributes(request.method, request.path)
        try:
            if not await self._authorizes(user, asked):
                return _answer(403, forbidden(asked, user.name))
            return await self._answered(request, asked)
        except Unavailable as error:
            answer = _answer(503, status(503, "ServiceUnavailable", str(error)))
            if error.again:
                answer.headers["Retry-After"] = str(error.again)
            return answer

    def _shown(self, request: web.Request) -> str | None:
        """Return the common name of the certificate that the connection has shown, None if it has shown none."""
        transport = request.transport
        return self._authority.common_name(transport.get_extra_info("ssl_object")) if transport is not None else None

    def _user(self, request: web.Request) -> UserInfo | None:
        """Return who asks, None if it is not known."""
        name = self._shown(request)
        if name is None or self._proxy is None or not self._proxy.admits(name):
            return None
        try:
            headers = [(key.decode(), value.decode()) for key, value in request.raw_headers]
        except UnicodeDecodeError:  # no name of a user is guessed
            return None
        return self._proxy.user(headers)

    async def _answered(self, request: web.Request, asked: RequestAttributes) -> web.Response:
        path = request.path.rstrip("/") or "/"
        found = self._api.documents.get(path)
        if found is None and not asked.resource:
            return _answer(404, NO_RESOURCE)
        if found is not None and request.method != "GET":
            return _answer(405, NO_METHOD)
        accepted = _accepted(request.headers.getall("Accept", ()), aggregated=path == "/apis")
        if not accepted:
            message = f"only the following media types are accepted: {JSON_TYPE}"
            return _answer(406, status(406, "NotAcceptable", message))
        if accepted == _AGGREGATED:
            return _document(request, self._api.discovery, _AGGREGATED)
        if found is not None:
            return _document(request, found, JSON_TYPE)
        code, body = await self._api.answer(asked, request.query)
        return _answer(code, body)


def _answer(code: int, body: Json | bytes, content_type: str = JSON_TYPE, **headers: str) -> web.Response:
    made = {"Content-Type": content_type, "X-Content-Type-Options": "nosniff", **_UNCACHED, **headers}
    return web.Response(status=code, body=body if isinstance(body, bytes) else orjson.dumps(body), headers=made)


def _document(request: web.Request, document: Json, content_type: str) -> web.Response:
    """Return a document, or the word that it is the one that the client has."""
    tag = f'"{hashlib.sha256(orjson.dumps(document)).hexdigest().upper()}"'
    headers = {"ETag": tag, "Vary": "Accept"}
    if request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers={**_UNCACHED, **headers})
    return _answer(200, document, content_type, **headers)


def _accepted(accept: tuple[str, ...] | list[str], *, aggregated: bool) -> str:
    """Return the first media type that a client takes and that is served, "" for none."""
    clauses = [clause for line in accept for clause in line.split(",") if clause.strip()]
    for clause in clauses or ["*/*"]:
        kind, *rest = (part.strip() for part in clause.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        if aggregated and kind == JSON_TYPE and parameters.get("as") == "APIGroupDiscoveryList":
            if (parameters.get("g"), parameters.get("v")) == ("apidiscovery.k8s.io", "v2"):
                return _AGGREGATED
        elif kind in (JSON_TYPE, "application/*", "*/*") and "as" not in parameters:
            return JSON_TYPE
    return ""
