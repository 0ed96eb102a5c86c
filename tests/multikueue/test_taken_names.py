"""A cluster on which the name of a job is taken is left out for a while, also when the Workload is made anew meanwhile:
the owner of a group of pods makes them again, and would meet the same name there without end."""

from __future__ import annotations

from datetime import timedelta

from controlplane.controllers.multikueue.events import NominationDecided
from tests.multikueue.scene import STREAM, Scene

PAUSE = timedelta(minutes=5)


def refused_and_gone() -> Scene:
    """The name is taken on b; then the Workload and its copies go."""
    scene = Scene("a", "b").cloned("a", "b").clone("b", {"Admitted": True})
    creation = next(one for one in scene.decide() if type(one).__name__ == "JobCreationDecided")
    scene.clone_gone("a")
    scene.refuses(creation, 409, "Foreign", timedelta(seconds=1))
    assert scene.names() == ["ClusterRefused b"]
    scene.decide()
    scene.clone_gone("b").gone()
    assert STREAM not in scene.fleet.index.workloads
    return scene


def nominated_anew(scene: Scene) -> list[str]:
    scene.workload({"QuotaReserved": True}, uid="anew")
    nomination, *_ = scene.decide()
    assert isinstance(nomination, NominationDecided)
    return list(nomination.clusters)


def test_it_is_left_out_when_the_workload_is_made_anew() -> None:
    assert nominated_anew(refused_and_gone()) == ["a"]


def test_it_is_asked_again_once_the_pause_is_over() -> None:
    scene = refused_and_gone()
    scene.now += PAUSE
    assert nominated_anew(scene) == ["a", "b"]


def test_what_does_not_count_any_more_is_forgotten() -> None:
    scene = refused_and_gone()
    assert list(scene.fleet.index.names.streams) == [STREAM]
    scene.now += PAUSE
    nominated_anew(scene)
    assert not scene.fleet.index.names.streams
