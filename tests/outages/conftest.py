"""A stage for each test; the service reconnects and asks about silent clusters quickly on it."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from controlplane.clusters.connection_config import ConnectionTiming
from controlplane.runtime import term
from tests.outages.stage import Stage
from tests.support.made import started


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten what no setting shortens: the back-off of connecting, and how often a suspected cluster is asked."""
    brief = functools.partial(ConnectionTiming, backoff_base=0.1, backoff_cap=0.3, suspect_heartbeat=0.1)
    monkeypatch.setattr(term, "ConnectionTiming", brief)


@pytest.fixture
async def stage(database_url: str, tmp_path: Path, quick: None) -> AsyncIterator[Callable[..., Awaitable[Stage]]]:
    """Make the stage: `await stage("a", "b", roomy=("a",))`."""
    async with started(partial(Stage, database_url, tmp_path)) as make:
        yield make
