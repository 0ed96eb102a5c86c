"""What the third edition of a plan has beside the second: kubeconfigs that lead to the wrong cluster, objects that
cannot be read, a log that goes back or refuses what it is given, processes that are away while clusters are, and jobs
that cannot be dispatched.

In: a source of its own, so that nothing of the editions before is drawn differently; the workers; the number from which
jobs are counted. Out: steps without numbers. What is drawn here counts as published once a seed of it is pinned; add a
fourth edition then."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from controlplane.dst.engine.drawing import scenes
from controlplane.dst.engine.steps import HORIZON, NEVER_TWICE, UNFIT, Step
from controlplane.simulation.world import MANAGEMENT

_Scene = Callable[[random.Random, Sequence[str]], list[Step]]
FOR_EVER = 2 * HORIZON  # until all trouble ends


def draw(source: random.Random, workers: Sequence[str], first: int) -> list[Step]:
    """Draw the steps: a job that must not run twice, perhaps, and one or two scenes of trouble."""
    steps = []
    if source.random() < 0.5:
        at, seconds = source.uniform(2.0, HORIZON * 0.4), float(source.choice((20, 60, 150, 400)))
        steps.append(Step(0, round(at, 3), "submit", f"{NEVER_TWICE}-{first}", seconds, source.randint(1, 3)))
    return steps + scenes(source, SCENES, source.choice((1, 1, 2)), workers)


def _mislead(source: random.Random, workers: Sequence[str]) -> list[Step]:
    """The kubeconfig of a worker leads to another one, for a while or until all trouble ends; perhaps an operator gives
    the name up.
    """
    at, worker = round(source.uniform(5.0, HORIZON * 0.7), 3), source.choice(workers)
    seconds = FOR_EVER if source.random() < 0.3 else round(source.uniform(10, 320), 1)
    steps = [Step(0, at, "mislead", worker, seconds, source.randint(1, 60))]
    if source.random() < 0.25:
        steps.append(Step(0, round(at + source.uniform(5, 120), 3), "forget", worker, round(source.uniform(20, 90), 1)))
    return steps


def _rebuild(source: random.Random, workers: Sequence[str]) -> list[Step]:
    """A worker is built anew under its name and address."""
    return [Step(0, round(source.uniform(20.0, HORIZON * 0.8), 3), "rebuild", source.choice(workers))]


def _log_back(source: random.Random, _: Sequence[str]) -> list[Step]:
    """The log goes back by a few seconds or minutes."""
    return [Step(0, round(source.uniform(5.0, HORIZON * 0.8), 3), "restore-log", "", round(source.uniform(1, 150), 1))]


def _log_refuses(source: random.Random, _: Sequence[str]) -> list[Step]:
    """The database answers, and refuses whatever is to be written."""
    at, seconds = round(source.uniform(2.0, HORIZON * 0.8), 3), round(source.uniform(2, 90), 1)
    return [Step(0, at, "database-refuses", "", seconds)]


def _away(source: random.Random, workers: Sequence[str], at: float) -> Step:
    return Step(0, round(at, 3), "partition", source.choice(workers), round(source.uniform(150, 320), 1))


def _unwatched(source: random.Random, workers: Sequence[str]) -> list[Step]:
    """A worker is away, and soon every process of ours is too, for a while or for longer than any grace."""
    at = source.uniform(0.0, HORIZON * 0.5)
    absence = Step(0, round(at + source.uniform(5, 90), 3), "absence", "", round(source.uniform(20, 260), 1))
    return [_away(source, workers, at), absence]


def _restless(source: random.Random, workers: Sequence[str]) -> list[Step]:
    """A worker is away, and no process of ours runs for long meanwhile."""
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
    "log-back": (4, _log_back),
    "log-refuses": (2, _log_refuses),
    "unwatched": (4, _unwatched),
    "restless": (2, _restless),
    "unfit": (2, _unfit),
    "unreadable": (4, _unreadable),
}
