"""Events in partitions: they are made ahead by whoever appends, nobody else can make them, and a stream goes on from
one to the next.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from controlplane.log import schema
from controlplane.log.event import VersionConflict
from controlplane.log.postgres import PostgresLog
from controlplane.log.verify import verify
from tests.log.migrating import migrate, partition_size
from tests.log.words import everything, postgres_opener, request, saw, until

Opener = Callable[..., PostgresLog]


@pytest.fixture
def small_url(database_url: str) -> str:
    """A database whose partitions hold ten positions each."""
    partition_size(database_url, 10)
    return database_url


@pytest.fixture
def owner(small_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(schema.libpq_url(small_url), autocommit=True) as connection:
        yield connection


@pytest.fixture
async def open_log(small_url: str) -> AsyncIterator[Opener]:
    async with postgres_opener(small_url) as opener:
        yield opener


def partitions(owner: psycopg.Connection[Any]) -> dict[str, int]:
    """Return how many events each partition has."""
    names = owner.execute(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'controlplane.events'::regclass ORDER BY length(c.relname), c.relname"
    ).fetchall()
    return {name: owner.execute(f"SELECT count(*) FROM controlplane.{name}").fetchone()[0] for (name,) in names}


async def test_partitions_are_made_ahead_and_positions_go_on(open_log: Opener, owner: Any) -> None:
    log = open_log()
    await log.take_epoch("one")
    for number in range(14):
        await log.append(request(saw("a", number), saw(f"s{number}", number)))
    assert partitions(owner) == {"events_1": 10, "events_11": 10, "events_21": 8, "events_31": 0}
    events = await everything(open_log(), 7)
    assert [one.position for one in events] == list(range(1, 29))
    assert [one.version for one in events if one.stream == "a"] == list(range(1, 15))
    assert (verify(owner, "main").last, verify(owner, "main").wrong) == (28, [])


async def test_a_batch_may_be_larger_than_a_partition(open_log: Opener, owner: Any) -> None:
    log = open_log()
    await log.take_epoch("one")
    await log.append(request(*[saw("a", number) for number in range(47)]))
    assert list(partitions(owner).values()) == [10, 10, 10, 10, 7, 0]
    assert len(await everything(log)) == 47


async def test_a_wrong_version_is_refused_across_partitions(open_log: Opener) -> None:
    """The index of versions is each partition's own: the writer asks all of them for what it does not know."""
    one, other = open_log(), open_log()
    await one.take_epoch("one")
    await one.append(request(saw("a", 1), saw("a", 2)))
    for number in range(25):
        await one.append(request(saw("b", number)))
    await other.take_epoch("other")
    for version in (0, 1, 3):
        with pytest.raises(VersionConflict):
            await other.append(request(saw("a", 9), a=version))
    assert await other.append(request(saw("a", 3), a=2)) == 1
    with pytest.raises(VersionConflict):
        await other.append(request(saw("a", 9), a=2))
    assert [found.version for found in await everything(other) if found.stream == "a"] == [1, 2, 3]


APPEND = (
    "SELECT outcome FROM controlplane.append_batch('main', 1, %s::uuid, NULL, gen_random_uuid(), %s, ARRAY[%s], "
    "ARRAY[%s::bigint], ARRAY['Saw'], ARRAY[1], ARRAY['{}'], ARRAY[''], ARRAY[''], ARRAY[0::bigint], ARRAY[''], "
    "ARRAY[NULL]::timestamptz[], ARRAY[]::text[], ARRAY[]::bigint[], ARRAY[]::text[], ARRAY[]::text[], "
    "ARRAY[]::bytea[], ARRAY[]::text[])"
)


async def test_the_database_refuses_a_stream_that_begins_again_in_another_partition(
    open_log: Opener, owner: Any
) -> None:
    """And a version that the stream has in the same one."""
    log = open_log()
    await log.take_epoch("one")
    await log.append(request(saw("a", 1), *[saw("b", number) for number in range(14)]))
    nonce = log.appender.nonce
    owner.execute("SET ROLE controlplane_service")
    for stream, version in (("a", 1), ("b", 14)):
        with pytest.raises(psycopg.Error, match="duplicate key value violates unique constraint"):
            owner.execute(APPEND, (nonce, 15, stream, version))
    assert owner.execute(APPEND, (nonce, 15, "b", 15)).fetchone() == ("new",)
    assert [found.version for found in await everything(log) if found.stream == "b"] == list(range(1, 16))


