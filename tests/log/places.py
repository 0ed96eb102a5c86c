"""Where a contract of the log is kept: a mixin for each place, which says how the log is opened there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from tests.log import words
from tests.log.words import Opener


class InMemory:
    @pytest.fixture
    def open_log(self) -> Opener:
        return words.memory_opener(lambda: datetime.now(UTC))


class InPostgres:
    @pytest.fixture
    async def open_log(self, database_url: str) -> AsyncIterator[Opener]:
        async with words.postgres_opener(database_url) as opener:
            yield opener
