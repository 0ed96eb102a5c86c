"""Reaches one API server over HTTP: the `ApiServer` protocol on an aiohttp session of our own.

The stock client spends most of its time asking the environment for proxies, has no time-outs unless configured, cannot
read a watch line beyond 4 MiB and picks patch types that servers refuse. So: explicit content types, explicit
time-outs, no environment, no redirects, bytes in and dicts out. Nothing is retried here and nothing is paced: that is
`verbs.py`, `reflector.py` and `budget.py`."""

from __future__ import annotations

import functools
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import metadata
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
import orjson

from controlplane.clusters.credentials import Credentials, StaticToken
from controlplane.clusters.exec_credentials import ExecCredentials, ExecFailed, KeyPair
from controlplane.clusters.kubeconfig import ClientConfig, KubeconfigError
from controlplane.clusters.lines import LineSplitter, LineTooLong
from controlplane.clusters.protocol import ApiError, Unreachable, UnreadableResponse
from controlplane.clusters.response_body import ENCODING, OBJECT, PAGE, body_of, packed, refusal_of
from controlplane.clusters.responses import api_error, decoded, scrubbed
from controlplane.clusters.sockets import kept_alive
from controlplane.clusters.streams import ApiServer, Lines, ListPage, ListQuery, WatchQuery
from controlplane.clusters.tls import tls_context
from controlplane.clusters.tunnel import Headers, Stream, open_tunnel
from controlplane.clusters.validation import version_of
from controlplane.kube.expiry import certificate_expiry
from controlplane.kube.kinds import APPLY_PATCH, JSON_TYPE, Json, Kind, Request, is_path_part

