"""An instance of any event type, with something in every field: so that a new type is in the tests before anybody
thinks of it.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from controlplane.controllers.candidates.reasons import CandidateReason as PodReason
from controlplane.controllers.multikueue.reasons import WorkloadReason

T = TypeVar("T", bound=msgspec.Struct)


def sample(kind: type[T], **fields: Any) -> T:
    """Return an event of a type; fields that are not given are filled by their types."""
    return kind(**{field.name: fields.get(field.name, filled(field.type)) for field in msgspec.structs.fields(kind)})


def filled(kind: Any) -> Any:
    """Return some value of a type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return arguments[0]
    if origin is list:
        return [filled(arguments[0])]
    if origin is tuple:
        return (filled(arguments[0]),)
    if origin in (dict, Mapping):
        return {"a": filled(arguments[1])}
    if arguments:  # optional
        return filled(arguments[0])
    if kind is WorkloadReason:
        return WorkloadReason.NOMINATED
    if kind is PodReason:
        return PodReason.FIRST_READY
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return next(iter(kind))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return sample(kind)
    return {str: "text", int: 1, float: 1.5, bool: True, datetime: datetime(2026, 1, 1, tzinfo=UTC), typing.Any: 1}[
        kind
    ]
