"""The one place where a cluster changes: each commit gets the next resourceVersion, is kept, and is told to everybody
in order.

In: complete new states from the store. Out: records, the rings that watches resume from, and one call per listener and
commit. A listener may write in turn; what that commits is told after the current commit has reached everybody, so all
listeners see one order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from controlplane.kube.kinds import Json, Kind
from controlplane.simulation.apiserver.history import Commit, EventType, Record, Ring, record_of
from controlplane.simulation.apiserver.index import RecordIndex
from controlplane.simulation.controllers.garbage_collector import Collector

Listener = Callable[[Commit], None]


class CommitLog:
    """The resourceVersion counter of a cluster, its history by kind, and its listeners."""

    def __init__(self, kinds: Iterable[Kind], index: RecordIndex, collector: Collector, history: int) -> None:
        self.version = 0
        self.rings = {kind: Ring(history) for kind in kinds}
        self._index, self._collector = index, collector
        self._listeners: list[Listener] = []
        self._outbox: deque[Commit] = deque()
        self._telling = False

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every commit from now on; return how to stop that."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def compact(self) -> None:
        """Forget the history of all kinds."""
        for ring in self.rings.values():
            ring.compact(self.version)

    def restore(self, records: Iterable[Record], version: int) -> None:
        """Put these records in place of all others and go on from a resourceVersion."""
        for kind in self.rings:
            for record in self._index.all(kind):
                self._index.drop(record)
        for record in records:
            self._index.put(record, None)
        self.version = version
        self.compact()

    def commit(self, type_: EventType, kind: Kind, new: Json, previous: Record | None) -> Record:
        """Store a new state, whose top level and metadata are the caller's own, and return its record."""
        self.version += 1
        new["metadata"]["resourceVersion"] = str(self.version)
        record = record_of(kind, new)
        commit = Commit(type_, record, previous)
        if type_ == "DELETED":
            self._index.drop(record)
        else:
            self._index.put(record, previous)
        self.rings[kind].append(commit)
        self._collector.note(commit)
        self._outbox.append(commit)
        self._tell()
        for past in (previous, record if type_ == "DELETED" else None):
            if past is not None:
                past.retire()
        return record

    def _tell(self) -> None:
        if self._telling:
            return
        self._telling = True
        try:
            while self._outbox:
                commit = self._outbox.popleft()
                for listener in tuple(self._listeners):
                    listener(commit)
        finally:
            self._telling = False
