"""Which tests are for `make test-deep`: explorations of every state, long sweeps of seeds, every deliberate bug; and
how many examples a property has there and in `make test`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest

_many = False
_none = False


def choose(marks: str) -> None:
    """Note whether the marks that this run selects by ask for many examples, or leave out what is deep."""
    global _many, _none
    _many, _none = "generated" in marks, "not deep" in marks


def examples(few: int, many: int) -> int:
    """Return how many examples of a property this run tries: many where it selects what is `generated`."""
    return many if _many else few


def deep_after(count: int, values: Iterable[Any], ids: Iterable[str] = ()) -> list[Any]:
    """Return values for `parametrize` of which all but the first few are deep, and named if there are names."""
    return _marked([(value, n < count) for n, value in enumerate(values)], list(ids))


def deep_but(kept: Container[Any], values: Iterable[Any]) -> list[Any]:
    """Return values for `parametrize` of which all are deep but those that are kept."""
    return _marked([(value, value in kept) for value in values], [])


def _marked(values: list[tuple[Any, bool]], ids: list[str]) -> list[Any]:
    """Mark the values that are deep. A run that leaves them out does without: a fifth of what there would be to
    collect. (Where all are deep they stay, since a test without values would be reported as skipped.)
    """
    leave_out = _none and any(kept for _, kept in values)
    named = [(value, kept, ids[n] if ids else None) for n, (value, kept) in enumerate(values)]
    return [_param(value, kept, name) for value, kept, name in named if kept or not leave_out]


def _param(value: Any, kept: bool, name: str | None) -> Any:
    """A tuple has a value for each of several names."""
    if kept and name is None:
        return value
    marks = () if kept else (pytest.mark.deep,)
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=marks, id=name)
