"""What the writer knows by itself, and that the database judges whether it does."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from controlplane.log import schema, writer_cache
from controlplane.log.batch import Batch, encoded
from controlplane.log.codec import Codec
from controlplane.log.event import VersionConflict
from controlplane.log.writer_cache import WriterCache
from tests.log.words import TYPES, Saw, everything, postgres_opener, request, saw, shape

CODEC = Codec(TYPES)


def knowing(position: int, versions: dict[str, int], marks: dict[str, int] | None = None) -> WriterCache:
    cache = WriterCache()
    cache.answered(position, versions, marks or {}, merged=True)
    return cache


def judged(cache: WriterCache, *asked: Any, below: Batch | None = None) -> Batch:
    batch = Batch(cache, below)
    for one in asked:
        batch.add(encoded(one, CODEC))
    return batch


def test_what_it_does_not_know_is_asked_for() -> None:
    asked = request(saw("a", 1, source="s", mark=4), saw("b", 2), c=0)
    batch = judged(WriterCache(), asked)
    assert (sorted(batch.streams), list(batch.sources)) == (["a", "b", "c"], ["s"])
    batch = judged(knowing(7, {"a": 0, "b": 0, "c": 0}, {"s": -1}), asked)
    assert not batch.streams
    assert not batch.sources


def test_what_is_expected_to_be_there_is_not_taken_for_new() -> None:
    cache = knowing(7, {"c": 3})
    for expected, asks in (({}, False), ({"c": 3}, False), ({"a": 0}, False), ({"d": 1}, True)):
        assert judged(cache, request(saw("a", 1), **expected)).has_to_ask() is asks
    many = [request(saw(f"a{number}", 1)) for number in range(40)]
    assert judged(cache, *many).has_to_ask()


def test_many_are_taken_for_new_while_all_that_was_not_known_was_new() -> None:
    """Where the log knows what the writer does not, the writer asks before it sends much."""
    many = [request(saw(f"a{number}", 1, source=f"s{number}", mark=5)) for number in range(40)]
    cache = WriterCache()
    for position, versions, marks, new in (
        (0, {}, {}, True),  # nobody has appended anything
        (9, {"x": 0}, {"y": -1}, True),
        (9, {"x": 0, "z": 3}, {"y": -1}, False),
        (9, {}, {}, False),  # nothing was asked
        (9, {"x": 0}, {"y": -1}, True),
        (9, {"x": 0}, {"y": 4}, False),
    ):
        cache.answered(position, versions, marks, merged=True)
        assert judged(cache, *many).has_to_ask() is not new
    cache.answered(9, {"v": 0}, {}, merged=False)
    cache.clear()
    assert judged(cache, *many).has_to_ask(), "somebody else appends"


async def test_what_was_taken_for_new_and_is_not_is_asked_for(database_url: str) -> None:
    async with postgres_opener(database_url) as opener:
        one, other = opener(), opener()
        await one.take_epoch("one")
        await one.append(request(saw("a", 1, source="s", mark=5), saw("a", 2)))
        await other.take_epoch("other")
        await other.append(request(saw("z", 1)))  # now it knows where the log ends
        assert await other.append(request(saw("b", 3, source="s", mark=5), saw("b", 4))) == 1
        assert await other.append(request(saw("a", 5))) == 1
        with pytest.raises(VersionConflict):
            await other.append(request(saw("c", 6), a=0))
        found = shape(await everything(other))
        assert [(stream, version, event) for _, stream, version, event in found[3:]] == [
            ("b", 1, Saw(n=4)),
            ("a", 3, Saw(n=5)),
        ]


async def test_what_is_known_is_refused_too_if_its_stream_has_moved_on(database_url: str) -> None:
    """The writer knows the mark and has forgotten the stream: nothing is to be written, and it has to ask all the
    same."""
    async with postgres_opener(database_url) as opener:
        log = opener()
        await log.take_epoch("one")
        await log.append(request(saw("a", 1), saw("b", 2, source="s", mark=5)))
        log.appender._cache.clear()
        assert await log.append(request(saw("b", 3, source="s", mark=5))) == 0
        with pytest.raises(VersionConflict):
            await log.append(request(saw("a", 4, source="s", mark=5), a=0))
        assert await log.append(request(saw("a", 4, source="s", mark=5), a=1)) == 0


def test_requests_are_judged_one_after_the_other() -> None:
    cache = knowing(7, {"a": 2, "b": 0}, {"s": 4})
    batch = judged(
        cache,
        request(saw("a", 1), a=2),
        request(saw("a", 2), a=2),  # the first one overtook it
        request(saw("a", 3, source="s", mark=4)),
        request(saw("b", 4, source="s", mark=5), saw("b", 5, source="s", mark=5), a=3),
    )
    assert batch.new == [1, None, 0, 1]
    found = [(one.position, one.stream, one.version) for one in batch.committed(datetime.now(UTC))]
    assert found == [(8, "a", 3), (9, "b", 1)]
    assert cache.version("a") == 2, "nothing is known before it is committed"
    batch.teach(cache)
    assert (cache.position, cache.version("a"), cache.version("b"), cache.mark("s")) == (9, 3, 1, 5)


def test_who_expects_more_than_it_knows_has_read_more() -> None:
    cache = knowing(7, {"a": 2})
    assert judged(cache, request(saw("a", 1), a=3)).ahead
    assert not judged(cache, request(saw("a", 1), a=1)).ahead
    assert not judged(cache, request(saw("a", 1), z=1)).ahead
    assert not judged(cache, request(saw("a", 1)), request(saw("a", 1), a=3)).ahead, "the first one makes it so"


def test_a_batch_is_judged_on_the_one_in_flight() -> None:
    cache = knowing(7, {"a": 2, "b": 0}, {"s": 4})
    below = judged(cache, request(saw("a", 1, source="s", mark=5)), request(saw("c", 1, source="t", mark=1), c=0))
    batch = judged(
        cache,
        request(saw("a", 2), a=2),
        request(saw("a", 3), a=3),
        request(saw("a", 4, source="s", mark=5)),
        request(saw("c", 5, source="t", mark=2), c=1),
        request(saw("b", 6), b=0),
        below=below,
    )
    assert batch.new == [None, 1, 0, 1, 1]
    assert (batch.after, batch.ahead, list(batch.streams), list(batch.sources)) == (9, False, [], [])
    assert (list(below.streams), list(below.sources)) == (["c"], ["t"]), "these the database judges with the first"
    found = [(one.position, one.stream, one.version) for one in batch.committed(datetime.now(UTC))]
    assert found == [(10, "a", 4), (11, "c", 2), (12, "b", 1)]
    below.teach(cache)
    batch.teach(cache)
    assert (cache.position, cache.version("a"), cache.version("c"), cache.mark("t")) == (12, 4, 2, 2)


def test_another_end_of_the_log_makes_all_void() -> None:
    cache = knowing(7, {"a": 2}, {"s": 4})
    cache.answered(8, {"b": 1}, {}, merged=False)
    assert (cache.version("a"), cache.mark("s"), cache.version("b"), cache.position) == (None, None, None, None)
    assert cache.wants_merging
    cache.answered(8, {"b": 1}, {}, merged=True)
    assert (cache.version("a"), cache.mark("s"), cache.version("b"), cache.position) == (None, None, 1, 8)


def test_a_mark_that_is_in_no_table_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_cache, "REMEMBERED", 2)
    monkeypatch.setattr(writer_cache, "MERGED_AT", 4)
    cache = knowing(0, {})
    for number in range(3):
        cache.wrote(number + 1, {f"a{number}": 1}, {f"s{number}": 5})
    assert [cache.version(f"a{number}") for number in range(3)] == [None, 1, 1]
    assert [cache.mark(f"s{number}") for number in range(3)] == [5, 5, 5]
    assert not cache.wants_merging
    cache.wrote(4, {}, {"s3": 5})
    assert cache.wants_merging
    cache.answered(4, {}, {}, merged=True)
    cache.wrote(5, {}, {"s4": 5})
    assert [cache.mark(f"s{number}") for number in range(5)] == [None, None, None, 5, 5]


async def test_marks_outlive_their_writer(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in the rows of their commits, then in a table: whoever takes the log over finds all of them."""
    monkeypatch.setattr(writer_cache, "MERGED_AT", 3)
    asked = [request(saw("a", number, source=f"s{number}", mark=5)) for number in range(7)]
    async with postgres_opener(database_url) as opener:
        one, other = opener(), opener()
        await one.take_epoch("one")
        assert [await one.append(each) for each in asked] == [1] * 7
        await other.take_epoch("other")
        assert await asyncio.gather(*(other.append(each) for each in asked)) == [0] * 7
        newer = [request(saw("a", number, source=f"s{number}", mark=6)) for number in range(7)]
        assert await asyncio.gather(*(other.append(each) for each in newer)) == [1] * 7
        found = shape(await everything(other))
        assert [(position, version) for position, _, version, _ in found] == [(n, n) for n in range(1, 15)]


