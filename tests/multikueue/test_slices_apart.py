"""Slices of an elastic job that was made larger before its copy was seen, or when it had ended: the job is created
nowhere a second time.
"""

from __future__ import annotations

from tests.multikueue.scene import WL, Scene
from tests.multikueue.sliced import LARGE, NEW, NEXT, REPLACED, RUNS, SMALL, small


def creating() -> Scene:
    """A slice whose job is about to be created on `a`, and the next one, which got its quota before the check was
    Ready."""
    scene = Scene("a", "b").job(size=SMALL).workload({"QuotaReserved": True}, elastic=True, size=SMALL)
    scene.names()
    scene.workload(nominated=["a", "b"])
    scene.clone("a", RUNS, size=SMALL).clone("b", size=SMALL)
    assert scene.names() == ["WinnerChosen a", "Removal Workload b", "JobCreation a"]
    scene.job(size=LARGE, template="cc" * 32).clone_gone("b")
    scene.workload(REPLACED)
    return scene.on(NEXT).workload({"QuotaReserved": True}, **NEW)


def test_the_next_slice_waits_while_the_job_of_the_one_before_is_being_created() -> None:
    scene = creating()
    assert scene.names() == []
    assert scene.tick(minutes=5).names() == []


def test_it_follows_the_job_once_that_shows() -> None:
    scene = creating().on(WL).remote_job("a", size=SMALL)
    assert scene.on(NEXT).names() == ["AttemptBegun"]
    assert scene.names() == ["Clone a"]


def test_it_waits_for_a_creation_that_was_taken_back_as_long_as_its_request_may_take() -> None:
    scene = creating().on(WL)
    scene.workload({"Evicted": True})
    assert scene.on(NEXT).names() == []
    assert scene.tick(seconds=41).names() == ["Nomination", "Clone a", "Clone b"]


def test_a_job_that_has_ended_as_another_slices_is_not_created_again() -> None:
    scene = small().remote_job("a", finished=True, inactive=True, status="22" * 32)
    scene.job(finished=True, size=LARGE, status="22" * 32).workload(REPLACED)
    scene.on(NEXT).workload({"QuotaReserved": True}, **NEW)
    scene.on(WL).remote_job_gone("a").clone_gone("a")
    assert scene.on(NEXT).names() == []
