"""A Workload is taken back from its cluster: its copy is gone, evicted, or out of reach for longer than the grace."""

from __future__ import annotations

from datetime import timedelta

from controlplane.controllers.connectivity.events import ClusterConnectFailed, cluster_stream
from controlplane.controllers.multikueue.events import CheckStateDecided, NominationDecided, RemovalDecided
from controlplane.controllers.multikueue.observations import MultiKueueClusterGone
from controlplane.controllers.multikueue.reasons import WorkloadReason
from tests.multikueue.dispatched import GONE, LOST, only, restart, retry, settled


def test_a_job_that_vanished_on_its_worker_is_retried() -> None:
    assert retry(settled().remote_job_gone("a").decide()).message == GONE


def test_a_clone_that_vanished_is_retried_after_its_job_is_gone() -> None:
    scene = settled().clone_gone("a")
    assert scene.names() == ["Removal Job a"]
    scene.remote_job_gone("a")
    decision = retry(scene.decide())
    assert (decision.message, decision.reason) == (GONE, WorkloadReason.REMOTE_GONE)


def test_a_worker_that_evicted_its_copy_is_named() -> None:
    decision = retry(settled().clone("a", {"Evicted": ("Preempted", "for another")}).decide())
    assert (
        decision.message == 'Workload evicted on worker cluster: "a", resetting for re-admission. Previously: "Ready"'
    )
    assert decision.reason == WorkloadReason.REMOTE_EVICTED


def test_a_missing_cluster_name_is_reported() -> None:
    scene = settled().clone("a", {"Admitted": False}).workload(cluster_name="")
    assert retry(scene.decide()).message == (
        "Admission check is Ready but no admitting cluster is recorded; this is unexpected, please report it, "
        'Previously: "Ready"'
    )


def test_a_cluster_name_that_somebody_removed_is_written_again_and_nothing_stops() -> None:
    scene = settled().workload(cluster_name="")
    (nomination,) = scene.decide()
    assert isinstance(nomination, NominationDecided)
    assert (nomination.clusters, nomination.attempt) == (["a"], scene.state.attempt)
    (ready,) = scene.workload(nominated=["a"]).decide()
    assert isinstance(ready, CheckStateDecided)
    assert (ready.state, ready.winner) == ("Ready", "a")
    assert scene.workload(cluster_name="a", nominated=[]).names() == []


def test_a_workload_without_its_cluster_name_is_taken_back_when_its_worker_stays_away() -> None:
    scene = settled().workload(cluster_name="")
    scene.decide()
    scene.workload(nominated=["a"]).lose("a")
    assert scene.names() == []
    scene.tick(minutes=15)
    assert retry(scene.decide()).reason == WorkloadReason.REMOTE_LOST


def test_a_lost_worker_keeps_its_workload_until_the_timeout() -> None:
    scene = settled().lose("a")
    lost_at = scene.now
    for _ in range(14):
        scene.tick(minutes=1)
        assert scene.names() == []
        assert scene.wake == lost_at + timedelta(minutes=15)
    scene.tick(seconds=59)
    assert scene.names() == []
    scene.tick(seconds=1)
    decision = retry(scene.decide())
    assert (decision.message, decision.reason) == (LOST, WorkloadReason.REMOTE_LOST)


def test_a_worker_that_is_back_in_time_goes_on_as_if_nothing_had_been() -> None:
    scene = settled().lose("a").tick(minutes=14).connect("a").tick(minutes=30)
    assert scene.names() == ["CopyJudged a"]
    assert scene.names() == []


def test_a_flapping_worker_starts_its_clock_anew() -> None:
    scene = settled().lose("a").tick(minutes=10).connect("a").lose("a").tick(minutes=10)
    assert scene.names() == []


def test_failed_attempts_to_reconnect_do_not_move_the_clock() -> None:
    scene = settled().lose("a")
    for attempt in range(1, 15):
        scene.tick(minutes=1)
        failed = ClusterConnectFailed(reason="ClientConnectionFailed", message="refused", attempt=attempt)
        scene.fold(cluster_stream("a"), failed, "a")
        assert scene.names() == []
    scene.tick(minutes=1)
    assert retry(scene.decide()).message == LOST


def test_the_clock_of_each_cluster_is_its_own_and_survives_a_restart() -> None:
    scene = settled("a", "a", "b").lose("b").tick(minutes=5).lose("a").tick(minutes=14)
    restart(scene)
    refused = ClusterConnectFailed(reason="ClientConnectionFailed", message="refused", attempt=1)
    scene.fold(cluster_stream("a"), refused, "a")
    assert scene.names() == []
    scene.tick(minutes=1)
    assert retry(scene.decide()).message == LOST


def test_a_restart_waits_for_the_first_attempt_to_connect() -> None:
    scene = restart(settled()).tick(minutes=14)
    assert scene.names() == []
    failed = ClusterConnectFailed(reason="ClientConnectionFailed", message="refused", attempt=1)
    scene.fold(cluster_stream("a"), failed, "a")
    assert scene.names() == []
    scene.tick(minutes=15)
    assert retry(scene.decide()).message == LOST


def test_a_deleted_cluster_that_is_still_in_the_config_ends_in_retry_after_the_grace() -> None:
    scene = settled().disconnect("a")
    scene.fold(cluster_stream("a"), MultiKueueClusterGone(name="a", uid="mkc-a"))
    scene.tick(minutes=14)
    assert scene.names() == []
    restart(scene).tick(minutes=1)
    assert retry(scene.decide()).message == LOST


def test_a_cluster_deleted_shortly_before_a_crash_ends_in_retry_too() -> None:
    # Its deletion is in the log, the disconnection that follows from it is not: the process was killed in between.
    # Nobody will ever try to connect to it again, so waiting for the first attempt would be waiting for ever.
    scene = settled()
    scene.fold(cluster_stream("a"), MultiKueueClusterGone(name="a", uid="mkc-a"))
    restart(scene)
    assert scene.names() == []
    scene.tick(minutes=16)
    assert retry(scene.decide()).message == LOST


def test_a_cluster_that_left_the_config_gives_its_copy_up_before_the_retry() -> None:
    scene = settled("a", "a", "b")
    scene.config("b")
    removal = only(scene.decide(), RemovalDecided)
    assert (removal.cluster, removal.of, removal.reason) == ("a", "Job", WorkloadReason.NOT_NOMINATED)
    assert scene.names() == []
    scene.remote_job_gone("a")
    assert retry(scene.decide()).message == GONE


def test_a_cluster_that_left_the_config_and_will_not_delete_its_copy_does_not_hold_the_workload() -> None:
    scene = settled()
    scene.config("b")
    removal = only(scene.decide(), RemovalDecided)
    scene.refuses(removal, 403, "Forbidden", timedelta(minutes=5))
    assert retry(scene.decide()).message == GONE
