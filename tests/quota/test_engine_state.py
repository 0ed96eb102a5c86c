"""The state of the quota engine: who asks does not change it, and what is admitted, preempted or stopped is seen in
it."""

from __future__ import annotations

import pytest

from controlplane.controllers.quota.engine import parse_queues, parse_workloads
from controlplane.controllers.quota.engine.cycle import decide
from controlplane.controllers.quota.engine.decisions import Admit, Inadmissible, Preempt
from controlplane.kube.kinds import Json
from tests.quota.engine_objects import cluster_queue, fleet, group, workload


def test_who_asks_more_often_does_not_see_another_state() -> None:
    """Two fold the same changes; one is asked after each of them, as a leader is, and one only at the end."""
    leader, follower = fleet(), fleet()
    for state in (leader, follower):
        for name in ("first", "second"):
            state.put_workload(parse_workloads.workload(workload(name)), 0)
    for _ in ("first", "second"):
        (admitted,) = decide(leader, 1)
        for state in (leader, follower):
            state.apply([admitted], 1)
    for state in (leader, follower):
        state.put_workload(parse_workloads.workload(workload("big", cpu="3")), 1)
    for name in ("first", "second"):
        for state in (leader, follower):
            state.drop_workload(f"ns/{name}", 2)
        leader.heads()
    (decided,) = decide(leader, 3)
    assert isinstance(decided, Inadmissible)
    for state in (leader, follower):
        state.put_flavor(
            parse_queues.resource_flavor({"metadata": {"name": "f"}, "spec": {"nodeLabels": {"a": "b"}}}), 4
        )
        state.apply([decided], 5)  # made before the flavor changed: it is tried again
    assert list(leader.queues.pending["q"].active) == list(follower.queues.pending["q"].active) == ["ns/big"]


def test_a_workload_is_admitted_another_preempts_it_and_gets_its_place() -> None:
    state = fleet(preemption={"withinClusterQueue": "LowerPriority"})
    state.put_workload(parse_workloads.workload(workload("low", cpu="2")), 0)
    admitted = decide(state, 1)
    assert [(type(one), one.workload) for one in admitted] == [(Admit, "ns/low")]
    state.apply(admitted, 1)
    assert decide(state, 2) == []

    state.put_workload(parse_workloads.workload(workload("high", priority=5, cpu="2")), 2)
    (preempting,) = decide(state, 3)
    assert isinstance(preempting, Preempt)
    assert preempting.message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 2 more needed. "
        "Pending the preemption of 1 workload(s)"
    )
    assert [(one.workload, one.reason, one.ongoing) for one in preempting.victims] == [
        ("ns/low", "InClusterQueue", False)
    ]
    state.apply([preempting], 3)
    (waiting,) = decide(state, 4)
    assert isinstance(waiting, Preempt)
    assert waiting.victims[0].ongoing
    state.apply([waiting], 4)

    state.put_workload(parse_workloads.workload(workload("low", cpu="2")), 5)
    found = decide(state, 6)
    assert [(type(one), one.workload) for one in found] == [(Admit, "ns/high")]
    state.apply(found, 6)
    (left,) = decide(state, 7)
    assert type(left) is Inadmissible
    assert left.reason == "WaitingForQuota"
    state.apply([left], 7)
    assert decide(state, 8) == []
    state.drop_workload("ns/high", 9)
    assert [type(one) for one in decide(state, 9)] == [Admit]


def test_a_stopped_queue_admits_nothing_until_it_goes_on() -> None:
    state = fleet(stopPolicy="Hold")
    state.put_workload(parse_workloads.workload(workload()), 0)
    assert decide(state, 1) == []
    queue = state.snapshot.queues["q"]
    assert state.snapshot.inactive_reasons(queue) == ["is stopped"]
    spec = cluster_queue(resourceGroups=group(), namespaceSelector={}, stopPolicy="None")
    state.put_cluster_queue(parse_queues.cluster_queue(spec), 2)
    assert [type(one) for one in decide(state, 2)] == [Admit]


def test_a_decision_about_what_has_changed_meanwhile_has_no_effect() -> None:
    state = fleet()
    state.put_workload(parse_workloads.workload(workload()), 0)
    decided = decide(state, 1)
    state.drop_workload("ns/w", 2)
    state.apply(decided, 3)
    assert state.snapshot.workloads == {}


@pytest.mark.parametrize(
    ("request_", "asks"),
    [
        ({"podIndexLabel": "batch.kubernetes.io/job-completion-index"}, False),
        ({"podIndexLabel": "x", "subGroupIndexLabel": "y", "subGroupCount": 2}, False),
        ({"required": "rack"}, True),
        ({"unconstrained": False}, True),
        ({"podSetSliceSize": 2}, True),
    ],
)
def test_a_topology_is_asked_for_only_where_placement_is(request_: Json, asks: bool) -> None:
    """Kueue puts the label of a pod's index into each pod set of a Job."""
    made = {"name": "main", "count": 1, "template": {"spec": {}}, "topologyRequest": request_}
    assert parse_workloads.pod_set(made, "x").asks_for_topology is asks
