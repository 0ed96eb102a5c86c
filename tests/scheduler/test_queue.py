"""The queue: who is next, who waits for what, and that nobody is ever lost."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from controlplane.controllers.scheduling.framework.hints import ClusterEvent, Hints
from controlplane.controllers.scheduling.plugins.queueing import PrioritySort, SchedulingGates
from controlplane.controllers.scheduling.queue.queue import Queue, QueuePlace, QueueTiming
from controlplane.controllers.scheduling.snapshot.objects import Node, Pod, read_node, read_pod
from controlplane.kube.kinds import Json
from tests.support.deep import examples

FIT = frozenset({"NodeResourcesFit"})


def pod(name: str, priority: int = 0, cpu: str = "1", gates: tuple[str, ...] = (), **spec: Any) -> Pod:
    body: Json = {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}", "labels": spec.pop("labels", {})},
        "spec": {
            "priority": priority,
            "schedulingGates": [{"name": gate} for gate in gates],
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
    }
    return read_pod(body)


def node(name: str = "n", cpu: str = "4", **spec: Any) -> Node:
    labels = spec.pop("labels", {})
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return read_node(
        {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": allocatable}}
    )


def queue(timing: QueueTiming | None = None) -> Queue:
    return Queue(PrioritySort().sort_key, SchedulingGates().pre_enqueue, Hints(), timing)


def place(found: Queue, name: str) -> QueuePlace:
    entry = found.entry(f"uid-{name}")
    assert entry is not None
    return entry.place


def popped(found: Queue, now: float) -> list[str]:
    names = []
    while (entry := found.pop(now)) is not None:
        names.append(entry.pod.name)
    return names


def test_higher_priority_first_then_who_came_first() -> None:
    found = queue()
    for at, (name, priority) in enumerate([("a", 0), ("b", 10), ("c", 0), ("d", 10)]):
        found.add(pod(name, priority), float(at))
    assert popped(found, 5.0) == ["b", "d", "a", "c"]


def test_a_pod_tried_again_keeps_its_place_in_time() -> None:
    found = queue()
    found.add(pod("early"), 0.0)
    assert found.pop(0.0)
    found.failed("uid-early", 0.0)
    found.add(pod("late"), 0.5)
    assert popped(found, 1.0) == ["early", "late"]


def test_back_off_doubles_to_its_longest() -> None:
    found = queue()
    found.add(pod("a"), 0.0)
    now, pauses = 0.0, []
    for _ in range(6):
        assert found.pop(now) is not None
        found.failed("uid-a", now)
        due = found.next_due()
        assert due is not None
        pauses.append(due - now)
        assert found.pop(due - 0.01) is None
        now = due
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_refused_pod_waits_for_what_helps_it() -> None:
    found = queue()
    found.add(pod("a", cpu="2"), 0.0)
    assert found.pop(0.0)
    found.refused("uid-a", FIT, 0.0)
    assert found.move(ClusterEvent("Node", "Add", None, node(cpu="1")), 5.0) == 0
    assert found.move(ClusterEvent("Pod", "AssignedAdd", None, pod("x")), 5.0) == 0
    assert place(found, "a") is QueuePlace.UNSCHEDULABLE
    assert found.move(ClusterEvent("Node", "Add", None, node(cpu="2")), 5.0) == 1
    assert popped(found, 5.0) == ["a"]


def test_what_helps_during_the_back_off_counts_after_it() -> None:
    found = queue()
    found.add(pod("a"), 0.0)
    assert found.pop(0.0)
    found.refused("uid-a", FIT, 0.0)
    found.move(ClusterEvent("Node", "Add", None, node()), 0.2)
    assert place(found, "a") is QueuePlace.BACKOFF
    assert popped(found, 0.9) == []
    assert popped(found, 1.0) == ["a"]


def test_a_move_during_the_cycle_is_not_lost() -> None:
    found = queue()
    found.add(pod("a"), 0.0)
    assert found.pop(0.0)
    found.move(ClusterEvent("Node", "Add", None, node()), 0.001)
    found.refused("uid-a", FIT, 0.002)
    assert place(found, "a") is QueuePlace.BACKOFF


def test_a_move_before_the_cycle_is_over_and_done() -> None:
    found = queue()
    for name in ("first", "second"):
        found.add(pod(name), 0.0)
    assert found.pop(0.0)
    found.move(ClusterEvent("Node", "Add", None, node()), 0.0)
    assert found.pop(0.0)
    found.refused("uid-second", FIT, 0.1)
    found.refused("uid-first", FIT, 0.1)
    assert place(found, "second") is QueuePlace.UNSCHEDULABLE
    assert place(found, "first") is QueuePlace.BACKOFF


def test_more_events_than_are_remembered_count_as_help() -> None:
    found = queue()
    found.add(pod("a"), 0.0)
    assert found.pop(0.0)
    for _ in range(10_002):
        found.move(ClusterEvent("Pod", "AssignedAdd", None, pod("x")), 0.0)
    found.refused("uid-a", FIT, 0.0)
    assert place(found, "a") is QueuePlace.BACKOFF


def test_the_unschedulable_are_flushed_after_five_minutes() -> None:
    found = queue()
    found.add(pod("a"), 0.0)
    assert found.pop(0.0)
    found.refused("uid-a", FIT, 0.0)
    assert popped(found, 299.0) == []
    assert popped(found, 300.0) == ["a"]


@pytest.mark.parametrize("how", ["refused", "failed", "again"])
def test_a_pod_that_got_a_gate_while_it_was_in_flight_waits_outside(how: str) -> None:
    found = queue()
    found.add(pod("a"), 0.0)
    assert found.pop(0.0)
    found.add(pod("a", gates=("later",)), 0.0)
    {
        "refused": lambda: found.refused("uid-a", FIT, 0.0),
        "failed": lambda: found.failed("uid-a", 0.0),
        "again": lambda: found.again("uid-a", 0.0),
    }[how]()
    assert place(found, "a") is QueuePlace.GATED
    found.add(pod("a"), 1.0)
    assert popped(found, 1.0) == ["a"]


def test_gates_keep_a_pod_outside_until_they_are_gone() -> None:
    found = queue()
    found.add(pod("a", gates=("example.com/quota",)), 0.0)
    entry = found.entry("uid-a")
    assert entry is not None
    assert entry.gate == "waiting for scheduling gates: [example.com/quota]"
    assert popped(found, 1000.0) == []
    found.add(pod("a"), 1001.0)
    assert popped(found, 1001.0) == ["a"]


def test_a_change_of_the_pod_itself_helps_if_it_is_about_what_refused_it() -> None:
    found = queue()
    found.add(pod("a", cpu="2"), 0.0)
    assert found.pop(0.0)
    found.refused("uid-a", FIT, 0.0)
    found.add(pod("a", cpu="2", labels={"x": "y"}), 20.0)
    assert place(found, "a") is QueuePlace.UNSCHEDULABLE
    found.add(pod("a", cpu="1", labels={"x": "y"}), 20.0)
    assert place(found, "a") is QueuePlace.ACTIVE


def test_a_pod_that_changed_during_its_cycle_is_tried_as_it_is_now() -> None:
    found = queue()
    found.add(pod("a", cpu="2"), 0.0)
    assert found.pop(0.0)
    found.add(pod("a", cpu="1"), 0.0)
    found.refused("uid-a", FIT, 0.0)
    assert place(found, "a") is QueuePlace.BACKOFF


def test_a_removed_pod_does_not_come_back() -> None:
    found = queue()
    found.add(pod("a"), 0.0)
    assert found.pop(0.0)
    found.remove("uid-a")
    found.refused("uid-a", FIT, 0.0)
    found.failed("uid-a", 0.0)
    assert len(found) == 0
    assert popped(found, 1000.0) == []


def test_an_attempt_that_was_overtaken_does_not_count() -> None:
    found = queue()
    found.add(pod("a"), 0.0)
    entry = found.pop(0.0)
    assert entry is not None
    found.again("uid-a", 0.0)
    assert found.pop(0.0) is entry
    assert entry.attempts == 1


def test_a_change_that_helps_and_brings_a_gate_puts_a_pod_outside() -> None:
    found = queue()
    found.add(pod("a", cpu="2"), 0.0)
    assert found.pop(0.0)
    found.refused("uid-a", FIT, 0.0)
    found.add(pod("a", cpu="1", gates=("later",)), 0.0)
    assert place(found, "a") is QueuePlace.GATED


class NobodyIsLost(RuleBasedStateMachine):
    """Whatever happens in whatever order, each pod is in exactly one place, and everyone who can be tried is tried in
    the end.
    """

    @initialize()
    def begin(self) -> None:
        self.queue, self.now = queue(), 0.0
        self.known: dict[str, Pod] = {}
        self.flying: set[str] = set()

    @rule(number=st.integers(0, 5), priority=st.integers(0, 2), gated=st.booleans(), cpu=st.sampled_from("12"))
    def add(self, number: int, priority: int, gated: bool, cpu: str) -> None:
        added = pod(f"p{number}", priority, cpu, ("gate",) if gated else ())
        self.known[added.identity] = added
        self.queue.add(added, self.now)

    @rule(number=st.integers(0, 5))
    def remove(self, number: int) -> None:
        self.known.pop(f"uid-p{number}", None)
        self.flying.discard(f"uid-p{number}")
        self.queue.remove(f"uid-p{number}")

    @rule()
    def pop(self) -> None:
        best = [e for e in self.queue if e.place is QueuePlace.ACTIVE]
        entry = self.queue.pop(self.now)
        if entry is not None:
            assert entry.place is QueuePlace.IN_FLIGHT
            assert all((-entry.pod.priority, entry.enqueued) <= (-e.pod.priority, e.enqueued) for e in best)
            self.flying.add(entry.pod.identity)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), how=st.sampled_from(["refused", "failed", "done", "again"]))
    def end(self, data: st.DataObject, how: str) -> None:
        identity = data.draw(st.sampled_from(sorted(self.flying)))
        self.flying.discard(identity)
        match how:
            case "refused":
                self.queue.refused(identity, FIT, self.now)
            case "failed":
                self.queue.failed(identity, self.now)
            case "again":
                self.queue.again(identity, self.now)
            case _:
                del self.known[identity]
                self.queue.remove(identity)

    @rule(cpu=st.sampled_from("12"))
    def node_comes(self, cpu: str) -> None:
        self.queue.move(ClusterEvent("Node", "Add", None, node(cpu=cpu)), self.now)

    @rule(seconds=st.sampled_from([0.1, 1.0, 15.0, 400.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.queue.advance(self.now)

    @invariant()
    def everyone_is_in_one_place(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert {entry.pod.identity for entry in self.queue} == set(self.known)
        assert {e.pod.identity for e in self.queue if e.place is QueuePlace.IN_FLIGHT} == self.flying
        counts = Counter(entry.place for entry in self.queue)
        assert {p: n for p, n in self.queue.counts.items() if n} == dict(counts)

    def teardown(self) -> None:
        if not hasattr(self, "queue"):
            return
        waiting = {e.pod.identity for e in self.queue if e.place not in (QueuePlace.GATED, QueuePlace.IN_FLIGHT)}
        gated = {e.pod.identity for e in self.queue if e.place is QueuePlace.GATED}
        assert {f"uid-{name}" for name in popped(self.queue, self.now + 10_000)} >= waiting
        assert {e.pod.identity for e in self.queue if e.place is QueuePlace.GATED} >= {
            i for i in gated if _gated(self, i)
        }


def _gated(machine: NobodyIsLost, identity: str) -> bool:
    return bool(machine.known[identity].spec.get("schedulingGates"))


TestNobodyIsLost = pytest.mark.generated(NobodyIsLost.TestCase)
TestNobodyIsLost.settings = settings(max_examples=examples(37, 150), stateful_step_count=40, deadline=None)
