"""A kubelet's API, as far as it is about pods that run in another cluster: an API server asks here for logs and shells.

In: certificate files, who may ask, which pods there are, a way to where they run. Out: a running server, which hands
requests on and joins the two connections: what is said on them is not looked at. Nobody gets anything without a
certificate of the client authority, or a token that the source's API server knows, and without the right `nodes/proxy`
there."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from dataclasses import dataclass, field
from typing import Protocol

import orjson

from controlplane.kube import kubelet_api
from controlplane.kube.front_proxy import UserInfo
from controlplane.kube.kinds import Json
from controlplane.kube.kubelet_api import KubeletRequest
from controlplane.tasks import end
from controlplane.web.client_authority import ClientAuthority
from controlplane.web.handshakes import TlsServer, listen_with_tls
from controlplane.web.ops import ListenError, why_not
from controlplane.web.webhook import renewing

MOST = 512  # connections at a time: each shell and each log that is followed keeps one
_PATIENCE = 10.0  # seconds for a request to arrive, for a TLS handshake, and for an answer that is not one of ours
_HEAD = 1 << 16  # bytes
_CHUNK = 1 << 16
_KEPT = frozenset({"connection", "upgrade", "x-stream-protocol-version"})
_CONTROL = re.compile(rb"[\x00-\x08\n-\x1f\x7f]")  # a server further on may take them for the end of a line
_UPGRADE_PREFIX = "sec-websocket-"
_PHRASES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
}
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class KubeletRefusal(Exception):  # noqa: N818 - what the user is told
    """A request is not answered; `code` is HTTP's, and the message a sentence for whoever asked."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class KubeletAnswers(Protocol):
    """What a server needs to know. All but `node_of` and `pods` raise `KubeletRefusal`."""

    async def user(self, shown: tuple[str, tuple[str, ...]] | None, token: str) -> UserInfo | None:
        """Return who asks, by the subject of a certificate or by a token; None if that is nobody known."""

    async def allows(self, user: UserInfo, verb: str, node: str) -> bool:
        """Whether somebody may use `nodes/proxy` of a Node, "" for all of them."""

    def node_of(self, namespace: str, pod: str) -> str:
        """Return the virtual Node that a pod is bound to, "" if it is bound to none."""

    def pods(self) -> Json:
        """Return the pods that are bound to virtual Nodes, as a PodList."""

    async def open(self, asked: KubeletRequest, method: str, headers: list[tuple[str, str]]) -> Stream:
        """Hand a request on to where the pod runs, and return the connection."""


@dataclass(slots=True)
class _Head:
    """The head of a request; names of headers in small letters."""

    method: str
    path: str
    query: str
    headers: list[tuple[str, str]] = field(default_factory=list)

    def get(self, name: str) -> str:
        """Return a header's first value, "" if it is not there."""
        return next((value for key, value in self.headers if key == name), "")

    @property
    def token(self) -> str:
        """The bearer token, "" for none."""
        scheme, _, token = self.get("authorization").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""


