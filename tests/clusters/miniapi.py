"""An API server of a few dozen lines for the tests of `controlplane.clusters`: what it does wrong is set by the test,
what it was asked is recorded."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.kube.kinds import JOBS, WORKLOADS, Kind
from tests.support.waiting import PATIENCE

TOKEN = "s3cr3t-t0ken"
END = object()
CUT = object()


async def until(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Poll until the condition holds; the deadline only turns a hang into a failure."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition did not come true"
        await asyncio.sleep(0.005)
    return found


def status(code: int, reason: str = "", message: str = "", retry: int | None = None) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message or reason}
    headers = {"Retry-After": str(retry)} if retry is not None else {}
    return web.json_response(body, status=code, headers=headers)


def obj(name: str, version: int | str, uid: str = "", **metadata: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta | {"managedFields": [{"manager": "m"}]} | metadata, "spec": {}}


def line(type_: str, found: dict[str, Any]) -> bytes:
    return json.dumps({"type": type_, "object": found}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def gone_line() -> bytes:
    return line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})


@dataclass
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any

    @property
    def watching(self) -> bool:
        return self.query.get("watch") == "true"


@dataclass
class MiniApi:
    """`objects` by plural; `refuse` by (list or watch, plural); `hang` answers nothing; `incarnation` is kube-system's
    UID. `next_answers` are for whatever is asked next, and whether it is alive is asked at any time; `write_answers`
    wait for writes.
    """

    token: str = TOKEN
    version: int = 10
    incarnation: str = "inc-1"
    hang: bool = False
    objects: dict[str, list[Any]] = field(default_factory=dict)
    refuse: dict[tuple[str, str], Callable[[], web.Response]] = field(default_factory=dict)
    next_answers: list[web.Response] = field(default_factory=list)
    write_answers: list[web.Response] = field(default_factory=list)
    requests: list[Seen] = field(default_factory=list)
    streams: dict[str, asyncio.Queue[Any]] = field(default_factory=dict)
    open_watches: int = 0
    url: str = ""

    def stream(self, kind: Kind = WORKLOADS) -> asyncio.Queue[Any]:
        """The queue whose bytes the kind's watch shows; END ends it in the ordinary way, CUT breaks it."""
        return self.streams.setdefault(kind.plural, asyncio.Queue())

    def lists(self, kind: Kind = WORKLOADS) -> list[Seen]:
        return [
            seen
            for seen in self.requests
            if seen.path.endswith("/" + kind.plural) and not seen.watching and seen.method == "GET"
        ]

    def watches(self, kind: Kind = WORKLOADS) -> list[Seen]:
        return [seen for seen in self.requests if seen.path.endswith("/" + kind.plural) and seen.watching]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        seen = Seen(
            request.method, request.path, dict(request.query), dict(request.headers), json.loads(text) if text else None
        )
        self.requests.append(seen)
        if self.hang:
            await asyncio.sleep(3600)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return status(401, "Unauthorized")
        if self.write_answers and seen.method != "GET":
            return self.write_answers.pop(0)
        if self.next_answers and not seen.watching:
            return self.next_answers.pop(0)
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.34.2"})
        if request.path == "/api/v1/namespaces/kube-system":
            if not self.incarnation:
                return status(403, "Forbidden")
            return web.json_response({"metadata": {"name": "kube-system", "uid": self.incarnation}})
        plural = request.path.rsplit("/", 1)[1]
        what = "watch" if seen.watching else "list"
        if (what, plural) in self.refuse:
            return self.refuse[what, plural]()
        if seen.watching:
            return await self._watch(request, plural)
        return self._list(seen, plural)

    def _list(self, seen: Seen, plural: str) -> web.Response:
        items = self.objects.get(plural, [])
        start, limit = int(seen.query.get("continue", 0)), int(seen.query.get("limit", 0)) or len(items) + 1
        end = start + limit
        meta = {"resourceVersion": str(self.version)} | ({"continue": str(end)} if end < len(items) else {})
        return web.json_response({"kind": "List", "metadata": meta, "items": items[start:end]})

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        queue = self.streams.setdefault(plural, asyncio.Queue())
        self.open_watches += 1
        try:
            while True:
                piece = await queue.get()
                if piece is END:
                    return response
                if piece is CUT:
                    assert request.transport is not None
                    request.transport.abort()
                    return response
                await response.write(piece)
        finally:
            self.open_watches -= 1


@asynccontextmanager
async def serving(api: MiniApi, context: ssl.SSLContext | None = None) -> AsyncIterator[MiniApi]:
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    api.url = f"{'https' if context else 'http'}://127.0.0.1:{port}"
    try:
        yield api
    finally:
        await runner.cleanup()


def config(api: MiniApi, token: str = TOKEN) -> ClientConfig:
    return ClientConfig(server=api.url, token=token)


def kubeconfig(server: str, token: str = TOKEN) -> bytes:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    return json.dumps(document).encode()


@dataclass
class Recorder:
    """A sink and a receiver of facts in one; `gate` holds the sink back while it is cleared."""

    deltas: list[Any] = field(default_factory=list)
    batches: list[list[Any]] = field(default_factory=list)
    facts: list[tuple[str, Any]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    fail: Exception | None = None

    def __post_init__(self) -> None:
        self.gate.set()

    async def sink(self, cluster: str, deltas: Any) -> None:
        await self.gate.wait()
        if self.fail is not None:
            raise self.fail
        self.batches.append(list(deltas))
        self.deltas += deltas

    async def fact(self, cluster: str, fact: Any) -> None:
        self.facts.append((cluster, fact))

    def of(self, kind: type) -> list[Any]:
        return [found for found in [*self.deltas, *(fact for _, fact in self.facts)] if isinstance(found, kind)]

    def seen(self) -> list[str]:
        """Changes as `op name@resourceVersion`, `synced`/`gap` and `off`, in order."""
        return [_short(delta) for delta in self.deltas]


def _short(delta: Any) -> str:
    name = type(delta).__name__
    if name == "Synced":
        return "gap" if delta.gap else "synced"
    if name == "Off":
        return f"off {delta.reason}"
    return f"{delta.op} {delta.object['metadata']['name']}@{delta.resource_version}"


KINDS = (WORKLOADS, JOBS)
