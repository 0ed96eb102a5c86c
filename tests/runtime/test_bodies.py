"""The cache of bodies: bounded by bytes, least recently used out first, and the log is asked once for what is
missing.
"""

from __future__ import annotations

import pytest

from controlplane.log.event import Append, Body, body_of
from controlplane.log.memory import MemoryStore
from controlplane.runtime.bodies import Bodies
from tests.runtime.bench import BenchLog, ManualClock
from tests.runtime.errands import asked

# Each is 10 bytes of JSON: {"n":"xx"}
A, B, C, D = (body_of({"n": letter * 2}) for letter in "abcd")


@pytest.fixture
async def log() -> BenchLog:
    made = BenchLog(MemoryStore(), ManualClock())
    await made.take_epoch("bench")
    await made.append(Append([asked(body.text, body=body) for body in (A, B, C, D)]))
    return made


async def texts(bodies: Bodies, *wanted: Body) -> dict[str, bytes]:
    return await bodies.get([body.ref for body in wanted])


async def test_bodies_that_were_kept_are_not_asked_for(log: BenchLog) -> None:
    bodies = Bodies(log)
    bodies.keep([A, B])
    assert await texts(bodies, A, B) == {A.ref: A.text.encode(), B.ref: B.text.encode()}
    assert not log.bodies_asked


async def test_what_is_missing_is_read_once_and_together(log: BenchLog) -> None:
    bodies = Bodies(log)
    bodies.keep([A])
    assert await texts(bodies, A, B, C) == {body.ref: body.text.encode() for body in (A, B, C)}
    await texts(bodies, C, B, A)
    assert log.bodies_asked == [[B.ref, C.ref]]


async def test_a_body_that_nobody_has_is_missing_from_the_answer_and_asked_for_again(log: BenchLog) -> None:
    bodies = Bodies(log)
    unknown = body_of({"n": "unknown"})
    assert await texts(bodies, unknown) == {}
    assert await texts(bodies, unknown) == {}
    assert len(log.bodies_asked) == 2, "it may have come in the meantime"


async def test_the_least_recently_used_goes_first(log: BenchLog) -> None:
    bodies = Bodies(log, limit=30)
    bodies.keep([A, B, C])
    await texts(bodies, A)
    bodies.keep([B])
    bodies.keep([D])
    await texts(bodies, A, B, D)
    assert not log.bodies_asked
    await texts(bodies, C)
    assert log.bodies_asked == [[C.ref]]


async def test_an_answer_is_whole_though_the_cache_cannot_hold_it(log: BenchLog) -> None:
    bodies = Bodies(log, limit=10)
    assert len(await texts(bodies, A, B, C)) == 3
    assert await texts(bodies, A, B, C) == {body.ref: body.text.encode() for body in (A, B, C)}
    assert log.bodies_asked[1] == [A.ref, B.ref], "only the last one found room"


async def test_the_same_body_counts_once(log: BenchLog) -> None:
    bodies = Bodies(log, limit=20)
    bodies.keep([A, A, A, B, A])
    await texts(bodies, A, B)
    assert not log.bodies_asked