async def test_somebody_appends_beside_the_writer(database_url: str) -> None:
    """What it knew of the stream is void; a decision on what it knew is refused, and one on what is read is not."""
    async with postgres_opener(database_url) as opener:
        leader, operator = opener(), opener()
        await leader.take_epoch("one")
        await leader.append(request(saw("a", 1), saw("b", 1)))
        for number in (2, 5):
            await operator.assist()
            assert await operator.append(request(saw("a", number))) == 1
            assert await leader.append(request(saw("b", number))) == 1
            with pytest.raises(VersionConflict):
                await leader.append(request(saw("a", 9), a=1))
        assert await leader.append(request(saw("a", 6), a=3)) == 1
        events = [(e.stream, e.version, e.event.n) for e in await everything(leader) if isinstance(e.event, Saw)]
        assert events == [("a", 1, 1), ("b", 1, 1), ("a", 2, 2), ("b", 2, 2), ("a", 3, 5), ("b", 3, 5), ("a", 4, 6)]


async def test_who_hears_of_others_by_asking_forgets_no_mark_that_is_in_no_table(database_url: str) -> None:
    """What was seen is told again after a list: it is known, though the table of marks does not have it yet."""
    async with postgres_opener(database_url) as opener:
        leader, operator = opener(), opener()
        await leader.take_epoch("one")
        assert await leader.append(request(saw("a", 1, source="s", mark=5))) == 1
        await operator.assist()
        assert await operator.append(request(saw("b", 1, source="t", mark=5))) == 1
        # It has to ask before this is sent, and so is told that the log has grown.
        assert await leader.append(request(saw("b", 3), b=1)) == 1
        assert await leader.append(request(saw("a", 2, source="s", mark=5))) == 0
        assert await leader.append(request(saw("b", 2, source="t", mark=5))) == 0


