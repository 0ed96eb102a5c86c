"""Writes down what was taken of a controller (`controlplane.runtime.folded`), and reads it again.

In: attributes by their path, values of any class of ours in them. Out: records, each the msgpack of an attribute or of
some entries of one, read in the order in which they were written. A value becomes a list that begins with what it is:
one of Python's own containers, or the number of a class, which the record that first has it names. Events are written
as msgspec writes them, which knows what they are made of; of another struct those fields that have not their default. A
class is found by its name in this package, and nowhere else; nothing that was written is ever run."""

from __future__ import annotations

import importlib
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

import msgspec

from controlplane.log.event import Event
from controlplane.runtime.folded import PACKAGE, PLAIN, FoldedError, MadeObject

# So many entries of a dict are one record, those of dicts in it included.
_ENTRIES = 32
# A value with so many fields is kept once, however many others hold it: observations are shared, and are most of a
# state.
_SHARED = 8

# What stands first in the list that any other value becomes; from `_OF_CLASS` on, the number of a class.
_LIST, _TUPLE, _SET, _FROZENSET, _DICT, _DEQUE, _COUNTER, _ORDERED, _SPAN, _BIG, _AGAIN, _ITSELF = range(12)
_OF_CLASS = 16
_ITERABLES: dict[type, int] = {list: _LIST, tuple: _TUPLE, set: _SET, frozenset: _FROZENSET}
_MAPPINGS: dict[type, int] = {dict: _DICT, Counter: _COUNTER, OrderedDict: _ORDERED}
_LARGEST = 1 << 63


class _Class(NamedTuple):
    """A class as records name it: its number, its fields with their defaults, and whether a value of it is kept
    once."""

    number: int
    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    shared: bool


