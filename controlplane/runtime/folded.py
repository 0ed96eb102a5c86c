"""Turns what a fold has made of a log into bytes, and back, whatever controller keeps it.

In: a controller. Out: records, each the msgpack of one attribute or of some entries of one; and the same controller with
them in the place of what it held. A controller whose class has `GIVEN` can be kept so. It names the attributes that
are none of the fold's: what the constructor was given, and what the process remembers of itself. Everything else of
it, and of the parts that it is made of, is kept: an attribute that nobody thought of is kept too.

States are values, so references to them are taken at one position of the log (`taken`), and are encoded as slowly as the
process likes. What is changed in place is copied then."""

from __future__ import annotations

import importlib
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from controlplane.log.event import Event

_PACKAGE = "controlplane."
# So many entries of a dict are one record.
_ENTRIES = 32
# A value with so many fields is kept once, however many others hold it: observations are shared, and are most of a state.
_SHARED = 8

_PLAIN = frozenset({str, int, float, bool, type(None), bytes})
# What stands first in the list that any other value becomes; from `_OF_CLASS` on, the number of a class.
_LIST, _TUPLE, _SET, _FROZENSET, _DICT, _DEQUE, _COUNTER, _ORDERED, _SPAN, _BIG, _AGAIN, _ITSELF = range(12)
_OF_CLASS = 16
_ITERABLES: dict[type, int] = {list: _LIST, tuple: _TUPLE, set: _SET, frozenset: _FROZENSET}
_MAPPINGS: dict[type, int] = {dict: _DICT, Counter: _COUNTER, OrderedDict: _ORDERED}
_LARGEST = 1 << 63


class Unkept(Exception):  # noqa: N818 - what is told, not an accident
    """Something cannot be kept, or what was kept does not fit; the message says what."""


class Taken(NamedTuple):
    """What a controller holds at one position: by the path of each attribute (`index.workloads`)."""

    parts: Mapping[str, Any]


class _Object(NamedTuple):
    """An object that is changed in place, as it was."""

    of: type
    names: tuple[str, ...]
    values: tuple[Any, ...]


def keeps(controller: object) -> bool:
    """Whether what a controller has folded can be kept."""
    return hasattr(type(controller), "GIVEN")


def taken(controller: object) -> Taken:
    """Return what a controller holds now, which is not changed any more by what it folds afterwards."""
    return Taken({path: _still(getattr(holder, name)) for path, holder, name in _attributes(controller, "")})


def _attributes(holder: object, of: str) -> Iterator[tuple[str, object, str]]:
    """Yield each folded attribute, those of the parts included: its path, who has it, and its name there."""
    for name, value in vars(holder).items():
        if name in _given(type(holder)):
            continue
        if _is_part(value):
            yield from _attributes(value, f"{of}{name}.")
        else:
            yield f"{of}{name}", holder, name


def _given(of: type) -> frozenset[str]:
    """Return the attributes of a class, and of those that it is made of, that are not the fold's."""
    return frozenset(name for one in of.__mro__ for name in vars(one).get("GIVEN", ()))


def _is_part(value: object) -> bool:
    """Whether a value is an object with attributes that a fold changes in place."""
    return type(value).__module__.startswith(_PACKAGE) and hasattr(value, "__dict__") and not isinstance(value, Enum)


_NEVER_CHANGED: set[type] = {*_PLAIN, tuple, frozenset, datetime, timedelta}
"""The types of values that nobody changes in place, as far as they are known yet."""


def _still(value: Any) -> Any:
    """Return a value that does not change any more: what is changed in place is copied, the rest is as it is."""
    of = type(value)
    if of in _NEVER_CHANGED:
        return value
    if of in _MAPPINGS:
        copy = value.copy()
        dict.update(copy, [(key, _still(one)) for key, one in value.items() if type(one) not in _NEVER_CHANGED])
        return copy
    if of is set:
        return set(value)
    if of is list:
        return [_still(one) for one in value]
    if of is deque:
        return deque(map(_still, value), value.maxlen)
    if isinstance(value, msgspec.Struct) and not of.__struct_config__.frozen:
        names = value.__struct_fields__
    elif _is_part(value) and not isinstance(value, (msgspec.Struct, tuple, type)):
        names = tuple(name for name in vars(value) if name not in _given(of))
    else:
        _NEVER_CHANGED.add(of)
        return value
    return _Object(of, names, tuple(_still(getattr(value, name)) for name in names))


# --- into bytes -------------------------------------------------------------------------------------------------------


