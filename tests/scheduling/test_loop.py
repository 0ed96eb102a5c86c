"""The loop step by step: what is decided when, what is held over conflicts and crashes; and that no node is ever given
away twice.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from controlplane.controllers.scheduling import events
from controlplane.controllers.scheduling.framework.plugin import (
    CycleState,
    PermitAnswer,
    PermitPlugin,
    PluginWrites,
    PreBindPlugin,
)
from controlplane.controllers.scheduling.framework.status import Code, Status
from controlplane.controllers.scheduling.snapshot.objects import Pod
from tests.scheduling.any_order import AnyOrder
from tests.scheduling.bench import PROFILE, Bench, ready
from tests.support.deep import examples


def test_reservation_and_binding_are_one_append_and_the_write_comes_after() -> None:
    bench = ready("n")
    bench.pod("p")
    assert bench.turn()
    assert [type(new.event) for new in bench.outbox[0].append.events] == [events.NodeReserved, events.BindingDecided]
    assert bench.writes() == []
    bench.commit(bench.outbox[0])
    (write,) = bench.writes()
    assert bench.on("p") == ""
    bench.carry_out(write)
    assert bench.on("p") == "n"
    assert bench.writes() == []


def test_the_next_cycle_counts_what_the_log_has_not_taken_yet() -> None:
    bench = ready("n", cpu="1")
    for name in ("a", "b"):
        bench.pod(name)
    assert bench.turn()
    assert bench.turn()
    kinds = [type(proposal.append.events[0].event) for proposal in bench.outbox]
    assert kinds == [events.NodeReserved, events.SchedulingFailed]


def test_a_proposal_that_was_overtaken_gives_its_node_back() -> None:
    bench = ready("n", cpu="1")
    bench.pod("p")
    bench.turn()
    changed = bench.objects["pods", "p"]
    bench._store("pods", {**changed, "metadata": {**changed["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert not bench.commit(bench.outbox[0])
    assert bench.view.claims == {}
    assert bench.writes() == []


def test_what_was_written_though_the_answer_was_lost_stays_taken() -> None:
    bench = ready("n", cpu="1")
    bench.pod("p")
    bench.turn()
    proposal = bench.outbox.pop()
    bench.append(proposal.append.events, proposal.append.expected)
    bench.loop.turned_down(proposal, bench.now)  # the second try is refused by the version
    bench.pod("q")
    bench.turn()
    assert bench.view.claims == {proposal.identity: "n"}
    assert (
        isinstance(bench.loop.outbox[0].append.events[0].event, events.SchedulingFailed) if bench.loop.outbox else True
    )
    bench.settle(3)
    assert bench.on("p") == "n"
    assert bench.overcommitted() == []


def test_a_crash_between_reserving_and_binding_keeps_the_node() -> None:
    bench = ready("n", cpu="1")
    bench.pod("p")
    bench.turn()
    bench.commit(bench.outbox[0])
    bench.start()
    bench.pod("q")
    assert bench.turn()
    assert not bench.turn()
    assert [type(p.append.events[0].event) for p in bench.outbox] == [events.SchedulingFailed]
    bench.settle(3)
    assert bench.on("p") == "n"
    assert len(bench.recorded(events.NodeReserved)) == 1


def test_a_conflict_keeps_the_node_until_the_watch_has_spoken() -> None:
    bench = ready("n", cpu="1")
    uid = bench.pod("p")
    bench.turn()
    bench.commit(bench.outbox[0])
    (write,) = bench.writes()
    bench.carry_out(write, 409)
    bench.pass_time(30)
    assert bench.view.claims == {uid: "n"}
    bench.pass_time(40)  # silence for a minute: it was not bound
    assert bench.view.claims == {}
    assert bench.recorded(events.ReservationDropped)


def test_a_server_error_is_tried_again_with_the_same_node() -> None:
    bench = ready("n")
    bench.pod("p")
    bench.turn()
    bench.commit(bench.outbox[0])
    for _ in range(2):
        bench.carry_out(bench.writes()[0], 500)
        bench.pass_time(5)
    bench.carry_out(bench.writes()[0])
    assert bench.on("p") == "n"
    assert len(bench.recorded(events.NodeReserved)) == 1


def test_a_refusal_for_good_gives_the_node_back_and_is_told() -> None:
    bench = ready("n")
    bench.pod("p")
    bench.turn()
    bench.commit(bench.outbox[0])
    bench.carry_out(bench.writes()[0], 403)
    bench.decide()
    assert bench.view.claims == {}
    bench.settle(1)
    assert bench.on("p") == "n" or bench.condition("p")["reason"] == "SchedulerError"


def test_the_node_of_a_reservation_that_waits_goes() -> None:
    bench = ready("a")
    lose_node_of(bench, "p", "a")
    assert bench.recorded(events.ReservationDropped)[0].reason == "NodeGone"
    assert bench.view.claims == {}


class Waits(PermitPlugin):
    name = "Waits"

    def permit(self, state: CycleState, pod: Pod, node: str) -> PermitAnswer:
        return PermitAnswer(Status(Code.WAIT), 30.0)


def lose_node_of(bench: Bench, pod: str, node: str) -> None:
    """Have a pod wait with a reservation on a node, and that node go."""
    waiting(bench)
    bench.pod(pod)
    bench.turn()
    bench.commit(bench.outbox[0])
    bench.delete("nodes", node)
    bench.commit(bench.outbox[0])


def waiting(bench: Bench) -> None:
    bench.loop.frameworks[PROFILE].points["permit"] = [Waits()]


def test_permit_waits_in_the_log_and_goes_on_when_it_is_given() -> None:
    bench = ready("n")
    waiting(bench)
    uid = bench.pod("p")
    bench.turn()
    bench.commit(bench.outbox[0])
    assert bench.writes() == []
    held = bench.recorded(events.NodeReserved)[0]
    assert held.waits == {"Waits": bench.now + timedelta(seconds=30)}
    bench.loop.allow(uid, "Waits", bench.now)
    bench.take()
    bench.commit(bench.outbox[0])
    assert bench.recorded(events.PermitGiven)
    bench.commit(bench.outbox[0])
    bench.carry_out(bench.writes()[0])
    assert bench.on("p") == "n"


def test_permit_that_is_not_given_in_time_refuses_the_pod() -> None:
    bench = ready("n")
    waiting(bench)
    bench.pod("p")
    bench.turn()
    bench.commit(bench.outbox[0])
    bench.pass_time(31)
    dropped = bench.recorded(events.ReservationDropped)[0]
    assert (dropped.reason, dropped.plugin) == ("PermitTimeout", "Waits")
    assert bench.view.claims == {}
    entry = bench.loop.queue.entry(next(iter(bench.view.pods)))
    assert entry is not None
    assert entry.refused_by == frozenset({"Waits"})


def test_permit_refused_from_outside() -> None:
    bench = ready("n")
    waiting(bench)
    uid = bench.pod("p")
    bench.turn()
    bench.commit(bench.outbox[0])
    bench.loop.reject(uid, "Waits", "the gang is not complete")
    bench.take()
    bench.commit(bench.outbox[0])
    bench.decide()
    assert bench.recorded(events.SchedulingFailed)[0].message == "the gang is not complete"


def test_a_wait_outlives_the_process_with_its_own_deadline() -> None:
    bench = ready("n")
    waiting(bench)
    uid = bench.pod("p")
    bench.turn()
    bench.commit(bench.outbox[0])
    bench.pass_time(20)
    bench.start()
    waiting(bench)
    assert bench.view.claims == {uid: "n"}
    bench.pass_time(11)
    assert bench.recorded(events.ReservationDropped)[0].reason == "PermitTimeout"


class Unreserves(PermitPlugin):
    name = "Unreserves"

    def permit(self, state: CycleState, pod: Pod, node: str) -> PermitAnswer:
        raise RuntimeError("broken plugin")


def test_a_plugin_that_fails_fails_one_pod() -> None:
    bench = ready("n")
    bench.loop.frameworks[PROFILE].points["permit"] = [Unreserves()]
    bench.pod("p")
    bench.turn()
    bench.commit(bench.outbox[0])
    failed = bench.recorded(events.SchedulingFailed)[0]
    assert (failed.reason, failed.message) == ("SchedulerError", "a plugin failed: RuntimeError: broken plugin")
    assert bench.view.claims == {}


def test_a_pod_that_is_another_schedulers_now_is_not_tried() -> None:
    bench = ready("n")
    bench.pod("p")
    obj = bench.objects["pods", "p"]
    bench._store("pods", {**obj, "spec": {**obj["spec"], "schedulerName": "another"}})
    bench.pod("q")
    bench.settle(1)
    assert (bench.on("p"), bench.on("q")) == ("", "n")


class Annotates(PreBindPlugin):
    name = "Annotates"

    def pre_bind(self, state: CycleState, pod: Pod, node: str) -> PluginWrites:
        from controlplane.kube.kinds import NODES, ObjectRef, Request

        body = {"metadata": {"annotations": {"example.com/for": pod.name}}}
        return PluginWrites(requests=(Request("patch", ObjectRef(NODES, "", node), body),))


def test_what_comes_before_the_binding_is_recorded_and_seen_first() -> None:
    bench = ready("n")
    bench.loop.frameworks[PROFILE].points["preBind"] = [Annotates()]
    bench.pod("p")
    bench.turn()
    bench.commit(bench.outbox[0])
    assert bench.recorded(events.PreBindDecided)
    (write,) = bench.writes()
    assert write.action == "PreBindDecided"
    request = bench.placements.request(write, {}, bench.now)
    assert request is not None
    assert (request.verb, request.ref.name) == ("patch", "n")
    bench.decide()
    assert not bench.recorded(events.BindingDecided)
    node: dict[str, Any] = bench.objects["nodes", "n"]
    bench._store("nodes", {**node, "metadata": {**node["metadata"], "annotations": {"example.com/for": "p"}}})
    bench.decide()
    (write,) = bench.writes()
    assert write.action == "BindingDecided"


def test_preemption_marks_then_deletes_and_the_pod_follows() -> None:
    bench = ready("n", cpu="1")
    bench.pod("low")
    bench.settle(2)
    bench.pod("high", priority=10)
    bench.settle(6)
    assert bench.on("high") == "n"
    assert ("pods", "low") not in bench.objects
    assert len(bench.recorded(events.VictimChosen)) == 1


def test_a_reservation_of_lower_priority_is_given_back_not_evicted() -> None:
    bench = ready("n", cpu="1")
    waiting(bench)
    bench.pod("low")
    bench.turn()
    bench.commit(bench.outbox[0])
    bench.pod("high", priority=10)
    bench.turn()
    while bench.outbox:
        bench.commit(bench.outbox[0])
    assert bench.recorded(events.ReservationDropped)[0].reason == "Preempted"
    assert not bench.recorded(events.VictimChosen)
    assert ("pods", "low") in bench.objects


class NothingTwice(AnyOrder):
    """Any order of commits, lost answers, refusals, crashes, nodes and pods that come and go: no node is overcommitted,
    no pod bound twice, and once everything answers again, whoever fits is bound."""

    @initialize()
    def begin(self) -> None:
        self.bench = ready("n0", "n1")

    @rule(number=st.integers(0, 5), cpu=st.sampled_from("12"), priority=st.sampled_from([0, 0, 5]))
    def pod_comes(self, number: int, cpu: str, priority: int) -> None:
        if ("pods", f"p{number}") not in self.bench.objects:
            self.bench.pod(f"p{number}", cpu, priority)

    @rule(how=st.sampled_from(["apart", "together", "alone", "later"]))
    def the_log_takes_what_is_seen(self, how: str) -> None:
        while self.bench.under_way:
            self.bench.arrive(decision=False)
        self.bench.how = how

    @precondition(lambda self: self.bench.under_way)
    @rule(decision=st.booleans())
    def arrive(self, decision: bool) -> None:
        self.bench.arrive(decision=decision)

    @rule(number=st.integers(0, 5))
    def pod_goes(self, number: int) -> None:
        self.bench.delete("pods", f"p{number}")

    @rule(number=st.integers(0, 2))
    def node_comes(self, number: int) -> None:
        if ("nodes", f"n{number}") not in self.bench.objects:
            self.bench.node(f"n{number}")

    @precondition(lambda self: self.bench.writes())
    @rule(data=st.data(), answer=st.sampled_from([201, 0, 403, 409, 500]))
    def write(self, data: st.DataObject, answer: int) -> None:
        self.bench.carry_out(data.draw(st.sampled_from(self.bench.writes())), answer)

    @rule()
    def deletions_finish(self) -> None:
        self.bench.finish_deletions()

    @rule(seconds=st.sampled_from([0.5, 5.0, 90.0]))
    def pass_time(self, seconds: float) -> None:
        self.bench.pass_time(seconds)

    @invariant()
    def no_node_is_given_away_twice(self) -> None:
        if not hasattr(self, "bench"):
            return
        assert self.bench.overcommitted() == []
        assert all(len(nodes) == 1 for nodes in self.bench.bound.values())

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        bench = self.bench
        bench.node("roomy", "100")
        bench.settle(40)
        assert [name for kind, name in bench.objects if kind == "pods" and not bench.on(name)] == []
        assert bench.overcommitted() == []
        assert bench.view.claims == {}
        assert len(bench.loop.queue) == 0
        assert bench.loop._holds == bench.loop._pending == {}


TestNothingTwice = pytest.mark.generated(NothingTwice.TestCase)
TestNothingTwice.settings = settings(max_examples=examples(15, 60), stateful_step_count=40, deadline=None)
