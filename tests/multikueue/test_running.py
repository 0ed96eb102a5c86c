"""A Workload that has its cluster: status, the end, and every way back into the queue (specs 2.5 steps 3, 4 and 6, 5.1, and section 9)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    ClusterConnectFailed,
    ServiceStarted,
    cluster_stream,
)
from controlplane.kube import JOBSETS
from controlplane.log.event import Event
from controlplane.multikueue.events import (
    CheckStateDecided,
    ClusterRefused,
    EffectFailed,
    EffectUnneeded,
    FinishDecided,
    JobObserved,
    MultiKueueClusterGone,
    Owner,
    RemovalDecided,
    StatusRelayDecided,
    WinnerChosen,
)
from controlplane.multikueue.reasons import Reason
from controlplane.multikueue.state import Effect
from tests.multikueue.scene import CHECK, HOME_KINDS, JOB, NS, STREAM, Scene, stamp

ONE, TWO, THREE = "11" * 32, "22" * 32, "33" * 32
GONE = 'Admitting remote no longer exists, Previously: "Ready"'
LOST = 'Admitting remote lost, Previously: "Ready"'


def only(decisions: list[Event], kind: type[Any]) -> Any:
    """The one decision there is, of this kind."""
    assert [type(decision) for decision in decisions] == [kind]
    return decisions[0]


def retry(decisions: list[Event]) -> CheckStateDecided:
    decision: CheckStateDecided = only(decisions, CheckStateDecided)
    assert (decision.state, decision.check) == ("Retry", CHECK)
    return decision


def settled(winner: str = "a", *clusters: str) -> Scene:
    """Running, with the status of its copy written to the user's job."""
    scene = Scene(*(clusters or (winner,))).running(winner, *clusters)
    scene.tick(seconds=1)
    assert scene.names() == ["StatusRelay"]
    scene.job(status=ONE, inactive=False)
    assert scene.names() == []
    return scene


def restart(scene: Scene) -> Scene:
    """Another process takes the log over, and sees the management cluster again."""
    scene.fold("service", ServiceStarted(epoch=2, holder="next", version="1"))
    assert not scene.fleet.index.ready
    home = ClusterConnected(kinds=[kind.name for kind in HOME_KINDS])
    scene.fold(cluster_stream(MANAGEMENT), home)
    return scene


# --- status ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("local_suspended", "remote_suspended", "remote_finished", "copied"),
    [
        (False, False, False, True),
        (False, True, False, True),
        (False, False, True, True),
        (True, True, False, True),
        (True, False, True, True),
        (True, True, True, True),
        (True, False, False, False),
    ],
)
def test_when_the_status_of_a_job_is_copied(
    local_suspended: bool, remote_suspended: bool, remote_finished: bool, copied: bool
) -> None:
    scene = Scene("a").running("a").tick(seconds=2)
    scene.job(suspended=local_suspended)
    scene.remote_job("a", suspended=remote_suspended, finished=remote_finished)
    relay = only(scene.decide(), StatusRelayDecided)
    if copied:
        assert (relay.status, relay.source, relay.mark_suspended) == (ONE, "a", False)
    else:
        assert (relay.status, relay.mark_suspended) == ("00" * 32, True)


def test_a_suspended_job_is_marked_once_and_gets_the_status_when_it_is_started() -> None:
    scene = Scene("a").running("a").tick(seconds=2).job(suspended=True)
    assert only(scene.decide(), StatusRelayDecided).mark_suspended
    scene.job(status=TWO, says_suspended=True).tick(seconds=5)
    assert scene.names() == []
    scene.job(suspended=False)
    assert only(scene.decide(), StatusRelayDecided).status == ONE


