"""A Workload whose copy has ended, or cannot be used any more: finished, rejected, put out of sync."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.controllers.connectivity.events import ClusterForgotten
from controlplane.controllers.multikueue.events import (
    ClusterRefused,
    EffectFailed,
    FinishDecided,
    RemovalDecided,
    StatusRelayDecided,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from tests.multikueue.dispatched import GONE, ONE, TWO, only, retry, settled
from tests.multikueue.scene import STREAM, Scene

GONE_BACK = "44" * 32


def test_a_last_status_that_comes_after_all_patience_is_still_written_before_the_copy_goes() -> None:
    scene = settled().clone("a", {"Finished": ("Succeeded", "done")})
    assert scene.names() == []
    scene.tick(seconds=31)
    assert scene.names() == ["Finish"]
    scene.workload({"Finished": ("Succeeded", "done")})
    assert scene.names() == ["Removal Job a"]
    # It is refused, since the job has changed since it was seen; then the change comes.
    scene.remote_job("a", status=TWO, finished=True, inactive=True)
    relay = only(scene.decide(), StatusRelayDecided)
    assert (relay.status, relay.reason) == (TWO, WorkloadReason.FINAL_STATUS)
    scene.job(status=TWO, finished=True, inactive=True)
    assert scene.names() == ["Removal Job a"]


@pytest.mark.parametrize("code", [409, 429, 500])
def test_a_server_that_is_in_the_way_of_the_last_status_is_waited_for(code: int) -> None:
    scene = (
        settled().remote_job("a", status=TWO, finished=True, inactive=True).clone("a", {"Finished": ("Succeeded", "")})
    )
    for failures in range(1, 8):
        assert scene.names() == ["StatusRelay"]
        event = EffectFailed(
            target="@management/Job",
            action="StatusRelayDecided",
            code=code,
            error="",
            message="",
            failures=failures,
            retry_at=scene.now,
        )
        scene.fold(STREAM, event)


@pytest.mark.parametrize(
    ("reason", "message"), [("Succeeded", "Job finished successfully"), ("Failed", "Job has reached the backoff limit")]
)
def test_the_status_comes_before_finished_and_then_the_copies_go(reason: str, message: str) -> None:
    scene = settled()
    scene.remote_job("a", status=TWO, finished=True, inactive=True).clone("a", {"Finished": (reason, message)})
    assert scene.names() == ["StatusRelay"]
    assert scene.names() == []
    scene.job(status=TWO, finished=True, inactive=True)
    assert scene.names() == []  # Kueue's core finishes the Workload of a job that has finished
    scene.tick(seconds=1)
    finish = only(scene.decide(), FinishDecided)
    assert (finish.finish_reason, finish.message, finish.source) == (reason, message, "a")
    assert scene.names() == []
    scene.workload({"Finished": (reason, message)})
    assert scene.names() == ["Removal Job a"]
    scene.remote_job_gone("a")
    assert scene.names() == ["Removal Workload a"]
    scene.clone_gone("a")
    assert scene.names() == []


def test_a_workload_whose_copy_finished_waits_for_the_last_status_of_its_job() -> None:
    # Workloads and jobs are two watches: the Workload's Finished may arrive first. Without the job's last status the
    # user's job would stay as it last was for ever, because the copy is deleted as soon as the Workload is finished.
    scene = settled().clone("a", {"Finished": ("Succeeded", "done")})
    assert scene.names() == []
    scene.remote_job("a", status=TWO, finished=True, inactive=True)
    assert scene.names() == ["StatusRelay"]
    scene.job(status=TWO, finished=True, inactive=True).tick(seconds=1)
    assert scene.names() == ["Finish"]


def test_the_last_status_of_a_job_on_a_lost_cluster_is_waited_for_as_long_as_its_grace() -> None:
    scene = settled().clone("a", {"Finished": ("Succeeded", "done")}).lose("a")
    assert scene.names() == []
    assert scene.wake == scene.now + timedelta(minutes=15)
    scene.tick(minutes=15)
    assert scene.names() == ["Finish"]  # its quota is free again, though nobody saw the job's last status
    scene.workload({"Finished": ("Succeeded", "done")})
    assert scene.names() == []
    scene.connect("a").remote_job("a", status=TWO, finished=True, inactive=True)
    assert scene.names() == ["CopyJudged a", "StatusRelay"]


def test_under_never_twice_too_an_operator_ends_the_wait_for_the_last_status_of_a_job() -> None:
    scene = settled().job(status=ONE, inactive=False, execution_policy="never-twice")
    scene.clone("a", {"Finished": ("Succeeded", "done")}).lose("a").tick(hours=5)
    assert scene.names() == []
    scene.fold("cluster/a", ClusterForgotten(by="an operator"))
    assert scene.names() == ["Finish"]


def test_a_job_that_has_ended_is_not_shown_to_run_again_when_its_worker_is_put_back_to_before_its_end() -> None:
    scene = settled().remote_job("a", status=TWO, finished=True, inactive=True)
    assert scene.names() == ["StatusRelay"]
    scene.job(status=TWO, finished=True, inactive=True).remote_job(
        "a", status=GONE_BACK, finished=False, inactive=False
    )
    scene.tick(minutes=1)
    assert [one for one in scene.decide() if isinstance(one, StatusRelayDecided)] == []


def test_a_workload_that_kueues_core_finishes_is_not_written_a_second_time() -> None:
    scene = settled().remote_job("a", status=TWO, finished=True, inactive=True)
    scene.clone("a", {"Finished": ("Succeeded", "done")}).decide()
    scene.job(status=TWO, finished=True, inactive=True)
    assert scene.names() == []
    assert scene.wake == scene.now + timedelta(seconds=1)
    scene.workload({"Finished": ("Succeeded", "done")})
    assert scene.names() == ["Removal Job a"]


def test_a_final_status_that_is_refused_again_and_again_does_not_hold_the_result_up() -> None:
    scene = settled()
    scene.remote_job("a", status=TWO, finished=True, inactive=True).clone("a", {"Finished": ("Succeeded", "done")})
    for failures in (1, 2, 3):
        assert scene.names() == ["StatusRelay"]
        event = EffectFailed(
            target="@management/Job",
            action="StatusRelayDecided",
            code=422,
            error="Invalid",
            message="status: Invalid value",
            failures=failures,
            retry_at=scene.now,
        )
        scene.fold(STREAM, event)
    assert scene.names() == ["Finish"]


def test_a_finished_copy_of_which_the_job_is_gone_finishes_the_workload() -> None:
    scene = settled().remote_job_gone("a").clone("a", {"Finished": ("Succeeded", "done")})
    assert scene.names() == ["Finish"]


def test_a_copy_known_to_have_finished_counts_though_its_cluster_is_lost_now() -> None:
    scene = settled().remote_job("a", status=TWO, finished=True, inactive=True)
    scene.clone("a", {"Finished": ("Succeeded", "done")}).lose("a")
    assert scene.names() == ["StatusRelay"]
    scene.job(status=TWO, finished=True)
    scene.tick(seconds=1)
    assert scene.names() == ["Finish"]


def test_a_copy_that_finished_elsewhere_does_not_finish_a_pinned_workload() -> None:
    scene = settled("a", "a", "b").clone("b", {"Finished": ("Succeeded", "done")})
    assert scene.names() == ["Removal Workload b"]


def test_out_of_sync_after_ready_is_retried_with_kueues_words() -> None:
    scene = settled().clone("a", {"Finished": ("OutOfSync", "The prebuilt workload is out of sync with its user job")})
    decision = retry(scene.decide())
    assert decision.message == (
        'Remote workload on worker cluster "a" is out of sync with its user job, resetting for re-dispatch, '
        'Previously: "Ready"'
    )
    assert decision.reason == WorkloadReason.OUT_OF_SYNC


def test_out_of_sync_before_ready_leaves_the_cluster_out_and_does_not_wedge() -> None:
    scene = Scene("a", "b").cloned("a", "b")
    scene.clone("a", {"Finished": ("OutOfSync", "The prebuilt workload is out of sync with its user job")})
    refused, removal = scene.decide()
    assert isinstance(refused, ClusterRefused)
    assert (refused.cluster, refused.reason) == ("a", WorkloadReason.OUT_OF_SYNC)
    assert isinstance(removal, RemovalDecided)
    assert (removal.cluster, removal.of) == ("a", "Workload")
    scene.clone_gone("a").clone("b", {"Admitted": True})
    names = scene.names()
    assert "WinnerChosen b" in names
    assert "JobCreation b" in names


def test_out_of_sync_again_after_the_pause_is_refused_again() -> None:
    scene = Scene("a").cloned("a").clone("a", {"Finished": ("OutOfSync", "differs")})
    assert scene.names() == ["ClusterRefused a", "Removal Workload a"]
    scene.clone_gone("a").tick(minutes=6)
    assert scene.names() == ["Clone a"]
    scene.clone("a", {"Finished": ("OutOfSync", "differs")})
    assert scene.names() == ["ClusterRefused a", "Removal Workload a"]


def test_rejection_again_after_the_pause_is_refused_again() -> None:
    scene = Scene("a").cloned("a").clone("a", {"Evicted": ("Deactivated", "no")}, active=False)
    assert scene.names()[0] == "ClusterRefused a"
    scene.decide()
    scene.clone_gone("a").workload(nominated=["a"]).tick(minutes=6)
    assert scene.names() == ["Clone a"]
    scene.clone("a", {"Evicted": ("Deactivated", "no")}, active=False)
    assert scene.names()[0] == "ClusterRefused a"


def test_owner_not_found_is_queued_again_not_finished() -> None:
    scene = settled().remote_job_gone("a").clone("a", {"Finished": ("OwnerNotFound", "The owner is gone")})
    assert retry(scene.decide()).message == GONE


def test_owner_not_found_before_ready_removes_the_copy() -> None:
    scene = Scene("a").cloned("a").clone("a", {"Finished": ("OwnerNotFound", "The owner is gone")})
    assert scene.names() == ["Removal Workload a"]
