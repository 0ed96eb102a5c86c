"""What was written and is not there afterwards, since another controller writes the same or an API server drops what it
does not know, is not written again and again without end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from controlplane.controllers.multikueue.events import (
    CloneDecided,
    EffectUnneeded,
    FinishDecided,
    SpecUpdateDecided,
    WorkloadWrite,
)
from controlplane.controllers.multikueue.observations import Priority
from controlplane.controllers.multikueue.reasons import WorkloadReason
from tests.multikueue.dispatched import TWO, only, settled
from tests.multikueue.scene import Scene
from tests.multikueue.sliced import LARGE, bound

ENDED: dict[str, Any] = {"status": TWO, "finished": True, "inactive": True}
OURS = "@management/Job"


def unneeded(scene: Scene, target: str, action: str) -> Scene:
    """The API server took the write, and nothing changed."""
    scene.fold(
        scene.stream,
        EffectUnneeded(target=target, action=action, resource_version="1"),
    )
    return scene


def ended() -> Scene:
    """The copy on `a` has ended, and its Kueue says so."""
    return settled().remote_job("a", **ENDED).clone("a", {"Finished": ("Succeeded", "done")})


def overwritten(scene: Scene, turn: int, **changes: Any) -> Scene:
    """Our status was shown, and another controller wrote its own."""
    scene.job(status=f"{turn:02x}" * 32, **changes)
    return scene


def pauses(scene: Scene, turns: int, **changes: Any) -> list[timedelta]:
    """How long each write of a status waits that somebody overwrites at once."""
    found = []
    for turn in range(turns):
        begun = scene.now
        while scene.names() != ["StatusRelay"]:
            assert scene.wake is not None
            scene.now = scene.wake
        found.append(scene.now - begun)
        scene.tick(milliseconds=10)
        overwritten(scene, 0x50 + turn, **changes)
    return found


def test_a_last_status_that_is_overwritten_each_time_does_not_hold_the_workload_up() -> None:
    scene = ended()
    assert pauses(scene, 3)[:2] == [timedelta(), timedelta()], "the management cluster may have been put back"
    finish = only(scene.decide(), FinishDecided)
    assert (finish.finish_reason, finish.source) == ("Succeeded", "a")
    scene.workload({"Finished": ("Succeeded", "done")})
    assert scene.names() == ["Removal Job a"]
    scene.remote_job_gone("a").decide()
    scene.clone_gone("a")
    overwritten(scene, 0x60).tick(hours=1)
    assert scene.names() == []


def test_nor_does_one_that_the_api_server_drops() -> None:
    scene = ended()
    assert scene.names() == ["StatusRelay"]
    unneeded(scene, OURS, "StatusRelayDecided")
    assert scene.names() == ["Finish"]


def test_one_that_is_put_back_later_is_written_again() -> None:
    scene = ended()
    assert pauses(scene, 2) == [timedelta(), timedelta()]
    scene.tick(minutes=16)
    assert pauses(scene, 2) == [timedelta(), timedelta()]
    scene.decide()
    scene.job(**ENDED)
    assert scene.tick(seconds=1).names() == ["Finish"]


def test_a_workload_that_is_made_anew_begins_anew() -> None:
    scene = ended()
    pauses(scene, 3)
    assert scene.names() == ["Finish"]
    scene.gone()
    scene.workload(uid="anew")
    assert scene.names() == ["StatusRelay"]


def test_a_running_copy_that_has_ended_is_told_no_more_often() -> None:
    """Its Kueue has not said so yet."""
    scene = settled().remote_job("a", **ENDED)
    pauses(scene, 3)
    scene.tick(hours=1)
    assert scene.names() == []


def test_that_nothing_runs_is_written_more_and_more_seldom() -> None:
    scene = settled().job(suspended=True).workload({"Evicted": ("Preempted", "for another")})
    scene.decide()
    scene.remote_job_gone("a").clone_gone("a")
    seconds = [one.total_seconds() for one in pauses(scene, 12, inactive=False)]
    assert seconds[:2] == [0, 0]
    assert [round(one) for one in seconds[2:]] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]


def test_a_write_that_changes_nothing_is_not_repeated() -> None:
    """The user's RayCluster has another group of workers, say, which its copy does not get."""
    scene = bound().job(size={"main": 3, "more": 1}).workload(size={"main": 3, "more": 1})
    while "SpecUpdate a" not in (names := scene.names()):
        assert names
        scene.workload(check="Ready", nominated=[])
    unneeded(scene, "a/Job", "SpecUpdateDecided")
    assert scene.names() == []
    scene.remote_job("a", size=LARGE)
    again = only(scene.decide(), SpecUpdateDecided)
    assert again.reason == WorkloadReason.SIZE_CHANGED


