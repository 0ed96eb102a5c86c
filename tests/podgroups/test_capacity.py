"""The cluster's room, summed up: what counts, what is noticed, and when it is said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    ClusterLost,
    ServiceStarted,
    cluster_stream,
)
from controlplane.controllers.podgroups.capacity import NODES, Capacity, Sums, noticeable
from controlplane.controllers.podgroups.events import ROOM_STREAM, RoomObserved
from controlplane.controllers.podgroups.objects import PODS
from controlplane.controllers.podgroups.phases import ClusterCapacity, GroupClaim, fits
from controlplane.kube.quantities import NANO
from controlplane.log.event import Event, Recorded
from controlplane.runtime.controller import ObjectChange
from tests.support.rows import each

START = datetime(2026, 1, 1, tzinfo=UTC)


def node(name: str = "n1", cpu: Any = "10", *, ready: str = "True", **spec: Any) -> dict[str, Any]:
    status = {"allocatable": {"cpu": cpu, "pods": "110"}, "conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name, "uid": name}, "spec": spec, "status": status}


def pod(name: str, cpu: str = "1", on: str = "n1", phase: str = "Running") -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], "nodeName": on}
    return {"metadata": {"name": name, "uid": name}, "spec": spec, "status": {"phase": phase}}


def cpus(room: ClusterCapacity) -> tuple[float, float]:
    return room.total.get("cpu", 0) / NANO, room.used.get("cpu", 0) / NANO


@each(
    ("nodes", "pods", "expected"),
    [
        ([node()], [], (10, 0)),
        ([node()], [pod("a"), pod("b", "500m")], (10, 1.5)),
        ([node()], [pod("a", on="")], (10, 0)),
        ([node()], [pod("a", phase="Succeeded"), pod("b", phase="Failed")], (10, 0)),
        ([node(), node("n2", unschedulable=True)], [pod("a", on="n2"), pod("b")], (10, 1)),
        ([node(ready="False"), node("n2", ready="Unknown")], [pod("a")], (0, 0)),
        ([node()], [pod("a", on="not-seen-yet")], (10, 0)),
        ([node(cpu="lots")], [pod("a")], (0, 1)),
        ([node()], [pod("a", cpu="much")], (10, 0)),
    ],
)
def test_what_counts(nodes: list[Any], pods: list[Any], expected: tuple[float, float]) -> None:
    sums = Sums()
    for one in pods:  # pods may be seen before their nodes
        sums.pod(one, gone=False)
    for one in nodes:
        sums.node(one, gone=False)
    assert cpus(sums.capacity()) == expected


def test_pods_take_places_too() -> None:
    sums = Sums()
    sums.node(node(), gone=False)
    sums.pod(pod("a"), gone=False)
    assert (sums.capacity().total["pods"], sums.capacity().used["pods"]) == (110 * NANO, NANO)


_STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 4), st.sampled_from(["n1", "n2", ""]), st.booleans()), max_size=30
)


@given(_STEPS)
def test_sums_are_those_of_what_was_seen_last(steps: list[tuple[str, int, str, bool]]) -> None:
    sums, last = Sums(), {}
    sums.node(node("n1"), gone=False)
    sums.node(node("n2"), gone=False)
    for name, cpu, on, gone in steps:
        sums.pod(pod(name, str(cpu), on), gone=gone)
        last[name] = 0 if gone or not on else cpu
    assert cpus(sums.capacity()) == (20, sum(last.values()))


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [(5.0, 5.0, False), (5.0, 5.5, False), (5.0, 6.0, True), (6.0, 5.0, True)],
)
def test_a_hundredth_is_noticed(before: float, now: float, expected: bool) -> None:
    total = {"cpu": 100 * NANO}
    rooms = [ClusterCapacity(total=total, used={"cpu": int(used * NANO)}) for used in (before, now)]
    assert noticeable(*rooms) is expected


def test_another_total_is_noticed() -> None:
    assert noticeable(ClusterCapacity(total={"cpu": 1}), ClusterCapacity(total={"cpu": 2}))


class Beside:
    """The capability and a log of its own."""

    def __init__(self) -> None:
        self.capacity, self.now, self.log = Capacity(), START, 0
        self.versions: dict[str, int] = {}

    def fold(self, stream: str, event: Event) -> None:
        self.log += 1
        version = self.versions[stream] = self.versions.get(stream, 0) + 1
        self.capacity.fold(
            Recorded(
                position=self.log, stream=stream, version=version, event=event, cluster=MANAGEMENT, recorded_at=self.now
            )
        )

    def connect(self) -> None:
        self.fold(cluster_stream(MANAGEMENT), ClusterConnected(kinds=[NODES.name, PODS.name]))

    def see(self, kind: Any, obj: dict[str, Any], *, gone: bool = False) -> None:
        assert self.capacity.observe(ObjectChange(MANAGEMENT, "", kind, obj, "1", gone), self.now) is None

    def turn(self) -> list[ClusterCapacity]:
        """What is recorded now."""
        found = []
        for stream in self.capacity.take_dirty():
            decided = self.capacity.decide(stream, self.now)
            assert decided.version == self.versions.get(ROOM_STREAM, 0)
            self.wake = decided.wake
            for new in decided.events:
                assert isinstance(new.event, RoomObserved)
                found.append(new.event.room)
                self.fold(new.stream, new.event)
        return found

    def wakes(self) -> list[ClusterCapacity]:
        """What is recorded when the timer that was asked for is due."""
        assert self.wake is not None
        self.now = self.wake
        self.capacity._moved = True
        return self.turn()


def test_half_a_list_says_nothing_and_the_whole_is_said_once() -> None:
    it = Beside()
    it.see(NODES, node())
    assert it.turn() == []
    it.see(PODS, pod("a"))
    it.connect()
    [room] = it.turn()
    assert cpus(room) == (10, 1)
    assert it.turn() == []
    it.see(PODS, pod("a"))  # its status moved, what it uses did not
    assert it.turn() == []


def test_small_changes_are_said_together_and_large_ones_soon() -> None:
    it = Beside()
    it.see(NODES, node(cpu="1000"))
    it.connect()
    assert len(it.turn()) == 1
    it.now += timedelta(seconds=5)
    it.see(PODS, pod("a"))
    assert it.turn() == []
    assert it.wake == START + timedelta(seconds=30)
    it.see(PODS, pod("b"))
    assert [cpus(room) for room in it.wakes()] == [(1000, 2)]
    it.now += timedelta(seconds=2)
    it.see(PODS, pod("c", cpu="50"))
    assert [cpus(room) for room in it.turn()] == [(1000, 52)]
    it.see(PODS, pod("c"), gone=True)  # within the same second: at most one event a second
    assert it.turn() == []
    assert [cpus(room) for room in it.wakes()] == [(1000, 2)]


@pytest.mark.parametrize(
    "event", [ClusterLost(reason="Unreachable", message="away"), ServiceStarted(holder="b", epoch=2, version="1")]
)
def test_out_of_sight_nothing_is_said(event: Event) -> None:
    it = Beside()
    it.see(NODES, node())
    it.connect()
    assert it.turn()
    it.fold(cluster_stream(MANAGEMENT), event) if isinstance(event, ClusterLost) else it.fold("service", event)
    it.now += timedelta(minutes=1)
    it.see(NODES, node(), gone=True)
    assert it.turn() == []
    it.connect()
    assert [cpus(room) for room in it.turn()] == [(0, 0)]


def test_the_budget_is_the_total_times_1_2_less_what_is_used() -> None:
    sums = Sums()
    sums.node(node(), gone=False)
    sums.pod(pod("a", "4"), gone=False)

    def asks(cpu: int) -> GroupClaim:
        return GroupClaim(phase="Pending", live=1, min_member=1, min_resources={"cpu": cpu * NANO})

    assert fits(asks(8), sums.capacity(), {})
    assert not fits(asks(9), sums.capacity(), {})
    assert not fits(asks(8), sums.capacity(), {"cpu": NANO})
