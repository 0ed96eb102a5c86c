"""Values as small numbers: what makes millions of global states fit, and each distinct local step be computed once.

A global state is a tuple of numbers; the value behind a number is the real state, object or request. Equal values get
equal numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")
_PLAIN: set[type] = {type(None), str, int, bool, float, datetime}
_NAMES: dict[type, str] = {}
"""The structs that were met, by what they are called."""


def freeze(value: Any) -> Any:
    """Return a hashable value that is equal exactly if the given ones are, whatever the order of their mappings.

    It is asked of each state that is come to, and most of what it meets is plain: that is seen by its exact type."""
    of = type(value)
    if of in _PLAIN:
        return value
    if of in _NAMES:
        fields = msgspec.structs.astuple(value)
        return (_NAMES[of], *[one if type(one) in _PLAIN else freeze(one) for one in fields])
    if of is dict or isinstance(value, Mapping):
        if not value:
            return ()
        return tuple(sorted([(key, one if type(one) in _PLAIN else freeze(one)) for key, one in value.items()]))
    if isinstance(value, (list, tuple)):
        return ("[]", *[freeze(item) for item in value])
    if isinstance(value, (set, frozenset)):
        return ("{}", *sorted([freeze(item) for item in value]))
    if isinstance(value, msgspec.Struct):
        _NAMES[of] = of.__name__
    elif isinstance(value, (str, int, datetime, float)):
        _PLAIN.add(of)
    else:
        raise TypeError(f"cannot freeze {of.__name__}")
    return freeze(value)


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