class KubeletServer:
    """A running server. `port` is the one it got."""

    def __init__(self, answers: KubeletAnswers, authority: ClientAuthority) -> None:
        self._answers, self._authority = answers, authority
        self._open: set[asyncio.Task[None]] = set()
        self._unknown: dict[asyncio.Task[None], asyncio.StreamWriter] = {}  # of `_open`, in the order they came
        self._server: TlsServer | None = None
        self._watching: asyncio.Task[None] | None = None
        self.port = 0

    async def listen(self, address: str, port: int, section: str) -> None:
        """Listen; `ListenError` if that cannot be done, which names the settings of a section."""

        def connected() -> asyncio.Protocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=_HEAD), self._accepted)

        try:
            self._server = listen_with_tls(address, port, connected, self._authority.context, _PATIENCE)
        except OSError as error:
            raise ListenError(why_not(error, address, port, section)) from None
        self.port = self._server.sockets[0].getsockname()[1]
        watching = renewing(self._authority.certificate, self._authority.renew, "kubelet certificate")
        self._watching = asyncio.create_task(watching, name="kubelet certificate")

    async def stop(self) -> None:
        """Stop listening, and cut what is under way."""
        if self._server is not None:
            self._server.close()
        await end(*self._open, *([self._watching] if self._watching is not None else []))

    # --- a connection ------------------------------------------------------------------------------------------------

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if len(self._open) >= MOST and self._unknown:
            self._cut(next(iter(self._unknown)))
        if task is None or len(self._open) >= MOST:
            writer.transport.abort()
            return
        self._open.add(task)
        self._unknown[task] = writer
        try:
            # Whoever goes away, or says what is no request, is told nothing.
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # we stop; the stream's own callback would report it
        finally:
            self._open.discard(task)
            self._unknown.pop(task, None)
            writer.close()

    def _cut(self, task: asyncio.Task[None]) -> None:
        """Close the connection of somebody who has not shown who it is."""
        self._open.discard(task)
        self._unknown.pop(task).transport.abort()
        task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_PATIENCE):
            head = _read(await reader.readuntil(b"\r\n\r\n"))
        try:
            if head is None:
                raise KubeletRefusal(400, "that is no HTTP request")
            asked = kubelet_api.read(head.path, head.query)
            node = self._answers.node_of(asked.namespace, asked.pod) if asked is not None else ""
            await self._admit(head, writer, node)
            if asked is not None and self._answers.node_of(asked.namespace, asked.pod) != node:
                raise KubeletRefusal(
                    503, f'pod "{asked.namespace}/{asked.pod}" was bound to another Node just now; ask again'
                )
            if asked is None:
                _send(writer, 200, *self._plain(head))
            else:
                await self._hand_on(head, asked, (reader, writer))
        except KubeletRefusal as refusal:
            _send(writer, refusal.code, f"{refusal}\n".encode())
        async with asyncio.timeout(_PATIENCE):
            await writer.drain()

    async def _admit(self, head: _Head, writer: asyncio.StreamWriter, node: str) -> None:
        shown = self._authority.subject(writer.get_extra_info("ssl_object"))
        user = await self._answers.user(shown, head.token)
        if user is None:
            raise KubeletRefusal(401, "Unauthorized")
        verb = "get" if head.method == "GET" and not head.get("upgrade") else "create"
        if not await self._answers.allows(user, verb, node):
            raise KubeletRefusal(403, f'user "{user.name}" may not {verb} nodes/proxy')
        if (task := asyncio.current_task()) is not None:
            self._unknown.pop(task, None)

    def _plain(self, head: _Head) -> tuple[bytes, str]:
        """Return body and type of what is about no pod."""
        if head.method != "GET":
            raise KubeletRefusal(405, "only GET is answered here")
        match head.path.rstrip("/"):
            case "/healthz":
                return b"ok", "text/plain"
            case "/pods":
                return orjson.dumps(self._answers.pods()), "application/json"
            case "/stats/summary" | "/metrics" | "/metrics/resource" | "/metrics/cadvisor" | "/metrics/probes":
                raise KubeletRefusal(501, "a virtual Node measures nothing: ask the cluster in which its pods run")
            case _:
                raise KubeletRefusal(404, "a virtual Node has no such path")

    async def _hand_on(self, head: _Head, asked: KubeletRequest, client: Stream) -> None:
        _check(head, asked)
        kept = [(key, value) for key, value in head.headers if asked.streams and _is_kept(key)]
        target = await self._answers.open(asked, head.method, kept)
        _keep_alive(client[1], target[1])
        # What the client says is handed on once the target has agreed to an upgrade. Before, and of a log, it is read
        # alone: so it is noticed if the client goes, and the target takes nothing of it for another request.
        early = asyncio.create_task(client[0].read(_CHUNK), name="from the client")
        upward: asyncio.Task[None] | None = None
        try:
            answer = await _answer(target[0], early)
            if answer is None:
                return
            code = _code(answer)
            if code != 101 and (asked.streams or code >= 300):
                raise KubeletRefusal(502 if code == 401 else code, await _refusal(target[0]))
            client[1].write(answer)
            upward = asyncio.create_task(
                _upward(early, client[0], target[1] if code == 101 else None), name="to the target"
            )
            downward = asyncio.create_task(_copy(target[0], client[1]), name="from the target")
            try:
                await asyncio.wait([upward, downward], return_when=asyncio.FIRST_COMPLETED)
            finally:
                await end(downward)
        finally:
            await end(early, *([upward] if upward is not None else []))
            target[1].close()


