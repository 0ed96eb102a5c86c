"""What may run unseen on a cluster that is connected without its kind, or behind a name under which another cluster
answers."""

from __future__ import annotations

import pytest

from controlplane.controllers.connectivity.events import (
    ClusterForgotten,
    ClusterRestored,
    KindOff,
    KindSynced,
    cluster_stream,
)
from controlplane.controllers.multikueue.observations import Owner
from controlplane.controllers.multikueue.unobserved_jobs import of_another_job
from controlplane.kube.kinds import JOBS, WORKLOADS
from tests.multikueue.dispatched import settled
from tests.multikueue.scene import Scene
from tests.multikueue.unseen import creating, put_back

# --- a kind that is out of view on a cluster that is connected -------------------------------------------------------


def off(scene: Scene) -> Scene:
    scene.fold(cluster_stream("a"), KindOff(kind=WORKLOADS.name, reason="Forbidden", message="forbidden"), "a")
    return scene


def test_rights_that_are_taken_away_begin_a_grace_like_any_other_loss() -> None:
    scene = off(settled("a", "a", "b").tick(hours=3))
    assert scene.names() == []
    off(scene.tick(minutes=14))
    assert scene.names() == []
    scene.tick(minutes=1)
    (event,) = scene.decide()
    assert (event.state, event.message) == ("Retry", 'Admitting remote lost, Previously: "Ready"')


@pytest.mark.parametrize("away", [0, 10])
def test_a_cluster_that_is_back_without_its_workloads_is_as_lost_as_before(away: int) -> None:
    scene = settled("a", "a", "b").tick(hours=3)
    if away:
        scene.lose("a").tick(minutes=away)
    scene.connect("a", (JOBS,))
    assert scene.names() == []
    off(scene.tick(minutes=14 - away))
    assert scene.names() == []
    scene.tick(minutes=1)
    assert scene.names() == ["CheckState"]


def test_rights_that_come_back_in_time_change_nothing() -> None:
    scene = off(settled("a", "a", "b").tick(hours=3)).tick(minutes=14)
    scene.fold(cluster_stream("a"), KindSynced(kind=WORKLOADS.name, count=1, resource_version="1"), "a")
    assert scene.names() == []
    off(scene.tick(minutes=14))
    assert scene.names() == []


def test_after_a_restore_nothing_is_in_view_until_it_was_listed() -> None:
    scene = settled("a", "a", "b").tick(hours=3)
    assert scene.fleet.index.context(scene.state).available("a")
    scene.fold(cluster_stream("a"), ClusterRestored(message="went back", restores=1), "a")
    assert not scene.fleet.index.context(scene.state).in_view("a")
    assert scene.names() == []
    scene.tick(minutes=14)
    assert scene.names() == []
    for kind in (WORKLOADS, JOBS):
        scene.fold(cluster_stream("a"), KindSynced(kind=kind.name, count=0, resource_version="1"), "a")
    assert scene.fleet.index.context(scene.state).available("a")


# --- another cluster answers under the name: what still waits for the one before ------------------------------------


def resting(scene: Scene) -> int:
    return scene.fleet.resting_on("a", scene.now)


def test_a_running_job_keeps_its_clusters_name_until_the_grace_is_over() -> None:
    scene = settled("a", "a", "b")
    assert resting(scene) == 1  # nobody has said yet that it is away
    scene.tick(hours=3).lose("a")
    assert resting(scene) == 1
    assert resting(scene.tick(minutes=15)) == 0


def test_under_never_twice_it_does_until_an_operator_gives_the_cluster_up() -> None:
    scene = settled("a", "a", "b")
    scene.job(execution_policy="never-twice").lose("a").tick(hours=40)
    assert resting(scene) == 1
    scene.fold(cluster_stream("a"), ClusterForgotten(by="me"), "a")
    assert resting(scene) == 0


def test_a_creation_that_may_have_been_carried_out_does_too() -> None:
    assert resting(creating("never-twice").lose("a")) == 1
    assert resting(put_back(creating("never-twice").lose("a"))) == 1


def test_a_copy_without_a_job_does_not() -> None:
    assert resting(Scene("a", "b").cloned("a", "b").lose("a")) == 0


def test_neither_does_what_has_finished_or_was_deleted_or_runs_elsewhere() -> None:
    assert resting(settled("a", "a", "b").lose("a").workload({"Finished": "Succeeded"})) == 0
    assert resting(settled("a", "a", "b").lose("a").gone()) == 0
    assert resting(settled("b", "a", "b").lose("a")) == 0


@pytest.mark.parametrize(("kind", "another"), [("Job", True), ("Pod", False)])
def test_what_comes_in_the_place_of_evicted_pods_is_no_other_job(kind: str, another: bool) -> None:
    """Pods are deleted when they are evicted; those of before may run on a cluster that is away. A Job of the name is
    new."""
    owner = Owner(api_version="batch/v1" if kind == "Job" else "v1", kind=kind, name="train", uid="made-anew")
    scene = Scene("a").running("a", "a").workload(uid="made-anew", owner=owner)
    assert of_another_job(scene.state) is another
