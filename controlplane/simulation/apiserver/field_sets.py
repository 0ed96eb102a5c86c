"""Who owns which field: the set algebra behind `managedFields` and server-side apply.

In: objects, and field sets in the very form in which `managedFields[].fieldsV1` holds them, a trie: `f:name` is a
field, `k:{…}` an item of a list with merge keys, `v:…` an item of a set, `.` the node itself; a node without children
is a member. Out: new sets and new objects; nothing is changed in place. The rules are those of
`sigs.k8s.io/structured-merge-diff` (typed/merge, merge/update).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

Trie = dict[str, Any]
ListKeys = Mapping[str, Sequence[str]]

# Fields of the metadata that nobody manages: the server itself writes them.
_UNMANAGED = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields"}
    | {"deletionTimestamp", "deletionGracePeriodSeconds"}
)


def union(a: Trie, b: Trie) -> Trie:
    """Return the members of either set."""
    if not a or not b:
        # A node without children is a member itself; beside children of the other set that must be said with a dot.
        return {".": {}, **(a or b)} if a or b else {}
    merged = dict(a)
    for key, child in b.items():
        merged[key] = union(merged[key], child) if key in merged else child
    return merged


def join(a: Trie, b: Trie) -> Trie:
    """Return the union of two whole sets, where an empty one means: no members."""
    if not a or not b:
        return a or b
    return union(a, b)


def difference(a: Trie, b: Trie) -> Trie | None:
    """Return the members of `a` that are not in `b`; None if none are left."""
    left: Trie = {}
    own = (not a or "." in a) and not (not b or "." in b)
    for key, child in a.items():
        if key == ".":
            continue
        kept = difference(child, b[key]) if key in b else child
        if kept is not None:
            left[key] = kept
    if own:
        return {".": {}, **left} if left else {}
    return left or None


def intersection(a: Trie, b: Trie) -> Trie | None:
    """Return the members of both sets; None if there are none."""
    common: Trie = {}
    own = (not a or "." in a) and (not b or "." in b)
    for key, child in a.items():
        if key != "." and key in b:
            both = intersection(child, b[key])
            if both is not None:
                common[key] = both
    if own:
        return {".": {}, **common} if common else {}
    return common or None


def paths(node: Trie, prefix: str = "") -> Iterator[str]:
    """Yield the members as kube-apiserver prints them: `.spec.replicas`, `.status.conditions[type="Ready"].status`."""
    if (not node or "." in node) and prefix:
        yield prefix
    for key, child in sorted(node.items()):
        if key.startswith("f:"):
            yield from paths(child, f"{prefix}.{key[2:]}")
        elif key.startswith("k:"):
            named = ",".join(f"{name}={orjson.dumps(value).decode()}" for name, value in orjson.loads(key[2:]).items())
            yield from paths(child, f"{prefix}[{named}]")
        elif key.startswith("v:"):
            yield from paths(child, f"{prefix}[={key[2:]}]")


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """How lists merge (`list_keys`: dotted path → keys, `()` for sets of values) and which top-level structs are always
    there.
    """

    list_keys: ListKeys
    builtin: bool

    def item_key(self, path: str, item: Any) -> str | None:
        """Return the path element of a list's item, None if the list is one value as a whole."""
        names = self.list_keys.get(path)
        if names is None:
            return None
        if not names:
            return "v:" + orjson.dumps(item).decode()
        if not isinstance(item, dict):
            return None
        found = {name: item[name] for name in names if name in item}
        return "k:" + orjson.dumps(found, option=orjson.OPT_SORT_KEYS).decode()

    def keyed(self, path: str, items: Any) -> dict[str, Any] | None:
        """Return a list's items by path element; None for an atomic list."""
        if path not in self.list_keys or not isinstance(items, list):
            return None
        by_key: dict[str, Any] = {}
        for item in items:
            key = self.item_key(path, item)
            if key is None:
                return None
            by_key[key] = item
        return by_key

    def field_set(self, value: Any, path: str = "") -> Trie:
        """Return every field of an applied configuration."""
        if isinstance(value, dict):
            node = {
                f"f:{name}": self.field_set(child, _at(path, name))
                for name, child in value.items()
                if not _unmanaged(path, name)
            }
            if not path and not node.get("f:metadata", True):
                # Metadata of which nobody owns a field is not owned as a whole either.
                del node["f:metadata"]
            return node
        items = self.keyed(path, value)
        if items is None:
            return {}
        return {key: {".": {}, **self.field_set(item, path)} if key[0] == "k" else {} for key, item in items.items()}

    def added(self, value: Any, path: str = "") -> Trie:
        """Return every field of a value that was not there before, the node itself included."""
        node = self.field_set(value, path)
        if not node:
            return node
        children = {key: self._added_child(key, value, path, child) for key, child in node.items()}
        structural = path in ("", "metadata") or (self.builtin and path in ("spec", "status"))
        return children if structural else {".": {}, **children}

    def _added_child(self, key: str, value: Any, path: str, child: Trie) -> Trie:
        if key.startswith("f:") and isinstance(value, dict):
            return self.added(value[key[2:]], _at(path, key[2:]))
        return child

    def compare(self, old: Any, new: Any, path: str = "") -> tuple[Trie | None, Trie | None]:
        """Return the fields that `new` adds or changes, and those that it no longer has; None where there are none."""
        if old == new and type(old) is type(new):
            return None, None
        if isinstance(old, dict) and isinstance(new, dict):
            return self._compare(
                {f"f:{name}": value for name, value in old.items() if not _unmanaged(path, name)},
                {f"f:{name}": value for name, value in new.items() if not _unmanaged(path, name)},
                path,
            )
        before, after = self.keyed(path, old), self.keyed(path, new)
        if before is not None and after is not None:
            return self._compare(before, after, path)
        return {}, None

    def _compare(self, old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> tuple[Trie | None, Trie | None]:
        changed: Trie = {}
        removed: Trie = {}
        for key, value in new.items():
            below = _at(path, key[2:]) if key[0] == "f" else path
            if key not in old:
                changed[key] = self.added(value, below)
            else:
                more, less = self.compare(old[key], value, below)
                if more is not None:
                    changed[key] = more
                if less is not None:
                    removed[key] = less
        for key, value in old.items():
            if key not in new:
                removed[key] = self.added(value, _at(path, key[2:]) if key[0] == "f" else path)
        return changed or None, removed or None

    def merge(self, live: Any, applied: Any, path: str = "") -> Any:
        """Return `live` with an applied configuration laid over it."""
        if isinstance(live, dict) and isinstance(applied, dict):
            merged = dict(live)
            for name, value in applied.items():
                merged[name] = self.merge(live[name], value, _at(path, name)) if name in live else value
            return merged
        before, after = self.keyed(path, live), self.keyed(path, applied)
        if before is None or after is None:
            return applied
        return [self.merge(item, after[key], path) if key in after else item for key, item in before.items()] + [
            item for key, item in after.items() if key not in before
        ]

    def prune(self, value: Any, last: Trie, now: Trie | None, others: Sequence[Trie], path: str = "") -> Any:
        """Return `value` without what a manager applied before (`last`), no longer applies (`now`) and nobody else
        owns.
        """
        if isinstance(value, dict):
            kept = dict(value)
            for key, child in last.items():
                name = key[2:]
                if key.startswith("f:") and name in value:
                    self._prune_at(kept, name, value[name], (child, key), now, others, _at(path, name))
            return kept
        items = self.keyed(path, value)
        if items is None:
            return value
        kept_items: dict[str, Any] = dict(items)
        for key, child in last.items():
            if key in items:
                self._prune_at(kept_items, key, items[key], (child, key), now, others, path)
        return list(kept_items.values())

    def _prune_at(
        self,
        kept: dict[str, Any],
        slot: str,
        value: Any,
        owned: tuple[Trie, str],
        now: Trie | None,
        others: Sequence[Trie],
        path: str,
    ) -> None:
        """Prune one child in `kept`: drop it if nobody holds any part of it, otherwise look deeper."""
        child, key = owned
        still = now.get(key) if now is not None else None
        holders = [other[key] for other in others if key in other]
        if still is None and not holders:
            del kept[slot]
        else:
            kept[slot] = self.prune(value, child, still, holders, path)


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _unmanaged(path: str, name: str) -> bool:
    return (not path and name in ("apiVersion", "kind")) or (path == "metadata" and name in _UNMANAGED)
