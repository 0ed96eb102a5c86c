"""Pods and groups of pods on the way back: they stop, they are lost with their cluster, and others take their place."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, cluster_stream
from controlplane.controllers.multikueue.events import (
    CopyJudged,
    FinalizerAdditionDecided,
    FinalizerRemovalDecided,
    GroupPodChosen,
    RemovalDecided,
    StatusRelayDecided,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.kinds import PODS
from controlplane.kube.kueue_names import RESOURCE_IN_USE
from tests.multikueue.grouped import ONE, RUNS, TWO, Pods, pod
from tests.multikueue.observed import sighting
from tests.multikueue.scene import HOME_KINDS, START, Scene

KEPT = ["kueue.x-k8s.io/managed", "mine"]


def test_all_pods_go_before_the_workloads_copy_goes() -> None:
    scene = Pods("a").running()
    scene.gone()
    assert scene.writes() == [("Removal", "p-1"), ("Removal", "")]
    first, second = scene.decided[-2:]
    assert isinstance(first, RemovalDecided)
    assert isinstance(second, RemovalDecided)
    assert (first.uid, second.uid) == ("a-p-1", "a-p-0")
    scene.copy_gone("a", "p-0")
    assert scene.writes() == []
    scene.copy_gone("a", "p-1")
    assert scene.names() == ["Removal Workload a"]


def test_a_group_that_is_evicted_stops_and_its_pods_are_shown_as_waiting() -> None:
    scene = Pods("a").running()
    scene.workload({"Evicted": "Preempted"}, check="Pending", cluster_name="")
    assert scene.names() == ["Deactivation a"]
    scene.clone("a", {"DeactivationTarget": True, "Evicted": "Deactivated"}, active=False)
    # The worker's Kueue takes the pods away, and one of them fails with that.
    scene.copy("a", "p-0", status=TWO, finished=True, deleting=True)
    assert scene.writes() == []
    scene.copy_gone("a", "p-0").copy_gone("a", "p-1")
    scene.decide()
    rests = [one for one in scene.decided if isinstance(one, StatusRelayDecided) and one.drain]
    assert {one.member for one in rests} == {"", "p-1"}
    assert not any(one.status == TWO for one in scene.decided if isinstance(one, StatusRelayDecided))


def test_a_pod_that_its_worker_takes_away_is_not_shown_as_failed() -> None:
    scene = Pods("a").running()
    scene.copy("a", "p-0", status=TWO, finished=True, inactive=True, deleting=True)
    scene.copy("a", "p-1", status=TWO, finished=True, inactive=True, deleting=True)
    assert scene.tick(seconds=2).names() == []


@pytest.mark.parametrize("seen", ["p-0", "p-1"])
def test_no_pod_is_started_elsewhere_while_any_of_its_group_may_run_on_a_lost_cluster(seen: str) -> None:
    scene = Pods("a", "b").running("a", "a", "b")
    other = "p-1" if seen == "p-0" else "p-0"
    scene.workload({"Evicted": "Preempted", "QuotaReserved": False}, check="Pending", cluster_name="")
    scene.copy_gone("a", other).lose("a")
    scene.workload({"QuotaReserved": True, "Evicted": False})
    assert "Nomination" not in scene.names()
    scene.tick(minutes=15)
    assert scene.names() == ["Nomination"]


def test_the_job_of_a_group_stays_the_same_while_its_pod_owns_the_workload() -> None:
    scene = Pods("a").running()
    scene.workload(**scene.owned("p-1", "p-0"))
    assert scene.state.owner is not None
    assert scene.state.owner.name == "p-0"
    assert scene.names() == []


def test_when_the_first_pod_is_gone_another_takes_its_part_and_none_is_created_twice() -> None:
    scene = Pods("a", names=("p-0", "p-1", "p-2")).running()
    scene.copy("a", "p-0", status=TWO, finished=True, inactive=True).tick(seconds=2).decide()
    scene.pod("p-0", status=TWO, finished=True, inactive=True).pod_gone("p-0")
    scene.workload(**scene.owned("p-1", "p-2"))
    remote = scene.state.remote("a")
    assert remote.job is not None
    assert (remote.job.name, sorted(remote.members)) == ("p-1", ["p-0", "p-2"])
    assert scene.names() == []


def test_the_last_copy_of_a_group_goes_when_another_pod_owns_the_workload_by_then() -> None:
    """The news that it is gone was taken for that of another one, and its removal was tried for ever."""
    group = Pods("a", "b").running("a", "a", "b")
    group.workload({"QuotaReserved": False, "Admitted": False}, check="Pending", cluster_name="")
    assert {"Removal Job a"} <= set(group.names())
    group.copy_gone("a", "p-1").workload(**group.owned("p-1", "p-2"))  # of which p-0 is none any more
    assert "a/Job" not in group.state.effects
    group.copy_gone("a", "p-0")
    assert group.state.remote("a").job is None
    assert not group.state.remote("a").members


def test_a_pod_with_a_queue_that_kueue_does_not_look_after_is_none_of_ours() -> None:
    bare = pod()
    bare["metadata"] = {**bare["metadata"], "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    scene = Scene("a")
    assert scene.fleet.observe(sighting("@management", PODS, bare), START) is None
    assert scene.fleet.observe(sighting("@management", PODS, bare, gone=True), START) is None


def replaced(group: Pods) -> None:
    """The group is evicted, others come in the place of all its pods, and it has quota again."""
    group.workload(
        {"Evicted": "AdmissionCheck", "QuotaReserved": False, "Admitted": False}, check="Pending", cluster_name=""
    )
    group.decide()
    for name in ("p-0", "p-1"):
        group.pod_gone(name)
    group.names_ = ("q-0", "q-1")
    for name in group.names_:
        group.pod(name)
    group.workload({"QuotaReserved": True, "Evicted": False}, **group.owned(*group.names_))
    group.decide()


def test_a_group_whose_pods_were_all_replaced_waits_for_the_old_ones_on_a_silent_cluster() -> None:
    """Its Workload was evicted, and others are in their place: none of the old ones is the job any more, and they run
    as before."""
    group = Pods("a", "b").running("a", "a", "b")
    group.clone_gone("b")
    replaced(group)
    group.workload(nominated=["b"])
    group.decide()
    group.clone("b", RUNS)
    for _ in range(5):
        assert "JobCreation" not in [name for name, _ in group.writes()]
        group.tick(seconds=3)
    for name in ("p-0", "p-1"):
        group.copy_gone("a", name)
    assert "JobCreation" in [name for name, _ in group.tick(seconds=1).writes()]


@pytest.mark.parametrize("gone", [False, True])
def test_the_copy_of_a_pod_that_is_deleted_goes_and_does_not_run_beside_the_one_in_its_place(gone: bool) -> None:
    """Both ran, and the ends of both counted: the group was finished before all that is to be done was done."""
    group = Pods("a", names=("p-0", "p-1", "p-2")).running()
    group.pod("p-1", deleting=True)
    if gone:
        group.pod_gone("p-1")
    assert group.writes() == [("Removal", "p-1")]
    group.pod("q-1")
    group.workload(**group.owned("p-0", "p-1", "p-2", "q-1"))
    assert group.writes() == []
    group.copy_gone("a", "p-1")
    assert group.writes() == [("JobCreation", "q-1")]
    group.copy("a", "q-1")
    assert group.writes() == []


@pytest.mark.parametrize("ended", [True, False])
def test_a_group_whose_pods_were_all_replaced_starts_anew_on_the_cluster_that_comes_back(ended: bool) -> None:
    """Its old copy was adopted: the end of an old pod there counted beside those of the new ones, and the group was
    finished while one of these still ran."""
    group = Pods("a").running()
    group.lose("a")
    replaced(group)
    group.connect("a")
    group.clone("a", RUNS)
    group.copy("a", "p-0", status=TWO, finished=True, inactive=True)
    group.copy("a", "p-1", status=TWO if ended else ONE, finished=ended, inactive=ended)
    decided = group.decide()
    (judged,) = [one for one in decided if isinstance(one, CopyJudged)]
    assert (judged.verdict, judged.reason) == ("Remove", WorkloadReason.STALE_COPY)
    assert {one.uid for one in decided if isinstance(one, RemovalDecided)} == {"a-p-0", "a-p-1"}
    for name in ("p-0", "p-1"):
        group.copy("a", name, status=TWO, finished=True, inactive=True, deleting=True, finalizers=KEPT)
    assert group.names() == ["FinalizerAddition a"]
    group.clone("a", RUNS, finalizers=[RESOURCE_IN_USE])
    assert group.names() == ["Removal Workload a"]
    for name in ("p-0", "p-1"):
        group.copy_gone("a", name)
    group.clone_gone("a")
    assert group.names() == ["Clone a"]


def test_a_workload_goes_with_its_finalizer_when_nothing_else_keeps_the_pods_of_its_group() -> None:
    """Its worker's Kueue takes the pods' finalizers away with the Workload's alone: both waited for each other, and the
    Workload kept its quota there."""
    group = Pods("a").running()
    group.clone("a", RUNS, finalizers=["mine"]).gone()
    assert group.writes() == [("Removal", "p-1"), ("Removal", "")]
    group.copy("a", "p-0", status=ONE, inactive=False, deleting=True)
    group.copy("a", "p-1", status=TWO, finished=True, inactive=True, deleting=True, finalizers=KEPT)
    assert group.names() == []  # one still runs
    group.copy("a", "p-0", status=TWO, finished=True, inactive=True, deleting=True, finalizers=KEPT)
    (addition,) = group.decide()
    assert isinstance(addition, FinalizerAdditionDecided)
    assert addition.finalizers == ["mine", RESOURCE_IN_USE]
    group.clone("a", RUNS, finalizers=["mine", RESOURCE_IN_USE])
    assert group.names() == ["Removal Workload a"]
    group.clone("a", RUNS, deleting=True)
    assert group.names() == []
    # If Kueue takes none away, the copy goes, and its quota is free.
    group.tick(minutes=1)
    (removal,) = group.decide()
    assert isinstance(removal, FinalizerRemovalDecided)
    assert removal.finalizers == ["mine"]


def test_pods_that_nothing_but_their_finalizers_keeps_hold_up_no_other_cluster() -> None:
    group = Pods("a", "b").running("a", "a", "b")
    group.clone_gone("b")
    group.workload(
        {"Evicted": "AdmissionCheck", "QuotaReserved": False, "Admitted": False}, check="Pending", cluster_name=""
    )
    group.decide()
    for name in ("p-0", "p-1"):
        group.copy("a", name, status=TWO, finished=True, inactive=True, deleting=True, finalizers=KEPT)
    group.clone_gone("a")
    # Nobody but Kueue would take its finalizer off, and it does not without the Workload.
    removals = [one for one in group.decide() if isinstance(one, FinalizerRemovalDecided)]
    assert {(one.uid, one.target, *one.finalizers) for one in removals} == {
        ("a-p-0", "a/Job", "mine"),
        ("a-p-1", "a/Job/p-1", "mine"),
    }
    assert group.names() == []
    group.workload({"QuotaReserved": True, "Evicted": False})
    assert group.names() == ["Nomination", "Clone b"]
    group.workload(nominated=["b"])
    group.clone("b", RUNS)
    assert group.names() == ["WinnerChosen b", "JobCreation b"]


@pytest.mark.parametrize("first", [False, True])
def test_a_pod_comes_in_the_place_of_another_once_that_has_stopped(first: bool) -> None:
    """The worker's Kueue counts what still runs: with one pod more than the Workload has, both are out of step."""
    group = Pods("a", names=("p-0", "p-1", "p-2")).running()
    name = "p-0" if first else "p-1"
    group.pod(name, deleting=True)
    group.pod("q-1").workload(**group.owned("p-0", "p-1", "p-2", "q-1"))
    if first:
        assert group.writes() == []  # it is the one by which the group is known
        group.pod_gone(name).workload(**group.owned("p-1", "p-2", "q-1"))
    assert group.writes() == [("Removal", name)]
    group.copy("a", name, status=ONE, inactive=False, deleting=True)
    assert group.writes() == []
    group.copy("a", name, status=TWO, finished=True, inactive=True, deleting=True)
    assert group.writes() == [("JobCreation", "q-1")]


