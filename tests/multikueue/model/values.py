"""What is done to values as wholes: worker clusters exchanged for each other, and time passed.

A log is a value of nested structs, and names, times and resourceVersions are in many of their fields. The walks here
know none of the types, so that no field is forgotten when one is added."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tests.multikueue.model.world import NAMES, START

Order = tuple[int, ...]
"""Where each worker goes: the first to the place that is named first, and so on."""
_NAME = re.compile("|".join(NAMES))
_VERSIONS = frozenset({"resource_version", "clone_version", "job_version"})
_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields(value: msgspec.Struct) -> tuple[str, ...]:
    kind = type(value)
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(kind.__struct_fields__)
    return _FIELDS[kind]


class Exchange:
    """Exchanges the names of workers in values. A resourceVersion is the number of a content, in which the names are
    exchanged as well: `version` tells which one it is then."""

    def __init__(self, version: Callable[[str, Order], str]) -> None:
        self._version = version
        self._done: dict[tuple[int, Order], tuple[Any, Any]] = {}

    def of(self, value: Any, order: Order) -> Any:
        """Return a value with its workers exchanged; lists of their names are in order again."""
        if isinstance(value, str):
            return renamed(value, order)
        if isinstance(value, msgspec.Struct):
            return self._struct(value, order)
        if isinstance(value, Mapping):
            return {renamed(key, order): self.of(item, order) for key, item in value.items()}
        if isinstance(value, list):
            return ordered([self.of(item, order) for item in value])
        if isinstance(value, frozenset):
            return frozenset(self.of(item, order) for item in value)
        if isinstance(value, tuple):
            return tuple(self.of(item, order) for item in value)
        return value

    def _struct(self, value: msgspec.Struct, order: Order) -> msgspec.Struct:
        key = id(value), order
        found = self._done.get(key)
        if found is None:  # the value is kept, so that its identity is not another one's later
            changed = {}
            for name in _fields(value):
                item = getattr(value, name)
                after = self._version(item, order) if name in _VERSIONS else self.of(item, order)
                if after is not item and after != item:
                    changed[name] = after
            found = self._done[key] = value, msgspec.structs.replace(value, **changed) if changed else value
        result: msgspec.Struct = found[1]
        return result


def renamed(text: str, order: Order) -> str:
    """Return a text with the names of workers exchanged."""
    if "worker-" not in text:
        return text
    return _NAME.sub(lambda found: NAMES[order[NAMES.index(found.group())]], text)


def ordered(items: list[Any]) -> list[Any]:
    """Return a list, in order if it is one of workers: nothing depends on the order in which they are nominated."""
    return sorted(items) if len(items) > 1 and all(isinstance(item, str) and item in NAMES for item in items) else items


# For how long each time counts, in seconds: what is longer ago is as long ago as anything.
_COUNTS = {
    "decided_at": 2,
    "relayed_at": 1,
    "finished_at": 30,
    "unsure_at": 40,
    "returned": 5,
    "orphan_since": 16,
    "round_began": 4,
    "until": 0,
}
_LOSS, _ENDED = 8, 1


def later(value: Any, seconds: int, name: str = "") -> Any:
    """Return a value as it is when time has passed: now is always 0, and what was is before it."""
    if isinstance(value, datetime):
        oldest = START - timedelta(seconds=_COUNTS.get(name, _LOSS) + _ENDED)
        return max(value - timedelta(seconds=seconds), oldest)
    if isinstance(value, msgspec.Struct):
        changed = {}
        for one in _fields(value):
            item = getattr(value, one)
            if item is None or isinstance(item, (str, int)):
                continue
            after = later(item, seconds, one)
            if after is not item and after != item:
                changed[one] = after
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, Mapping):
        return {key: later(item, seconds, name) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(later(item, seconds, name) for item in value)
    return value


def exchanged_json(value: Any, order: Order) -> Any:
    """Return an object with the names of workers exchanged."""
    if isinstance(value, str):
        return renamed(value, order)
    if isinstance(value, dict):
        return {key: exchanged_json(item, order) for key, item in value.items()}
    if isinstance(value, list):
        return ordered([exchanged_json(item, order) for item in value])
    return value
