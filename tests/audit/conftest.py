"""Fixtures of the read side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.audit.database import with_stories
from tests.support import postgres


@pytest.fixture(scope="session")
def stories_url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    """A database with the five stories, for tests that write nothing."""
    yield from with_stories(postgres_server, migrated_template)
