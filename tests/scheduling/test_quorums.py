"""Gangs in the loop, step by step and in any order: a gang is let go whole, turned back whole, and evicted whole."""

from __future__ import annotations

import functools
import itertools
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from controlplane.controllers.scheduling.events import (
    GangJudged,
    NodeReserved,
    PermitGiven,
    ReservationDropped,
    SchedulingFailed,
    VictimChosen,
)
from tests.scheduling import bench as benches
from tests.scheduling.any_order import AnyOrder
from tests.scheduling.bench import Bench
from tests.scheduling.test_gangs import config
from tests.support.deep import examples

CONFIG = config(Path(tempfile.mkdtemp()), scheduleTimeoutSeconds=60)
ready = functools.partial(benches.ready, config=CONFIG)


def gang(bench: Bench, name: str, size: int, least: int | None = None, cpu: str = "1", priority: int = 0) -> list[str]:
    bench.group(name, least or size)
    names = [f"{name}{number}" for number in range(size)]
    for one in names:
        come(bench, one, name, cpu=cpu, priority=priority)
    return names


def come(bench: Bench, name: str, group: str, **spec: Any) -> None:
    """A member comes, and what is said of it is in the log before anything else happens."""
    bench.pod(name, group=group, **spec)
    while bench.outbox:
        bench.commit(bench.outbox[0])


def run(bench: Bench) -> None:
    """Cycles and commits until nothing more happens, without time or writes."""
    for _ in range(50):
        while bench.turn():
            pass
        if not bench.outbox:
            return
        while bench.outbox:
            bench.commit(bench.outbox[0])


def two_wait_for_the_third(cpu: str) -> Bench:
    """Two of three hold their places; the third is another scheduler's."""
    bench = ready("n", cpu=cpu)
    bench.group("g", 3)
    for number in range(2):
        come(bench, f"g{number}", "g")
    come(bench, "g2", "g", schedulerName="other")
    run(bench)
    assert len(bench.view.claims) == 2
    return bench


def about_to_be_released() -> Bench:
    """All of a gang hold their places, and what lets them go is next to be appended."""
    bench = ready("n", cpu="3")
    gang(bench, "g", 3)
    while bench.turn():
        pass
    while not any(isinstance(new.event, PermitGiven) for new in bench.outbox[0].append.events):
        bench.commit(bench.outbox[0])
    return bench


def test_the_release_is_one_append_over_all_streams() -> None:
    bench = about_to_be_released()
    release = bench.outbox[0].append
    assert [type(new.event) for new in release.events] == [PermitGiven] * 3
    assert len(release.expected or {}) == 3
    assert bench.writes() == []


def test_nobody_is_bound_below_the_quorum_and_extra_members_go_singly() -> None:
    bench = ready("n", cpu="2")
    names = gang(bench, "g", 3, least=2)
    bench.settle(6)
    assert sorted(bool(bench.on(name)) for name in names) == [False, True, True]
    bench.node("m", "1")
    bench.settle(6)
    assert all(bench.on(name) for name in names)


def test_one_failure_gives_all_places_back_and_the_gang_rests() -> None:
    bench = ready("n", cpu="2")
    gang(bench, "g", 3)
    bench.pod("single", "2")
    run(bench)
    assert len(bench.recorded(ReservationDropped)) == 2
    assert {drop.plugin for drop in bench.recorded(ReservationDropped)} == {"Gang"}
    bench.settle(6)
    assert bench.on("single") == "n"
    assert [judged.condition for judged in bench.recorded(GangJudged)] == ["Unschedulable"]


def test_a_gang_that_does_not_fit_is_not_tried_again_and_again() -> None:
    bench = ready("n", cpu="2")
    gang(bench, "g", 3)
    bench.settle(20)  # three and a half minutes
    assert len(bench.recorded(NodeReserved)) <= 4
    bench.node("m", "1")
    bench.settle(8)
    assert all(bench.on(f"g{number}") for number in range(3))


def test_reservations_outlive_a_leader_and_time_ends_them() -> None:
    bench = two_wait_for_the_third(cpu="3")
    bench.start()
    assert len(bench.view.claims) == 2
    bench.pass_time(61)
    run(bench)
    assert bench.view.claims == {}
    assert not any(bench.on(f"g{number}") for number in range(3))


