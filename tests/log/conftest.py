"""Logs in one database, which ask again at once where an answer is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from controlplane.log import insistent_line
from tests.log.flights import Open
from tests.log.words import postgres_opener


@pytest.fixture
async def opener(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    monkeypatch.setattr(insistent_line, "AGAIN", 0.0)
    async with postgres_opener(database_url) as open_:
        yield open_