@pytest.mark.undistributed("nobody appends with a version before that knows no Citus")
async def test_the_version_before_goes_on_and_comes_back(database_url: str) -> None:
    """It knows nothing of marks that are not merged and of versions that `streams` does not have; the database does."""
    before = """
        SELECT outcome, log_position, stream_version FROM controlplane.append_events(
            %s, %s, %s, NULL, %s, ARRAY[0, 0, 1], ARRAY['a', 'b', 'a'], ARRAY['s', '', 't'], ARRAY[5, 0, 1], ARRAY['Saw', 'Saw', 'Saw'],
            ARRAY[1, 1, 1], ARRAY['{}', '{}', '{}'], ARRAY['', '', ''], ARRAY['', '', ''], ARRAY[0, 0, 0], ARRAY['', '', ''],
            ARRAY[NULL, NULL, NULL]::timestamptz[], ARRAY[1], ARRAY['a'], ARRAY[%s], ARRAY[]::bytea[], ARRAY[]::text[])"""
    async with postgres_opener(database_url) as opener:
        log = opener()
        head = await log.take_epoch("one")
        await log.append(request(saw("a", 1, source="s", mark=5), saw("a", 2, source="s", mark=6)))
        async with await psycopg.AsyncConnection.connect(schema.libpq_url(database_url), autocommit=True) as connection:
            for version, said in ((1, ("conflict", None, None)), (2, ("new", 5, 3))):
                parameters = (log.name, head.epoch, log.appender.nonce, uuid.uuid4(), version)
                rows = await (await connection.execute(before, parameters)).fetchall()
                assert rows == [("known", None, None), ("new", 3 if version == 1 else 4, version), said]
        assert await log.append(request(saw("a", 3, source="t", mark=1), saw("a", 4, source="t", mark=2), b=2)) == 1
        assert [e.version for e in await everything(log) if e.stream == "a"] == [1, 2, 3, 4]
