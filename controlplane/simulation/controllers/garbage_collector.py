"""What the controller manager does in a real cluster: owners take their dependents along, namespaces their contents.

In: every commit of the store. Out: further deletes and updates through the store, until nothing is left to do; it
runs at the end of the write that caused it, so its effects are there when the write returns. The rules are those of
`pkg/controller/garbagecollector` (attemptToDeleteItem) and `pkg/controller/namespace`.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from controlplane.kube.kinds import NAMESPACES, Json, Kind
from controlplane.simulation.apiserver.errors import bad_request, forbidden, not_found
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.apiserver.index import RecordIndex, owner_references

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
PROPAGATION_FINALIZERS = {"Foreground": FOREGROUND, "Orphan": ORPHAN}


def finalizers(obj: Json) -> list[str]:
    """Return an object's finalizers."""
    return list(obj["metadata"].get("finalizers") or [])


def deleting(record: Record, finalizer: str = "") -> bool:
    """Whether a record is on its way out, and, if one is named, still held by that finalizer."""
    return "deletionTimestamp" in record.obj["metadata"] and (not finalizer or finalizer in finalizers(record.obj))


def check_namespace(kind: Kind, metadata: Json, index: RecordIndex, *, enforced: bool) -> None:
    """400 without a namespace, 404 for one that is not there, 403 for one that is going: nothing can be created in
    it.
    """
    name = metadata.get("namespace", "")
    if not name:
        raise bad_request("an empty namespace may not be set during creation")
    if not enforced:
        return
    namespace = index.get(NAMESPACES, "", name)
    if namespace is None:
        raise not_found(NAMESPACES, name)
    if deleting(namespace):
        why = f"unable to create new content in namespace {name} because it is being terminated"
        raise forbidden(kind, metadata.get("name", ""), why)


class Changes(Protocol):
    """How the collector changes a store."""

    def remove(self, record: Record, propagation: str) -> object:
        """Delete an object, or mark it so."""

    def amend(self, record: Record, metadata: Json) -> object:
        """Replace parts of an object's metadata."""

    def expunge(self, record: Record) -> object:
        """Let an object go."""


class Collector:
    """The garbage collector and the namespace controller of one store."""

    def __init__(self, store: Changes, index: RecordIndex) -> None:
        self._store, self._index = store, index
        self._queue: deque[str] = deque()
        self._draining = False

    def note(self, commit: Commit) -> None:
        """Remember whom a commit concerns: the object, its dependents once it is gone, its owners that wait for it."""
        record = commit.record
        if commit.type == "DELETED":
            self._queue.extend(dependent.uid for dependent in self._index.dependents(record.uid))
            self._queue.extend(reference.get("uid", "") for reference in owner_references(record.obj))
            namespace = self._index.get(NAMESPACES, "", record.namespace)
            if namespace is not None and deleting(namespace):
                self._queue.append(namespace.uid)
        elif owner_references(record.obj) or deleting(record):
            self._queue.append(record.uid)

    def drain(self) -> None:
        """Work until nothing is left; does nothing if it is at work already."""
        if self._draining:
            return
        self._draining = True
        try:
            while self._queue:
                record = self._index.by_uid(self._queue.popleft())
                if record is not None:
                    self._attend(record)
        finally:
            self._draining = False

    def _attend(self, record: Record) -> None:
        if record.kind == NAMESPACES and deleting(record):
            self._finish_namespace(record)
        elif deleting(record, ORPHAN):
            self._orphan(record)
        elif deleting(record, FOREGROUND):
            self._finish_foreground(record)
        elif not deleting(record):
            self._check_owners(record)

    def _check_owners(self, record: Record) -> None:
        """Delete a record whose owners are all gone or going; drop references to those that are gone while another
        remains.
        """
        references = owner_references(record.obj)
        if not references:
            return
        solid, waiting = [], False
        for reference in references:
            owner = self._index.by_uid(reference.get("uid", ""))
            if owner is None or owner.namespace not in ("", record.namespace):
                continue
            if deleting(owner, FOREGROUND):
                waiting = True
            else:
                solid.append(reference)
        if not solid:
            foreground = waiting and bool(self._index.dependents(record.uid))
            self._store.remove(record, "Foreground" if foreground else "Background")
        elif len(solid) < len(references):
            self._store.amend(record, {"ownerReferences": solid})

    def _finish_foreground(self, record: Record) -> None:
        """Send the dependents away; let the owner go once none is left that blocks it."""
        for dependent in self._index.dependents(record.uid):
            if not deleting(dependent):
                self._check_owners(dependent)
        blocking = [
            dependent
            for dependent in self._index.dependents(record.uid)
            for reference in owner_references(dependent.obj)
            if reference.get("uid") == record.uid and reference.get("blockOwnerDeletion")
        ]
        if not blocking:
            self._release(record, FOREGROUND)

    def _orphan(self, record: Record) -> None:
        """Take the owner's name off its dependents, then let it go."""
        for dependent in self._index.dependents(record.uid):
            kept = [ref for ref in owner_references(dependent.obj) if ref.get("uid") != record.uid]
            self._store.amend(dependent, {"ownerReferences": kept})
        self._release(record, ORPHAN)

    def _release(self, record: Record, finalizer: str) -> None:
        current = self._index.by_uid(record.uid)
        if current is not None:
            kept = [name for name in finalizers(current.obj) if name != finalizer]
            self._store.amend(current, {"finalizers": kept})

    def _finish_namespace(self, record: Record) -> None:
        """Delete what is in a namespace; the namespace itself goes when it is empty."""
        for content in list(self._index.in_namespace(record.name)):
            current = self._index.by_uid(content.uid)
            if current is not None and not deleting(current):
                self._store.remove(current, "Background")
        if not any(True for _ in self._index.in_namespace(record.name)):
            self._store.expunge(record)
