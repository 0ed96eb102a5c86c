"""What checks of somebody else say at an unexpected moment."""

from __future__ import annotations

from controlplane.kube.requests import timestamp
from tests.quota.admission.checks import CHECK, answer, checked
from tests.quota.admission.scene import Scene


def test_another_try_that_is_asked_for_while_quota_is_taken_away_keeps_nobody_from_the_next() -> None:
    """A check answers for quota that the Workload is about to lose: it was queued no more, since a check asked for another try."""
    scene = Scene()
    checked(scene)
    scene.workload("a", "q")
    scene.settle()
    assert scene.is_true("a", "QuotaReserved")
    scene.set_condition("a", "Evicted", reason="ByHand")
    said = {"name": CHECK, "state": "Retry", "message": "no", "lastTransitionTime": timestamp(scene.now)}
    scene.set_condition("a", "QuotaReserved", "False", "Pending", admission=None, admissionChecks=[said])
    scene.settle()
    assert scene.is_true("a", "QuotaReserved")
    (found,) = scene.status("a")["admissionChecks"]
    assert (found["state"], found["retryCount"]) == ("Pending", 1)
    answer(scene, "a", "Ready")
    assert scene.is_true("a", "Admitted")
