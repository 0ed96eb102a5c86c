"""Pods and groups of pods on the way back: they stop, they are lost with their cluster, and others take their place."""

from __future__ import annotations

import pytest

from controlplane.controllers.multikueue.events import RemovalDecided, StatusRelayDecided
from controlplane.kube.kinds import PODS
from tests.multikueue.grouped import RUNS, TWO, Pods, pod
from tests.multikueue.observed import sighting
from tests.multikueue.scene import START, Scene


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


def test_a_group_whose_pods_were_all_replaced_waits_for_the_old_ones_on_a_silent_cluster() -> None:
    """Its Workload was evicted, and others are in their place: none of the old ones is the job any more, and they run
    as before."""
    group = Pods("a", "b").running("a", "a", "b")
    group.clone_gone("b")
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
    assert group.writes() == [("JobCreation", "q-1")]
    group.copy_gone("a", "p-1").copy("a", "q-1")
    assert group.writes() == []
