"""Permits: all have to allow, and the first refusal or deadline refuses."""

from __future__ import annotations

import pytest

from controlplane.controllers.scheduling.framework.status import SUCCESS, Code, Status
from controlplane.controllers.scheduling.waiting import WaitingPods, refused
from tests.scheduler.objects import a_pod

POD = a_pod("new")


def test_a_pod_goes_when_all_have_allowed() -> None:
    waiting = WaitingPods()
    one = waiting.add(POD, "n", {"a": 10, "b": 20}, now=100)
    one.allow("a")
    one.allow("nobody")
    assert waiting.settle(now=105) == []
    assert waiting.next_deadline() == 120
    one.allow("b")
    assert waiting.settle(now=500) == [one]  # what was allowed in time is not late
    assert one.settled == SUCCESS
    assert len(waiting) == 0
    assert waiting.next_deadline() is None


def test_nothing_to_wait_for() -> None:
    waiting = WaitingPods()
    waiting.add(POD, "n", {}, now=0)
    assert [one.settled for one in waiting.settle(now=0)] == [SUCCESS]


@pytest.mark.parametrize(("now", "plugin"), [(109.9, None), (110, "a"), (500, "a")])
def test_the_first_deadline_refuses(now: float, plugin: str | None) -> None:
    waiting = WaitingPods()
    one = waiting.add(POD, "n", {"b": 20, "a": 10}, now=100)
    assert bool(waiting.settle(now)) is (plugin is not None)
    if plugin is not None:
        told = f"rejected due to timeout after waiting at plugin {plugin}"
        assert one.settled == Status(Code.UNSCHEDULABLE, (told,), plugin)
        assert refused(one.settled)


def test_the_first_word_stands() -> None:
    waiting = WaitingPods()
    one = waiting.add(POD, "n", {"a": 10}, now=0)
    assert waiting.get(POD.identity) is one
    one.reject("a", "the group is too small")
    one.allow("a")
    one.preempt("x", "too late")
    (settled,) = waiting.settle(now=0)
    assert settled.settled == Status(Code.UNSCHEDULABLE, ("the group is too small",), "a")


def test_a_pod_whose_place_was_taken_is_tried_again() -> None:
    one = WaitingPods().add(POD, "n", {"a": 10}, now=0)
    one.preempt("DefaultPreemption", "preempted")
    assert one.settled == Status(Code.ERROR, ("preempted",), "DefaultPreemption")
    assert not refused(one.settled)
