"""The winner is pinned: what comes back, or was never answered, does not take its place."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    NominationDecided,
    RemovalDecided,
    WinnerChosen,
)
from tests.multikueue.dispatched import LOST, ONE, THREE, TWO, only, restart, retry, settled
from tests.multikueue.scene import STREAM, Scene
from tests.support.rows import each


def returning() -> Scene:
    """Lost on `a`, dispatched again and running on `b`; `a` is still away, its old copy admitted and running."""
    scene = settled("a", "a", "b").lose("a").tick(minutes=16)
    assert retry(scene.decide()).message == LOST
    scene.workload({"Evicted": True, "Admitted": False}, check="Pending", cluster_name="").job(suspended=True)
    scene.decide()
    scene.job(status=TWO, inactive=True)
    scene.workload({"QuotaReserved": False})
    scene.decide()
    scene.workload({"QuotaReserved": True, "Evicted": False})
    assert scene.names() == ["Nomination", "Clone b"]
    scene.workload(nominated=["b"])
    assert scene.names() == []
    scene.clone("b", {"QuotaReserved": True, "Admitted": True})
    assert scene.names() == ["WinnerChosen b", "JobCreation b"]
    return scene


def evicted_and_admitted_again(scene: Scene) -> None:
    scene.decide()
    scene.workload({"Evicted": True, "Admitted": False}, check="Pending", cluster_name="").job(suspended=True)
    scene.decide()
    scene.job(status=TWO, inactive=True).workload({"QuotaReserved": False})
    scene.decide()
    scene.workload({"QuotaReserved": True, "Evicted": False})
    scene.decide()


def test_a_returning_cluster_never_beats_the_pinned_winner() -> None:
    scene = returning().remote_job("b", status="00" * 32)
    scene.decide()
    scene.workload({"Admitted": True}, check="Ready", cluster_name="b", nominated=[])
    scene.remote_job("b", suspended=False, status=THREE).connect("a")
    assert scene.names() == ["CopyJudged a", "Removal Job a"]
    scene.remote_job_gone("a")
    assert scene.names() == ["Removal Workload a"]
    assert scene.state.local is not None
    assert scene.state.local.cluster_name == "b"


def test_a_cluster_that_returns_before_ready_does_not_beat_the_pinned_winner() -> None:
    scene = returning().connect("a")
    names = scene.names()
    assert "Removal Job a" in names
    assert not any(name.startswith("Winner") for name in names)


def test_a_returning_cluster_that_was_not_nominated_is_not_chosen() -> None:
    scene = settled("a", "a", "b").lose("a").tick(minutes=16)
    evicted_and_admitted_again(scene)
    scene.workload(nominated=["b"]).connect("a")
    assert scene.names() == ["CopyJudged a", "Nomination"]
    assert not any(isinstance(event, WinnerChosen) and event.cluster == "a" for event in scene.decided[1:])


def test_a_winner_whose_job_was_deleted_is_not_chosen_again_while_its_copy_goes() -> None:
    scene = Scene("a").cloned("a").clone("a", {"Admitted": True})
    assert scene.names() == ["WinnerChosen a", "JobCreation a"]
    scene.remote_job("a").remote_job_gone("a")
    assert scene.names() == ["Removal Workload a", "WinnerReleased a"]
    for _ in range(3):
        assert scene.names() == []  # and not chosen, released, chosen, … until the clone is gone
    scene.clone_gone("a")
    assert scene.names() == ["Clone a"]
    scene.clone("a", {"Admitted": True})
    assert scene.names() == ["WinnerChosen a", "JobCreation a"]  # a new copy, a new job


def test_a_job_whose_creation_was_never_answered_is_not_created_once_the_winner_was_released() -> None:
    scene = Scene("a", "b").cloned("a", "b").clone("a", {"Admitted": True})
    assert "JobCreation a" in scene.names()
    scene.clone_gone("b")
    scene.lose("a").tick(minutes=16)
    assert scene.names() == ["WinnerReleased a"]
    scene.decide()
    scene.workload(nominated=["b"])
    scene.decide()
    scene.clone("b", {"Admitted": True})
    assert "WinnerChosen b" in scene.names()
    scene.connect("a")
    actions = [(write.action, write.cluster) for write in scene.fleet.open_writes(STREAM)]
    assert ("JobCreationDecided", "a") not in actions


def test_a_clone_whose_creation_was_never_answered_is_not_created_once_the_attempt_is_over() -> None:
    scene = Scene("a", "b").nominated("a", "b")
    assert scene.names() == []
    scene.lose("a").clone("b")
    scene.decide()
    scene.workload({"QuotaReserved": False}, nominated=[])
    scene.decide()
    scene.clone_gone("b").workload({"Finished": True})
    scene.decide()
    assert scene.fleet.open_writes(STREAM) == []


def test_a_job_is_not_created_while_an_old_copy_still_runs_on_a_cluster_in_view() -> None:
    # The losers of one attempt hold no job, but a copy from an attempt before may: slow to go or not, it has to be gone
    # first.
    scene = settled("a", "a", "b").lose("a").tick(minutes=16)
    evicted_and_admitted_again(scene)
    scene.workload(nominated=["b"])
    scene.decide()
    scene.connect("a").clone("b", {"QuotaReserved": True, "Admitted": True})
    assert scene.names() == ["CopyJudged a", "WinnerChosen b", "Removal Job a"]
    scene.tick(seconds=3)
    assert scene.names() == []
    scene.remote_job_gone("a")
    assert "Removal Workload a" in scene.names()
    scene.clone_gone("a")
    assert scene.names() in (["JobCreation b"], [])
    assert any(write.action == "JobCreationDecided" for write in scene.fleet.open_writes(STREAM))


def test_a_winner_whose_nomination_was_taken_back_unseen_is_nominated_again_before_ready() -> None:
    # Evicted and reserved again while nobody watched: a relist shows only what came of it, a Workload without names.
    # Kueue's webhook refuses a clusterName that the stored object does not nominate, so writing it again and again
    # would be for ever.
    scene = Scene("a").cloned("a").clone("a", {"Admitted": True})
    scene.decide()
    scene.remote_job("a")
    scene.workload(nominated=[])
    for _ in range(3):
        decisions = scene.decide()
        assert not any(isinstance(decision, CheckStateDecided) for decision in decisions)
    assert any(write.action == "NominationDecided" for write in scene.fleet.open_writes(STREAM))
    scene.workload(nominated=["a"])
    scene.decide()
    scene.decide()
    assert any(isinstance(decision, CheckStateDecided) and decision.winner == "a" for decision in scene.decided)


def test_a_restart_does_not_release_the_winner() -> None:
    scene = Scene("a", "b").cloned("a", "b").clone("b", bound_to="unseen").clone("a", {"Admitted": True})
    assert scene.names() == ["WinnerChosen a", "Removal Workload b"]
    restart(scene)
    assert scene.names() == []  # nobody knows anything against it yet
    scene.connect("b")
    assert not any(name.startswith("Winner") for name in scene.names())
    scene.connect("a")
    assert not any(name.startswith("Winner") for name in scene.names())


def test_a_winner_in_reach_is_not_released_while_the_creation_of_its_job_is_open() -> None:
    # The call may have been carried out already: another cluster would get a second job in the same attempt.
    scene = Scene("a", "b").cloned("a", "b").clone("a", {"Admitted": True})
    assert "JobCreation a" in scene.names()
    scene.clone_gone("b")
    scene.clone("a", {"Evicted": True})
    assert scene.names() == []
    scene.remote_job("a")
    assert "WinnerReleased a" in scene.names()


@each(
    ("policy", "code", "error", "failures", "starts"),
    [
        ("at-least-once", 500, "InternalError", 1, False),
        ("at-least-once", 429, "TooManyRequests", 2, False),
        ("at-least-once", 409, "Conflict", 3, False),
        ("at-least-once", 500, "InternalError", 3, True),
        ("at-least-once", 403, "Forbidden", 1, True),
        ("never-twice", 500, "InternalError", 9, False),
        ("never-twice", 403, "Forbidden", 9, False),
    ],
)
def test_an_evicted_copy_whose_removal_failed_lets_another_start_only_at_least_once(
    policy: str, code: int, error: str, failures: int, starts: bool
) -> None:
    """Its worker's Kueue may admit it again meanwhile."""
    scene = Scene("a", "b", policy={"execution_policy": policy}).cloned("a", "b").clone("a", {"Admitted": True})
    assert "JobCreation a" in scene.names()
    scene.clone_gone("b").remote_job("a").decide()
    scene.clone("a", {"Evicted": True})
    assert scene.names() == ["WinnerReleased a"]
    assert scene.names() == ["Clone b"]
    scene.clone("b", {"Admitted": True})
    assert scene.names() == ["WinnerChosen b", "Removal Job a"]
    removal = scene.decided[-1]
    assert isinstance(removal, RemovalDecided)
    for number in range(1, failures + 1):
        scene.refuses(removal, code, error, timedelta(minutes=1), number)
    assert ("JobCreation b" in scene.names()) is starts