def test_a_new_leader_completes_the_gang() -> None:
    bench = ready("n", cpu="3")
    gang(bench, "g", 3)
    for _ in range(2):
        bench.turn()
        bench.commit(bench.outbox[0])
    bench.start()
    bench.settle(3)
    assert all(bench.on(f"g{number}") for number in range(3))
    assert len(bench.recorded(NodeReserved)) == 3


def test_a_member_that_goes_takes_the_places_of_the_others() -> None:
    bench = two_wait_for_the_third(cpu="2")
    bench.delete("pods", "g2")
    run(bench)
    assert bench.view.claims == {}
    assert bench.condition("g0") == {}
    bench.settle(2)
    assert bench.condition("g0")["reason"] == "SchedulingGated"


def test_two_gangs_do_not_interleave() -> None:
    bench = ready("n", cpu="4")
    for name in ("b", "a"):
        bench.group(name, 3)
    for number in range(3):
        for name in ("b", "a"):
            come(bench, f"{name}{number}", name)
    bench.settle(3)
    assert [bool(bench.on(f"a{n}")) for n in range(3)] == [True] * 3
    assert [bool(bench.on(f"b{n}")) for n in range(3)] == [False] * 3


def test_a_group_that_cannot_be_read_holds_its_pods_and_says_why() -> None:
    bench = ready("n")
    bench.group("g", 0)
    come(bench, "g0", "g")
    bench.settle(2)
    assert "minMember: 0 is not above 0" in bench.condition("g0")["message"]
    bench.group("g", 1)
    bench.settle(5)
    assert bench.on("g0") == "n"


def test_a_running_gang_is_evicted_whole_from_all_nodes() -> None:
    bench = ready("n", "m", cpu="1")
    gang(bench, "g", 2)
    bench.settle(3)
    bench.pod("high", priority=10)
    bench.settle(6)
    assert bench.on("high")
    assert len(bench.recorded(VictimChosen)) == 2
    assert {name for kind, name in bench.objects if kind == "pods"} == {"high"}


def test_what_is_above_min_member_may_go_alone() -> None:
    bench = ready("n", "m", cpu="1")
    names = gang(bench, "g", 2, least=1)
    bench.settle(3)
    bench.pod("high", priority=10)
    bench.settle(6)
    assert bench.on("high")
    assert sum(("pods", name) in bench.objects for name in names) == 1


def test_a_gang_with_a_member_of_the_same_priority_stays() -> None:
    bench = ready("n", "m", cpu="1")
    bench.group("g", 2)
    come(bench, "g0", "g", priority=0)
    come(bench, "g1", "g", priority=10)
    bench.settle(3)
    bench.pod("high", priority=10)
    bench.settle(4)
    assert not bench.on("high")
    assert not bench.recorded(VictimChosen)


def test_pods_without_a_group_are_scheduled_as_ever() -> None:
    bench = ready("n")
    bench.pod("p")
    assert bench.turn()
    assert not any(isinstance(new.event, SchedulingFailed) for new in bench.outbox[0].append.events)
    bench.settle(1)
    assert bench.on("p") == "n"


