"""Which tests are for `make test-deep`: explorations of every state, long sweeps of seeds, every deliberate bug."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def deep_after(count: int, values: Iterable[Any]) -> list[Any]:
    """Return values for `parametrize` of which all but the first few are deep."""
    return [value if n < count else pytest.param(value, marks=pytest.mark.deep) for n, value in enumerate(values)]
