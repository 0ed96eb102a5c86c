"""A log that has something to drop, and its owner's connection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.log.archived import archive, connected


@pytest.fixture
def owner(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with connected(database_url) as connection:
        yield connection


@pytest.fixture
def log(written_url: str, owner: psycopg.Connection[Any], tmp_path: Path) -> psycopg.Connection[Any]:
    """A log of 75 events of which 60 are archived."""
    archive(owner, tmp_path)
    return owner
