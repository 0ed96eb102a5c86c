"""Which tests are for `make test-deep`: explorations of every state, long sweeps of seeds, every deliberate bug; and
how many examples a property has there and in `make test`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest

_many = False


def choose(marks: str) -> None:
    """Note whether the marks that this run selects by ask for many examples."""
    global _many
    _many = "generated" in marks


def examples(few: int, many: int) -> int:
    """Return how many examples of a property this run tries: many where it selects what is `generated`."""
    return many if _many else few


def deep_after(count: int, values: Iterable[Any]) -> list[Any]:
    """Return values for `parametrize` of which all but the first few are deep."""
    return [value if n < count else _deep(value) for n, value in enumerate(values)]


def deep_but(kept: Container[Any], values: Iterable[Any]) -> list[Any]:
    """Return values for `parametrize` of which all are deep but those that are kept."""
    return [value if value in kept else _deep(value) for value in values]


def _deep(value: Any) -> Any:
    """A tuple has a value for each of several names."""
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.deep)
