"""What may run where nobody can see it is waited for before anything is started elsewhere."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.controllers.connectivity.events import ClusterForgotten, KindOff, KindSynced, cluster_stream
from controlplane.controllers.multikueue.observations import ObservationRefused, Owner
from controlplane.kube.kinds import JOBS, WORKLOADS
from tests.multikueue.dispatched import settled
from tests.multikueue.scene import NS, STREAM, WL, Scene
from tests.multikueue.unseen import QUEUED, creating, put_back, refused


def test_a_workload_that_forgot_its_copy_waits_until_the_grace_is_over() -> None:
    scene = put_back(settled("a", "a", "b").lose("a"))
    lost = scene.now
    assert scene.names() == []
    assert scene.wake is not None
    assert (scene.wake - lost).total_seconds() == 15 * 60
    scene.tick(minutes=15)
    assert scene.names() == ["Nomination", "Clone b"]


def test_it_waits_for_ever_under_never_twice_unless_an_operator_gives_the_cluster_up() -> None:
    scene = settled("a", "a", "b")
    put_back(scene.job(execution_policy="never-twice").lose("a")).tick(hours=40)
    assert scene.names() == []
    scene.fold(cluster_stream("a"), ClusterForgotten(by="me"), "a")
    assert scene.names() == ["Nomination", "Clone b"]


def test_the_copy_is_adopted_when_the_cluster_is_back() -> None:
    scene = put_back(settled("a", "a", "b").lose("a"))
    scene.connect("a")
    assert scene.names() == ["CopyJudged a", "Nomination", "Clone b"]
    scene.workload(nominated=["a", "b"])
    assert "WinnerChosen a" in scene.names()


def test_a_copy_that_was_stopped_for_good_is_not_waited_for() -> None:
    scene = settled("a", "a", "b")
    scene.clone("a", {"Evicted": ("Deactivated", "")}, active=False).remote_job("a", suspended=True, inactive=True)
    assert put_back(scene.lose("a")).names() == ["ClusterRefused a", "Nomination", "Clone b"]


def test_the_copy_of_another_job_of_that_name_is_not_waited_for() -> None:
    scene = settled("a", "a", "b").lose("a").gone()
    owner = Owner(api_version="batch/v1", kind="Job", name="train", uid="another")
    scene.workload({"Admitted": False}, uid="wl-2", owner=owner, **QUEUED)
    event = scene.fleet.index.jobs[next(iter(scene.fleet.index.jobs))]
    scene.fold("job/jobs.batch/default/train", type(event)(**{**as_dict(event), "uid": "another"}))
    assert scene.names() == ["Nomination", "Clone b"]


def as_dict(event: Any) -> dict[str, Any]:
    return {field: getattr(event, field) for field in event.__struct_fields__}


@pytest.mark.parametrize("policy", ["", "never-twice"])
def test_a_creation_that_nobody_saw_end_is_waited_for_although_the_attempt_is_over(policy: str) -> None:
    scene = put_back(creating(policy).lose("a"))
    assert scene.names() == []
    scene.tick(minutes=15)
    assert scene.names() == ([] if policy else ["Nomination", "Clone b"])


def bound_unseen(policy: str = "") -> Scene:
    """The log knows of no job; what is listed of a shows a copy that a job is bound to, and jobs are not listed
    there."""
    scene = Scene("a", "b", connected=False).connect("b").connect("a", (WORKLOADS,))
    scene.fold(cluster_stream("a"), KindOff(kind=JOBS.name, reason="NotServed", message="not served"), "a")
    scene.job(execution_policy=policy).workload({"QuotaReserved": True})
    return scene.clone("a", {"QuotaReserved": True, "Admitted": True}, bound_to="the-job")


def test_a_job_that_a_copy_is_bound_to_is_waited_for_where_jobs_cannot_be_seen() -> None:
    scene = bound_unseen()
    assert scene.names() == []
    assert scene.wake == scene.now + timedelta(minutes=15)
    scene.tick(minutes=15)
    assert scene.names() == ["Removal Workload a", "Nomination", "Clone b"]


def test_under_never_twice_until_they_can() -> None:
    scene = bound_unseen("never-twice").tick(days=1)
    assert scene.names() == []
    scene.remote_job("a", suspended=False, inactive=False)
    scene.fold(cluster_stream("a"), KindSynced(kind=JOBS.name, resource_version="9", count=1, gap=False), "a")
    assert scene.names() == ["Nomination", "Clone b"]
    scene.workload(nominated=["a", "b"])
    assert scene.names()[0] == "WinnerChosen a"


def test_where_jobs_are_listed_and_it_is_not_there_it_is_not_waited_for() -> None:
    scene = bound_unseen("never-twice")
    scene.fold(cluster_stream("a"), KindSynced(kind=JOBS.name, resource_version="9", count=0, gap=False), "a")
    assert scene.names() == ["Nomination", "Clone b"]


@pytest.mark.parametrize("policy", ["", "never-twice"])
def test_nor_does_it_end_with_the_copy_that_the_job_is_bound_to(policy: str) -> None:
    """Whoever removed the copy: Kueue stops the job then, and nobody sees when, or whether it has ended."""
    scene = bound_unseen(policy).clone_gone("a")
    assert scene.names() == []
    scene.tick(minutes=15)
    assert scene.names() == ([] if policy else ["Nomination", "Clone b"])


def test_it_ends_where_jobs_are_listed_and_it_is_not_there() -> None:
    scene = bound_unseen("never-twice").clone_gone("a").tick(minutes=1)
    scene.fold(cluster_stream("a"), KindSynced(kind=JOBS.name, resource_version="9", count=0, gap=False), "a")
    assert "Nomination" in scene.names()


@pytest.mark.parametrize("policy", ["", "never-twice"])
def test_a_creation_that_was_taken_back_is_waited_for_where_jobs_cannot_be_seen_any_more(policy: str) -> None:
    scene = creating(policy)
    scene.fold(cluster_stream("a"), KindOff(kind=JOBS.name, reason="NotServed", message="not served"), "a")
    put_back(scene).tick(seconds=11)
    scene.clone_gone("a")
    assert not [name for name in scene.names() if name.startswith("Nomination")]
    scene.tick(minutes=15)
    assert ("Nomination" in scene.names()) is not bool(policy)


def evicted_and_forgotten(policy: str = "") -> Scene:
    """The log knows nothing of it, and it was evicted since it ran: only the user's job says that it does."""
    scene = Scene("a", "b").lose("a").job(execution_policy=policy, status="11" * 32, inactive=False, suspended=True)
    return scene.workload({"QuotaReserved": True, "Evicted": "Preempted"})