def test_what_has_succeeded_is_not_done_again_by_the_pod_that_comes_in_its_place() -> None:
    """Kueue counts it: the group was out of step with its Workload there, or finished while the other one ran."""
    group = Pods("a", names=("p-0", "p-1", "p-2")).running()
    group.copy("a", "p-1", status=TWO, finished=True, inactive=True, succeeded=True)
    group.pod_gone("p-1").pod("q-1").workload(**group.owned("p-0", "p-2", "q-1"))
    assert group.writes() == []
    group.copy("a", "p-2", status=TWO, finished=True, inactive=True)
    group.pod_gone("p-2").pod("q-2").workload(**group.owned("p-0", "q-1", "q-2"))
    assert group.writes() == [("JobCreation", "q-1")]
    assert group.writes() == []


def test_the_status_of_the_next_first_pod_is_shown_also_if_it_is_that_of_the_one_before() -> None:
    """Pods that start in the same second have the same one: it counted as written, and the pod never showed that it
    runs."""
    group = Pods("a").running()
    group.copy("a", "p-0", status=TWO, finished=True, inactive=True).pod("p-0", status=TWO, finished=True)
    group.tick(seconds=2).pod_gone("p-0").pod("q-0").workload(**group.owned("q-0", "p-1"))
    group.copy("a", "q-0", status=ONE, inactive=False).copy("a", "p-1", status=ONE, inactive=False)
    assert group.tick(seconds=5).writes() == [("StatusRelay", "")]


