"""A cluster on which the name of a job is taken is left out for a while, also when the Workload is made anew meanwhile:
the owner of a group of pods makes them again, and would meet the same name there without end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from controlplane.controllers.multikueue.events import ClusterRefused, NominationDecided
from controlplane.controllers.multikueue.observations import WorkloadGone
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.taken_names import TakenNames
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.log.event import Recorded
from tests.multikueue.scene import START, STREAM, Scene

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


def looks(count: int) -> int:
    """How many refusals are looked at while so many Workloads go whose names are taken."""
    names, looked = TakenNames(), 0

    class Refusals(dict[str, ClusterRefused]):
        def values(self) -> Any:
            nonlocal looked
            looked += 1
            return super().values()

    for number in range(count):
        at = START + timedelta(seconds=number)
        said = ClusterRefused(
            cluster="b", attempt=1, message="", until=at + PAUSE, reason=WorkloadReason.JOB_NAME_TAKEN
        )
        stream = f"workload/default/{number}"
        gone = WorkloadGone(namespace="default", name=str(number), uid="uid")
        recorded = Recorded(position=number + 1, stream=stream, version=1, event=gone, recorded_at=at)
        state = msgspec.structs.replace(WorkloadState.initial(stream), refused=Refusals(b=said))
        names.gone(recorded, state)
    assert len(names.streams) == min(count, PAUSE.total_seconds())
    return looked


def test_thousands_that_go_are_not_looked_at_again_for_each_other() -> None:
    assert looks(3000) <= 3 * 3000
