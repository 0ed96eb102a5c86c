"""A stage for each test; the service reconnects quickly on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.local import Make, hurry, stages


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture
async def stage(database_url: str, tmp_path: Path, quick: None) -> AsyncIterator[Make]:
    """Make the stage: `await stage()` with the room's controller, or those that are named."""
    async with stages("coscheduling", database_url, tmp_path) as make:
        yield make
