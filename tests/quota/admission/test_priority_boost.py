"""The annotation that raises or lowers the priority of a Workload (`quota.priorityBoost`)."""

from __future__ import annotations

import pytest

from controlplane.kube import kinds
from tests.quota.admission.scene import NS, Scene

BOOST = "kueue.x-k8s.io/priority-boost"


def full(*, boosts: bool = True) -> Scene:
    """A queue that is full, in which two wait."""
    scene = Scene(priority_boost=boosts)
    scene.queue("q", "3", preemption={"withinClusterQueue": "LowerPriority"})
    for name, priority in (("runs", 10), ("waits", 10), ("low", 0)):
        scene.workload(name, "q", "2", priority=priority)
        scene.settle()
    assert scene.is_true("runs", "Admitted")
    return scene


def boost(scene: Scene, name: str, value: str) -> None:
    scene.put(kinds.WORKLOADS, name, NS, metadata={"annotations": {BOOST: value}})
    scene.settle()


def test_one_that_is_boosted_preempts_those_that_were_before_it() -> None:
    scene = full()
    boost(scene, "low", "100")
    assert scene.is_true("runs", "Preempted")
    said = next(one["note"] for one in scene.told if one["reason"] == "Preempted")
    assert "preemptor effective priority: 100 (base: 0, boost: 100)" in said
    assert "preemptee effective priority: 10 (base: 10, boost: 0)" in said
    scene.release("runs")
    scene.settle()
    assert (scene.is_true("low", "Admitted"), scene.is_true("waits", "Admitted")) == (True, False)


def test_one_that_runs_is_preempted_once_it_is_lowered() -> None:
    scene = full()
    boost(scene, "runs", "-5")
    assert scene.is_true("runs", "Preempted")


def test_one_that_was_preempted_waits_by_its_boosted_priority() -> None:
    scene = full()
    boost(scene, "low", "10")
    scene.finish("runs")
    scene.settle()
    assert (scene.is_true("waits", "Admitted"), scene.is_true("low", "Admitted")) == (True, False), "it came later"


@pytest.mark.parametrize("value", ["", "high", "1.5", "2147483648", "-2147483649", "0x10", "1_0", " 1"])
def test_what_is_no_number_is_passed_over(value: str) -> None:
    scene = full()
    boost(scene, "low", value)
    assert not scene.is_true("runs", "Preempted")
    assert scene.controller.index.workload(f"{NS}/low").observed.priority_boost == 0


def test_without_the_setting_the_annotation_means_nothing() -> None:
    scene = full(boosts=False)
    boost(scene, "low", "100")
    assert not scene.is_true("runs", "Preempted")