def _check(head: _Head, asked: KubeletRequest) -> None:
    """Refuse a request that is not made as its kind is."""
    if not asked.streams and head.method != "GET":
        raise KubeletRefusal(405, "logs are got by GET")
    if asked.streams and not head.get("upgrade"):
        raise KubeletRefusal(400, "this needs a connection that is upgraded, by SPDY or WebSocket")


def _read(raw: bytes) -> _Head | None:
    """Return the head of a request, None if it is none."""
    try:
        first, *lines = raw.decode("latin-1").split("\r\n")[:-2]
        method, target, version = first.split(" ")
    except ValueError:
        return None
    pairs = [line.partition(":")[::2] for line in lines]
    if not version.startswith("HTTP/1.") or not target.startswith("/") or _CONTROL.search(raw.replace(b"\r\n", b"")):
        return None
    path, _, query = target.partition("?")
    return _Head(method, path, query, [(key.strip().lower(), value.strip()) for key, value in pairs])


def _is_kept(header: str) -> bool:
    """Whether a header belongs to an upgrade. What else the API server says is meant for a kubelet of its own."""
    return header in _KEPT or header.startswith(_UPGRADE_PREFIX)


async def _answer(reader: asyncio.StreamReader, early: asyncio.Task[bytes]) -> bytes | None:
    """Return the head of an answer, however long it takes (a log that is followed may have nothing to say for hours);
    None if whoever asked has gone meanwhile."""
    reading = asyncio.create_task(reader.readuntil(b"\r\n\r\n"), name="answer of the target")
    try:
        await asyncio.wait([reading, early], return_when=asyncio.FIRST_COMPLETED)
        if not reading.done() and (early.exception() is not None or not early.result()):
            return None
        return await reading
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise KubeletRefusal(502, "the cluster in which the pod runs did not answer") from None
    finally:
        await end(reading)


def _code(answer: bytes) -> int:
    try:
        return int(answer.split(b" ", 2)[1])
    except (IndexError, ValueError):
        return 502


async def _refusal(reader: asyncio.StreamReader) -> str:
    """Return what an API server says against it: the message of its Status."""
    body = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):  # an answer that keeps its connection does not end
            while len(body) < _HEAD and (more := await reader.read(_CHUNK)):
                body += more
                if body.rstrip().endswith(b"}"):
                    break
    with contextlib.suppress(ValueError):
        found = orjson.loads(body[body.find(b"{") : body.rfind(b"}") + 1])
        return str(found["message"] if isinstance(found, dict) and "message" in found else found)
    return body.decode(errors="replace").strip() or "the cluster in which the pod runs refused it"


def _send(writer: asyncio.StreamWriter, code: int, body: bytes, content_type: str = "text/plain") -> None:
    lines = [
        f"HTTP/1.1 {code} {_PHRASES.get(code, 'OK' if code < 300 else 'Error')}",
        f"Content-Type: {content_type}; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)


def _keep_alive(*writers: asyncio.StreamWriter) -> None:
    """Notice a peer that is gone without a word: nothing else ends a quiet shell."""
    for writer in writers:
        connection = writer.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


async def _upward(
    early: asyncio.Task[bytes], client: asyncio.StreamReader, target: asyncio.StreamWriter | None
) -> None:
    """Hand on what a client says, what it said early first; without a target only wait until it goes."""
    with contextlib.suppress(OSError):
        data = await early
        while data:
            if target is not None:
                target.write(data)
                await target.drain()
            data = await client.read(_CHUNK)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
