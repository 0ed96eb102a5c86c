"""What happened to each kind, for watches to resume from: records, commits, and a ring of the last commits of every
kind.

In: commits by the store, in the order of their resourceVersions. Out: the commits after a resourceVersion or after a
cursor, or 410 where the ring no longer reaches that far; and the state of a kind as it was at an earlier
resourceVersion. Records are immutable and are shared by the store, the ring and every watch; each is serialised once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import orjson

from controlplane.kube import Json, Kind
from controlplane.simulation.errors import expired

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One state of one object: `obj` is never changed, `raw` is its JSON, beginning with apiVersion and kind."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    version: int
    obj: Json
    raw: bytes

    @property
    def labels(self) -> Json:
        """The object's labels."""
        found = self.obj["metadata"].get("labels")
        return found if isinstance(found, dict) else {}

    @property
    def place(self) -> tuple[str, str]:
        """Namespace and name, which order a list."""
        return self.namespace, self.name

    def copy(self) -> Json:
        """Return the object as a value of the caller's own."""
        copied: Json = orjson.loads(self.raw)
        return copied

    @property
    def listed(self) -> bytes:
        """The JSON without apiVersion and kind, as items of a list of a built-in kind are."""
        head = orjson.dumps({"apiVersion": self.kind.api_version, "kind": self.kind.kind})
        return b"{" + self.raw[len(head) :]


def record_of(kind: Kind, obj: Json) -> Record:
    """Return the record of a complete object; `obj` must be the record's own from now on."""
    metadata = obj["metadata"]
    ordered = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata} | {
        key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")
    }
    return Record(
        kind=kind,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata["uid"],
        version=int(metadata["resourceVersion"]),
        obj=ordered,
        raw=orjson.dumps(ordered),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Commit:
    """One change: the object as it now is (or last was, if deleted) and as it was before; `line` is its line in a
    watch.
    """

    type: EventType
    record: Record
    previous: Record | None
    line: bytes

    @property
    def version(self) -> int:
        """The resourceVersion of the change."""
        return self.record.version


def commit_of(type_: EventType, record: Record, previous: Record | None) -> Commit:
    """Return the commit with its watch line, which all watches share."""
    return Commit(type_, record, previous, watch_line(type_, record.raw))


def watch_line(type_: str, raw: bytes) -> bytes:
    """Return one line of a watch."""
    return b'{"type":"' + type_.encode() + b'","object":' + raw + b"}\n"


class Ring:
    """The last `size` commits of one kind. A cursor is the number of the commit to read next, counted from the
    beginning.
    """

    def __init__(self, size: int) -> None:
        self._commits: deque[Commit] = deque()
        self._size = size
        self._first = 0
        self.floor = 0

    @property
    def end(self) -> int:
        """The cursor behind the newest commit."""
        return self._first + len(self._commits)

    def append(self, commit: Commit) -> None:
        """Add the newest commit, dropping the oldest if the ring is full."""
        self._commits.append(commit)
        if len(self._commits) > self._size:
            self.floor = self._commits.popleft().version
            self._first += 1

    def compact(self, version: int) -> None:
        """Forget everything: the history now begins after `version`."""
        self._first += len(self._commits)
        self._commits.clear()
        self.floor = version

    def seek(self, version: int) -> int:
        """Return the cursor of the first commit after a resourceVersion; 410 if commits after it are forgotten."""
        if version < self.floor:
            raise expired(f"too old resource version: {version} ({self.floor})")
        cursor = self.end
        for commit in reversed(self._commits):
            if commit.version <= version:
                break
            cursor -= 1
        return cursor

    def after(self, cursor: int, limit: int) -> list[Commit]:
        """Return up to `limit` commits from a cursor on; 410 if it has fallen out of the ring."""
        if cursor < self._first:
            raise expired(f"too old resource version: fell behind the history, which begins after {self.floor}")
        return list(islice(self._commits, cursor - self._first, cursor - self._first + limit))

    def rewind(self, records: Iterable[Record], version: int) -> list[Record]:
        """Return the state at an earlier resourceVersion, given the present one; 410 if the ring does not reach back so
        far.
        """
        state = {record.place: record for record in records}
        for commit in reversed(self.after(self.seek(version), len(self._commits))):
            if commit.previous is None:
                state.pop(commit.record.place, None)
            else:
                state[commit.record.place] = commit.previous
        return list(state.values())
