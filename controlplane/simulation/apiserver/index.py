"""Where the store finds its records: by kind, namespace and name, by uid, and by the uid of an owner.

In: records as they are put and dropped. Out: records, in the order in which a list shows them. Dictionaries
throughout, so that every order is the same on every run.
"""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.kube.kinds import Json, Kind
from controlplane.simulation.apiserver.history import Record

Address = tuple[Kind, str, str]


def owner_references(obj: Json) -> list[Json]:
    """Return an object's metadata.ownerReferences."""
    return list(obj["metadata"].get("ownerReferences") or [])


class RecordIndex:
    """The live records of one store."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, dict[str, dict[str, Record]]] = {}
        self._uids: dict[str, Record] = {}
        self._dependents: dict[str, dict[Address, None]] = {}

    def get(self, kind: Kind, namespace: str, name: str) -> Record | None:
        """Return a record by its place, or None."""
        return self._kinds.get(kind, {}).get(namespace, {}).get(name)

    def by_uid(self, uid: str) -> Record | None:
        """Return a record by its uid, or None."""
        return self._uids.get(uid)

    def all(self, kind: Kind, namespace: str | None = None) -> list[Record]:
        """Return the records of a kind, of one namespace or of all, ordered by namespace and name."""
        spaces = self._kinds.get(kind, {})
        if namespace is not None:
            return [record for _, record in sorted(spaces.get(namespace, {}).items())]
        return [record for _, space in sorted(spaces.items()) for _, record in sorted(space.items())]

    def in_namespace(self, namespace: str) -> Iterator[Record]:
        """Yield everything in a namespace, kind by kind."""
        for spaces in self._kinds.values():
            yield from spaces.get(namespace, {}).values()

    def dependents(self, uid: str) -> list[Record]:
        """Return the records that name `uid` among their owners, oldest reference first."""
        found = (self.get(*address) for address in self._dependents.get(uid, {}))
        return [record for record in found if record is not None]

    def put(self, record: Record, previous: Record | None) -> None:
        """Take a record in place of the previous one."""
        if previous is not None:
            self._disown(previous)
        self._kinds.setdefault(record.kind, {}).setdefault(record.namespace, {})[record.name] = record
        self._uids[record.uid] = record
        for reference in owner_references(record.obj):
            address = (record.kind, record.namespace, record.name)
            self._dependents.setdefault(reference.get("uid", ""), {})[address] = None

    def drop(self, record: Record) -> None:
        """Forget a record."""
        self._disown(record)
        self._kinds[record.kind][record.namespace].pop(record.name, None)
        self._uids.pop(record.uid, None)

    def _disown(self, record: Record) -> None:
        for reference in owner_references(record.obj):
            dependents = self._dependents.get(reference.get("uid", ""))
            if dependents is not None:
                dependents.pop((record.kind, record.namespace, record.name), None)
                if not dependents:
                    del self._dependents[reference.get("uid", "")]
