"""One watch as its server sees it: a cursor into the history of a kind, and the lines that follow from it.

In: commits of a store, a selection. Out: batches of lines when the network carries them, or the end. It is the watch
cache's behaviour that matters here: a place before the history is 410; from a place in the future (the store was
restored) nothing comes, not even a bookmark, until the history has caught up with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from controlplane.clusters.protocol import ApiError, Unreachable
from controlplane.clusters.streams import Lines
from controlplane.dst.engine.network import Network
from controlplane.kube.kinds import Kind
from controlplane.simulation.apiserver.history import Commit, Record, watch_line
from controlplane.simulation.apiserver.selectors import field_test, label_test
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.apiserver.watching import error_line

_BATCH = 64
_BOOKMARK = 60.0
_RESENT = 1.0  # virtual seconds after which what did not get through to one process is sent again


@dataclass(frozen=True, slots=True)
class Selection:
    """What a watch asks for: a namespace ("": all), a label selector, a field selector."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


class StreamPlace(NamedTuple):
    """Where a watch comes through, and whose it is."""

    network: Network
    process: str

    @property
    def carries(self) -> bool:
        """Whether what the watch has to say gets through now."""
        return self.network.carries and not self.network.bars(self.process)


class Stream:
    """An open watch of `kind`. `lines` is the client's side of it."""

    def __init__(
        self, place: StreamPlace, store: Store, kind: Kind, wanted: Selection, version: str, seconds: float
    ) -> None:
        self._place, network = place, place.network
        self._network, self._store, self._kind, self._namespace = network, store, kind, wanted.namespace
        self._test = label_test(wanted.labels)
        self._fields = field_test(wanted.fields, store.served[kind].selectable)
        self._after = int(version)
        self._ring = store.ring(kind)
        self._cursor = self._ring.seek(self._after)
        now = network.loop.time()
        self._end, self._bookmark = now + seconds, now + _BOOKMARK * (0.5 + network.random.random())
        self._wake = asyncio.Event()
        self._cut = ""
        self._undo: list[Callable[[], None]] = [store.listen(self._on_commit), network.on_cut(self._on_cut)]

    async def lines(self, idle_timeout: float) -> Lines:
        """Yield lines as they arrive; `Unreachable` when the connection is cut, or says nothing for too long."""
        loop = self._network.loop
        heard = loop.time()
        try:
            while True:
                self._wake.clear()
                if self._cut:
                    raise Unreachable(f"{self._network.cluster}: {self._cut}")
                if self._place.carries:
                    found = self._take()
                    if found:
                        heard = loop.time()
                        yield self._echoed(found)
                        continue
                    if loop.time() >= self._end:
                        return
                if loop.time() >= heard + idle_timeout:
                    raise Unreachable(f"{self._network.cluster}: no byte for {idle_timeout:g} s")
                await self._doze(heard + idle_timeout)
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the store and the network."""
        for undo in self._undo:
            undo()
        self._undo = []

    async def _doze(self, idle_end: float) -> None:
        until = min(self._end, self._bookmark, idle_end) if self._place.carries else idle_end
        if self._network.bars(self._place.process):
            until = min(idle_end, self._network.loop.time() + _RESENT)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(max(until, self._network.loop.time() + 0.001)):
                await self._wake.wait()
        await asyncio.sleep(self._network.latency())

    def _take(self) -> list[bytes]:
        try:
            commits = self._ring.after(self._cursor, _BATCH)
        except ApiError as error:
            self._end = self._network.loop.time()
            return [error_line(error)]
        self._cursor += len(commits)
        lines = [line for commit in commits if commit.version > self._after for line in self._line(commit)]
        if not lines and not commits and self._network.loop.time() >= self._bookmark:
            self._bookmark = self._network.loop.time() + _BOOKMARK
            if self._store.version >= self._after:
                return [self._bookmark_line()]
        return lines

    def _line(self, commit: Commit) -> list[bytes]:
        """Entering the selection is an addition, leaving it a deletion."""
        before = commit.previous is not None and self._wants(commit.previous)
        after = commit.type != "DELETED" and self._wants(commit.record)
        if commit.type == "DELETED" or (before and after):
            return [commit.line] if before or after else []
        if after:
            return [watch_line("ADDED", commit.record.raw)]
        if before and commit.previous is not None:
            left = commit.previous.copy()
            left["metadata"]["resourceVersion"] = str(commit.version)
            return [watch_line("DELETED", orjson.dumps(left))]
        return []

    def _wants(self, record: Record) -> bool:
        if self._namespace and record.namespace != self._namespace:
            return False
        if self._fields is not None and not self._fields(record.obj):
            return False
        return self._test is None or self._test(record.labels)

    def _bookmark_line(self) -> bytes:
        head = {"apiVersion": self._kind.api_version, "kind": self._kind.kind}
        return watch_line("BOOKMARK", orjson.dumps(head | {"metadata": {"resourceVersion": str(self._store.version)}}))

    def _echoed(self, lines: list[bytes]) -> list[bytes]:
        network = self._network
        if not network.echo:
            return lines
        return [copy for line in lines for copy in ([line] * (2 if network.random.random() < network.echo else 1))]

    def _on_commit(self, commit: Commit) -> None:
        if commit.record.kind == self._kind:
            self._wake.set()

    def _on_cut(self, why: str) -> None:
        if why:
            self._cut = why
        else:
            self._end = self._network.loop.time()
        self._wake.set()
