"""Scenes of what may run where nobody can see it."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.multikueue.events import EffectFailed
from tests.multikueue.scene import STREAM, Scene

QUEUED: dict[str, Any] = {"check": "Pending", "cluster_name": "", "nominated": []}


def put_back(scene: Scene) -> Scene:
    """The management cluster is put back to when the Workload had no quota; then it gets some again."""
    scene.job(suspended=True, status="00" * 32, inactive=True)
    scene.workload({"QuotaReserved": False, "Admitted": False}, **QUEUED)
    scene.decide()
    return scene.workload({"QuotaReserved": True})


def creating(policy: str = "") -> Scene:
    """The job's creation on a is under way when a is lost."""
    scene = Scene("a", "b").job(execution_policy=policy).cloned("a", "b")
    scene.clone("a", {"QuotaReserved": True, "Admitted": True})
    assert scene.names() == ["WinnerChosen a", "Removal Workload b", "JobCreation a"]
    scene.clone_gone("b")
    return scene


def refused(scene: Scene, code: int) -> Scene:
    event = EffectFailed(
        target="a/Job",
        action="JobCreationDecided",
        code=code,
        error="",
        message="",
        failures=1,
        retry_at=scene.now,
    )
    scene.fold(STREAM, event, "a")
    return scene
