"""A Workload that is taken back from a cluster that was lost."""

from __future__ import annotations

from controlplane.controllers.multikueue.events import CheckStateDecided
from tests.multikueue.scene import Scene

RETRY = 'Admitting remote lost, Previously: "Ready"'


def retry_of(scene: Scene) -> CheckStateDecided | None:
    return next((d for d in scene.decide() if isinstance(d, CheckStateDecided) and d.state == "Retry"), None)


def requeued(scene: Scene) -> Scene:
    """Kueue's part after Retry: evicted, drained, quota released, names gone."""
    scene.workload({"Evicted": True, "Admitted": False}, check="Pending", cluster_name="")
    scene.job(suspended=True, status="00" * 32)
    scene.workload({"Evicted": True, "QuotaReserved": False})
    return scene


def reserved_again(scene: Scene) -> Scene:
    return scene.workload({"QuotaReserved": True, "Evicted": False})


def lost_and_requeued(scene: Scene, winner: str = "a") -> Scene:
    scene.lose(winner).tick(minutes=16)
    assert retry_of(scene) is not None
    return requeued(scene)
