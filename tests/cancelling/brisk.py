"""An API server and a clock that take turns of the event loop and no time: whatever waits for them is soon further on.

In: calls. Out: answers after a turn or two; a watch that tells of one object, ends, and from then on is silent. Each
second attempt to reach the server fails, so that losses and returns happen too."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import orjson

from controlplane.clusters.connection_config import ConnectionConfig
from controlplane.clusters.protocol import ApiError, Delta, Unreachable
from controlplane.clusters.streams import ApiServer, ListPage, ListQuery, WatchQuery
from controlplane.kube.kinds import JOBS, WORKLOADS, Json, Kind, Request
from controlplane.kube.watches import WatchSpec

KUBECONFIG = orjson.dumps(
    {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "w", "cluster": {"server": "https://w.example.com"}}],
        "users": [{"name": "w", "user": {"token": "t"}}],
        "contexts": [{"name": "w", "context": {"cluster": "w", "user": "w"}}],
        "current-context": "w",
    }
)
_SILENT_AFTER = 40


class Clock:
    """Virtual time that passes when somebody waits for it; after a while it stands still, so that the endless comes to
    rest.
    """

    def __init__(self) -> None:
        self._now, self._left = 0.0, _SILENT_AFTER

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._now)

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._left -= 1
        if self._left < 0:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        self._now += seconds


class Server(ApiServer):
    """Implements `ApiServer`."""

    opened = itertools.count()

    def __init__(self, name: str) -> None:
        self.name = name
        self._works = next(self.opened) % 2 == 0
        self._watched = 0

    async def version(self, timeout: float) -> Json:
        await asyncio.sleep(0)
        if not self._works:
            raise Unreachable(f"{self.name}: connection refused")
        return {"gitVersion": "v1"}

    async def get(self, kind: Kind, namespace: str, name: str, timeout: float | None = None) -> Json:
        await asyncio.sleep(0)
        return {"metadata": {"name": name, "uid": f"uid-of-{self.name}", "resourceVersion": "1"}}

    async def resources(self, api_version: str) -> Json:
        await asyncio.sleep(0)
        return {"resources": [{"name": "jobs", "kind": "Job", "namespaced": True}]}

    async def list(self, query: ListQuery) -> ListPage:
        await asyncio.sleep(0)
        return ListPage([_object(f"{query.kind.plural}-1", 5)], "7", "")

    async def watch(self, query: WatchQuery) -> AsyncIterator[list[bytes]]:  # type: ignore[override]
        try:
            await asyncio.sleep(0)
            self._watched += 1
            yield [orjson.dumps({"type": "ADDED", "object": _object(f"{query.kind.plural}-2", 8)})]
            if self._watched > 2:
                await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)

    async def write(self, request: Request) -> Json:
        await asyncio.sleep(0)
        if request.verb == "create" and not request.subresource:
            raise ApiError(409, "AlreadyExists", "there")
        return request.body if request.verb == "patch" else {}

    async def close(self) -> None:
        await asyncio.sleep(0)


def _object(name: str, version: int) -> Json:
    return {"metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": str(version)}}


async def sink(cluster: str, deltas: Sequence[Delta]) -> None:
    await asyncio.sleep(0)


async def fact(cluster: str, told: object) -> None:
    await asyncio.sleep(0)


async def read_secret(name: str) -> bytes:
    await asyncio.sleep(0)
    return KUBECONFIG


def surroundings() -> ConnectionConfig:
    Server.opened = itertools.count()
    return ConnectionConfig(
        specs=[WatchSpec(WORKLOADS), WatchSpec(JOBS)],
        sink=sink,
        facts=fact,
        read_secret=read_secret,
        open_server=lambda name, config: Server(name),  # type: ignore[arg-type,return-value]
        clock=Clock(),
        random=lambda: 0.5,
    )
