"""Judges what of an object, as an API server showed it, can be taken: its identity, and whether the rest can be read
and recorded.

In: a decoded object. Out: why it cannot be told apart from others; why the rest of it cannot be used; what is left of
it then. Pure. An API server that stores objects by Kubernetes' rules never shows such a thing, and one that does must
not be able to stop us: nesting ends every recursion in a stack overflow, a number of thousands of digits is no number
to Python, and the database holds no U+0000."""

from __future__ import annotations

from typing import Any

import orjson

from controlplane.kube.kinds import Json, is_path_part

DEEPEST = 100  # levels; the deepest schemas of Kubernetes have about thirty
LARGEST = 16 << 20  # bytes of one object: etcd stores a tenth of it
_LONGEST_VERSION = 64
_MOST_NOTES = 1 << 18  # bytes of all annotations, Kubernetes' own (apimachinery, pkg/api/validation/objectmeta.go)


def place_problem(metadata: Any) -> str:
    """Return why an object's name, namespace or UID cannot be one, "" if they can."""
    if not isinstance(metadata, dict):
        return "an object without metadata"
    for field in ("name", "uid", "namespace"):
        found = metadata.get(field)
        if found is None and field == "namespace":
            continue
        if not isinstance(found, str) or (not found and field != "namespace"):
            return f"an object without {field}" if not found else f"an object whose {field} is no text"
        if not is_path_part(found):
            return f"an object whose {field} is no part of a path"
    return ""


def version_of(metadata: Any) -> str:
    """Return a resourceVersion that can be one, "" for anything else."""
    found = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    usable = isinstance(found, str) and len(found) <= _LONGEST_VERSION and found.isprintable()
    return str(found) if usable else ""


def unreadable(found: Json) -> str:
    """Return why an object can be neither read nor recorded, "" if it can."""
    try:
        text = orjson.dumps(found)
    except TypeError:  # deeper than the encoder goes, or a number of more than 64 bits
        return (
            f"it cannot be spelled as JSON: it is nested too deep (more than {DEEPEST} levels), "
            "or holds what is no number"
        )
    if len(text) > LARGEST:
        return f"it has {len(text)} bytes, and {LARGEST} are read"
    if (rb"\u0000" in text or _looks_deep(text)) and (why := _walk(found)):
        return why
    return ""


def remains(found: Json, version: str) -> Json:
    """Return what is left of an object that cannot be read: its identity, and its labels and annotations if those can
    be.
    """
    metadata = found["metadata"]
    kept = {key: metadata[key] for key in ("namespace", "name", "uid") if key in metadata}
    if version:
        kept["resourceVersion"] = version
    kept |= {key: metadata[key] for key in ("labels", "annotations") if _notes(metadata.get(key))}
    if "deletionTimestamp" in metadata:
        kept["deletionTimestamp"] = ""
    return {"metadata": kept}


def _notes(found: Any) -> bool:
    """Whether something can be labels or annotations."""
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        return False
    whole = "".join([*found, *found.values()])
    return len(whole) <= _MOST_NOTES and "\0" not in whole


def _looks_deep(text: bytes) -> bool:
    """Whether a JSON text may be nested too deep: brackets are peeled off from the inside, those within its texts
    included.
    """
    brackets = text.translate(None, _OTHERS)
    for _ in range(DEEPEST):
        peeled = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if len(peeled) == len(brackets):
            break
        brackets = peeled
    return bool(brackets)


_OTHERS = bytes(set(range(256)) - set(b"{}[]"))


def _walk(found: Any) -> str:
    """Look at every value, level by level."""
    level = [found]
    for _ in range(DEEPEST + 1):
        if not level:
            return ""
        below: list[Any] = []
        for value in level:
            texts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
            if any(isinstance(one, str) and "\0" in one for one in texts):
                return "it holds the character U+0000, which the log cannot hold"
            below += [one for one in texts if isinstance(one, dict | list)]
        level = below
    return f"it is nested too deep: more than {DEEPEST} levels"
