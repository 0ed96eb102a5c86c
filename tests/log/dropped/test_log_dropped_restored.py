"""What left a log comes back from its archives, whole or in parts, as if nothing had left."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.log.archive.manifest import RESTORED, ArchiveError, archives_of
from controlplane.log.archive.restoring import RestoreResult
from controlplane.log.verify import verify
from tests.log.archived import (
    BATCHES,
    EVENTS,
    STREAMS,
    another,
    archive,
    connected,
    dropped,
    over,
    restored,
    rows,
    written,
)
from tests.support import postgres
from tests.support.deep import examples

pytestmark = pytest.mark.undistributed("events do not leave a log that Citus distributes")


async def test_what_was_restored_is_as_if_nothing_had_left(log: psycopg.Connection[Any], tmp_path: Path) -> None:
    before = rows(log), rows(log, BATCHES)
    left = dropped(log, tmp_path)
    assert restored(log, tmp_path) == RestoreResult(1, 60, left.events, 0)
    assert (rows(log), rows(log, BATCHES)) == before
    assert restored(log, tmp_path) == RestoreResult(None, None, 0, 0)
    assert (verify(log, "main").first, verify(log, "main").wrong) == (1, [])
    assert not log.execute("SELECT FROM controlplane.streams WHERE archived_to IS NOT NULL").fetchall()
    assert dropped(log, tmp_path).events == left.events


async def test_a_part_of_it_comes_back_with_whole_streams(log: psycopg.Connection[Any], tmp_path: Path) -> None:
    at_18 = _as_if_dropped_to(log, tmp_path, 18)
    dropped(log, tmp_path)
    assert restored(log, tmp_path, (20, 60)).first == 19
    assert (rows(log), rows(log, BATCHES), rows(log, STREAMS)) == at_18
    found = verify(log, "main")
    assert (found.first, found.wrong, found.archived_to) == (19, [], 18)
    assert restored(log, tmp_path).last == 18
    assert len(rows(log)) == 75


def _as_if_dropped_to(log: psycopg.Connection[Any], tmp_path: Path, position: int) -> tuple[Any, ...]:
    dropped(log, tmp_path, over(position))
    found = rows(log), rows(log, BATCHES), rows(log, STREAMS)
    restored(log, tmp_path)
    return found


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ((1, 30), "the positions 1 to 30 alone would leave a gap up to 60, where the database goes on: name 1..60"),
        ((61, 70), "the positions from 61 on are in the database"),
    ],
)
async def test_a_gap_is_refused(
    log: psycopg.Connection[Any], tmp_path: Path, wanted: tuple[int, int], told: str
) -> None:
    dropped(log, tmp_path)
    with pytest.raises(ArchiveError, match=told):
        restored(log, tmp_path, wanted)


async def test_missing_and_foreign_archives_are_refused(
    log: psycopg.Connection[Any], database_url: str, tmp_path: Path
) -> None:
    dropped(log, tmp_path)
    last = archives_of(tmp_path, "main")[-1].folder
    last.rename(tmp_path / "aside")
    with pytest.raises(
        ArchiveError, match=r"what left the database ends at position 60, and the archives in .* end at 39"
    ):
        restored(log, tmp_path)
    (tmp_path / "aside").rename(last)
    log.execute("UPDATE controlplane.log_head SET id = %s", (uuid.uuid4(),))
    with pytest.raises(ArchiveError, match="has archives of another log than the main of this database"):
        restored(log, tmp_path)


async def test_bodies_that_were_removed_come_back_if_asked_for(log: psycopg.Connection[Any], tmp_path: Path) -> None:
    dropped(log, tmp_path)
    log.execute("DELETE FROM controlplane.bodies")
    restored(log, tmp_path)
    assert log.execute("SELECT count(*) FROM controlplane.bodies").fetchone() == (0,)
    assert restored(log, tmp_path, bodies=True).bodies == 20
    assert verify(log, "main").bad_bodies == []


async def test_into_a_database_that_has_nothing_of_it(
    log: psycopg.Connection[Any], tmp_path: Path, postgres_server: postgres.Server, migrated_template: str
) -> None:
    sealed = rows(log, EVENTS.replace("ORDER", "AND position <= 60 ORDER"))
    dropped(log, tmp_path)
    with another(postgres_server, migrated_template) as url, connected(url) as auditor:
        assert restored(auditor, tmp_path, bodies=True) == RestoreResult(1, 60, 60, 20, made=True)
        assert rows(auditor) == sealed
        found = verify(auditor, "main")
        assert (found.first, found.last, found.wrong) == (1, 60, [])
        held = auditor.execute("SELECT holder, isfinite(renewed_at) FROM controlplane.log_head").fetchall()
        assert held == [(RESTORED, False)]


@settings(max_examples=examples(3, 6), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_whatever_is_dropped_and_restored_in_whatever_steps_is_as_before(
    data: st.DataObject, postgres_server: postgres.Server, migrated_template: str, tmp_path: Path
) -> None:
    folder = tmp_path / uuid.uuid4().hex
    with another(postgres_server, migrated_template) as url, connected(url) as owner:
        await written(url, data.draw(st.integers(8, 30)), size=data.draw(st.integers(5, 30)))
        archive(owner, folder)
        before = rows(owner), rows(owner, BATCHES)
        last = len(before[0])
        archived = archives_of(folder, "main")
        if not archived:
            return
        for _ in range(data.draw(st.integers(1, 4))):
            but = data.draw(st.sets(st.integers(0, 9).map("short/{}".format)))
            if data.draw(st.booleans()):
                dropped(owner, folder, over(data.draw(st.integers(1, last)), *but))
            elif (left := verify(owner, "main").archived_to) > 0:
                restored(owner, folder, (data.draw(st.integers(1, left)), left))
            found = verify(owner, "main")
            assert (found.wrong, found.last) == ([], last)
            for stream in {one[2] for one in rows(owner)}:
                assert [one for one in rows(owner) if one[2] == stream] == [
                    one for one in before[0] if one[2] == stream
                ]
        restored(owner, folder)
        assert (rows(owner), rows(owner, BATCHES)) == before