@pytest.mark.parametrize("local_suspended", [False, True])
@pytest.mark.parametrize("remote_suspended", [False, True])
@pytest.mark.parametrize("remote_finished", [False, True])
def test_the_status_of_a_jobset_is_always_copied(
    local_suspended: bool, remote_suspended: bool, remote_finished: bool
) -> None:
    scene = Scene("a")
    jobset: dict[str, Any] = {"namespace": NS, "name": JOB, "uid": "job-uid", "kind": JOBSETS.name}
    seen: dict[str, Any] = {"managed_by": "kueue.x-k8s.io/multikueue", "template": "aa" * 32, "status": "00" * 32}

    def local(version: str, **changes: Any) -> None:
        event = JobObserved(**jobset, resource_version=version, **{**seen, **changes})
        scene.fold(f"job/{JOBSETS.name}/{NS}/{JOB}", event)

    local("1", suspended=True)
    owner = Owner(api_version=JOBSETS.api_version, kind="JobSet", name=JOB, uid="job-uid")
    scene.workload({"QuotaReserved": True}, owner=owner)
    assert scene.names() == ["Nomination"]
    scene.workload(nominated=["a"])
    assert scene.names() == ["Clone a"]
    scene.clone("a", {"QuotaReserved": True, "Admitted": True})
    assert scene.names() == ["WinnerChosen a", "JobCreation a"]
    scene.remote_job("a", kind=JOBSETS.name, suspended=True)
    assert scene.names() == ["CheckState"]
    scene.workload({"Admitted": True}, check="Ready", cluster_name="a", nominated=[]).tick(seconds=2)
    local("2", suspended=local_suspended)
    scene.remote_job("a", suspended=remote_suspended, finished=remote_finished, status=ONE)
    relay = only(scene.decide(), StatusRelayDecided)
    assert (relay.status, relay.kind, relay.mark_suspended) == (ONE, JOBSETS.name, False)


def test_many_changes_are_few_writes_and_the_last_one_is_right() -> None:
    scene = settled()
    written, current = [], ""
    for change in range(100):
        scene.tick(milliseconds=50)
        current = f"{change + 256:064x}"
        scene.remote_job("a", status=current)
        for decision in scene.decide():
            assert isinstance(decision, StatusRelayDecided)
            written.append(decision.status)
            scene.job(status=decision.status)
    assert 4 <= len(written) <= 6
    scene.now = scene.wake or scene.now
    written += [only(scene.decide(), StatusRelayDecided).status] if written[-1] != current else []
    scene.job(status=written[-1])
    assert written[-1] == current
    assert scene.names() == []


def test_a_change_within_the_interval_wakes_exactly_at_its_end() -> None:
    scene = settled()
    relayed_at = scene.state.relayed_at
    scene.tick(milliseconds=100).remote_job("a", status=TWO)
    assert scene.names() == []
    assert relayed_at is not None
    assert scene.wake == relayed_at + scene.fleet.policy.status_interval


def test_an_interval_of_nothing_copies_every_change() -> None:
    scene = Scene("a", policy={"status_interval": timedelta(0)}).running("a")
    for status in (ONE, TWO, THREE):
        scene.remote_job("a", status=status)
        assert only(scene.decide(), StatusRelayDecided).status == status
        scene.job(status=status)


def test_the_final_status_does_not_wait_for_the_interval() -> None:
    scene = settled().remote_job("a", status=TWO, finished=True, inactive=True)
    relay = only(scene.decide(), StatusRelayDecided)
    assert (relay.status, relay.reason) == (TWO, Reason.FINAL_STATUS)


def test_a_change_while_a_write_is_open_waits_for_it_and_is_then_written() -> None:
    scene = settled().tick(seconds=1).remote_job("a", status=TWO)
    assert scene.names() == ["StatusRelay"]
    scene.tick(seconds=1).remote_job("a", status=THREE)
    assert scene.names() == []
    scene.job(status=TWO)
    assert only(scene.decide(), StatusRelayDecided).status == THREE


def test_a_status_that_the_server_stores_in_its_own_words_is_not_written_again() -> None:
    scene = settled().tick(seconds=1).remote_job("a", status=TWO)
    scene.decide()
    scene.job(status="ab" * 32).tick(seconds=5)
    assert scene.names() == []


def test_a_status_write_that_met_a_conflict_is_decided_anew() -> None:
    scene = settled().tick(seconds=1).remote_job("a", status=TWO)
    before = only(scene.decide(), StatusRelayDecided)
    scene.job(managed_by="kueue.x-k8s.io/multikueue").tick(seconds=1)
    after = only(scene.decide(), StatusRelayDecided)
    assert (before.status, after.status) == (TWO, TWO)
    assert before.resource_version != after.resource_version


