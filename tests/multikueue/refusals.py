"""A write that a cluster refuses, as the log has it."""

from __future__ import annotations

from datetime import timedelta

from controlplane.controllers.multikueue.events import EffectFailed
from tests.multikueue.scene import STREAM, Scene


def refuse(
    scene: Scene, target: str, action: str, code: int, error: str, failures: int = 1, *, minutes: int = 0
) -> None:
    event = EffectFailed(
        target=target,
        action=action,
        code=code,
        error=error,
        message=f"{error} said",
        failures=failures,
        retry_at=scene.now + timedelta(minutes=minutes),
    )
    scene.fold(STREAM, event)
