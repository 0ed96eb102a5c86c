"""Fields of objects as an API server shows them, read by name: absent is empty, and a wrong type is a `Misfit` that
names the field.

In: objects as dicts. Out: values of the type that the API promises. The CRDs guarantee most of it; what reaches us from
an older or patched API server may still not fit, and is then refused by name. Controllers that tell a user what to
write instead read with messages of their own."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.kube.kinds import Json, Kind, meta


class Misfit(ValueError):  # noqa: N818
    """A field of an object is not what the API promises."""

    def __init__(self, field: str, found: object, expected: str) -> None:
        super().__init__(f"{field}: expected {expected}, found {type(found).__name__}")
        self.field = field


class BadValue(Misfit):
    """A field has a value of the right type that it may not have; the text says why."""

    def __init__(self, field: str, why: str) -> None:
        ValueError.__init__(self, f"{field}: {why}")
        self.field = field


class UnreadableObject(Misfit):
    """An object cannot be read as a whole; the text says why. Its `field` is `object`."""

    def __init__(self, why: str) -> None:
        ValueError.__init__(self, f"object: {why}")
        self.field = "object"


#: What reading an object raises that does not fit its API, whoever reads it: a `Misfit`, or Python's and the decoder's
#: own words for it.
UNFIT = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError, msgspec.MsgspecError)


def section(obj: Json, field: str, where: str = "") -> Json:
    """Return a sub-object, empty where it is absent; `Misfit` if it is something else."""
    found = obj.get(field)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise Misfit(f"{where}.{field}" if where else field, found, "an object")
    return found


def items(obj: Json, field: str, where: str) -> list[Json]:
    """Return a list of objects, empty where it is absent; `Misfit` otherwise."""
    found = obj.get(field)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise Misfit(f"{where}.{field}", found, "a list of objects")
    return found


def text(obj: Json, field: str, where: str) -> str:
    """Return a string, "" where it is absent; `Misfit` otherwise."""
    found = obj.get(field)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise Misfit(f"{where}.{field}", found, "a string")
    return found


def number(obj: Json, field: str, where: str) -> int:
    """Return an integer, 0 where it is absent; `Misfit` otherwise."""
    found = obj.get(field)
    if found is None:
        return 0
    if not isinstance(found, int) or isinstance(found, bool):
        raise Misfit(f"{where}.{field}", found, "an integer")
    return found


def flag(obj: Json, field: str, where: str) -> bool:
    """Return a boolean, False where it is absent; `Misfit` otherwise."""
    found = obj.get(field)
    if found is None:
        return False
    if not isinstance(found, bool):
        raise Misfit(f"{where}.{field}", found, "a boolean")
    return found


def strings(obj: Json, field: str, where: str) -> list[str]:
    """Return a list of strings, empty where it is absent; `Misfit` otherwise."""
    found = obj.get(field)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise Misfit(f"{where}.{field}", found, "a list of strings")
    return found


def identity(obj: Json) -> dict[str, Any]:
    """Return what every observed object has; `Misfit` if it has no name or UID."""
    metadata = meta(obj)
    name, uid = text(metadata, "name", "metadata"), text(metadata, "uid", "metadata")
    if not name or not uid:
        raise Misfit("metadata.name" if not name else "metadata.uid", None, "a name" if not name else "a UID")
    return {
        "namespace": text(metadata, "namespace", "metadata"),
        "name": name,
        "uid": uid,
        "resource_version": text(metadata, "resourceVersion", "metadata"),
        "deleting": "deletionTimestamp" in metadata,
    }


def refusal(kind: Kind, obj: Json, error: Exception) -> dict[str, Any]:
    """Return what every event of an object says that does not fit its API: which object, which of its versions, which
    field and why.
    """
    metadata = meta(obj)
    return {
        "kind": kind.name,
        "namespace": str(metadata.get("namespace", "")),
        "name": str(metadata.get("name", "")),
        "uid": str(metadata.get("uid", "")),
        "resource_version": str(metadata.get("resourceVersion", "")),
        "field": getattr(error, "field", ""),
        "error": str(error),
    }
