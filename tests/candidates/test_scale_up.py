"""One autoscaler at a time: while no target has a node, at most one target's Pod looks Unschedulable to its cluster."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.controllers.candidates.objects import SCALE_UP
from controlplane.controllers.candidates.source.events import AutoscalerChosen, ScaleUpSet
from controlplane.controllers.candidates.source.policy import PlacementPolicy
from controlplane.controllers.scheduling.decide import decide_pod
from controlplane.controllers.scheduling.events import PodStatusDecided, SchedulingFailed
from controlplane.controllers.scheduling.observe import pending_pod
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.state import PodState
from controlplane.kube.kinds import Json
from tests.candidates.model.world import START
from tests.candidates.stage import Stage
from tests.candidates.told import Told

WAIT = 600


def stage_of(*targets: str, **policy: Any) -> Stage:
    stage = Stage(*targets, scale_up_wait=timedelta(seconds=WAIT), **policy)
    stage.home["pods"]["web"]["metadata"]["labels"] = {}
    return stage.ask()


def spec(stage: Stage, name: str) -> Json:
    found: Json = stage.stores[name]["candidates"][stage.only(name)]["spec"]
    return found


def buys(stage: Stage) -> list[str]:
    """Return the targets whose autoscaler would add nodes, by the Pods that they see."""
    found = []
    for name in stage.names:
        for pod in stage.stores[name]["pods"].values():
            if pod["metadata"]["annotations"].get(SCALE_UP) != "false":
                found.append(name)
    return found


def chosen(stage: Stage) -> list[str]:
    return [one.cluster for one in stage.decided if isinstance(one, AutoscalerChosen)]


def all_full(stage: Stage, **more: Any) -> Stage:
    for name in stage.names:
        stage.full(name, **more)
    return stage.settle()


def test_nobody_may_before_all_have_answered() -> None:
    stage = stage_of("a", "b")
    assert [spec(stage, name)["scaleUp"] for name in stage.names] == [False, False]
    assert buys(stage) == []
    stage.full("a")
    stage.settle()
    assert buys(stage) == []
    stage.full("b")
    stage.settle()
    assert buys(stage) == chosen(stage) == ["a"]


def test_the_next_one_may_when_its_time_is_over_and_the_first_comes_again_for_twice_as_long() -> None:
    stage = all_full(stage_of("a", "b", "c"))
    assert buys(stage) == ["a"]
    assert stage.wake is not None
    for name, seconds in (
        ("b", WAIT),
        ("c", WAIT),
        ("a", WAIT),
        ("b", 2 * WAIT),
        ("c", 2 * WAIT),
        ("a", 2 * WAIT),
        ("b", 4 * WAIT),
    ):
        stage.tick(seconds - 1).settle()
        before = buys(stage)
        assert before != [name]
        stage.tick(1).settle()
        assert buys(stage) == [name]
    assert chosen(stage) == ["a", "b", "c", "a", "b", "c", "a", "b"]


def test_at_no_moment_two_of_those_that_can_be_seen_may() -> None:
    stage = all_full(stage_of("a", "b"))
    stage.tick(WAIT)
    stage.look()
    writes = [one for one in stage.decided if isinstance(one, ScaleUpSet)]
    assert [(one.cluster, one.allowed) for one in writes] == [("a", True), ("a", False)]
    assert spec(stage, "b")["scaleUp"] is False
    stage.settle()
    assert (spec(stage, "a")["scaleUp"], spec(stage, "b")["scaleUp"]) == (False, True)


def test_preferred_tiers_come_first_and_who_failed_later() -> None:
    stage = stage_of("a", "b", "c")
    stage.tiers = {"a": 1}
    all_full(stage)
    assert chosen(stage) == ["b"]


def test_the_only_target_may_for_as_long_as_it_takes() -> None:
    stage = all_full(stage_of("a"))
    for _ in range(3):
        stage.tick(WAIT).settle()
    assert buys(stage) == chosen(stage) == ["a"]


def test_one_that_cannot_be_seen_any_more_is_followed_at_once() -> None:
    stage = all_full(stage_of("a", "b"))
    stage.away.add("a")
    stage.look()
    stage.send()
    stage.target_turn("b")
    assert chosen(stage) == ["a", "b"]
    assert spec(stage, "b")["scaleUp"] is True
    stage.away.discard("a")
    stage.settle()
    assert buys(stage) == ["b"]


def test_preemption_comes_before_new_nodes() -> None:
    stage = all_full(stage_of("a", "b"), preemptable=True)
    assert stage.state.permit is not None
    assert stage.state.permit.kind == "Preempt"
    assert chosen(stage) == buys(stage) == []


def test_a_node_that_it_brings_is_taken_as_any_other() -> None:
    stage = all_full(stage_of("a", "b"))
    stage.reserve("a")
    stage.settle()
    assert stage.state.permit is not None
    assert stage.state.permit.cluster == "a"
    assert stage.bind("a")
    stage.settle()
    assert stage.state.delegate == stage.only("a")
    assert stage.there("b") == []


def test_where_spread_forbids_a_target_its_autoscaler_is_not_asked() -> None:
    stage = stage_of("a", "b", placement=PlacementPolicy(max_skew=1))
    stage.counts = {"a": 1, "b": 0}
    all_full(stage)
    assert chosen(stage) == buys(stage) == ["b"]


def test_without_the_setting_every_target_decides_for_itself() -> None:
    stage = Stage("a", "b").ask()
    assert "scaleUp" not in spec(stage, "a")
    all_full(stage)
    assert chosen(stage) == []
    assert buys(stage) == ["a", "b"]


def test_a_target_that_does_not_know_the_field_is_left_alone() -> None:
    """Its API server drops what its CRD does not have."""
    stage = stage_of("a", "b")
    for name in stage.names:
        del spec(stage, name)["scaleUp"]
    all_full(stage)
    assert [one for one in stage.decided if isinstance(one, ScaleUpSet)] == []


def test_members_of_a_gang_ask_the_same_target() -> None:
    told = Told("a", "b", scale_up_wait=timedelta(seconds=WAIT)).gang("m-0", "m-1")
    from controlplane.controllers.candidates.source.observations import CandidateUnschedulable

    for cluster in ("a", "b"):
        for pod in ("m-0", "m-1"):
            told.says(CandidateUnschedulable, cluster, pod, message="no room", scale_up=False)
    told.settle()
    asked = [row.event for row in told.rows if isinstance(row.event, ScaleUpSet)]
    assert len(asked) == 2
    assert len({one.cluster for one in asked}) == 1
    assert all(one.allowed for one in asked)


# What the target's own cluster sees.


def pod(annotations: dict[str, str], candidate: bool = True) -> Json:
    labels = {"candidates.controlplane.dev/candidate": "web"} if candidate else {}
    metadata = {"namespace": "team", "name": "web", "uid": "u", "labels": labels, "annotations": annotations}
    return {"metadata": metadata, "spec": {"schedulerName": "controlplane", "containers": []}, "status": {}}


@pytest.mark.parametrize(
    ("annotations", "candidate", "told", "said"),
    [
        ({}, True, SchedulingReason.UNSCHEDULABLE, "Unschedulable"),
        ({SCALE_UP: "true"}, True, SchedulingReason.UNSCHEDULABLE, "Unschedulable"),
        ({SCALE_UP: "false"}, True, SchedulingReason.UNSCHEDULABLE, "NotPlaced"),
        ({SCALE_UP: "false"}, True, SchedulingReason.SCHEDULER_ERROR, "SchedulerError"),
        ({SCALE_UP: "false"}, False, SchedulingReason.UNSCHEDULABLE, "Unschedulable"),
    ],
)
def test_the_condition_of_the_pod(
    annotations: dict[str, str], candidate: bool, told: SchedulingReason, said: str
) -> None:
    seen = pending_pod(pod(annotations, candidate), "1", {"controlplane"})
    failed = SchedulingFailed(reason=told, message="0/1 nodes")
    state = PodState(namespace="team", name="web", pod=seen, told=failed)
    decided = [one for one in decide_pod(state, START).decisions if isinstance(one, PodStatusDecided)]
    assert [(one.said, one.message) for one in decided] == [(said, "0/1 nodes")]
