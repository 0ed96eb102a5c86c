"""Since where in the log things are as they are: what a decision rests on, by the position of the event that made it
so.

In: an object before and after an event, and what of it something is decided on (its facets). Out: for each facet the
position of the event with which its present value began; of an object that is gone, the event with which it went. Pure,
and made anew by every replay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")
Facets = Mapping[str, Callable[[T], object]]
Marks = Mapping[str, int]


def moved(marks: Marks, name: str, facets: Facets[T], before: T | None, after: T | None, position: int) -> Marks:
    """Return the marks after one more event at a position; `name` is the object's."""
    if before is after:
        return marks
    changed = {
        _named(name, facet): position
        for facet, of in facets.items()
        if (of(before) if before is not None else None) != (of(after) if after is not None else None)
    }
    return {**marks, **changed} if changed else marks


@lru_cache(maxsize=8192)
def _named(name: str, facet: str) -> str:
    """Return the name of a mark: the same text for all objects of a name, of which there are many."""
    return f"{name}.{facet}"


def newest(marks: Marks, keys: Iterable[str]) -> int:
    """Return the newest of some marks: of several things that were all needed, what came last; 0 if none is marked."""
    return max((marks.get(key, 0) for key in keys), default=0)
