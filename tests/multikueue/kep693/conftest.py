"""One stage for each of the two halves; every test says which clusters stand on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.multikueue.kep693.live import Live
from tests.multikueue.kep693.mocked import Mocked


@pytest.fixture
async def mocked() -> AsyncIterator[Callable[..., Awaitable[Mocked]]]:
    """Make the real loop over mocked clients: `await mocked("a", "b")`."""
    made: list[Mocked] = []

    async def make(*workers: str, **policy: Any) -> Mocked:
        made.append(Mocked(*workers, **policy))
        await made[-1].start()
        return made[-1]

    yield make
    for stage in made:
        await stage.stop()


@pytest.fixture
async def live(database_url: str, tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Live]]]:
    """Make a service between simulated API servers: `await live("a", "b", roomy=("a",))`."""
    made: list[Live] = []

    async def make(*workers: str, **more: Any) -> Live:
        made.append(Live(database_url, tmp_path, *workers, **more))
        await made[-1].start()
        return made[-1]

    yield make
    for stage in made:
        await stage.stop()
