"""Which nodes a refusal names: some of each reason, never many, and none where no node was looked at."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from controlplane.controllers.scheduling import events
from controlplane.controllers.scheduling.cycle import CycleResult
from controlplane.controllers.scheduling.framework.plugin import CycleState
from controlplane.controllers.scheduling.framework.status import SUCCESS, NodeStatuses, Status, failed, unschedulable
from controlplane.controllers.scheduling.outcome import refusing_nodes
from controlplane.controllers.scheduling.refusals import named, refusal
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.log.codec import Codec
from tests.scheduler.objects import a_node
from tests.scheduling.bench import Bench, ready
from tests.support.rows import each

CPU, MEMORY, TAINT = "Insufficient cpu", "Insufficient memory", "node(s) had untolerated taint {a: b}"
BOTH = unschedulable(CPU, MEMORY)
NO = unschedulable("0/3 nodes are available: ...")
TWENTY = [f"n{number:02}" for number in range(20)]


def found(which: list[int], *statuses: Status, status: Status = NO, node: str = "") -> CycleResult:
    numbers = NodeStatuses(np.array(which, dtype=np.int32), (SUCCESS, *statuses))
    return CycleResult(status, numbers, np.empty(0, dtype=np.int64), CycleState(), node=node)


def cluster(count: int) -> Snapshot:
    return Snapshot([a_node(f"n{number:02}") for number in range(count)], [])


@each(
    ("cycle", "nodes"),
    [
        (found([1, 1, 1], unschedulable(CPU)), {CPU: ["n00", "n01", "n02"]}),
        (found([1, 2, 1], unschedulable(CPU), unschedulable(TAINT)), {CPU: ["n00", "n02"], TAINT: ["n01"]}),
        (found([1, 2], unschedulable(CPU), BOTH), {CPU: ["n00", "n01"], MEMORY: ["n01"]}),  # one reason, by two answers
        (found([2, 1], unschedulable(CPU), unschedulable(CPU)), {CPU: ["n00", "n01"]}),
        (found([], unschedulable(CPU)), {}),
        (found([1] * 50, unschedulable(CPU)), {CPU: TWENTY}),
        (
            found([1, 2] * 25, unschedulable(CPU), BOTH),
            {CPU: TWENTY, MEMORY: [f"n{2 * at + 1:02}" for at in range(20)]},
        ),
        (found([1, 1], unschedulable(CPU), status=NO.by("NodeAffinity")), {}),  # PreFilter refused all of them at once
        (found([1, 0], unschedulable(CPU), status=NO.by("Gang"), node="n01"), {}),  # Permit refused the one there was
        (found([1, 1], failed("boom"), status=failed("boom")), {}),
    ],
)
def test_the_nodes_behind_each_reason(cycle: CycleResult, nodes: dict[str, list[str]]) -> None:
    assert refusing_nodes(cycle, cluster(50)) == nodes


def test_what_no_two_nodes_say_alike_is_bounded_too() -> None:
    """Each node has a taint of its own: the reason of the most nodes is there, and 19 others."""
    taints = [unschedulable(f"{number:02}") for number in range(48)]
    nodes = refusing_nodes(found([*range(1, 49), 48, 48], *taints), cluster(50))
    assert nodes == {f"{number:02}": [f"n{number:02}"] for number in range(19)} | {"47": ["n47", "n48", "n49"]}


@pytest.mark.parametrize(
    ("names", "count", "most", "said"),
    [
        (["n1"], 1, 20, "n1"),
        (["n1", "n2"], 2, 20, "n1 and n2"),
        (["n1", "n2"], 14, 20, "n1, n2 and 12 more"),
        (["n1", "n2", "n3"], 3, 2, "n1, n2 and 1 more"),
        (["n1", "n2"], 0, 20, "n1 and n2"),  # the message does not count them
    ],
)
def test_how_many_more_there_are(names: list[str], count: int, most: int, said: str) -> None:
    assert named(names, count, most) == said


def failures(bench: Bench) -> list[events.SchedulingFailed]:
    return bench.recorded(events.SchedulingFailed)


def test_what_is_recorded_names_the_nodes_and_says_so_once() -> None:
    bench = ready("a", "b", cpu="1")
    bench.pod("p", cpu="2")
    bench.settle(2)
    (event,) = failures(bench)
    assert event.nodes == {CPU: ["a", "b"]}
    said = refusal(event.message)
    assert said is not None
    assert [(one.reason, one.nodes) for one in said.reasons] == [(CPU, 2)]
    assert bench.placements.states["pod/default/p"].told == msgspec.structs.replace(event, nodes={})


def test_other_nodes_with_the_same_words_are_not_recorded_again() -> None:
    bench = ready("a", cpu="1")
    bench.pod("p", cpu="2")
    bench.settle(2)
    bench.delete("nodes", "a")
    bench.node("b", cpu="1")
    bench.settle(40)
    assert [event.nodes for event in failures(bench) if "0/1" in event.message] == [{CPU: ["a"]}]


def test_who_is_to_get_a_node_by_preemption_is_told_of_the_others_too() -> None:
    bench = ready("a", cpu="2")
    bench.pod("low", cpu="2")
    bench.settle(2)
    bench.pod("high", cpu="2", priority=10)
    bench.turn()
    event: Any = bench.outbox[0].append.events[0].event
    assert (event.nominated, event.nodes) == ("a", {CPU: ["a"]})


def test_a_refusal_before_any_node_was_looked_at_names_none() -> None:
    bench = ready("a")
    conflict = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("a", "b")]
    terms = {"nodeSelectorTerms": [{"matchFields": conflict}]}
    bench.pod("p", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    bench.settle(2)
    assert [event.nodes for event in failures(bench)] == [{}]


def test_an_event_of_before_is_read_and_one_without_nodes_is_written_as_before() -> None:
    before = b'{"message":"0/1 nodes are available: 1 Insufficient cpu.","reason":"Unschedulable"}'
    codec = Codec([events.SchedulingFailed])
    event = codec.decode("SchedulingFailed", 1, before)
    assert isinstance(event, events.SchedulingFailed)
    assert (event.nodes, codec.decode(*codec.encode(event))) == ({}, event)
    assert b'nodes":' not in codec.encode(event)[2]