@pytest.mark.parametrize("end", [{"finished": True, "inactive": True, "status": TWO}, {"deleting": True}])
def test_a_first_pod_that_has_ended_is_not_run_once_more_when_its_group_is_dispatched_again(
    end: dict[str, Any],
) -> None:
    """It was created as the group's job: it ran twice, and was one pod too many for the worker's Kueue."""
    group = Pods("a", names=("p-0", "p-1", "p-2")).running()
    group.copy("a", "p-0", status=TWO, finished=True, inactive=True).pod("p-0", **end)
    group.tick(seconds=2).decide()
    group.pod("q-0")
    group.workload(
        {"Evicted": "Preempted", "QuotaReserved": False, "Admitted": False},
        check="Pending",
        cluster_name="",
        **group.owned("p-0", "p-1", "p-2", "q-0"),
    )
    group.decide()
    for name in ("p-0", "p-1", "p-2"):
        group.copy_gone("a", name)
    group.clone_gone("a")
    group.workload({"QuotaReserved": True, "Evicted": False})
    (chosen,) = group.decide()
    assert isinstance(chosen, GroupPodChosen)
    assert chosen.owner.name == "p-1"
    assert group.names() == ["Nomination", "Clone a"]
    group.workload(nominated=["a"])
    group.clone("a", RUNS)
    assert group.writes() == [("WinnerChosen", ""), ("JobCreation", "")]
    group.copy("a", "p-1").decide()
    group.workload({"Admitted": True}, check="Ready", cluster_name="a", nominated=[])
    assert sorted(group.writes()) == [("JobCreation", "p-2"), ("JobCreation", "q-0")]


