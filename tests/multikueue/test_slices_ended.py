"""An elastic job whose copy was deleted the moment it had ended (`ttlSecondsAfterFinished: 0`) has run: its end is
written to the user's job, and no slice runs it again.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.controllers.multikueue.events import FinishDecided, StatusRelayDecided
from controlplane.controllers.multikueue.observations import JobEnd
from controlplane.controllers.multikueue.reasons import WorkloadReason
from tests.multikueue.scene import WL, Scene
from tests.multikueue.sliced import NEXT, RUNS, SMALL, cloned, small

TWO = "22" * 32


def ends(scene: Scene) -> Scene:
    """The job ends on `a` under the name of the first slice, and is gone."""
    scene.on(WL).remote_job("a", status=TWO, finished=True, inactive=True)
    return scene.remote_job_gone("a")


def tells(scene: Scene) -> bool:
    (relay,) = scene.decide()
    assert isinstance(relay, StatusRelayDecided)
    return (relay.source, relay.status, relay.reason) == ("a", TWO, WorkloadReason.FINAL_STATUS)


@pytest.mark.parametrize("deleting", [False, True])
def test_it_is_not_queued_again(deleting: bool) -> None:
    scene = ends(small()).clone("a", deleting=deleting)
    assert tells(scene)
    scene.job(status=TWO, finished=True, inactive=True)
    assert scene.names() == [], "Kueue finishes the Workload by its job"
    scene.workload({"Finished": "Succeeded"})
    assert scene.names() == ["Removal Workload a"] or deleting


def test_the_next_slice_does_not_begin_it_anew() -> None:
    scene = ends(cloned().clone("a", RUNS))
    assert scene.on(NEXT).names() == [], "its end is to be written yet"
    assert tells(scene.on(WL))
    assert scene.on(NEXT).names() == []
    scene.job(status=TWO, finished=True, inactive=True)
    assert scene.names() == []


def test_nor_does_it_when_the_slice_before_was_not_replaced_yet() -> None:
    scene = small().on(NEXT).workload({"QuotaReserved": True}, elastic=True, size=SMALL)
    ends(scene)
    assert scene.on(NEXT).names() == []
    assert tells(scene.on(WL))


def test_such_an_end_counts_no_more_once_another_slice_has_the_job() -> None:
    scene = cloned()
    scene.remote_job("b", suspended=False, inactive=False, size=SMALL)
    ends(scene)
    assert "StatusRelay" not in scene.names()


@pytest.mark.parametrize(("code", "error"), [(403, "Forbidden"), (422, "Invalid")])
def test_a_status_that_is_refused_neither_holds_a_slice_up_nor_has_the_job_run_again(code: int, error: str) -> None:
    scene = cloned().clone("a", RUNS).on(WL)
    scene.remote_job("a", status=TWO, finished=True, inactive=True, end=JobEnd(success=False, message="it failed"))
    scene.remote_job_gone("a")
    for failures in (1, 2, 3):
        (relay,) = scene.decide()
        assert isinstance(relay, StatusRelayDecided)
        scene.refuses(relay, code, error, timedelta(), failures)
    assert scene.names() == []
    (finish,) = scene.on(NEXT).decide()
    assert isinstance(finish, FinishDecided)
    assert (finish.source, finish.finish_reason, finish.message) == ("a", "Failed", "it failed")
    scene.workload({"Finished": "Failed"})
    assert scene.names() == ["Removal Workload a"]
