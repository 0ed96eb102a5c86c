"""What the eighth edition of a plan of admission has beside the ones before, which are all alike: rules by which quota
is decided on, a check of somebody else's, jobs of other kinds, elastic jobs, jobs that change their queue; and
administrators who lower quota, and delete queues and classes of priority.

In: a source of its own, so that nothing of the editions before is drawn differently; the letters of the queues; the
steps so far. Out: traits, and steps without numbers. What is drawn here counts as published once a seed of it is
pinned; add a ninth edition then."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from controlplane.dst.engine.drawing import Trouble, kinds, span
from controlplane.dst.engine.steps import HORIZON, NEVER_TWICE, Step
from controlplane.dst.scenes.admission.queues import PRIORITIES
from controlplane.dst.scenes.workloads.fourth_edition import OTHER_KINDS
from controlplane.dst.scenes.workloads.processes import BLOCKS, FAIR, FORGETS, KIND, PODS_READY, USAGE

CHECKS: Final = "checks"
"""ClusterQueues have a check of somebody else's beside MultiKueue's."""
_KINDS: Final = tuple(
    name for name in OTHER_KINDS if name != "TrainJob"
)  # which asks for a runtime that nobody makes here
SUBMISSIONS: Final = frozenset({"submit", "submit-set", "submit-unfit"})
"""The steps of the editions before in which somebody submits a job."""
_RULES: Final = ((FAIR, 0.3), (USAGE, 0.25), (FORGETS, 0.25), (CHECKS, 0.35))
_TROUBLE: Trouble = {
    "lower-quota": (4, 10, 150),
    "delete-queue": (4, 1, 90),
    "delete-class": (2, 5, 90),
    "change-queue": (4, 0, 0),
    "stop-job": (3, 0, 0),
}


def traits(source: random.Random) -> tuple[str, ...]:
    """Draw what holds for the whole run."""
    found = [name for name, share in _RULES if source.random() < share]
    ready = source.choice(("", "", "", PODS_READY, BLOCKS))
    kinds_ = (KIND + name for name in sorted(source.sample(_KINDS, 2)))
    return (*found, *filter(None, (ready,)), *kinds_)


def draw(source: random.Random, drawn: Sequence[str], letters: Sequence[str], before: Sequence[Step]) -> list[Step]:
    """Draw the steps."""
    first = len(before) + 61
    jobs = [step.where for step in before if step.kind in SUBMISSIONS]
    words = [trait.removeprefix(KIND).lower() for trait in drawn if trait.startswith(KIND)]
    steps = [
        submission(source, "submit-kind", f"{_sort(source)}-{source.choice(words)}-{number}", letters)
        for number in range(first, first + source.choice((0, 1, 1, 2)))
    ]
    if source.random() < 0.5:
        steps += _elastic(source, first + 10, letters)
    names = [*jobs, *(step.where for step in steps)]
    for kind in kinds(source, _TROUBLE, source.choice((1, 2, 2, 3, 4))):
        at, seconds = span(source, _TROUBLE, kind)
        steps.append(Step(0, at, kind, source.choice(names), seconds, source.randint(0, 59)))
    if CHECKS in drawn:
        steps.append(Step(0, 0.5, "checker", "", 0.0, source.randint(2, 20)))
    return steps


def _sort(source: random.Random) -> str:
    return NEVER_TWICE if source.random() < 0.2 else "job"


def submission(source: random.Random, kind: str, name: str, letters: Sequence[str]) -> Step:
    """Draw when a job of a name comes, of which queue and priority, how long it runs, and how large it is."""
    name = f"{name}-{source.choice(letters)}-{source.choice(tuple(PRIORITIES))}"
    at = round(source.uniform(2.0, HORIZON * 0.5), 3)
    return Step(0, at, kind, name, float(source.choice((20, 60, 150, 400))), source.randint(1, 3))


def _elastic(source: random.Random, number: int, letters: Sequence[str]) -> list[Step]:
    """An elastic job that becomes larger and smaller, never more than any queue has room for."""
    first = submission(source, "submit-elastic", f"{_sort(source)}-{number}", letters)
    times = sorted(round(source.uniform(first.at + 1.0, HORIZON), 3) for _ in range(source.choice((1, 2, 3))))
    return [first, *(Step(0, at, "resize", first.where, 0.0, source.choice((1, 2, 3))) for at in times)]
