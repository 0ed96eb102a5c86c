"""The three patch formats that are pure documents: JSON merge patch, JSON patch, and Kubernetes' strategic merge patch.

In: a document that must not be changed and a patch. Out: a new document, which shares with the old what the patch
left alone. RFC 7386, RFC 6902, and `k8s.io/apimachinery/pkg/util/strategicpatch` are where the rules come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.kube.kinds import APPLY_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Json
from controlplane.simulation.apiserver.errors import ApiRefusal, bad_request, unpatchable, unsupported_media

JSON_PATCH = "application/json-patch+json"

ListKeys = Mapping[str, Sequence[str]]


def patched(target: Json, patch: Any, content_type: str, *, list_keys: ListKeys, builtin: bool) -> Json:
    """Return `target` with a patch of the named type applied; 415 for a type that the kind does not take, 400 for a
    misshapen body.
    """
    known = [JSON_PATCH, MERGE_PATCH, *([STRATEGIC_PATCH] if builtin else [])]
    if content_type not in known:
        raise unsupported_media([*known, APPLY_PATCH])
    if content_type == JSON_PATCH and isinstance(patch, list):
        return json_patch(target, patch)
    if content_type == JSON_PATCH or not isinstance(patch, dict):
        raise bad_request("error decoding patch: the body does not fit the patch type")
    merging = content_type == MERGE_PATCH
    merged: Json = merge_patch(target, patch) if merging else strategic_merge(target, patch, list_keys)
    return merged


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` with an RFC 7386 merge patch applied: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: Json, operations: Sequence[Json]) -> Json:
    """Return `target` with RFC 6902 operations applied; 422 if a path is missing or a `test` fails, 400 for an unknown
    operation.
    """
    document: Any = target
    for operation in operations:
        kind, path = operation.get("op"), _pointer(operation.get("path"))
        if kind in ("add", "replace"):
            document = _put(document, path, operation.get("value"), insert=kind == "add")
        elif kind == "remove":
            document = _drop(document, path)
        elif kind in ("move", "copy"):
            source = _pointer(operation.get("from"))
            value = _find(document, source)
            document = _put(_drop(document, source) if kind == "move" else document, path, value, insert=True)
        elif kind == "test":
            if _find(document, path, default=None) != operation.get("value"):
                raise unpatchable()
        else:
            raise bad_request(f"Unexpected kind: {kind}")
    if not isinstance(document, dict):
        raise unpatchable()
    return document


def _pointer(text: object) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise unpatchable()
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


_MISSING: Any = object()


def _index(step: str, length: int) -> int:
    if not step.lstrip("-").isdigit() or not 0 <= int(step) < length:
        raise unpatchable()
    return int(step)


def _find(document: Any, path: Sequence[str], default: Any = _MISSING) -> Any:
    try:
        for step in path:
            if isinstance(document, list):
                document = document[_index(step, len(document))]
            elif isinstance(document, dict) and step in document:
                document = document[step]
            else:
                raise unpatchable()
    except ApiRefusal:
        if default is _MISSING:
            raise
        return default
    return document


def _put(document: Any, path: Sequence[str], value: Any, *, insert: bool) -> Any:
    """Return `document` with `value` at `path`; `insert` adds to lists and makes new keys, otherwise the place must
    exist.
    """
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(document, dict):
        if step not in document and (rest or not insert):
            raise unpatchable()
        return {**document, step: _put(document.get(step), rest, value, insert=insert)}
    if not isinstance(document, list):
        raise unpatchable()
    changed = list(document)
    if not rest and insert:
        changed.insert(len(changed) if step == "-" else _index(step, len(changed) + 1), value)
    else:
        at = _index(step, len(changed))
        changed[at] = _put(changed[at], rest, value, insert=insert)
    return changed


def _drop(document: Any, path: Sequence[str]) -> Any:
    if not path:
        raise unpatchable()
    step, rest = path[0], path[1:]
    if isinstance(document, dict) and step in document:
        if rest:
            return {**document, step: _drop(document[step], rest)}
        return {key: value for key, value in document.items() if key != step}
    if isinstance(document, list):
        at = _index(step, len(document))
        tail = [_drop(document[at], rest)] if rest else []
        return [*document[:at], *tail, *document[at + 1 :]]
    raise unpatchable()


def strategic_merge(target: Any, patch: Any, list_keys: ListKeys, path: str = "") -> Any:
    """Return `target` with a strategic merge patch applied: like a merge patch, but lists named in `list_keys` merge by
    key.

    An empty key means a list of plain values, which is united. `$patch: delete|replace`, `$retainKeys`,
    `$setElementOrder/…` and `$deleteFromPrimitiveList/…` are understood; an order directive only orders what the merge
    leaves.
    """
    if not isinstance(patch, dict):
        return patch
    if _directive(patch) == "delete":
        return {}
    if _directive(patch) == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    merged = _retained(target, patch)
    _merge_fields(merged, patch, list_keys, path)
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            merged[name] = [item for item in merged.get(name) or [] if item not in value]
    return {key: _ordered(value, patch, key, list_keys, path) for key, value in merged.items()}


def _merge_fields(merged: Json, patch: Json, list_keys: ListKeys, path: str) -> None:
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        here = f"{path}.{key}" if path else key
        if value is None:
            merged.pop(key, None)
        elif key not in merged and _directive(value):
            continue  # Kubernetes leaves out what says how to change what is not there (dropDirectives)
        elif isinstance(value, list) and here in list_keys:
            merged[key] = _merge_list(merged.get(key), value, list_keys, here)
        else:
            merged[key] = strategic_merge(merged.get(key), value, list_keys, here)


def _directive(item: Any) -> Any:
    return item.get("$patch") if isinstance(item, dict) else None


def _retained(target: Any, patch: Json) -> Json:
    """Return what a merge starts from: the target, cut to the keys that the patch retains."""
    if not isinstance(target, dict):
        return {}
    keys = patch.get("$retainKeys")
    return {key: value for key, value in target.items() if not isinstance(keys, list) or key in keys}


def _merge_list(target: Any, patch: list[Any], list_keys: ListKeys, path: str) -> list[Any]:
    merged = list(target) if isinstance(target, list) else []
    if any(_directive(item) == "replace" for item in patch):
        return [item for item in patch if not (isinstance(item, dict) and "$patch" in item)]
    names = list_keys[path]
    if not names:
        return merged + [item for item in patch if item not in merged]
    for item in patch:  # identified by the first key alone (`patchMergeKey`), whatever further keys an apply would use
        merged = _merge_item(merged, item, names[0], list_keys, path)
    return merged


def _merge_item(merged: list[Any], item: Any, name: str, list_keys: ListKeys, path: str) -> list[Any]:
    if not isinstance(item, dict) or name not in item:
        raise bad_request(f"map: {item} does not contain declared merge key: {name}")
    same = [at for at, old in enumerate(merged) if isinstance(old, dict) and old.get(name) == item[name]]
    if _directive(item) == "delete":
        return [old for at, old in enumerate(merged) if at not in same]
    if not same:
        return [*merged, strategic_merge({}, item, list_keys, path)]
    merged[same[0]] = strategic_merge(merged[same[0]], item, list_keys, path)
    return merged


def _ordered(value: Any, patch: Json, key: str, list_keys: ListKeys, path: str) -> Any:
    order = patch.get(f"$setElementOrder/{key}")
    if not isinstance(order, list) or not isinstance(value, list):
        return value
    names = list_keys.get(f"{path}.{key}" if path else key) or ()

    def rank(item: Any) -> int:
        wanted = {names[0]: item.get(names[0])} if names and isinstance(item, dict) else item
        return order.index(wanted) if wanted in order else len(order)

    return sorted(value, key=rank)