class Encoder:
    """Makes records of what was taken; they are read in the same order."""

    def __init__(self) -> None:
        self._pack = msgspec.msgpack.Encoder().encode
        self._classes: dict[type, _Class] = {}
        self._new: list[list[Any]] = []
        self._seen: dict[int, tuple[int, object]] = {}

    def records(self, taken: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield the records of a controller one by one, each small. Raises `FoldedError` for what cannot be kept."""
        for path, value in taken.items():
            try:
                yield from self._part(path, value)
            except (TypeError, ValueError, RecursionError) as error:
                raise FoldedError(f"{path} cannot be kept: {error}") from None

    def _part(self, path: str, value: Any) -> Iterator[bytes]:
        of = type(value)
        if of not in _MAPPINGS:
            yield self._record(path, self._node(value))
            return
        yield self._record(path, self._node(of()))
        entries: list[Any] = []
        weight = 0
        for key, one in value.items():
            entries += (self._node(key), self._node(one))
            weight += len(one) + 1 if type(one) in _MAPPINGS else 1
            if weight >= _ENTRIES:
                yield self._record(path, entries)
                entries, weight = [], 0
        if entries:
            yield self._record(path, entries)

    def _record(self, path: str, content: Any) -> bytes:
        new, self._new = self._new, []
        return self._pack([path, new, content])

    def _node(self, value: Any) -> Any:
        of = type(value)
        if of in PLAIN:
            return value if of is not int or -_LARGEST <= value < _LARGEST else [_BIG, str(value)]
        if of is datetime:
            if value.tzinfo is None:
                raise TypeError("a time without a zone")
            return value
        if of in _ITERABLES:
            return [_ITERABLES[of], *map(self._node, value)]
        if of in _MAPPINGS:
            return self._mapping(value, of)
        if of is timedelta:
            return [_SPAN, value.days, value.seconds, value.microseconds]
        if of is deque:
            return [_DEQUE, value.maxlen, *map(self._node, value)]
        return self._value(value, of)

    def _mapping(self, value: Mapping[Any, Any], of: type) -> Any:
        if of is dict and _is_flat(value):
            return value
        return [_MAPPINGS[of], *(self._node(one) for entry in value.items() for one in entry)]

    def _value(self, value: Any, of: type) -> Any:
        if of is MadeObject:
            known = self._class(value.of, value.names)
            if known.names != value.names:
                raise TypeError(f"two {value.of.__name__} have other attributes")
            return [known.number, *map(self._node, value.values)]
        if isinstance(value, Enum):
            return [self._class(of, ()).number, self._node(value.value)]
        if isinstance(value, msgspec.Struct):
            return self._struct(value, of)
        if isinstance(value, type):
            return [_ITSELF, self._class(value, getattr(value, "__struct_fields__", ())).number]
        if isinstance(value, tuple) and hasattr(of, "_fields"):
            return [self._class(of, of._fields).number, *map(self._node, value)]
        if names := _value_fields(of):
            return [self._class(of, names).number, *(self._node(getattr(value, name)) for name in names)]
        raise TypeError(f"no way is known to keep a {of.__module__}.{of.__qualname__}")

    def _struct(self, value: msgspec.Struct, of: type) -> Any:
        known = self._class(of, value.__struct_fields__)
        if known.shared:
            again = self._seen.get(id(value))
            if again is not None:
                return [_AGAIN, again[0]]
        # What an event is made of is known, so msgspec does all of it, as it does for the log.
        node = [known.number, self._pack(value)] if issubclass(of, Event) else self._fields(value, known)
        if known.shared:
            self._seen[id(value)] = len(self._seen), value
        return node

    def _fields(self, value: msgspec.Struct, known: _Class) -> list[Any]:
        """Return a struct as the fields that have not their default, after a number that says which those are."""
        which, bit, node = 0, 1, [known.number, 0]
        for name, default in zip(known.names, known.defaults, strict=True):
            one = getattr(value, name)
            if one is not default and (type(one) is not type(default) or one != default):
                which |= bit
                node.append(self._node(one))
            bit <<= 1
        node[1] = which
        return node

    def _class(self, of: type, names: tuple[str, ...]) -> _Class:
        known = self._classes.get(of)
        if known is None:
            if _found(of.__module__, of.__qualname__) is not of:
                raise TypeError(f"{of.__module__}.{of.__qualname__} is not found by its name")
            known = _Class(len(self._classes) + _OF_CLASS, names, _defaults(of), _is_shared(of, names))
            self._classes[of] = known
            self._new.append([of.__module__, of.__qualname__, list(names)])
        return known


def _value_fields(of: type) -> tuple[str, ...]:
    """Return the fields of a frozen dataclass; nothing for another class."""
    frozen = is_dataclass(of) and of.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return tuple(one.name for one in fields(of)) if frozen else ()


def _is_flat(value: Mapping[Any, Any]) -> bool:
    """Whether msgpack has a dict as it is."""
    for key, one in value.items():
        of = type(one)
        if type(key) is not str or of not in PLAIN or (of is int and not -_LARGEST <= one < _LARGEST):
            return False
    return True


@cache
def _defaults(of: type) -> tuple[Any, ...]:
    """Return the default of each field of a struct; `NODEFAULT`, which nothing equals, of one that has none."""
    fields = msgspec.structs.fields(of) if issubclass(of, msgspec.Struct) else ()
    return tuple(
        one.default_factory() if one.default_factory is not msgspec.NODEFAULT else one.default for one in fields
    )


def _is_shared(of: type, names: tuple[str, ...]) -> bool:
    return issubclass(of, msgspec.Struct) and of.__struct_config__.frozen and len(names) >= _SHARED


def _found(module: str, name: str) -> Any:
    """Return one of our classes by its name, None if there is none."""
    if not module.startswith(PACKAGE):
        return None
    try:
        found: Any = importlib.import_module(module)
    except ImportError:
        return None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


class _Record(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A record as it was written: see `Encoder`."""

    path: str
    new: list[tuple[str, str, list[str]]]
    content: Any


_Build = Callable[[list[Any]], Any]


class Decoder:
    """Reads the records of one controller, in the order in which they were made."""

    def __init__(self) -> None:
        self._unpack = msgspec.msgpack.Decoder(_Record).decode
        self._builders: list[_Build] = [_none] * _OF_CLASS
        self._builders[: _ITSELF + 1] = [
            lambda node: [self._value(one) for one in node[1:]],
            lambda node: tuple([self._value(one) for one in node[1:]]),
            lambda node: {self._value(one) for one in node[1:]},
            lambda node: frozenset([self._value(one) for one in node[1:]]),
            lambda node: self._entries(node, {}),
            lambda node: deque([self._value(one) for one in node[2:]], node[1]),
            lambda node: self._entries(node, Counter()),
            lambda node: self._entries(node, OrderedDict()),
            lambda node: timedelta(node[1], node[2], node[3]),
            lambda node: int(node[1]),
            lambda node: self._shared[node[1]],
            lambda node: self._classes[node[1] - _OF_CLASS],
        ]
        self._classes: list[type] = []
        self._shared: list[Any] = []
        self.parts: dict[str, Any] = {}
        """What was read, by path."""

    def read(self, record: bytes | msgspec.Raw) -> None:
        """Take the next record. Raises `FoldedError` if it is none."""
        try:
            one = self._unpack(record)
            for module, name, names in one.new:
                self._builders.append(self._builder(module, name, tuple(names)))
            if one.path in self.parts and type(one.content) is list:
                self._entries([_DICT, *one.content], self.parts[one.path])
            else:
                self.parts[one.path] = self._value(one.content)
        except (msgspec.MsgspecError, TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
            raise FoldedError(f"a record cannot be read: {error!r}") from None

    def _value(self, node: Any) -> Any:
        return self._builders[node[0]](node) if type(node) is list else node

    def _entries(self, node: list[Any], into: dict[Any, Any]) -> dict[Any, Any]:
        value = self._value
        for at in range(1, len(node), 2):
            into[value(node[at])] = value(node[at + 1])
        return into

    def _builder(self, module: str, name: str, names: tuple[str, ...]) -> _Build:
        of = _found(module, name)
        if not isinstance(of, type):
            raise FoldedError(f"there is no {module}.{name}")
        self._classes.append(of)
        if issubclass(of, Enum):
            return lambda node: of(self._value(node[1]))
        if issubclass(of, msgspec.Struct):
            if of.__struct_fields__ != names:
                raise FoldedError(f"{name} has other fields")
            return self._event_builder(of) if issubclass(of, Event) else self._struct_builder(of, names)
        if issubclass(of, tuple) or names == _value_fields(of):
            return lambda node: of(*[self._value(one) for one in node[1:]])
        return lambda node: _made(of, names, [self._value(one) for one in node[1:]])

    def _event_builder(self, of: type[Event]) -> _Build:
        decode, shared = (
            msgspec.msgpack.Decoder(of).decode,
            self._shared if _is_shared(of, of.__struct_fields__) else None,
        )

        def build(node: list[Any]) -> Any:
            made = decode(node[1])
            if shared is not None:
                shared.append(made)
            return made

        return build

    def _struct_builder(self, of: type, names: tuple[str, ...]) -> _Build:
        builders, shared = self._builders, self._shared if _is_shared(of, names) else None
        chosen: dict[int, list[str]] = {}

        def build(node: list[Any]) -> Any:
            which = node[1]
            given = chosen.get(which)
            if given is None:
                given = chosen[which] = [name for at, name in enumerate(names) if which >> at & 1]
            values = [builders[one[0]](one) if type(one) is list else one for one in node[2:]]
            made = of(**dict(zip(given, values, strict=True)))
            if shared is not None:
                shared.append(made)
            return made

        return build


def _none(node: list[Any]) -> Any:
    raise ValueError(f"nothing is kept as {node[0]}")


def _made(of: type, names: Iterable[str], values: Iterable[Any]) -> Any:
    """Return an object with these attributes, without asking its constructor; the others are as `GIVEN` makes them."""
    made: Any = object.__new__(of)
    given = getattr(of, "GIVEN", {})
    for name, fresh in given.items() if isinstance(given, Mapping) else ():
        setattr(made, name, fresh())
    for name, value in zip(names, values, strict=True):
        setattr(made, name, value)
    return made