class AllOrNothing(AnyOrder):
    """Commits in any order, lost answers, crashes, members that come late, nodes that come: no gang is ever bound in
    part once things have settled, and with enough room everybody is bound."""

    LEAST = {"a": 3, "b": 2}

    @initialize()
    def begin(self) -> None:
        self.bench = ready("n0", "n1")
        self.nodes = 2
        for name, least in self.LEAST.items():
            self.bench.group(name, least)

    @rule(name=st.sampled_from("ab"), number=st.integers(0, 3), cpu=st.sampled_from("12"))
    def member_comes(self, name: str, number: int, cpu: str) -> None:
        if ("pods", f"{name}{number}") not in self.bench.objects:
            self.bench.pod(f"{name}{number}", cpu, group=name)

    @rule(number=st.integers(0, 1), priority=st.sampled_from([0, 0, 5]))
    def single_comes(self, number: int, priority: int) -> None:
        if ("pods", f"p{number}") not in self.bench.objects:
            self.bench.pod(f"p{number}", "1", priority)

    @precondition(lambda self: self.nodes < 4)
    @rule(cpu=st.sampled_from("12"))
    def node_comes(self, cpu: str) -> None:
        self.bench.node(f"n{self.nodes}", cpu)
        self.nodes += 1

    @precondition(lambda self: self.bench.writes())
    @rule(data=st.data(), answer=st.sampled_from([201, 0]))
    def write(self, data: st.DataObject, answer: int) -> None:
        self.bench.carry_out(data.draw(st.sampled_from(self.bench.writes())), answer)

    @rule(seconds=st.sampled_from([0.5, 5.0, 61.0]))
    def pass_time(self, seconds: float) -> None:
        self.bench.pass_time(seconds)

    @invariant()
    def no_node_is_given_away_twice(self) -> None:
        if hasattr(self, "bench"):
            assert self.bench.overcommitted() == []

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        bench = self.bench
        bench.settle(12)
        for name, least in self.LEAST.items():
            ever = [uid for uid in bench.bound if uid.startswith(f"uid-{name}")]
            assert not 0 < len(ever) < least, f"{name}: {ever}"
            there = [key for key in bench.objects if key[0] == "pods" and key[1].startswith(name)]
            running = [key for key in there if bench.on(key[1])]
            assert not 0 < len(running) < least, f"{name}: {running}"
        bench.node("roomy", "100")
        bench.settle(40)
        left = [name for kind, name in bench.objects if kind == "pods" and not bench.on(name)]
        for name in left:
            there = [key for key in bench.objects if key[0] == "pods" and key[1].startswith(name[0])]
            assert name[0] in self.LEAST
            assert len(there) < self.LEAST[name[0]]
        assert bench.view.claims == {}


class Numbered(dict[str, str]):
    """The nodes that are taken for pods, each with a number of its own: what is given back and taken again has another
    one.
    """

    def __init__(self, claims: dict[str, str]) -> None:
        super().__init__(claims)
        self._taken = itertools.count()
        self._numbers = {identity: next(self._taken) for identity in claims}

    @property
    def numbers(self) -> dict[str, int]:
        return {identity: self._numbers[identity] for identity in self}

    def __setitem__(self, identity: str, node: str) -> None:
        self._numbers[identity] = next(self._taken)
        super().__setitem__(identity, node)


class BoundInPart(AllOrNothing):
    """The same with bindings that are refused, so that a gang may be bound in part: what is left holds no room that it
    cannot use, and once there is enough everybody is bound."""

    @precondition(lambda self: self.bench.writes())
    @rule(data=st.data(), answer=st.sampled_from([403, 409, 500]))
    def refuse(self, data: st.DataObject, answer: int) -> None:
        self.bench.carry_out(data.draw(st.sampled_from(self.bench.writes())), answer)

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        bench = self.bench
        bench.settle(16)
        # A look may fall into an attempt. What such an attempt cannot use it gives back one round later, be it for the
        # next attempt.
        claims = bench.view.claims = Numbered(bench.view.claims)
        held = dict(claims.numbers)
        bench.settle(1)
        outlived = {identity for identity, number in held.items() if claims.numbers.get(identity) == number}
        assert outlived == set(), f"held through a whole round: {outlived}"
        bench.node("roomy", "100")
        bench.settle(60)
        assert bench.view.claims == {}
        for name, least in self.LEAST.items():
            there = [key for key in bench.objects if key[0] == "pods" and key[1].startswith(name)]
            bound = [key for key in there if bench.on(key[1])]
            assert len(bound) == len(there) or len(there) < least, f"{name}: {bound} of {there}"


TestBoundInPart = pytest.mark.generated(BoundInPart.TestCase)
TestBoundInPart.settings = settings(max_examples=examples(5, 40), stateful_step_count=40, deadline=None)

TestAllOrNothing = pytest.mark.generated(AllOrNothing.TestCase)
TestAllOrNothing.settings = settings(max_examples=examples(8, 60), stateful_step_count=40, deadline=None)
