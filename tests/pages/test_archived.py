"""What has left the log for an archive is told as such, and how it comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from starlette.testclient import TestClient

from controlplane.audit.reads import READ
from controlplane.log.archive.dropping import Ended
from tests.audit.script import write
from tests.docs.fleet_story import story
from tests.log.archived import archive, connected, dropped
from tests.log.migrating import partition_size
from tests.pages.serving import served

GONE = "team-b/job-etl-0a1b2"


@pytest.fixture
async def archived(database_url: str, tmp_path: Path) -> str:
    """A log of which one Workload's events are in an archive alone."""
    partition_size(database_url, 100)
    for first in range(0, len(story().appended), 50):
        some = story().appended[first : first + 50]
        await write(database_url, [msgspec.structs.replace(one, caused_by=0) for one in some], types=READ)
    ended = Ended(1 << 40, frozenset({"workload"}), lambda stream: stream == f"workload/{GONE}")
    with connected(database_url) as owner:
        archive(owner, tmp_path)
        dropped(owner, tmp_path, ended)
    return database_url


@pytest.fixture
def pages(archived: str) -> Iterator[TestClient]:
    with served(archived) as client:
        yield client


def test_a_workload_in_an_archive_says_where_and_how_it_comes_back(pages: TestClient, tmp_path: Path) -> None:
    answer = pages.get(f"/workloads/{GONE}")
    assert answer.status_code == 410
    assert "In an archive" in answer.text
    said = pages.get(f"/api/v1/workloads/{GONE}").json()["error"]
    assert f"The Workload {GONE} is over and archived in {tmp_path}" in said
    assert f"`controlplane log restore --from {tmp_path}" in said
    assert "left the database at 20" in said
    assert pages.get("/workloads/team-b/job-sim-0a1b2").status_code == 200
    assert pages.get("/workloads/team-b/job-nobody").status_code == 404


def test_an_event_and_a_time_in_an_archive_are_told_as_such(pages: TestClient) -> None:
    stream = f"workload/{GONE}"
    gone = next(n for n, one in enumerate(story().appended, 1) if one.stream == stream)
    assert pages.get(f"/events/{gone}").status_code == 410
    assert "brings it back" in pages.get(f"/events/{gone}").text
    assert pages.get("/events/999999").status_code == 404
