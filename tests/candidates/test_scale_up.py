"""Which target's autoscaler may add a node for a pod: one at a time, once no target has room, and another after a while."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.candidates.source.events import ScaleUpAsked, ScaleUpWithdrawn
from controlplane.controllers.candidates.target import calls
from controlplane.kube.kinds import Json, Request
from tests.candidates.stage import Stage

PATIENCE = timedelta(minutes=15)


def spec(stage: Stage, name: str) -> Json:
    (candidate,) = stage.stores[name]["candidates"].values()
    found: Json = candidate["spec"]
    return found


def seen(stage: Stage) -> list[str]:
    """Return the targets whose autoscaler may see the pod."""
    return [name for name in stage.names if stage.stores[name]["candidates"] and spec(stage, name).get("scaleUp", True)]


def full(*names: str, **policy: Any) -> Stage:
    stage = Stage(*names, **policy).ask()
    for name in names:
        stage.full(name)
    return stage.settle()


def test_no_autoscaler_sees_a_pod_before_every_target_has_answered() -> None:
    stage = Stage("a", "b").ask()
    assert seen(stage) == []
    stage.full("a")
    assert seen(stage.settle()) == []
    stage.full("b")
    assert seen(stage.settle()) == ["a"]


def test_another_is_asked_after_a_while_and_never_two_at_a_time() -> None:
    stage = full("a", "b", "c")
    order = ["a"]
    assert stage.wake == stage.now + PATIENCE
    for _ in range(4):
        stage.tick(PATIENCE.total_seconds() - 1).look()
        assert seen(stage) == order[-1:], "not before its time"
        stage.tick(1)
        for _ in range(10):
            stage.look()
            assert len(seen(stage)) <= 1
            stage.send()
            assert len(seen(stage)) <= 1
        order += seen(stage)
    assert order == ["a", "b", "c", "a", "b"]


def test_the_preferred_tier_is_asked_first() -> None:
    stage = Stage("a", "b")
    stage.tiers = {"a": 1}
    stage.ask()
    stage.full("a")
    stage.full("b")
    assert seen(stage.settle()) == ["b"]


def test_preemption_comes_first() -> None:
    stage = Stage("a", "b").ask()
    stage.full("a")
    stage.full("b", preemptable=True)
    assert seen(stage.settle()) == []
    assert stage.state.permit is not None
    assert stage.state.permit.kind == "Preempt"


def test_the_only_one_that_can_help_stays_asked() -> None:
    stage = Stage("a", "b")
    stage.uninvited.add("b")
    stage.ask()
    stage.full("a")
    assert seen(stage.settle()) == ["a"]
    stage.tick(10 * PATIENCE.total_seconds()).settle()
    assert seen(stage) == ["a"]
    assert not [event for event in stage.decided if isinstance(event, ScaleUpWithdrawn)]


def test_a_pod_with_one_target_is_seen_by_its_autoscaler_as_ever() -> None:
    stage = full("a")
    assert "scaleUp" not in spec(stage, "a")
    assert not [event for event in stage.decided if isinstance(event, ScaleUpAsked)]


def test_it_can_be_switched_off() -> None:
    stage = full("a", "b", scale_up_timeout=timedelta())
    assert [spec(stage, name).get("scaleUp") for name in ("a", "b")] == [None, None]


def test_a_target_that_went_away_delays_nobody_and_is_withdrawn_when_it_is_back() -> None:
    stage = full("a", "b")
    stage.away.add("a")
    stage.look()
    stage.send()
    assert spec(stage, "b")["scaleUp"] is True
    assert spec(stage, "a")["scaleUp"] is True, "nobody could tell it"
    stage.away.clear()
    stage.settle()
    assert seen(stage) == ["b"]


def test_a_write_that_was_lost_is_made_again_and_does_not_begin_the_time_anew() -> None:
    stage = Stage("a", "b").ask()
    stage.full("a")
    stage.full("b")
    stage.look()
    began = stage.now
    (asked,) = [request for key, request in stage.requests().items() if key.startswith("a/")]
    touched = Request("patch", asked.ref, {"metadata": {"labels": {"x": "y"}}})
    stage.stores["a"] = stage.api.execute(stage.stores["a"], touched)
    assert [key for key in stage.send() if key.startswith("a/")], "the version has moved on"
    stage.tick(60).settle()
    assert seen(stage) == ["a"]
    assert stage.wake == began + PATIENCE


def test_the_node_that_comes_is_permitted() -> None:
    stage = full("a", "b")
    stage.reserve("a")
    stage.look()
    assert stage.state.permit is not None
    assert stage.state.permit.cluster == "a"


def test_a_new_attempt_asks_anew() -> None:
    stage = full("a", "b")
    stage.reserve("b")
    stage.look()
    stage.send()
    stage.target_turn("b")
    assert stage.bind("b")
    stage.target_turn("b")
    stage.look()
    stage.send()
    stage.lose_pod("b")
    stage.settle()
    for name in ("a", "b"):
        stage.target_turn(name)
    assert stage.state.epoch == 2
    assert seen(stage) == []


@given(st.data())
def test_never_more_than_one_of_those_in_view_whatever_happens(data: st.DataObject) -> None:
    """Whoever is away keeps what it was told, and is told when it is back; no step shows a second one in view."""
    stage = Stage("a", "b", "c").ask()
    for _ in range(data.draw(st.integers(1, 14))):
        name = data.draw(st.sampled_from(stage.names))
        match data.draw(st.sampled_from(["full", "away", "back", "time", "unsent"])):
            case "full" if name not in stage.away:
                side = stage.sides[name].get(stage.only(name))
                if side is not None and calls.waits_for_node(side) and side.told is None:
                    stage.full(name)
            case "away":
                stage.away.add(name)
            case "back":
                stage.away.discard(name)
            case "time":
                stage.tick(data.draw(st.sampled_from([1.0, 60.0, PATIENCE.total_seconds()])))
            case "unsent":
                stage.look()
                continue
            case _:
                continue
        stage.look()
        before = {name for name in seen(stage) if name not in stage.away}
        stage.send()
        after = {name for name in seen(stage) if name not in stage.away}
        assert len(after) <= max(1, len(before))
        assert not (len(before) >= 1 and after - before), "nobody is asked beside one that is"
    stage.away.clear()
    stage.settle()
    assert len(seen(stage)) <= 1
