"""What the third edition of a plan has beside the second: kubeconfigs that lead to the wrong cluster, objects that cannot be read.

In: a source of its own, so that nothing of the editions before is drawn differently; the workers; the number from which jobs are counted.
Out: steps without numbers. What is drawn here counts as published once a seed of it is pinned; add a fourth edition then.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from controlplane.simulation.deterministic.steps import HORIZON, NEVER_TWICE, Step
from controlplane.simulation.world import MANAGEMENT

_Scene = Callable[[random.Random, Sequence[str]], list[Step]]
FOR_EVER = 2 * HORIZON  # until all trouble ends


def draw(source: random.Random, workers: Sequence[str], first: int) -> list[Step]:
    """Draw the steps: a job that must not run twice, perhaps, and none to two scenes of trouble."""
    steps = []
    if source.random() < 0.5:
        at, seconds = source.uniform(2.0, HORIZON * 0.4), float(source.choice((20, 60, 150, 400)))
        steps.append(Step(0, round(at, 3), "submit", f"{NEVER_TWICE}-{first}", seconds, source.randint(1, 3)))
    kinds, weights = list(SCENES), [weight for weight, _ in SCENES.values()]
    for kind in source.choices(kinds, weights, k=source.choice((0, 1, 1, 2))):
        steps += SCENES[kind][1](source, workers)
    return steps


def _mislead(source: random.Random, workers: Sequence[str]) -> list[Step]:
    """The kubeconfig of a worker leads to another one, for a while or until all trouble ends; perhaps an operator gives the name up."""
    at, worker = round(source.uniform(5.0, HORIZON * 0.7), 3), source.choice(workers)
    seconds = FOR_EVER if source.random() < 0.3 else round(source.uniform(10, 320), 1)
    steps = [Step(0, at, "mislead", worker, seconds, source.randint(1, 60))]
    if source.random() < 0.25:
        steps.append(Step(0, round(at + source.uniform(5, 120), 3), "forget", worker, round(source.uniform(20, 90), 1)))
    return steps


def _rebuild(source: random.Random, workers: Sequence[str]) -> list[Step]:
    """A worker is built anew under its name and address."""
    return [Step(0, round(source.uniform(20.0, HORIZON * 0.8), 3), "rebuild", source.choice(workers))]


def _unreadable(source: random.Random, workers: Sequence[str]) -> list[Step]:
    """Somebody applies objects of which no more can be read than their names."""
    where = MANAGEMENT if source.random() < 0.4 else source.choice(workers)
    return [
        Step(
            0,
            round(source.uniform(0.0, HORIZON * 0.8), 3),
            "unreadable-object",
            where,
            round(source.uniform(5, 120), 1),
            source.randint(1, 60),
        )
        for _ in range(source.randint(1, 3))
    ]


#: How often each scene is drawn, and what it is.
SCENES: dict[str, tuple[int, _Scene]] = {
    "mislead": (6, _mislead),
    "rebuild": (1, _rebuild),
    "unreadable": (4, _unreadable),
}