@pytest.mark.parametrize("policy", ["", "never-twice"])
def test_an_evicted_job_that_runs_by_its_status_is_not_said_to_rest_while_a_cluster_is_away(policy: str) -> None:
    scene = evicted_and_forgotten(policy)
    assert scene.names() == []
    scene.tick(minutes=15)
    assert scene.names() == ([] if policy else ["StatusRelay"])


def test_it_is_where_all_clusters_are_in_view() -> None:
    assert evicted_and_forgotten("never-twice").connect("a").names() == ["StatusRelay"]


def asked_and_put_back(policy: str = "") -> Scene:
    """The log was put back to when both clusters had been asked; since then a got the job, and is away."""
    scene = Scene("a", "b").job(execution_policy=policy).cloned("a", "b").lose("a")
    return scene.job(execution_policy=policy, status="11" * 32, inactive=False, suspended=True)


@pytest.mark.parametrize("policy", ["", "never-twice"])
@pytest.mark.parametrize("named", [True, False])
def test_a_job_that_started_after_what_the_log_knows_is_waited_for_once_it_is_evicted(policy: str, named: bool) -> None:
    scene = asked_and_put_back(policy)
    if named:
        scene.workload({"QuotaReserved": True, "Admitted": True}, check="Ready", cluster_name="a", nominated=[])
        assert scene.names() == ["Removal Workload b"]
        scene.clone_gone("b")
    gone = {} if named else {"cluster_name": "", "nominated": []}
    scene.workload({"QuotaReserved": True, "Admitted": True, "Evicted": "Preempted"}, check="Retry", **gone)
    assert "StatusRelay" not in scene.names()
    lost = scene.now
    scene.tick(minutes=14)
    assert "StatusRelay" not in scene.names()
    scene.now = lost + timedelta(minutes=15)
    assert ("StatusRelay" in scene.names()) is not bool(policy)


