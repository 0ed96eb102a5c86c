"""One stage for each of the two halves; every test says which clusters stand on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from tests.multikueue.kep693.live import Live
from tests.multikueue.kep693.mocked import Mocked
from tests.support.made import started


@pytest.fixture
async def mocked() -> AsyncIterator[Callable[..., Awaitable[Mocked]]]:
    """Make the real loop over mocked clients: `await mocked("a", "b")`."""
    async with started(Mocked) as make:
        yield make


@pytest.fixture
async def live(database_url: str, tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Live]]]:
    """Make a service between simulated API servers: `await live("a", "b", roomy=("a",))`."""
    async with started(partial(Live, database_url, tmp_path)) as make:
        yield make