def test_never_twice_does_not_give_up_a_copy_whose_deletion_was_refused() -> None:
    scene = Scene("a", "b", policy={"execution_policy": "never-twice"}).running("a", "a", "b").tick(seconds=1)
    scene.decide()
    scene.job(status=ONE, inactive=False).clone_gone("a")
    removal = only(scene.decide(), RemovalDecided)
    scene.refuses(removal, 500, "InternalError", timedelta(seconds=1))
    assert scene.names() == []  # it still runs on a


def test_a_copy_that_is_being_removed_is_not_chosen() -> None:
    """`b` lost to `a`, which was evicted before Ready. The removal names the copy and no version: it may be carried out
    at any time, also under a job that is created there meanwhile."""
    scene = Scene("a", "b").cloned("a", "b").clone("a", {"Admitted": True})
    assert scene.names() == ["WinnerChosen a", "Removal Workload b", "JobCreation a"]
    scene.remote_job("a").clone("b", {"Admitted": True}).clone("a", {"Evicted": True})
    assert scene.names() == ["WinnerReleased a"]
    assert scene.names() == []
    scene.clone_gone("b")
    assert scene.names() == ["Clone b"]
    scene.clone("b", {"Admitted": True})
    assert "WinnerChosen b" in scene.names()


def test_a_copy_whose_removal_was_refused_is_chosen() -> None:
    scene = Scene("a", "b").cloned("a", "b").clone("a", {"Admitted": True})
    scene.decide()
    removal = next(one for one in scene.decided if isinstance(one, RemovalDecided))
    scene.clone("b", {"Admitted": True}).clone_gone("a")
    assert "WinnerChosen b" not in scene.names()
    scene.refuses(removal, 403, "Forbidden", timedelta(minutes=1))
    scene.remote_job("a").remote_job_gone("a")
    assert "WinnerReleased a" in scene.names()
    assert "WinnerChosen b" in scene.names()


