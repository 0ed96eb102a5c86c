"""What checks of somebody else say at an unexpected moment."""

from __future__ import annotations

from controlplane.kube import kinds
from controlplane.kube.requests import timestamp
from tests.quota.admission.checks import CHECK, answer, check, checked
from tests.quota.admission.scene import Scene, quota


def test_another_try_that_is_asked_for_while_quota_is_taken_away_keeps_nobody_from_the_next() -> None:
    """A check answers for quota that the Workload is about to lose: it was queued no more, since a check asked for
    another try."""
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
    """The checks are for all flavors: what MultiKueue says of a Workload that runs would be forgotten, and the end of
    its job with it."""
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


def test_how_often_a_check_of_some_flavors_asked_for_another_try_is_known_at_the_next() -> None:
    """Without a flavor it counts no more, and its state went with the count: a check that gives up after some tries
    never did."""
    scene = Scene()
    scene.put(kinds.RESOURCE_FLAVORS, "spot", spec={})
    check(scene)
    group = quota("10")
    group["flavors"].append({**group["flavors"][0], "name": "spot"})
    of_default = {"admissionChecks": [{"name": CHECK, "onFlavors": ["default"]}]}
    scene.queue("q", "10", resourceGroups=[group], admissionChecksStrategy=of_default)
    scene.workload("a", "q")
    scene.settle()
    for tries in (1, 2):
        (before,) = scene.status("a")["admissionChecks"]
        answer(scene, "a", "Retry", retryCount=before.get("retryCount"), requeueAfterSeconds=1, message="no machines")
        scene.pass_time(2)
        scene.release("a")
        scene.settle()
        assert scene.is_true("a", "QuotaReserved")
        (found,) = scene.status("a")["admissionChecks"]
        assert (found["state"], found["retryCount"]) == ("Pending", tries)
