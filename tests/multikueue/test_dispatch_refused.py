"""A cluster that refuses a copy or its job: what is tried again, what is waited for, and when the cluster is left
out."""

from __future__ import annotations

import pytest

from controlplane.controllers.multikueue.events import ClusterRefused, EffectFailed, NominationDecided
from controlplane.controllers.multikueue.reasons import WorkloadReason
from tests.multikueue.refusals import refuse
from tests.multikueue.scene import STREAM, Scene


def test_a_foreign_job_of_the_same_name_leaves_that_cluster_out() -> None:
    scene = Scene("a", "b").cloned("a", "b").clone("b", {"Admitted": True})
    scene.decide()
    scene.clone_gone("a")
    refuse(scene, "b/Job", "JobCreationDecided", 409, "Foreign")
    (refused,) = scene.decide()
    assert isinstance(refused, ClusterRefused)
    assert refused.reason == WorkloadReason.JOB_NAME_TAKEN
    assert scene.names() == ["Removal Workload b", "Nomination", "Clone a"]
    scene.clone_gone("b").workload(nominated=["a"]).clone("a")
    assert scene.names() == []
    assert scene.wake is not None
    scene.now = scene.wake
    again, _ = scene.decide()
    assert isinstance(again, NominationDecided)
    assert again.clusters == ["a", "b"]


def installing() -> Scene:
    """Chosen: b; its job is being created, and nobody else has a copy."""
    scene = Scene("a", "b").cloned("a", "b").clone("b", {"Admitted": True})
    assert "JobCreation b" in scene.names()
    scene.clone_gone("a")
    return scene


def again(scene: Scene, code: int, error: str) -> list[str]:
    """The job is refused, and it is decided anew once that may be."""
    before = scene.state.trouble.get("b/Job")
    refuse(scene, "b/Job", "JobCreationDecided", code, error, before.failures + 1 if before else 1)
    return scene.names()


def test_a_job_that_is_refused_twice_goes_elsewhere_once_the_copy_there_is_gone() -> None:
    scene = installing()
    assert again(scene, 422, "Invalid") == ["JobCreation b"]
    assert again(scene, 422, "Invalid") == ["ClusterRefused b"]
    # The copy goes before a job comes elsewhere: a creation that is still on its way finds no Workload that would let
    # it run.
    assert scene.names() == ["Removal Workload b", "Nomination", "Clone a"]
    scene.workload(nominated=["a"]).clone("a", {"Admitted": True})
    assert scene.names() == ["WinnerChosen a"]
    scene.clone_gone("b")
    assert scene.names() == ["JobCreation a"]


@pytest.mark.parametrize(("code", "error"), [(422, "Invalid"), (409, "Foreign")])
def test_a_cluster_that_is_asked_again_after_its_pause_is_not_left_out_for_what_it_said_before(
    code: int, error: str
) -> None:
    """Otherwise it admits the copy, wins, and is left out without having been asked, for as long as the attempt
    lasts.
    """
    scene = installing()
    while (said := again(scene, code, error)) != ["ClusterRefused b"]:
        assert said == ["JobCreation b"]
    scene.decide()
    scene.clone_gone("b").workload(nominated=["a"]).clone("a")
    assert scene.names() == []
    assert scene.wake is not None
    scene.now = scene.wake
    assert scene.names() == ["Nomination", "Clone b"]
    scene.workload(nominated=["a", "b"])
    assert scene.names() == []
    scene.clone("b", {"Admitted": True})
    assert scene.names() == ["WinnerChosen b", "Removal Workload a", "JobCreation b"]


def test_a_job_that_may_be_there_unseen_is_waited_for_as_on_a_cluster_that_is_away() -> None:
    scene = installing()
    for _ in range(4):
        assert again(scene, 503, "Unclear") == ["JobCreation b"]
    scene.tick(minutes=16)
    assert again(scene, 503, "Unclear") == ["ClusterRefused b"]


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_server_in_trouble_refuses_nothing(code: int) -> None:
    scene = installing()
    for _ in range(6):
        assert again(scene, code, "InternalError") == ["JobCreation b"]


def test_under_never_twice_it_is_waited_for_until_it_can_be_seen() -> None:
    scene = installing().job(execution_policy="never-twice")
    for _ in range(4):
        assert again(scene, 503, "Unclear") == ["JobCreation b"]
        scene.tick(hours=1)


def test_a_clone_that_is_refused_rests_and_the_others_go_on() -> None:
    scene = Scene("a", "b").nominated("a", "b")
    scene.decide()
    refuse(scene, "a/Workload", "CloneDecided", 404, "NotFound")
    scene.clone("b", {"Admitted": True})
    assert scene.names() == ["WinnerChosen b", "JobCreation b"]


def test_a_refused_write_is_decided_again_when_its_time_has_come() -> None:
    scene = Scene("a").nominated("a")
    scene.decide()
    write = scene.fleet.open_writes(STREAM)[0]
    from controlplane.runtime.controller import WriteRefusal

    pauses = []
    for _ in range(4):
        event = scene.fleet.failed(
            write, WriteRefusal(404, "NotFound", 'namespaces "default" not found'), scene.now
        ).event
        scene.fold(STREAM, event)
        assert isinstance(event, EffectFailed)
        pauses.append((event.retry_at - scene.now).total_seconds())
        assert scene.names() == []
        assert scene.wake == event.retry_at
        scene.now = event.retry_at
        assert scene.names() == ["Clone a"]
        write = scene.fleet.open_writes(STREAM)[0]
    assert pauses == [1, 2, 4, 8]
