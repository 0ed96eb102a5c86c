"""Who is asked for a Workload, and when: all at once, a few more each round, or whom somebody else nominates."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from controlplane.controllers.multikueue.events import AttemptBegun, CloneDecided, NominationDecided, RemovalDecided
from controlplane.controllers.multikueue.nominate import INCREMENTAL
from controlplane.controllers.multikueue.reasons import WorkloadReason
from tests.multikueue.scene import STREAM, Scene

TWO_AT_A_TIME = {"dispatcher": INCREMENTAL, "step_size": 2}
MINE = {"dispatcher": "example.com/mine"}


def nomination(scene: Scene) -> tuple[list[str], int, str]:
    (decision,) = [one for one in scene.decide() if isinstance(one, NominationDecided)]
    return decision.clusters, decision.round, decision.reason.value


def stored(scene: Scene, *clusters: str) -> Scene:
    """The nomination is stored, and each copy is there."""
    scene.workload(nominated=list(clusters)).decide()
    for cluster in clusters:
        scene.clone(cluster)
    return scene


def incremental(*workers: str, **policy: Any) -> Scene:
    return Scene(*workers, policy={**TWO_AT_A_TIME, **policy}).reserved()


def test_the_first_clusters_of_the_configuration_are_asked_first() -> None:
    scene = incremental("d", "b", "c", "a")
    assert nomination(scene) == (["d", "b"], 1, "FirstRound")
    assert sorted(write.cluster for write in scene.fleet.open_writes(STREAM)) == ["@management", "b", "d"]
    stored(scene, "d", "b")
    assert scene.names() == []
    assert scene.wake == scene.now + timedelta(minutes=5)


def test_the_next_are_asked_when_the_round_is_over_and_the_first_stay() -> None:
    scene = incremental("d", "b", "c", "a", "e")
    nomination(scene)
    stored(scene, "d", "b")
    scene.tick(minutes=5)
    assert nomination(scene) == (["d", "b", "c", "a"], 2, "NextRound")
    stored(scene, "d", "b", "c", "a").tick(minutes=4, seconds=59)
    assert scene.names() == []
    scene.tick(seconds=1)
    assert nomination(scene) == (["d", "b", "c", "a", "e"], 3, "NextRound")
    stored(scene, "d", "b", "c", "a", "e").tick(hours=1)
    assert scene.names() == []


def test_a_round_goes_on_where_it_was_in_another_process() -> None:
    """What a round needs is in the log: folding it again gives the same state."""
    scene = incremental("a", "b", "c")
    nomination(scene)
    began = scene.now
    stored(scene, "a", "b").tick(minutes=3)
    assert (scene.state.round, scene.state.round_began) == (1, began)
    assert scene.names() == []
    assert scene.wake == began + timedelta(minutes=5)


def test_a_cluster_that_is_away_holds_no_place() -> None:
    scene = Scene("a", "b", "c", policy=TWO_AT_A_TIME).lose("a").reserved()
    assert nomination(scene) == (["b", "c"], 1, "FirstRound")


def test_one_that_goes_away_is_withdrawn_and_its_place_is_given_on() -> None:
    scene = incremental("a", "b", "c", "d")
    nomination(scene)
    stored(scene, "a", "b").lose("a")
    assert nomination(scene) == (["b", "c"], 1, "AvailableClusters")
    stored(scene, "b", "c").connect("a")
    removed = [one.cluster for one in scene.decide() if isinstance(one, RemovalDecided)]
    assert removed == ["a"], "its copy is found when it is back"


def test_where_its_job_is_already_is_asked_whatever_the_round() -> None:
    scene = Scene("a", "b", "c", "d", policy=TWO_AT_A_TIME).reserved().clone("d").remote_job("d")
    assert nomination(scene) == (["d", "a"], 1, "FirstRound")


def test_with_fewer_clusters_than_a_round_asks_nothing_is_waited_for() -> None:
    scene = incremental("a", "b", step_size=3)
    assert nomination(scene) == (["a", "b"], 1, "FirstRound")
    stored(scene, "a", "b")
    assert scene.names() == []
    assert scene.wake is None


def test_a_new_attempt_begins_with_the_first_round() -> None:
    scene = incremental("a", "b", "c")
    nomination(scene)
    stored(scene, "a", "b").tick(minutes=5)
    assert nomination(scene)[1] == 2
    scene.workload({"QuotaReserved": False}, nominated=[])
    scene.decide()
    scene.clone_gone("a").clone_gone("b")
    scene.workload({"QuotaReserved": True})
    assert nomination(scene) == (["a", "b"], 1, "FirstRound")
    assert scene.state.attempt == 2


def test_somebody_elses_nomination_is_waited_for_and_followed() -> None:
    scene = Scene("a", "b", policy=MINE).reserved()
    assert scene.names() == []
    scene.workload(nominated=["b"])
    begun, clone = scene.decide()
    assert isinstance(begun, AttemptBegun)
    assert isinstance(clone, CloneDecided)
    assert (begun.clusters, begun.attempt, begun.reason) == (["b"], 1, WorkloadReason.NOMINATED_BY_ANOTHER)
    assert (clone.cluster, clone.attempt) == ("b", 1)
    scene.clone("b").workload(nominated=["a", "b"])
    assert scene.names() == ["Clone a"]
    scene.clone("a")
    assert scene.names() == []


def test_what_somebody_else_withdraws_is_removed() -> None:
    scene = Scene("a", "b", policy=MINE).reserved().workload(nominated=["a", "b"])
    scene.decide()
    scene.decide()
    scene.clone("a").clone("b").workload(nominated=["b"])
    assert scene.names() == ["Removal Workload a"]


def test_a_nomination_of_a_cluster_that_is_not_configured_is_not_followed() -> None:
    scene = Scene("a", policy=MINE).reserved().workload(nominated=["elsewhere"])
    assert scene.names() == []


def test_somebody_elses_choice_wins_as_any_other() -> None:
    scene = Scene("a", "b", policy=MINE).reserved().workload(nominated=["b"])
    scene.decide()
    scene.decide()
    scene.clone("b", {"QuotaReserved": True, "Admitted": True})
    assert scene.names() == ["WinnerChosen b", "JobCreation b"]