def test_a_status_write_that_changed_nothing_is_not_repeated() -> None:
    scene = settled().tick(seconds=1).remote_job("a", status=TWO)
    decision = only(scene.decide(), StatusRelayDecided)
    event = EffectUnneeded(
        target=decision.target, action="StatusRelayDecided", resource_version=decision.resource_version
    )
    scene.fold(STREAM, event)
    scene.tick(seconds=5)
    assert scene.names() == []
    assert scene.fleet.open_writes(STREAM) == []


def test_the_status_of_a_job_that_is_being_deleted_is_left_alone() -> None:
    scene = settled().tick(seconds=1).job(deleting=True).remote_job("a", status=TWO)
    assert scene.names() == []


def test_a_status_equal_to_the_one_of_an_attempt_before_is_written_again() -> None:
    scene = settled().lose("a").tick(minutes=16)
    retry(scene.decide())
    scene.workload({"Evicted": True}, check="Pending", cluster_name="").job(suspended=True)
    drain = only(scene.decide(), StatusRelayDecided)
    assert drain.drain
    scene.job(status=TWO, inactive=True)
    scene.workload({"QuotaReserved": False, "Admitted": False}).connect("a")
    scene.decide()
    scene.remote_job_gone("a")
    scene.decide()
    scene.clone_gone("a").workload({"QuotaReserved": True, "Evicted": False})
    scene.running("a").tick(seconds=2)
    assert only(scene.decide(), StatusRelayDecided).status == ONE


# --- the end ---------------------------------------------------------------------------------------------------------


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
    assert (relay.status, relay.reason) == (TWO, Reason.FINAL_STATUS)
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
    # Workloads and jobs are two watches: the Workload's Finished may arrive first. Without the job's last status the user's job would
    # stay as it last was for ever, because the copy is deleted as soon as the Workload is finished.
    scene = settled().clone("a", {"Finished": ("Succeeded", "done")})
    assert scene.names() == []
    scene.remote_job("a", status=TWO, finished=True, inactive=True)
    assert scene.names() == ["StatusRelay"]
    scene.job(status=TWO, finished=True, inactive=True)
    assert scene.names() == ["Finish"]


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
    assert scene.names() == ["Finish"]


def test_a_copy_that_finished_elsewhere_does_not_finish_a_pinned_workload() -> None:
    scene = settled("a", "a", "b").clone("b", {"Finished": ("Succeeded", "done")})
    assert scene.names() == ["Removal Workload b"]


# --- out of sync, owner not found --------------------------------------------------------------------------------------


def test_out_of_sync_after_ready_is_retried_with_kueues_words() -> None:
    scene = settled().clone("a", {"Finished": ("OutOfSync", "The prebuilt workload is out of sync with its user job")})
    decision = retry(scene.decide())
    assert decision.message == (
        'Remote workload on worker cluster "a" is out of sync with its user job, resetting for re-dispatch, '
        'Previously: "Ready"'
    )
    assert decision.reason == Reason.OUT_OF_SYNC


def test_out_of_sync_before_ready_leaves_the_cluster_out_and_does_not_wedge() -> None:
    scene = Scene("a", "b").cloned("a", "b")
    scene.clone("a", {"Finished": ("OutOfSync", "The prebuilt workload is out of sync with its user job")})
    refused, removal = scene.decide()
    assert isinstance(refused, ClusterRefused)
    assert (refused.cluster, refused.reason) == ("a", Reason.OUT_OF_SYNC)
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


# --- gone, evicted, lost -------------------------------------------------------------------------------------------------


def test_a_job_that_vanished_on_its_worker_is_retried() -> None:
    assert retry(settled().remote_job_gone("a").decide()).message == GONE


def test_a_clone_that_vanished_is_retried_after_its_job_is_gone() -> None:
    scene = settled().clone_gone("a")
    assert scene.names() == ["Removal Job a"]
    scene.remote_job_gone("a")
    decision = retry(scene.decide())
    assert (decision.message, decision.reason) == (GONE, Reason.REMOTE_GONE)


def test_a_worker_that_evicted_its_copy_is_named() -> None:
    decision = retry(settled().clone("a", {"Evicted": ("Preempted", "for another")}).decide())
    assert (
        decision.message == 'Workload evicted on worker cluster: "a", resetting for re-admission. Previously: "Ready"'
    )
    assert decision.reason == Reason.REMOTE_EVICTED


