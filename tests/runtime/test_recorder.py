"""The recorder: what clusters show goes into the log in its order, before anybody reads on."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from controlplane.clusters.protocol import Change, Off, Synced
from controlplane.controllers.connectivity.local_connection import event_refused
from controlplane.kube.kinds import JOBS, WORKLOADS
from controlplane.log.event import Append, Fenced, LogError, NewEvent, body_of
from controlplane.log.memory import MemoryLog, MemoryStore
from controlplane.runtime.bodies import Bodies
from controlplane.runtime.recorder import Recorder
from tests.runtime.bench import BenchLog, ManualClock, settle
from tests.runtime.errands import Errands, Listed, Shown, Undeclared, asked, lift, shown


class Desk:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.log = BenchLog(self.store, self.clock)
        self.bodies = Bodies(self.log)
        self.stuck: list[str | None] = []
        self.recorder = Recorder(
            self.log, Errands(), self.bodies, self.clock, lift, refused=event_refused, stuck=self.stuck.append
        )

    @property
    def streams(self) -> list[str]:
        return [row[0].stream for row in self.store.rows]

    @property
    def events(self) -> list[Any]:
        return [row[0].event for row in self.store.rows]


@pytest.fixture
async def desk() -> Desk:
    made = Desk()
    await made.log.take_epoch("desk")
    return made


def change(name: str, version: int, op: Any = "modified", **metadata: Any) -> Change:
    return Change(op, JOBS, {"metadata": {"name": name, **metadata}}, str(version))


async def test_deltas_become_events_in_their_order_and_in_one_commit(desk: Desk) -> None:
    names = [f"job-{number}" for number in (3, 1, 2)]
    await desk.recorder("east", [change(name, version) for version, name in enumerate(names, start=1)])
    assert desk.streams == names
    assert len(desk.log.appended) == 1
    assert desk.store.rows[0][0].observed_at == desk.clock.now()


async def test_lists_and_kinds_that_are_off_are_lifted_where_they_stand(desk: Desk) -> None:
    off, synced = Off(WORKLOADS, "NotServed", "no such kind"), Synced(JOBS, "9", 1, gap=False)
    await desk.recorder("east", [change("a", 1, "listed"), synced, off, change("b", 2)])
    assert desk.streams == ["a", "east", "east", "b"]
    assert desk.events[1:3] == [
        Listed(kind="jobs.batch", said="1 objects"),
        Listed(kind="workloads.kueue.x-k8s.io", said="NotServed"),
    ]


async def test_what_concerns_nobody_is_not_recorded(desk: Desk) -> None:
    mine = {"mine": "no"}
    await desk.recorder("east", [change("a", 1, labels=mine), change("b", 2)])
    await desk.recorder("east", [change("c", 3, labels=mine)])
    await desk.recorder("east", [])
    assert desk.streams == ["b"]
    assert len(desk.log.appended) == 1, "an append of nothing is none"


@pytest.mark.parametrize("sole", [True, False])
async def test_what_the_log_holds_is_passed_over_where_one_capability_alone_looks(desk: Desk, sole: bool) -> None:
    """Another capability may not have looked yet when the first one recorded it."""
    recorder = Recorder(desk.log, Errands(), desk.bodies, desk.clock, lift, refused=event_refused, sole=sole)
    known = Change("listed", JOBS, {"metadata": {"name": "a"}}, "1", seen=True)
    await recorder("east", [known, change("b", 2, "listed")])
    assert desk.streams == (["b"] if sole else ["a", "b"])


async def test_a_sighting_says_which_life_of_the_cluster_it_shows(desk: Desk) -> None:
    """So a version that was seen before is news in another life, and only there."""
    desk.recorder.incarnations["east"] = "first"
    await desk.recorder("east", [change("a", 5)])
    await desk.recorder("east", [change("a", 5)])
    desk.recorder.incarnations["east"] = "second"
    await desk.recorder("east", [change("a", 5, "gone")])
    await desk.recorder("west", [change("a", 6)])
    assert desk.events == [
        Shown(version="5", incarnation="first"),
        Shown(version="5", incarnation="second", gone=True),
        Shown(version="6"),
    ]


async def test_recording_returns_when_it_is_in_the_log(desk: Desk) -> None:
    desk.log.held = asyncio.Event()
    recording = asyncio.create_task(desk.recorder("east", [change("a", 1)]))
    await settle()
    assert not recording.done()
    desk.log.held.set()
    await settle()
    assert recording.done()
    assert desk.streams == ["a"]


async def test_one_event_that_is_refused_leaves_the_others_in(desk: Desk) -> None:
    events = [shown("a"), NewEvent(stream="bad", event=Undeclared()), shown("b"), shown("c")]
    await desk.recorder.record(events)
    (refused,) = [stream for stream in desk.streams if stream.startswith("refused/@management/event/")]
    assert desk.streams == ["a", refused, "b", "c"]
    event = desk.events[1]
    assert (event.stream, event.type) == ("bad", "Undeclared")
    assert "not registered" in event.error
    assert not desk.stuck


async def test_an_event_that_is_refused_again_is_recorded_once_a_version(desk: Desk) -> None:
    bad = NewEvent(stream="b\x00d", event=Undeclared(), source="east/x", mark=7)
    for version in (7, 7, 8, 10**5000):
        await desk.recorder.record([msgspec.structs.replace(bad, mark=version)])
    await desk.recorder.record([shown("a")])
    assert [row[0].mark for row in desk.store.rows] == [7, 8, 2**63 - 1, 0]
    assert desk.events[0].stream == r"b\x00d"


async def test_a_log_that_refuses_everything_is_waited_for_and_nothing_is_passed_over(desk: Desk) -> None:
    """It is not the event that is bad then: a function was replaced by a broken one, say, in the middle of a
    rollout.
    """
    broken = True

    async def refuse(request: Append) -> None:
        if broken:
            raise LogError("the database refused an append: invalid input syntax")

    desk.log.before_append = refuse
    recording = asyncio.create_task(desk.recorder.record([shown("a"), shown("b")]))
    await desk.clock.pass_(30.0)
    assert not recording.done()
    assert desk.stuck
    assert desk.stuck[-1] is not None
    broken = False
    await desk.clock.pass_(10.0)
    assert recording.done()
    assert desk.streams == ["a", "b"]
    assert desk.stuck[-1] is None


async def test_a_log_that_takes_events_again_just_when_one_is_set_aside_has_that_one_too(desk: Desk) -> None:
    """That it took the word of the refusal does not say that it refuses the event alone."""
    refusals = 0

    async def refuse(request: Append) -> None:
        nonlocal refusals
        if refusals < 2:
            refusals += 1
            raise LogError("the database refused an append: invalid input syntax")

    desk.log.before_append = refuse
    await desk.recorder.record([shown("a"), shown("b")])
    assert [stream for stream in desk.streams if not stream.startswith("refused/")] == ["a", "b"]


async def test_a_log_that_does_not_answer_is_waited_for(desk: Desk) -> None:
    """It has refused nothing: what was seen must not be lost."""
    desk.log.away = True
    recording = asyncio.create_task(desk.recorder.record([shown("a"), shown("b")]))
    await desk.clock.pass_(10.0)
    assert not recording.done()
    desk.log.away = False
    await desk.clock.pass_(5.0)
    assert recording.done()
    assert desk.streams == ["a", "b"]


async def test_who_is_fenced_hears_of_it(desk: Desk) -> None:
    await MemoryLog(desk.store, desk.log._codec, desk.clock.now).take_epoch("another")
    with pytest.raises(Fenced):
        await desk.recorder("east", [change("a", 1), change("b", 2)])
    assert not desk.streams


async def test_the_bodies_of_what_is_recorded_are_at_hand(desk: Desk) -> None:
    body = body_of({"big": 1})
    await desk.recorder.record([asked("a", body=body)])
    assert await desk.bodies.get([body.ref]) == {body.ref: b'{"big":1}'}
    assert not desk.log.bodies_asked
    assert isinstance(desk.log.appended[0], Append)
