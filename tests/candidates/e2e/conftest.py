"""A stage for each test; the service reconnects quickly on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.candidates.e2e.stage import Stage
from tests.support.local import hurry


@pytest.fixture
async def stage(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., Awaitable[Stage]]]:
    """Make the stage: `await stage("a", "b", max_skew=1)`."""
    hurry(monkeypatch)
    made: list[Stage] = []

    async def make(*targets: str, **more: Any) -> Stage:
        made.append(Stage(database_url, tmp_path, *targets, **more))
        await made[-1].start()
        return made[-1]

    yield make
    for one in made:
        await one.stop()
