from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.clusters.miniapi import MiniApi, serving


@pytest.fixture
async def api() -> AsyncIterator[MiniApi]:
    async with serving(MiniApi()) as server:
        yield server
