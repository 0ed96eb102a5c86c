"""A part of the archives of a log is restored into a database that has nothing of it: what that leaves out is known, or
it is refused."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from controlplane.log.archive.manifest import ArchiveError
from controlplane.log.verify import verify
from tests.log.archived import EVENTS, STREAMS, another, archive, connected, restored, rows
from tests.log.words import everything, postgres_opener, request, saw
from tests.support import postgres

pytestmark = pytest.mark.undistributed("events do not leave a log that Citus distributes")


@pytest.fixture
def archives(written_url: str, tmp_path: Path) -> Path:
    """The archives of the positions 1 to 60 of a log that has 75."""
    with connected(written_url) as owner:
        archive(owner, tmp_path / "all")
    return tmp_path / "all"


@pytest.fixture
def empty(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    with another(postgres_server, migrated_template) as url:
        yield url


def some(archives: Path, name: str, *which: int) -> Path:
    """Another folder with some of the archives."""
    folders = sorted((archives / "main").iterdir())
    for number in which:
        shutil.copytree(folders[number], archives.parent / name / "main" / folders[number].name)
    return archives.parent / name


async def appended(url: str) -> None:
    """Let streams begin again whose first events did not come back, and one go on."""
    async with postgres_opener(url) as opener:
        log = opener("main")
        await log.take_epoch("new")
        assert await log.append(request(saw("short/0", 77), saw("short/24", 78), saw("long/a", 79))) == 3


async def test_streams_that_did_not_come_back_go_on_where_they_end(
    database_url: str, archives: Path, empty: str
) -> None:
    """They began with version 1 again, and the log had two of them once all of it came back."""
    with connected(database_url) as owner:
        before = rows(owner, EVENTS)[:60]
    with connected(empty) as owner:
        found = restored(owner, archives, (41, 60))
        assert (found.first, found.last, found.made) == (40, 60, True)
        await appended(empty)
        known = {name: (events, upto) for name, events, upto in rows(owner, STREAMS)}
        assert known["'short/0'"] == ("2", "1"), "it has an event in archives alone, and a new one"
        noted = owner.execute("SELECT first, dropped_at IS NULL FROM controlplane.archives ORDER BY first").fetchall()
        assert noted == [(1, False), (19, False), (40, True)]
        assert verify(owner, "main").wrong == []
        restored(owner, archives)
        assert verify(owner, "main").wrong == []
        assert rows(owner, EVENTS)[:60] == before
    async with postgres_opener(empty) as opener:
        new = [(one.stream, one.version) for one in (await everything(opener("main")))[60:]]
    assert new == [("short/0", 2), ("short/24", 1), ("long/a", 21)]


async def test_the_log_ends_where_the_archives_end_and_what_they_lack_is_no_part_of_it(
    archives: Path, empty: str
) -> None:
    """Archives that go on behind the end of the log were said to be in the database as a whole."""
    with connected(empty) as owner:
        found = restored(owner, some(archives, "two", 0, 1))
        assert (found.first, found.last, found.events, found.made) == (1, 39, 39, True)
        await appended(empty)
        assert verify(owner, "main").wrong == []
        before = rows(owner)
        with pytest.raises(ArchiveError, match=r"has no batch that ends at 60, as .* does: it was restored"):
            restored(owner, archives)
        assert rows(owner) == before
        assert restored(owner, archives.parent / "two").first is None


async def test_a_part_with_a_hole_is_refused(archives: Path, empty: str) -> None:
    last_two, hole = some(archives, "last", 1, 2), some(archives, "hole", 0, 2)
    refused: list[tuple[Path, Any, str]] = [
        (last_two, None, "begin at position 19: those before it are needed too"),
        (hole, None, "the positions 19 to 39 are missing before"),
        (archives, (1, 30), "would leave a gap up to 60, where the archives end"),
        (archives, (70, 80), "the positions from 70 on are in no archive in .*: they end at 60"),
    ]
    with connected(empty) as owner:
        for directory, positions, told in refused:
            with pytest.raises(ArchiveError, match=told):
                restored(owner, directory, positions)
            assert _logs(owner) == []


def _logs(owner: psycopg.Connection[Any]) -> list[Any]:
    return owner.execute("SELECT log FROM controlplane.log_head").fetchall()
