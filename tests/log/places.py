"""Where a contract of the log is kept: a mixin for each place, which says how the log is opened there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from controlplane.log.codec import Codec
from tests.log import words
from tests.log.words import TYPES, Opener


class InMemory:
    @pytest.fixture
    def open_log(self) -> Opener:
        return words.memory_opener(lambda: datetime.now(UTC))


class InPostgres:
    @pytest.fixture
    async def open_log(self, database_url: str) -> AsyncIterator[Opener]:
        async with words.postgres_opener(database_url) as opener:
            yield opener


class InSmallBatches:
    """The same with a limit on batches that every test runs into."""

    @pytest.fixture
    async def open_log(self, database_url: str) -> AsyncIterator[Opener]:
        async with words.postgres_opener(database_url) as opener:
            yield lambda name="main", codec=None: opener(name, codec or Codec(TYPES), max_batch=3)
