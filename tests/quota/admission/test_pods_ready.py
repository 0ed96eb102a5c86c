"""What becomes of Workloads whose pods are not ready in time, as with Kueue's `waitForPodsReady`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.controllers.quota.admission.hosting import wait_for_pods_ready
from controlplane.controllers.quota.admission.pods_ready import WaitForPodsReady
from controlplane.kube import kinds
from controlplane.kube.requests import timestamp
from controlplane.settings import resolve
from tests.quota.admission.scene import NS, Scene, quota

MINUTE = timedelta(minutes=1)
WAITING = WaitForPodsReady(timeout=5 * MINUTE, recovery_timeout=2 * MINUTE, limit=2, base=60, most=100)


def admitted(waiting: WaitForPodsReady | None = WAITING) -> Scene:
    scene = Scene(pods_ready=waiting)
    scene.queue("q", "1")
    scene.workload("a", "q")
    scene.settle()
    assert scene.is_true("a", "Admitted")
    return scene


def released(scene: Scene, name: str = "a") -> None:
    """As whoever keeps the job does once its pods are gone."""
    scene.release(name)
    scene.set_condition(name, "Requeued", "False", "PodsReadyTimeout")
    scene.settle()


def evicted(scene: Scene, name: str = "a") -> str:
    found = scene.condition(name, "Evicted")
    return str(found["reason"]) if found.get("status") == "True" else ""


def test_who_is_not_ready_in_time_is_evicted_and_queued_again_later() -> None:
    scene = admitted()
    scene.pass_time(299)
    assert evicted(scene) == ""
    scene.pass_time(1)
    assert scene.condition("a", "Evicted")["message"] == f"Exceeded the PodsReady timeout {NS}/a"
    assert evicted(scene) == "PodsReadyTimeout"
    at = timestamp(scene.now + MINUTE)
    assert scene.status("a")["requeueState"] == {"count": 1, "requeueAt": at}
    (counted,) = scene.status("a")["schedulingStats"]["evictions"]
    assert counted == {"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 1}
    released(scene)
    assert not scene.is_true("a", "QuotaReserved")
    scene.pass_time(61)
    assert scene.is_true("a", "Admitted")
    assert scene.condition("a", "Requeued")["status"] == "True"


def test_others_get_the_quota_meanwhile() -> None:
    scene = admitted()
    scene.workload("b", "q")
    scene.pass_time(300)
    released(scene)
    assert scene.is_true("b", "Admitted")


def test_who_was_queued_again_too_often_is_deactivated() -> None:
    scene = admitted()
    for wait in (60, 100):
        scene.pass_time(301)
        assert scene.status("a")["requeueState"]["requeueAt"] == timestamp(scene.now + timedelta(seconds=wait))
        released(scene)
        scene.pass_time(wait + 1)
        assert scene.is_true("a", "Admitted")
    scene.pass_time(301)
    assert scene.of("a")["spec"]["active"] is False
    assert evicted(scene) == "DeactivatedDueToRequeuingLimitExceeded"


def test_without_a_limit_it_is_queued_again_without_end() -> None:
    scene = admitted(WaitForPodsReady(timeout=MINUTE))
    for count in range(1, 8):
        scene.pass_time(61)
        assert scene.status("a")["requeueState"]["count"] == count
        released(scene)
        scene.pass_time(3601)
        assert scene.is_true("a", "Admitted")


def test_whose_pods_are_ready_stays() -> None:
    scene = admitted()
    scene.set_condition("a", "PodsReady")
    scene.settle()
    scene.pass_time(3600)
    assert evicted(scene) == ""


@pytest.mark.parametrize(("recovery", "reason"), [(2 * MINUTE, "PodsReadyTimeout"), (None, "")])
def test_pods_that_fail_later_have_the_time_to_recover(recovery: timedelta | None, reason: str) -> None:
    scene = admitted(WaitForPodsReady(timeout=5 * MINUTE, recovery_timeout=recovery))
    scene.set_condition("a", "PodsReady")
    scene.settle()
    scene.pass_time(3600)
    scene.set_condition("a", "PodsReady", "False", "WaitForRecovery")
    scene.settle()
    scene.pass_time(119)
    assert evicted(scene) == ""
    scene.pass_time(1)
    assert evicted(scene) == reason


def test_without_the_setting_nobody_is_evicted() -> None:
    scene = admitted(None)
    scene.pass_time(100_000)
    assert evicted(scene) == ""


def test_nobody_else_is_admitted_until_the_pods_are_ready() -> None:
    scene = Scene(pods_ready=WAITING, block_admission=True)
    scene.queue("q", "10")
    scene.queue("r", "10")
    for name, queue in (("a", "q"), ("b", "r"), ("c", "r")):
        scene.workload(name, queue)
        scene.settle()
    assert [scene.is_true(name, "Admitted") for name in "abc"] == [True, False, False]
    told = scene.condition("b", "QuotaReserved")
    assert told["reason"] == "WaitingForPodsReady"
    assert told["message"] == "waiting for all admitted workloads to be in PodsReady condition"
    scene.set_condition("a", "PodsReady")
    scene.settle()
    assert [scene.is_true(name, "Admitted") for name in "abc"] == [True, True, False]
    scene.set_condition("b", "PodsReady")
    scene.settle()
    assert scene.is_true("c", "Admitted")


def test_who_is_considered_in_the_same_cycle_says_what_it_waits_for() -> None:
    scene = Scene(pods_ready=WAITING, block_admission=True)
    for name, queue in (("a", "q"), ("b", "r")):
        scene.queue(queue, "1", cohortName="all")
        scene.workload(name, queue, "4")
    scene.settle()
    assert not scene.is_true("a", "Admitted")
    scene.put(kinds.CLUSTER_QUEUES, "third", spec={"resourceGroups": [quota("20")], "cohortName": "all"})
    scene.settle()
    assert scene.is_true("a", "Admitted")
    assert scene.condition("b", "QuotaReserved")["reason"] == "WaitingForPodsReady"


def test_who_waited_for_the_pods_of_another_comes_before_that_one() -> None:
    """Also where that one is queued again at once, and was there before."""
    scene = Scene(pods_ready=WaitForPodsReady(timeout=MINUTE, base=0), block_admission=True)
    for name, queue in (("a", "q"), ("b", "r")):
        scene.queue(queue, "1")
        scene.workload(name, queue)
        scene.settle()
        scene.pass_time(1)
    scene.pass_time(60)
    assert evicted(scene, "a") == "PodsReadyTimeout"
    scene.release("a")
    scene.settle()
    assert [scene.is_true(name, "Admitted") for name in "ab"] == [False, True]


def test_who_waited_comes_before_a_higher_priority_of_the_same_queue() -> None:
    scene = Scene(pods_ready=WaitForPodsReady(timeout=MINUTE, base=0), block_admission=True)
    scene.queue("q", "10")
    scene.workload("a", "q", priority=100)
    scene.settle()
    scene.workload("b", "q")
    scene.pass_time(61)
    assert evicted(scene, "a") == "PodsReadyTimeout"
    scene.release("a")
    scene.settle()
    assert [scene.is_true(name, "Admitted") for name in "ab"] == [False, True]


def test_who_waited_and_was_preempted_since_comes_first_no_more() -> None:
    """Else it takes again what was taken from it, as fast as the API server answers."""
    scene = Scene(pods_ready=WAITING, block_admission=True)
    scene.queue("q", "2", preemption={"withinClusterQueue": "LowerPriority"})
    scene.workload("a", "q")
    scene.settle()
    scene.workload("b", "q")
    scene.settle()
    assert scene.condition("b", "QuotaReserved")["reason"] == "WaitingForPodsReady"
    scene.pass_time(1)
    scene.set_condition("a", "PodsReady")
    scene.settle()
    assert scene.is_true("b", "Admitted")
    scene.workload("c", "q", priority=10)
    scene.settle()
    assert evicted(scene, "b") == "Preempted"
    scene.release("b")
    scene.settle()
    assert [scene.is_true(name, "Admitted") for name in "abc"] == [True, False, True]


def test_who_is_never_ready_blocks_for_its_time_alone() -> None:
    scene = Scene(pods_ready=WAITING, block_admission=True)
    scene.queue("q", "10")
    scene.workload("a", "q")
    scene.workload("b", "q")
    scene.settle()
    scene.pass_time(301)
    assert not scene.is_true("b", "Admitted")
    released(scene)
    assert scene.is_true("b", "Admitted")


def test_a_higher_priority_preempts_who_is_not_ready() -> None:
    scene = Scene(pods_ready=WAITING, block_admission=True)
    scene.queue("q", "1", preemption={"withinClusterQueue": "LowerPriority"})
    scene.workload("a", "q")
    scene.settle()
    scene.workload("b", "q", priority=10)
    scene.settle()
    assert evicted(scene) == "Preempted"
    scene.release("a")
    scene.settle()
    assert scene.is_true("b", "Admitted")


def test_the_settings_say_how_long() -> None:
    given = {
        "CONTROLPLANE_QUOTA_WAIT_FOR_PODS_READY_ENABLE": "yes",
        "CONTROLPLANE_QUOTA_WAIT_FOR_PODS_READY_TIMEOUT": "10m",
        "CONTROLPLANE_QUOTA_WAIT_FOR_PODS_READY_RECOVERY_TIMEOUT": "0",
        "CONTROLPLANE_QUOTA_WAIT_FOR_PODS_READY_REQUEUING_STRATEGY_BACKOFF_LIMIT_COUNT": "5",
        "CONTROLPLANE_QUOTA_WAIT_FOR_PODS_READY_REQUEUING_STRATEGY_BACKOFF_BASE_SECONDS": "10",
    }
    settings = resolve(None, given, {}).settings
    assert settings.quota.says_pods_ready
    assert wait_for_pods_ready(settings) == WaitForPodsReady(timeout=10 * MINUTE, limit=5, base=10)
    assert wait_for_pods_ready(resolve(None, {}, {}).settings) is None


def test_a_replica_that_takes_over_decides_the_same() -> None:
    scene = Scene(pods_ready=WAITING, block_admission=True)
    scene.queue("q", "10")
    scene.workload("a", "q")
    scene.workload("b", "q")
    scene.settle()
    replayed = scene.replayed()
    assert replayed.index.engine.blocked
    scene.put(kinds.WORKLOADS, "b", NS, metadata={"labels": {"x": "y"}})
    scene.settle()
    assert not scene.is_true("b", "Admitted")
