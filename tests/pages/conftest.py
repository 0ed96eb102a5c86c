"""Fixtures of the pages: the log of the cookbook, followed and served in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tests.docs.cookbook import with_fleet
from tests.pages.serving import served
from tests.support import postgres


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What did not work is tried again soon."""
    monkeypatch.setattr("controlplane.pages.follower._PAUSE", 0.05)
    monkeypatch.setattr("controlplane.pages.follower._DOZE", 0.1)


@pytest.fixture(scope="session")
def fleet_url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    """A database with the log of the cookbook, for tests that write nothing."""
    yield from with_fleet(postgres_server, migrated_template)


@pytest.fixture(scope="session")
def pages(fleet_url: str) -> Iterator[TestClient]:
    """The pages of that log, for whoever reaches them."""
    with served(fleet_url) as client:
        yield client
