"""What is said to be in an archive alone is not in the database: after a drop of nothing, nothing is."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec

from controlplane.audit.archived import archived_time, archived_to
from controlplane.audit.archived_workloads import page
from controlplane.audit.reads import READ, LogReader
from controlplane.controllers.connectivity.events import MANAGEMENT
from tests.audit.script import Script, write
from tests.audit.test_read_models import looked_through
from tests.log.archived import Ended, archive, connected, dropped, over, written
from tests.log.migrating import partition_size


def at(reader: LogReader, position: int) -> datetime:
    (row,) = reader.rows(
        "SELECT recorded_at FROM audit.events WHERE log = %(log)s AND position = %(position)s", position=position
    )
    found: datetime = row["recorded_at"]
    return found


async def test_after_a_drop_of_nothing_every_time_is_answered(database_url: str, tmp_path: Path) -> None:
    await written(database_url)
    with connected(database_url) as owner:
        archive(owner, tmp_path)
        every = [f"short/{number}" for number in range(25)]
        assert dropped(owner, tmp_path, over(1 << 40, *every)).events == 0
        reader = LogReader(owner, "main")
        assert reader.rows("SELECT FROM audit.archives WHERE dropped_at IS NOT NULL")
        assert archived_to(reader) == 0
        assert {archived_time(reader, at(reader, position)) for position in (1, 5, 30, 60)} == {""}


async def test_a_time_before_anything_that_left_is_answered(database_url: str, tmp_path: Path) -> None:
    """One stream left, whose events are from the tenth position on: what the log had before that is all there."""
    await written(database_url)
    with connected(database_url) as owner:
        archive_end = archive(owner, tmp_path)[0].manifest.last
        reader = LogReader(owner, "main")
        gone = reader.rows("SELECT position FROM audit.events WHERE stream = 'short/3' ORDER BY position")
        before, during, after = (at(reader, gone[0]["position"] + step) for step in (-4, 0, 3))
        others = [f"short/{number}" for number in range(25) if number != 3]
        assert dropped(owner, tmp_path, over(1 << 40, *others)).events == len(gone)
        assert archived_time(reader, before) == ""
        for time in (during, after):
            assert "has only a part of it" in archived_time(reader, time)
        assert archived_to(reader) == archive_end


async def test_a_workload_that_was_not_dispatched_is_listed_with_its_queue_and_its_end(
    database_url: str, tmp_path: Path
) -> None:
    script = Script("a")
    life = script.workload("here-0a1b2").job().seen({"QuotaReserved": True, "Admitted": True}, checks=[])
    life.seen({"Finished": ("Failed", "too bad")}, checks=[])
    life.gone()
    for name in ("x", "y", "z"):
        script.workload(name).runs("a")
    partition_size(database_url, 20)
    for first in range(0, len(script.appended), 10):
        some = script.appended[first : first + 10]
        await write(database_url, [msgspec.structs.replace(one, caused_by=0) for one in some], types=READ)
    looked_through(database_url)
    with connected(database_url) as owner:
        archive(owner, tmp_path)
        assert dropped(
            owner, tmp_path, Ended(1 << 40, frozenset({"workload"}), lambda stream: stream == life.stream)
        ).events
        reader = LogReader(owner, "main")
        (found,) = page(reader, None)
        assert (found.owner, found.queue, found.cluster, found.result) == ("Job/here", "lq", MANAGEMENT, "Failed")
        assert found.attempt == 0
        assert found.since is not None
        assert found.ended_at is not None
        for asked, there in (
            ({"queue": "lq"}, True), ({"cluster": MANAGEMENT}, True), ({"queue": "lq", "cluster": MANAGEMENT}, True),
            ({"queue": "other"}, False), ({"cluster": "a"}, False),
        ):  # fmt: skip
            assert bool(page(reader, None, **asked)) is there, asked


async def test_every_partition_has_the_indexes_of_the_others(database_url: str, tmp_path: Path) -> None:
    """Also the one that takes the place of those that left, and one that is made after it: each once."""
    await written(database_url)
    with connected(database_url) as owner:
        archive(owner, tmp_path)
        dropped(owner, tmp_path, over(1 << 40))
        owner.execute("SELECT controlplane.make_room(1000)")
        found = owner.execute(
            "SELECT i.indrelid::regclass::text, array_agg(regexp_replace(pg_get_indexdef(i.indexrelid), '.* USING ', "
            "'') ORDER BY 1) FROM pg_inherits h JOIN pg_index i ON i.indrelid = h.inhrelid WHERE h.inhparent = "
            "'controlplane.events'::regclass GROUP BY 1"
        ).fetchall()
    assert len(found) > 2
    assert {len(indexes) for _, indexes in found} == {3}
    assert len({tuple(sorted(indexes)) for _, indexes in found}) == 1
