"""Many clusters are lost at once, or many jobs with one: what is held back, and for how long."""

from __future__ import annotations

import pytest

from controlplane.controllers.connectivity import events
from tests.multikueue.returning import retry_of
from tests.multikueue.scene import WL, Scene


def test_a_mass_outage_holds_everything_back_until_it_ends() -> None:
    scene = Scene("a", "b", "c").running("a", "a").lose("a").lose("b").tick(minutes=20)
    (began,) = scene.decide(events.FLEET_STREAM)
    assert isinstance(began, events.MassOutageBegan)
    assert (began.away, began.of) == (["a", "b"], 3)
    assert scene.names() == []
    scene.connect("b")
    (ended,) = scene.decide(events.FLEET_STREAM)
    assert isinstance(ended, events.MassOutageEnded)
    scene.tick(minutes=14, seconds=59)
    assert retry_of(scene) is None  # who is still away has its whole grace from here
    scene.tick(seconds=1)
    assert retry_of(scene) is not None


def test_an_accepted_mass_outage_holds_nothing_back() -> None:
    scene = Scene("a", "b", "c").running("a", "a").lose("a").lose("b").tick(minutes=20)
    scene.decide(events.FLEET_STREAM)
    scene.fold(events.FLEET_STREAM, events.MassOutageAccepted(by="me"))
    assert scene.decide(events.FLEET_STREAM) == []
    assert retry_of(scene) is not None


@pytest.mark.parametrize("share", [0.3, 0.5, 0.99])
def test_one_of_two_clusters_is_no_mass_outage_whatever_the_share(share: float) -> None:
    scene = Scene("a", "b", policy={"mass_outage_share": share}).running("a", "a", "b").lose("a").tick(minutes=20)
    assert scene.decide(events.FLEET_STREAM) == []
    assert retry_of(scene) is not None


@pytest.mark.parametrize("all_of", [("a",), ("a", "b")])
def test_one_of_one_and_two_of_two_are_one(all_of: tuple[str, ...]) -> None:
    """Nothing could be run again elsewhere, so nothing is won by taking it away."""
    scene = Scene(*all_of).running("a", *all_of)
    for cluster in all_of:
        scene.lose(cluster)
    scene.tick(minutes=20)
    (began,) = scene.decide(events.FLEET_STREAM)
    assert isinstance(began, events.MassOutageBegan)
    assert (began.away, began.of) == (list(all_of), len(all_of))
    assert retry_of(scene) is None
    scene.connect(all_of[-1])
    (ended,) = scene.decide(events.FLEET_STREAM)
    assert isinstance(ended, events.MassOutageEnded)


@pytest.mark.parametrize("all_of", [("a",), ("a", "b"), ("a", "b", "c")])
def test_a_share_of_all_is_never_reached(all_of: tuple[str, ...]) -> None:
    scene = Scene(*all_of, policy={"mass_outage_share": 1.0}).running("a", *all_of)
    for cluster in all_of:
        scene.lose(cluster)
    scene.tick(minutes=20)
    assert scene.decide(events.FLEET_STREAM) == []
    assert retry_of(scene) is not None


def test_requeues_keep_to_their_budget() -> None:
    scene = Scene("a", "b", policy={"requeues_per_minute": 1}).running("a").lose("a").tick(minutes=16)
    scene.fleet.index.requeues.append(scene.now)
    assert scene.names() == []
    assert scene.wake is not None
    scene.now = scene.wake
    assert retry_of(scene) is not None


OTHER = "job-other-12345"


def two_of_one_cluster(requeues_per_minute: int = 1) -> Scene:
    """Return two Workloads that ran on a cluster which is lost for so long that both are queued again."""
    scene = Scene("a", "b", policy={"requeues_per_minute": requeues_per_minute}).running("a")
    return scene.on(OTHER).running("a").on(WL).lose("a").tick(minutes=16)


def requeues(scene: Scene, name: str) -> bool:
    """Whether a Workload is queued again now; what is decided is not recorded."""
    found = scene.fleet.decide(scene.on(name).stream, scene.now).events
    return any(getattr(new.event, "state", "") == "Retry" for new in found)


def test_a_requeue_that_is_not_recorded_yet_counts() -> None:
    scene = two_of_one_cluster()
    assert requeues(scene, WL)
    assert not requeues(scene, OTHER)


@pytest.mark.parametrize("moves", ["the cluster", "the Workload"])
def test_a_requeue_that_the_log_refused_does_not_count(moves: str) -> None:
    scene = two_of_one_cluster()
    assert requeues(scene, WL)
    if moves == "the cluster":
        scene.lose("a")
    else:
        scene.workload()
    assert requeues(scene, OTHER)


def test_a_requeue_does_not_count_against_itself() -> None:
    scene = two_of_one_cluster()
    assert requeues(scene, WL)
    assert requeues(scene, WL)


def test_a_requeue_counts_once() -> None:
    scene = two_of_one_cluster(requeues_per_minute=2)
    assert retry_of(scene) is not None
    assert requeues(scene, OTHER)


def test_requeues_of_which_one_is_recorded_and_one_is_not_count_both() -> None:
    third = "job-third-12345"
    scene = Scene("a", "b", policy={"requeues_per_minute": 2})
    for name in (WL, OTHER, third):
        scene.on(name).running("a")
    scene.lose("a").tick(minutes=16)
    assert retry_of(scene.on(WL)) is not None
    assert requeues(scene, OTHER)
    assert not requeues(scene, third)