@pytest.mark.parametrize("policy", ["", "never-twice"])
def test_so_it_is_where_the_name_that_it_had_is_all_that_is_known(policy: str) -> None:
    scene = asked_and_put_back(policy)
    scene.workload({"QuotaReserved": True, "Admitted": True}, check="Ready", cluster_name="a", nominated=[])
    scene.decide()
    scene.clone_gone("b")
    scene.workload({"QuotaReserved": False, "Admitted": False, "Evicted": "Preempted"}, **QUEUED)
    scene.decide()
    scene.workload({"QuotaReserved": True, "Evicted": False})
    assert scene.names() == []
    scene.tick(minutes=15)
    assert ("Nomination" in scene.names()) is not bool(policy)


def test_a_job_that_is_listed_and_not_there_is_not() -> None:
    scene = asked_and_put_back("never-twice")
    scene.workload({"QuotaReserved": True, "Admitted": True}, check="Ready", cluster_name="a", nominated=[])
    scene.decide()
    scene.clone_gone("b").workload({"Evicted": "Preempted"}, check="Retry")
    assert scene.state.unsure == {"a": JOBS.name}
    scene.connect("a")
    assert scene.state.unsure == {}


def asked_before() -> Scene:
    """The log knows nothing of it and the stored nomination names a, which is away: the job may be there."""
    return Scene("a", "b").lose("a").job().workload({"QuotaReserved": True}, nominated=["a", "b"])


def test_a_cluster_that_was_asked_before_the_log_was_put_back_is_waited_for() -> None:
    scene = asked_before()
    assert scene.names() == []
    assert scene.wake == scene.now + timedelta(minutes=15)
    scene.tick(minutes=15)
    assert scene.names() == ["Nomination", "Clone b"]


def test_what_it_shows_when_it_is_back_is_adopted() -> None:
    scene = asked_before()
    scene.clone("a", {"Admitted": True}).remote_job("a", suspended=False, inactive=False).connect("a")
    assert "Nomination" in " ".join(scene.names())
    scene.workload(nominated=["a", "b"])
    assert scene.names()[0] == "WinnerChosen a"
    assert scene.state.winner == "a"


def test_under_never_twice_it_is_waited_for_however_long() -> None:
    scene = asked_before().job(execution_policy="never-twice").tick(days=1)
    assert scene.names() == []


def test_a_nomination_of_another_dispatcher_may_be_news_and_waits_only_for_a_first_try() -> None:
    policy = {"dispatcher": "example.com/mine"}
    scene = Scene("a", "b", policy=policy).lose("a").job().workload({"QuotaReserved": True}, nominated=["a", "b"])
    assert scene.names() == ["AttemptBegun", "Clone b"]


def test_a_creation_that_was_never_sent_is_not_waited_for() -> None:
    scene = Scene("a", "b").cloned("a", "b").clone("b", bound_to="unseen")
    scene.clone("a", {"QuotaReserved": True, "Admitted": True})
    assert scene.names() == ["WinnerChosen a", "Removal Workload b"]
    assert scene.state.winner == "a"
    assert put_back(scene.lose("a")).names() == ["Nomination"]


@pytest.mark.parametrize(("code", "waits"), [(403, False), (503, True), (429, True)])
def test_a_creation_that_was_refused_is_waited_for_if_the_refusal_tells_nothing(code: int, waits: bool) -> None:
    scene = put_back(refused(creating(), code).lose("a"))
    assert scene.names() == ([] if waits else ["Nomination", "Clone b"])


