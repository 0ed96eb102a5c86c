"""A job ended on a cluster that is used under another name by now: its last status comes from there."""

from __future__ import annotations

import pytest

from controlplane.controllers.multikueue.events import StatusRelayDecided
from tests.multikueue.scene import Scene

ENDED = "33" * 32


def finished(reason: str) -> Scene:
    """A Workload that is finished by a copy on `a`, whose last status nobody could read before that name was
    removed."""
    scene = Scene("a", "b").running("a", "a", "b").tick(seconds=1)
    scene.decide()
    scene.job(status="11" * 32, inactive=False)
    scene.workload({"Finished": ("Succeeded", "done")})
    scene.disconnect("a")
    scene.clone("b", {"QuotaReserved": True, "Admitted": True, "Finished": (reason, "done")})
    return scene.remote_job("b", suspended=False, finished=True, status=ENDED)


def test_the_last_status_is_taken_from_there() -> None:
    relayed = [one for one in finished("Succeeded").decide() if isinstance(one, StatusRelayDecided)]
    assert [(one.source, one.status) for one in relayed] == [("b", ENDED)]


def test_one_that_ended_otherwise_is_another_run() -> None:
    assert not [one for one in finished("Failed").decide() if isinstance(one, StatusRelayDecided)]


@pytest.mark.parametrize("reason", ["Succeeded", "Failed"])
def test_a_cluster_that_is_only_lost_tells_it_itself(reason: str) -> None:
    scene = finished(reason)
    scene.connect("a").lose("a")
    assert not [one for one in scene.decide() if isinstance(one, StatusRelayDecided)]