@pytest.mark.parametrize("name", ["p-0", "p-1"])
def test_a_pod_that_somebody_deletes_on_its_worker_gives_its_name_back(name: str) -> None:
    """Kueue keeps it there as long as the group goes on, and no other copy of its pod could be made."""
    group = Pods("a", names=("p-0", "p-1", "p-2")).running()
    group.copy("a", name, status=ONE, inactive=False, deleting=True)
    assert group.writes() == []
    group.copy("a", name, status=TWO, finished=True, inactive=True, deleting=True, finalizers=KEPT)
    (removal,) = group.decide()
    assert isinstance(removal, FinalizerRemovalDecided)
    assert (removal.uid, removal.of, removal.finalizers) == (f"a-{name}", "Job", ["mine"])
    group.copy_gone("a", name)
    # Without its first one the whole group begins anew.
    assert group.names() == (["CheckState"] if name == "p-0" else ["JobCreation a"])


def test_a_first_pod_that_goes_is_not_created_where_its_creation_elsewhere_never_showed() -> None:
    group = Pods("a", "b").admitted("a", "b")
    assert "JobCreation a" in group.names()
    group.workload({"QuotaReserved": False, "Admitted": False}, check="Pending", cluster_name="", nominated=[])
    group.clone_gone("a").clone_gone("b")
    group.pod("p-0", deleting=True).pod("q-0").workload({"QuotaReserved": True}, **group.owned("p-0", "p-1", "q-0"))
    assert group.state.unsure
    assert group.names() == []  # it may still show
    assert group.tick(seconds=45).names() == ["GroupPodChosen"]
    assert group.state.owner is not None
    assert group.state.owner.name == "p-1"


