"""Since where in the log things are as they are: what a decision rests on, by the position of the event that made it
so.

In: an object before and after an event, and what of it something is decided on (its facets). Out: for each facet the
position of the event with which its present value began; of an object that is gone, the event with which it went. Pure,
and made anew by every replay. A controller's table says which facets each of its decisions rests on, by its reason
(`Table`): of all that had to be so, what came last is the cause. A decision that only time let ripen, such as the end
of a grace, rests on what began the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Facets = Mapping[str, Callable[[T], object]]
FacetPositions = Mapping[str, int]
Words = Mapping[str, Iterable[str]]
Table = Mapping[type, Mapping[str, tuple[str, ...]]]
ANY = "*"
"""The row of a table for every reason that has none of its own."""


def moved(
    positions: FacetPositions, name: str, facets: Facets[T], before: T | None, after: T | None, position: int
) -> FacetPositions:
    """Return the positions after one more event at a position; `name` is the object's."""
    changed = changes(name, facets, before, after, position)
    return {**positions, **changed} if changed else positions


def changes(name: str, facets: Facets[T], before: T | None, after: T | None, position: int) -> dict[str, int]:
    """Return the positions that an event at a position sets."""
    if before is after:
        return {}
    if before is None or after is None:
        one = before if before is not None else after
        assert one is not None, "both are None, which is the same"
        return {_named(name, facet): position for facet, of in facets.items() if of(one) is not None}
    return {_named(name, facet): position for facet, of in facets.items() if of(before) != of(after)}


@lru_cache(maxsize=8192)
def _named(name: str, facet: str) -> str:
    """Return the name of a facet: the same text for all objects of a name, of which there are many."""
    return f"{name}.{facet}"


def newest(positions: FacetPositions, keys: Iterable[str]) -> int:
    """Return the newest of some positions: of several things that were all needed, what came last; 0 if none has
    one."""
    return max((positions.get(key, 0) for key in keys), default=0)


class Parts:
    """What of a state is marked, by the field that holds it; there are at least two, and one of a field is written with
    a dot. A field that is what it was is not looked at further, since every event of every object comes by here.
    """

    __slots__ = ("_facets", "_fields", "_nothing")

    def __init__(self, parts: Mapping[str, Facets[Any]]) -> None:
        self._fields = attrgetter(*parts)  # a tuple, since there are several
        self._facets = [tuple(facets.items()) for facets in parts.values()]
        self._nothing = (None,) * len(parts)

    def note(self, positions: dict[str, int], before: object, after: object, position: int) -> None:
        """Take note, in an object's positions, of what an event at a position changed; None: there was or is none."""
        were = self._fields(before) if before is not None else self._nothing
        are = self._fields(after) if after is not None else self._nothing
        for one, other, facets in zip(were, are, self._facets, strict=True):
            if one is other:
                continue
            for name, of in facets:
                if (of(one) if one is not None else None) != (of(other) if other is not None else None):
                    positions[name] = position


class Ledger(Generic[T]):
    """The positions of many objects of a kind, beside the states that they are of: one short dict for each, changed in
    place.
    """

    GIVEN = ("_name", "_facets")

    def __init__(self, name: str, facets: Facets[T]) -> None:
        self._name, self._facets = name, facets
        self._positions: dict[str, dict[str, int]] = {}

    def note(self, key: str, before: T | None, after: T | None, position: int) -> dict[str, int]:
        """Take note of an object as it was before and after an event; return its positions, to add others."""
        positions = self._positions.setdefault(key, {})
        positions.update(changes(self._name, self._facets, before, after, position))
        return positions

    def of(self, key: str) -> dict[str, int]:
        """Return the positions of an object."""
        return self._positions.get(key, {})

    def forget(self, key: str) -> None:
        """Drop the positions of an object of which nothing is left."""
        self._positions.pop(key, None)


def cause_of(table: Table, decision: object, positions: FacetPositions, words: Words) -> int:
    """Return the position of the event that a decision rests on by its table; 0 if nothing of it is marked.

    `words` are what stands for a word in braces in the table's keys, such as the cluster that a decision is about.
    """
    return newest(positions, names_of(table, decision, words))


def names_of(table: Table, decision: object, words: Words) -> list[str]:
    """Return the names of the positions that a decision rests on by its table."""
    keys = row_of(table, type(decision), str(getattr(decision, "reason", "")))
    return [name for key in keys for name in _spelled(key, words)]


def causes_of(
    decisions: Iterable[T],
    positions: FacetPositions,
    cause: Callable[[T, FacetPositions], int],
    said: Callable[[T], str],
) -> list[int]:
    """Return the causes of what was decided in one pass: what rests on another decision of it has no position of that
    yet, and rests on what that one rests on. `cause` is a decision's by the positions, `said` the facet that it sets by
    itself, "" if it sets none."""
    found: list[int] = []
    for decision in decisions:
        found.append(cause(decision, positions))
        if name := said(decision):
            positions = {**positions, name: found[-1]}
    return found


def row_of(table: Table, kind: type, reason: str) -> tuple[str, ...]:
    """Return the keys that a table has for a kind of decision with a reason."""
    rows = table.get(kind, {})
    return rows.get(reason, rows.get(ANY, ()))


def _spelled(key: str, words: Words) -> Iterator[str]:
    """Yield the names of positions that a key of a table means: one for each thing that its word stands for."""
    head, brace, rest = key.partition("{")
    if not brace:
        yield key
        return
    word, _, tail = rest.partition("}")
    for each in words.get(word, ()):
        yield f"{head}{each}{tail}"