def test_a_priority_that_a_worker_takes_back_is_written_more_and_more_seldom() -> None:
    """Its Kueue gives the Workload of a LeaderWorkerSet the class that the copy was created with, and the user has
    changed that of his."""
    scene, seconds = Scene("a").cloned("a").workload(priority=Priority(value=7)), []
    for _ in range(6):
        begun = scene.now
        while scene.names() != ["CloneUpdate a"]:
            assert scene.wake is not None
            scene.now = scene.wake
        seconds.append(round((scene.now - begun).total_seconds()))
        scene.tick(milliseconds=10).clone("a", priority=Priority(value=7))
        assert scene.names() == []
        scene.clone("a", priority=Priority())
    assert seconds == [0, 0, 1, 2, 4, 8]
    scene.workload(priority=Priority(value=8))
    assert scene.names() == ["CloneUpdate a"], "another one is written at once"


def test_a_copy_that_somebody_deletes_each_time_is_created_more_and_more_seldom() -> None:
    """A cleaner on the worker, say, or a second service with the same origin."""
    scene, seconds = Scene("a").nominated("a"), []
    scene.clone("a", uid="first").decide()
    for turn in range(6):
        scene.clone_gone("a")
        begun = scene.now
        while scene.names() != ["Clone a"]:
            assert scene.wake is not None
            scene.now = scene.wake
        seconds.append(round((scene.now - begun).total_seconds()))
        scene.tick(milliseconds=10).clone("a", uid=f"copy-{turn}")
        assert scene.names() == []
    assert seconds == [0, 1, 2, 4, 8, 16]


def test_in_the_next_attempt_it_is_created_at_once() -> None:
    scene = Scene("a").nominated("a")
    for turn in range(4):
        scene.clone("a", uid=f"copy-{turn}").clone_gone("a")
        scene.workload({"QuotaReserved": False}, nominated=[]).decide()
        assert scene.workload({"QuotaReserved": True}).names() == ["Nomination", "Clone a"]
        scene.workload(nominated=["a"])
    assert scene.state.attempt == 5


REVERTED: dict[str, tuple[Callable[[], Scene], Callable[[Scene], object]]] = {
    "the nomination, by another dispatcher": (
        lambda: Scene("a", "b").reserved(),
        lambda scene: scene.workload(nominated=["a"]).workload(nominated=[]),
    ),
    "the state of the check, by another controller": (
        lambda: settled().clone("a", {"Evicted": ("Preempted", "for another")}),
        lambda scene: scene.workload(check="Retry").workload(check="Ready"),
    ),
    "that a copy is to stop, by its Kueue": (
        lambda: settled().workload({"Evicted": ("Preempted", "for another")}),
        lambda scene: scene.clone("a", {"DeactivationTarget": True}).clone("a", {"DeactivationTarget": False}),
    ),
    "a field of a copy that follows": (
        lambda: settled().job(synced="new"),
        lambda scene: scene.remote_job("a", synced="new").remote_job("a", synced=""),
    ),
}


@pytest.mark.parametrize("what", REVERTED)
def test_whatever_is_taken_back_each_time_is_not_written_at_full_speed(what: str) -> None:
    begin, revert = REVERTED[what]
    scene, seconds = begin(), []
    for _ in range(12):
        begun = scene.now
        while not [
            one for one in scene.decide() if isinstance(one, WorkloadWrite) and not isinstance(one, CloneDecided)
        ]:
            assert scene.wake is not None
            scene.now = scene.wake
        seconds.append(round((scene.now - begun).total_seconds()))
        revert(scene.tick(milliseconds=10))
    assert seconds == [0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 8, 8]
