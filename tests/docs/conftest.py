"""Fixtures of the documentation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.cookbook import with_fleet
from tests.support import postgres


@pytest.fixture(scope="session")
def fleet_url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    """A database with the log that the pages ask, for tests that write nothing."""
    yield from with_fleet(postgres_server, migrated_template)
