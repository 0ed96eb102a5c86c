"""What a scheduler works on in a measurement between real processes: nodes and pods of a real API server, and what its
audit log says became of them.

In: an API server, how many nodes and pods, which scheduler the pods name. Out: the objects, created; when each pod was
created and bound. The audit log is read as it grows, which costs neither the API server nor the scheduler a request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.api_servers import Asked
from benchmarks.scheduler import node, pod
from controlplane.clusters.transport import Transport
from controlplane.kube.kinds import NODES, PODS, Kind

SPACE = "default"
_AT_ONCE = 16
_LOOKS = 0.005  # seconds between two looks at the audit log
_PATIENCE = 120.0  # seconds without a bound pod
_BOUND = b'"subresource":"binding"'


@dataclass(frozen=True, slots=True)
class Wait:
    """When one pod was created and when it was bound, each as the API server had done it."""

    created: float
    bound: float


class AuditTail:
    """Counts the bindings in an audit log as it grows."""

    def __init__(self, path: Path) -> None:
        self._path, self._read, self._rest = path, 0, b""
        self.bindings = 0

    def look(self) -> int:
        """Read what is new and return how many bindings there were in all."""
        with self._path.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        self._read += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        self.bindings += sum(_BOUND in line and b'"code":201' in line for line in lines)
        return self.bindings

    async def until(self, bindings: int) -> None:
        """Return once there were so many bindings; `RuntimeError` if there are no more for a while."""
        moved, before = time.perf_counter(), self.look()
        while (now := self.look()) < bindings:
            if now != before:
                moved, before = time.perf_counter(), now
            elif time.perf_counter() - moved > _PATIENCE:
                raise RuntimeError(f"no pod was bound for {_PATIENCE:g} s: {now} of {bindings} bindings")
            await asyncio.sleep(_LOOKS)


class Load:
    """Creates nodes and pods of one API server; pods of a series are called after it and numbered."""

    def __init__(self, server: Transport, scheduler: str) -> None:
        self._server, self._scheduler = server, scheduler

    async def nodes(self, count: int) -> None:
        """Create nodes."""
        await self._all(NODES, (node(number) for number in range(count)))

    async def pods(self, series: str, shape: str, count: int, rate: float = 0) -> None:
        """Create pods of a shape of the benchmark `scheduler`, so many a second, or all at once."""
        bodies = [pod(f"{series}-{number:05}", shape, number, schedulerName=self._scheduler) for number in range(count)]
        if not rate:
            await self._all(PODS, bodies)
            return
        began, under_way = time.perf_counter(), list[asyncio.Task[None]]()
        for number, body in enumerate(bodies):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            under_way.append(asyncio.create_task(self._create(PODS, body)))
        await asyncio.gather(*under_way)

    async def _all(self, kind: Kind, bodies: Iterable[object]) -> None:
        left = iter(bodies)

        async def work() -> None:
            for body in left:
                await self._create(kind, body)

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))

    async def _create(self, kind: Kind, body: object) -> None:
        assert isinstance(body, dict)
        await self._server.create(kind, SPACE if kind.namespaced else "", body)


def waits_of(asked: Iterable[Asked], series: str) -> list[Wait]:
    """Return when each pod of a series was created and bound; those that were not bound are left out."""
    created, bound = dict[str, float](), dict[str, float]()
    for one in asked:
        if one.verb == "create" and one.name.startswith(f"{series}-") and one.code == 201:
            of = {"pods": created, "pods/binding": bound}.get(one.resource)
            if of is not None:
                of[one.name] = one.done
    return [Wait(created[name], bound[name]) for name in sorted(created.keys() & bound.keys())]
