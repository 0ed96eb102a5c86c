"""The bookkeeping of `metadata.managedFields`: what a write by somebody does to everybody's field sets.

In: the object before and after a write, and who wrote it how. Out: the new list of entries, and for an apply the
merged object, or a 409 that names the other owners. An entry belongs to a manager, an operation (Apply or Update) and
a subresource together: the same name through another door is another owner, exactly as on a real server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from controlplane.kube.kinds import Json
from controlplane.simulation.apiserver.errors import ApiRefusal, apply_conflict
from controlplane.simulation.apiserver.field_sets import FieldSchema, Trie, difference, intersection, join, paths


@dataclass(frozen=True, slots=True)
class FieldWriter:
    """Who writes: a field manager, how, through which subresource, in which version, at what time (RFC 3339)."""

    manager: str
    operation: Literal["Apply", "Update"]
    subresource: str
    api_version: str
    time: str

    def owns(self, entry: Json) -> bool:
        """Whether a managedFields entry is this writer's own."""
        return (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (
            self.manager,
            self.operation,
            self.subresource,
        )

    def entry(self, fields: Trie, previous: Json | None, content_changed: bool) -> Json:
        """Return this writer's entry; its time stays as it was if neither its fields nor the object changed."""
        same = previous is not None and previous["fieldsV1"] == fields and not content_changed
        time = previous["time"] if same and previous is not None else self.time
        entry: Json = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version}
        entry |= {"time": time, "fieldsType": "FieldsV1", "fieldsV1": fields}
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def _entries(obj: Json | None) -> list[Json]:
    return list((obj or {}).get("metadata", {}).get("managedFields") or [])


def _split(entries: Sequence[Json], writer: FieldWriter) -> tuple[Json | None, list[Json]]:
    own = next((entry for entry in entries if writer.owns(entry)), None)
    return own, [entry for entry in entries if entry is not own]


def _without(entries: Sequence[Json], gone: Sequence[Trie | None]) -> list[Json]:
    """Return the entries less the fields in `gone`; an entry that is left with nothing disappears."""
    kept: list[Json] = []
    for entry in entries:
        fields: Trie | None = entry["fieldsV1"]
        for removed in gone:
            if fields is not None and removed is not None:
                fields = difference(fields, removed)
        if fields is entry["fieldsV1"]:
            kept.append(entry)
        elif fields is not None:
            kept.append(entry if fields == entry["fieldsV1"] else {**entry, "fieldsV1": fields})
    return kept


def _sorted(entries: list[Json]) -> list[Json]:
    return sorted(entries, key=lambda e: (e["operation"], e["time"], e["manager"], e.get("subresource", "")))


def track_update(old: Json | None, new: Json, writer: FieldWriter, schema: FieldSchema) -> list[Json]:
    """Return the entries after a create, PUT or patch: the writer owns what it changed, and nobody else does any
    more.
    """
    own, others = _split(_entries(old), writer)
    changed, removed = (schema.added(new), None) if old is None else schema.compare(old, new)
    if changed is None and removed is None:
        return _entries(old)
    fields: Trie | None = own["fieldsV1"] if own else None
    if fields is not None and removed is not None:
        fields = difference(fields, removed)
    fields = join(fields or {}, changed or {})
    entries = _without(others, [changed, removed])
    if fields:
        entries.append(writer.entry(fields, own, content_changed=True))
    return _sorted(entries)


def apply(live: Json | None, config: Json, writer: FieldWriter, schema: FieldSchema, *, force: bool) -> Json:
    """Return the live object with an applied configuration laid over it, its managedFields brought up to date.

    409 with the owners' names if the configuration changes fields that others own and `force` is not set. What this
    manager applied before and now leaves out is removed unless somebody else owns it.
    """
    own, others = _split(_entries(live), writer)
    wanted = schema.field_set(config)
    before: Json = live or {}
    merged: Json = schema.merge(before, config)
    if own is not None:
        merged = schema.prune(merged, own["fieldsV1"], wanted, [entry["fieldsV1"] for entry in others])
    changed, removed = schema.compare(before, merged)
    if changed is not None and not force:
        _refuse_conflicts(others, changed)
    entries = _without(others, [changed, removed])
    if wanted:
        entries.append(writer.entry(wanted, own, content_changed=changed is not None or removed is not None))
    return {**merged, "metadata": {**merged.get("metadata", {}), "managedFields": _sorted(entries)}}


def _refuse_conflicts(others: Sequence[Json], changed: Trie) -> None:
    conflicts: dict[str, list[str]] = {}
    for entry in others:
        common = intersection(entry["fieldsV1"], changed)
        if common is not None:
            conflicts[_spelled(entry)] = list(paths(common))
    if conflicts:
        raise _conflict_error(conflicts)


def _spelled(entry: Json) -> str:
    text = f'"{entry["manager"]}"'
    if entry.get("subresource"):
        text += f' with subresource "{entry["subresource"]}"'
    return f"{text} using {entry['apiVersion']}" if entry["operation"] == "Update" else text


def _conflict_error(conflicts: dict[str, list[str]]) -> ApiRefusal:
    count = sum(len(found) for found in conflicts.values())
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, found in conflicts.items()
        for path in found
    ]
    if count == 1:
        ((manager, (path,)),) = conflicts.items()
        return apply_conflict(f"Apply failed with 1 conflict: conflict with {manager}: {path}", causes)
    lines = [
        line
        for manager in sorted(conflicts)
        for line in (f"conflicts with {manager}:", *(f"- {path}" for path in conflicts[manager]))
    ]
    return apply_conflict(f"Apply failed with {count} conflicts: " + "\n".join(lines), causes)
