"""What checks of somebody else say at an unexpected moment."""

from __future__ import annotations

from controlplane.kube import kinds
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


def test_who_runs_on_a_flavor_that_its_queue_has_no_more_keeps_its_checks() -> None:
    """The checks are for all flavors: what MultiKueue says of a Workload that runs would be forgotten, and the end of its job with it."""
    scene = Scene()
    checked(scene)
    scene.workload("a", "q")
    scene.settle()
    answer(scene, "a", "Ready")
    assert scene.is_true("a", "Admitted")
    scene.put(kinds.RESOURCE_FLAVORS, "another")
    spec = scene.objects[kinds.CLUSTER_QUEUES, "", "q"]["spec"]
    (group,) = spec["resourceGroups"]
    (flavor,) = group["flavors"]
    groups = [{**group, "flavors": [{**flavor, "name": "another"}]}]
    scene.put(kinds.CLUSTER_QUEUES, "q", spec={**spec, "resourceGroups": groups})
    scene.settle()
    assert [one["state"] for one in scene.status("a")["admissionChecks"]] == ["Ready"]
