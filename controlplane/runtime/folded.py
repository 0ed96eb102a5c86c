"""Takes from a controller what its fold has made of a log, and gives it to another one like it.

In: a controller. Out: its attributes, and those of the parts that it is made of; and the other one with them in the
place of what it held. In between, `controlplane.runtime.folded_records` writes them down. A controller whose class has
`GIVEN` can be kept so. That names the attributes that are none of the fold's: what the constructor was given, and what
the process remembers of itself. Everything else is kept, so what nobody thought of is kept too. A part of which a fold
makes many has a mapping there: to what makes each such attribute anew.

States are values, so references to them are taken at one position of the log, and are written down as slowly as the
process likes. What is changed in place is copied when it is taken."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeGuard

import msgspec

PACKAGE = "controlplane."
PLAIN: frozenset[type] = frozenset({str, int, float, bool, type(None), bytes})
_MAPPINGS = frozenset({dict, Counter, OrderedDict})


class FoldedError(Exception):
    """Something cannot be kept, or what was kept does not fit; the message says what."""


class MadeObject(NamedTuple):
    """An object that is changed in place, as it was: its class and its attributes."""

    of: type
    names: tuple[str, ...]
    values: tuple[Any, ...]


class KeptWhole(Protocol):
    """A part that says itself what is to be kept of it, as values that are not changed any more, and takes that
    again."""

    def kept(self) -> Any:
        """Return what is to be kept."""

    def give(self, given: Any) -> None:
        """Hold what was kept in the place of what is held."""


def keeps(controller: object) -> bool:
    """Whether what a controller has folded can be kept."""
    return hasattr(type(controller), "GIVEN")


def taken(controller: object) -> dict[str, Any]:
    """Return what a controller holds now, by the path of each attribute (`index.workloads`); it is not changed any more
    by what is folded afterwards.
    """
    found = {path: getattr(holder, name) for path, holder, name in _attributes(controller, "")}
    return {path: one.kept() if _is_whole(one) else _still(one) for path, one in found.items()}


def check(controller: object, parts: Mapping[str, Any]) -> None:
    """Raise `FoldedError` unless these are the attributes that a controller holds."""
    there = {path for path, _, _ in _attributes(controller, "")}
    if there != parts.keys():
        other = min(there ^ parts.keys())
        raise FoldedError(f"{other} is {'missing' if other in there else 'not held'}")


def give(controller: object, parts: Mapping[str, Any]) -> None:
    """Let a controller hold what was taken of one like it. Containers stay the same objects: others may have them
    too."""
    for path, holder, name in list(_attributes(controller, "")):
        value, held = parts[path], getattr(holder, name)
        if _is_whole(held):
            held.give(value)
            continue
        if type(held) is not type(value) or not isinstance(held, (dict, set, list, deque)):
            setattr(holder, name, value)
            continue
        held.clear()
        if isinstance(held, (dict, set)):
            held.update(value)
        else:
            held.extend(value)


def _attributes(holder: object, of: str) -> Iterator[tuple[str, object, str]]:
    """Yield each folded attribute, those of the parts included: its path, who has it, and its name there."""
    for name, value in vars(holder).items():
        if name in _given(type(holder)):
            continue
        if _is_part(value) and not _is_whole(value):
            yield from _attributes(value, f"{of}{name}.")
        else:
            yield f"{of}{name}", holder, name


def _given(of: type) -> frozenset[str]:
    """Return the attributes of a class, and of those that it is made of, that are not the fold's."""
    return frozenset(name for one in of.__mro__ for name in vars(one).get("GIVEN", ()))


def _is_whole(value: object) -> TypeGuard[KeptWhole]:
    """Whether a part says itself what is to be kept of it."""
    return hasattr(type(value), "kept") and hasattr(type(value), "give")


def _is_part(value: object) -> bool:
    """Whether a value is an object with attributes that a fold changes in place."""
    return type(value).__module__.startswith(PACKAGE) and hasattr(value, "__dict__") and not isinstance(value, Enum)


_NEVER_CHANGED: set[type] = {*PLAIN, tuple, frozenset, datetime, timedelta}
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
    return MadeObject(of, names, tuple(_still(getattr(value, name)) for name in names))
