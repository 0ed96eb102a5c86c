"""A simulated cluster's API server: the Kubernetes REST protocol over HTTP, in front of one `Store`.

In: HTTP requests of any client that speaks the protocol, kubectl included. Out: answers and watches, and whatever
trouble `Faults` prescribes. Everything about objects is the store's; everything about the protocol is in `rest`,
`watching`, `shown` and `discovery`; connections are here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import web

from controlplane.clusters.protocol import ApiError
from controlplane.kube.kinds import JSON_TYPE, PODS, Json, Kind
from controlplane.simulation.apiserver import errors
from controlplane.simulation.apiserver.access_reviews import AccessReviews
from controlplane.simulation.apiserver.discovery import AGGREGATED, Discovery
from controlplane.simulation.apiserver.faults import Fault, Faults, MatchedRequest
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.apiserver.openapi import V2_ANSWERED, V2_ASKED
from controlplane.simulation.apiserver.pod_logs import lines_of, log_options, shortened
from controlplane.simulation.apiserver.protobuf import MEDIA_TYPE
from controlplane.simulation.apiserver.representation import Representation, form_of
from controlplane.simulation.apiserver.rest import ApiCall, Response, Rest
from controlplane.simulation.apiserver.routes import CONNECTED, ResourceRoute, Routes
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.apiserver.watching import Watch, error_line

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_LARGEST_BODY = 3 * 1024 * 1024
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what people asked for, and how it is reached
_LINGER_NONE = struct.pack("ii", 1, 0)


class SimulatedApiServer:
    """The API server of one simulated cluster.

    `token` is the bearer token that every request must carry, empty for none. `counts` counts requests by (verb,
    `plural.group`, subresource), `watches` the watches that were opened, by `plural.group`; `user_agent` is the last
    one seen. `bookmark_period` is in seconds. `access` answers who may
    do what.
    """

    def __init__(
        self, store: Store, *, token: str = "", faults: Faults | None = None, bookmark_period: float = 60.0
    ) -> None:
        self.store, self.token, self.bookmark_period = store, token, bookmark_period
        self.faults = faults or Faults()
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.watches: Counter[str] = Counter()
        self.user_agent = ""
        self.url = ""
        self.access = AccessReviews()
        self._rest = Rest(store)
        self._routes = Routes(store.served.values())
        self._discovery = Discovery(store.served.values())
        self._open: dict[Watch, tuple[Kind, MatchedRequest, web.BaseRequest]] = {}
        self._web: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self._unlisten: Callable[[], None] | None = None
        self.faults.on_add(self._feel)

    @property
    def open_watches(self) -> int:
        """How many watches are open now."""
        return len(self._open)

    async def start(self, port: int = 0, address: str = "127.0.0.1") -> str:
        """Listen on an IP address and return the URL; OSError if the port is taken.

        The URL of a server that listens on every address names loopback: the way from here, and from the host of a
        container that publishes the port there."""
        self._web = web.Server(
            self._handle, request_factory=_request, handler_cancellation=True, access_log=None, keepalive_timeout=75
        )
        # Not serving yet: interrupted while it begins to, it would listen, and nobody could close it.
        self._listener = await asyncio.get_running_loop().create_server(
            self._accept, address, port, start_serving=False
        )
        self._unlisten = self.store.listen(self._wake)
        host = _LOOPBACK.get(address, address)
        spelled = f"[{host}]" if ":" in host else host
        self.url = f"http://{spelled}:{self._listener.sockets[0].getsockname()[1]}"
        try:
            await self._listener.start_serving()
        except OSError:
            await self.stop()
            raise
        return self.url

    async def stop(self) -> None:
        """Close every connection and stop listening; does nothing if it is not running."""
        if self._web is None or self._listener is None:
            return
        if self._unlisten is not None:
            self._unlisten()
        self._listener.close()
        for connection in self._web.connections:
            if connection.transport is not None:
                connection.transport.abort()
        web_server, listener = self._web, self._listener
        self._web = self._listener = self._unlisten = None
        await web_server.shutdown(1.0)
        await listener.wait_closed()

    def kubeconfig(self, *, for_kubectl: bool = False) -> Json:
        """Return a kubeconfig with the URL and token.

        kubectl sends credentials over TLS only; `for_kubectl` therefore puts the token into the path of the URL,
        which the server takes as well.
        """
        name = self.store.name
        server = f"{self.url}/~{self.token}" if for_kubectl and self.token else self.url
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": server}}],
            "users": [{"name": name, "user": {"token": self.token} if self.token else {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }

    # Connections

    def _accept(self) -> asyncio.BaseProtocol:
        assert self._web is not None
        return _Refused() if self.faults.holds("cut") else self._web()

    def _feel(self, fault: Fault) -> None:
        """Let a new cut reset what is open already: everything, or the watches that it is meant for."""
        if fault.kind != "cut" or self._web is None:
            return
        if not fault.narrow:
            for connection in self._web.connections:
                _reset(connection.transport)
            return
        for _, asked, request in list(self._open.values()):
            if fault.fits(asked):
                _reset(request.transport)

    def _wake(self, commit: Commit) -> None:
        for watch, (kind, _, _) in self._open.items():
            if kind == commit.record.kind:
                watch.wake.set()

    # Requests

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.user_agent = request.headers.get("User-Agent", "")
        path, authorized = self._path(request)
        if (review := self.access.matched(request.method, path)) is not None:
            return await self._checked(request, review, authorized) or await self._reviewed(request, path, review)
        try:
            route = self._routes.find(request.method, path, request.query)
        except ApiError as error:
            return await self._checked(request, MatchedRequest(""), authorized) or _status(error)
        asked = route.asked if route is not None else MatchedRequest("get")
        refused = await self._checked(request, asked, authorized or path in _HEALTH)
        if refused is not None:
            return refused
        try:
            return self._described(request, path) if route is None else await self._routed(request, route)
        except ApiError as error:
            if asked.verb in _WRITES and self.faults.strike("reply-lost", asked):
                await _vanish(request)
            return _status(error)

    async def _routed(self, request: web.BaseRequest, route: ResourceRoute) -> web.StreamResponse:
        if route.verb == "watch":
            return await self._watch(request, route)
        if route.served.kind == PODS and route.subresource == "log":
            return await self._log(request, route)
        if route.served.kind == PODS and route.subresource in CONNECTED:
            raise errors.nothing_runs(
                self.store.record(PODS, route.namespace, route.name).name, CONNECTED[route.subresource]
            )
        return await self._answer(request, route)

    def _path(self, request: web.BaseRequest) -> tuple[str, bool]:
        """Return the path without a token in it, and whether the request is authorized."""
        path = request.path
        if not self.token:
            return path, True
        prefix = f"/~{self.token}"
        if path.startswith(prefix):
            return path[len(prefix) :] or "/", True
        return path, request.headers.get("Authorization") == f"Bearer {self.token}"

    async def _checked(self, request: web.BaseRequest, asked: MatchedRequest, authorized: bool) -> web.Response | None:
        """Let the faults strike, then check the token; return a refusal, or None if the request may go on."""
        if self.faults.strike("cut", asked):
            await _vanish(request)
        if self.faults.strike("half-open", asked):
            await _silence()
        if slow := self.faults.strike("slow", asked):
            await asyncio.sleep(slow.seconds)
        if not authorized:
            return _status(errors.unauthorized())
        if storm := self.faults.strike("status", asked):
            return _status(_storm(storm))
        return None

    async def _reviewed(self, request: web.BaseRequest, path: str, asked: MatchedRequest) -> web.Response:
        self.counts[asked.verb, asked.resource, asked.subresource] += 1
        try:
            review = self.access.answer(path, await request.read(), _content_type(request))
            return _json(Response(201, orjson.dumps(review)))
        except ApiError as error:
            return _status(error)

    def _described(self, request: web.BaseRequest, path: str) -> web.Response:
        if path in _HEALTH:
            return web.Response(text="ok")
        accept = request.headers.get("Accept", "")
        if "as=APIGroupDiscoveryList" in accept and (found := self._discovery.aggregated(path)) is not None:
            return web.Response(body=orjson.dumps(found), headers={"Content-Type": AGGREGATED})
        document = self._discovery.document(path)
        if document is None:
            return web.Response(status=404, text="404 page not found\n")
        if path.startswith("/openapi/v2"):
            if accept.startswith(V2_ASKED):
                return web.Response(body=self._discovery.openapi_protobuf, headers={"Content-Type": V2_ANSWERED})
            if JSON_TYPE not in accept and "*/*" not in accept and accept:
                return web.Response(status=406)
        return _json(Response(200, orjson.dumps(document)))

    def _shown(self, request: web.BaseRequest, route: ResourceRoute) -> Representation:
        include = request.query.get("includeObject", "Metadata")
        return Representation(route.served, form_of(request.headers.get("Accept", "")), self.store.now, include)

    async def _answer(self, request: web.BaseRequest, route: ResourceRoute) -> web.Response:
        body = await request.read()
        asked = route.asked
        self.counts[asked.verb, asked.resource, asked.subresource] += 1
        content_type = _content_type(request)
        if route.verb in ("create", "update", "delete", "deletecollection"):
            self._check_media(route, content_type)
        shown = self._shown(request, route)
        answer = self._rest.call(ApiCall(route, request.query, content_type, self.user_agent, body, shown))
        if asked.verb in _WRITES and self.faults.strike("reply-lost", asked):
            await _vanish(request)
        return _json(answer)

    async def _log(self, request: web.BaseRequest, route: ResourceRoute) -> web.StreamResponse:
        """Answer with what a container has printed, and with what it prints until it ends if it is followed."""
        options, changed, store = log_options(request.query, self.store.now()), asyncio.Event(), self.store
        place = route.namespace, route.name
        lines, more = lines_of(store.get(PODS, *place), options)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        unlisten = store.listen(lambda commit: changed.set() if commit.record.place == place else None)
        try:
            await response.write("".join(shortened(lines, options)).encode()[: options.limit])
            while options.follow and more:
                await changed.wait()
                changed.clear()
                printed = len(lines)
                lines, more = lines_of(store.get(PODS, *place), options)
                await response.write("".join(lines[printed:]).encode())
        except (ConnectionError, ApiError):  # who followed has gone, or the pod has
            pass
        finally:
            unlisten()
        with contextlib.suppress(ConnectionError):
            await response.write_eof()
        return response

    def _check_media(self, route: ResourceRoute, content_type: str) -> None:
        """415 for a body of a type that the kind does not take: custom kinds have no protobuf."""
        accepted = [JSON_TYPE, "application/yaml", *([MEDIA_TYPE] if route.served.builtin else [])]
        if content_type not in accepted and (route.verb in ("create", "update") or content_type == MEDIA_TYPE):
            raise errors.unsupported_media(accepted)

    async def _watch(self, request: web.BaseRequest, route: ResourceRoute) -> web.StreamResponse:
        asked, shown = route.asked, self._shown(request, route)
        self.watches[asked.resource] += 1
        gone = self.faults.strike("gone", asked)
        lost = errors.expired("too old resource version: the history begins later")
        if gone is not None and not gone.inline:
            raise lost
        watch = Watch(self.store, route, request.query, shown, bookmark_period=self.bookmark_period)
        response = web.StreamResponse(headers={"Content-Type": JSON_TYPE, "Cache-Control": "no-cache, private"})
        await response.prepare(request)
        self._open[watch] = (route.served.stored, asked, request)
        try:
            if gone is not None:
                await response.write(error_line(lost))
            else:
                await self._stream(watch, asked, response)
        except ConnectionError:
            return response
        finally:
            del self._open[watch]
        with contextlib.suppress(ConnectionError):
            await response.write_eof()
        return response

    async def _stream(self, watch: Watch, asked: MatchedRequest, response: web.StreamResponse) -> None:
        async for lines in watch.lines():
            if self.faults.holds("half-open", asked):
                self.faults.strike("half-open", asked)
                await _silence()
            if self.faults.holds("duplicate", asked):
                lines = [copy for line in lines for copy in self._copies(line, asked)]
            await response.write(b"".join(lines))

    def _copies(self, line: bytes, asked: MatchedRequest) -> list[bytes]:
        return [line, line] if self.faults.strike("duplicate", asked) else [line]


class _Refused(asyncio.Protocol):
    """A connection that is reset as soon as it is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Reset it."""
        _reset(transport)


def _content_type(request: web.BaseRequest) -> str:
    return request.headers.get("Content-Type", JSON_TYPE).partition(";")[0].strip()


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: asyncio.Task[None]) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=_LARGEST_BODY)


def _reset(transport: asyncio.BaseTransport | None) -> None:
    """Cut a connection with a TCP reset."""
    if not isinstance(transport, asyncio.Transport):
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
    transport.abort()


async def _vanish(request: web.BaseRequest) -> None:
    """Reset the connection that a request came on; the handler is cancelled with it."""
    _reset(request.transport)
    await _silence()


async def _silence() -> None:
    """Wait until the connection is gone."""
    await asyncio.get_running_loop().create_future()


def _storm(fault: Fault) -> ApiError:
    reason = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}.get(
        fault.status, ""
    )
    return ApiError(fault.status, reason, "the server is simulated to be in trouble", fault.retry_after)


def _status(error: ApiError) -> web.Response:
    response = _json(Response(error.status, orjson.dumps(errors.status_body(error))))
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(int(error.retry_after))
    return response


def _json(answer: Response) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": JSON_TYPE})
