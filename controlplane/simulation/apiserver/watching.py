"""One open watch: from where the client is, through everything that is committed, until somebody ends it.

In: a store's ring of commits for the kind, and what the request selects. Out: lines of JSON. A watch holds a cursor
into the ring and no queue of its own, so a slow client costs nothing; one that falls out of the ring is told 410 and
sent away, as a real server does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import orjson

from controlplane.clusters.protocol import ApiError
from controlplane.simulation.apiserver import errors
from controlplane.simulation.apiserver.history import Commit, Record, record_of, watch_line
from controlplane.simulation.apiserver.representation import Representation
from controlplane.simulation.apiserver.rest import Predicate, number_of, selection
from controlplane.simulation.apiserver.routes import ResourceRoute, truthy
from controlplane.simulation.apiserver.store import Store

_BATCH = 256


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The query of a watch. `initial`: whether the state is sent first, None where the resourceVersion decides;
    `timeout` in seconds.
    """

    version: int
    initial: bool | None
    bookmarks: bool
    timeout: float | None

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> WatchOptions:
        """Return the options of a watch; 422 where they contradict each other."""
        match, initial = query.get("resourceVersionMatch", ""), query.get("sendInitialEvents")
        if initial is not None and match != "NotOlderThan":
            why = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise errors.options_invalid("ListOptions", "resourceVersionMatch", why)
        if initial is None and match:
            why = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise errors.options_invalid("ListOptions", "resourceVersionMatch", why)
        return cls(
            version=number_of(query, "resourceVersion"),
            initial=None if initial is None else truthy(initial),
            bookmarks=truthy(query.get("allowWatchBookmarks")),
            timeout=number_of(query, "timeoutSeconds") or None,
        )

    @property
    def wants_initial(self) -> bool:
        """Whether the present state is sent before the changes."""
        return self.version == 0 if self.initial is None else self.initial


class Watch:
    """The lines of one watch. `wake` is set by the server whenever the kind has a new commit."""

    def __init__(
        self,
        store: Store,
        route: ResourceRoute,
        query: Mapping[str, str],
        shown: Representation,
        *,
        bookmark_period: float,
    ) -> None:
        self.wake = asyncio.Event()
        self.options = WatchOptions.parse(query)
        self._store, self._shown, self._period = store, shown, bookmark_period
        self._namespace = route.namespace
        self._selected: Predicate | None = selection(route.served, query, shown, route.name)
        self._kind = route.served.stored
        self._fresh = True

    async def lines(self) -> AsyncIterator[list[bytes]]:
        """Yield batches of lines until the time is up or the history is lost."""
        try:
            cursor = self._begin()
            for batch in self._initial() if self.options.wants_initial else ():
                yield batch
            async for batch in self._changes(cursor):
                yield batch
        except ApiError as error:
            yield [error_line(error)]

    def _begin(self) -> int:
        """Return the place in the history behind which changes are sent."""
        ring, options = self._store.ring(self._kind), self.options
        return ring.end if options.wants_initial or options.version == 0 else ring.seek(options.version)

    async def _changes(self, cursor: int) -> AsyncIterator[list[bytes]]:
        ring, options, loop = self._store.ring(self._kind), self.options, asyncio.get_running_loop()
        end = loop.time() + options.timeout if options.timeout else None
        bookmark = loop.time() + self._period
        while True:
            self.wake.clear()
            commits = ring.after(cursor, _BATCH)
            cursor += len(commits)
            if commits:
                yield self._translated(commits)
                continue
            now = loop.time()
            if end is not None and now >= end:
                return
            if options.bookmarks and now >= bookmark:
                bookmark = now + self._period
                yield [self._shown.bookmark(self._store.version)]
                continue
            times = (end, bookmark if options.bookmarks else None)
            await self._doze(min((at for at in times if at is not None), default=None))

    async def _doze(self, until: float | None) -> None:
        """Wait for a commit, or for a time of the loop."""
        try:
            async with asyncio.timeout_at(until):
                await self.wake.wait()
        except TimeoutError:
            return

    def _initial(self) -> list[list[bytes]]:
        """Return the present state as ADDED lines, closed by a bookmark if that is what the client asked for."""
        version = self._store.version
        chosen = [record for record in self._store.records(self._kind) if self._wants(record)]
        lines = [self._line("ADDED", record) for record in chosen]
        if self.options.initial and self.options.bookmarks:
            lines.append(self._shown.bookmark(version, initial_end=True))
        return [lines[at : at + _BATCH] for at in range(0, len(lines), _BATCH)]

    def _wants(self, record: Record) -> bool:
        if self._namespace and record.namespace != self._namespace:
            return False
        return self._selected is None or self._selected(record)

    def _translated(self, commits: list[Commit]) -> list[bytes]:
        """Return the lines of commits: entering the selection is an addition, leaving it a deletion."""
        lines: list[bytes] = []
        for commit in commits:
            before = commit.previous is not None and self._wants(commit.previous)
            after = commit.type != "DELETED" and self._wants(commit.record)
            if before and not after and commit.type != "DELETED" and commit.previous is not None:
                lines.append(self._line("DELETED", _restamped(commit.previous, commit.version)))
            elif after and not before:
                lines.append(self._line("ADDED", commit.record))
            elif before or after:
                lines.append(self._shown.commit_line(commit, first=self._fresh))
                self._fresh = False
        return lines

    def _line(self, type_: str, record: Record) -> bytes:
        first, self._fresh = self._fresh, False
        return self._shown.line(type_, record, first=first)


def _restamped(record: Record, version: int) -> Record:
    """Return a record as it last was, with a later resourceVersion: what a watch shows of an object that leaves its
    selection.
    """
    metadata = {**record.obj["metadata"], "resourceVersion": str(version)}
    return record_of(record.kind, {**record.obj, "metadata": metadata})


def error_line(error: ApiError) -> bytes:
    """Return an ERROR line with a Status."""
    return watch_line("ERROR", orjson.dumps(errors.status_body(error)))
