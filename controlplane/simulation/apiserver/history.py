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

from controlplane.kube.kinds import Json, Kind
from controlplane.simulation.apiserver.errors import expired

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(slots=True, eq=False)
class Record:
    """One state of one object, never changed: `raw` is its JSON, beginning with apiVersion and kind.

    The decoded object is kept while the state is the present one; of a state in the history it is decoded when asked
    for."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    version: int
    labels: Json
    raw: bytes
    _decoded: Json | None

    @property
    def obj(self) -> Json:
        """The object, which must not be changed."""
        return self._decoded if self._decoded is not None else self.copy()

    @property
    def place(self) -> tuple[str, str]:
        """Namespace and name, which order a list."""
        return self.namespace, self.name

    def copy(self) -> Json:
        """Return the object as a value of the caller's own."""
        copied: Json = orjson.loads(self.raw)
        return copied

    def retire(self) -> None:
        """Let go of the decoded object: the state is history."""
        self._decoded = None

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
        kind,
        metadata.get("namespace", ""),
        metadata["name"],
        metadata["uid"],
        int(metadata["resourceVersion"]),
        metadata.get("labels") or {},
        orjson.dumps(ordered),
        ordered,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Commit:
    """One change: the object as it now is (or last was, if deleted) and as it was before."""

    type: EventType
    record: Record
    previous: Record | None

    @property
    def version(self) -> int:
        """The resourceVersion of the change."""
        return self.record.version

    @property
    def line(self) -> bytes:
        """The change as a line of a watch."""
        return watch_line(self.type, self.record.raw)


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
