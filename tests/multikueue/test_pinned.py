"""The winner is pinned: what comes back, or was never answered, does not take its place."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.controllers.multikueue.events import CheckStateDecided, RemovalDecided, WinnerChosen
from tests.multikueue.dispatched import LOST, ONE, THREE, TWO, only, restart, retry, settled
from tests.multikueue.scene import STREAM, Scene


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


@pytest.mark.parametrize(
    ("policy", "code", "error", "failures", "starts"),
    [
        ("at-least-once", 500, "InternalError", 1, False),
        ("at-least-once", 429, "TooManyRequests", 2, False),
        ("at-least-once", 409, "Conflict", 3, False),
        ("at-least-once", 500, "InternalError", 3, True),
        ("at-least-once", 403, "Forbidden", 1, True),
        ("never-twice", 500, "InternalError", 9, False),
        ("never-twice", 403, "Forbidden", 1, True),
    ],
)
def test_an_evicted_copy_whose_removal_failed_lets_another_start_only_when_it_was_refused(
    policy: str, code: int, error: str, failures: int, starts: bool
) -> None:
    """Its worker's Kueue may admit it again meanwhile."""
    scene = Scene("a", "b", policy={"execution_policy": policy}).cloned("a", "b").clone("a", {"Admitted": True})
    assert "JobCreation a" in scene.names()
    scene.clone("b", {"Admitted": True}).remote_job("a").decide()
    scene.clone("a", {"Evicted": True})
    assert scene.names() == ["WinnerReleased a"]
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