@pytest.mark.parametrize("told", [False, True], ids=["on its way", "carried out"])
def test_a_copy_that_is_being_deactivated_is_not_chosen(told: bool) -> None:
    """Its Workload was evicted, and has quota again before the copy was stopped."""
    scene = settled().remote_job("a", inactive=True)
    scene.workload({"Evicted": True, "Admitted": False}, check="Pending", cluster_name="").job(suspended=True)
    assert "Deactivation a" in scene.names()
    scene.workload({"QuotaReserved": True, "Evicted": False})
    scene.decide()
    if told:
        scene.clone("a", {"DeactivationTarget": "EvictedOnManagerCluster"})
    scene.workload(nominated=["a"])
    assert not {"WinnerChosen a", "CheckState"} & set(scene.names())
    scene.clone("a", {"Evicted": "Deactivated", "Admitted": False}, active=False)
    assert "Removal Job a" in scene.names()


def test_a_job_that_is_being_removed_is_not_sent_ready() -> None:
    """The copy is admitted; of the attempt before, the removal of its job is on its way."""
    scene = settled().workload(
        {"Evicted": True, "Admitted": False, "QuotaReserved": False}, check="Pending", cluster_name=""
    )
    assert "Removal Job a" in scene.names()
    scene.workload({"QuotaReserved": True, "Evicted": False})
    assert "Nomination" in scene.names()
    scene.workload(nominated=["a"])
    assert scene.names() == []
    scene.remote_job_gone("a")
    assert "WinnerChosen a" not in scene.names()


def test_a_winner_whose_copy_is_being_removed_gets_no_job() -> None:
    """The selection of `a` is carried out late, and counts: the copy on `b`, the winner meanwhile, is to be removed.
    Then the Workload is evicted and has quota again, of which only the last is seen."""
    scene = Scene("a", "b").cloned("a", "b").clone("a", {"Admitted": True})
    scene.decide()
    scene.clone_gone("b").remote_job("a").decide()
    scene.remote_job_gone("a").decide()
    scene.clone("b", {"Admitted": True})
    assert "WinnerChosen b" in scene.names()
    scene.workload(check="Ready", cluster_name="a", nominated=[])
    assert "Removal Workload b" in scene.names()
    scene.workload(check="Pending", cluster_name="", nominated=["b"]).clone_gone("a")
    assert "JobCreation b" not in scene.names()
    scene.clone_gone("b")
    assert "WinnerReleased b" in scene.names()


def test_the_selected_cluster_gets_no_job_while_its_copy_is_being_removed() -> None:
    """The selection of `b` is carried out after `a` won."""
    scene = Scene("a", "b").cloned("a", "b").clone("a", {"Admitted": True})
    assert "Removal Workload b" in scene.names()
    scene.clone("b", {"Admitted": True}).remote_job("a").remote_job_gone("a").clone_gone("a")
    scene.workload(check="Ready", cluster_name="b", nominated=[])
    for _ in range(3):
        assert "JobCreation b" not in scene.names()
    scene.clone_gone("b")
    assert "CheckState" in scene.names()


@pytest.mark.parametrize("reason", ["OutOfSync", "OwnerNotFound"])
def test_a_copy_that_ended_without_a_result_on_a_lost_cluster_is_not_waited_for_for_ever(reason: str) -> None:
    scene = settled("a", "a", "b").clone("a", {"Finished": reason}).remote_job("a", inactive=True)
    assert "CheckState" in scene.names()
    scene.workload({"Evicted": True, "Admitted": False}, check="Pending", cluster_name="").job(suspended=True).lose("a")
    scene.decide()
    scene.job(inactive=True).workload({"QuotaReserved": True, "Evicted": False})
    scene.decide()
    scene.tick(minutes=16)
    scene.decide()
    assert any(isinstance(one, NominationDecided) and one.clusters == ["b"] for one in scene.decided)