@pytest.mark.parametrize("listed", [True, False])
def test_what_was_not_there_when_its_kind_was_listed_was_never_created(listed: bool) -> None:
    scene = put_back(creating().lose("a"))
    kinds = (WORKLOADS, JOBS) if listed else (WORKLOADS,)
    scene.connect("a", kinds).clone_gone("a")
    assert scene.state.unsure == ({} if listed else {"a": JOBS.name})
    scene.lose("a")
    assert scene.names() == (["Nomination", "Clone b"] if listed else [])


def test_one_kind_is_listed_on_one_cluster() -> None:
    scene = put_back(creating().lose("a"))
    scene.fold(cluster_stream("b"), KindSynced(kind=JOBS.name, count=0, resource_version="1"), "b")
    assert scene.state.unsure == {"a": JOBS.name}
    scene.connect("a", (WORKLOADS,))
    scene.fold(cluster_stream("a"), KindSynced(kind=JOBS.name, count=0, resource_version="1"), "a")
    assert scene.state.unsure == {}


def test_an_unseen_creation_outlives_its_workload() -> None:
    scene = creating().lose("a").clone_gone("a").gone()
    assert scene.state.unsure == {"a": JOBS.name}
    scene.connect("a")
    assert STREAM not in scene.fleet.index.workloads


def test_a_winner_gets_its_job_once_the_grace_of_an_old_copy_is_over() -> None:
    scene = put_back(settled("a", "a", "b").lose("a")).tick(minutes=15)
    scene.decide()
    scene.workload(nominated=["b"])
    scene.decide()
    scene.clone("b", {"QuotaReserved": True, "Admitted": True})
    assert scene.names() == ["WinnerChosen b", "JobCreation b"]


def test_a_winner_gets_no_job_while_an_old_copy_may_run_unseen() -> None:
    scene = put_back(settled("a", "a", "b").lose("a")).tick(minutes=15)
    scene.decide()
    scene.workload(nominated=["b"])
    scene.decide()
    scene.connect("a").clone("b", {"QuotaReserved": True, "Admitted": True})
    assert scene.names() == ["CopyJudged a", "WinnerChosen b", "Removal Job a"]
    scene.lose("a").tick(minutes=14)
    assert scene.names() == []
    scene.tick(minutes=1)
    assert scene.names() == ["JobCreation b"]


# --- a copy that cannot be read any more -----------------------------------------------------------------------------


def unreadable(scene: Scene, uid: str, kind: str, name: str) -> Scene:
    event = ObservationRefused(
        kind=kind, namespace=NS, name=name, uid=uid, resource_version="999", field="spec", error="nonsense", object="x"
    )
    scene.fold(f"refused/a/{kind}/{NS}/{name}", event, "a")
    return scene


def test_a_copy_that_cannot_be_read_is_removed_as_it_is() -> None:
    scene = unreadable(settled("a"), "rjob-a", JOBS.name, "train").gone()
    (removal,) = scene.decide()
    assert (removal.uid, removal.resource_version) == ("rjob-a", "999")
    unreadable(scene.remote_job_gone("a"), "clone-a", WORKLOADS.name, WL)
    (removal,) = scene.decide()
    assert (removal.uid, removal.resource_version) == ("clone-a", "999")


def test_one_that_can_be_read_again_is_removed_as_it_was_read() -> None:
    scene = unreadable(settled("a"), "rjob-a", JOBS.name, "train").remote_job("a").gone()
    (removal,) = scene.decide()
    assert removal.resource_version == scene.state.remote("a").job.resource_version != "999"


def test_a_refusal_of_an_older_version_does_not_hold_the_removal_up() -> None:
    scene = settled("a").gone()
    scene.decide()
    assert "a/Job" in scene.state.effects
    unreadable(scene, "rjob-a", JOBS.name, "train")
    assert [event.resource_version for event in scene.decide()] == ["999"]


def test_somebody_elses_object_of_the_name_is_not_taken_for_the_copy() -> None:
    scene = unreadable(settled("a"), "stranger", WORKLOADS.name, WL).gone()
    assert scene.decide() == [], "nothing is removed where nobody knows what is there"