class _Class(NamedTuple):
    """A class as records name it: its number, its fields with their defaults, and whether a value of it is kept once."""

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

    def records(self, from_: Taken) -> Iterator[bytes]:
        """Yield the records of a controller one by one, each small. Raises `Unkept` for what cannot be kept."""
        for path, value in from_.parts.items():
            try:
                yield from self._part(path, value)
            except (TypeError, ValueError, RecursionError) as error:
                raise Unkept(f"{path} cannot be kept: {error}") from None

    def _part(self, path: str, value: Any) -> Iterator[bytes]:
        if type(value) is not dict:
            yield self._record(path, self._node(value))
            return
        yield self._record(path, {})
        entries: list[Any] = []
        for key, one in value.items():
            entries += (self._node(key), self._node(one))
            if len(entries) >= 2 * _ENTRIES:
                yield self._record(path, entries)
                entries = []
        if entries:
            yield self._record(path, entries)

    def _record(self, path: str, content: Any) -> bytes:
        new, self._new = self._new, []
        return self._pack([path, new, content])

    def _node(self, value: Any) -> Any:
        of = type(value)
        if of in _PLAIN:
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
        if of is _Object:
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
        raise TypeError(f"no way is known to keep a {of.__module__}.{of.__qualname__}")

    def _struct(self, value: msgspec.Struct, of: type) -> Any:
        known = self._class(of, value.__struct_fields__)
        if known.shared:
            again = self._seen.get(id(value))
            if again is not None:
                return [_AGAIN, again[0]]
        if issubclass(of, Event):  # what one is made of is known, so msgspec does all of it, as it does for the log
            node = [known.number, self._pack(value)]
        else:
            node = self._fields(value, known)
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


def _is_flat(value: Mapping[Any, Any]) -> bool:
    """Whether msgpack has a dict as it is."""
    for key, one in value.items():
        of = type(one)
        if type(key) is not str or of not in _PLAIN or (of is int and not -_LARGEST <= one < _LARGEST):
            return False
    return True


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
    if not module.startswith(_PACKAGE):
        return None
    try:
        found: Any = importlib.import_module(module)
    except ImportError:
        return None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


# --- and back ---------------------------------------------------------------------------------------------------------


class _Record(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A record as it was written: see `Encoder`."""

    path: str
    new: list[tuple[str, str, list[str]]]
    content: Any


_Build = Callable[[list[Any]], Any]


class Decoder:
    """Reads the records of one controller, in the order in which they were made, and puts them into another one."""

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
        self._read: dict[str, Any] = {}

    def read(self, record: bytes | msgspec.Raw) -> None:
        """Take the next record. Raises `Unkept` if it is none."""
        try:
            one = self._unpack(record)
            for module, name, names in one.new:
                self._builders.append(self._builder(module, name, tuple(names)))
            if one.path in self._read and type(one.content) is list:
                self._entries([_DICT, *one.content], self._read[one.path])
            else:
                self._read[one.path] = self._value(one.content)
        except (msgspec.MsgspecError, TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
            raise Unkept(f"a record cannot be read: {error!r}") from None

    def check(self, controller: object) -> None:
        """Raise `Unkept` unless what was read is all that a controller holds."""
        there = {path for path, _, _ in _attributes(controller, "")}
        if there != self._read.keys():
            other = min(there ^ self._read.keys())
            raise Unkept(f"{other} is {'missing' if other in there else 'not held'}")

    def give(self, controller: object) -> None:
        """Let a controller hold what was read. Containers stay the same objects: another part may have them too."""
        for path, holder, name in list(_attributes(controller, "")):
            value, held = self._read[path], getattr(holder, name)
            if type(held) is not type(value) or not isinstance(held, (dict, set, list, deque)):
                object.__setattr__(holder, name, value)
                continue
            held.clear()
            if isinstance(held, (dict, set)):
                held.update(value)
            else:
                held.extend(value)

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
            raise Unkept(f"there is no {module}.{name}")
        self._classes.append(of)
        if issubclass(of, Enum):
            return lambda node: of(self._value(node[1]))
        if issubclass(of, msgspec.Struct):
            if of.__struct_fields__ != names:
                raise Unkept(f"{name} has other fields")
            return self._event_builder(of) if issubclass(of, Event) else self._struct_builder(of, names)
        if issubclass(of, tuple):
            return lambda node: of(*[self._value(one) for one in node[1:]])
        return lambda node: _made(of, names, [self._value(one) for one in node[1:]])

    def _event_builder(self, of: type[Event]) -> _Build:
        decode, shared = msgspec.msgpack.Decoder(of).decode, self._shared if _is_shared(of, of.__struct_fields__) else None

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
    made = of.__new__(of)
    given = getattr(of, "GIVEN", {})
    for name, fresh in given.items() if isinstance(given, Mapping) else ():
        setattr(made, name, fresh())
    for name, value in zip(names, values, strict=True):
        setattr(made, name, value)
    return made
