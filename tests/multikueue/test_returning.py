"""A cluster is lost and comes back: the grace, the two execution policies, and what becomes of what is found there."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec import structs

from controlplane.controllers.connectivity import events
from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    CopyJudged,
    FinishDecided,
    RemovalDecided,
    StatusRelayDecided,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.job_kinds.batch_job import BatchJob
from controlplane.kube.kinds import JOBS
from tests.multikueue.returning import RETRY, lost_and_requeued, requeued, reserved_again, retry_of
from tests.multikueue.scene import START, STREAM, Scene, stamp
from tests.support.rows import each

# --- the grace -----------------------------------------------------------------------------------------------------


def test_the_grace_is_a_deadline_and_no_polling_period() -> None:
    scene = Scene("a", "b").running("a").lose("a")
    assert scene.names() == []
    assert scene.wake is not None
    assert (scene.wake - scene.now).total_seconds() == 15 * 60
    scene.tick(minutes=14, seconds=59)
    assert scene.names() == []
    scene.tick(seconds=1)
    retry = retry_of(scene)
    assert retry is not None
    assert (retry.message, retry.reason) == (RETRY, WorkloadReason.REMOTE_LOST)


def test_the_loss_clock_survives_a_restart() -> None:
    scene = Scene("a", "b").running("a").lose("a").tick(minutes=10)
    scene.fold("service", events.ServiceStarted(epoch=2, holder="x", version="1"))
    scene.connect("@management", ())
    from tests.multikueue.scene import HOME_KINDS

    scene.connect("@management", tuple(HOME_KINDS)).connect("b")
    failed = events.ClusterConnectFailed(reason="ClientConnectionFailed", message="connection refused", attempt=1)
    scene.fold(events.cluster_stream("a"), failed, "a")
    assert scene.names() == []
    scene.tick(minutes=5)
    assert retry_of(scene) is not None


def test_a_doubt_changes_nothing() -> None:
    scene = Scene("a", "b").running("a")
    scene.fold(events.cluster_stream("a"), events.ClusterSuspected(message="no answer"), "a")
    scene.tick(hours=1)
    scene.remote_job("a")
    assert retry_of(scene) is None
    scene.fold(events.cluster_stream("a"), events.ClusterRecovered(), "a")
    assert scene.fleet.index.connections["a"].phase == "Connected"


def test_losing_a_cluster_in_doubt_takes_no_nomination_back() -> None:
    scene = Scene("a", "b").nominated("a", "b")
    scene.fold(events.cluster_stream("a"), events.ClusterSuspected(message="no answer"), "a")
    assert scene.names() == []


# --- the policies ---------------------------------------------------------------------------------------------------


def test_never_twice_waits_for_the_cluster_however_long() -> None:
    scene = Scene("a", "b", policy={"execution_policy": "never-twice"}).running("a").lose("a").tick(days=30)
    assert scene.names() == []
    assert scene.wake is None


def test_never_twice_ends_when_an_operator_forgets_the_cluster() -> None:
    scene = Scene("a", "b").running("a").job(execution_policy="never-twice").lose("a").tick(days=1)
    assert scene.names() == []
    scene.fold(events.cluster_stream("a"), events.ClusterForgotten(by="me"), "a")
    retry = retry_of(scene)
    assert retry is not None
    assert retry.message == RETRY


def test_a_winner_lost_before_ready_is_kept_under_never_twice() -> None:
    scene = Scene("a", "b", policy={"execution_policy": "never-twice"}).cloned("a", "b").clone("b", {"Admitted": True})
    scene.decide()
    scene.clone_gone("a")
    scene.decide()
    scene.remote_job("b").lose("b").tick(days=3)
    assert scene.names() == []


@pytest.mark.parametrize(
    ("job", "words"),
    [("sometimes", 'asks for the execution policy "sometimes"'), ("at-least-once", "set the annotation")],
)
def test_policies_that_are_unknown_or_contradict_are_refused(job: str, words: str) -> None:
    from controlplane.controllers.multikueue.observations import ClusterQueueObserved

    scene = Scene("a").job(execution_policy=job)
    queue = ClusterQueueObserved(name="cq", uid="q", resource_version="1", execution_policy="never-twice")
    scene.fold("clusterqueue/cq", queue)
    scene.workload({"QuotaReserved": True})
    (decision,) = scene.decide()
    assert isinstance(decision, CheckStateDecided)
    assert decision.state == "Rejected"
    assert words in decision.message


# --- coming back ----------------------------------------------------------------------------------------------------


def test_a_running_copy_is_adopted_when_quota_is_reserved_again() -> None:
    scene = reserved_again(lost_and_requeued(Scene("a", "b").running("a"))).connect("a")
    judged = scene.decide()
    assert isinstance(judged[0], CopyJudged)
    assert (judged[0].verdict, judged[0].reason) == ("Adopt", WorkloadReason.READMITTED)
    scene.workload(nominated=["a", "b"])
    assert "WinnerChosen a" in scene.names()
    (ready,) = [d for d in scene.decided if isinstance(d, CheckStateDecided) and d.state == "Ready"]
    assert ready.winner == "a"
    assert not any("JobCreation" in type(d).__name__ for d in scene.decided)


def test_a_running_copy_waits_for_quota_and_goes_when_none_comes() -> None:
    scene = lost_and_requeued(Scene("a", "b").running("a")).connect("a")
    (judged,) = scene.decide()
    assert isinstance(judged, CopyJudged)
    assert (judged.verdict, judged.reason) == ("Wait", WorkloadReason.AWAITS_QUOTA)
    assert scene.names() == []
    scene.tick(minutes=1)
    assert scene.names() == ["CopyJudged a", "Removal Job a"]


@each(
    ("requeued", "reason", "seconds"),
    [
        (False, "PendingEvaluation", 60),  # Kueue's back-off: quota may come after it
        (True, "PendingEvaluation", 5),  # the scheduler is to look at it
        (True, "Pending", 5),  # what older versions say for everything
        (True, "WaitingForQuota", 60),  # others have the quota: it may come
        (True, "WaitingForPreemptedWorkloads", 60),
        (True, "NoMatchingFlavor", 0),
        (True, "Misconfigured", 0),
    ],
)
def test_a_running_copy_waits_only_as_long_as_quota_may_come(requeued: bool, reason: str, seconds: int) -> None:
    scene = lost_and_requeued(Scene("a", "b").running("a"))
    scene.workload({"Requeued": requeued, "QuotaReserved": False}).connect("a")
    seen = scene.state.local
    assert seen is not None
    told = [structs.replace(c, reason=reason) if c.type == "QuotaReserved" else c for c in seen.conditions]
    scene.fold(STREAM, structs.replace(seen, resource_version="9000", conditions=told))
    returned = scene.now
    scene.decide()
    if seconds:
        assert scene.wake == returned + timedelta(seconds=seconds)
        scene.tick(seconds=seconds - 1)
        assert not any(isinstance(decision, RemovalDecided) for decision in scene.decide())
        scene.tick(seconds=1)
        scene.decide()
    assert any(write.action == "RemovalDecided" for write in scene.fleet.open_writes(STREAM))


def test_a_waiting_copy_is_adopted_when_quota_comes_in_time() -> None:
    scene = lost_and_requeued(Scene("a", "b").running("a")).connect("a")
    scene.decide()
    reserved_again(scene.tick(seconds=30))
    judged = scene.decide()[0]
    assert isinstance(judged, CopyJudged)
    assert judged.verdict == "Adopt"


def test_the_copy_of_a_workload_that_runs_elsewhere_goes_and_the_winner_stays() -> None:
    scene = reserved_again(lost_and_requeued(Scene("a", "b").running("a")))
    scene.decide()
    scene.workload(nominated=["b"])
    scene.decide()
    scene.clone("b", {"Admitted": True})
    scene.decide()
    scene.decide()
    scene.remote_job("b", suspended=False, inactive=False)
    scene.workload({"Admitted": True}, check="Ready", cluster_name="b", nominated=[])
    scene.job(suspended=False)
    scene.decide()
    scene.clone("a", {"Admitted": ("Admitted", "", stamp(START))}).connect("a")
    assert scene.names() == ["CopyJudged a", "Removal Job a"]
    assert scene.state.winner in ("", "b")


@pytest.mark.parametrize(("reason", "verdict"), [("Succeeded", "Finish"), ("Failed", "Remove")])
def test_a_copy_that_finished_meanwhile_counts_if_it_succeeded(reason: str, verdict: str) -> None:
    scene = reserved_again(lost_and_requeued(Scene("a", "b").running("a")))
    scene.workload({"Admitted": True}, check="Ready", cluster_name="b", nominated=[])
    scene.clone("b", {"Admitted": True}).remote_job("b", suspended=False, inactive=False)
    scene.connect("a")
    scene.remote_job("a", suspended=False, finished=True, status="22" * 32)
    scene.clone("a", {"Finished": (reason, "done")})
    judged = scene.decide()[0]
    assert isinstance(judged, CopyJudged)
    assert judged.verdict == verdict
    if verdict == "Finish":
        scene.job(status="22" * 32)
        finish = scene.decide()[-1]
        assert isinstance(finish, FinishDecided)
        assert (finish.source, finish.finish_reason) == ("a", "Succeeded")


def test_the_last_status_of_a_copy_that_went_before_its_workload_was_seen_to_finish_is_still_written() -> None:
    scene = reserved_again(lost_and_requeued(Scene("a", "b").running("a")))
    scene.workload({"Admitted": True}, check="Ready", cluster_name="b", nominated=[])
    scene.clone("b", {"Admitted": True}).remote_job("b", suspended=False, inactive=False)
    scene.connect("a").remote_job("a", suspended=False, finished=True, status="22" * 32)
    assert "Removal Job a" in scene.names()  # it runs elsewhere, by what is seen so far
    scene.remote_job_gone("a").clone("a", {"Finished": ("Succeeded", "done")})
    relays = [one for one in scene.decide() if isinstance(one, StatusRelayDecided)]
    assert [(one.source, one.status) for one in relays] == [("a", "22" * 32)]
    scene.job(status="22" * 32, finished=True).tick(seconds=1)
    assert "Finish" in scene.names()


def _under_another_name() -> Scene:
    """The log went back to before the name under which `a` has the Workload, and the name is gone."""
    scene = Scene("a", "b", policy={"execution_policy": "never-twice"}).running("a").lose("a")
    return scene.workload(cluster_name="a-too").tick(minutes=1).connect("a")


def test_a_running_copy_waits_whose_cluster_may_have_the_winners_name_which_is_gone() -> None:
    scene = _under_another_name()
    judged, *others = scene.decide()
    assert isinstance(judged, CopyJudged)
    assert (judged.cluster, judged.verdict, judged.reason) == ("a", "Wait", WorkloadReason.WINNER_UNHEARD_OF)
    assert not [one for one in others if isinstance(one, RemovalDecided)]
    scene.cluster("a-too")
    scene.fold(events.cluster_stream("a-too"), events.ClusterConnected(kinds=[], incarnation="another"), "a-too")
    assert scene.names()[:2] == ["CopyJudged a", "Removal Job a"], "it was another cluster's name"


@pytest.mark.parametrize("reason", ["Succeeded", "Failed"])
def test_what_such_a_copy_comes_to_counts(reason: str) -> None:
    scene = _under_another_name()
    scene.decide()
    scene.remote_job("a", suspended=False, finished=True, status="22" * 32).clone("a", {"Finished": (reason, "done")})
    assert scene.names()[0] == "CopyJudged a"
    scene.job(status="22" * 32)
    (finish,) = [one for one in scene.decide() if isinstance(one, FinishDecided)]
    assert (finish.source, finish.finish_reason) == ("a", reason)


def test_such_a_copy_waits_for_the_grace_of_the_name_and_no_longer() -> None:
    scene = Scene("a", "b").running("a").lose("a").workload(cluster_name="a-too").tick(minutes=1).connect("a")
    assert scene.names()[0] == "CopyJudged a"
    assert scene.wake is not None
    scene.now = scene.wake
    assert retry_of(scene) is not None


def test_a_cluster_that_is_listed_and_was_not_reached_yet_is_heard_of() -> None:
    """The Workload runs there by what it says, and what ended elsewhere before is no end of it."""
    scene = Scene("a", "b", connected=False).connect("a").running("a").lose("a")
    scene.workload(cluster_name="b").connect("a")
    scene.remote_job("a", suspended=False, finished=True).clone("a", {"Finished": ("Failed", "long ago")})
    judged, *_ = scene.decide()
    assert isinstance(judged, CopyJudged)
    assert (judged.verdict, judged.reason) == ("Remove", WorkloadReason.ANOTHER_CLUSTER_WON)


def test_such_a_copy_goes_on_when_an_operator_gives_the_name_up() -> None:
    scene = _under_another_name()
    scene.decide()
    scene.fold(events.cluster_stream("a-too"), events.ClusterForgotten(by="me"), "a-too")
    assert retry_of(scene) is not None
    scene = reserved_again(requeued(scene))
    judged = scene.decide()[0]
    assert isinstance(judged, CopyJudged)
    assert (judged.cluster, judged.verdict) == ("a", "Adopt")


class Fenced(BatchJob):
    def overtaken_counts(self) -> bool:
        return False


@pytest.mark.parametrize(("reason", "finished"), [("Succeeded", True), ("Failed", True), ("", False)])
def test_of_a_kind_that_is_fenced_an_overtaken_attempt_counts_for_nothing(reason: str, finished: bool) -> None:
    scene = Scene("a", "b")
    scene.fleet.policy.adapters[JOBS.gvk] = Fenced()  # type: ignore[index]
    scene = reserved_again(lost_and_requeued(scene.running("a")))
    scene.workload({"Admitted": True}, check="Ready", cluster_name="b", nominated=[])
    scene.clone("b", {"Admitted": True}).remote_job("b", suspended=False, inactive=False)
    scene.connect("a").remote_job("a", suspended=False, finished=finished, status="22" * 32)
    if reason:
        scene.clone("a", {"Finished": (reason, "done")})
    judged, *others = scene.decide()
    assert isinstance(judged, CopyJudged)
    assert (judged.cluster, judged.verdict, judged.reason) == ("a", "Remove", WorkloadReason.FENCED)
    (removal,) = [one for one in others if isinstance(one, RemovalDecided)]
    assert (removal.cluster, removal.of, removal.uid) == ("a", "Job", "rjob-a")
    assert not [one for one in others if isinstance(one, FinishDecided)]
    assert "22" * 32 not in {getattr(one, "status", "") for one in others}, "its result is not relayed"


def test_of_a_kind_that_is_fenced_an_attempt_that_nobody_overtook_goes_on_or_counts() -> None:
    for finished in (False, True):
        scene = Scene("a", "b")
        scene.fleet.policy.adapters[JOBS.gvk] = Fenced()  # type: ignore[index]
        scene = reserved_again(lost_and_requeued(scene.running("a"))).connect("a")
        if finished:
            scene.remote_job("a", suspended=False, finished=True, status="22" * 32)
            scene.clone("a", {"Finished": ("Succeeded", "done")})
        judged = scene.decide()[0]
        assert isinstance(judged, CopyJudged)
        assert judged.verdict == ("Finish" if finished else "Adopt")


def stopped_by_kueue(scene: Scene) -> Scene:
    """The worker's Kueue took the quota back; a kind that cannot be suspended has ended by that."""
    scene.remote_job("a", suspended=True, finished=True, inactive=True, status="22" * 32)
    return scene.clone("a", {"Evicted": ("Preempted", "for another"), "Finished": ("Failed", "cancelled")})


