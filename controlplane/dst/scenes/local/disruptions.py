"""The steps of a tenth edition: processes that are cut off alone, databases that err, an API server that is overloaded.

In: a step and the scene. Out: what is wrong until its time is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes import faults
from controlplane.dst.scenes.local.actor_protocol import LocalActorContext


def _cut_off(scene: LocalActorContext, step: Step) -> None:
    """A process does not reach its log, or the cluster, or neither, while the others reach everything."""
    sort = step.where.rpartition("-")[0]
    log, way = scene.databases[sort], scene.environment.ways[sort]
    ways: tuple[faults.Barring, ...] = ((log,), (way,), (log, way))[step.value % 3]
    faults.cut_off(scene.after, ways, step.where, step.seconds)


def _database_ailing(scene: LocalActorContext, step: Step) -> None:
    faults.ail(scene.after, scene.databases[step.where], 0.2 + step.value / 100, step.seconds)


def _overload(scene: LocalActorContext, step: Step) -> None:
    faults.overload(scene.after, scene.environment.ways[step.where], step)


ACTS: Final[dict[str, Callable[[LocalActorContext, Step], None]]] = {
    "cut-off": _cut_off,
    "database-ailing": _database_ailing,
    "overload": _overload,
}
