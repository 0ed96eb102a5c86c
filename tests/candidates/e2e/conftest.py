"""A stage for each test; the service reconnects quickly on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from tests.candidates.e2e.stage import Stage
from tests.support.local import hurry
from tests.support.made import started


@pytest.fixture
async def stage(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., Awaitable[Stage]]]:
    """Make the stage: `await stage("a", "b", max_skew=1)`."""
    hurry(monkeypatch)
    async with started(partial(Stage, database_url, tmp_path)) as make:
        yield make
