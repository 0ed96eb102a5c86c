"""The read side of a store: records, lists, histories, and who is told of a commit.

In: the index and the commit log that the verbs of `store` write. Out: copies for whoever calls, records and commits for
the server, which sends their bytes. Nothing here changes an object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from controlplane.kube.kinds import Json, Kind
from controlplane.simulation.apiserver import errors
from controlplane.simulation.apiserver.commits import CommitLog
from controlplane.simulation.apiserver.history import Commit, Record, Ring, record_of
from controlplane.simulation.apiserver.index import RecordIndex
from controlplane.simulation.apiserver.selectors import label_test
from controlplane.simulation.kinds.base import ServedKind


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """One change, as a watch would show it; the object is the subscriber's own copy."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    kind: Kind
    object: Json
    resource_version: str


class StoreReader:
    """What can be asked of a store. `served` are its kinds; `version` is the resourceVersion of its last change."""

    served: dict[Kind, ServedKind]
    _index: RecordIndex
    _log: CommitLog

    @property
    def version(self) -> int:
        """The resourceVersion of the last change in the cluster."""
        return self._log.version

    def record(self, kind: Kind, namespace: str, name: str) -> Record:
        """Return the stored state of an object; it must not be changed. 404 if there is none."""
        self._serving(kind)
        record = self._index.get(kind, namespace if kind.namespaced else "", name)
        if record is None:
            raise errors.not_found(kind, name)
        return record

    def records(self, kind: Kind, namespace: str | None = None) -> list[Record]:
        """Return the stored states of a kind, ordered by namespace and name; they must not be changed."""
        self._serving(kind)
        return self._index.all(kind, (namespace or None) if kind.namespaced else None)

    def ring(self, kind: Kind) -> Ring:
        """Return the history of a kind."""
        self._serving(kind)
        return self._log.rings[kind]

    def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """Return one object."""
        return self.record(kind, namespace, name).copy()

    def list(self, kind: Kind, namespace: str | None = None, selector: str = "") -> tuple[list[Json], str]:
        """Return the objects of a kind that a label selector selects, and the resourceVersion they are a picture of."""
        test = label_test(selector)
        found = self.records(kind, namespace)
        return [record.copy() for record in found if test is None or test(record.labels)], str(self.version)

    def subscribe(self, callback: Callable[[StoreEvent], None]) -> Callable[[], None]:
        """Call `callback` after each commit, in commit order; return how to stop that.

        A callback may write: what that commits is announced after the current event has reached everybody.
        """

        def tell(commit: Commit) -> None:
            record = commit.record
            callback(StoreEvent(commit.type, record.kind, record.copy(), str(record.version)))

        return self.listen(tell)

    def listen(self, listener: Callable[[Commit], None]) -> Callable[[], None]:
        """Call `listener` with every commit itself, which must not be changed; return how to stop that."""
        return self._log.listen(listener)

    def compact(self) -> None:
        """Forget the history, so that no watch can resume from before now."""
        self._log.compact()

    def restore(self, objects: Iterable[tuple[Kind, Json]], version: int) -> None:
        """Take over an earlier run's complete objects in place of all that is here; nobody is told, the history is
        empty.
        """
        self._log.restore([record_of(kind, obj) for kind, obj in objects], version)

    def _serving(self, kind: Kind, subresource: str = "") -> ServedKind:
        served = self.served.get(kind)
        if served is None or served.stored_as is not None:
            raise errors.no_such_resource(kind)
        if subresource and not (subresource == "status" and served.status_subresource):
            raise errors.no_such_resource(kind)
        return served
