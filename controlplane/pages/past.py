"""The Workloads as they were at a time, for lists and counts.

In: the log, read as of a time, and the directory of the present. Out: a `Past`. What was over then and has not changed
since is told by that directory; the others are folded from their events up to that time, as the pages of a log that
ended then would fold them. The last few times are kept: whoever turns pages asks of the same one again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime

from controlplane.audit.fleet import folded
from controlplane.audit.reads import LogReader
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.pages.directory import Directory, Row
from controlplane.pages.rows import LastSeen, row_of

MOST = 20_000
"""Workloads whose events are read for one time."""
_KEPT = 4  # times

Begun = tuple[str, str, float]
"""A Workload, by namespace and name, and when it was first seen, in seconds since 1970."""


class Past:
    """Workloads as they were at a time: their rows in `directory`, and the states of those that were not over."""

    def __init__(self) -> None:
        self.directory = Directory()
        self.directory.filled()
        self.states: dict[str, WorkloadState] = {}
        self._known: set[tuple[str, str]] = set()

    def lacks(self, wanted: Sequence[Begun]) -> list[Begun]:
        """Return those of some Workloads that were not taken yet."""
        return [one for one in wanted if one[:2] not in self._known]

    def take(self, rows: Iterable[tuple[Row, WorkloadState | None]]) -> None:
        """Take Workloads as they were."""
        for row, state in rows:
            self.directory.put(row)
            self._known.add((row.namespace, row.name))
            if state is not None:
                self.states[_stream(row.namespace, row.name)] = state

    def read(self, reader: LogReader, policy: MultiKueuePolicy, wanted: Sequence[Begun], at: datetime) -> None:
        """Take some Workloads from the log; what was not there then, or was gone, is left out."""
        if not wanted:
            return
        last = LastSeen()
        index = folded(reader, policy, [_stream(*one[:2]) for one in wanted], last.take)
        for namespace, name, since in wanted:
            stream = _stream(namespace, name)
            row = row_of(index, last, stream, Row(namespace, name, "", since=since), at)
            if row is not None and row.state not in ("", "Deleted"):
                self.take([(row, index.workloads.get(stream))])
        self._known.update(one[:2] for one in wanted)


def unchanged(
    index: WorkloadIndex, directory: Directory, wanted: Iterable[Begun], until: int
) -> list[tuple[Row, WorkloadState]]:
    """Return those Workloads of which nothing has changed since a position, nor of what they depend on, as they are
    now."""
    found = []
    for namespace, name, _ in wanted:
        state = index.workloads.get(_stream(namespace, name))
        if state is None or state.local is None or max(state.position, _newest(index, state)) > until:
            continue
        row = directory.get(namespace, name)
        if row is not None and row.position <= until:
            found.append((row, state))
    return found


def _newest(index: WorkloadIndex, state: WorkloadState) -> int:
    """Return the newest event on what a Workload depends on; of clusters those that it may be on."""
    route = index.route(state.local) if state.local is not None else None
    clusters = {MANAGEMENT, *state.remotes, *(route.clusters if route is not None else ())}
    return index.around.newest(index.positions(state), clusters)


class Pasts:
    """The times that were asked for last, by the position at which the log ended then. `reading`: one is read at a
    time."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, Past] = OrderedDict()
        self.reading = threading.Lock()
        self._lock = threading.Lock()

    def at(self, until: int) -> Past:
        """Return the past at a position, with nothing in it at first."""
        with self._lock:
            if until not in self._known:
                self._known[until] = Past()
            self._known.move_to_end(until)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            return self._known[until]


def _stream(namespace: str, name: str) -> str:
    return f"workload/{namespace}/{name}"
