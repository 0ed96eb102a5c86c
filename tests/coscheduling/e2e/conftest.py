"""A stage for each test; the service reconnects quickly on it."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from controlplane.app import process
from controlplane.clusters.surroundings import Timing
from tests.support.local import Stage

ROOM = "coscheduling"
Make = Callable[..., Awaitable[Stage]]


@pytest.fixture
async def stage(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    """Make the stage: `await stage()` with the room's controller, or those that are named."""
    brief = functools.partial(Timing, backoff_base=0.1, backoff_cap=0.3, suspect_heartbeat=0.1, away_probe=0.3)
    monkeypatch.setattr(process, "Timing", brief)
    made: list[Stage] = []

    async def make(
        *controllers: str, start: bool = True, nodes: int = 3, flag: str = "pipelineruns", **more: Any
    ) -> Stage:
        made.append(Stage(database_url, tmp_path, *(controllers or (ROOM,)), **more))
        await made[-1].start(nodes, flag)
        if start:
            await made[-1].up()
        return made[-1]

    yield make
    for one in made:
        await one.stop()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten what no setting shortens: the back-off of connecting, and how often a suspected cluster is asked."""
    brief = functools.partial(Timing, backoff_base=0.1, backoff_cap=0.3, suspect_heartbeat=0.1, away_probe=0.3)
    monkeypatch.setattr(process, "Timing", brief)