async def test_a_version_that_another_partition_has_is_found_by_verifying(open_log: Opener, owner: Any) -> None:
    """What the partition's own index lets through, of a writer whose memory is wrong."""
    log = open_log()
    await log.take_epoch("one")
    await log.append(request(saw("a", 1), saw("a", 2), *[saw("b", number) for number in range(14)]))
    assert verify(owner, "main").wrong == []
    assert owner.execute(APPEND, (log.appender.nonce, 16, "a", 2)).fetchone() == ("new",)
    ((first, last, what, *_),) = verify(owner, "main").wrong
    assert (first, last) == (1, 17)
    assert "the versions of the stream a are not 1, 2, 3" in what


@pytest.mark.undistributed("nobody appends with a version before that knows no Citus")
async def test_versions_before_append_across_partitions(open_log: Opener, owner: Any) -> None:
    append = (
        "SELECT log_position, stream_version FROM controlplane.append_events('main', 1, NULL, NULL, "
        "gen_random_uuid(), '{1,1,1}', '{a,b,a}', ARRAY['', '', ''], '{0,0,0}', '{Saw,Saw,Saw}', '{1,1,1}', "
        "ARRAY['{}', '{}', '{}'], ARRAY['', '', ''], ARRAY['', '', ''], '{0,0,0}', ARRAY['', '', ''], "
        "'{NULL,NULL,NULL}', '{1}', '{a}', ARRAY[%s::bigint], '{}', '{}')"
    )
    owner.execute("SELECT * FROM controlplane.take_epoch('main', 'old', '3 s')")
    for number in range(9):
        rows = owner.execute(append, (2 * number,)).fetchall()
        assert rows == [
            (3 * number + n, version) for n, version in ((1, 2 * number + 1), (2, number + 1), (3, 2 * number + 2))
        ]
    assert owner.execute(append, (3,)).fetchall() == [(None, None)] * 3
    assert list(partitions(owner).values()) == [10, 10, 7, 0]
    assert verify(owner, "main").wrong == []


async def test_logs_share_the_partitions(open_log: Opener, owner: Any) -> None:
    one, other = open_log("one"), open_log("other")
    await one.take_epoch("x")
    await other.take_epoch("y")
    for number in range(4):
        await asyncio.gather(*(log.append(request(*[saw("a", number)] * 4)) for log in (one, other)))
    assert list(partitions(owner).values()) == [20, 12, 0]
    assert (verify(owner, "one").wrong, verify(owner, "other").wrong) == ([], [])


async def test_the_service_makes_no_table_but_by_appending(open_log: Opener, owner: Any) -> None:
    log = open_log()
    await log.take_epoch("one")
    await log.append(request(*[saw("a", number) for number in range(12)]))
    owner.execute("SET ROLE controlplane_service")
    for statement in (
        "SELECT controlplane.make_room(1000)",
        "SELECT controlplane.room_ahead('main', 0, 1000)",
        "SELECT controlplane.exchange_events('[]')",
        "CREATE TABLE controlplane.events_1000 (LIKE controlplane.events)",
        "ALTER TABLE controlplane.events DETACH PARTITION controlplane.events_1",
        "DROP TABLE controlplane.events_1",
        "INSERT INTO controlplane.events_11 SELECT * FROM controlplane.events WHERE position = 1",
        "DELETE FROM controlplane.events_1",
        "UPDATE controlplane.events_11 SET reason = 'x'",
    ):
        with pytest.raises(errors.InsufficientPrivilege):
            owner.execute(statement)
    assert owner.execute("SELECT count(*) FROM controlplane.events").fetchone() == (12,)


