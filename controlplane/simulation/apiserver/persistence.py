"""A simulated cluster's objects in a file, so that a second start goes on where the first one stopped.

In: a store. Out: one file of JSON lines, a header with the resourceVersion and then one object a line, complete (uid,
resourceVersion, managedFields and all); it replaces its predecessor in one rename, so a crash leaves the old or the new
one. The history is not kept: whoever watches from an older resourceVersion is told 410 and lists again, as after a
compaction.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from controlplane.kube.kinds import Json, Kind
from controlplane.simulation.apiserver.store import Store

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """A store's contents at one resourceVersion, already as lines; taking one does no I/O, writing it touches no
    store.
    """

    version: int
    lines: tuple[bytes, ...]

    def write(self, path: Path) -> None:
        """Write the file, in one rename. OSError if it cannot be written."""
        partial = path.with_name(f"{path.name}.partial")
        with partial.open("wb") as file:
            file.write(b"\n".join(self.lines) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)


def snapshot(store: Store) -> StoreSnapshot:
    """Return what the store holds now."""
    header = {"format": _FORMAT, "cluster": store.name, "resourceVersion": store.version}
    objects = (
        record.raw for kind in store.served if store.served[kind].stored == kind for record in store.records(kind)
    )
    return StoreSnapshot(store.version, (orjson.dumps(header), *objects))


def load(store: Store, path: Path) -> bool:
    """Fill a store that nobody uses yet from a file; False if there is none. ValueError if it is not such a file, or of
    a kind not served.
    """
    if not path.exists():
        return False
    with path.open("rb") as file:
        header = orjson.loads(file.readline())
        if header.get("format") != _FORMAT:
            raise ValueError(f"{path} is not a snapshot of format {_FORMAT}")
        store.restore(_objects(store, file.read()), int(header["resourceVersion"]))
    return True


def _objects(store: Store, lines: bytes) -> Iterator[tuple[Kind, Json]]:
    kinds = {(kind.api_version, kind.kind): kind for kind, served in store.served.items() if served.stored == kind}
    for line in lines.splitlines():
        obj: Json = orjson.loads(line)
        kind = kinds.get((obj["apiVersion"], obj["kind"]))
        if kind is None:
            raise ValueError(f"{store.name} does not serve {obj['apiVersion']} {obj['kind']}")
        yield kind, obj
