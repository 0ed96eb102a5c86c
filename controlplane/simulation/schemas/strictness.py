"""Finds the fields of an object that its kind does not have: those that a real API server refuses or drops.

In: an object as JSON has it, and its message. Out: paths, as a real server spells them. What is in no table is not
looked at: an open object may hold anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.kube.kinds import Json
from controlplane.simulation.schemas.messages import Field, Message, kubernetes


def unknown_fields(message: Message, obj: Json) -> list[str]:
    """Return the paths of the fields that are not known, such as `spec.template.spec.containers[0].imag`."""
    bare = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
    return list(_unknown(message, bare, ""))


def _unknown(message: Message, obj: Any, path: str) -> Iterator[str]:
    if not isinstance(obj, dict):
        return
    fields = {field.name: field for field in kubernetes().fields(message)}
    for name, value in obj.items():
        at = f"{path}.{name}" if path else name
        field = fields.get(name)
        if name.startswith("$"):  # says how a strategic merge patch is to be merged
            continue
        if field is None:
            yield at
        elif field.is_message:
            yield from _inside(field, value, at)


def _inside(field: Field, value: Any, at: str) -> Iterator[str]:
    message = kubernetes()[field.type]
    if field.repeated and isinstance(value, list):
        for index, one in enumerate(value):
            yield from _unknown(message, one, f"{at}[{index}]")
    elif field.mapped and isinstance(value, dict):
        for key, one in value.items():
            yield from _unknown(message, one, f"{at}.{key}")
    else:
        yield from _unknown(message, value, at)