def test_a_missing_cluster_name_is_reported() -> None:
    scene = settled().workload(cluster_name="")
    assert retry(scene.decide()).message == (
        "Admission check is Ready but no admitting cluster is recorded; this is unexpected, please report it, "
        'Previously: "Ready"'
    )


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
    assert (decision.message, decision.reason) == (LOST, Reason.REMOTE_LOST)


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
    # Its deletion is in the log, the disconnection that follows from it is not: the process was killed in between. Nobody will ever try
    # to connect to it again, so waiting for the first attempt would be waiting for ever.
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
    assert (removal.cluster, removal.of, removal.reason) == ("a", "Job", Reason.NOT_NOMINATED)
    assert scene.names() == []
    scene.remote_job_gone("a")
    assert retry(scene.decide()).message == GONE


def test_a_cluster_that_left_the_config_and_will_not_delete_its_copy_does_not_hold_the_workload() -> None:
    scene = settled()
    scene.config("b")
    removal = only(scene.decide(), RemovalDecided)
    event = EffectFailed(
        target=removal.target,
        action="RemovalDecided",
        code=403,
        error="Forbidden",
        message="jobs is forbidden",
        failures=1,
        retry_at=scene.now + timedelta(minutes=5),
    )
    scene.fold(STREAM, event)
    assert retry(scene.decide()).message == GONE


# --- the winner is pinned -----------------------------------------------------------------------------------------------


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
    assert scene.names() == ["Nomination"]
    scene.workload(nominated=["b"])
    assert scene.names() == ["Clone b"]
    scene.clone("b", {"QuotaReserved": True, "Admitted": True})
    assert scene.names() == ["WinnerChosen b", "JobCreation b"]
    return scene


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
    scene.decide()
    scene.workload({"Evicted": True, "Admitted": False}, check="Pending", cluster_name="").job(suspended=True)
    scene.decide()
    scene.job(status=TWO, inactive=True).workload({"QuotaReserved": False})
    scene.decide()
    scene.workload({"QuotaReserved": True, "Evicted": False})
    scene.decide()
    scene.workload(nominated=["b"]).connect("a")
    assert scene.names() == ["CopyJudged a", "Nomination", "Clone b"]
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
    scene.decide()
    scene.clone_gone("b")
    assert scene.names() == ["JobCreation a"]
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
    assert scene.names() == ["Clone a", "Clone b"]
    scene.lose("a").clone("b")
    scene.decide()
    scene.workload({"QuotaReserved": False}, nominated=[])
    scene.decide()
    scene.clone_gone("b").workload({"Finished": True})
    scene.decide()
    assert scene.fleet.open_writes(STREAM) == []


def test_a_job_is_not_created_while_an_old_copy_still_runs_on_a_cluster_in_view() -> None:
    # The losers of one attempt hold no job, but a copy from an attempt before may: slow to go or not, it has to be gone first.
    scene = settled("a", "a", "b").lose("a").tick(minutes=16)
    scene.decide()
    scene.workload({"Evicted": True, "Admitted": False}, check="Pending", cluster_name="").job(suspended=True)
    scene.decide()
    scene.job(status=TWO, inactive=True).workload({"QuotaReserved": False})
    scene.decide()
    scene.workload({"QuotaReserved": True, "Evicted": False})
    scene.decide()
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
    # Evicted and reserved again while nobody watched: a relist shows only what came of it, a Workload without names. Kueue's webhook
    # refuses a clusterName that the stored object does not nominate, so writing it again and again would be for ever.
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
    scene = Scene("a", "b").cloned("a", "b").clone("a", {"Admitted": True})
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
    scene.decide()
    scene.clone_gone("b")
    assert scene.names() == ["JobCreation a"]
    scene.clone("a", {"Evicted": True})
    assert scene.names() == []
    scene.remote_job("a")
    assert "WinnerReleased a" in scene.names()


def test_never_twice_does_not_give_up_a_copy_whose_deletion_was_refused() -> None:
    scene = Scene("a", "b", policy={"execution_policy": "never-twice"}).running("a", "a", "b").tick(seconds=1)
    scene.decide()
    scene.job(status=ONE, inactive=False).clone_gone("a")
    removal = only(scene.decide(), RemovalDecided)
    event = EffectFailed(
        target=removal.target,
        action="RemovalDecided",
        code=500,
        error="InternalError",
        message="etcd is away",
        failures=1,
        retry_at=scene.now + timedelta(seconds=1),
    )
    scene.fold(STREAM, event)
    assert scene.names() == []  # it still runs on a


