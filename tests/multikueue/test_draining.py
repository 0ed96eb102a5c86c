"""An evicted Workload that still holds quota: stopped, mirrored, brought to rest, and offered to nobody."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.multikueue.context import NEVER_TWICE
from controlplane.controllers.multikueue.events import (
    CloneDecided,
    DeactivationDecided,
    NamesClearDecided,
    NominationDecided,
    StatusRelayDecided,
)
from controlplane.controllers.multikueue.observations import JobGone
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.job_kinds.batch_job import BatchJob
from controlplane.kube.kinds import JOBS
from controlplane.log.event import Event
from tests.multikueue.scene import JOB, JOB_STREAM, NS, STREAM, Scene

RUNS, RESTS = "11" * 32, "55" * 32


def only(decisions: list[Event], kind: type[Any]) -> Any:
    assert [type(decision) for decision in decisions] == [kind]
    return decisions[0]


def evicted(reason: str = "Preempted", message: str = "preempted to make room", *others: str) -> Scene:
    """Running on `a` with a mirrored status, then evicted by the manager's Kueue, the user's job suspended."""
    scene = Scene("a", *others).running("a", "a", *others).tick(seconds=1)
    scene.decide()
    scene.job(status=RUNS, inactive=False)
    scene.decide()
    scene.decided.clear()
    scene.workload({"Evicted": (reason, message)}, check="Pending", cluster_name="")
    return scene.job(suspended=True)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("Preempted", "Preempted to accommodate a workload"),
        ("Deactivated", "The workload is deactivated"),
        ("ClusterQueueStopped", "The ClusterQueue is stopped"),
        ("PodsReadyTimeout", ""),
    ],
)
def test_a_running_copy_is_asked_to_stop_in_kueues_words(reason: str, message: str) -> None:
    scene = evicted(reason, message)
    decision = only(scene.decide(), DeactivationDecided)
    assert (decision.cluster, decision.message) == ("a", f"Evicted on manager: {message}")
    assert decision.reason == WorkloadReason.EVICTED_ON_MANAGER
    request = scene.fleet.request(scene.fleet.open_writes(STREAM)[0], {}, scene.now)
    assert request is not None
    (target,) = [c for c in request.body["status"]["conditions"] if c["type"] == "DeactivationTarget"]
    assert (target["status"], target["reason"], target["message"]) == (
        "True",
        "EvictedOnManagerCluster",
        f"Evicted on manager: {message}",
    )
    assert {c["type"] for c in request.body["status"]["conditions"]} >= {"Admitted", "QuotaReserved"}
    assert (request.subresource, request.resource_version) == ("status", decision.resource_version)


def test_where_a_status_tells_nothing_the_workers_kueue_does_by_giving_the_quota_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(BatchJob, "tells_activity", lambda self: False)
    scene = evicted()
    only(scene.decide(), DeactivationDecided)
    scene.clone("a", {"Evicted": "DeactivatedDueToEvictedOnManagerCluster"}, active=False)
    scene.remote_job("a", suspended=True, inactive=False, status=RESTS)
    assert scene.names() == [], "its quota is still held there"
    scene.clone("a", {"QuotaReserved": False})
    relay = only(scene.decide(), StatusRelayDecided)
    assert (relay.status, relay.source) == (RESTS, "a")


def test_the_way_from_eviction_to_rest() -> None:
    scene = evicted()
    only(scene.decide(), DeactivationDecided)
    scene.clone("a", {"DeactivationTarget": ("EvictedOnManagerCluster", "Evicted on manager: preempted to make room")})
    assert scene.names() == []
    scene.clone("a", {"Evicted": "DeactivatedDueToEvictedOnManagerCluster"}, active=False)
    assert scene.names() == []  # its job still runs
    scene.remote_job("a", suspended=True, inactive=True, status=RESTS)
    relay = only(scene.decide(), StatusRelayDecided)
    assert (relay.status, relay.source, relay.drain) == (RESTS, "a", False)
    scene.job(status=RESTS, inactive=True)
    assert scene.names() == []  # Kueue's turn: it gives the quota back
    scene.workload({"QuotaReserved": False, "Admitted": False})
    assert scene.names() == ["Removal Job a"]
    scene.remote_job_gone("a")
    assert scene.names() == ["Removal Workload a"]
    scene.clone_gone("a")
    assert scene.names() == []


def test_nothing_is_offered_while_it_drains() -> None:
    scene = evicted("Preempted", "x", "b", "c")
    for _ in range(5):
        scene.decide()
        scene.tick(minutes=1).workload().connect("b")
    assert not any(isinstance(event, (NominationDecided, CloneDecided)) for event in scene.decided)


@pytest.mark.parametrize("names", [{"cluster_name": "a"}, {"nominated": ["a", "b"]}])
def test_names_that_survived_the_eviction_are_cleared(names: dict[str, Any]) -> None:
    scene = evicted().workload(**names)
    decisions = scene.decide()
    assert [type(decision) for decision in decisions] == [NamesClearDecided, DeactivationDecided]
    write = next(write for write in scene.fleet.open_writes(STREAM) if write.action == "NamesClearDecided")
    request = scene.fleet.request(write, {}, scene.now)
    assert request is not None
    assert request.body == {"status": {"clusterName": None, "nominatedClusterNames": None}}
    assert request.subresource == "status"
    assert request.resource_version


def test_names_are_cleared_when_quota_is_gone_too() -> None:
    scene = evicted()
    scene.workload({"QuotaReserved": False}, nominated=["a"])
    assert scene.names() == ["Removal Job a", "NamesClear"]


def test_a_check_that_was_not_reset_yet_keeps_the_names() -> None:
    scene = evicted().workload(check="Ready", cluster_name="a")
    assert not any(isinstance(decision, NamesClearDecided) for decision in scene.decide())


def test_clones_that_were_only_offered_are_removed() -> None:
    scene = Scene("a", "b").cloned("a", "b")
    scene.workload({"Evicted": "Preempted"}, nominated=[]).job(suspended=True)
    assert scene.names() == ["Removal Workload a", "Removal Workload b"]
    scene.clone_gone("a").clone_gone("b")
    assert scene.names() == []


def test_a_status_that_nobody_will_update_is_brought_to_rest() -> None:
    scene = evicted().remote_job_gone("a")
    assert scene.names() == ["Removal Workload a", "StatusRelay"]
    relay = scene.decided[-1]
    assert isinstance(relay, StatusRelayDecided)
    assert (relay.drain, relay.source, relay.status, relay.reason) == (True, "", RUNS, WorkloadReason.NOTHING_RUNS)
    scene.job(status=RESTS, inactive=True).clone_gone("a")
    assert scene.names() == []


def test_a_job_that_is_not_suspended_yet_is_not_brought_to_rest() -> None:
    scene = evicted().job(suspended=False).remote_job_gone("a")
    scene.clone_gone("a")
    assert scene.names() == []
    scene.job(suspended=True)
    assert only(scene.decide(), StatusRelayDecided).drain


def test_a_job_without_its_clone_is_gone_before_the_status_says_so() -> None:
    scene = evicted().clone_gone("a")
    assert scene.names() == ["Removal Job a"]
    assert scene.names() == []
    scene.remote_job_gone("a")
    assert only(scene.decide(), StatusRelayDecided).drain


def test_a_copy_on_a_lost_cluster_keeps_the_quota_until_the_grace_is_over() -> None:
    scene = evicted().lose("a")
    lost_at = scene.now
    scene.tick(minutes=14)
    assert scene.names() == []
    assert scene.wake == lost_at + scene.fleet.policy.worker_lost_timeout
    scene.tick(minutes=1)
    assert only(scene.decide(), StatusRelayDecided).drain


def test_after_a_lost_workers_retry_nothing_is_waited_for() -> None:
    scene = Scene("a").running("a").tick(seconds=1)
    scene.decide()
    scene.job(status=RUNS, inactive=False).lose("a").tick(minutes=15)
    assert scene.names() == ["CheckState"]
    scene.workload({"Evicted": "AdmissionCheck"}, check="Pending", cluster_name="").job(suspended=True)
    assert only(scene.decide(), StatusRelayDecided).drain


def test_a_copy_that_finished_while_its_workload_was_evicted_counts() -> None:
    scene = evicted().remote_job("a", finished=True, inactive=True, status=RESTS)
    scene.clone("a", {"Finished": ("Succeeded", "done")})
    assert scene.names() == ["StatusRelay"]
    scene.job(status=RESTS, finished=True, inactive=True)
    assert scene.names() == ["Finish"]


@pytest.mark.parametrize("reason", ["OutOfSync", "OwnerNotFound"])
def test_a_copy_that_did_not_really_finish_does_not_finish_an_evicted_workload(reason: str) -> None:
    scene = evicted().remote_job_gone("a").clone("a", {"Finished": (reason, "")})
    assert scene.names() == ["Removal Workload a", "StatusRelay"]


def test_draining_is_quiet_when_nothing_changes() -> None:
    scene = evicted()
    scene.decide()
    scene.clone("a", {"DeactivationTarget": "EvictedOnManagerCluster"})
    for _ in range(3):
        scene.workload().job().clone("a").remote_job("a").tick(minutes=1)
        assert scene.names() == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_copy_that_we_had_stopped_ourselves_is_no_refusal(kept: bool) -> None:
    """Quota may come back before the copy of the attempt before is gone: its cluster has refused nothing. Kueue takes
    the condition away when it evicts, where it writes by merge patch."""
    scene = Scene("a").reserved()
    ours = {"Evicted": ("DeactivatedDueToEvictedOnManagerCluster", "The workload is deactivated")}
    if kept:
        ours["DeactivationTarget"] = ("EvictedOnManagerCluster", "Evicted on manager: preempted")
    scene.clone("a", ours, active=False)
    assert scene.names() == ["Nomination", "Removal Workload a"]
    scene.workload(nominated=["a"])
    scene.clone_gone("a")
    assert scene.names() == ["Clone a"]


def deleted(scene: Scene) -> Scene:
    """Running on `a` with a mirrored status, then the Workload deleted and the user's job suspended, as for an
    eviction."""
    scene.workload(deleting=True)
    scene.job(suspended=True)
    return scene


def test_the_job_of_a_workload_that_is_deleted_comes_to_rest_once_its_copy_is_gone() -> None:
    """Nobody else would say that nothing runs, and no other Workload is made of the job before."""
    scene = Scene("a").running("a", "a").tick(seconds=1)
    scene.decide()
    scene.job(status=RUNS, inactive=False)
    scene.decide()
    scene.decided.clear()
    deleted(scene)
    assert StatusRelayDecided not in [type(one) for one in scene.decide()]
    scene.remote_job_gone("a").clone_gone("a")
    rest = only(scene.decide(), StatusRelayDecided)
    assert (rest.drain, rest.reason) == (True, WorkloadReason.NOTHING_RUNS)


def test_the_status_of_a_job_that_runs_here_is_its_own_controller_s_also_if_its_workload_is_deleted() -> None:
    """Its pods are still being stopped, and its quota counts until its controller says that nothing runs."""
    for managed_by in ("", "example.com/other"):
        scene = Scene("a").job(managed_by=managed_by, suspended=True, status=RUNS, inactive=False)
        scene.workload({"QuotaReserved": True, "Admitted": True})
        scene.decide()
        scene.workload(deleting=True)
        assert scene.decide() == []
        scene.gone()
        assert scene.decide() == []


def test_it_does_not_while_its_copy_may_run_on_a_cluster_that_is_away() -> None:
    scene = Scene("a", "b").running("a", "a", "b").tick(seconds=1)
    scene.decide()
    scene.job(status=RUNS, inactive=False)
    scene.decide()
    scene.lose("a")
    deleted(scene)
    assert StatusRelayDecided not in [type(one) for one in scene.decide()]


def test_it_is_looked_at_when_any_cluster_is_back_that_was_away_meanwhile() -> None:
    """After a log that went back each of them may have had a copy, also one where the Workload is not said to be."""
    scene = Scene("a", "b", policy={"execution_policy": NEVER_TWICE}).running("a", "a", "b").tick(seconds=1)
    scene.decide()
    scene.job(status=RUNS, inactive=False)
    scene.decide()
    scene.lose("b")
    deleted(scene)
    scene.remote_job_gone("a").clone_gone("a")
    assert StatusRelayDecided not in [type(one) for one in scene.decide()]
    scene.fleet.take_dirty()
    scene.connect("b")
    assert STREAM in scene.fleet.take_dirty()
    assert only(scene.decide(), StatusRelayDecided).drain


def test_a_status_that_was_written_in_the_attempt_needs_no_other_cluster_to_explain_it() -> None:
    scene = Scene("a", "b", policy={"execution_policy": NEVER_TWICE}).running("a", "a", "b").tick(seconds=1)
    scene.decide()
    scene.job(status=RUNS, inactive=False, suspended=True)
    scene.decide()
    scene.lose("b").remote_job_gone("a").clone_gone("a")
    scene.workload({"QuotaReserved": True, "Evicted": "Preempted"}, check="Retry")
    assert only(scene.decide(), StatusRelayDecided).drain
    scene.job(status="22" * 32, inactive=False, suspended=True)  # it takes more than one write to come to rest
    assert only(scene.decide(), StatusRelayDecided).drain


def gone() -> Scene:
    """Running on `a` with a mirrored status, then the Workload gone and the user's job suspended, before any of it was
    seen."""
    scene = Scene("a").running("a", "a").tick(seconds=1)
    scene.decide()
    scene.job(status=RUNS, inactive=False)
    scene.decide()
    scene.decided.clear()
    return scene.job(suspended=True).gone()


def test_the_job_of_a_workload_that_is_gone_comes_to_rest_once_its_copy_is_gone() -> None:
    """Kueue lets a Workload go as soon as its job is suspended, and makes no other one while the job's status says that
    it runs (`handleJobWithNoWorkload` in kubernetes-sigs/kueue pkg/controller/jobframework/reconciler.go, ff69552e)."""
    scene = gone()
    assert StatusRelayDecided not in [type(one) for one in scene.decide()]
    scene.remote_job_gone("a").clone_gone("a")
    rest = only(scene.decide(), StatusRelayDecided)
    assert (rest.drain, rest.reason) == (True, WorkloadReason.NOTHING_RUNS)
    scene.job(status=RESTS, inactive=True)
    assert STREAM not in scene.fleet.index.workloads


def test_of_a_job_that_is_gone_with_its_workload_nothing_is_kept() -> None:
    scene = gone()
    scene.decide()
    scene.fold(JOB_STREAM, JobGone(namespace=NS, name=JOB, uid="job-uid", kind=JOBS.name))
    scene.remote_job_gone("a").clone_gone("a")
    assert STREAM not in scene.fleet.index.workloads


def test_a_job_that_was_left_is_looked_at_when_a_cluster_is_back_that_may_have_run_it() -> None:
    scene = Scene("a", "b", policy={"execution_policy": NEVER_TWICE}).running("a", "a", "b").tick(seconds=1)
    scene.decide()
    scene.job(status=RUNS, inactive=False)
    scene.decide()
    scene.lose("b").job(suspended=True).gone()
    scene.decide()
    scene.remote_job_gone("a").clone_gone("a")
    assert scene.decide() == []
    scene.fleet.take_dirty()
    scene.connect("b")
    assert STREAM in scene.fleet.take_dirty()
    assert only(scene.decide(), StatusRelayDecided).drain
