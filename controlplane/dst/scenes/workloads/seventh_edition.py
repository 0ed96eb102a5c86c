"""What the seventh edition of a plan has beside the sixth: the users' namespace is deleted on a worker, with all that
is in it, and is there again after a while.

In: a source of its own, so that nothing of the editions before is drawn differently. Out: steps without numbers. What
is drawn here counts as published once a seed of it is pinned; add an eighth edition then."""

from __future__ import annotations

import random
from collections.abc import Sequence

from controlplane.dst.engine.steps import HORIZON, Step


def draw(source: random.Random, workers: Sequence[str]) -> list[Step]:
    """Draw the steps: none, one or two."""
    return [
        Step(0, _at(source), "delete-namespace", source.choice(workers), round(source.uniform(0, 90), 1))
        for _ in range(source.choice((0, 0, 1, 1, 2)))
    ]


def _at(source: random.Random) -> float:
    return round(source.uniform(3.0, HORIZON * 0.6), 3)
