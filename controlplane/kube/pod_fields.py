"""Reads fields of Kubernetes objects by name: absent is empty, and a wrong type is a `PodMisfit` that names object and
field.

Objects come as they are, from a watch or from a file: nothing is defaulted here, and nothing that the API promises is
trusted."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from controlplane.kube.kinds import Json

Obj = Mapping[str, Any]
MOST = 2**63 - 1


class PodMisfit(ValueError):  # noqa: N818 - it names what does not fit
    """A field of an object is not what the API promises."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


def section(obj: Obj, field: str, where: str) -> Obj:
    """Return a sub-object, empty where it is absent; `PodMisfit` otherwise."""
    found = obj.get(field)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise _misfit(where, field, "an object", found)
    return found


def items(obj: Obj, field: str, where: str) -> list[Json]:
    """Return a list of objects, empty where it is absent; `PodMisfit` otherwise."""
    found = obj.get(field)
    if found is None:
        return []
    if not isinstance(found, list):
        raise _misfit(where, field, "a list of objects", found)
    for number, item in enumerate(found):
        if not isinstance(item, dict):
            raise _misfit(where, f"{field}[{number}]", "an object", item)
    return found


def text(obj: Obj, field: str, where: str) -> str:
    """Return a string, "" where it is absent; `PodMisfit` otherwise."""
    found = obj.get(field)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise _misfit(where, field, "a string", found)
    return found


def number(obj: Obj, field: str, where: str, default: int = 0) -> int:
    """Return an integer, the default where it is absent; `PodMisfit` otherwise."""
    found = obj.get(field)
    if found is None:
        return default
    if not isinstance(found, int) or isinstance(found, bool):
        raise _misfit(where, field, "an integer", found)
    if not -MOST - 1 <= found <= MOST:
        raise _misfit(where, field, "an integer of at most 64 bits", found)
    return found


def flag(obj: Obj, field: str, where: str) -> bool:
    """Return a boolean, False where it is absent; `PodMisfit` otherwise."""
    found = obj.get(field)
    if found is None:
        return False
    if not isinstance(found, bool):
        raise _misfit(where, field, "true or false", found)
    return found


def strings(obj: Obj, field: str, where: str) -> tuple[str, ...]:
    """Return strings, none where they are absent; `PodMisfit` otherwise."""
    found = obj.get(field)
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise _misfit(where, field, "a list of strings", found)
    return tuple(found)


def string_map(obj: Obj, field: str, where: str) -> dict[str, str]:
    """Return a map of strings (labels), empty where it is absent; `PodMisfit` otherwise."""
    found = section(obj, field, where)
    for key, value in found.items():
        if not isinstance(value, str):
            raise _misfit(where, f"{field}[{key}]", "a string", value)
    return dict(found)


def instant(obj: Obj, field: str, where: str) -> float | None:
    """Return a time (RFC 3339) in seconds since 1970, None where it is absent; `PodMisfit` otherwise."""
    found = text(obj, field, where)
    if not found:
        return None
    try:
        read = datetime.datetime.fromisoformat(found)
    except ValueError as error:
        raise _misfit(where, field, "a time as 2026-01-31T12:00:00Z", found) from error
    return (read if read.tzinfo else read.replace(tzinfo=datetime.UTC)).timestamp()


def _misfit(where: str, field: str, expected: str, found: object) -> PodMisfit:
    shown = repr(found) if isinstance(found, str | int | float) else type(found).__name__
    return PodMisfit(f"{where}.{field}" if where else field, f"expected {expected}, found {shown}")
