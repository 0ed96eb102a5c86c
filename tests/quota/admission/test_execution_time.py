"""Workloads that may run for so long and no longer: when they are deactivated, and what a person who activates one
again gets."""

from __future__ import annotations

import pytest

from controlplane.kube import kinds
from tests.quota.admission.scene import NS, Scene

LIMIT = 100


def running() -> Scene:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q", maximumExecutionTimeSeconds=LIMIT)
    scene.settle()
    assert scene.is_true("a", "Admitted")
    return scene


def activated(scene: Scene) -> None:
    scene.put(kinds.WORKLOADS, "a", NS, spec={**scene.of("a")["spec"], "active": True})
    scene.settle()


def test_who_is_deactivated_and_still_has_quota_is_deactivated_once() -> None:
    """Its job takes a while to stop: what was said of its time does not hold against whoever activates it again."""
    scene = running()
    scene.pass_time(LIMIT + 1)
    assert scene.of("a")["spec"]["active"] is False
    scene.pass_time(10)
    assert scene.condition("a", "DeactivationTarget") == {}
    scene.release("a")
    scene.settle()
    activated(scene)
    assert scene.of("a")["spec"]["active"] is True
    assert scene.is_true("a", "Admitted")


def test_who_is_evicted_just_before_his_time_is_over_is_no_longer_stopped_for_it() -> None:
    scene = running()
    scene.pass_time(LIMIT - 1)
    scene.set_condition("a", "Evicted", reason="Preempted")
    scene.settle()
    scene.pass_time(10)
    assert scene.condition("a", "DeactivationTarget") == {}
    assert scene.of("a")["spec"].get("active") is not False


def test_a_target_that_an_eviction_overtook_goes_with_the_deactivation() -> None:
    scene = running()
    scene.set_condition("a", "Evicted", reason="Preempted")
    scene.set_condition("a", "DeactivationTarget", reason="MaximumExecutionTimeExceeded")
    scene.settle()
    assert scene.of("a")["spec"]["active"] is False
    assert scene.condition("a", "DeactivationTarget") == {}
    scene.release("a")
    scene.settle()
    activated(scene)
    assert scene.is_true("a", "Admitted")


@pytest.mark.parametrize(
    "reason", ["Deactivated", "DeactivatedDueToMaximumExecutionTimeExceeded", "DeactivatedDueToAdmissionCheck"]
)
def test_whoever_is_activated_again_is_queued_again_whatever_he_was_deactivated_for(reason: str) -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q")
    scene.put(kinds.WORKLOADS, "a", NS, spec={**scene.of("a")["spec"], "active": False})
    scene.settle()
    scene.set_condition("a", "Evicted", reason=reason)
    scene.set_condition("a", "Requeued", "False", reason)
    scene.settle()
    activated(scene)
    assert scene.is_true("a", "Admitted")
    assert scene.condition("a", "Requeued")["reason"] == "Reactivated"