async def test_a_lock_on_the_table_stops_an_append_only_when_there_is_no_room(
    open_log: Opener, small_url: str, owner: Any
) -> None:
    log = open_log()
    await log.take_epoch("one")
    await log.append(request(saw("a", 0)))
    with psycopg.connect(schema.libpq_url(small_url)) as other:
        other.execute("LOCK TABLE controlplane.events IN SHARE UPDATE EXCLUSIVE MODE")  # as ANALYZE takes it
        assert await log.append(request(*[saw("a", number) for number in range(1, 10)])) == 9
        assert len(partitions(owner)) == 1
        with pytest.raises(psycopg.Error, match="has no partition for position 11") as refused:
            owner.execute(APPEND, (log.appender.nonce, 10, "c", 1))
        assert (refused.value.sqlstate, "pg_locks" in str(refused.value.diag.message_hint)) == ("CP004", True)
        waiting = asyncio.create_task(log.append(request(saw("a", 10))))
        await asyncio.sleep(0.7)
        assert not waiting.done()
        other.rollback()
    assert await waiting == 1
    assert list(partitions(owner)) == ["events_1", "events_11"]


async def test_a_log_is_found_by_whoever_waits_for_it_when_a_partition_is_made(open_log: Opener) -> None:
    log, reader = open_log(), open_log()
    await log.take_epoch("one")
    found: list[int] = []

    async def follow() -> None:
        while len(found) < 35:
            found.extend(one.position for one in await reader.read(found[-1] if found else 0, 4))
            await reader.wait(found[-1] if found else 0, 0.05)

    following = asyncio.create_task(follow())
    for number in range(35):
        await log.append(request(saw("a", number)))
    await until(following.done)
    assert found == list(range(1, 36))


VIEWS = """
SELECT n.nspname || '.' || c.relname, c.relacl::text, obj_description(c.oid), array_agg(col_description(c.oid, a.attnum) ORDER BY a.attnum)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relkind = 'v' AND n.nspname IN ('audit', 'public') GROUP BY 1, 2, 3 ORDER BY 1"""


async def test_the_migration_takes_the_table_as_it_is_and_the_way_back_makes_one_of_all(
    empty_database_url: str,
) -> None:
    url = empty_database_url
    migrate(url, "0012")
    async with postgres_opener(url) as opener:
        log = opener()
        await log.take_epoch("one")
        await log.append(request(*[saw("a", number) for number in range(25)]))
        with psycopg.connect(schema.libpq_url(url), autocommit=True) as owner:
            role = f"analyst_{uuid.uuid4().hex[:8]}"
            owner.execute(f"CREATE ROLE {role}")
            owner.execute(
                f"GRANT USAGE ON SCHEMA controlplane TO {role}; GRANT SELECT ON controlplane.events TO {role}"
            )
            owner.execute("CREATE VIEW public.theirs AS SELECT max(position) AS last FROM controlplane.events")
            place = "SELECT pg_relation_filenode(%s::regclass)"
            before = owner.execute(place, ("controlplane.events",)).fetchone()
            views = owner.execute(VIEWS).fetchall()
            for size in (10, 7):
                migrate(url, "0013")
                assert owner.execute(place, ("controlplane.events_1",)).fetchone() == before, "no row was written"
                assert owner.execute(VIEWS).fetchall() == views
                partition_size(url, size)
                last = (await log.head()).position
                for number in range(20):
                    await log.append(request(saw("b", number)))
                assert owner.execute("SELECT * FROM public.theirs").fetchone() == (last + 20,)
                assert owner.execute("SELECT count(*) FROM audit.events").fetchone() == (last + 20,)
                assert verify(owner, "main").wrong == []
                owner.execute(f"SET ROLE {role}; SELECT * FROM controlplane.events; RESET ROLE")
                migrate(url, "0012", back=True)
                assert owner.execute(
                    "SELECT relkind FROM pg_class WHERE oid = 'controlplane.events'::regclass"
                ).fetchone() == ("r",)
                assert owner.execute(VIEWS).fetchall() == views
                assert owner.execute("SELECT * FROM public.theirs").fetchone() == (last + 20,)
                assert await log.append(request(saw("c", size))) == 1
                assert verify(owner, "main").wrong == []
            owner.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