def test_of_a_kind_that_is_fenced_what_kueue_stopped_has_no_result() -> None:
    scene = Scene("a", "b")
    scene.fleet.policy.adapters[JOBS.gvk] = Fenced()  # type: ignore[index]
    stopped_by_kueue(scene.running("a"))
    retry = retry_of(scene)
    assert retry is not None
    assert retry.reason == WorkloadReason.REMOTE_EVICTED
    scene.workload({"Evicted": True, "Admitted": False}, check="Pending", cluster_name="").job(
        suspended=True, inactive=False
    )
    (rest,) = scene.decide()
    assert isinstance(rest, StatusRelayDecided)
    assert (rest.drain, rest.reason) == (True, WorkloadReason.NOTHING_RUNS)
    assert rest.status != "22" * 32, "the user's job has not ended"
    scene.job(suspended=True, inactive=True)
    assert scene.names() == []
    scene.workload({"Evicted": True, "QuotaReserved": False})
    assert scene.names() == ["Removal Job a"]


def test_of_other_kinds_what_finished_counts_though_it_was_evicted() -> None:
    scene = stopped_by_kueue(Scene("a", "b").running("a"))
    assert scene.names() == ["StatusRelay"]
    scene.job(suspended=True, status="22" * 32)
    assert scene.names() == ["Finish"]


def test_a_result_counts_even_if_the_workload_has_no_quota() -> None:
    scene = lost_and_requeued(Scene("a", "b").running("a"))
    scene.connect("a").remote_job("a", suspended=False, finished=True, status="22" * 32)
    scene.clone("a", {"Finished": ("Succeeded", "done")})
    assert scene.names() == ["CopyJudged a", "StatusRelay"]
    scene.job(status="22" * 32)
    assert scene.names() == ["Finish"]


def test_the_winner_that_comes_back_in_time_is_kept() -> None:
    scene = Scene("a", "b").running("a").lose("a").tick(minutes=5).connect("a")
    judged = scene.decide()[0]
    assert isinstance(judged, CopyJudged)
    assert (judged.verdict, judged.reason) == ("Keep", WorkloadReason.STILL_THE_WINNER)
    assert all("Removal" not in name for name in scene.names())
