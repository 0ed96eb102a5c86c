"""Room that is kept for a nominated pod: counted once, and others' as soon as the pod does not need it any more."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.scheduling import events
from controlplane.controllers.scheduling.framework.plugin import CycleState
from controlplane.controllers.scheduling.plugins.node_resources import NodeResourcesFit
from tests.scheduling.bench import Bench, ready


def nominated(room: str = "3", high: str = "3", low: str = "3") -> Bench:
    """A node on which a pod is being evicted for another one, which waits for it."""
    bench = ready("n", cpu=room)
    bench.pod("low", low)
    bench.settle(2)
    bench.pod("high", high, priority=10)
    for _ in range(4):
        bench.once()
    assert bench.objects["pods", "low"]["metadata"]["deletionTimestamp"]
    assert bench.objects["pods", "high"]["status"]["nominatedNodeName"] == "n"
    return bench


def refused(bench: Bench, name: str, cpu: str) -> None:
    """A pod comes that finds no room beside the nominated one."""
    bench.pod(name, cpu)
    before = len(bench.log)
    while bench.turn():
        pass
    while bench.outbox:
        bench.commit(bench.outbox[0])
    assert [recorded.stream for recorded in bench.log[before:]] == [f"pod/default/{name}"]
    assert not bench.turn()


def test_a_nominated_pod_that_has_its_node_counts_once() -> None:
    bench = nominated(high="2")
    bench.finish_deletions()
    bench.pass_time(30)
    bench.pod("beside", "1")
    assert bench.turn()
    assert bench.turn()
    kinds = [type(proposal.append.events[0].event) for proposal in bench.outbox]
    assert kinds == [events.NodeReserved, events.NodeReserved]


def test_the_room_of_a_nominated_pod_that_is_gone_is_others() -> None:
    bench = nominated()
    bench.finish_deletions()
    refused(bench, "next", "3")
    bench.delete("pods", "high")
    bench.settle(3)
    assert bench.on("next") == "n"


def test_the_room_of_a_nominated_pod_that_went_elsewhere_is_others() -> None:
    bench = nominated(low="2")
    refused(bench, "small", "1")
    bench.node("other", "3")
    bench.pass_time(30)
    while bench.turn():
        pass
    reserved = [event for proposal in bench.outbox for event in proposal.append.events]
    nodes = {one.stream: one.event.node for one in reserved if isinstance(one.event, events.NodeReserved)}
    assert nodes == {"pod/default/high": "other", "pod/default/small": "n"}


def test_a_cycle_that_ends_in_an_error_keeps_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """As kube-scheduler, which clears the nomination: the pod does not show it any more, so it must not count."""
    bench = nominated()
    bench.finish_deletions()
    refused(bench, "next", "3")
    filter_all = NodeResourcesFit.filter_all

    def failing(self: NodeResourcesFit, state: CycleState, pod: Any, *others: Any) -> Any:
        if pod.name == "high":
            raise RuntimeError("broken")
        return filter_all(self, state, pod, *others)

    monkeypatch.setattr(NodeResourcesFit, "filter_all", failing)
    bench.settle(3)
    assert bench.condition("high")["reason"] == "SchedulerError"
    assert bench.objects["pods", "high"]["status"]["nominatedNodeName"] is None
    assert bench.on("next") == "n"


def test_a_nomination_by_somebody_else_counts_and_stays() -> None:
    bench = ready("n", cpu="3")
    bench.pod("big", "4")
    bench.settle(2)
    shown = bench.objects["pods", "big"]
    bench._store(
        "pods", {**shown, "metadata": dict(shown["metadata"]), "status": shown["status"] | {"nominatedNodeName": "n"}}
    )
    bench.decide()
    assert bench.writes() == []
    refused(bench, "next", "1")
    told = bench.recorded(events.SchedulingFailed)[-1]
    assert "Insufficient cpu" in told.message