def test_a_group_whose_first_pod_is_gone_is_known_by_another_one() -> None:
    """The Workload names the pod that is gone among its owners until the garbage collector comes by."""
    group = Pods("a").running()
    evicted = {"Evicted": "AdmissionCheck", "QuotaReserved": False, "Admitted": False}
    group.workload(evicted, check="Pending", cluster_name="").decide()
    for name in ("p-0", "p-1"):
        group.copy_gone("a", name)
    group.clone_gone("a")
    group.pod("q-0", group=group.wl).pod("q-1", group=group.wl).pod_gone("p-0").pod_gone("p-1")
    group.workload({"QuotaReserved": True, "Evicted": False}, **group.owned("p-0", "p-1", "q-0", "q-1"))
    without_pods = [kind.name for kind in HOME_KINDS if kind != PODS]
    group.fold(cluster_stream(MANAGEMENT), ClusterConnected(kinds=without_pods))
    assert group.names() == [], "it may be there: nobody has listed the pods"
    group.fold(cluster_stream(MANAGEMENT), ClusterConnected(kinds=[*without_pods, PODS.name]))
    (chosen,) = group.decide()
    assert isinstance(chosen, GroupPodChosen)
    assert chosen.owner.name == "q-0"
    assert group.names() == ["Nomination", "Clone a"]


def test_the_end_of_a_pod_by_which_its_group_was_known_before_is_taken_when_the_workload_is_over() -> None:
    """The Workload was still looked for by the first pod, when that one went."""
    group = Pods("a").running()
    evicted = {"Evicted": "AdmissionCheck", "QuotaReserved": False, "Admitted": False}
    group.workload(evicted, check="Pending", cluster_name="").decide()
    for name in ("p-0", "p-1"):
        group.copy_gone("a", name)
    group.clone_gone("a").pod("p-0", deleting=True).pod("q-0")
    group.workload({"QuotaReserved": True, "Evicted": False}, **group.owned("p-0", "p-1", "q-0"))
    assert group.names() == ["GroupPodChosen"]
    group.gone()
    assert group.stream not in group.fleet.index.workloads
    group.pod_gone("p-0").pod_gone("p-1").pod_gone("q-0")
    assert not group.fleet.index.jobs
