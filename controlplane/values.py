"""Values: structs that never change, whose fields are given by name.

Every event is one, every part of an event, every state that is folded, and every section of the settings. A class says
only what else is true of it, such as how its fields are spelled in JSON. What is made for every single event of a log
(`Recorded`, `NewEvent`) is no `Value`: Python 3.11 calls a class of a derived metaclass by a slower way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, dataclass_transform

import msgspec

V = TypeVar("V")


class ValueMeta(msgspec.StructMeta):
    """Makes classes of values. A struct class hands on that it is frozen, and not that its fields are given by name."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        """Return the class."""
        return super().__new__(cls, name, bases, namespace, **({"frozen": True, "kw_only": True} | options))


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, metaclass=ValueMeta):
    """Base of all values."""


class ByClass(dict[type, V]):
    """What is said of classes and of those that are derived from them, and `other` of the rest: `table[type(event)]`.

    A fold asks of every event what it is. `isinstance`, and a `match` over classes, take 0.1 to 0.2 µs for each class
    of structs that the event is not of, since these have a metaclass; this takes 0.03, however many there are."""

    def __init__(self, said: Mapping[type, V], other: V) -> None:
        super().__init__(said)
        self[object] = other

    def __missing__(self, kind: type) -> V:
        found = self[kind] = next(self[base] for base in kind.__mro__[1:] if base in self)
        return found
