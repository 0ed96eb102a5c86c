"""How a record goes out over the wire: as the object, as its metadata alone, as a row of a table, or in another
version.

In: records, and the Accept header of a request. Out: bytes of one object, of a list, of a watch line. The plain form
sends the record's own bytes; every other form is made for the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import orjson

from controlplane.kube.kinds import Json
from controlplane.simulation.apiserver.cells import age, at_path
from controlplane.simulation.apiserver.core_events import to_core
from controlplane.simulation.apiserver.history import Commit, Record, watch_line
from controlplane.simulation.kinds.base import Column, ServedKind

Form = Literal["object", "table", "metadata"]
_AS = re.compile(r"as=(Table|PartialObjectMetadata(?:List)?)\b")


def form_of(accept: str) -> Form:
    """Return the form that an Accept header asks for first."""
    first = accept.split(",", 1)[0]
    found = _AS.search(first)
    if found is None:
        return "object"
    return "table" if found.group(1) == "Table" else "metadata"


@dataclass(frozen=True, slots=True)
class Representation:
    """One kind as one request wants to see it. `include` is the table's `includeObject`: None, Metadata or Object."""

    served: ServedKind
    form: Form
    now: Callable[[], datetime]
    include: str = "Metadata"

    @property
    def plain(self) -> bool:
        """Whether records go out as they are."""
        return self.form == "object" and self.served.stored_as is None

    def object(self, record: Record) -> Json:
        """Return the object in the version that is asked for; it must not be changed."""
        return to_core(record.obj) if self.served.stored_as is not None else record.obj

    def one(self, record: Record) -> bytes:
        """Return one object."""
        if self.plain:
            return record.raw
        obj = self.object(record)
        if self.form == "table":
            return orjson.dumps(self._table([obj], str(record.version), heading=True))
        return orjson.dumps(_partial(obj) if self.form == "metadata" else obj)

    def many(self, records: Sequence[Record], metadata: Json) -> bytes:
        """Return a list with its own metadata."""
        kind = self.served.kind
        if self.form == "table":
            table = self._table([self.object(record) for record in records], "", heading=True)
            return orjson.dumps({**table, "metadata": metadata})
        if self.form == "metadata":
            head: Json = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
            items = [orjson.dumps(_partial(self.object(record))) for record in records]
        else:
            head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version}
            items = [self._item(record) for record in records]
        opened = orjson.dumps({**head, "metadata": metadata})[:-1]
        return opened + b',"items":[' + b",".join(items) + b"]}"

    def line(self, type_: str, record: Record, *, first: bool = False) -> bytes:
        """Return one line of a watch; the `first` of a table carries the headings."""
        if self.form == "table":
            table = self._table([self.object(record)], str(record.version), heading=first)
            return watch_line(type_, orjson.dumps(table))
        return watch_line(type_, self.one(record))

    def commit_line(self, commit: Commit, *, first: bool = False) -> bytes:
        """Return a commit's line, shared where it is plain."""
        return commit.line if self.plain else self.line(commit.type, commit.record, first=first)

    def bookmark(self, version: int, *, initial_end: bool = False) -> bytes:
        """Return a BOOKMARK line; `initial_end` marks the end of the initial events."""
        metadata: Json = {"resourceVersion": str(version)}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind = self.served.kind
        obj: Json = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        if self.form == "metadata":
            obj |= {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        elif self.form == "table":
            obj = {**self._table([], str(version), heading=False), "rows": [{"cells": [], "object": _partial(obj)}]}
        return watch_line("BOOKMARK", orjson.dumps(obj))

    def _item(self, record: Record) -> bytes:
        """Items of a list of a built-in kind carry no apiVersion and kind, as Go's typed lists do not."""
        if not self.served.builtin:
            return self.one(record)
        if self.plain:
            return record.listed
        obj = self.object(record)
        return orjson.dumps({key: value for key, value in obj.items() if key not in ("apiVersion", "kind")})

    def _table(self, objects: Sequence[Json], version: str, *, heading: bool) -> Json:
        now = self.now()
        definitions = [
            {"name": column.name, "type": column.type, "format": "", "description": "", "priority": column.priority}
            for column in self.served.columns
        ]
        name = {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}
        names = [name] if self.served.named_first else []
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": version},
            "columnDefinitions": [*names, *definitions] if heading else None,
            "rows": [self._row(obj, now) for obj in objects],
        }

    def _row(self, obj: Json, now: datetime) -> Json:
        names = [obj["metadata"]["name"]] if self.served.named_first else []
        cells = [*names, *(_cell(column, obj, now) for column in self.served.columns)]
        row: Json = {"cells": cells}
        if self.include != "None":
            row["object"] = obj if self.include == "Object" else _partial(obj)
        return row


def _cell(column: Column, obj: Json, now: datetime) -> Any:
    if column.value is not None:
        return column.value(obj, now)
    found = at_path(obj, column.path)
    if found is None:
        return None
    if column.type == "date":
        return age(found, now)
    if column.type == "integer":
        return found
    return str(found).lower() if isinstance(found, bool) else str(found)


def _partial(obj: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
