"""Values as small numbers: what makes millions of global states fit, and each distinct local step be computed once.

A global state is a tuple of numbers; the value behind a number is the real state, object or request. Equal values get
equal numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")
_FIELDS: dict[type, tuple[str, ...]] = {}


def freeze(value: Any) -> Any:
    """Return a hashable value that is equal exactly if the given ones are, whatever the order of their mappings."""
    if value is None or isinstance(value, (str, int, datetime, float)):
        return value
    if isinstance(value, msgspec.Struct):
        kind = type(value)
        names = _FIELDS.get(kind)
        if names is None:
            _FIELDS[kind] = names = tuple(kind.__struct_fields__)
        return (kind.__name__, *(freeze(getattr(value, name)) for name in names))
    if isinstance(value, Mapping):
        return tuple(sorted((key, freeze(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return ("[]", *(freeze(item) for item in value))
    if isinstance(value, (set, frozenset)):
        return ("{}", *sorted(freeze(item) for item in value))
    raise TypeError(f"cannot freeze {type(value).__name__}")


class Interner(Generic[T]):
    """Numbers for values of one sort."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._values: list[T] = []

    def put(self, value: T, key: Any = None) -> int:
        """Return the number of a value."""
        key = freeze(value) if key is None else key
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._values)
            self._values.append(value)
        return found

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def __len__(self) -> int:
        return len(self._values)
