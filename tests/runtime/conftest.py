"""A bench that runs, for the tests that need nothing special of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.runtime.bench import Bench, bench


@pytest.fixture
async def running() -> AsyncIterator[Bench]:
    async with bench() as made:
        yield made
