"""Turns objects and watch lines, as served, into deltas. Pure; a line or item that is none becomes a `Poison` with the
reason.

An object needs a name and a uid to be told apart: without them it is poison, whatever else it holds. Of one whose rest
cannot be read (`controlplane.clusters.validation`) the identity is left, and why. `managedFields` are dropped here
but for who wrote last: nobody decides on them and they are half of many objects."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import orjson

from controlplane.clusters.protocol import Change
from controlplane.clusters.validation import place_problem, remains, unreadable, version_of
from controlplane.kube.kinds import Json, Kind

_OPS: dict[str, Literal["added", "modified", "gone"]] = {"ADDED": "added", "MODIFIED": "modified", "DELETED": "gone"}


class KnownObject(NamedTuple):
    """Where an object of known uid is, and in which version it was last seen."""

    namespace: str
    name: str
    resource_version: str


class Bookmark(NamedTuple):
    """The server has shown everything up to this version."""

    resource_version: str


class WatchFailure(NamedTuple):
    """The server ends the watch with this Status."""

    status: Json


class Poison(NamedTuple):
    """Something that cannot be used, and why; never its content."""

    why: str


def of_line(kind: Kind, line: bytes) -> Change | Bookmark | WatchFailure | Poison:
    """Return the delta of one watch line."""
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return Poison(f"{len(line)} bytes, not JSON at {error.pos}")
    op = event.get("type") if isinstance(event, dict) else None
    found = event.get("object") if isinstance(event, dict) else None
    if not isinstance(found, dict):
        return Poison("a line without an object")
    if op == "ERROR":
        return WatchFailure(found)
    if op == "BOOKMARK":
        version = version_of(found.get("metadata"))
        return Bookmark(version) if version else Poison("a bookmark without resourceVersion")
    if not isinstance(op, str) or op not in _OPS:
        return Poison("a line of unknown type")
    return _change(_OPS[op], kind, found)


def of_item(kind: Kind, item: Any) -> Change | Poison:
    """Return a list's item as it now is."""
    return _change("listed", kind, item)


def vanished(kind: Kind, uid: str, known: KnownObject, resource_version: str) -> Change:
    """Return the delta for an object that a list no longer contains: only its identity is left."""
    metadata = {"name": known.name, "uid": uid} | ({"namespace": known.namespace} if known.namespace else {})
    minimal = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    return Change("gone", kind, minimal, resource_version)


def identity(obj: Json) -> tuple[str, KnownObject]:
    """Return uid and place of a delta's object."""
    metadata = obj["metadata"]
    known = KnownObject(metadata.get("namespace", ""), metadata["name"], metadata.get("resourceVersion", ""))
    return metadata["uid"], known


def _change(op: Literal["listed", "added", "modified", "gone"], kind: Kind, found: Any) -> Change | Poison:
    metadata = found.get("metadata") if isinstance(found, dict) else None
    if problem := place_problem(metadata):
        return Poison(problem)
    assert metadata is not None
    if not isinstance(metadata.get("resourceVersion"), str) or not metadata["resourceVersion"]:
        return Poison("an object without resourceVersion")
    manager = _manager(metadata.pop("managedFields", None))
    version = version_of(metadata)
    why = unreadable(found) if version else "metadata.resourceVersion is none that a server gives"
    if why:
        return Change(op, kind, _headed(kind, remains(found, version)), version, unreadable="" if op == "gone" else why)
    return Change(op, kind, _headed(kind, found), version, manager=manager)


def _manager(entries: Any) -> str:
    """Return the manager of the newest entry of `managedFields` that is of the object itself; "" if there is none.

    Times are to the second and sort as text; of two entries of one second, which are in the order of their names, the
    later is taken."""
    newest, manager = "", ""
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or entry.get("subresource"):
            continue
        at, name = entry.get("time"), entry.get("manager")
        if isinstance(at, str) and isinstance(name, str) and at >= newest:
            newest, manager = at, name
    return manager


def _headed(kind: Kind, found: Json) -> Json:
    """Return an object with these two: items of a list of built-in kinds come without them."""
    found.setdefault("apiVersion", kind.api_version)
    found.setdefault("kind", kind.kind)
    return found
