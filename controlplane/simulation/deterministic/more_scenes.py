"""What the third edition of a plan has beside the second: processes that are away while clusters are, and jobs that cannot be dispatched.

In: a source of its own, so that nothing of the editions before is drawn differently; the workers. Out: steps without numbers. What is drawn
here counts as published once a seed of it is pinned; add a fourth edition then.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from controlplane.simulation.deterministic.steps import HORIZON, UNFIT, Step

_Scene = Callable[[random.Random, Sequence[str]], list[Step]]


def draw(source: random.Random, workers: Sequence[str]) -> list[Step]:
    """Draw the steps of one or two scenes."""
    kinds, weights = list(SCENES), [weight for weight, _ in SCENES.values()]
    steps: list[Step] = []
    for kind in sorted(set(source.choices(kinds, weights, k=2))):
        steps += SCENES[kind][1](source, workers)
    return steps


def _away(source: random.Random, workers: Sequence[str], at: float) -> Step:
    return Step(0, round(at, 3), "partition", source.choice(workers), round(source.uniform(150, 320), 1))


def _unwatched(source: random.Random, workers: Sequence[str]) -> list[Step]:
    """A worker is away, and soon every process of ours is too, for a while or for longer than any grace."""
    at = source.uniform(0.0, HORIZON * 0.5)
    absence = Step(0, round(at + source.uniform(5, 90), 3), "absence", "", round(source.uniform(20, 260), 1))
    return [_away(source, workers, at), absence]


def _restless(source: random.Random, workers: Sequence[str]) -> list[Step]:
    """A worker is away, and no process of ours lives for long meanwhile."""
    at = source.uniform(0.0, HORIZON * 0.4)
    restarts = Step(
        0,
        round(at + source.uniform(5, 30), 3),
        "restarts",
        "",
        round(source.uniform(60, 240), 1),
        source.randint(25, 70),
    )
    return [_away(source, workers, at), restarts]


def _unfit(source: random.Random, _: Sequence[str]) -> list[Step]:
    """Somebody submits a job that asks for an execution policy which does not exist."""
    return [Step(0, round(source.uniform(2.0, HORIZON), 3), "submit-unfit", f"{UNFIT}-1", 60.0, source.randint(1, 3))]


#: How often each scene is drawn, and what it is.
SCENES: dict[str, tuple[int, _Scene]] = {
    "unwatched": (4, _unwatched),
    "restless": (2, _restless),
    "unfit": (2, _unfit),
}
