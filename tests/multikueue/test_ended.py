"""A job that has run to its end is not run again because its copy, or its copy's Workload, went away too soon."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.controllers.multikueue.events import FinishDecided, StatusRelayDecided
from controlplane.controllers.multikueue.observations import JobEnd
from controlplane.controllers.multikueue.reasons import WorkloadReason
from tests.multikueue.dispatched import ONE, TWO, only, settled
from tests.multikueue.scene import Scene

ENDED = {"status": TWO, "finished": True, "inactive": True}


def final(scene: Scene) -> StatusRelayDecided:
    (relay,) = scene.decide()
    assert isinstance(relay, StatusRelayDecided)
    assert relay.reason == WorkloadReason.FINAL_STATUS
    return relay


def test_a_copy_that_was_deleted_the_moment_it_ended_has_run() -> None:
    """`ttlSecondsAfterFinished: 0`: the worker deletes it before its Kueue says Finished."""
    scene = settled().remote_job("a", **ENDED).remote_job_gone("a")
    assert (final(scene).source, scene.state.ended) == ("a", {"a": TWO})
    scene.job(status=TWO, finished=True, inactive=True)
    assert scene.names() == [], "Kueue finishes the Workload by its job"
    scene.workload({"Finished": "Succeeded"})
    assert scene.names() == ["Removal Workload a"]


def test_nor_is_it_when_kueue_calls_the_copy_an_orphan() -> None:
    scene = settled().remote_job("a", **ENDED).remote_job_gone("a").clone("a", {"Finished": "OwnerNotFound"})
    assert final(scene).status == TWO


def test_one_that_ended_before_it_was_ready_is_not_given_to_the_next_cluster() -> None:
    scene = Scene("a", "b").cloned("a", "b").clone("a", {"Admitted": True})
    scene.decide()
    scene.remote_job("a", suspended=False, **ENDED).clone("b", {"Admitted": True}).clone_gone("a")
    assert final(scene).source == "a"
    assert scene.names() == []


def test_where_a_job_did_not_end_its_going_is_what_it_was() -> None:
    scene = settled().remote_job_gone("a")
    assert scene.names() == ["CheckState"]


def test_one_that_was_seen_to_end_on_a_cluster_that_is_lost_then_is_not_run_again_by_an_eviction() -> None:
    """The copy was deactivated for the eviction just when its job ended, and nobody can see its Kueue say Finished."""
    scene = settled("a", "a", "b").workload(
        {"Evicted": ("Preempted", "for another"), "Admitted": False}, check="Pending"
    )
    scene.remote_job("a", **ENDED).clone("a", {"Evicted": ("Deactivated", ""), "Admitted": False}, active=False).lose(
        "a"
    )
    assert final(scene).source == "a"
    scene.job(status=TWO, finished=True, inactive=True)
    assert scene.names() == [], "Kueue finishes the Workload by its job"


def test_one_that_finished_is_not_run_again_where_another_cluster_was_chosen_meanwhile() -> None:
    """`a` was given up, is back, and `b` was chosen: then the end on `a` is seen, and `a` is lost again before it is
    told."""
    scene = settled("a", "a", "b").workload({"Evicted": "Preempted", "Admitted": False, "QuotaReserved": False})
    scene.workload({"QuotaReserved": True, "Evicted": False}, check="Pending", cluster_name="").job(suspended=True)
    scene.decide()
    scene.remote_job("a", **ENDED).workload(nominated=["b"]).clone("b", {"Admitted": True})
    scene.decide()
    assert scene.state.winner == "b"
    scene.remote_job_gone("a").clone("a", {"Finished": "Succeeded"}).lose("a")
    assert final(scene).source == "a"
    assert scene.names() == [], "the job is not created on b"


def test_another_clusters_old_end_says_nothing_about_the_job_that_runs() -> None:
    scene = settled("a", "a", "b").remote_job("b", **ENDED)
    scene.decide()
    scene.remote_job_gone("b")
    assert scene.names() == []


def test_another_workload_of_the_name_begins_anew() -> None:
    scene = settled().remote_job("a", **ENDED).remote_job_gone("a")
    scene.workload(uid="another")
    assert scene.state.ended == {}


def test_a_management_cluster_that_was_put_back_does_not_run_again_what_the_log_saw_end() -> None:
    scene = settled().remote_job("a", **ENDED).clone("a", {"Finished": "Succeeded"})
    scene.decide()
    scene.job(status=TWO, finished=True, inactive=True).workload({"Finished": "Succeeded"})
    scene.decide()
    scene.remote_job_gone("a").clone_gone("a")
    scene.job(status=ONE, finished=False, inactive=True, suspended=True)
    scene.workload({"Finished": False, "Admitted": False}, check="Pending", cluster_name="", nominated=[])
    assert final(scene).source == "a"


def test_a_management_cluster_that_was_put_back_to_before_the_jobs_end_is_shown_it_again() -> None:
    """Its Workload had finished by then, and the copy is gone."""
    scene = settled().remote_job("a", **ENDED).clone("a", {"Finished": "Succeeded"})
    assert final(scene).status == TWO
    scene.job(status=TWO, finished=True, inactive=True).workload({"Finished": "Succeeded"})
    scene.decide()
    scene.remote_job_gone("a").decide()
    scene.clone_gone("a")
    assert scene.names() == []
    scene.job(status=ONE, finished=False, inactive=False)
    assert final(scene).status == TWO
    scene.job(status=TWO, finished=True, inactive=True)
    assert scene.names() == []


@pytest.mark.parametrize("seconds", [0, 39])
def test_a_creation_that_was_taken_back_may_still_show(seconds: int) -> None:
    """The Workload lost its quota and has it again; the request is on its way until its client gives it up, and the
    watch of jobs is later than that of Workloads."""
    scene = Scene("a", "b").cloned("a", "b").clone("a", {"Admitted": True})
    assert "JobCreation a" in scene.names()
    scene.workload({"QuotaReserved": False}, nominated=[])
    scene.decide()
    scene.clone_gone("a").workload({"QuotaReserved": True}).tick(seconds=seconds)
    assert scene.names() == []
    assert scene.wake is not None
    scene.tick(seconds=41)
    assert "Nomination" in scene.names(), "it was never created"


def test_the_selected_cluster_waits_for_the_job_that_another_one_got_meanwhile() -> None:
    """The selection of `a` is stored after `a` lost its copy and `b` was chosen."""
    scene = Scene("a", "b").cloned("a", "b").clone("a", {"Admitted": True})
    scene.decide()
    scene.remote_job("a").decide()
    scene.clone_gone("b").remote_job_gone("a").clone_gone("a")
    for _ in range(2):
        scene.decide()
    scene.clone("b", {"Admitted": True}).decide()
    assert scene.state.winner == "b"
    scene.workload(check="Ready", cluster_name="a", nominated=[]).clone("a", {"Admitted": True, "Evicted": False})
    assert "JobCreation a" not in scene.names()
    scene.remote_job("b", suspended=False)
    assert "JobCreation a" not in scene.names()


def forbidden(scene: Scene) -> Scene:
    """The last status is forbidden three times, and the Workload is finished without it."""
    for failures in (1, 2, 3):
        scene.refuses(final(scene), 403, "Forbidden", timedelta(seconds=1), failures)
        scene.tick(seconds=1)
    assert scene.names() == ["Finish"]
    return scene.workload({"Finished": "Succeeded"})


def test_a_last_status_that_was_forbidden_is_written_once_the_right_to_is_back() -> None:
    """The Workload is finished without it, and somebody has removed the copy: nobody but the log knows how the job
    ended."""
    scene = forbidden(settled().remote_job("a", **ENDED).clone("a", {"Finished": "Succeeded"}))
    scene.remote_job_gone("a").clone_gone("a")
    assert scene.names() == []
    assert scene.wake is not None
    scene.now = scene.wake
    assert final(scene).status == TWO
    scene.job(status=TWO, finished=True, inactive=True)
    assert scene.names() == []


def test_a_copy_whose_last_status_was_forbidden_stays_until_it_is_written() -> None:
    """A log that goes back may not have seen it: nobody would know it then."""
    scene = forbidden(settled().remote_job("a", **ENDED).clone("a", {"Finished": "Succeeded"}))
    for failures in (4, 5):
        assert scene.names() == []
        assert scene.wake is not None
        scene.now = scene.wake
        scene.refuses(final(scene), 403, "Forbidden", timedelta(minutes=5), failures)
    assert scene.names() == []
    scene.now = scene.wake
    assert final(scene).status == TWO
    scene.job(status=TWO, finished=True, inactive=True)
    assert scene.names() == ["Removal Job a"]


def test_a_copy_whose_last_status_was_forbidden_does_not_outlive_its_job() -> None:
    scene = forbidden(settled().remote_job("a", **ENDED).clone("a", {"Finished": "Succeeded"}))
    assert scene.names() == []
    scene.job(deleting=True)
    assert scene.names() == ["Removal Job a"]


def test_a_copy_whose_last_status_does_not_fit_goes() -> None:
    """What the API server finds wrong with a status stays wrong."""
    scene = settled().remote_job("a", **ENDED).clone("a", {"Finished": "Succeeded"})
    for failures in (1, 2, 3):
        scene.refuses(final(scene), 422, "Invalid", timedelta(seconds=1), failures)
        scene.tick(seconds=1)
    assert scene.names() == ["Finish"]
    scene.workload({"Finished": "Succeeded"})
    assert scene.names() == ["Removal Job a"]


@pytest.mark.parametrize("policy", ["at-least-once", "never-twice"])
@pytest.mark.parametrize(("code", "error"), [(403, "Forbidden"), (422, "Invalid"), (404, "NotFound")])
@pytest.mark.parametrize("success", [True, False])
def test_a_job_whose_last_status_is_refused_is_not_run_again_where_its_copy_is_gone(
    policy: str, code: int, error: str, success: bool
) -> None:
    """It had `ttlSecondsAfterFinished: 0`: nobody but the log knows how it ended."""
    scene = settled().job(execution_policy=policy)
    scene.remote_job("a", **ENDED, end=JobEnd(success=success, message="as its last condition says"))
    scene.remote_job_gone("a")
    for failures in (1, 2, 3):
        scene.refuses(final(scene), code, error, timedelta(seconds=1), failures)
        scene.tick(seconds=1)
    finish = only(scene.decide(), FinishDecided)
    reason = "Succeeded" if success else "Failed"
    assert (finish.source, finish.finish_reason, finish.message) == ("a", reason, "as its last condition says")
    scene.workload({"Finished": reason})
    assert scene.names() == ["Removal Workload a"]
    scene.clone_gone("a").tick(hours=1)
    assert scene.names() == (["StatusRelay"] if code == 403 else [])


@pytest.mark.parametrize("told", [False, True])
def test_one_whose_last_status_is_nowhere_any_more_is_finished_without_it(told: bool) -> None:
    """The log keeps no status of more than 64 KiB: after a restart nobody has that of a copy that is gone. A write
    whose content is nowhere meets a conflict, and so does one to a job that changes all the time."""
    scene = settled().remote_job("a", **ENDED, end=JobEnd(success=True, message="done")).remote_job_gone("a")
    if told:
        scene.clone("a", {"Finished": ("Succeeded", "done")})
    begun = scene.now
    for failures in range(1, 100):
        if "Finish" in (names := scene.names()):
            break
        if names == ["StatusRelay"]:
            relay = scene.decided[-1]
            assert isinstance(relay, StatusRelayDecided)
            scene.refuses(relay, 409, "Conflict", timedelta(seconds=8), failures)
        assert scene.wake is not None or names
        scene.tick(seconds=8)
    assert scene.now - begun >= timedelta(minutes=10)
    finish = scene.decided[-1]
    assert isinstance(finish, FinishDecided)
    assert (finish.finish_reason, finish.message) == ("Succeeded", "done")
