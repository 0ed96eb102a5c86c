"""What the seventh edition of a plan of this scene has beside the sixth: logs that go back, objects that cannot be
read.

In: a source of its own, so that nothing of an earlier edition is drawn differently; the targets, the pods that are
submitted. Out: steps without numbers. What is drawn here counts as published once a seed of it is pinned."""

from __future__ import annotations

import random
from collections.abc import Sequence

from controlplane.dst.engine.steps import HORIZON, Step
from controlplane.dst.scenes.candidates.second_edition import PLACING
from controlplane.simulation.world import MANAGEMENT


def draw(source: random.Random, targets: Sequence[str], pods: Sequence[Step], log: str) -> list[Step]:
    """Draw the steps: a log that goes back, mostly the source's (`log`), objects that are spoiled, both, or nothing."""
    kind = source.choices(("", "log", "objects", "both"), (5, 3, 2, 1))[0]
    steps = []
    if kind in ("log", "both"):
        where = source.choice((log, log, *targets))
        seconds = round(source.uniform(*source.choice(((0.05, 3.0), (5.0, 100.0)))), 2)
        steps.append(Step(0, _at(source, pods), "restore-log", where, seconds))
    if kind in ("objects", "both"):
        where, seconds = source.choice((*targets, MANAGEMENT)), round(source.uniform(5.0, 120.0), 1)
        steps.append(Step(0, _at(source, pods), "malform", where, seconds, source.randint(1, 60)))
    return steps


def _at(source: random.Random, pods: Sequence[Step]) -> float:
    """Draw when something begins: mostly while a pod is placed."""
    if source.random() < 0.75:
        return round(source.choice(pods).at + source.uniform(0.0, PLACING), 3)
    return round(source.uniform(0.0, HORIZON * 0.8), 3)
