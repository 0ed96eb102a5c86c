"""A process that starts from a snapshot is like one that has read the whole log: whatever the log, and wherever the
snapshot was taken."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec
import pytest

from controlplane.controllers.coscheduling.feasibility.controller import FeasibilityController
from controlplane.controllers.quota.controller import QuotaController
from controlplane.dst.engine.quiet import hushed
from controlplane.dst.play import plan_of
from controlplane.dst.scenes.candidates.run import CandidateRun
from controlplane.dst.scenes.local import processes as local
from controlplane.dst.scenes.local.run import LocalRun
from controlplane.kube.kinds import PIPELINE_RUNS
from controlplane.log.codec import Codec
from controlplane.log.event import Event, Recorded
from controlplane.runtime.folded import FoldedError, check, give, taken
from controlplane.runtime.folded_records import Decoder, Encoder
from controlplane.runtime.router import ControllerRouter
from controlplane.runtime.writes import WriteFailure
from tests.coscheduling.judging_scene import Scene as JudgingScene
from tests.coscheduling.samples import run
from tests.interface.logs import FOLDER, HOSTS, LATER, decided, host_of, opened, recorded, written
from tests.quota.scene import Scene as QuotaScene
from tests.support import folded
from tests.support.deep import deep_after, examples
from tests.support.played import log_of
from tests.support.rows import each

LOGS = sorted(file.stem for file in FOLDER.glob("*.jsonl") if folded.kept(host_of(file.stem)))


def kept_log(name: str) -> list[Recorded]:
    codec = Codec(host_of(name).types)
    return [recorded(line, codec) for line in written(name)]


def places(events: Sequence[Recorded], few: int, many: int) -> list[int]:
    """After so many events snapshots are taken: the first, the last, and some between them, other ones for each log."""
    count = examples(few, many)
    return sorted({0, 1, len(events), *(len(events) * step // count for step in range(1, count))})


@cache
def codec_of(types: Sequence[type[Event]]) -> Codec:
    return Codec(types)


def consequences(router: ControllerRouter, events: Sequence[Recorded]) -> list[Any]:
    """What a process that starts asks about, what is open of each stream, and what is decided about it next."""
    codec, now = codec_of(router.types), events[-1].recorded_at + LATER
    first = sorted(folded.asked(router))
    streams = sorted({event.stream for event in events})
    opens = [list(opened(router, stream)) for stream in streams]
    return [first, opens, [decided(router, stream, now, codec) for stream in (*first, *streams)]]


def test_every_process_but_the_scheduler_has_snapshots() -> None:
    assert {name.rpartition("-")[0] for name in LOGS} == {"workloads", "source", "local"}


@pytest.mark.generated
@pytest.mark.parametrize("name", LOGS)
def test_a_snapshot_and_what_came_after_it_is_the_whole_log(name: str) -> None:
    holds(lambda: host_of(name), kept_log(name))


def holds(new: Any, events: Sequence[Recorded]) -> None:
    whole, before = folded.folded(new(), events), new()
    follows = consequences(folded.folded(new(), events), events)
    done = 0
    for count in places(events, 12, 400):
        folded.folded(before, events[done:count])
        done = count
        # A snapshot forgets who is over; the process that takes it goes on.
        after = folded.folded(folded.started_from(before, new()), events[count:])
        assert not folded.unlike(whole, after), count
        assert dict(whole.left_alone) == dict(after.left_alone)
        assert consequences(after, events) == follows, count


@pytest.mark.generated
@pytest.mark.parametrize("name", LOGS)
def test_a_snapshot_of_a_leader_is_that_of_a_follower(name: str) -> None:
    """A leader has decided, and asked, and forgotten what it was to decide about."""
    events = kept_log(name)
    follows = consequences(folded.folded(host_of(name), events), events)
    leader, done = host_of(name), 0
    leader.remembers = True
    for count in places(events, 12, 400):
        for event in events[done:count]:
            leader.fold(event)
            for stream in leader.take_dirty():
                leader.decide(stream, event.recorded_at)
        done = count
        after = folded.folded(folded.started_from(leader, host_of(name)), events[count:])
        assert consequences(after, events) == follows, count


def played(scene: str, seed: int) -> dict[str, list[Recorded]]:
    """Play a seed; return the logs that it wrote, by the kind of process that did."""
    if scene == "workloads":
        return {"workloads": log_of(plan_of(seed))}
    with hushed():
        if scene == "candidates":
            both = CandidateRun(plan_of(seed, scene=scene))
            both.play()
            found, runs = {"source": both.databases["source"]}, both
        else:
            own = LocalRun(plan_of(seed, scene=scene))
            own.play()
            found, runs = {"local": own.databases[local.CONTROLLERS]}, own  # type: ignore[assignment]
    events = {name: list(database.read(0, 1_000_000)) for name, database in found.items()}
    runs.close()
    return events


SEEDS = [(scene, seed) for seed in (101, 102, 103, 104) for scene in ("local", "candidates", "workloads")]


@pytest.mark.parametrize(("scene", "seed"), deep_after(2, SEEDS))
def test_it_is_so_of_what_a_simulation_writes(scene: str, seed: int) -> None:
    for process, events in played(scene, seed).items():
        holds(HOSTS[process], events)


def test_it_is_so_of_quota() -> None:
    scene = QuotaScene("a", "b")
    for count in range(len(scene.log) + 1):
        before, after = QuotaController(scene.controller.policy), QuotaController(scene.controller.policy)
        for event in scene.log[:count]:
            before.fold(event)
        folded.copied(before, after)
        for event in scene.log[count:]:
            after.fold(event)
        assert folded.difference(scene.controller, after).keys() <= {"_dirty"}
        for stream in {event.stream for event in scene.log}:
            assert after.decide(stream, scene.now) == scene.controller.decide(stream, scene.now)


def test_it_is_so_of_judgements() -> None:
    scene = JudgingScene("a", "b")
    scene.show("@management", PIPELINE_RUNS, run())
    scene.lose("b")
    scene.restart()
    for count in range(len(scene.log) + 1):
        before, after = FeasibilityController(scene.room.policy), FeasibilityController(scene.room.policy)
        for event in scene.log[:count]:
            before.fold(event)
        folded.copied(before, after)
        for event in scene.log[count:]:
            after.fold(event)
        for stream in {event.stream for event in scene.log}:
            assert after.decide(stream, scene.now) == scene.room.decide(stream, scene.now)


# --- values
# ------------------------------------------------------------------------------------------------------------


class Part:
    """A part of a controller; its time is an odd one."""

    GIVEN = ("limit",)

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.seen: dict[Any, Any] = {}


Part.__module__ = "controlplane.test"


def kept(value: Any) -> Any:
    """Return a value as it is after it was kept."""
    part = Part(1)
    part.seen["it"] = value
    return folded.copied(part, Part(2)).seen["it"]


@each(
    "value",
    [
        None,
        True,
        -(1 << 80),
        1.5,
        "a\0b",
        b"\xff",
        datetime(2026, 1, 1, 12, 30, 0, 123456, tzinfo=UTC),
        timedelta(days=-1, microseconds=7),
        [1, [2], ()],
        ({"a": 1, "b": {"c": [None]}}, frozenset({1, "x"})),
        {(1, "a"): {1, 2}, 7: "seven"},
        {"large": 1 << 70},
        deque([1, 2, 3], maxlen=3),
        Counter({("a", "b"): -2}),
        OrderedDict([("z", 1), ("a", 2)]),
        WriteFailure(1, 409, "Conflict", "", datetime(2026, 1, 1, tzinfo=UTC), "Write"),
        WriteFailure,
    ],
)
def test_a_value_is_kept_as_it_is(value: Any) -> None:
    after = kept(value)
    assert after == value
    assert type(after) is type(value)
    if isinstance(value, deque):
        assert after.maxlen == value.maxlen
    if isinstance(value, dict):
        assert list(after) == list(value)


def test_what_is_held_twice_is_held_twice_after_it_was_kept() -> None:
    events = kept_log("workloads-5")
    seen = next(event.event for event in events if type(event.event).__name__ == "WorkloadObserved")
    one, other = kept([seen, {"again": [seen]}])
    assert one is other["again"][0]
    assert one == seen


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), object(), lambda: None, msgspec.UNSET, Part])  # noqa: DTZ001
def test_what_cannot_be_kept_is_said(value: Any) -> None:
    with pytest.raises(FoldedError, match="seen cannot be kept"):
        kept(value)


def test_what_is_folded_afterwards_is_not_in_it() -> None:
    part = Part(1)
    part.seen["set"], part.seen["dict"], part.seen["deque"] = {1}, {"a": {"b": [1]}}, deque([1])
    before = taken(part)
    part.seen["set"].add(2)
    part.seen["dict"]["a"]["b"].append(2)
    part.seen["deque"].append(2)
    part.seen["new"] = None
    assert before == {"seen": {"set": {1}, "dict": {"a": {"b": [1]}}, "deque": deque([1])}}


def test_what_another_part_holds_too_stays_one() -> None:
    part, other = Part(1), Part(2)
    alias = other.seen
    part.seen["it"] = 1
    folded.copied(part, other)
    assert other.seen is alias == {"it": 1}
    assert other.limit == 2


def test_another_shape_is_refused() -> None:
    with pytest.raises(FoldedError, match="seen is missing"):
        check(Part(1), {})
    with pytest.raises(FoldedError, match="more is not held"):
        check(Part(1), {"seen": {}, "more": 1})


@each(
    "record",
    [
        b"\xc1",
        ["p", [], [99]],
        ["p", [["os", "system", []]], [16]],
        ["p", [["controlplane.runtime.writes", "WriteFailure", ["other"]]], [16, 0]],
        ["p", [["controlplane.runtime.writes", "WriteFailure", list(WriteFailure.__struct_fields__)]], [16, 1, 7]],
        ["p", [["controlplane.runtime.writes", "nothing", []]], [16]],
        ["p", [], [10, 5]],
        ["p", []],
    ],
)
def test_what_is_no_record_is_refused(record: Any) -> None:
    """And nothing outside of this package is ever made."""
    with pytest.raises(FoldedError):
        Decoder().read(record if isinstance(record, bytes) else msgspec.msgpack.encode(record))


def test_records_of_a_log_are_small() -> None:
    router = folded.folded(host_of("workloads-5"), kept_log("workloads-5"))
    records = list(Encoder().records(taken(router.registrations[0].controller)))
    assert max(map(len, records)) < 200_000
    give(router.registrations[0].controller, taken(router.registrations[0].controller))
