"""Who waits is tried again by a process that has other settings, as Kueue does when it starts."""

from __future__ import annotations

from controlplane.controllers.quota.engine.settings import EngineSettings
from tests.quota.admission.scene import Scene, pod_set


def test_who_waits_is_tried_again_with_other_settings() -> None:
    scene = Scene()
    scene.queue("q")
    scene.workload("w", "q", podSets=[pod_set("main", cpu="2", gpu="100")])
    scene.settle()
    assert not scene.is_true("w", "QuotaReserved")
    scene.restart(EngineSettings(ignore_undeclared=True))
    scene.settle()
    assert scene.is_true("w", "Admitted")
