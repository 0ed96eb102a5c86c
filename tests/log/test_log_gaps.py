"""Events that were removed by hand, or that a restore lost: whoever meets the gap says so, and goes no further."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psycopg
import pytest

from controlplane.log.event import LogGap
from controlplane.log.postgres import PostgresLog
from tests.log.archived import archive, connected, dropped, written
from tests.log.words import everything, postgres_opener, request, saw

Open = Callable[..., PostgresLog]
GAPS = [
    ("e.position = 5", 0, 2000, "position 5,"),
    ("e.position = 1", 0, 2000, "position 1,"),
    ("e.position IN (3, 4, 7)", 0, 2000, "positions 3 to 4 and 7,"),
    ("e.position = 10", 0, 2000, "position 10,"),
    ("e.position > 4", 0, 2000, "positions 5 to 10,"),
    ("true", 0, 2000, "positions 1 to 10,"),
    ("e.position IN (4, 5)", 3, 2, "positions 4 to 5,"),
    ("e.position = 6", 4, 2, "position 6,"),
    ("e.position = 10", 9, 2, "position 10,"),
]


@pytest.fixture
async def opener(database_url: str) -> AsyncIterator[Open]:
    async with postgres_opener(database_url) as open_:
        yield open_


async def ten(opener: Open, name: str = "main") -> None:
    log = opener(name)
    await log.take_epoch("one")
    for n in range(5):
        await log.append(request(saw("a", n), saw("b", n)))


async def test_a_reader_that_meets_a_gap_says_which_positions_are_missing(database_url: str, opener: Open) -> None:
    for number, (where, after, limit, said) in enumerate(GAPS):
        name = f"log-{number}"
        await ten(opener, name)
        with connected(database_url) as owner:
            owner.execute(f"DELETE FROM controlplane.events e WHERE e.log = %s AND ({where})".encode(), (name,))
        with pytest.raises(LogGap) as found:
            await opener(name).read(after, limit)
        assert f"{said} which the log had" in str(found.value), (where, str(found.value))
        assert "`controlplane log verify`" in str(found.value)


async def test_whoever_read_before_the_gap_reads_on_once_it_is_closed(database_url: str, opener: Open) -> None:
    await ten(opener)
    with connected(database_url) as owner:
        owner.execute("CREATE TABLE public.removed AS SELECT * FROM controlplane.events WHERE position = 7")
        owner.execute("DELETE FROM controlplane.events WHERE position = 7")
        reader = opener()
        read = [one.position for one in await reader.read(0, 4)]
        for _ in range(3):
            with pytest.raises(LogGap, match="position 7"):
                await reader.read(4, 4)
        owner.execute("INSERT INTO controlplane.events SELECT * FROM public.removed")
        read += [one.position for one in await everything(reader, after=4)]
    assert read == list(range(1, 11))


async def test_a_read_is_one_statement_also_where_nothing_follows(
    database_url: str, opener: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ten(opener)
    reader, asked = opener(), 0
    await reader.read(0, 4)
    execute = psycopg.AsyncConnection.execute

    async def counted(*given: object, **more: object) -> object:
        nonlocal asked
        asked += 1
        return await execute(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(psycopg.AsyncConnection, "execute", counted)
    assert [one.position for one in await reader.read(4)] == [5, 6, 7, 8, 9, 10]
    assert await reader.read(10) == []
    assert asked == 2


@pytest.mark.undistributed("events do not leave a log that Citus distributes")
@pytest.mark.parametrize("whole", [False, True], ids=["the first that is there", "all that are there"])
async def test_what_is_in_archives_is_no_gap_and_what_was_removed_behind_it_is(
    database_url: str, tmp_path: Path, whole: bool
) -> None:
    await written(database_url)
    with connected(database_url) as owner:
        archive(owner, tmp_path)
        assert dropped(owner, tmp_path).events
        (row,) = owner.execute("SELECT archived_to, position FROM controlplane.log_head").fetchall()
        upto, last = row
        assert 0 < upto < last
        async with postgres_opener(database_url) as opener:
            for limit in (2000, 7, 1):
                assert upto < len(await everything(opener(), limit)) + upto < last + upto
            gone = f"position > {upto}" if whole else f"position = {upto + 1}"
            owner.execute(f"DELETE FROM controlplane.events WHERE {gone}".encode())
            said = f"positions {upto + 1} to {last}," if whole else f"position {upto + 1},"
            for limit in (2000, 7, 1):
                with pytest.raises(LogGap) as found:
                    await everything(opener(), limit)
                assert f"{upto + 1}" in str(found.value)
                assert limit < 2000 or said in str(found.value)