_READ_BUFFER = 1 << 21
# Of what a path may hold all but what ends it (RFC 3986).
_UNQUOTED = "/:@!$&'()*+,;="


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to open a connection, for a whole request, and for one page of a list (a cold server converts
    slowly).
    """

    connect: float = 10.0
    request: float = 30.0
    list_page: float = 120.0


@functools.cache
def _version() -> str:
    """Return the version of this program. To find it, a file is read and parsed, and there is a connection for each
    cluster."""
    return metadata.version("controlplane")


class Transport(ApiServer):
    """The verbs, lists and watches of one API server. Build it inside a running event loop; `close` it.

    `identity` (the leader's) goes into the User-Agent. Errors carry neither headers nor bodies of ours.
    """

    def __init__(
        self,
        name: str,
        config: ClientConfig,
        *,
        identity: str = "",
        timeouts: Timeouts | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.name = name
        self._config = config
        self._credentials: Credentials = credentials or config.credentials or StaticToken(config.token)
        self._timeouts = timeouts or Timeouts()
        https = urlsplit(config.server).scheme == "https"
        self._ssl: ssl.SSLContext | bool = tls_context(config) if https else True
        self._user_agent = f"controlplane/{_version()}" + (f" ({identity})" if identity else "")
        self._session: aiohttp.ClientSession | None = None
        self._key_pair = KeyPair()
        self._outdated: list[aiohttp.ClientSession] = []
        self._open: set[aiohttp.ClientResponse] = set()
        self._closed = False
        self.date = ""  # the header Date of the last answer: the server's clock, to the second

    @property
    def config(self) -> ClientConfig:
        """How the server is reached."""
        return self._config

    @property
    def certificate_ends(self) -> datetime | None:
        """When the client certificate of the kubeconfig ends; None if there is none that says."""
        return certificate_expiry(self._config.client_certificate_data)

    def __repr__(self) -> str:
        return f"Transport({self.name!r}, {self._config.server!r})"

    async def get(self, kind: Kind, namespace: str, name: str, timeout: float | None = None) -> Json:
        """Return one object; 404 for what cannot be a name."""
        _check_place(kind.name, namespace, name)
        return await self._json("GET", kind.path(namespace, name), timeout=timeout)

    async def resources(self, api_version: str) -> Json:
        """Return the APIResourceList of a group and version; 404 if it is not served."""
        _check_place("API version", *api_version.split("/", 1))
        return await self._json("GET", f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}")

    async def write(self, request: Request) -> Json:
        """Send one write and return the answer; 404 for what cannot be a name."""
        _check_place(request.ref.kind.name, request.ref.namespace, request.ref.name)
        ref, query = request.ref, _present(fieldManager=request.field_manager)
        path = ref.kind.path(ref.namespace, ref.name, request.subresource)
        if request.verb == "delete":
            options: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": request.propagation}
            if request.grace is not None:
                options["gracePeriodSeconds"] = request.grace
            if preconditions := _present(uid=request.uid, resourceVersion=request.resource_version):
                options["preconditions"] = preconditions
            return await self._json("DELETE", path, {}, options, JSON_TYPE)
        if request.verb == "patch":
            query |= _present(force="true" if request.content_type == APPLY_PATCH else "")
            return await self._json("PATCH", path, query, request.body, request.content_type)
        path = path if request.subresource else ref.kind.path(ref.namespace)
        return await self._json("POST", path, query, request.body, JSON_TYPE)

    async def list(self, query: ListQuery) -> ListPage:
        """Return one page of the objects of a namespace, or of all."""
        kind, path, timeout = query.kind, query.kind.path(query.namespace), self._timeouts.list_page
        asked = _present(
            labelSelector=query.label_selector,
            fieldSelector=query.field_selector,
            **{"continue": query.continue_token},
            limit=str(query.limit or ""),
        )
        body = await self._json("GET", path, asked, timeout=timeout, most=PAGE)
        items, version = body.get("items"), version_of(body.get("metadata"))
        if not isinstance(items, list | None) or not version:
            raise UnreadableResponse(f"{self.name}: the answer to a list of {kind.name} is not a list")
        token = body["metadata"].get("continue") or ""
        if not isinstance(token, str):
            raise UnreadableResponse(f"{self.name}: the answer to a list of {kind.name} does not say where it goes on")
        return ListPage(items or [], version, token)

    async def watch(self, query: WatchQuery) -> Lines:
        """Yield complete lines as they arrive, of any length, until the server ends the stream."""
        kind = query.kind
        asked = _present(
            labelSelector=query.label_selector,
            fieldSelector=query.field_selector,
            resourceVersion=query.resource_version,
        )
        asked |= {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(query.timeout_seconds)}
        timeout = aiohttp.ClientTimeout(total=None, connect=self._timeouts.connect, sock_read=query.idle_timeout)
        # Compressed, a line would wait in the server's compressor for more to follow.
        headers = {"Accept": JSON_TYPE, "Accept-Encoding": "identity"}
        lines = LineSplitter()
        async with self._request("GET", kind.path(query.namespace), asked, timeout, headers) as response:
            if response.status != 200:
                refused = await refusal_of(response, self.name)
                raise api_error(response.status, response.headers, refused, kind.path(query.namespace))
            if "json" not in response.content_type or packed(response):
                raise UnreadableResponse(
                    f"{self.name}: a watch of {kind.name} answered {response.content_type} {packed(response)}"
                )
            while chunk := await response.content.readany():
                if complete := lines.feed(chunk):
                    yield complete

    async def tunnel(self, method: str, path: str, headers: Headers) -> Stream:
        """Send one request on a connection of its own and return that, for whoever reads the answer."""
        authorization = await self._authorization()
        await self._present_certificate()
        context = self._ssl if isinstance(self._ssl, ssl.SSLContext) else None
        return await open_tunnel(self.name, self._config, context, (method, path, headers), authorization)

    async def version(self, timeout: float) -> Json:
        """Return `/version`, within `timeout` seconds in all."""
        return await self._json("GET", "/version", timeout=timeout)

    async def close(self) -> None:
        """Close every connection; whatever is under way fails as `Unreachable`."""
        self._closed = True
        for response in self._open:  # aiohttp closes the sockets but leaves whoever reads a body waiting
            response.content.set_exception(aiohttp.ClientConnectionError("the connection was closed"))
        for session in (*self._outdated, *([self._session] if self._session is not None else [])):
            await session.close()

    async def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        content_type: str = "",
        timeout: float | None = None,
        most: int = OBJECT,
    ) -> Json:
        """Send one request and return the decoded object of its answer, which has `most` bytes at the most."""
        total = timeout or self._timeouts.request
        limits = aiohttp.ClientTimeout(total=total, connect=min(total, self._timeouts.connect))
        headers = {"Accept": JSON_TYPE, "Accept-Encoding": ENCODING} | _present(**{"Content-Type": content_type})
        data = None if body is None else orjson.dumps(body)
        async with self._request(method, path, query or {}, limits, headers, data) as response:
            if response.status >= 300:
                raise api_error(response.status, response.headers, await refusal_of(response, self.name), path)
            return decoded(await body_of(response, most, self.name), self.name)

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        headers: dict[str, str],
        data: bytes | None = None,
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """Open one request; every way in which no whole answer comes back leaves as `Unreachable`."""
        authorization = await self._authorization()
        await self._present_certificate()
        try:
            async with self._opened().request(
                method,
                self._config.server + quote(path, safe=_UNQUOTED),
                params=query,
                data=data,
                headers=headers | _present(Authorization=authorization),
                timeout=timeout,
                proxy=self._config.proxy_url or None,
                server_hostname=self._config.tls_server_name or None,
                allow_redirects=False,
            ) as response:
                self.date = response.headers.get("Date", "")
                if response.status == 401:
                    self._credentials.rejected()
                self._open.add(response)
                try:
                    yield response
                finally:
                    self._open.discard(response)
        except (aiohttp.ClientError, TimeoutError, OSError, LineTooLong, ValueError) as error:
            # The cause would carry the request's headers along; its kind and text are enough.
            text = scrubbed(_why(error), authorization, self._config.proxy_url)
            raise Unreachable(f"{self.name}: {text}") from None
        except RuntimeError:
            if not self._closed:
                raise
            raise Unreachable(f"{self.name}: the connection was closed") from None

    async def _authorization(self) -> str:
        try:
            header = await self._credentials.authorization()
        except ExecFailed as error:
            raise Unreachable(f"{self.name}: {error}") from None
        except Exception as error:  # an exec plugin or a file; what either says may hold what it should not
            raise Unreachable(f"{self.name}: no credentials ({type(error).__name__})") from None
        if header and not self._config.may_carry_token:
            raise Unreachable(f"{self.name}: credentials are not sent over plain http to another machine")
        return header

    async def _present_certificate(self) -> None:
        """Take the client certificate that an exec plugin gives; a new one is for new connections, and what is under
        way ends on the old ones."""
        if not isinstance(self._credentials, ExecCredentials):
            return
        try:
            pair = await self._credentials.key_pair()
            if pair == self._key_pair:
                return
            config = replace(self._config, client_certificate_data=pair.certificate, client_key_data=pair.key)
            if isinstance(self._ssl, ssl.SSLContext):
                self._ssl = tls_context(config)
        except (ExecFailed, KubeconfigError) as error:
            raise Unreachable(f"{self.name}: {error}") from None
        self._key_pair = pair
        if self._session is not None:
            for session in self._outdated:  # on which nothing has begun since the certificate before
                await session.close()
            self._outdated, self._session = [self._session], None

    def _opened(self) -> aiohttp.ClientSession:
        """Return the session, made on first use: no environment, no cap of its own on connections (the budget has
        one).
        """
        if self._closed:
            raise RuntimeError("closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, ssl=self._ssl, keepalive_timeout=60.0, socket_factory=kept_alive
                ),
                headers={"User-Agent": self._user_agent},
                trust_env=False,
                read_bufsize=_READ_BUFFER,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session


def _why(error: Exception) -> str:
    """Return why there is no answer; of a server whose certificate is not to be trusted, what is to be corrected."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        why = getattr(cause, "verify_message", "") or str(cause)
        return (
            f"the certificate of {error.host}:{error.port} is not trusted ({why}): the kubeconfig's "
            "certificate-authority-data has to be that of this API server, and its address, or tls-server-name, a "
            "name in the certificate"
        )
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _check_place(what: str, *parts: str) -> None:
    """Raise 404 for what no object can be called: names come from owner references too, which may hold any text."""
    wrong = next((part for part in parts if part and not is_path_part(part)), None)
    if wrong is not None:
        raise ApiError(404, "NotFound", f"{what}: {wrong[:60]!a} is no name", name=parts[-1])


def _present(**values: Any) -> dict[str, str]:
    """Return only what is not empty."""
    return {key: value for key, value in values.items() if value}
