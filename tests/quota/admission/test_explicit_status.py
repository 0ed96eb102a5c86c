"""What a Workload is told before it was tried (`quota.unadmittedWorkloadsExplicitStatus`)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.kube.kinds import Json
from tests.quota.admission.scene import Scene

UNTRIED = ("False", "PendingEvaluation", "Workload is pending evaluation in the scheduling queue")
NO_RESERVATION = ("False", "NoReservation", "The workload has no reservation")
BYPASSED = "Bypassed scheduling evaluation because an equivalent workload recently failed"


def said(condition: Json) -> tuple[str, str, str]:
    return condition["status"], condition["reason"], condition["message"]


def first_write(scene: Scene, name: str) -> list[Json]:
    """Return the conditions that are written of a Workload beside the scheduling cycle."""
    decided = scene.controller.decide(f"admission/workload/team/{name}", scene.now)
    return [one for new in decided.events for one in getattr(new.event, "conditions", ())]


def test_one_that_is_not_tried_is_told_after_a_second_that_it_waits() -> None:
    scene = Scene(explicit_status=True)
    scene.queue("q", "5")
    scene.workload("a", "q", "1")
    decided = scene.controller.decide("admission/workload/team/a", scene.now)
    assert (list(decided.events), decided.wake) == ([], scene.now + timedelta(seconds=1))
    scene.now += timedelta(seconds=1)
    told = {one.type: (one.status, one.reason, one.message) for one in first_write(scene, "a")}
    assert told == {"QuotaReserved": UNTRIED, "Admitted": NO_RESERVATION}
    scene.settle()
    assert scene.is_true("a", "Admitted")


def test_one_that_is_tried_at_once_needs_no_other_write() -> None:
    scenes = Scene(explicit_status=True), Scene()
    for scene in scenes:
        scene.queue("q", "5")
        for name in ("a", "b"):
            scene.workload(name, "q", "4")
        scene.settle()
        scene.pass_time(2)
    assert [type(one.event).__name__ for one in scenes[0].log] == [type(one.event).__name__ for one in scenes[1].log]


def test_each_of_a_kind_is_told_though_one_was_tried_for_all_of_them() -> None:
    scene = Scene(explicit_status=True)
    scene.queue("q", "5")
    scene.workload("a", "q", "5")
    scene.settle()
    for name in ("b", "c", "d"):
        scene.workload(name, "q", "1")
    scene.settle()
    scene.pass_time(2)
    found = [said(scene.condition(name, "QuotaReserved")) for name in ("b", "c", "d")]
    assert {one[:2] for one in found} == {("False", "WaitingForQuota")}
    assert sum(one[2] == BYPASSED for one in found) == 2


def test_without_it_nothing_is_said_before_it_was_tried() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q", "1")
    assert first_write(scene, "a") == []


@pytest.mark.parametrize("explicit_status", [True, False])
def test_one_like_another_that_did_not_fit_is_told_so(*, explicit_status: bool) -> None:
    scene = Scene(explicit_status=explicit_status)
    scene.queue("q", "5")
    for name, cpu in (("a", "5"), ("b", "1"), ("c", "1")):
        scene.workload(name, "q", cpu)
        scene.settle()
    scene.pass_time(2)
    reserved = said(scene.condition("b", "QuotaReserved"))
    assert reserved[:2] == ("False", "WaitingForQuota")
    assert reserved[2] != BYPASSED, "what it was told by the cycle stays"
    if explicit_status:
        assert said(scene.condition("c", "QuotaReserved")) == ("False", "WaitingForQuota", BYPASSED)


def test_nothing_is_written_again() -> None:
    scene = Scene(explicit_status=True)
    scene.queue("q", "5")
    for name in ("a", "b", "c"):
        scene.workload(name, "q", "4")
    scene.settle()
    before = len(scene.log)
    scene.settle()
    assert len(scene.log) == before
