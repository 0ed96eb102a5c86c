"""How everything that acts inside a simulated cluster is driven: dirty keys in, one synchronous `reconcile` at a time,
no hidden order.

In: keys that became dirty (from store events) or due (from timers of an injected clock). Out: calls of
`reconcile(key)`, which may ask to be called again after so many seconds. The queue holds each key once and is served
first in, first out, so a run is a function of its inputs; a deterministic simulation calls `step` itself, everybody
else starts `run` as a task.

`View` is the read side: what the store last said of each watched object, by kind and `(namespace, name)`. Its objects
are shared and must not be changed.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping

import structlog

from controlplane.clock import Clock
from controlplane.clusters.protocol import ApiError
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.apiserver.store import Store
from controlplane.tasks import end

Key = tuple[str, ...]
Place = tuple[str, str]
Listener = Callable[[Kind, Json | None, Json | None], None]

_BURST = 64
_RETRY_FIRST, _RETRY_MOST = 0.005, 10.0

_log = structlog.get_logger(__name__)


def place_of(obj: Mapping[str, object]) -> Place:
    """Return `(namespace, name)` of an object; the namespace of a cluster-scoped one is empty."""
    metadata = meta(obj)
    return metadata.get("namespace") or "", metadata["name"]


class View:
    """The last known state of the objects of some kinds of one store, and a bell for every change of them."""

    def __init__(self, store: Store, kinds: Iterable[Kind]) -> None:
        self.store = store
        self._objects: dict[Kind, dict[Place, Json]] = {kind: {} for kind in kinds}
        self._listeners: list[Listener] = []
        self._stop: Callable[[], None] | None = None

    def listen(self, listener: Listener) -> None:
        """Call `listener(kind, old, new)` on every change; `old` is None for an addition, `new` for a deletion."""
        self._listeners.append(listener)

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Return an object as last seen, or None; there are none of a kind that is not watched."""
        return self._objects.get(kind, {}).get((namespace, name))

    def all(self, kind: Kind) -> Mapping[Place, Json]:
        """Return every object of a kind, by place."""
        return self._objects.get(kind, {})

    def start(self) -> None:
        """Announce what is there already as additions, and every change from now on."""
        for kind in self._objects:
            for record in self.store.records(kind):
                self._objects[kind][record.place] = record.obj
        self._stop = self.store.listen(self._on_commit)
        for kind, objects in self._objects.items():
            for obj in list(objects.values()):
                self._tell(kind, None, obj)

    def stop(self) -> None:
        """Stop listening to the store."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def _on_commit(self, commit: Commit) -> None:
        record = commit.record
        objects = self._objects.get(record.kind)
        if objects is None:
            return
        old = objects.pop(record.place, None)
        new = None
        if commit.type != "DELETED":
            new = objects[record.place] = record.obj
        if old is not None or new is not None:
            self._tell(record.kind, old, new)

    def _tell(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        for listener in self._listeners:
            listener(kind, old, new)


class Behaviour:
    """Dirty keys in order of arrival, each handled by `reconcile`, which subclasses define."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name, self.clock = name, clock
        self._dirty: deque[Key] = deque()
        self._queued: set[Key] = set()
        self._due: dict[Key, float] = {}
        self._timers: list[tuple[float, int, Key]] = []
        self._sequence = 0
        self._failures: dict[Key, int] = {}
        self._wake = asyncio.Event()

    def reconcile(self, key: Key) -> float | None:
        """Bring what `key` names one step on; return after how many seconds to come back, or None."""
        raise NotImplementedError

    def enqueue(self, key: Key) -> None:
        """Queue a key, once, behind those that are queued already."""
        if key not in self._queued:
            self._queued.add(key)
            self._dirty.append(key)
            self._wake.set()

    def enqueue_after(self, key: Key, delay: float) -> None:
        """Queue a key after `delay` seconds, unless it is due earlier anyway."""
        due = self.clock.monotonic() + delay
        if (known := self._due.get(key)) is not None and known <= due:
            return
        self._due[key] = due
        self._sequence += 1
        heapq.heappush(self._timers, (due, self._sequence, key))
        self._wake.set()

    def next_due(self) -> float | None:
        """Return the monotonic time of the earliest timer, or None."""
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def step(self, tolerated: type[Exception] = ApiError) -> bool:
        """Handle one key; False if none is dirty or due. What it fails of comes back to it later, if it is
        `tolerated`.
        """
        if self._timers:
            now = self.clock.monotonic()
            while (due := self.next_due()) is not None and due <= now:
                self.enqueue(heapq.heappop(self._timers)[2])
        if not self._dirty:
            return False
        key = self._dirty.popleft()
        self._queued.discard(key)
        self._due.pop(key, None)
        try:
            delay = self.reconcile(key)
        except tolerated as error:
            self._failed(key, error)
        else:
            self._failures.pop(key, None)
            if delay is not None:
                self.enqueue_after(key, delay)
        return True

    def drain(self, limit: int = 1_000_000) -> int:
        """Handle keys until none is dirty or due; return how many were. RuntimeError past `limit`: it does not
        settle.
        """
        count = 0
        while self.step():
            count += 1
            if count > limit:
                raise RuntimeError(f"{self.name} did not settle within {limit} steps")
        return count

    async def run(self) -> None:
        """Handle keys for ever, giving way to other tasks after every burst. No object ends it for the others."""
        while True:
            burst = 0
            while burst < _BURST and self.step(Exception):
                burst += 1
            if burst:
                await asyncio.sleep(0)
                continue
            self._wake.clear()
            due = self.next_due()
            if due is None:
                await self._wake.wait()
            else:
                await self._wait(max(0.0, due - self.clock.monotonic()))

    async def _wait(self, seconds: float) -> None:
        """Wait for a key or for the clock, whichever comes first."""
        racers = [asyncio.create_task(self._wake.wait()), asyncio.create_task(self.clock.sleep(seconds))]
        try:
            await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(*racers)

    def _failed(self, key: Key, error: Exception) -> None:
        """An object that is gone needs nothing; a conflict is retried with fresh eyes, anything else with back-off."""
        status = error.status if isinstance(error, ApiError) else 0
        if status == 404:
            return
        count = self._failures[key] = self._failures.get(key, 0) + 1
        if status == 409 and count < 5:
            self.enqueue(key)
            return
        delay = min(_RETRY_MOST, _RETRY_FIRST * 2 ** min(count, 20))
        _log.warning(
            "simulated controller failed",
            controller=self.name,
            key=key,
            error=f"{type(error).__name__}: {error}",
            retry_in=delay,
        )
        self.enqueue_after(key, delay)
