"""What the second edition of a plan has beside the first: scenes, each a step or a few that belong together.

In: a source of its own, so that nothing of the first edition is drawn differently; the workers; the number from which
jobs are counted. Out: steps without numbers. What is drawn here counts as published once a seed of it is pinned; add a
third edition then."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from controlplane.dst.engine.drawing import scenes
from controlplane.dst.engine.steps import HORIZON, NEVER_TWICE, Step
from controlplane.simulation.world import MANAGEMENT

_Scene = Callable[[random.Random, Sequence[str], Sequence[str]], list[Step]]


def draw(source: random.Random, workers: Sequence[str], first: int) -> list[Step]:
    """Draw the steps: none to two JobSets, and one to three scenes of trouble."""
    sorts = [NEVER_TWICE if source.random() < 0.3 else "job" for _ in range(source.choice((0, 1, 1, 2)))]
    names = [f"{sort}-set-{number}" for number, sort in enumerate(sorts, start=first)]
    steps = [_submission(source, name) for name in names]
    return steps + scenes(source, SCENES, source.randint(1, 3), workers, names)


def _at(source: random.Random, latest: float = HORIZON) -> float:
    return round(source.uniform(0.0, latest), 3)


def _lasting(source: random.Random, shortest: float, longest: float) -> float:
    return round(source.uniform(shortest, longest), 1)


def _submission(source: random.Random, name: str) -> Step:
    seconds = float(source.choice((5, 20, 60, 150, 400)))
    return Step(0, round(source.uniform(2.0, HORIZON * 0.5), 3), "submit-set", name, seconds, source.randint(1, 3))


def _sets_off(source: random.Random, workers: Sequence[str], _: Sequence[str]) -> list[Step]:
    """A worker that does not serve JobSets for a while: its operator is being replaced, say."""
    return [Step(0, _at(source), "sets-off", source.choice(workers), _lasting(source, 20, 120))]


def _set_trouble(source: random.Random, _: Sequence[str], sets: Sequence[str]) -> list[Step]:
    """What people do to jobs, done to a JobSet."""
    kind = source.choice(("preempt", "delete-job", "priority", "suspend"))
    step = Step(0, _at(source), kind, "", _lasting(source, 5, 60), source.randint(1, 60))
    return [Step(0, step.at, kind, source.choice(sets), step.seconds, step.value)] if sets else []


def _give_up(source: random.Random, workers: Sequence[str], _: Sequence[str]) -> list[Step]:
    """A worker is away for long, and an operator gives it up: in the middle of it, or just when it comes back."""
    at, seconds, worker = _at(source, HORIZON * 0.6), _lasting(source, 60, 320), source.choice(workers)
    away = Step(0, at, "partition", worker, seconds)
    return [away, Step(0, round(at + source.uniform(0, seconds), 3), "forget", worker, _lasting(source, 20, 150))]


def _blackout(source: random.Random, workers: Sequence[str], _: Sequence[str]) -> list[Step]:
    """Most workers are away together; perhaps an operator takes that for real, perhaps he gives one of them up."""
    at, some = _at(source, HORIZON * 0.6), source.sample(workers, source.randint(2, len(workers)))
    steps = [
        Step(0, round(at + source.uniform(0, 20), 3), "partition", worker, _lasting(source, 40, 320)) for worker in some
    ]
    if source.random() < 0.6:
        steps.append(Step(0, round(at + source.uniform(20, 150), 3), "accept-outage", "", _lasting(source, 20, 150)))
    if source.random() < 0.3:
        steps.append(Step(0, round(at + source.uniform(20, 150), 3), "forget", some[0], _lasting(source, 20, 150)))
    return steps


def _malform(source: random.Random, workers: Sequence[str], _: Sequence[str]) -> list[Step]:
    """A few objects are spoiled, one after the other, on one cluster."""
    where = MANAGEMENT if source.random() < 0.5 else source.choice(workers)
    at, count = _at(source, HORIZON * 0.8), source.randint(1, 3)
    return [
        Step(0, round(at + source.uniform(0, 40), 3), "malform", where, _lasting(source, 5, 120), source.randint(1, 60))
        for _ in range(count)
    ]


def _odd_objects(source: random.Random, workers: Sequence[str], _: Sequence[str]) -> list[Step]:
    """Somebody applies objects that make no sense."""
    where = MANAGEMENT if source.random() < 0.5 else source.choice(workers)
    return [
        Step(0, _at(source), "odd-object", where, _lasting(source, 5, 120), source.randint(1, 60))
        for _ in range(source.randint(1, 3))
    ]


def _restore_home(source: random.Random, _: Sequence[str], __: Sequence[str]) -> list[Step]:
    """The management cluster is put back to what it was some time ago."""
    return [Step(0, _at(source), "restore-home", MANAGEMENT, _lasting(source, 10, 150))]


#: How often each scene is drawn, and what it is.
SCENES: dict[str, tuple[int, _Scene]] = {
    "sets-off": (2, _sets_off),
    "set-trouble": (3, _set_trouble),
    "give-up": (5, _give_up),
    "blackout": (4, _blackout),
    "malform": (5, _malform),
    "odd-objects": (5, _odd_objects),
    "restore-home": (3, _restore_home),
}
