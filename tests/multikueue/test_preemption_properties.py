"""Whatever happens in whatever order, one cluster at a time is let preempt: the machine of the fleet, with workers
whose Kueue keeps to preemption gates.

What counts is what stands on the workers, also on those that cannot be reached and have not shown it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from controlplane.kube.kinds import WORKLOADS, Json
from tests.multikueue.fleet_world import Server, true
from tests.multikueue.scene import stamp
from tests.multikueue.test_fleet_properties import WORKERS, Clusters
from tests.support.deep import examples

GATE, BLOCKED = "kueue.x-k8s.io/multikueue", "BlockedOnPreemptionGates"
PAUSE = timedelta(minutes=5)


def gate(server: Server) -> Json | None:
    """The gate as it stands on a cluster."""
    status = (server.objects.get(WORKLOADS) or {}).get("status") or {}
    return next((one for one in status.get("preemptionGates") or [] if one["name"] == GATE), None)


def opened(server: Server) -> datetime | None:
    found = gate(server)
    return datetime.fromisoformat(found["lastTransitionTime"]) if found and found["position"] == "Open" else None


class Gated(Clusters):
    """See the module."""

    POLICY: ClassVar[dict[str, Any]] = {"orchestrated_preemption": True}

    @initialize()
    def begin(self) -> None:
        """Every worker has a copy."""
        super().begin()
        self.open_since: dict[str, datetime] = {}
        self.openings = 0
        self.reserve()
        for _ in range(2):
            for name in self.servers:
                self.catch_up(name)
                self.work(name)
        for name in self.servers:
            self.catch_up(name)

    def position(self, server: Server, position: str) -> None:
        said = {"name": GATE, "position": position, "lastTransitionTime": stamp(server.now)}
        server.change(WORKLOADS, {"status": {"preemptionGates": [said]}})

    @rule(name=st.sampled_from(WORKERS))
    def needs_to_preempt(self, name: str) -> None:
        """A worker's core shows the gate, and that only a preemption would help."""
        server = self.workers[name]
        clone = server.objects.get(WORKLOADS)
        if clone is None or true(clone, "Admitted") or not clone["spec"].get("preemptionGates"):
            return
        if gate(server) is None:
            self.position(server, "Closed")
        if opened(server) is None:
            server.condition(BLOCKED)

    @rule(name=st.sampled_from(WORKERS))
    def preempts(self, name: str) -> None:
        if opened(self.workers[name]) is not None:
            self.admit(name)

    @rule(name=st.sampled_from(WORKERS))
    def evict_and_close(self, name: str) -> None:
        server = self.workers[name]
        if true(server.objects.get(WORKLOADS), "Admitted") and gate(server) is not None:
            self.evict_on_worker(name)
            self.position(server, "Closed")
            server.condition(BLOCKED, value=False)

    @rule(
        order=st.permutations(WORKERS), seen=st.sets(st.sampled_from(WORKERS)), seconds=st.sampled_from([0, 1, 70, 400])
    )
    def all_need_to_preempt(self, order: list[str], seen: set[str], seconds: int) -> None:
        """In this order; some of them are seen, and what follows is done there after a while."""
        for name in order:
            self.needs_to_preempt(name)
            if name in seen:
                self.catch_up(name)
        self.tick(seconds)
        for name in order:
            self.work(name)
            self.one_at_a_time()

    @invariant()
    def one_at_a_time(self) -> None:
        if not hasattr(self, "open_since"):
            return
        now = {name: at for name, server in self.workers.items() if (at := opened(server)) is not None}
        for name, at in now.items():
            if self.open_since.get(name) != at:
                self.openings += 1
                others = {other: then for other, then in now.items() if other != name and at - then < PAUSE}
                assert others == {}, f"{name} may preempt since {at}, and others since {others}"
        self.open_since = now


def asked() -> Gated:
    """Every worker has a copy, and that on a is to preempt: that the one on b asked before is not shown yet."""
    machine = Gated()
    machine.begin()
    machine.needs_to_preempt("b")
    machine.tick(1)
    machine.needs_to_preempt("a")
    machine.catch_up("a")
    return machine


def let(machine: Gated, *names: str) -> int:
    """What was decided is done there, and seen; how many gates were opened so far."""
    for name in names:
        machine.work(name)
        machine.one_at_a_time()
        machine.catch_up(name)
    return machine.openings


def test_an_opening_that_is_carried_out_late_and_shown_later_counts_from_then() -> None:
    machine = asked()
    machine.tick(400)
    machine.work("a")
    machine.one_at_a_time()
    machine.catch_up("b")
    assert let(machine, "b", "a") == 1, "a preempts since a moment ago"
    machine.tick(400)
    assert let(machine, "b") == 2


def test_a_cluster_that_answers_no_more_is_not_waited_for_without_end() -> None:
    machine = asked()
    machine.catch_up("b")
    machine.cut("a")
    machine.tick(400)
    assert let(machine, "a", "b") == 0, "nobody has noticed: it may be carried out at any moment"
    machine.notice("a")
    assert let(machine, "b") == 0, "nor is it known that it was not, until then"
    machine.tick(400)
    assert let(machine, "b") == 1
    machine.come_back("a")
    assert let(machine, "a", "b") == 1
    machine.tick(400)
    assert let(machine, "a", "b", "a") == 2


def test_a_no_to_a_second_try_says_nothing_of_the_first() -> None:
    machine = Gated()
    machine.begin()
    machine.all_need_to_preempt(order=["b", "a", "c"], seen={"a", "b"}, seconds=0)
    assert machine.openings == 1
    machine.refuse_a_write("b")
    machine.all_need_to_preempt(order=["b", "a", "c"], seen=set(), seconds=0)
    assert machine.openings == 1


def test_an_opening_that_was_carried_out_before_a_restart_counts_from_then() -> None:
    machine = asked()
    machine.tick(400)
    machine.work("a")
    machine.one_at_a_time()
    machine.cut("a")
    machine.restart()
    machine.catch_up("b")
    assert let(machine, "b") == 1, "a preempts since a moment ago, and nobody has seen it"
    machine.tick(400)
    assert let(machine, "b") == 2


TestGated = pytest.mark.generated(Gated.TestCase)
TestGated.settings = settings(
    max_examples=examples(10, 200),
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
