"""A nomination waits for the write of Kueue's core that is known to come, and for nothing that is not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from controlplane.controllers.multikueue.core_writes import PATIENCE
from controlplane.controllers.multikueue.events import NominationDecided
from tests.multikueue.scene import Scene

NOT_YET = "UnsatisfiedAdmissionChecks"
SOON = timedelta(milliseconds=20)


def nominations(scene: Scene) -> int:
    scene.decide()
    return sum(isinstance(one, NominationDecided) for one in scene.decided)


def seen_before(**policy: Any) -> Scene:
    """Another Workload, of the same Kueue, was told so."""
    return told_another(Scene("a", "b", policy=policy))


def told_another(scene: Scene) -> Scene:
    scene.on("other").job().workload({"QuotaReserved": True})
    return not_yet(scene, check="Ready").on()


def not_yet(scene: Scene, reason: str = NOT_YET, **changes: Any) -> Scene:
    """Core says that it is not admitted yet, and why."""
    return scene.workload({"Admitted": (reason, "", "", "False")}, **changes)


def test_the_nomination_comes_after_cores_write_and_comes_once() -> None:
    scene = seen_before().reserved()
    assert nominations(scene) == 0
    assert scene.wake == scene.now + PATIENCE
    scene.now += SOON
    assert nominations(not_yet(scene)) == 1
    assert nominations(not_yet(scene)) == 2, "any other write in between is a conflict, and it is decided anew"


def test_after_an_eviction_it_is_the_same() -> None:
    scene = told_another(Scene("a", "b").running("a", "a", "b"))
    scene.workload({"Evicted": "Preempted"}, check="Pending", cluster_name="")
    scene.decide()
    not_yet(scene.workload({"QuotaReserved": False}), "NoReservation").decide()
    for cluster in ("a", "b"):
        if cluster in scene.state.remotes:
            scene.remote_job_gone(cluster).clone_gone(cluster)
    scene.decided.clear()
    scene.workload({"QuotaReserved": True, "Evicted": False})
    assert nominations(scene) == 0
    scene.now += SOON
    assert nominations(not_yet(scene)) == 1


def test_a_write_that_does_not_come_is_not_waited_for_beyond_a_moment() -> None:
    scene = seen_before().reserved()
    assert nominations(scene) == 0
    scene.now += PATIENCE
    assert nominations(scene) == 1


def test_what_came_to_nothing_once_is_not_waited_for_again() -> None:
    """Kueue was put back to a version that does not say so, or its gate was switched off."""
    scene = seen_before().reserved()
    scene.now += PATIENCE
    assert nominations(scene) == 1
    scene.workload(nominated=["a", "b"])
    scene.on("next").workload({"QuotaReserved": True})
    assert nominations(scene) == 2


def test_a_kueue_that_never_said_so_is_not_waited_for() -> None:
    assert nominations(Scene("a", "b").reserved()) == 1


def test_a_restart_does_not_begin_the_wait_anew() -> None:
    scene = seen_before().reserved()
    scene.now += PATIENCE
    scene.workload()
    assert nominations(scene) == 1


def test_a_workload_that_says_it_already_is_nominated_at_once() -> None:
    scene = seen_before().job()
    assert nominations(not_yet(scene.workload({"QuotaReserved": True}))) == 1


def test_one_that_is_made_again_has_a_wait_of_its_own() -> None:
    scene = seen_before().reserved()
    scene.decide()
    scene.now += PATIENCE
    scene.gone().workload(uid="again")
    assert nominations(scene) == 0