# --- back-off, quiet, topology -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("retries", "seconds"), [(0, 0), (1, 2), (2, 4), (5, 32), (8, 256), (9, 300), (40, 300)])
def test_a_workload_that_comes_back_again_and_again_waits_longer(retries: int, seconds: int) -> None:
    scene = settled().workload(retry_count=retries).clone("a", {"Evicted": True})
    assert retry(scene.decide()).requeue_after_seconds == seconds


def test_the_same_observations_again_decide_nothing() -> None:
    scene = settled("a", "a", "b")
    for _ in range(3):
        scene.workload().job().clone("a").remote_job("a").connect("a").connect("b").tick(seconds=10)
        scene.check()
        scene.config("a", "b")
        assert scene.names() == []
        assert scene.fleet.open_writes(STREAM) == []


def test_observations_of_a_waiting_workload_again_decide_nothing() -> None:
    scene = Scene("a", "b").cloned("a", "b")
    assert scene.names() == []
    for _ in range(3):
        scene.workload().job().clone("a").clone("b").tick(seconds=10)
        assert scene.names() == []


def test_a_delayed_topology_is_ready_once_the_worker_has_assigned_it() -> None:
    scene = settled()
    assigned: list[dict[str, Any]] = [{"name": "main", "delayedTopologyRequest": "Pending"}, {"name": "other"}]
    scene.workload(delayed_topology=["main"], assignments=assigned)
    assert scene.names() == []
    scene.clone("a", topology=["main", "other"])
    decision = only(scene.decide(), CheckStateDecided)
    assert (decision.state, decision.topology, decision.winner) == ("Ready", ["main"], "a")
    assert decision.reason == Reason.TOPOLOGY_ASSIGNED
    scene.workload(delayed_topology=[], assignments=[])
    assert scene.names() == []


def test_a_topology_that_is_there_already_comes_with_ready() -> None:
    scene = Scene("a").cloned("a").workload(delayed_topology=["main"], assignments=[{"name": "main"}])
    scene.clone("a", {"Admitted": True}, topology=["main"])
    scene.decide()
    scene.remote_job("a")
    decision = only(scene.decide(), CheckStateDecided)
    assert (decision.topology, decision.message) == (["main"], 'The workload was admitted on "a"')
    write = scene.fleet.open_writes(STREAM)[0]
    announced = scene.fleet.announcement(write, scene.now)
    assert announced is not None
    assert announced.body["note"] == 'The workload was admitted on "a"'


def test_every_removal_is_of_the_object_that_was_seen() -> None:
    scene = settled("a", "a", "b").clone("b")
    removal = only(scene.decide(), RemovalDecided)
    clone = scene.state.remote("b").clone
    assert clone is not None
    assert (removal.uid, removal.resource_version) == (clone.uid, clone.resource_version)


def test_a_new_job_of_the_same_name_after_everything_is_gone_starts_afresh() -> None:
    scene = settled().gone()
    scene.decide()
    scene.remote_job_gone("a")
    scene.decide()
    scene.clone_gone("a")
    assert STREAM not in scene.fleet.index.workloads
    scene.job(status="00" * 32, inactive=True, suspended=True)
    scene.workload({"Admitted": False}, check="Pending", cluster_name="")
    assert scene.names() == ["Nomination"]


def test_a_workload_made_again_under_its_name_does_not_inherit_the_winner() -> None:
    scene = settled("a", "a", "b").lose("a").gone()
    assert scene.state.winner == ""
    scene.job(suspended=True, status="00" * 32, inactive=True)
    scene.workload({"Admitted": False}, check="Pending", cluster_name="", uid="wl-2")
    assert scene.names() == []  # its job may still run on a
    scene.tick(minutes=15)
    assert scene.names() == ["Nomination"]


def test_effects_know_when_they_were_decided() -> None:
    scene = settled().tick(seconds=1).remote_job("a", status=TWO)
    scene.decide()
    (effect,) = scene.state.effects.values()
    assert isinstance(effect, Effect)
    assert stamp(effect.decided_at) == stamp(scene.now)
